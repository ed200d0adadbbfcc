"""Plans of evictions that are kept from one preemptor to the next that is like it, domain by domain.

A plan for a domain follows from the kind of preemptor, the rows of the domain, the gangs that have tasks there and the
budgets over these, and from what quotas answered on the way; plugins promise that they read no more (`by_amounts`).
What has changed of that since the last preemptor is compared and not told. A gang that changed ends the plans of every
domain in which it has a task, whether or not that task may go. `gang` asks; plans are made there.
"""

from __future__ import annotations

from collections.abc import Hashable

import msgspec
import numpy as np

from tierwise.actions.eviction.feasibility import Quotas
from tierwise.actions.eviction.victims import EvictionPlan
from tierwise.actions.placement.demand import Demand
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Preemptor, Purpose
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Bools, Ints
from tierwise.model.running import RunningTable

__all__ = ["KeptPlan", "KeptPlans", "PlanInputs"]


class KeptPlan(msgspec.Struct, frozen=True):
    """The plan for a domain that an earlier preemptor found, or that there is none."""

    plan: EvictionPlan | None
    answers: dict[bytes, bool]  # of quotas, by what victims free

    def holds(self, quotas: Quotas) -> bool:
        """Whether it would be made again, where rows and gangs of its domain are as they were."""
        return all(quotas.allow_without(freed) is allowed for freed, allowed in self.answers.items())


class PlanInputs(msgspec.Struct, frozen=True):
    """All that plans read and that changes between preemptors, but for what quotas say.

    Whatever a job loses is eligible no more, and what is placed meanwhile of a job that may lose tasks, where a profile
    serves such jobs before the preemptors, is ready. Preemptors of two queues have no eligible task in common.
    """

    kind: Hashable  # of the preemptor
    free: Ints  # (resources x rows)
    eligible: Bools  # by running task: whether the purpose lets it go
    ready: Ints  # by sub-job
    budgets: Ints

    @classmethod
    def of(
        cls, cycle: Cycle, preemptor: Preemptor, demand: Demand, quotas: Quotas, eligible: Bools
    ) -> PlanInputs | None:
        """Of plans for a preemptor; None where they read more than that."""
        kind = _kind(cycle, preemptor, demand, quotas)
        if kind is None:
            return None
        ledger = cycle.ledger
        requested = np.flatnonzero(preemptor.need)
        free = ledger.free(requested, slice(0, len(cycle.nodes)), Pool.FUTURE_IDLE)
        return cls(kind, free, eligible, ledger.ready.copy(), ledger.budgets.copy())


def _kind(cycle: Cycle, preemptor: Preemptor, demand: Demand, quotas: Quotas) -> Hashable:
    """A key that is equal for preemptors with the same plans. None for a preemptor whose plans may depend on more."""
    job = preemptor.job
    pipeline = cycle.pipeline
    firm = tuple((shape.number, number) for shape, number in demand.task_groups[0].firm())
    by_amounts = (quotas.silent or quotas.by_amounts) and pipeline.victims_by_amounts
    if cycle.fit_counts.closed is not None:
        return None
    if not firm or job.shape.parted or cycle.beside_gradients(job) or not by_amounts or pipeline.select_victims:
        return None
    if preemptor.purpose is not Purpose.PREEMPT or preemptor.protection is not None:  # what queues hold is read there
        return None
    lost = preemptor.losses.tobytes() if preemptor.losses is not None else b""
    used_by_job = cycle.ledger.job_used[:, job.number].tobytes()
    return job.priority, job.scheduler, firm, preemptor.weighed.tobytes(), lost, used_by_job, quotas.silent


class KeptPlans:
    """The plans that were made for the last preemptor, or held for it."""

    def __init__(self, cycle: Cycle, running: RunningTable) -> None:
        self._cycle = cycle
        self._running = running
        self._read: PlanInputs | None = None
        self._plans: dict[int, KeptPlan] = {}

    def for_next(self, inputs: PlanInputs | None) -> dict[int, KeptPlan]:
        """Those whose domains are as they were, by domain; what is added to them is kept for the preemptor behind."""
        last_inputs = self._read
        self._read = inputs
        if inputs is None or last_inputs is None or last_inputs.kind != inputs.kind:
            self._plans = {}
        else:
            changed = self._changed(last_inputs, inputs)
            self._plans = {domain: plan for domain, plan in self._plans.items() if not changed[domain]}
        return self._plans

    def _changed(self, last_inputs: PlanInputs, inputs: PlanInputs) -> Ints:
        """How many rows of each domain have changed, hold a task of a gang that has, or one under a budget that has."""
        running = self._running
        jobs = running.jobs.sums(last_inputs.ready != inputs.ready) > 0
        jobs[running.job[last_inputs.eligible != inputs.eligible]] = True
        task, budget = running.covered
        rows = (last_inputs.free != inputs.free).any(axis=0)
        rows[running.row[jobs[running.job]]] = True
        rows[running.row[task[(last_inputs.budgets != inputs.budgets)[budget]]]] = True
        return self._cycle.topology.totals(rows)
