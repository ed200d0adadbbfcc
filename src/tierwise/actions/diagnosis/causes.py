"""What keeps tasks of a shape out of nodes: reasons, and on how many nodes each holds."""

from __future__ import annotations

import numpy as np

from tierwise.actions.placement.demand import Demand
from tierwise.api.plurals import count
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool, job_ready
from tierwise.model.arrays import UNOFFERED, Bools, Ints
from tierwise.model.job import Job, Reason, Shape

__all__ = ["NOT_TOGETHER", "Causes", "asked_pods", "causes", "once_full"]

Causes = tuple[tuple[Reason, int], ...]

NOT_TOGETHER = "each of them fits by itself, but not all of them together"


def causes(cycle: Cycle, shape: Shape, span: slice | Ints) -> Causes:
    """Per reason, on how many of some rows it keeps a shape out; the most frequent first."""
    cycle.steps.charge(5 + len(cycle.nodes) // 256)
    room = cycle.fit_counts.of(shape)
    why = room.why[span]
    nodes_by_reason: dict[Reason, int] = {}
    numbers = np.bincount(why)
    for number in np.flatnonzero(numbers).tolist():
        if number:
            nodes_by_reason[cycle.view.reasons[number]] = int(numbers[number])
    full = (why == 0) & (room.rows(Pool.FUTURE_IDLE)[span] == 0)
    free = cycle.ledger.free(shape.asked, span, Pool.FUTURE_IDLE)
    nodes_by_reason |= _short(cycle, shape, free, (free < shape.request[shape.asked, None]) & full)
    if cycle.pipeline.moving(shape):
        objections = cycle.pipeline.why_not_now(shape, slice(0, len(cycle.nodes)))[span]
        moving = np.bincount(np.where((why == 0) & ~full, objections, 0))
        for number in np.flatnonzero(moving).tolist():
            if number:
                nodes_by_reason[cycle.view.reasons[number]] = int(moving[number])
    return _ordered(nodes_by_reason)


def once_full(cycle: Cycle, shape: Shape, span: slice | Ints) -> Causes:
    """Per resource, how many nodes are short of it once they hold as many tasks as they can."""
    room = cycle.fit_counts.of(shape)
    request = shape.request[shape.asked, None]
    free_once_full = (
        cycle.ledger.free(shape.asked, span, Pool.FUTURE_IDLE) - request * room.rows(Pool.FUTURE_IDLE)[span]
    )
    return _ordered(
        _short(cycle, shape, free_once_full, (free_once_full < request) & (room.why[span] == 0), then="then ")
    )


def _short(cycle: Cycle, shape: Shape, free: Ints, short: Bools, *, then: str = "") -> dict[Reason, int]:
    """Per resource of a shape, on how many nodes it is short, with what is asked for and the most that any has."""
    nodes_by_reason: dict[Reason, int] = {}
    names = shape.names(cycle.view.axis)
    for i, resource in enumerate(shape.asked.tolist()):
        nodes = int(short[i].sum())
        if nodes and cycle.view.axis.names[resource] == UNOFFERED:
            text = f"short of {names[i]}, which no node has"
            nodes_by_reason[Reason("InsufficientResource", "resources", text)] = nodes
        elif nodes:
            most_free = int(free[i][short[i]].max())
            requested = shape.written.get(names[i], int(shape.request[resource]))
            nodes_by_reason[_insufficient(names[i], requested, most_free, then)] = nodes
    return nodes_by_reason


def _insufficient(resource: str, requested: int, most_free: int, then: str) -> Reason:
    """The reason of nodes that lack a resource. `most_free` is the most that any has, `then` begins the text."""
    if resource == "pods":
        return Reason("TooManyPods", "resources", f"{then}had no pod slot left")
    if resource.startswith("port/"):
        _, protocol, port, address = resource.split("/", 3)
        at = "" if address == "0.0.0.0" else f" of {address}"
        return Reason("PortConflict", "resources", f"{then}had host port {port}/{protocol}{at} taken")
    from tierwise.api.quantity import LARGEST, show  # slow to import, and few cycles refuse anything

    requested_text = show(resource, requested) if requested < LARGEST else f"{show(resource, LARGEST + 1)} or more"
    text = f"{then}short of {resource}: {requested_text} asked, at most {show(resource, max(most_free, 0))} free"
    return Reason("InsufficientResource", "resources", text)


def _ordered(nodes_by_reason: dict[Reason, int]) -> Causes:
    return tuple(sorted(nodes_by_reason.items(), key=lambda item: (-item[1], item[0].code, item[0].text)))


def asked_pods(cycle: Cycle, job: Job, demand: Demand) -> str:
    """The pods that need a place, in words: "its 4 pods", "the 2 pods that its minimum lacks", "3 more pods"."""
    number = demand.need
    running = cycle.current_domain(job) is not None
    if cycle.pipeline.gangs and running and not job_ready(cycle.ledger, job):
        return "the pod that its minimum lacks" if number == 1 else f"the {number} pods that its minimum lacks"
    if running:
        return count(number, "more pod")
    if number < sum(cycle.backlog.left(pod_set) for pod_set in job.pod_sets()):
        return f"its minimum of {count(number, 'pod')}"
    pods = "its pod" if number == 1 else f"its {number} pods"
    parts = job.in_parts()
    return f"{pods} ({parts})" if parts else pods
