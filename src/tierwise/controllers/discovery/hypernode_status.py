"""The status of every hyperNode: the number of nodes below it, and the problems of its declaration.

Called by `controllers.run`. Writes status only; `labels` and `sources` create and delete hyperNodes. Beside `Ready`
there is a condition for each kind of problem, and `Discovered` is false while the source of a hyperNode cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.core import ConfigMap, Node
from tierwise.api.limits import DEPTH
from tierwise.api.volcano import HyperNode
from tierwise.controllers.stamp import stamp
from tierwise.dialects.volcano.discovery import SOURCE_LABEL
from tierwise.dialects.volcano.hypernodes import by_fabric, declare
from tierwise.model.topology import Problem, Topology
from tierwise.model.tree import Declared, build_tree
from tierwise.port import Effect, Objects, PatchStatus, key_of

__all__ = ["HyperNodeStatus", "reconcile"]

_READY: Final = "Ready"
_DISCOVERED: Final = "Discovered"
_CODES: Final = frozenset(
    {
        "BadPattern",
        "BrokenMember",
        "Cycle",
        "EmptyMember",
        "IgnoredMember",
        "ImpliedMember",
        "MissingMember",
        "MissingNode",
        "Overlap",
        "TierNameConflict",
        "TierOutOfRange",
        "TierOrder",
        "TooDeep",
        "TwoParents",
    }
)
_OURS: Final = frozenset({_READY, _DISCOVERED, "Broken", *_CODES})
"""Types of conditions that are written here, and so taken back here; `Broken` was one of an earlier version."""


class HyperNodeStatus:
    """Status of HyperNodes on a live cluster: objects are looked at only when nodes or HyperNodes have changed.

    Kubelets report all the time, and of nodes only names and labels matter here.
    """

    def __init__(self) -> None:
        self._settled: Objects | None = None  # what was seen when there was nothing to write

    def reconcile(self, objects: Objects, now: float) -> list[Effect]:
        previous = self._settled
        effects = [] if previous is not None and _same(objects, previous) else reconcile(objects, now)
        self._settled = objects if not effects else None
        return effects


def _same(objects: Objects, previous: Objects) -> bool:
    """Whether everything that statuses follow from is as it was."""
    nodes = objects.every(Node)
    before = previous.every(Node)
    for name in objects.changes(previous, Node):
        node = nodes.get(name)
        old = before.get(name)
        if node is None or old is None or node.metadata.labels != old.metadata.labels:
            return False
    return not objects.changes(previous, HyperNode) and _failures(objects) == _failures(previous)


def _failures(objects: Objects) -> Mapping[str, str]:
    if not objects.every(ConfigMap):  # most clusters name no source
        return {}
    from tierwise.controllers.discovery.sources import failures

    return failures(objects)


def reconcile(objects: Objects, now: float) -> list[Effect]:
    """Bring the status of each hyperNode up to date."""
    hypernodes = objects.every(HyperNode)
    if not hypernodes:
        return []
    failing = _failures(objects)
    return [
        effect for fabric in by_fabric(hypernodes.values()).values() for effect in _of(objects, fabric, failing, now)
    ]


def _of(objects: Objects, fabric: Sequence[HyperNode], failing: Mapping[str, str], now: float) -> Iterator[Effect]:
    """The status of the hyperNodes of one fabric, which form a tree by themselves."""
    nodes = objects.every(Node)
    declared = {domain.name: domain for domain in declare(fabric, nodes.values())}
    topology, _ = build_tree(list(declared.values()), list(nodes))
    broken = frozenset(topology.set_aside)
    problems: dict[str, list[Problem]] = {}
    for problem in topology.problems:
        problems.setdefault(problem.domain, []).append(problem)
    for hypernode in fabric:
        name = hypernode.metadata.name
        count = _node_count(name, declared, topology)
        findings = _findings(problems.get(name, []), broken=name in broken)
        failure = failing.get(hypernode.metadata.labels.get(SOURCE_LABEL, ""))
        if failure:
            findings.append((_DISCOVERED, "False", "SourceFailed", failure))
        yield from _patch(objects, hypernode, {"nodeCount": count}, _conditions(hypernode, findings, now))


def _node_count(name: str, declared: Mapping[str, Declared], topology: Topology) -> int:
    """Distinct nodes below a domain at any depth; Volcano counts the children of a hyperNode of hyperNodes instead."""
    number = topology.index.get(name)
    if number is not None:
        return int(topology.end[number] - topology.start[number])
    # A broken domain has no place in the tree, yet people want to know what it would hold: as deep as trees may be.
    nodes: set[str] = set()
    seen: set[str] = set()
    layer = [name]
    for _ in range(DEPTH):
        layer = [inner for inner in dict.fromkeys(layer) if inner in declared and inner not in seen]
        seen.update(layer)
        nodes.update(*(declared[inner].nodes for inner in layer))
        layer = [child for inner in layer for child in declared[inner].children]
    return len(nodes)


def _findings(problems: Sequence[Problem], *, broken: bool) -> list[tuple[str, str, str, str]]:
    """Type, status, reason and message of the conditions to show: whether it is in use, and one for each code."""
    findings = list(problems)
    if broken and not any(problem.error for problem in findings):
        findings.insert(0, Problem("", "BrokenMember", "a hyperNode below it is broken", error=True))
    if not findings:
        return []
    gravest = [problem for problem in findings if problem.error] or findings
    codes = dict.fromkeys(problem.code for problem in findings)
    return [
        (_READY, "False" if gravest[0].error else "True", gravest[0].code, _joined(gravest)),
        *((code, "True", code, _joined(p for p in findings if p.code == code)) for code in codes),
    ]


def _joined(problems: Iterable[Problem]) -> str:
    return "; ".join(problem.text for problem in problems)


def _conditions(hypernode: HyperNode, findings: Iterable[tuple[str, str, str, str]], now: float) -> list[Raw]:
    """The conditions to show; each keeps the time at which its status last changed."""
    since = {(c.type, c.status): c.last_transition_time for c in hypernode.status.conditions}
    return [
        {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": since.get((type_, status)) or stamp(now),
        }
        for type_, status, reason, message in findings
    ]


def _patch(objects: Objects, hypernode: HyperNode, status: Raw, conditions: list[Raw]) -> list[Effect]:
    key = key_of(hypernode)
    shown = (objects.raw(key) or {}).get("status")
    shown = shown if isinstance(shown, dict) else {}
    ours: list[object] = []
    foreign: list[object] = []
    for condition in shown.get("conditions") or ():
        (ours if isinstance(condition, dict) and condition.get("type") in _OURS else foreign).append(condition)
    changes = {field: value for field, value in status.items() if shown.get(field) != value}
    if ours != conditions:
        changes["conditions"] = [*foreign, *conditions]
    return [PatchStatus(key, changes)] if changes else []
