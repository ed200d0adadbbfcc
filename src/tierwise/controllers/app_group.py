"""The status of every AppGroup: the order of its workloads, how many of its pods run, and a cycle if it has one.

Called by `controllers.run`. An order is stale as soon as it is not what spec and algorithm give now; its time changes
when the order does, and once a day.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from tierwise.api.codec import Raw, part
from tierwise.api.core import Pod, parse_time
from tierwise.api.network_aware import AppGroup, KepAppGroup, WorkloadRef, algorithm_of
from tierwise.controllers.stamp import stamp
from tierwise.dialects.network_aware.services import GROUP_LABEL, app_groups
from tierwise.port import Effect, Objects, PatchStatus, RecordEvent, key_of

__all__ = ["ALGORITHMS", "cycle", "order", "reconcile"]


# The orders in which the workloads of an application can be placed, and the cycle that keeps it from having one.
#
# Pure graph work on names. A graph lists every workload with those that it calls; ties are broken by the order of the
# lists, so the same AppGroup gives the same order everywhere.


Graph = Mapping[str, Sequence[str]]
"""Workloads in listed order, each with its dependencies in listed order; every dependency is a key too."""


def order(graph: Graph, algorithm: str) -> list[str]:
    """All workloads, the first to be placed first: those with edges as the algorithm says, then the others.

    A name that is not known means Kahn's algorithm. The graph has no cycle.
    """
    called: set[str] = set()
    for callees in graph.values():
        called.update(callees)
    linked = {name: callees for name, callees in graph.items() if callees or name in called}
    sort, arrange = ALGORITHMS[algorithm_of(algorithm) or "KahnSort"]
    return [*arrange(sort(linked)), *(name for name in graph if name not in linked)]


def cycle(graph: Graph) -> list[str] | None:
    """The first cycle that a walk in listed order meets, as "a b a"; None where there is none."""
    done: set[str] = set()
    for start in graph:
        path: list[str] = [start] if start not in done else []
        ahead = [iter(graph[start])] if path else []
        while path:
            callee = next(ahead[-1], None)
            if callee is None:
                done.add(path.pop())
                ahead.pop()
            elif callee in path:
                return [*path[path.index(callee) :], callee]
            elif callee not in done:
                path.append(callee)
                ahead.append(iter(graph[callee]))
    return None


def _kahn(graph: Graph) -> list[str]:
    """A workload that no remaining workload calls; of several, the one that became free last."""
    callers = dict.fromkeys(graph, 0)
    for callees in graph.values():
        for callee in callees:
            callers[callee] += 1
    free = [name for name, number in callers.items() if not number]
    in_order = []
    while free:
        name = free.pop()
        in_order.append(name)
        for callee in graph[name]:
            callers[callee] -= 1
            if not callers[callee]:
                free.append(callee)
    return in_order


def _tarjan(graph: Graph) -> list[str]:
    """Depth first; a workload goes in front of everything that was finished before it."""
    finished: dict[str, None] = {}
    for start in graph:
        path = [] if start in finished else [(start, iter(graph[start]))]
        entered = {start}
        while path:
            name, ahead = path[-1]
            callee = next((c for c in ahead if c not in finished and c not in entered), None)
            if callee is None:
                finished[name] = None
                path.pop()
            else:
                entered.add(callee)
                path.append((callee, iter(graph[callee])))
    return list(reversed(finished))


def _as_is(names: list[str]) -> Iterator[str]:
    return iter(names)


def _reversed(names: list[str]) -> Iterator[str]:
    return reversed(names)


def _alternate(names: list[str]) -> Iterator[str]:
    """First, last, second, last but one, ..."""
    for i in range(len(names)):
        yield names[i // 2] if i % 2 == 0 else names[-1 - i // 2]


ALGORITHMS: Final = {
    "KahnSort": (_kahn, _as_is),
    "TarjanSort": (_tarjan, _as_is),
    "ReverseKahn": (_kahn, _reversed),
    "ReverseTarjan": (_tarjan, _reversed),
    "AlternateKahn": (_kahn, _alternate),
    "AlternateTarjan": (_tarjan, _alternate),
}
"""By the name that an AppGroup gives: how to sort, and how to arrange what was sorted."""


CYCLE: Final = "DependencyCycle"
UNKNOWN: Final = "UnknownAlgorithm"
_TOLD: Final = {
    CYCLE: "the dependencies form a cycle, so the workloads keep their listed order",
    UNKNOWN: "topologySortingAlgorithm is not known, so KahnSort is used",
}
_A_DAY: Final = 24 * 3600.0


def reconcile(objects: Objects, now: float) -> list[Effect]:
    """Bring the status of each AppGroup up to date."""
    groups = app_groups(objects.every(AppGroup), objects.every(KepAppGroup))
    running = _running(objects.every(Pod)) if groups else {}
    return [
        effect for group in groups.values() for effect in _of(objects, group, running.get(group.metadata.name), now)
    ]


def _running(pods: Mapping[str, Pod]) -> dict[str, int]:
    """How many pods run of each group that some pod names, in whatever namespace."""
    counts: dict[str, int] = {}
    for pod in pods.values():
        name = pod.metadata.labels.get(GROUP_LABEL)
        if name:
            counts[name] = counts.get(name, 0) + (pod.status.phase == "Running")
    return counts


def _of(objects: Objects, group: AppGroup, pods: int | None, now: float) -> Iterator[Effect]:
    """Yield the effects that bring the status of an AppGroup up to date, and an event for each new fault; nothing where
    it is so already. pods is the number of its running pods; None means that no pod names the group: it counts as 0,
    and no start time is written.
    """
    running = pods or 0
    refs, graph = _graph(group)
    found_cycle = cycle(graph)
    names = list(graph) if found_cycle is not None else order(graph, group.spec.topology_sorting_algorithm)
    # Sorted by name, because readers of this list search it by halving.
    entries = [(refs[name], i) for name, i in sorted(zip(names, range(1, len(names) + 1), strict=True))]
    status: Raw = {}
    if group.status.running_workloads != running or "runningWorkloads" not in _status(objects, group):
        status["runningWorkloads"] = running
    if [(e.workload, e.index) for e in group.status.topology_order] != entries or _old(group, now):
        status["topologyOrder"] = [{"workload": msgspec.to_builtins(ref), "index": i} for ref, i in entries]
        status["topologyCalculationTime"] = stamp(now)
    if pods is not None and not group.status.schedule_start_time:
        status["scheduleStartTime"] = stamp(now)
    faults = dict(_faults(group, found_cycle))
    reported = {c.type: c.message for c in group.status.conditions if c.type in _TOLD}
    if faults != reported:
        conditions = [_condition(code, text, now) for code, text in faults.items()]
        status["conditions"] = [*_others(objects, group), *conditions]
    if status:
        yield PatchStatus(key_of(group), status)
    yield from _events(group, faults, reported)


def _events(group: AppGroup, faults: Mapping[str, str], reported: Mapping[str, str]) -> Iterator[Effect]:
    """A warning for each fault that the conditions of a group did not report before, both by their codes."""
    for code, text in faults.items():
        if reported.get(code) != text:
            yield RecordEvent(key_of(group), "Warning", code, f"{_TOLD[code]}: {text}")


def _faults(group: AppGroup, dependency_cycle: list[str] | None) -> Iterator[tuple[str, str]]:
    """Faults of a group, as type and text of its conditions."""
    if dependency_cycle is not None:
        yield CYCLE, " -> ".join(dependency_cycle)
    algorithm = group.spec.topology_sorting_algorithm
    if algorithm and not algorithm_of(algorithm):
        yield UNKNOWN, algorithm


def _graph(group: AppGroup) -> tuple[dict[str, WorkloadRef], dict[str, list[str]]]:
    """Workloads by identity, and what each of them calls; those that are only called come last."""
    refs: dict[str, WorkloadRef] = {}
    graph: dict[str, list[str]] = {}
    for entry in group.spec.workloads:
        refs.setdefault(entry.workload.identity, entry.workload)
        callees = graph.setdefault(entry.workload.identity, [])
        callees += [dependency.workload.identity for dependency in entry.dependencies]
    for entry in group.spec.workloads:
        for dependency in entry.dependencies:
            refs.setdefault(dependency.workload.identity, dependency.workload)
            graph.setdefault(dependency.workload.identity, [])
    return refs, graph


def _old(group: AppGroup, now: float) -> bool:
    time = group.status.topology_calculation_time
    try:
        return now - parse_time(time) > _A_DAY
    except ValueError:
        return True


def _status(objects: Objects, group: AppGroup) -> Raw:
    return part(objects.raw(key_of(group)), "status")


def _others(objects: Objects, group: AppGroup) -> list[object]:
    """Conditions of other writers."""
    conditions = _status(objects, group).get("conditions") or []
    assert isinstance(conditions, list)  # or the codec had refused it
    return [c for c in conditions if not (isinstance(c, dict) and c.get("type") in _TOLD)]


def _condition(code: str, message: str, now: float) -> Raw:
    return {
        "type": code,
        "status": "True",
        "reason": code,
        "message": message,
        "lastTransitionTime": stamp(now),
    }
