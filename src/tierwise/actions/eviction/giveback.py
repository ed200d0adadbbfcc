"""giveback: quotas that hold more than their share return it, whether or not a particular job needs it.

The lending plugin chooses the victims (`Lending`), by what they lose where a plugin prices that. If the profile does
not allow it, or not yet, jobs that wait although their own quota would allow them are told which quota holds the
resources.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from msgspec.structs import replace

from tierwise.actions.eviction.node_costs import beyond_budgets
from tierwise.actions.eviction.preemptors import ProtectedJobs
from tierwise.actions.placement.demand import demand, needs
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Debt, Lending, Preemptor, Purpose
from tierwise.framework.ledger import job_ready
from tierwise.framework.pipeline import PluginError
from tierwise.framework.report import EvictionAttempt
from tierwise.model.arrays import Bools, Ints
from tierwise.model.job import Job, Named, Reason
from tierwise.model.running import RunningTable

__all__ = ["give_back"]

_ACTION = "giveback"


def give_back(cycle: Cycle, *, enabled: bool) -> None:
    """Let quotas pay what they owe; `enabled` is what the profile says about it."""
    gone = {eviction.task.key for eviction in cycle.report.evictions}
    settled = ProtectedJobs(cycle)
    settled.catch_up()
    notices = []
    for plugin, debt in cycle.pipeline.debts():
        if not enabled or not debt.due:
            notices.append((debt.queue, _kept(debt.text, enabled=enabled)))
            continue
        running = cycle.running
        already_gone = np.array([task.key in gone for task in running.tasks], dtype=bool)
        stays = settled.alone[running.job]  # what the cycle has just placed stays
        priced = _priced(cycle, replace(running, not_preemptable=running.not_preemptable | stays), debt)
        going = _allowed(cycle, plugin, debt, priced, already_gone)
        remaining_debt = replace(debt, over=debt.over - running.request[:, going].sum(axis=1))
        if (
            remaining_debt.over > 0
        ).any():  # the quota holds this beyond its share: neither a mark nor a budget protects it
            stays = stays | np.isin(np.arange(len(running)), going)
            exposed = _priced(cycle, replace(running, not_preemptable=stays), remaining_debt)
            unprotected = _owed(cycle, plugin, remaining_debt, exposed, already_gone)
            going = np.concatenate((going, np.setdiff1d(unprotected, going)))
        if not len(going):
            continue
        with cycle.ledger.statement() as statement, suppress(PluginError):  # a plugin that cannot follow keeps them
            cycle.ledger.evict(cycle.running, going)
            statement.keep()
            cycle.evict_running(going, None, _ACTION, debt.text, past_budgets=True)
    if notices:
        for job in _denied(cycle):
            for queue, reason in notices:
                queue_reason = replace(reason, names=()) if queue == job.queue else reason
                cycle.report.add_eviction_attempt(job, EvictionAttempt(_ACTION, queue_reason))


def _owed(cycle: Cycle, plugin: Lending, debt: Debt, running: RunningTable, gone: Bools) -> Ints:
    """The victims that pay a debt; of a group that is evicted as one all or none."""
    firm = running.not_preemptable | ~running.whole(~running.not_preemptable & ~gone, gone)
    paid = cycle.pipeline.paid_with(plugin, debt, replace(running, not_preemptable=firm))
    return running.with_groups(paid[~gone[paid]], gone)


def _allowed(cycle: Cycle, plugin: Lending, debt: Debt, running: RunningTable, gone: Bools) -> Ints:
    """The victims that pay a debt within disruption budgets; of a group that is evicted as one all or none."""
    while True:
        firm = running.not_preemptable
        going = _owed(cycle, plugin, debt, running, gone)
        beyond = beyond_budgets(cycle, running, going)
        if not beyond.any():
            return going
        firm = firm.copy()
        firm[going[beyond]] = True
        running = replace(running, not_preemptable=firm)


def _priced(cycle: Cycle, running: RunningTable, debt: Debt) -> RunningTable:
    """The running tasks with what those of a quota would lose; they stay where they have not run for long enough."""
    if not cycle.pipeline.lost_seconds:
        return running
    losses = np.zeros(len(running))
    marked = running.not_preemptable.copy()
    by_scheduler: dict[str, list[int]] = {}
    for position, number in enumerate(running.job.tolist()):
        job = cycle.snapshot.jobs[number]
        if job.queue == debt.queue:
            by_scheduler.setdefault(job.scheduler, []).append(position)
    for positions in by_scheduler.values():
        victims = np.array(positions, dtype=np.int64)
        job = cycle.snapshot.jobs[int(running.job[victims[0]])]
        with suppress(PluginError):  # who cannot say what is lost has no say in it
            losses[victims] = cycle.pipeline.lost_seconds(job, running, victims)
        owner = Preemptor(Purpose.RECLAIM, job, np.maximum(debt.over, 0), False, running)
        marked[victims] |= cycle.pipeline.protected_by_price(owner, victims)
    return replace(running, losses=losses, not_preemptable=marked)


def _kept(text: str, *, enabled: bool) -> Reason:
    """Why what is owed is not paid; whose quota it is, and how much, is for those in it and for operators."""
    names = (Named("", text, "another quota holds more than its runtime"),)
    if enabled:
        return Reason("GiveBackLater", _ACTION, f"{text}, but not for long enough to give it back", names)
    return Reason("GiveBackOff", _ACTION, f"{text}, and giving back is off", names)


def _denied(cycle: Cycle) -> list[Job]:
    """Jobs that lack room, not quota."""
    waiting = [job for job in cycle.snapshot.jobs if job.key in cycle.report.rejections]
    return [job for job in waiting if not job_ready(cycle.ledger, job, waiting=True) and _within_quota(cycle, job)]


def _within_quota(cycle: Cycle, job: Job) -> bool:
    try:
        job_demand = demand(cycle, job)
    except PluginError:  # it was told so when it was served
        return False
    return bool(job_demand.task_groups) and cycle.pipeline.quota_exceeded(job, needs(job_demand)) is None
