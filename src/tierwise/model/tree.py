"""Grow a `Topology` from declared domains, and set aside whatever is wrong with the declaration.

`dialects` calls `build_tree` with plain declarations, whatever API object they came from.
Nothing here raises for a wrong tree: a wrong tree is a list of problems and a smaller tree.

A domain is broken if it, or anything below it, has an error; a sound domain below a broken one stays usable
and hangs on the root. Errors: a cycle, two parents, a child whose tier is not below its parent's, a tier or a chain
beyond its limit, and nodes that two domains claim without one containing the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from tierwise.api.cycles import cycle_text, find_cycles
from tierwise.api.limits import DEPTH, TIER
from tierwise.api.natural import natural
from tierwise.model.arrays import Ints, ranks
from tierwise.model.topology import ROOT_NAME, Problem, Topology

if TYPE_CHECKING:
    from tierwise.api.domain_amounts import Amount

__all__ = ["Declared", "build_tree"]


class Declared(msgspec.Struct, frozen=True):
    """One domain as it was declared; `nodes` are names that exist, `children` names of other domains."""

    name: str
    tier: int
    tier_name: str = ""
    nodes: frozenset[str] = frozenset()
    children: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    amounts: tuple[Amount, ...] = ()


def build_tree(
    declared: Sequence[Declared],
    node_names: Sequence[str],
    tiers: Mapping[str, int] | None = None,
    *,
    place: Mapping[str, int] | None = None,
) -> tuple[Topology, Ints]:
    """The tree over all nodes, and the order of `node_names` that its rows have.

    `tiers` names tiers whatever domains there are: a layer may be empty, nodes may have a layer of their own (0),
    and the highest is the root's. `place` is that of every node in natural order, for those who know it.
    """
    by_name = {d.name: d for d in sorted(declared, key=lambda d: natural(d.name))}
    if place is None:
        place = {name: i for i, name in enumerate(sorted(node_names, key=natural))}
    draft = _Draft(by_name, place, _Claims.of(by_name.values(), place), tiers or {})
    draft.check_children()
    draft.check_claims()
    draft.check_nodes()
    return _Walk(draft).topology(node_names)


class _Claims(msgspec.Struct, frozen=True):
    """Which domain claims which node, as pairs: the domains in order, with their nodes in any."""

    domain: Ints  # index of the domain
    node: Ints  # place of the node
    shared: frozenset[int]  # the places of nodes that several domains claim

    @classmethod
    def of(cls, declared: Collection[Declared], place: Mapping[str, int]) -> _Claims:
        sizes = np.fromiter((len(d.nodes) for d in declared), np.int64, len(declared))
        every = chain.from_iterable(d.nodes for d in declared)
        node = np.fromiter(map(place.__getitem__, every), np.int64, int(sizes.sum()))
        shared = np.flatnonzero(np.bincount(node) > 1)
        return cls(np.repeat(np.arange(len(sizes)), sizes), node, frozenset(shared.tolist()))


class _Draft(msgspec.Struct):
    """Declarations on their way to a tree: who is whose parent, what is broken, and why."""

    declared: dict[str, Declared]
    place: Mapping[str, int]  # of every node in natural order
    claims: _Claims
    tiers: Mapping[str, int] = {}
    problems: list[Problem] = []
    broken: set[str] = set()
    claimers: dict[str, list[str]] = {}  # child -> the domains that name it
    parent: dict[str, str] = {}
    below: dict[str, list[str]] = {}  # the other way round, kept while nodes are checked
    all_nodes: dict[str, frozenset[str]] = {}  # of domains that were asked about, see `_nodes`

    def fail(self, name: str, code: str, text: str) -> None:
        self.problems.append(Problem(name, code, text, error=True))
        self._break(name)

    def _break(self, name: str) -> None:
        """Mark a domain and everything that contains it; what they contain is outside of any domain from then on."""
        pending = [name]
        while pending:
            current = pending.pop()
            if current not in self.broken:
                self.broken.add(current)
                pending += self.claimers.get(current, [])
                if current in self.parent:
                    pending.append(self.parent[current])
                for child in self.below.pop(current, ()):
                    del self.parent[child]

    def check_children(self) -> None:
        for d in self.declared.values():
            self.problems += d.problems
            for child in dict.fromkeys(d.children):
                if child in self.declared:
                    self.claimers.setdefault(child, []).append(d.name)
                else:
                    text = f"member hyperNode {child} does not exist"
                    self.problems.append(Problem(d.name, "MissingMember", text, error=False))
            if not -TIER <= d.tier <= TIER:
                self.fail(d.name, "TierOutOfRange", f"tier {d.tier} is beyond {TIER}, the highest there may be")
        self._check_tier_names()

    def _check_tier_names(self) -> None:
        tiers: dict[str, int] = {}
        for d in self.declared.values():
            known = tiers.setdefault(d.tier_name, d.tier) if d.tier_name else d.tier
            if known != d.tier:
                text = f"tierName {d.tier_name} is tier {d.tier} here and tier {known} elsewhere"
                self.problems.append(Problem(d.name, "TierNameConflict", text, error=False))

    def check_claims(self) -> None:
        for cycle in find_cycles({name: d.children for name, d in self.declared.items()}):
            for name in cycle:
                self.fail(name, "Cycle", f"cyclic dependency: {cycle_text(cycle)}")
        for child, claimers in self.claimers.items():
            if len(claimers) > 1:
                for name in claimers:
                    others = ", ".join(c for c in claimers if c != name)
                    self.fail(name, "TwoParents", f"hyperNode {child} already has a parent {others}: two parents")
            for name in claimers:
                inner = self.declared[child].tier
                outer = self.declared[name].tier
                if child != name and inner >= outer:
                    text = f"child {child} has tier {inner}, which is not below tier {outer} of its parent"
                    self.fail(name, "TierOrder", text)
        self._check_depth()
        for child, claimers in self.claimers.items():
            if claimers[0] not in self.broken:
                self.parent[child] = claimers[0]

    def _check_depth(self) -> None:
        """Domains with too long a chain below them are out, and so is all around them; layer by layer, not by depth."""
        layer = [name for name, d in self.declared.items() if not any(child in self.declared for child in d.children)]
        for _ in range(DEPTH):
            above = dict.fromkeys(outer for name in layer for outer in self.claimers.get(name, ()))
            layer = [name for name in above if name not in self.broken]
        for name in layer:
            if name not in self.broken:
                text = f"more than {DEPTH} hyperNodes are in one chain from here inwards: too deep"
                self.fail(name, "TooDeep", text)

    def check_nodes(self) -> None:
        """Every node's domains must form one chain; adopt what is contained, break what overlaps.

        What was found sound stays so: an added parent takes nothing out of a chain, and with a domain that breaks all
        around it break. So nothing is looked at twice, and nodes that one domain claims need no look.
        """
        for child, parent in self.parent.items():
            self.below.setdefault(parent, []).append(child)
        shared = self.claims.shared
        seen: dict[str, str] = {}  # by node, the innermost domain so far
        for name, d in self.declared.items() if shared else ():
            place = self.place
            for node in sorted((node for node in d.nodes if place[node] in shared), key=place.__getitem__):
                if name in self.broken:
                    break
                other = seen.get(node)
                if other is None or other in self.broken:
                    seen[node] = name
                    continue
                if name not in self.chain(other) and other not in self.chain(name):
                    self._resolve(other, name, node)
                if name not in self.broken and other in self.chain(name):
                    seen[node] = name

    def _resolve(self, one: str, two: str, node: str) -> None:
        """A node is in two domains, and neither is known to be around the other."""
        if not (self._adopt(one, two) or self._adopt(two, one)):
            for name, other in ((one, two), (two, one)):
                self.fail(name, "Overlap", f"node {node} is in {name} and in {other}: they overlap")

    def chain(self, name: str) -> list[str]:
        """A domain and the domains around it, innermost first."""
        chain = [name]
        while chain[-1] in self.parent:
            chain.append(self.parent[chain[-1]])
        return chain

    def _adopt(self, inner: str, outer: str) -> bool:
        """Hang `inner` below `outer` if `outer` contains its nodes but does not name it.

        Returns whether that was done.
        """
        top = self.chain(inner)[-1]
        fits = self.declared[top].tier < self.declared[outer].tier
        if len(self.chain(inner)) + len(self.chain(outer)) > DEPTH:
            return False
        if not fits or top == outer or not self._nodes(top) <= self._nodes(outer):
            return False
        self.parent[top] = outer
        self.below.setdefault(outer, []).append(top)
        text = f"contains all nodes of {top} without naming it as a member: taken as its parent"
        self.problems.append(Problem(outer, "ImpliedMember", text, error=False))
        return True

    def _nodes(self, name: str) -> frozenset[str]:
        """Every node below a domain; those that it adopts have no others."""
        if name not in self.all_nodes:
            inner = set(self.declared[name].nodes)
            pending = list(self.below.get(name, ()))
            while pending:
                child = pending.pop()
                inner |= self.declared[child].nodes
                pending += self.below.get(child, ())
            self.all_nodes[name] = frozenset(inner)
        return self.all_nodes[name]


class _Walk:
    """The depth-first walk that numbers domains; rows follow it, so arrays say where they are."""

    def __init__(self, draft: _Draft) -> None:
        self._draft = draft
        self._sound = {n: d for n, d in draft.declared.items() if n not in draft.broken}
        self._names: list[str] = []
        self._parents: list[int] = []
        self._below: dict[str, list[str]] = {}
        for name in self._sound:
            self._below.setdefault(draft.parent.get(name, ""), []).append(name)
        self._last: Ints
        self._left: Ints  # by number of a domain: how many were left before it
        self._visit_all()

    def topology(self, node_names: Sequence[str]) -> tuple[Topology, Ints]:
        draft = self._draft
        top = max(1 + max((min(d.tier, TIER) for d in draft.declared.values()), default=0), *draft.tiers.values(), 0)
        names = (ROOT_NAME, *self._names[1:])
        tiers = np.array([top, *(self._sound[n].tier for n in self._names[1:])], dtype=np.int64)
        by_name = sorted(range(len(names)), key=lambda i: natural(names[i]))
        chains = self._chains()
        # Children before the nodes that are in a domain directly: rows have the order in which domains are left.
        place = np.fromiter(map(draft.place.__getitem__, node_names), np.int64, len(node_names))
        home = self._homes(chains)[place]
        order = np.lexsort((place, self._left[home]))
        upto = np.concatenate(([0], np.cumsum(np.bincount(self._left[home], minlength=len(names)))))
        topology = Topology(
            name=names,
            tier=tiers,
            parent=np.array(self._parents, dtype=np.int64),
            start=upto[self._left + 1 - (self._last - np.arange(len(names)))],
            end=upto[self._left + 1],
            last=self._last,
            leaf=home[order],
            rank=ranks(by_name),
            children=self._children(),
            chains=chains,
            at_tier={int(t): np.flatnonzero(tiers == t) for t in sorted(set(tiers.tolist()))},
            tier_names=self._tier_names(),
            index={name: i for i, name in enumerate(names)},
            problems=tuple(sorted(draft.problems, key=lambda p: (natural(p.domain), p.code, p.text))),
            set_aside=tuple(n for n in draft.declared if n in draft.broken),
            amounts={
                i: self._sound[name].amounts for i, name in enumerate(self._names) if i and self._sound[name].amounts
            },
        )
        return topology, order

    def _homes(self, chains: Sequence[Ints]) -> Ints:
        """By place of a node, the innermost domain that claims it."""
        claims = self._draft.claims
        number = {name: i for i, name in enumerate(self._names)}
        numbers = np.array([number.get(name, -1) for name in self._draft.declared], dtype=np.int64)
        depths = np.array([*map(len, chains)], dtype=np.int64)
        sound = np.flatnonzero(numbers[claims.domain] >= 0) if len(numbers) else claims.domain
        inwards = sound[np.argsort(depths[numbers[claims.domain[sound]]], kind="stable")]
        homes = np.zeros(len(self._draft.place), dtype=np.int64)
        homes[claims.node[inwards]] = numbers[claims.domain[inwards]]  # of several the last counts
        return homes

    def _visit_all(self) -> None:
        """A stack, since trees may be deep."""
        spans: list[tuple[int, int]] = []  # by number: the first domain behind those below it, and how many were left
        left = 0
        work: list[tuple[str, int, bool]] = [("", -1, False)]
        while work:
            name, number, leaving = work.pop()
            if leaving:
                spans[number] = len(self._names), left
                left += 1
                continue
            parent = number
            number = len(self._names)
            self._names.append(name)
            self._parents.append(parent)
            spans.append((0, 0))
            work.append((name, number, True))
            work += [(child, number, False) for child in reversed(self._below.get(name, []))]
        self._last, self._left = np.array(spans, dtype=np.int64).T.copy()

    def _children(self) -> tuple[tuple[int, ...], ...]:
        children: list[list[int]] = [[] for _ in self._parents]
        for number, parent in enumerate(self._parents[1:], start=1):
            children[parent].append(number)
        return tuple(tuple(c) for c in children)

    def _chains(self) -> tuple[Ints, ...]:
        chains: list[Ints] = []
        for number, parent in enumerate(self._parents):  # parents come before their children
            own = np.array([number], dtype=np.int64)
            chains.append(own if parent < 0 else np.concatenate((own, chains[parent])))
        return tuple(chains)

    def _tier_names(self) -> dict[str, int]:
        """Where one name means several tiers the tightest reading holds."""
        names = dict(self._draft.tiers)
        for d in self._draft.declared.values():
            if d.tier_name:
                names[d.tier_name] = min(d.tier, names.get(d.tier_name, d.tier))
        return names
