"""Notice before eviction: pods of jobs that ask for it are told first, and go when their time is over.

Called by the cycle after all actions. Victims of one preemptor go together: where one of them still has time, none is
evicted, nothing is nominated, and the preemptor waits with a reason. Nothing is remembered but the condition that the
pod was given; a later cycle plans again, with those who have one first, and evicts those whose time is over. `effects`
writes and withdraws conditions.
"""

from __future__ import annotations

from msgspec.structs import replace

from tierwise.api.core import format_time
from tierwise.api.plurals import count, verb
from tierwise.framework.cycle import Cycle
from tierwise.framework.report import Eviction, Notice
from tierwise.model.job import Job, Reason, Rejection

__all__ = ["give_notice"]

_REPAIR = "repair"


def give_notice(cycle: Cycle) -> None:
    """Hold back the evictions whose victims have time left, and note who is told."""
    report = cycle.report
    if not cycle.pipeline.lost_seconds:
        return
    groups: dict[str, list[Eviction]] = {}
    for number, eviction in enumerate(report.evictions):
        if eviction.action == _REPAIR:
            continue  # nodes are lost without notice, and so are spares
        groups.setdefault(eviction.by.key if eviction.by is not None else f"eviction {number}", []).append(eviction)
    going = {id(eviction) for eviction in report.evictions if eviction.action == _REPAIR}
    for evictions in groups.values():
        notices = [notice for eviction in evictions if (notice := _notice(cycle, eviction)) is not None]
        latest = max((notice.until for notice in notices), default=0.0)
        if latest <= cycle.snapshot.now:
            going.update(map(id, evictions))
            continue
        report.notices += notices
        if evictions[0].by is not None:
            _hold(cycle, evictions[0].by, notices, latest)
    report.evictions[:] = [eviction for eviction in report.evictions if id(eviction) in going]


def _notice(cycle: Cycle, eviction: Eviction) -> Notice | None:
    """Notice for a victim; None if its job asks for none."""
    time = cycle.pipeline.notice_seconds(eviction.job)
    if time <= 0:
        return None
    now = cycle.snapshot.now
    since = min(eviction.task.noticed or now, now)  # a clock that was ahead has been set back
    return Notice(eviction.task, eviction.job, since + time, eviction.reason, eviction.by)


def _hold(cycle: Cycle, job: Job, notices: list[Notice], until: float) -> None:
    """A preemptor waits for its victims' time to be over: what was decided for it is undone."""
    report = cycle.report
    report.decisions[:] = [decision for decision in report.decisions if decision.job is not job or decision.bound]
    notice_text = f"{count(len(notices), 'pod')} {verb(len(notices), 'has', 'have')} notice until {format_time(until)}"
    reason = Reason("AwaitsNotice", "eviction-cost", f"{notice_text}, and will be evicted for it then")
    attempts = report.eviction_attempts.get(job.key, [])
    if attempts:
        attempts[-1] = replace(attempts[-1], loss="; ".join(filter(None, (attempts[-1].loss, notice_text))))
    report.reject(job, Rejection("place", job.key, reason))
    report.delays[job.key] = until
