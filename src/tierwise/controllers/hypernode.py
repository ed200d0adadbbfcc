"""The status of every hyperNode: how many nodes stand below it, and what is wrong with its declaration.

Called by `controllers.run`. Writes status only; `discovery_label` makes and removes hyperNodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.core import Node
from tierwise.api.volcano import HyperNode
from tierwise.controllers.stamp import stamp
from tierwise.dialects.hypernodes import declare
from tierwise.model.topology import Problem, Topology
from tierwise.model.tree import Declared, grow
from tierwise.port import Effect, Objects, PatchStatus, key_of

__all__ = ["READS", "reconcile"]

READS: Final = (Node, HyperNode)

BROKEN: Final = "Broken"
READY: Final = "Ready"


def reconcile(objects: Objects, now: float) -> list[Effect]:
    """Bring the status of each hyperNode up to date."""
    hypernodes = objects.every(HyperNode)
    if not hypernodes:
        return []
    nodes = objects.every(Node)
    declared = {domain.name: domain for domain in declare(hypernodes.values(), nodes.values())}
    topology, _ = grow(list(declared.values()), list(nodes))
    broken = frozenset(topology.set_aside)
    problems: dict[str, list[Problem]] = {}
    for problem in topology.problems:
        problems.setdefault(problem.domain, []).append(problem)
    effects: list[Effect] = []
    for name, hypernode in hypernodes.items():
        count = _node_count(name, declared, topology)
        found = _findings(problems.get(name, []), broken=name in broken)
        effects += _patch(objects, hypernode, {"nodeCount": count}, _conditions(hypernode, found, now))
    return effects


def _node_count(name: str, declared: Mapping[str, Declared], topology: Topology) -> int:
    """Distinct nodes below a domain at any depth; Volcano counts the children of a hyperNode of hyperNodes instead."""
    number = topology.index.get(name)
    if number is not None:
        return int(topology.end[number] - topology.start[number])
    # A broken domain has no place in the tree, yet people want to know what it would hold.
    nodes: set[str] = set()
    seen: set[str] = set()
    pending = [name]
    while pending:
        current = pending.pop()
        if current in declared and current not in seen:
            seen.add(current)
            nodes |= declared[current].nodes
            pending += declared[current].children
    return len(nodes)


def _findings(problems: Sequence[Problem], *, broken: bool) -> list[tuple[str, str, str, str]]:
    """Type, status, reason and message of the conditions to show: one for errors, one for warnings."""
    errors = [problem for problem in problems if problem.error]
    warnings = [problem for problem in problems if not problem.error]
    if broken and not errors:
        errors = [Problem("", "BrokenMember", "a hyperNode below it is broken", error=True)]
    found = []
    if errors:
        found.append((BROKEN, "True", errors[0].code, _joined(errors)))
    if warnings:
        found.append((READY, "False" if errors else "True", warnings[0].code, _joined(warnings)))
    return found


def _joined(problems: Iterable[Problem]) -> str:
    return "; ".join(problem.text for problem in problems)


def _conditions(hypernode: HyperNode, found: Iterable[tuple[str, str, str, str]], now: float) -> list[Raw]:
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
        for type_, status, reason, message in found
    ]


def _patch(objects: Objects, hypernode: HyperNode, status: Raw, conditions: list[Raw]) -> list[Effect]:
    key = key_of(hypernode)
    shown = (objects.raw(key) or {}).get("status")
    shown = shown if isinstance(shown, dict) else {}
    ours: list[object] = []
    others: list[object] = []
    for condition in shown.get("conditions") or ():
        (ours if isinstance(condition, dict) and condition.get("type") in (BROKEN, READY) else others).append(condition)
    changes = {field: value for field, value in status.items() if shown.get(field) != value}
    if ours != conditions:
        changes["conditions"] = [*others, *conditions]
    return [PatchStatus(key, changes)] if changes else []
