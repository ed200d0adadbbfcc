"""Group a gang's running tasks in a domain into bundles of victims: a safe bundle, and the core.

Tasks are sorted by who is evicted first: tasks on nodes where capacity is needed, then those that cover more of the
need, lower priority, smaller, younger, by name. The first ones, as far as every minimum of the gang (its own, its
roles', its sub-jobs') allows, form the safe bundle, which leaves the gang whole. The rest is the core, which is evicted
whole or not at all. All tasks of a gang that is below its minimum already are safe. Tasks that would free nothing of
what is needed are in no safe bundle, and in a core only together with tasks that do.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from tierwise.framework.bundle import FREE, Bundles
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Preemptor, Purpose
from tierwise.framework.ledger import lacking_of
from tierwise.model.arrays import Bools, Floats, Ints, begins, distinct, order_by
from tierwise.model.gang import without
from tierwise.model.job import Job

__all__ = ["bundle_up", "keep_allowed", "refused_of", "sort_bundles"]


def bundle_up(cycle: Cycle, preemptor: Preemptor, local: Ints, helps: Bools, stays: Bools) -> Bundles:
    """The bundles of the candidates `local` (positions in the running table).

    `helps` says whose going makes room, and `stays` who must not go.
    """
    running = preemptor.running
    weighed = preemptor.weighed
    by_job = np.argsort(running.by_job[local])
    local = local[by_job]
    helps = helps[by_job]
    stays = stays[by_job]
    shares = running.request[weighed[:, None], local] / preemptor.need[weighed, None]
    cover = np.minimum(shares, 1.0).sum(axis=0)
    order = order_by(
        running.job[local],
        stays,  # they come last: in a safe bundle they would only stand in the way of others
        ~helps,
        -np.rint(cover * 1e6),
        running.priority[local],
        np.rint(shares.sum(axis=0) * 1e6),
    )
    local = local[order]
    core = _core(cycle, preemptor, local)
    jobs = running.job[local]
    helps = helps[order]
    useful = np.zeros(len(running.jobs.queue), dtype=bool)
    useful[jobs[core & helps]] = True  # a core is taken whole, and only where some of it makes room
    offered = helps | (core & useful[jobs])
    local = local[offered]
    core = core[offered]
    by_bundle = order_by(running.job[local], core)  # the order inside a bundle stays
    local = local[by_bundle]
    core = core[by_bundle]
    return _columns(cycle, preemptor, local, core)


def _core(cycle: Cycle, preemptor: Preemptor, local: Ints) -> Bools:
    """Which candidates, sorted by job, that are not surplus of their gang."""
    running = preemptor.running
    jobs = running.job[local]
    surplus = running.jobs.surplus(cycle.ledger.ready)
    job_starts = np.flatnonzero(begins(jobs))
    sizes = np.diff(np.append(job_starts, len(jobs)))
    surplus_left = surplus[jobs]
    core: Bools = (np.arange(len(jobs)) - np.repeat(job_starts, sizes) >= surplus_left) & (surplus_left >= 0)
    for i in np.flatnonzero(running.jobs.gated[jobs[job_starts]] & (surplus[jobs[job_starts]] >= 0)).tolist():
        number = int(jobs[job_starts[i]])
        span = slice(int(job_starts[i]), int(job_starts[i] + sizes[i]))
        job = cycle.snapshot.jobs[number]
        core[span] = _gated_core(cycle, preemptor, job, local[span])
    return core


def _gated_core(cycle: Cycle, preemptor: Preemptor, job: Job, local: Ints) -> Bools:
    """Which candidates a gang that needs more than a number of tasks cannot spare, one after the other.

    A task is surplus if the gang itself has one to spare of every number that is lower without it.
    """
    shape = job.shape
    running = preemptor.running
    core = np.ones(len(local), dtype=bool)
    if job.together:
        return core
    spare = [list(numbers) for numbers in lacking_of(cycle.ledger, job)]
    first_sub = job.subs[0].number
    roles = {number: i for i, number in enumerate(job.counted_roles)}
    ready = cycle.ledger.ready[first_sub : first_sub + len(job.subs)].tolist()
    for i, position in enumerate(local.tolist()):
        leaf = int(running.sub[position]) - first_sub
        role = roles.get(int(running.role[position]), -1)
        less = without(shape, spare, leaf, role, ready[leaf])
        if any(spare[slot.group][slot.at] >= 0 for slot in less if not slot.group):
            continue
        core[i] = False
        ready[leaf] -= 1
        for slot in less:
            spare[slot.group][slot.at] += 1
    return core


def _columns(cycle: Cycle, preemptor: Preemptor, local: Ints, core: Bools) -> Bundles:
    running = preemptor.running
    weighed = preemptor.weighed
    jobs = running.job[local]
    bundle_starts = np.flatnonzero(begins(jobs, core))
    start = np.append(bundle_starts, len(local)).astype(np.int64)
    used_by_gang = cycle.ledger.job_used[weighed[:, None], jobs[bundle_starts]] / preemptor.need[weighed, None]
    wasted = used_by_gang.sum(axis=0)
    if preemptor.losses is not None:
        by_job = np.bincount(running.job, weights=preemptor.losses, minlength=len(cycle.snapshot.jobs))
        wasted = wasted + by_job[jobs[bundle_starts]]
    gain = _gains(preemptor, local, start)
    cost = np.where(core[bundle_starts], wasted, 0.0)
    return Bundles(
        local,
        start,
        jobs[bundle_starts],
        ~core[bundle_starts],
        gain,
        cost,
        np.zeros(len(bundle_starts), dtype=np.int64),
    )


def sort_bundles(cycle: Cycle, preemptor: Preemptor, bundles: Bundles) -> Bundles:
    """Cheapest first: safe before whole; then by priority (preempt) or by queue (reclaim), then by efficiency.

    A plugin that selects victims decides instead, and may leave bundles out.
    """
    if not len(bundles):
        return bundles
    selected = cycle.pipeline.select_victims(preemptor, bundles)
    if selected is not None:
        return replace(bundles, group=np.arange(len(bundles))).pick(selected)
    jobs = preemptor.running.jobs
    youngest, priority = -jobs.created[bundles.job], jobs.priority[bundles.job]
    if preemptor.purpose is Purpose.PREEMPT:
        group = _groups(bundles, priority)
        order = order_by(group, _steps(bundles.efficiency(), group, preemptor.alike), youngest, bundles.job)
    else:
        group = _groups(bundles, _queue_ranks(cycle, preemptor, jobs.queue[bundles.job]))
        order = order_by(group, _steps(bundles.efficiency(), group, preemptor.alike), priority, youngest, bundles.job)
    return replace(bundles, group=group).pick(order)


def _queue_ranks(cycle: Cycle, preemptor: Preemptor, queues: Ints) -> Ints:
    """The rank of each of these queues as one that loses tasks."""
    names = tuple(cycle.snapshot.queues)
    distinct, place = np.unique(queues, return_inverse=True)
    queue_by_name = cycle.snapshot.queues
    taker = cycle.snapshot.queues[preemptor.job.queue]
    keys = [cycle.pipeline.victim_queue_key(queue_by_name[names[queue]], taker) for queue in distinct.tolist()]
    ranks = {key: i for i, key in enumerate(sorted(set(keys)))}
    result: Ints = np.array([ranks[key] for key in keys], dtype=np.int64)[place]
    return result


def _groups(bundles: Bundles, rank: Ints) -> Ints:
    """Safe bundles before whole gangs, then by rank: the place of each pair among the distinct ones."""
    beyond = int(rank.max()) - int(rank.min()) + 1
    groups = rank + np.where(bundles.safe, 0, beyond)
    return np.searchsorted(distinct(groups), groups)


def _steps(efficiency: Floats, group: Ints, alike: float) -> Ints:
    """Efficiency as steps, the best first: within a group a step holds what differs by less than the threshold."""
    order = order_by(group, -efficiency)
    ranked = efficiency[order]
    groups = group[order]
    new = begins(ranked, groups)
    step = 0
    top = FREE
    last_group = -1
    steps = []
    for value, number in zip(ranked[new].tolist(), groups[new].tolist(), strict=True):
        if number != last_group or top - value >= alike:
            step = step + 1
            top = value
            last_group = number
        steps.append(step)
    result = np.zeros(len(order), dtype=np.int64)
    result[order] = np.array(steps, dtype=np.int64)[np.cumsum(new) - 1]
    return result


def keep_allowed(cycle: Cycle, preemptor: Preemptor, bundles: Bundles, breakable: Bools) -> Bundles:
    """Ask the filters about all victims in order; a safe bundle shrinks to what is allowed, a core goes whole.

    `breakable` are the bundles that may be taken although their gang breaks. A core that is refused uses up nothing:
    where one filter that counts lets it go and another does not, those behind it are asked again without it. Where all
    may go, the bundles are returned themselves.
    """
    going = bundles.safe | breakable
    sizes = np.diff(bundles.start)
    named = ~preemptor.stays[bundles.victims] & np.repeat(going, sizes)
    named[named] = cycle.pipeline.named(preemptor, bundles.victims[named])
    going &= bundles.safe | (bundles.numbers(named) == sizes)
    apart = np.repeat(bundles.safe, sizes)
    apart[bundles.start[:-1]] = True
    together: Ints = np.cumsum(apart, dtype=np.int64)  # a core is one, and so is each victim of a safe bundle
    while True:
        to_filter = named & np.repeat(going, sizes)  # filters that count are asked about the others alone
        by_filter = cycle.pipeline.counted_whole(preemptor, bundles.victims[to_filter], together[to_filter])
        allowed = to_filter.copy()
        by_some = to_filter.copy()
        allowed[to_filter], by_some[to_filter] = by_filter.all(axis=0), by_filter.any(axis=0)
        if allowed.all():
            return bundles
        refused = np.flatnonzero((bundles.numbers(allowed) < sizes) & going & ~bundles.safe)
        disputed = np.flatnonzero(bundles.numbers(by_some)[refused])
        if not len(disputed):
            return _shrunk(preemptor, bundles, allowed)
        going[refused[: int(disputed[0]) + 1]] = False


def refused_of(bundles: Bundles, allowed: Bundles) -> Ints:
    """Victims of safe bundles that were refused while others of their gang are in its core."""
    kept_whole = bundles.job[~bundles.safe]
    in_place = np.repeat(bundles.safe & np.isin(bundles.job, kept_whole), np.diff(bundles.start))
    result: Ints = np.setdiff1d(bundles.victims[in_place], allowed.victims)
    return result


def _shrunk(preemptor: Preemptor, bundles: Bundles, allowed: Bools) -> Bundles:
    """The bundles with those of their victims who may go; a core goes whole or is not going at all."""
    numbers = bundles.numbers(allowed)
    kept_bundles = np.flatnonzero(numbers)
    start = np.concatenate(([0], np.cumsum(numbers[kept_bundles]))).astype(np.int64)
    flat = bundles.victims[allowed]
    gain = _gains(preemptor, flat, start)
    columns = (
        bundles.job[kept_bundles],
        bundles.safe[kept_bundles],
        gain,
        bundles.cost[kept_bundles],
        bundles.group[kept_bundles],
    )
    return Bundles(flat, start, *columns)


def _gains(preemptor: Preemptor, victims: Ints, start: Ints) -> Floats:
    if len(start) < 2:
        return np.zeros(0)
    weighed = preemptor.weighed
    freed = np.add.reduceat(preemptor.running.request[weighed[:, None], victims], start[:-1], axis=1)
    result: Floats = np.minimum(freed / preemptor.need[weighed, None], 1.0).sum(axis=0)
    return result
