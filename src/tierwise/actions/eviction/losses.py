"""What a plan of evictions loses of the victims' work, against what the preemptor gains by starting now.

Plugins say seconds; here they become shares of what the preemptor needs. All that a gang does is lost where it is
broken, and the work of single pods where it is not. Without a plugin that prices evictions, nothing is lost.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Preemptor
from tierwise.model.arrays import Floats, Ints, distinct
from tierwise.model.job import Reason, other_job
from tierwise.model.running import RunningTable

__all__ = ["declined", "loss_text", "with_losses"]


def with_losses(cycle: Cycle, preemptor: Preemptor) -> Preemptor:
    """The preemptor with what each running task would lose, in shares of its need times shares of its gain."""
    if not cycle.pipeline.lost_seconds:
        return preemptor
    running = preemptor.running
    weighed = preemptor.weighed
    gained = max(cycle.pipeline.gained_seconds(preemptor.job), 1e-9)
    shares = (running.request[weighed] / preemptor.need[weighed, None]).sum(axis=0)
    lost = cycle.pipeline.lost_seconds(preemptor.job, running, np.arange(len(running)))
    return replace(preemptor, losses=shares * lost / gained)


def _losing(cycle: Cycle, running: RunningTable, victims: Ints) -> Ints:
    """Whose work is lost: the victims', and that of all tasks of gangs that fall below their minimum."""
    surplus = running.jobs.surplus(cycle.ledger.ready)
    numbers = np.bincount(running.job[victims], minlength=len(surplus))
    broken = np.flatnonzero((numbers > surplus) & (numbers > 0) & (surplus >= 0))
    return np.union1d(victims, np.flatnonzero(np.isin(running.job, broken)))


def declined(cycle: Cycle, preemptor: Preemptor, victims: Ints, action: str) -> Reason | None:
    """Why a plan is not carried out: it loses more than it gains. To be asked before the victims are evicted."""
    if preemptor.losses is None or not len(victims) or not cycle.pipeline.declines_losses(preemptor.job):
        return None
    losing = _losing(cycle, preemptor.running, victims)
    if float((preemptor.losses[losing] * _weight(cycle, preemptor, losing)).sum()) <= len(preemptor.weighed) + 1e-9:
        return None
    numbers = distinct(preemptor.running.job[losing]).tolist()
    names = (other_job(cycle.snapshot.jobs[numbers[0]].key),) if len(numbers) == 1 else ()
    text = f"nothing was evicted: {_compared(cycle, preemptor, losing)}"
    return Reason("LosesMoreThanItGains", action, text, names)


def _weight(cycle: Cycle, preemptor: Preemptor, losing: Ints) -> Floats:
    """Which share of its loss counts for each task where a plan may be declined.

    What a restart costs is its job's own word: it says who goes first, but counts for no more than half of the gain.
    """
    running = preemptor.running
    jobs = cycle.snapshot.jobs
    lost = cycle.pipeline.lost_seconds(preemptor.job, running, losing)
    terms = (jobs[n].terms for n in running.job[losing].tolist())
    claimed = np.array([restart_terms.restart_cost if restart_terms is not None else 0.0 for restart_terms in terms])
    claim_limit = cycle.pipeline.gained_seconds(preemptor.job) / 2
    counted = np.maximum(lost - claimed, 0.0) + np.minimum(claimed, claim_limit)
    shares: Floats = np.divide(counted, lost, out=np.ones_like(lost), where=lost > 0)
    return np.minimum(shares, 1.0)


def loss_text(cycle: Cycle, preemptor: Preemptor, victims: Ints) -> str:
    """Work that a plan loses and gains, in words; "" where no plugin prices evictions."""
    if preemptor.losses is None or not len(victims):
        return ""
    return _compared(cycle, preemptor, _losing(cycle, preemptor.running, victims))


def _compared(cycle: Cycle, preemptor: Preemptor, losing: Ints) -> str:
    """Both in hours of the resource that is asked for the most of what nodes have."""
    running = preemptor.running
    weighed = preemptor.weighed
    total = cycle.nodes.allocatable.sum(axis=1)
    resource = int(weighed[np.argmax(preemptor.need[weighed] / np.maximum(total[weighed], 1))])
    seconds = cycle.pipeline.lost_seconds(preemptor.job, running, losing)
    lost = _hours(running.request[resource, losing], seconds)
    gained = _hours(preemptor.need[[resource]], np.array([cycle.pipeline.gained_seconds(preemptor.job)]))
    name = cycle.view.axis.names[resource]
    scale = 1000.0 if name == "cpu" else 1.0
    jobs = [cycle.snapshot.jobs[n].key for n in distinct(running.job[losing]).tolist()]
    whose = jobs[0] if len(jobs) == 1 else f"{len(jobs)} jobs"
    return f"{lost / scale:.1f} {name} hours of {whose} would be lost, for {gained / scale:.1f} that it gains"


def _hours(amounts: Ints, seconds: Floats) -> float:
    return float((amounts * seconds).sum()) / 3600.0
