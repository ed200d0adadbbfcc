"""The first answer to what would make a job start, by counting alone: no run of the scheduler is made for it.

`least_change` tries what is answered here and replaces it. Every answer is marked as counted. A count leaves out rules
between pods, the limits of parts, and who else waits; so what it proposes should do, and perhaps less will. The command
line and the pages show it at once, `by_counting` is its entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from tierwise.api.plurals import count, joined, verb
from tierwise.api.quantity import show
from tierwise.explain.comparison import Answer, LeastChange, in_order
from tierwise.explain.eta import clock_text, lasting
from tierwise.explain.naming import full_name
from tierwise.explain.ranges import compact
from tierwise.model.arrays import Ints, distinct, summed
from tierwise.model.expected_ends import ExpectedEnds
from tierwise.model.job import Job, Status, Task
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT
from tierwise.sim.what_if.changes import Scenario, constraint_text, job_named
from tierwise.sim.what_if.counted_room import CountedRoom
from tierwise.sim.what_if.evictions import Victims, eviction_answer, filled, shortfalls_of
from tierwise.sim.what_if.fewest import PLENTY, Counts, fewest_number, limit_of
from tierwise.sim.what_if.least_change import above, added_text, beside, level_text, models
from tierwise.sim.what_if.room_by_count import Shortfall

__all__ = ["by_counting"]

_DOMAINS: Final = 4
"""Domains whose cheapest victims are compared, those that lack the fewest pods first."""
_PRUNED: Final = 512
"""Kinds of pods of a choice that are looked at one by one for those that need not go."""


def by_counting(scenario: Scenario, name: str) -> LeastChange:
    """The ways that should make a job start now, none of them tried; InputError where there is no such job."""
    snapshot = scenario.snapshot()
    job = job_named(snapshot, name)
    answers: list[Answer] = []
    room = CountedRoom.of(snapshot, scenario.profile, job)
    if room is not None:
        answers = [replace(answer, counted=True) for answer in _ways(scenario, job, room) if answer is not None]
    return LeastChange(job.key, False, in_order(answers), (), full_name(job))


def _ways(scenario: Scenario, job: Job, room: CountedRoom) -> Iterator[Answer | None]:
    """Each way by count; none where there is room for the job by count as things are, quotas included."""
    snapshot = scenario.snapshot()
    allowed = _allowed(snapshot, job)
    lacking = room.lacking()
    shortfalls = shortfalls_of(snapshot, job, None)
    has_room = bool((lacking[allowed] == 0).any())
    if shortfalls and has_room:
        yield _quota(snapshot, shortfalls)
    if shortfalls or not has_room:
        yield _evict(scenario, job, room, allowed, shortfalls)
    if not shortfalls and not has_room:
        yield _uncordon(scenario, job, allowed)
        yield _relax(snapshot, job, lacking)
        yield _add_nodes(scenario, room, lacking, allowed)
        yield _wait(snapshot, room, allowed)


def _allowed(snapshot: Snapshot, job: Job) -> Ints:
    """The domains one of which must hold a job as a whole, the tightest first."""
    limit = limit_of(snapshot, job.constraint)
    if limit is None:
        return np.array([ROOT])
    domains = np.flatnonzero(snapshot.topology.tier <= limit)
    return domains[np.argsort(snapshot.topology.tier[domains], kind="stable")]


def _uncordon(scenario: Scenario, job: Job, allowed: Ints) -> Answer | None:
    """The fewest nodes to uncordon in one domain."""
    snapshot = scenario.snapshot()
    cordoned = snapshot.nodes.cordoned
    if not cordoned.any():
        return None
    nodes = replace(snapshot.nodes, cordoned=np.zeros_like(cordoned))
    uncordoned = CountedRoom.of(replace(snapshot, nodes=nodes), scenario.profile, job)
    if uncordoned is None:
        return None

    def fits(chosen: Ints) -> tuple[Ints, ...]:
        closed = cordoned.copy()
        closed[chosen] = False
        return tuple(np.where(closed, 0, rows) for rows in uncordoned.fits)

    gain = np.minimum.reduce(uncordoned.fits)
    candidates = np.flatnonzero(cordoned & (gain > 0))
    best: Ints | None = None
    lacking = uncordoned.lacking()
    for domain in allowed[lacking[allowed] == 0].tolist():
        span = snapshot.topology.span(domain)
        inside = candidates[(candidates >= span.start) & (candidates < span.stop)]
        inside = inside[np.argsort(-gain[inside], kind="stable")]
        number = fewest_number(len(inside), lambda n, d=domain, rows=inside: uncordoned.lacking(fits(rows[:n]))[d] == 0)  # type: ignore[misc]
        if number is not None and (best is None or number < len(best)):
            best = inside[:number]
    if best is None:
        return None
    names = tuple(snapshot.nodes.names[row] for row in sorted(best.tolist()))
    return Answer("uncordon", len(names), False, names, f"uncordon {count(len(names), 'node')}: {compact(names)}", ())


def _quota(snapshot: Snapshot, shortfalls: Sequence[Shortfall]) -> Answer:
    """The capability that queues would need."""
    texts = []
    for short in shortfalls:
        capability = snapshot.queues[short.queue].capability
        for row in np.flatnonzero(short.missing).tolist():
            resource = snapshot.axis.names[row]
            wanted = show(resource, capability[resource] + int(short.missing[row]))
            texts.append(f"the capability of queue {short.queue} to {wanted} of {resource}")
    subjects = tuple(short.queue for short in shortfalls)
    return Answer("quota", len(texts), False, subjects, f"raise {' and '.join(texts)}", ())


def _relax(snapshot: Snapshot, job: Job, lacking: Ints) -> Answer | None:
    """The tightest limit above the job's own with which a domain has room."""
    constraint = job.constraint
    if constraint is None or not constraint.hard:
        return None
    ladder = above(snapshot, constraint)
    for number, (tier, name) in enumerate([*ladder, (PLENTY, "")], 1):
        domains = np.flatnonzero(snapshot.topology.tier <= tier)
        if (lacking[domains] == 0).any():
            wider = level_text((tier, name)) if tier < PLENTY else "no limit"
            text = f"relax its limit from {constraint_text(constraint)} to {wider}"
            return Answer("relax", number, False, (job.key,), text, ())
    return None


def _evict(
    scenario: Scenario, job: Job, room: CountedRoom, allowed: Ints, shortfalls: Sequence[Shortfall]
) -> Answer | None:
    """Few pods that may go, the cheapest of some domains; those that the scheduler would evict itself come first."""
    for fair in (True, False):
        victims = Victims.of(scenario, job, fair=fair)
        if not victims.kinds:
            continue
        counts = _cheapest_leaving(room, victims, allowed, shortfalls)
        if counts is not None:
            return eviction_answer(victims, counts, exact=False, fair=fair)
    return None


def _cheapest_leaving(
    room: CountedRoom, victims: Victims, allowed: Ints, shortfalls: Sequence[Shortfall]
) -> Counts | None:
    limits = np.array(victims.most, dtype=np.int64)
    on_rows = victims.rows >= 0
    amounts = (victims.amounts * limits)[:, on_rows]
    freed = np.array([summed(victims.rows[on_rows], amount, len(room.snapshot.nodes)) for amount in amounts])
    emptied = room.fits_with(freed)
    possible = allowed[room.lacking(emptied, room.free + freed)[allowed] == 0]
    order = possible[np.argsort(room.lacking()[possible], kind="stable")]
    gangs = victims.gangs()
    prices = [loss + 1 for loss in victims.losses]
    choices: list[tuple[int, int, int, int, Counts]] = []
    for domain in order[:_DOMAINS].tolist():
        counts = _leaving_of(room, victims, domain, emptied)
        if shortfalls:
            counts = filled(victims, shortfalls, counts, victims.most, prices)
        choices.append((*victims.cost(counts, gangs), sum(counts), len(choices), counts))
    return min(choices)[-1] if choices else None


def _leaving_of(room: CountedRoom, victims: Victims, domain: int, emptied: tuple[Ints, ...]) -> Counts:
    """The pods of a domain that should go: all those of few nodes, but for pods that can stay."""
    span = room.snapshot.topology.span(domain)
    number_of_rows = len(room.snapshot.nodes)
    kinds = np.flatnonzero((victims.rows >= span.start) & (victims.rows < span.stop))
    rows_of_kinds = victims.rows[kinds]
    limits = np.array(victims.most, dtype=np.int64)[kinds]
    pods = summed(rows_of_kinds, limits, number_of_rows)
    gain = np.add.reduce([after - before for after, before in zip(emptied, room.fits, strict=True)])
    rows = np.arange(span.start, span.stop)
    rows = rows[(gain[rows] > 0) & (pods[rows] > 0)]
    rows = rows[np.argsort(pods[rows] / gain[rows], kind="stable")]
    place = np.full(number_of_rows, len(rows), dtype=np.int64)
    place[rows] = np.arange(len(rows))
    place_of_kinds = place[rows_of_kinds]

    def enough(counts: Ints) -> bool:
        going = np.flatnonzero(counts)
        at = distinct(rows_of_kinds[going])
        amounts = victims.amounts[:, kinds[going]] * counts[going]
        freed = [summed(at.searchsorted(rows_of_kinds[going]), amount, len(at)) for amount in amounts]
        return room.holds(domain, at, np.array(freed, dtype=np.int64))

    number = fewest_number(len(rows), lambda n: enough(np.where(place_of_kinds < n, limits, 0)))
    pods_going = np.where(place_of_kinds < (len(rows) if number is None else number), limits, 0)
    going = np.flatnonzero(pods_going)
    for kind in reversed(going.tolist()) if len(going) <= _PRUNED else ():
        fewer = pods_going.copy()
        fewer[kind] = 0
        if enough(fewer):
            pods_going = fewer
    counts = np.zeros(len(victims.kinds), dtype=np.int64)
    counts[kinds] = pods_going
    return tuple(counts.tolist())


def _add_nodes(scenario: Scenario, room: CountedRoom, lacking: Ints, allowed: Ints) -> Answer | None:
    """The fewest nodes like one that are missing by count, beside it."""
    snapshot = scenario.snapshot()
    topology = snapshot.topology
    judged = np.zeros(len(topology), dtype=bool)
    judged[allowed] = True
    best = (PLENTY, "")
    for name in models(scenario):
        row = snapshot.nodes.row[name]
        around = topology.chains[int(topology.leaf[row])]
        around = around[judged[around]]
        empty = snapshot.nodes.allocatable[:, row]
        takes = [int(shape.max_tasks(empty[shape.asked][:, None].copy())[0]) for shape, _ in room.needs]
        if not len(around) or not min(takes) or not all(rows[row] for rows in room.open):
            continue
        number = -(-int(lacking[around].min()) // min(takes))
        best = min(best, (number, name), key=lambda choice: choice[0])
    number, name = best
    if not name:
        return None
    text = added_text([(name, number, beside(snapshot, name))])
    return Answer("add-nodes", number, False, (name,) * number, text, ())


def _ending(snapshot: Snapshot) -> list[tuple[float, Job, list[Task]]]:
    """Running jobs with known ends, the earliest end first, and their running tasks."""
    ends = ExpectedEnds(snapshot)
    ending = []
    for job in snapshot.jobs:
        running = [task for task in job.tasks if task.status is Status.RUNNING and task.node >= 0]
        end = ends.of(job) if running else None
        if end is not None and end.known:
            ending.append((max(end.planned, snapshot.now), job, running))
    ending.sort(key=lambda entry: (entry[0], entry[1].order))
    return ending


def _wait(snapshot: Snapshot, room: CountedRoom, allowed: Ints) -> Answer | None:
    """Until when pods whose end is known have left enough room, if nobody else takes it."""
    ending = _ending(snapshot)
    if not ending:
        return None
    tasks = [task for _, _, running in ending for task in running]
    rows = snapshot.nodes.rows[np.array([task.node for task in tasks], dtype=np.int64)]
    amounts = np.array([task.shape.request for task in tasks], dtype=np.int64).T
    upto = np.cumsum([0, *(len(running) for _, _, running in ending)])

    def enough(jobs: int) -> bool:
        on_rows = np.flatnonzero(rows[: upto[jobs]] >= 0)
        freed = np.array([summed(rows[on_rows], amount[on_rows], len(snapshot.nodes)) for amount in amounts])
        return bool((room.lacking(room.fits_with(freed), room.free + freed)[allowed] == 0).any())

    number = fewest_number(len(ending), enough)
    if not number:
        return None
    end = ending[number - 1][0]
    wait = max(0.0, end - snapshot.now)
    jobs_ending = [job for at, job, _ in ending[:number] if at == end]
    names = joined([full_name(job) for job in jobs_ending], limit=3)
    text = (
        f"wait {lasting(wait)}, until {clock_text(end, snapshot.now)}: {names} "
        f"{verb(len(jobs_ending), 'ends', 'end')} (at the earliest: others may be first)"
    )
    return Answer("wait", round(wait), False, tuple(job.key for job in jobs_ending), text, ())
