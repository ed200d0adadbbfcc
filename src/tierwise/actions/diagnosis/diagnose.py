"""Explain why a gang found no place: the domains that were searched, the best one of each tier, and what it was short
of.

Only domains that the search may use are reported. A gang with running tasks is searched for in one domain, the widest
around them that its limit allows, so only that one is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
from msgspec.structs import replace

from tierwise.actions.diagnosis.causes import NOT_TOGETHER, Causes, asked_pods, causes, once_full
from tierwise.actions.placement.alike import holds
from tierwise.actions.placement.bounds import Room, gradients_of, held
from tierwise.actions.placement.choose import NO_TIER, search_group
from tierwise.actions.placement.demand import Demand, TaskGroup, least_needs
from tierwise.actions.placement.problem import BOTH, NoPlace, SearchResult, parts_of
from tierwise.actions.placement.solve import solve
from tierwise.actions.placement.trial import fill
from tierwise.api.plurals import count
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, Reason, Rejection, Shape, SubJob, Tried
from tierwise.model.snapshot import Ground
from tierwise.model.topology import ROOT

__all__ = ["diagnose", "searched", "too_wide"]


_SHOWN = 3
"""How many sub-jobs, or broken hyperNodes, a rejection names."""

_LOOKED = 8
"""How many kinds of inner groups are searched for by themselves, to find one that does not fit."""

_TRIALS = 3
"""How many domains of a tier are filled to see what fits together, where counting alone does not tell."""


def diagnose(cycle: Cycle, job: Job, demand: Demand, *, bounded: bool) -> Rejection:
    """Why nothing of the demand was placed."""
    if job.shape.apart:
        from tierwise.actions.placement.apart import why_not_apart  # few gangs ask for it

        with cycle.ledger.statement():
            closer = solve(cycle, replace(job, policies=tuple(replace(p, apart=()) for p in job.policies)), demand)
        reason = why_not_apart(cycle, job, demand, closer)
        if reason is not None:
            return Rejection("fit", job.key, reason, bounded=bounded)
    bounded = bounded or _cut_on_nodes(cycle, demand)
    if cycle.snapshot.ground(job) is Ground.TREES:
        from tierwise.actions.diagnosis.fabrics import unplaced_on_fabrics  # rarely needed

        return unplaced_on_fabrics(cycle, job, demand, bounded=bounded)
    options = cycle.pipeline.gather_options(job, demand.need)
    if options:
        from tierwise.actions.diagnosis.gathering import ungathered  # few jobs ask to be gathered

        reason, layers = ungathered(cycle, job, demand.task_groups[0], options)
        return Rejection("fit", job.key, reason, layers, bounded=bounded)
    wide = too_wide(cycle, job)
    if wide is not None:
        return Rejection("space", job.key, wide)
    groups = tuple(_searched_for(cycle, job, ROOT))
    tried = tuple(_refused(cycle, job, looked) for looked in _tried(cycle, job, demand, groups))
    children = tuple(islice(_sub_jobs(cycle, job, demand, groups), _SHOWN)) if job.shape.parted else ()
    return Rejection("fit", job.key, _reason(cycle, job, demand, tried), tried, children, bounded)


def _cut_on_nodes(cycle: Cycle, demand: Demand) -> bool:
    """Whether nodes are kept from the demand by a search of a filter that was cut short there."""
    if not cycle.view.reasons.any_cut:
        return False
    every = slice(0, len(cycle.nodes))
    return any(reason.cut for shape in demand.shapes for reason, _ in causes(cycle, shape, every))


def searched(cycle: Cycle, job: Job, demand: Demand) -> tuple[Tried, ...]:
    """The domains that a search for a demand looks at, tier by tier, and how far the best of each would come."""
    if cycle.snapshot.ground(job) is Ground.TREES:
        return ()
    options = cycle.pipeline.gather_options(job, demand.need)
    if options:
        return diagnose(cycle, job, demand, bounded=False).tried
    return tuple(_tried(cycle, job, demand, tuple(_searched_for(cycle, job, ROOT))))


def _sub_jobs(cycle: Cycle, job: Job, demand: Demand, groups: tuple[Ints, ...]) -> Iterator[Rejection]:
    """Sub-jobs that would not fit even alone; of alike ones the first speaks for all."""
    limit = cycle.pipeline.limit(job)
    seen: dict[tuple[int | None, int, tuple[int, ...]], bool] = {}  # kinds of sub-jobs, and whether one would fit
    explained: set[int] = set()  # inner groups with a part that does not fit
    within = int(groups[-1][0]) if cycle.current_domain(job) is not None and groups else ROOT
    for task_group in demand.task_groups:
        reason = too_wide(cycle, task_group.sub)
        if reason is not None:
            yield Rejection("space", task_group.sub.key, reason, part=job.part_word(task_group.sub))
            continue
        inner = cycle.pipeline.limit(task_group.sub)
        kind = (inner, task_group.need, tuple(tasks_left.pod_set.shape.number for tasks_left in task_group.remaining))
        if not seen.get(kind, True):
            explained.add(task_group.sub.inner_group)
        if inner is None or (limit is not None and inner >= limit) or kind in seen:
            continue
        seen[kind] = True
        short = _tried(cycle, job, Demand((task_group,)), tuple(_searched_for(cycle, task_group.sub, within)))
        if short and short[-1].fits < task_group.need:
            word = job.part_word(task_group.sub)
            text = f"no hyperNode of tier {inner} or below{_inside(cycle, within)} holds the {word}"
            seen[kind] = False
            explained.add(task_group.sub.inner_group)
            reason = Reason("SubGroupDoesNotFit", "allocate", text)
            yield Rejection("space", task_group.sub.key, reason, short, part=word)
    alike: dict[object, bool] = {}
    for number in reversed(range(1, len(job.inner_groups))):  # from the inside: a part speaks for what is around it
        if number in explained:
            explained.add(job.inner_groups[number].parent)
            continue
        part_demand = _demand_of(job, demand, number)
        like = (job.inner_groups[number].constraint, job.inner_groups[number].minimum, _sizes(part_demand))
        is_alike = like in alike or len(alike) >= _LOOKED
        rejection = None if is_alike else _inner_group(cycle, job, part_demand, within)
        if rejection is not None or alike.get(like, False):
            explained.add(job.inner_groups[number].parent)
        alike.setdefault(like, rejection is not None)
        if rejection is not None:
            yield rejection


def _demand_of(job: Job, demand: Demand, number: int) -> Demand:
    """What is asked of an inner group."""
    mine = {sub.number for sub in job.group(number).subs}
    parts, substitutes = (
        tuple(task_group for task_group in task_groups if task_group.sub.number in mine)
        for task_groups in (demand.task_groups, demand.substitutes)
    )
    return Demand(parts, substitutes, inner_group=number)


def _sizes(demand: Demand) -> tuple[tuple[int, object, tuple[int, ...]], ...]:
    """What task groups ask for: groups with the same in the same order are alike."""
    every = (*demand.task_groups, *demand.substitutes)
    return tuple((g.need, g.sub.constraint, tuple(p.pod_set.shape.number for p in g.remaining)) for g in every)


def _inner_group(cycle: Cycle, job: Job, demand: Demand, within: int) -> Rejection | None:
    """Why an inner group does not fit even alone; None where it does, or is not asked for."""
    gang = job.group(demand.inner_group)
    limit = cycle.pipeline.limit(gang)
    if not demand.task_groups or limit is None:
        return None
    with cycle.ledger.statement():
        if solve(cycle, job, demand, within=within) is not NoPlace.PROVEN:
            return None
    groups = tuple(_searched_for(cycle, gang, within))
    is_begun = cycle.current_domain(gang) is not None
    tried = tuple(_refused(cycle, gang, _look(cycle, job, demand, g, is_begun=is_begun)) for g in groups)
    where = f"no hyperNode of tier {limit} or below{_inside(cycle, within)}"
    text = f"{where} holds {count(len(demand.task_groups), _word(job, demand))} of it"
    reason = Reason("SubGroupDoesNotFit", "allocate", text)
    path = job.inner_groups[demand.inner_group].path
    return Rejection("space", f"{job.key}/{path}", reason, tried, part=job.part_names.of_group(path))


def _word(job: Job, demand: Demand) -> str:
    """One word for the parts that a demand is about."""
    return job.joint_word([task_group.sub for task_group in demand.task_groups])


def _inside(cycle: Cycle, domain: int) -> str:
    return f" in {cycle.topology.name[domain]}" if domain != ROOT else ""


def too_wide(cycle: Cycle, gang: Job | SubJob) -> Reason | None:
    """A gang that is placed wider than its limit gets no more tasks; the reason says where it is."""
    limit, current = cycle.pipeline.limit(gang), cycle.current_domain(gang)
    if limit is None or current is None or int(cycle.topology.tier[current]) <= limit:
        return None
    where = "the whole cluster"
    if current != ROOT:
        where = f"hyperNode {cycle.topology.name[current]} of tier {int(cycle.topology.tier[current])}"
    text = f"its running pods span {where}, above the highest allowed tier {limit}"
    return Reason("AlreadyTooWide", "network-topology-aware", text)


def _reason(cycle: Cycle, job: Job, demand: Demand, tried: tuple[Tried, ...]) -> Reason:
    limit = cycle.pipeline.limit(job)
    errors = [f"{p.domain} ({p.text})" for p in cycle.topology.problems if p.error]
    if limit is not None and errors:
        never = cycle.pipeline.never_fits(job, least_needs(demand))
        if never is not None:  # what is sound could not hold it even empty: the broken part is what it lacks
            names = ", ".join(errors[:_SHOWN]) + (" and others" if len(errors) > _SHOWN else "")
            text = f"no sound hyperNode within tier {limit} holds the gang; set aside for errors: {names}"
            return Reason("BrokenTopology", "network-topology-aware", text)
    if limit is not None and not tried:
        return Reason("NoDomainWithinTier", "network-topology-aware", f"there is no hyperNode of tier {limit} or below")
    text = f"{_where(cycle, job, tried)} now for {asked_pods(cycle, job, demand)}"
    return Reason("NotEnoughResources", "allocate", text)


def _where(cycle: Cycle, job: Job, tried: tuple[Tried, ...]) -> str:
    """The domains that have no place, in words."""
    limit = cycle.pipeline.limit(job)
    if limit is None or tried[-1].best == cycle.topology.name[ROOT]:
        return "the cluster has no place"
    if tried[-1].here:
        return f"hyperNode {tried[-1].best}, where its running pods are, has no place"
    return f"no hyperNode of tier {limit} or below has a place"


def _searched_for(cycle: Cycle, gang: Job | SubJob, within: int) -> Iterable[Ints]:
    """The domains that a gang may use, tier by tier: those with too little free are among them."""
    limit = cycle.pipeline.limit(gang)
    if limit is None:
        return (np.array([within]),)
    if cycle.current_domain(gang) is not None:
        return tuple(gradients_of(cycle, gang, within))
    return cycle.topology.by_tier(within, limit)


def _tried(cycle: Cycle, job: Job, demand: Demand, groups: tuple[Ints, ...]) -> tuple[Tried, ...]:
    is_begun = cycle.current_domain(job) is not None and cycle.pipeline.limit(job) is not None
    return tuple(_look(cycle, job, demand, group, is_begun=is_begun) for group in groups)


def _look(cycle: Cycle, job: Job, demand: Demand, group: Ints, *, is_begun: bool) -> Tried:
    """How many of the demanded tasks the best domain of a tier would take, and what its other nodes lack."""
    topology = cycle.topology
    sub_job_size, fits = _fits(cycle, job, demand, group)
    best = int(group[np.lexsort((topology.rank[group], -fits))[0]])
    span = topology.span(best)
    tier = int(topology.tier[best])
    best_fit = int(fits.max())
    confined = is_begun and best != ROOT and len(group) == 1
    return Tried(
        tier=tier,
        domains=len(group),
        best=topology.name[best],
        fits=min(best_fit, demand.need),
        asked=demand.need,
        nodes=span.stop - span.start,
        causes=_causes(cycle, demand, span),
        whole=sub_job_size,
        here=confined,
        outside=len(topology.at_tier[tier]) - 1 if confined else 0,
        part=_word(job, demand) if sub_job_size else "",
    )


def _refused(cycle: Cycle, job: Job, looked: Tried) -> Tried:
    """The looked-at tier with what the search met, where counting alone finds room for all pods.

    Unchanged where counting does not.
    """
    if looked.fits < looked.asked:
        return looked
    domain = cycle.topology.index[looked.best]
    minimum = job.min_resources
    if minimum is not None and cycle.pipeline.limit(job) is not None:
        free = cycle.ledger.domain_idle[:, domain] + cycle.ledger.domain_releasing[:, domain]
        lacking = np.flatnonzero(free < minimum)
        if len(lacking):
            from tierwise.api.quantity import show

            name = cycle.view.axis.names[int(lacking[0])]
            amounts = int(minimum[lacking[0]]), int(free[lacking[0]])
            requested_text, free_text = (show(name, max(amount, 0)) for amount in amounts)
            return replace(
                looked, short=f"its minResources ask for {requested_text} of {name}, and {free_text} is free"
            )
    return replace(looked, short=NOT_TOGETHER)


def _causes(cycle: Cycle, demand: Demand, span: slice) -> Causes:
    """What keeps the last of the demanded shapes out of a span; where nothing does, what they lack once full.

    A span with room for all of them is never full: why they have no place there is for their sub-groups to say.
    """
    numbers: Counter[Shape] = Counter()
    for task_group in demand.task_groups:
        numbers.update(task_group.by_shape())
    if not numbers:
        return ()
    shape = [tasks_left.pod_set.shape for task_group in demand.task_groups for tasks_left in task_group.remaining][-1]
    room = int(cycle.fit_counts.of(shape).rows(Pool.FUTURE_IDLE)[span].sum())
    return causes(cycle, shape, span) or (once_full(cycle, shape, span) if room < numbers[shape] else ())


def _fits(cycle: Cycle, job: Job, demand: Demand, group: Ints) -> tuple[int, Ints]:
    """How many of the demanded tasks each domain takes; of alike sub-jobs, whose size comes first, only whole ones.

    Tasks of one plain shape are counted. Others are counted one shape at a time, which may be too many, so the most
    promising domains are filled to see how many fit together.
    """
    tier = int(cycle.topology.tier[group].max())
    apart = any(_confined(cycle, job, task_group, tier) for task_group in demand.task_groups)
    several = job.shape.nested or len(demand.task_groups) > 1 or apart
    sub_jobs = parts_of(cycle, job, demand) if several else None
    if (
        sub_jobs is not None
        and sub_jobs.kind is not None
        and not any(map(cycle.pipeline.moving, sub_jobs.parts[0].shapes))
    ):
        sub_job = sub_jobs.parts[0]
        if len(sub_job.units[0].bundle) == 1:
            return sub_job.pods, held(Room(cycle, Pool.FUTURE_IDLE), sub_job)[group] * sub_job.pods
        if not cycle.ledger.any_releasing:
            able = np.minimum(held(Room(cycle, Pool.IDLE), sub_job)[group], sub_jobs.chosen)
            best = int(np.lexsort((cycle.topology.rank[group], -able))[0])
            if holds(
                cycle, sub_jobs, int(group[best]), int(able[best])
            ):  # no other takes more: none is counted too low
                return 0, able * sub_job.pods
    pods_by_shape: Counter[Shape] = Counter()  # task groups of one shape share its room
    for task_group in demand.task_groups:
        pods_by_shape.update(task_group.by_shape())
    total = np.zeros(len(group), dtype=np.int64)
    for shape, number in pods_by_shape.items():
        total += np.minimum(_room(cycle, shape)[group], number)
    if len(pods_by_shape) == 1 and not apart and not cycle.pipeline.moving(next(iter(pods_by_shape))):
        return 0, total
    order = np.lexsort((cycle.topology.rank[group], -total))[:_TRIALS]
    tried = np.zeros(len(group), dtype=np.int64)
    for i in order.tolist():
        tried[i] = _together(cycle, job, demand.task_groups, int(group[i])) if total[i] else 0
    return 0, tried


def _confined(cycle: Cycle, job: Job, task_group: TaskGroup, tier: int) -> bool:
    """Whether a sub-group must be in one domain inside those of a tier."""
    limit = cycle.pipeline.limit(task_group.sub) if job.shape.parted else None
    return limit is not None and limit < tier


def _together(cycle: Cycle, job: Job, task_groups: tuple[TaskGroup, ...], domain: int) -> int:
    """How many tasks a domain takes one after the other, sub-jobs of several whole; nothing stays on the ledger."""
    placed = 0
    with cycle.ledger.statement():
        for task_group in task_groups:
            tier = int(cycle.topology.tier[domain]) if len(task_groups) == 1 else NO_TIER
            if _confined(cycle, job, task_group, tier):
                outcome = search_group(cycle, job, task_group, within=domain)
                placed += task_group.need if isinstance(outcome, SearchResult) else 0
            else:
                placements = fill(cycle, job, task_group, domain, BOTH)
                placed += sum(len(placement.rows) for placement in placements)
    return placed


def _room(cycle: Cycle, shape: Shape) -> Ints:
    """How many tasks of a shape each domain takes; nodes that a filter bars at this moment take none."""
    room = cycle.fit_counts.of(shape)
    if not cycle.pipeline.moving(shape):
        return room.domains(Pool.FUTURE_IDLE)
    barred = cycle.pipeline.why_not_now(shape, slice(0, len(cycle.nodes))) != 0
    return cycle.topology.totals(np.where(barred, 0, room.rows(Pool.FUTURE_IDLE)))
