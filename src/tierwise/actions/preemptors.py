"""On whose behalf room is made: jobs that starve, and of these the tasks that may cause evictions."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from tierwise.actions.demand import Demand, Lot
from tierwise.framework.cycle import Cycle
from tierwise.framework.standing import job_ready
from tierwise.model.job import Job, Phase

__all__ = ["may_evict", "of_those_who_may", "starving_jobs"]


def starving_jobs(cycle: Cycle) -> Iterator[Job]:
    """Jobs that wait in an open queue with too few tasks, the first in order first."""
    waiting = [job for job in cycle.snapshot.jobs if may_evict(cycle, job)]
    if cycle.pipeline.in_one_line:
        yield from sorted(waiting, key=cycle.pipeline.job_key)
        return
    queues = cycle.snapshot.queues
    lines = {name: queues.get(queue.line, queue) for name, queue in queues.items()}
    yield from sorted(waiting, key=lambda j: (cycle.pipeline.queue_key(lines[j.queue]), cycle.pipeline.job_key(j)))


def may_evict(cycle: Cycle, job: Job) -> bool:
    """Whether a job starves in an open queue, and nothing but room is missing."""
    queue = cycle.snapshot.queues.get(job.queue)
    inside = job.phase is not Phase.PENDING or job.key in cycle.report.phases
    if queue is None or not queue.open or not inside or not any(job.parts()):
        return False
    if job.unsupported or job.key in cycle.report.delays:  # or it could have had a place without
        return False
    starved = not job_ready(cycle.ledger, job, waiting=True) and cycle.pipeline.starving(job)
    return starved and cycle.pipeline.admit(job) is None


def of_those_who_may(asked: Demand) -> Demand | None:
    """The demand without pods that must not cause evictions; None where its minimum cannot do without them."""
    lots = [_lot_of_those_who_may(lot) for lot in asked.lots]
    spares = [_lot_of_those_who_may(lot) for lot in asked.spares]
    if None in lots:
        return None
    return Demand(tuple(lot for lot in lots if lot is not None), tuple(lot for lot in spares if lot is not None))


def _lot_of_those_who_may(lot: Lot) -> Lot | None:
    portions = tuple(p for p in lot.portions if not p.part.shape.never_preempts)
    short = any(sum(p.left for p in portions if p.part.role_number == r) < least for r, least in lot.roles.items())
    return None if short or sum(p.left for p in portions) < lot.need else replace(lot, portions=portions)
