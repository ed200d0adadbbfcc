"""Look at the victims of an action once more, together: who is needless with the others gone stays.

Each plan is made for one job. Victims of a later one may free so much where an earlier one is waited for that its own
victims need not go. Victims stay where all that was decided still has room with them there.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from msgspec.structs import replace

from tierwise.config.actions import EVICTING, EVICTING_BY_POD
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool
from tierwise.framework.report import Eviction
from tierwise.model.arrays import Ints, summed
from tierwise.model.job import Job

__all__ = ["review"]


def review(cycle: Cycle, since: int) -> None:
    """Take back those of the evictions from a number on that others make needless, the last to go first."""
    evictions = [e for e in cycle.report.evictions[since:] if e.by is not None and e.action in EVICTING]
    causes = {(e.by.key, e.action) for e in evictions if e.by is not None}
    if len(causes) < 2 and not any(e.job.together for e in evictions):  # the plan for one job has no needless victims
        return
    needless: set[str] = set()
    alone = _have_room_alone(cycle, evictions)
    for bundle in _bundles(cycle, evictions):
        if not alone.issuperset(e.task.key for e in bundle):
            continue
        victims = np.array([cycle.running.position[e.task.key] for e in bundle], dtype=np.int64)
        if not _have_room(cycle, victims):
            continue
        if any(cycle.ledger.counted(number) for number in cycle.running.shape[victims].tolist()):
            continue  # others may stand where they do because of these
        with cycle.ledger.statement() as statement:
            cycle.ledger.take_back(cycle.running, victims)
            if _quotas_allow(cycle, evictions):
                statement.keep()
                needless.update(eviction.task.key for eviction in bundle)
                _tell(cycle, bundle)
    if needless:
        needed = [e for e in cycle.report.evictions[since:] if e.task.key not in needless]
        cycle.report.evictions[since:] = needed


def _bundles(cycle: Cycle, evictions: list[Eviction]) -> list[list[Eviction]]:
    """Evictions that stand or fall together: all of a gang that is broken or evicted whole, else each pod by itself.

    Where pods are evicted one by one, no minimum keeps the pods of a gang together.
    """
    bundles: dict[object, list[Eviction]] = {}
    ready = cycle.running.jobs.sums(cycle.ledger.ready)
    lost = Counter(e.job.number for e in evictions)
    for eviction in reversed(evictions):
        job = eviction.job
        still_ready = int(ready[job.number])
        falls = eviction.action not in EVICTING_BY_POD and still_ready < job.minimum <= still_ready + lost[job.number]
        broken = job.together or falls
        bundles.setdefault(job.key if broken else eviction.task.key, []).append(eviction)
    return list(bundles.values())


def _have_room_alone(cycle: Cycle, evictions: list[Eviction]) -> set[str]:
    """Which of these tasks fit their nodes beside what was decided, each by itself: no bundle with another one does."""
    victims = np.array([cycle.running.position[e.task.key] for e in evictions], dtype=np.int64)
    every = np.arange(len(cycle.running.request))
    free = cycle.ledger.free(every, slice(0, len(cycle.nodes)), Pool.FUTURE_IDLE)[:, cycle.running.row[victims]]
    requested = cycle.running.request[:, victims]
    fit = np.all((free >= requested) | (requested == 0), axis=0)
    return {evictions[i].task.key for i in np.flatnonzero(fit).tolist()}


def _have_room(cycle: Cycle, victims: Ints) -> bool:
    """Whether these tasks fit their nodes beside what was decided."""
    request = cycle.running.request[:, victims]
    resources = np.flatnonzero(request.any(axis=1))
    rows, place = np.unique(cycle.running.row[victims], return_inverse=True)
    requested = np.stack([summed(place, request[r], len(rows)) for r in resources.tolist()])
    return bool((cycle.ledger.free(resources, rows, Pool.FUTURE_IDLE) >= requested).all())


def _quotas_allow(cycle: Cycle, evictions: list[Eviction]) -> bool:
    """Whether no preemptor is now beyond its quota, in anything that it uses."""
    jobs: dict[str, Job] = {e.by.key: e.by for e in evictions if e.by is not None}
    for job in jobs.values() if cycle.pipeline.quota_exceeded else ():
        used = cycle.ledger.job_used[:, job.number].copy()
        if cycle.over_quota(job, used, placed=True) is not None:  # quotas look at what is asked for
            return False
    return True


def _tell(cycle: Cycle, bundle: list[Eviction]) -> None:
    """Take evictions that were undone out of the explanation of their plans."""
    for eviction in bundle:
        if eviction.by is None:
            continue
        attempts = cycle.report.eviction_attempts.get(eviction.by.key, [])
        for i, attempt in enumerate(attempts):
            if attempt.action == eviction.action and attempt.obstacle is None:
                notes = list(attempt.bundles)
                at = next((n for n, note in enumerate(notes) if note.job == eviction.job.key and note.taken), None)
                if at is not None:
                    notes[at] = replace(notes[at], taken=notes[at].taken - 1)
                    attempts[i] = replace(attempt, bundles=tuple(notes))
