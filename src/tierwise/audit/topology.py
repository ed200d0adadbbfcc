"""Check hard network topology: the pods of a gang, and of each sub-group, are inside one hyperNode."""

from __future__ import annotations

from collections.abc import Iterator

import re2

from tierwise.api.core import Node, Pod
from tierwise.api.limits import DEPTH
from tierwise.api.selector import matches
from tierwise.api.volcano import HyperNode, MemberSpec, NetworkTopologySpec, PodGroup
from tierwise.audit.gangs import members, sub_groups
from tierwise.audit.pods import Finding, stands
from tierwise.port import Objects

__all__ = ["topology"]


def topology(objects: Objects) -> Iterator[Finding]:
    """Gangs and sub-groups that stand wider than they may."""
    tree = _Tree(objects)
    inside = members(objects)
    for path, record in objects.every(PodGroup).items():
        standing = [pod for pod in inside[path] if stands(pod) and pod.spec.node_name]
        if text := tree.too_wide(record.spec.network_topology, standing):
            yield Finding("too-wide", f"PodGroup {path}", text)
        for policy, groups in sub_groups(record, standing):
            for values, pods in sorted(groups.items()):
                if text := tree.too_wide(policy.network_topology, pods):
                    yield Finding("too-wide", f"PodGroup {path}, {policy.name} {'-'.join(values)}", text)


class _Tree:
    """HyperNodes as sets of nodes."""

    def __init__(self, objects: Objects) -> None:
        self._hypernodes = objects.every(HyperNode)
        self._nodes = objects.every(Node)
        nodes = {name: node.metadata.labels for name, node in self._nodes.items()}
        others = {name: hypernode.metadata.labels for name, hypernode in self._hypernodes.items()}
        self._own: dict[str, set[str]] = {}
        self._inner: dict[str, set[str]] = {}
        for name, hypernode in self._hypernodes.items():
            self._own[name], self._inner[name] = set(), set()
            for member in hypernode.spec.members:
                if member.type == "HyperNode":
                    self._inner[name] |= self._selected(member, others)
                else:
                    self._own[name] |= self._selected(member, nodes)
        self._sets = {name: self._below(name) for name in self._hypernodes}

    def too_wide(self, wanted: NetworkTopologySpec | None, pods: list[Pod]) -> str:
        """What is wrong with where pods stand; "" where nothing is."""
        if wanted is None or wanted.mode.lower() == "soft" or not pods:
            return ""
        limit = self._limit(wanted)
        if limit is None:
            return ""
        nodes = {pod.spec.node_name for pod in pods}
        tiers = [h.spec.tier for name, h in self._hypernodes.items() if nodes <= self._sets[name]]
        if any(tier <= limit for tier in tiers):
            return ""
        where = f"only one of tier {min(tiers)} holds them" if tiers else "none holds them"
        return f"{len(pods)} pods on {len(nodes)} nodes must stand within one hyperNode of tier {limit}, and {where}"

    def _limit(self, wanted: NetworkTopologySpec) -> int | None:
        """The highest tier allowed; None where that is no limit: a name that nobody has, or the whole cluster."""
        highest = max((h.spec.tier for h in self._hypernodes.values()), default=0)
        limit = wanted.highest_tier_allowed
        if wanted.highest_tier_name:
            named = [h.spec.tier for h in self._hypernodes.values() if h.spec.tier_name == wanted.highest_tier_name]
            limit = max(named, default=None)
        return None if limit is None or limit > highest else limit

    def _below(self, name: str) -> frozenset[str]:
        """The nodes below a hyperNode; what stands deeper than a tree may be belongs to none that is in use."""
        found: set[str] = set()
        seen: set[str] = set()
        layer = {name}
        for _ in range(DEPTH):
            seen |= layer
            found.update(*(self._own[inner] for inner in layer))
            layer = {inner for outer in layer for inner in self._inner[outer]} - seen
            if not layer:
                break
        return frozenset(found)

    def _selected(self, member: MemberSpec, there: dict[str, dict[str, str]]) -> set[str]:
        select = member.selector
        if select.exact_match is not None:
            return {select.exact_match.name} & there.keys()
        if select.regex_match is not None:
            options = re2.Options()
            options.log_errors = False  # or the library writes the pattern to the terminal, as it is
            try:
                pattern = re2.compile(select.regex_match.pattern, options=options)
            except re2.error:
                return set()
            return {name for name in there if pattern.search(name)}
        return {name for name, labels in there.items() if select.label_match and matches(select.label_match, labels)}
