"""Say why a gang found no place: per tier how many domains were looked at, how far the best came, what was short."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import numpy as np

from tierwise.actions.causes import causes, once_full
from tierwise.actions.demand import Demand, needs
from tierwise.actions.groups import alike, groups_held
from tierwise.actions.search import home
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, SubJob
from tierwise.model.reason import Reason, Rejection, Tried
from tierwise.model.shape import Shape
from tierwise.model.topology import ROOT

__all__ = ["diagnose", "too_wide"]

_SHOWN = 3
"""How many sub-jobs, or broken hyperNodes, a rejection names."""


def diagnose(cycle: Cycle, job: Job, demand: Demand, *, bounded: bool, like: Rejection | None = None) -> Rejection:
    """Why nothing of the demand was placed; an earlier rejection of its kind lends what it found per tier."""
    ways = cycle.pipeline.ways(job, demand.tasks)
    if ways:
        from tierwise.actions.ungathered import (
            ungathered,  # few clusters gather, and importing the core must stay cheap
        )

        return Rejection("fit", job.key, *ungathered(cycle, job, demand.lots[0], ways))
    wide = too_wide(cycle, job)
    if wide is not None:
        return Rejection("space", job.key, wide)
    limit = cycle.pipeline.limit(job)
    tried = _tried(cycle, job, demand, _by_tier(cycle, limit), like)
    children = tuple(islice(_sub_jobs(cycle, job, demand, limit), _SHOWN)) if job.policies else ()
    return Rejection("fit", job.key, _reason(cycle, job, demand, tried), tried, children, bounded)


def _sub_jobs(cycle: Cycle, job: Job, demand: Demand, limit: int | None) -> Iterator[Rejection]:
    """Sub-jobs that would not fit even alone; of alike ones the first speaks for all."""
    seen: set[tuple[int | None, int, tuple[int, ...]]] = set()
    for lot in demand.lots:
        reason = too_wide(cycle, lot.sub)
        if reason is not None:
            yield Rejection("space", lot.sub.key, reason)
            continue
        inner = cycle.pipeline.limit(lot.sub)
        kind = (inner, lot.need, tuple(portion.part.shape.number for portion in lot.portions))
        if inner is None or (limit is not None and inner >= limit) or kind in seen:
            continue
        seen.add(kind)
        short = _tried(cycle, job, Demand((lot,)), _by_tier(cycle, inner))
        if short and short[-1].fits < lot.need:
            text = "no hyperNode within its tier holds the sub-group"
            yield Rejection("space", lot.sub.key, Reason("SubGroupDoesNotFit", "allocate", text), short)


def too_wide(cycle: Cycle, gang: Job | SubJob) -> Reason | None:
    """A gang that stands wider than its limit gets no more tasks; the reason says where it stands."""
    limit, here = cycle.pipeline.limit(gang), home(cycle, gang)
    if limit is None or here is None or int(cycle.topology.tier[here]) <= limit:
        return None
    name, tier = cycle.topology.name[here], int(cycle.topology.tier[here])
    text = f"its running pods span hyperNode {name} of tier {tier}, above the highest allowed tier {limit}"
    return Reason("AlreadyTooWide", "network-topology-aware", text)


def _reason(cycle: Cycle, job: Job, demand: Demand, tried: tuple[Tried, ...]) -> Reason:
    limit = cycle.pipeline.limit(job)
    errors = [f"{p.domain} ({p.text})" for p in cycle.topology.problems if p.error]
    if limit is not None and errors:
        never = cycle.pipeline.never_fits(job, needs(demand, len(cycle.view.axis)))
        if never is not None:  # what is sound could not hold it even empty: the broken part is what it lacks
            names = ", ".join(errors[:_SHOWN]) + (" and others" if len(errors) > _SHOWN else "")
            text = f"no sound hyperNode within tier {limit} holds the gang; set aside for errors: {names}"
            return Reason("BrokenTopology", "network-topology-aware", text)
    if limit is not None and not tried:
        return Reason("NoDomainWithinTier", "network-topology-aware", f"there is no hyperNode of tier {limit} or below")
    return Reason("NotEnoughResources", "allocate", "the gang's minimum finds no place", curable=True)


def _by_tier(cycle: Cycle, limit: int | None) -> Iterable[Ints]:
    return (np.array([ROOT]),) if limit is None else cycle.topology.by_tier(ROOT, limit)


def _tried(
    cycle: Cycle, job: Job, demand: Demand, groups: Iterable[Ints], like: Rejection | None = None
) -> tuple[Tried, ...]:
    known = {tried.tier: tried for tried in like.tried} if like is not None else {}
    return tuple(_look(cycle, job, demand, group, known) for group in groups)


def _look(cycle: Cycle, job: Job, demand: Demand, group: Ints, known: Mapping[int, Tried]) -> Tried:
    """How many of the demanded tasks the best domain of a tier would take, and what its other nodes lack."""
    fits = _fits(cycle, job, demand, group)
    best = int(group[np.lexsort((cycle.topology.rank[group], -fits))[0]])
    span = cycle.topology.span(best)
    tier = int(cycle.topology.tier[best])
    earlier = known.get(tier)
    return Tried(
        tier=tier,
        domains=len(group),
        best=cycle.topology.name[best],
        fits=min(int(fits.max()), demand.tasks),
        asked=demand.tasks,
        nodes=span.stop - span.start,
        causes=_causes(cycle, demand, span) if earlier is None else earlier.causes,
    )


def _causes(cycle: Cycle, demand: Demand, span: slice) -> tuple[tuple[Reason, int], ...]:
    """What keeps the largest of the demanded shapes out of a span.

    Where every node of the whole cluster takes some, it is what they lack once they hold these.
    """
    shapes = [portion.part.shape for lot in demand.lots for portion in lot.portions]
    if not shapes:
        return ()
    shape = max(shapes, key=lambda s: s.number)
    found = causes(cycle, shape, span)
    whole = span.stop - span.start == len(cycle.nodes)
    return once_full(cycle, shape, span) if whole and not found else found


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
        total += np.minimum(_room(cycle, shape)[group], number)
    return total


def _room(cycle: Cycle, shape: Shape) -> Ints:
    """How many tasks of a shape each domain takes; nodes that a filter bars at this moment take none."""
    room = cycle.rooms.of(shape)
    if not cycle.pipeline.moving(shape):
        return room.domains(Pool.LATER)
    barred = cycle.pipeline.why_not_now(shape, slice(0, len(cycle.nodes))) != 0
    return cycle.topology.totals(np.where(barred, 0, room.rows(Pool.LATER)))
