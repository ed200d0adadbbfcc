"""Say why a gang found no place: per tier how many domains were looked at, how far the best came, what was short."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tierwise.actions.demand import Demand
from tierwise.actions.groups import alike, groups_held
from tierwise.actions.search import home
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, SubJob
from tierwise.model.reason import Reason, Rejection, Tried
from tierwise.model.shape import Shape
from tierwise.model.topology import ROOT

__all__ = ["causes", "diagnose", "too_wide"]


def diagnose(cycle: Cycle, job: Job, demand: Demand, *, bounded: bool) -> Rejection:
    """Why nothing of the demand was placed."""
    wide = too_wide(cycle, job)
    if wide is not None:
        return Rejection("space", job.key, wide)
    limit = cycle.pipeline.limit(job)
    tried = _tried(cycle, job, demand, _by_tier(cycle, limit))
    children = []
    for lot in demand.lots if job.policies else ():
        reason = too_wide(cycle, lot.sub)
        inner = cycle.pipeline.limit(lot.sub)
        if reason is None and inner is not None and (limit is None or inner < limit):
            short = _tried(cycle, job, Demand((lot,)), _by_tier(cycle, inner))
            if short and short[-1].fits < lot.need:
                reason = Reason("SubGroupDoesNotFit", "allocate", "no domain within its tier holds the sub-group")
            if reason is not None:
                children.append(Rejection("space", lot.sub.key, reason, short))
        elif reason is not None:
            children.append(Rejection("space", lot.sub.key, reason))
    return Rejection("fit", job.key, _reason(cycle, limit, tried), tried, tuple(children[:3]), bounded)


def too_wide(cycle: Cycle, gang: Job | SubJob) -> Reason | None:
    """A gang that stands wider than its limit gets no more tasks; the reason says where it stands."""
    limit, here = cycle.pipeline.limit(gang), home(cycle, gang)
    if limit is None or here is None or int(cycle.topology.tier[here]) <= limit:
        return None
    name, tier = cycle.topology.name[here], int(cycle.topology.tier[here])
    text = f"its running pods span hyperNode {name} of tier {tier}, above the highest allowed tier {limit}"
    return Reason("AlreadyTooWide", "network-topology-aware", text)


def _reason(cycle: Cycle, limit: int | None, tried: tuple[Tried, ...]) -> Reason:
    errors = [f"{p.domain} ({p.text})" for p in cycle.topology.problems if p.error]
    if limit is not None and errors:
        names = ", ".join(errors[:3]) + (" and others" if len(errors) > 3 else "")
        text = f"no sound hyperNode within tier {limit} holds the gang; set aside for errors: {names}"
        return Reason("BrokenTopology", "network-topology-aware", text)
    if limit is not None and not tried:
        return Reason("NoDomainWithinTier", "network-topology-aware", f"there is no hyperNode of tier {limit} or below")
    return Reason("NotEnoughResources", "allocate", "the gang's minimum finds no place", curable=True)


def _by_tier(cycle: Cycle, limit: int | None) -> Iterable[Ints]:
    return (np.array([ROOT]),) if limit is None else cycle.topology.by_tier(ROOT, limit)


def _tried(cycle: Cycle, job: Job, demand: Demand, groups: Iterable[Ints]) -> tuple[Tried, ...]:
    return tuple(_look(cycle, job, demand, group) for group in groups)


def _look(cycle: Cycle, job: Job, demand: Demand, group: Ints) -> Tried:
    """How many of the demanded tasks the best domain of a tier would take, and what its other nodes lack."""
    fits = _fits(cycle, job, demand, group)
    best = int(group[np.lexsort((cycle.topology.rank[group], -fits))[0]])
    span = cycle.topology.span(best)
    shape = max((p.part.shape for lot in demand.lots for p in lot.portions), key=lambda s: s.number, default=None)
    return Tried(
        tier=int(cycle.topology.tier[best]),
        domains=len(group),
        best=cycle.topology.name[best],
        fits=min(int(fits.max()), demand.tasks),
        asked=demand.tasks,
        nodes=span.stop - span.start,
        causes=causes(cycle, shape, span) if shape is not None else (),
    )


def _fits(cycle: Cycle, job: Job, demand: Demand, group: Ints) -> Ints:
    """How many of the demanded tasks each domain would take; of alike sub-jobs only those that fit whole count."""
    uniform = alike(cycle, job, demand) if len(demand.lots) > 1 else None
    if uniform is not None:
        return groups_held(cycle, uniform, Pool.LATER)[group] * uniform.size
    left: dict[Shape, int] = {}  # lots of one shape share its room
    for portion in (portion for lot in demand.lots for portion in lot.portions):
        left[portion.part.shape] = left.get(portion.part.shape, 0) + portion.left
    total = np.zeros(len(group), dtype=np.int64)
    for shape, number in left.items():
        total += np.minimum(cycle.rooms.of(shape).domains(Pool.LATER)[group], number)
    return total


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
    for i, resource in enumerate(shape.asked.tolist()):
        count = int(short[i].sum())
        if count:
            found[insufficient(cycle.view.axis.names[resource])] = count
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
