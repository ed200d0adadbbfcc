"""Check hard network topology: the pods of a gang, and of each sub-group, are where its constraints want them.

A constraint is about the hyperNodes of one fabric, or about a tree of node labels; each is looked at by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import re2

from tierwise.api.core import Node, Pod
from tierwise.api.kai import Topology as KaiTopology
from tierwise.api.koordinator import ClusterNetworkTopology
from tierwise.api.kueue import Topology as KueueTopology
from tierwise.api.limits import DEPTH
from tierwise.api.meta import ObjectMeta
from tierwise.api.selector import matches
from tierwise.api.volcano import HyperNode, MemberSpec, NetworkTopologySpec, PodGroup
from tierwise.audit.gangs import members, sub_groups
from tierwise.audit.gathered import layers
from tierwise.audit.pods import Finding, stands
from tierwise.port import Objects

__all__ = ["fabric_findings", "topology"]


def topology(objects: Objects) -> Iterator[Finding]:
    """Gangs and sub-groups that stand wider than they may."""
    trees: dict[str, _Tree] = {}
    inside = members(objects)
    for path, record in objects.every(PodGroup).items():
        standing = [pod for pod in inside[path] if stands(pod) and pod.spec.node_name]
        fabric = _fabric(record.metadata)
        tree = trees.setdefault(fabric, _Tree(objects, fabric))
        if text := tree.too_wide(record.spec.network_topology, standing):
            yield Finding("too-wide", f"PodGroup {path}", text)
        yield from fabric_findings(objects, record.metadata, f"PodGroup {path}", standing, trees=trees)
        for policy, groups in sub_groups(record, standing):
            for values, pods in sorted(groups.items()):
                whose = f"PodGroup {path}, {policy.name} {'-'.join(values)}"
                inner = record.metadata.annotations.get(f"tierwise.io/fabric.{policy.name}", fabric)
                own = trees.setdefault(inner, _Tree(objects, inner))
                if text := own.too_wide(policy.network_topology, pods):
                    yield Finding("too-wide", whose, text)
                yield from fabric_findings(objects, record.metadata, whose, pods, sub_group=policy.name, trees=trees)


def fabric_findings(
    objects: Objects,
    meta: ObjectMeta,
    subject: str,
    pods: list[Pod],
    *,
    level: str = "",
    sub_group: str = "",
    trees: dict[str, _Tree] | None = None,
) -> Iterator[Finding]:
    """Pods of a group, or of one of its sub-groups, that stand where a listed constraint does not want them.

    `level` is a constraint of the group's own language, which is about the fabric that the group names.
    """
    own, known = _fabric(meta), {} if trees is None else trees
    entries = [entry for entry in _listed(meta) if str(entry.get("subGroup") or "") == sub_group]
    if level and own:
        entries.append({"tier": level})
    for entry in entries:
        if text := _misplaced(objects, known, entry, own, pods):
            yield Finding("too-wide", subject, text)


def _fabric(meta: ObjectMeta) -> str:
    """The fabric that an object names; "" for the hyperNodes that name none."""
    name = meta.labels.get("tierwise.io/fabric") or meta.annotations.get("tierwise.io/fabric", "")
    return "" if name.strip() == "HyperNode" else name.strip()


def _listed(meta: ObjectMeta) -> Iterator[dict[str, object]]:
    """The hard constraints that a group lists besides its own; one that cannot be read has placed no pods."""
    try:
        found = msgspec.json.decode(meta.annotations.get("tierwise.io/topology-constraints", "").strip() or "[]")
    except (msgspec.DecodeError, RecursionError):  # the latter of lists in lists in lists
        found = []
    for entry in found if isinstance(found, list) else ():
        if isinstance(entry, dict) and str(entry.get("mode", "hard")).lower() == "hard" and _readable(entry):
            yield entry


def _readable(entry: dict[str, object]) -> bool:
    """Whether the fields are of the types that they must have; a bool is no number."""
    fabric, tier, spread = entry.get("fabric", ""), entry.get("tier"), entry.get("spread")
    return isinstance(fabric, str) and type(tier) in (int, str) and (spread is None or type(spread) is int)


def _misplaced(objects: Objects, trees: dict[str, _Tree], entry: dict[str, object], own: str, pods: list[Pod]) -> str:
    """What is wrong with where pods stand under a listed constraint; "" where nothing is."""
    fabric = str(entry.get("fabric") or own)
    fabric = "" if fabric == "HyperNode" else fabric
    tier, spread = entry.get("tier"), entry.get("spread") or 0
    if not pods or not isinstance(spread, int):
        return ""
    nodes = {pod.spec.node_name for pod in pods}
    domains = _labelled(objects, fabric, str(tier))
    if domains is None:
        domains = trees.setdefault(fabric, _Tree(objects, fabric)).domains(tier)
    if not domains:
        return f"{len(pods)} pods stand, and fabric {fabric or 'HyperNode'} has no domain of tier {tier}"
    whole, level = f"of fabric {fabric or 'HyperNode'}", f"tier {tier}" if isinstance(tier, int) else f"{tier}"
    used = sum(not nodes.isdisjoint(domain) for domain in domains)
    if spread and used < spread:
        return f"{len(pods)} pods must stand in {spread} domains of {level} {whole}, and stand in {used}"
    if not spread and not any(nodes <= domain for domain in domains):
        one = f"domain of {level}" if isinstance(tier, int) else level
        return f"{len(pods)} pods on {len(nodes)} nodes must stand in one {one} {whole}, and none holds them"
    return ""


def _labelled(objects: Objects, fabric: str, level: str) -> list[frozenset[str]] | None:
    """The domains of a level that labels make, as sets of nodes; None where the tree is one of hyperNodes."""
    fabric = _named(objects).get(fabric, fabric)
    if fabric == "ClusterNetworkTopology":
        chain = layers(objects)
        outwards = list(chain.values())[list(chain).index(level) :] if level in chain else []
    elif fabric.startswith("Topology "):
        group, _, name = fabric.removeprefix("Topology ").partition("/")
        kai, kueue = objects.every(KaiTopology).get(name), objects.every(KueueTopology).get(name)
        record = kai if group == "kai.scheduler" else kueue
        keys = [entry.node_label for entry in record.spec.levels] if record is not None else []
        outwards = [(key,) for key in keys[: keys.index(level) + 1]] if level in keys else []
    else:
        return None
    found: dict[tuple[str, ...], set[str]] = {}
    for name, node in objects.every(Node).items() if outwards else ():
        values = tuple(next((v for key in keys if (v := node.metadata.labels.get(key, ""))), "") for keys in outwards)
        if all(values):
            found.setdefault(values, set()).add(name)
    return [frozenset(names) for names in found.values()]


def _named(objects: Objects) -> dict[str, str]:
    """The fabrics that declarations of other trees say to be, and the names of these trees."""
    layered = objects.every(ClusterNetworkTopology).get("default")
    found = {_fabric(layered.metadata): "ClusterNetworkTopology"} if layered is not None else {}
    for name, one in objects.every(KaiTopology).items():
        found[_fabric(one.metadata)] = f"Topology kai.scheduler/{name}"
    for name, other in objects.every(KueueTopology).items():
        found[_fabric(other.metadata)] = f"Topology kueue.x-k8s.io/{name}"
    return {name: tree for name, tree in found.items() if name}


class _Tree:
    """The hyperNodes of one fabric as sets of nodes."""

    def __init__(self, objects: Objects, fabric: str) -> None:
        self._hypernodes = {
            name: record for name, record in objects.every(HyperNode).items() if _fabric(record.metadata) == fabric
        }
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

    def domains(self, tier: object) -> list[frozenset[str]]:
        """The widest domains up to a tier, by number or by name."""
        named = [h.spec.tier for h in self._hypernodes.values() if h.spec.tier_name == tier]
        limit = tier if isinstance(tier, int) else min(named, default=None)
        within = [name for name, h in self._hypernodes.items() if limit is not None and h.spec.tier <= limit]
        inner = {child for name in within for child in self._inner[name]}
        return [self._sets[name] for name in within if name not in inner]

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
