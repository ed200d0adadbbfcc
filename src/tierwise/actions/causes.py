"""What keeps tasks of a shape out of nodes: reasons, and on how many nodes each holds."""

from __future__ import annotations

import numpy as np

from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool
from tierwise.model.reason import Reason
from tierwise.model.shape import Shape

__all__ = ["causes", "insufficient", "once_full"]


def causes(cycle: Cycle, shape: Shape, span: slice) -> tuple[tuple[Reason, int], ...]:
    """Per reason, on how many nodes of a span it keeps a shape out; the most frequent first."""
    room = cycle.rooms.of(shape)
    why = room.why[span]
    found: dict[Reason, int] = {}
    numbers = np.bincount(why)
    for number in np.flatnonzero(numbers).tolist():
        if number:
            found[cycle.view.reasons[number]] = int(numbers[number])
    full = (why == 0) & (room.rows(Pool.LATER)[span] == 0)
    free = cycle.ledger.free(shape.asked, span, Pool.LATER)
    short = (free < shape.request[shape.asked, None]) & full
    for name, count in zip(shape.names(cycle.view.axis), short.sum(axis=1).tolist(), strict=True):
        if count:
            found[insufficient(name)] = count
    if cycle.pipeline.moving(shape):
        moving = np.bincount(np.where((why == 0) & ~full, cycle.pipeline.why_not_now(shape, span), 0))
        for number in np.flatnonzero(moving).tolist():
            if number:
                found[cycle.view.reasons[number]] = int(moving[number])
    return tuple(sorted(found.items(), key=lambda item: (-item[1], item[0].code, item[0].text)))


def insufficient(resource: str) -> Reason:
    """The reason of a node that lacks a resource."""
    if resource == "pods":
        return Reason("TooManyPods", "resources", "had no pod slot left", curable=True)
    if resource.startswith("port/"):
        return Reason("PortConflict", "resources", f"had host {resource} taken", curable=True)
    return Reason("InsufficientResource", "resources", f"short of {resource}", curable=True)


def once_full(cycle: Cycle, shape: Shape, span: slice) -> tuple[tuple[Reason, int], ...]:
    """Per resource, how many nodes are short of it once they hold as many tasks as they can."""
    room = cycle.rooms.of(shape).rows(Pool.LATER)[span]
    request = shape.request[shape.asked, None]
    short = (cycle.ledger.free(shape.asked, span, Pool.LATER) - request * room < request).sum(axis=1)
    found = [
        (insufficient(name), int(n)) for name, n in zip(shape.names(cycle.view.axis), short.tolist(), strict=True) if n
    ]
    return tuple(sorted(found, key=lambda item: (-item[1], item[0].code, item[0].text)))
