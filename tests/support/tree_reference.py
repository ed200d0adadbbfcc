"""Domains over nodes by the obvious rule: look for the first clash, settle it, and look again from the beginning."""

from __future__ import annotations

from collections.abc import Mapping

from tierwise.api.natural import natural

__all__ = ["ReferenceTree"]


class ReferenceTree:
    """Domains that name nodes and no other domains; who is whose parent, and who is broken."""

    def __init__(self, nodes: Mapping[str, frozenset[str]], tiers: Mapping[str, int]) -> None:
        self.nodes = {name: nodes[name] for name in sorted(nodes, key=natural)}
        self.tiers = tiers
        self.parent: dict[str, str] = {}
        self.broken: set[str] = set()
        self.problems: set[tuple[str, str]] = set()
        while (clash := self._first_clash()) is not None:
            one, two = clash
            if not (self._adopt(one, two) or self._adopt(two, one)):
                self.problems |= {(one, "Overlap"), (two, "Overlap")}
                self.broken |= {*self._chain(one), *self._chain(two)}
                self.parent = {c: p for c, p in self.parent.items() if not {c, p} & self.broken}

    def _first_clash(self) -> tuple[str, str] | None:
        seen: dict[str, str] = {}
        for name in self.nodes:
            for node in sorted(self.nodes[name], key=natural) if name not in self.broken else ():
                other = seen.get(node)
                if other is None or name in self._chain(other):
                    seen.setdefault(node, name)
                elif other in self._chain(name):
                    seen[node] = name
                else:
                    return other, name
        return None

    def _chain(self, name: str) -> list[str]:
        return [name, *(self._chain(self.parent[name]) if name in self.parent else ())]

    def _adopt(self, inner: str, outer: str) -> bool:
        top = self._chain(inner)[-1]
        if top == outer or self.tiers[top] >= self.tiers[outer] or not self.nodes[top] <= self.nodes[outer]:
            return False
        self.parent[top] = outer
        self.problems.add((outer, "ImpliedMember"))
        return True
