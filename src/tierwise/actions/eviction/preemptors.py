"""What all actions that evict have in common: which jobs may evict, and which of their tasks.

Also which jobs are not evicted, because this cycle has placed them, and what is reported of those that are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from tierwise.actions.enqueue import admission_reason, queue_reason
from tierwise.actions.eviction.losses import declined
from tierwise.actions.eviction.protection import ProtectionLimits
from tierwise.actions.placement.commit import commit
from tierwise.actions.placement.demand import Demand, TaskGroup
from tierwise.actions.placement.problem import Placement, amounts_of, deferral
from tierwise.api.plurals import count, verb
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Preemptor, Purpose
from tierwise.framework.ledger import Pool, job_ready
from tierwise.framework.pipeline import PluginError
from tierwise.framework.report import Decision, EvictionAttempt
from tierwise.framework.steps import CUT_SHORT
from tierwise.model.arrays import POD_SLOTS, Bools, Ints
from tierwise.model.job import Job, Reason, Rejection
from tierwise.model.running import RunningTable

__all__ = [
    "Evictor",
    "ProtectedJobs",
    "highest_priority",
    "marked",
    "may_evict",
    "slots",
    "starving_jobs",
    "without_never_preempting",
]


_MIGHT_DO = "no pod is evicted for it: the search stopped at its bound, so idle nodes may still hold it"

_STARTED = Reason("WaitsForGang", "gang", "its gang has just started: its other pods are placed next")


class Evictor(ABC):
    """Makes room for one job after the other; who went for one is gone for the next, whichever action it was."""

    def __init__(self, cycle: Cycle, purpose: Purpose, action: str) -> None:
        self._cycle = cycle
        self._purpose = purpose
        self._action = action
        self._running: RunningTable = cycle.running
        self._settled = ProtectedJobs(cycle)
        self._notices = Notices(cycle)
        self._protection = ProtectionLimits.of(cycle)
        self._gone: Bools = np.zeros(len(self._running), dtype=bool)
        self._evicted: Bools = np.zeros(len(self._running), dtype=bool)
        self._seen = 0  # evictions of the report that are known here

    @abstractmethod
    def serve(self, job: Job) -> None:
        """Evict for a starving job and nominate it, or say why not."""

    def serve_safely(self, job: Job) -> None:
        """Evict for a job, unless a plugin fails or the job has no steps left.

        A job that used a whole budget of steps is not served again until room grows.
        """
        steps = self._cycle.steps
        refusals = self._cycle.refusals.standing
        remembered_refusal = refusals.get(job, self._action)
        begun = steps.taken
        failed = (
            remembered_refusal.reason
            if remembered_refusal is not None
            else self._cycle.attempt(job, self._serve_or_wait)
        )
        if failed is not None:
            self._tell(job, failed)
        if remembered_refusal is not None:
            return
        if failed is not None and failed.code == CUT_SHORT:
            refusals.add(job, Rejection("steps", job.key, failed, bounded=True), self._action)
        elif failed is None:
            attempts = self._cycle.report.eviction_attempts.get(job.key, [])
            if attempts and attempts[-1].obstacle is not None:
                refusals.add_passing(job, Rejection("evict", job.key, attempts[-1].obstacle), begun, self._action)

    def _serve_or_wait(self, job: Job) -> Reason | None:
        if self._idle_room_might_do(job):
            return Reason("IdleRoomMightDo", self._action, _MIGHT_DO)
        self.serve(job)
        return None

    def _idle_room_might_do(self, job: Job) -> bool:
        """Whether the search for a job ended without a proof, and nothing else proves that idle room does not hold it:
        then nobody goes for it.
        """
        rejection = self._cycle.report.rejections.get(job.key)
        cycle = self._cycle
        if rejection is None or not rejection.bounded or rejection.stage != "fit":
            return False
        from tierwise.actions.placement.exact import refuted, statable  # rarely needed

        stated_demand = statable(cycle, job)
        return stated_demand is not None and not refuted(cycle, job, stated_demand)

    def _tell(self, job: Job, obstacle: Reason) -> None:
        self._cycle.report.add_eviction_attempt(job, EvictionAttempt(self._action, obstacle))

    def _catch_up(self) -> None:
        """Learn what was decided, and who was evicted, since the last time."""
        fresh = self._cycle.report.evictions[self._seen :]
        self._settled.catch_up()
        gone = self._running.at(eviction.task for eviction in fresh)
        self._gone[gone] = self._evicted[gone] = True
        self._seen += len(fresh)

    def _preemptor(self, job: Job, need: Ints, *, gang: bool, across: bool = False, by_pod: bool = False) -> Preemptor:
        """The preemptor with what ends the protection of running tasks from it now."""
        protection = None
        if self._protection is not None:
            priority = highest_priority(job) if by_pod else job.priority
            protection = self._protection.against(job, self._purpose, priority=priority, by_pod=by_pod)
        return Preemptor(
            self._purpose, job, need, gang, self._running, across=across, by_pod=by_pod, protection=protection
        )

    def _all_may_go(self, preemptor: Preemptor, victims: Ints) -> bool:
        """Whether neither a mark nor a filter protects the victims of a plan.

        Filters were asked about all of them before, except those that are evicted with a group. Marks are asked about
        again, since their protection depends on which other tasks are evicted.
        """
        running = self._running
        marked = self._running.not_preemptable[victims]
        if running.jobs.together[running.job[victims]].any():
            return not preemptor.stays[victims].any() and bool(self._cycle.pipeline.may_go(preemptor, victims).all())
        if preemptor.protection is None or not marked.any():
            return not marked.any()
        return bool(preemptor.protection.ended(running, victims, marked)[marked].all())

    def _declined(self, preemptor: Preemptor, victims: Ints) -> Reason | None:
        """Why a plan loses more than it gains; of those who were given notice that has been weighed before."""
        if self._notices.among(victims):
            return None
        return declined(self._cycle, preemptor, victims, self._action)

    def _why_nobody(self, preemptor: Preemptor, others_running: Ints) -> str:
        """Why none of the running pods `others_running`, by position, is a candidate."""
        running = self._running
        job = preemptor.job
        if preemptor.by_pod:
            less = running.priority[others_running] < highest_priority(job)
        else:
            less = running.jobs.priority[running.job[others_running]] < job.priority
        return _why_no_candidate(self._cycle, preemptor, others_running, less=less, action=self._action)

    def _fair(self, job: Job) -> Bools:
        """Jobs that the purpose lets go: less important ones of its queue, or those of other queues."""
        jobs = self._running.jobs
        same_queue = jobs.queue == jobs.queue[job.number]
        reclaimable = np.array([queue.reclaimable for queue in self._cycle.snapshot.queues.values()] + [False])
        other_queues: Bools = ~same_queue & reclaimable[jobs.queue]  # the last one is for jobs of no queue
        return same_queue & (jobs.priority < job.priority) if self._purpose is Purpose.PREEMPT else other_queues

    def _late(self, job: Job, placements: Sequence[Placement]) -> Reason | None:
        """Why a job had better wait than take this place: then no pod is evicted for it there, until it is asked again.

        As in `allocate`, which asks about places that need no victims.
        """
        delay = deferral(self._cycle, job, placements)
        if delay is None:
            return None
        self._cycle.report.delays[job.key] = delay.until
        return delay.reason

    def _finish(self, job: Job, placements: Sequence[Placement], victims: Ints, score: float = 0.0) -> None:
        """Report the victims, and bind a job without victims where all that it needs has room now."""
        cycle = self._cycle
        cycle.report.delays.pop(job.key, None)  # of a place that was declined before this one
        self._gone[victims] = self._evicted[victims] = True
        cycle.evict_running(victims, job, self._action, lambda owner: self._why(job, owner), past_budgets=True)
        bound = not len(victims) and all(placement.pool is Pool.IDLE for placement in placements)
        bound = bound and _has_minimum(cycle, job)
        bound = bound and cycle.over_quota(job, amounts_of(cycle, placements), placed=True, leaving=True) is None
        commit(cycle, job, placements, action=self._action, score=score, bound=bound)
        if bound and cycle.backlog.some_left(job):
            cycle.report.reject(job, Rejection("fit", job.key, _STARTED))

    @abstractmethod
    def _why(self, job: Job, owner: Job) -> str:
        """Why a task of an owner goes for a job, in words."""


class Notices:
    """Who was told that he goes: notice that was given is kept, as long as these are victims enough.

    Else two jobs that save their work one after the other would each become the cheaper victim, and no notice would
    ever run out.
    """

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._running = cycle.running
        self._told: Bools = np.zeros(len(self._running), dtype=bool)
        if cycle.pipeline.lost_seconds:
            moving = cycle.snapshot.held_places.moving  # these were told by who moves them
            self._told[:] = [bool(task.noticed) and task.key not in moving for task in self._running.tasks]

    def first(self, gone: Bools) -> Iterator[Bools]:
        """Which other tasks count as gone while victims are looked for, before all are asked.

        First all who have no notice; then those who would have to be given one.
        """
        if not (self._told & ~gone).any():
            return
        yield gone | ~self._told
        jobs = self._cycle.snapshot.jobs
        asks = [self._cycle.pipeline.notice_seconds(jobs[n]) > 0 for n in range(len(jobs))]
        yield gone | (np.array(asks, dtype=bool)[self._running.job] & ~self._told)

    def among(self, victims: Ints) -> bool:
        """Whether some of these were told: then what they lose has been weighed already."""
        return bool(self._told[victims].any())


def starving_jobs(cycle: Cycle) -> Iterator[Job]:
    """Jobs that wait in an open queue with too few tasks, the first in order first.

    Among jobs that plugins hold for equals those go first that earlier cycles did not look at.
    """
    waiting = [job for job in cycle.snapshot.jobs if may_evict(cycle, job)]
    pipeline = cycle.pipeline
    since = cycle.steps.since

    def place(job: Job) -> tuple[object, ...]:
        return pipeline.job_order(job), since(job), job.created, job.order

    if pipeline.global_queue:
        yield from sorted(waiting, key=place)
        return
    queues = cycle.snapshot.queues
    served = {name: queues.get(queue.served_with, queue) for name, queue in queues.items()}
    yield from sorted(waiting, key=lambda job: (pipeline.queue_key(served[job.queue]), place(job)))


def may_evict(cycle: Cycle, job: Job) -> bool:
    """Whether a job starves in an open queue, and nothing but room is missing."""
    if not (job.best_effort_pod_sets or any(job.pod_sets())) or queue_reason(cycle, job) is not None:
        return False
    if job.key in cycle.report.delays:  # or it could have had a place without
        return False
    if cycle.sets is not None and cycle.sets.joint(job):  # nobody goes for a part of what starts together
        return False
    if job_ready(cycle.ledger, job, waiting=True):
        starved = bool(slots(cycle, job).task_groups)
    else:
        try:
            starved = cycle.pipeline.starving(job)
        except PluginError as failure:
            cycle.report.add_eviction_attempt(job, EvictionAttempt("evict", failure.reason))
            return False
    return starved and admission_reason(cycle, job) is None


def slots(cycle: Cycle, job: Job) -> Demand:
    """The best-effort tasks that a job lacks for its minimum, where nothing else is missing: they need pod slots.

    Pending best-effort tasks count as ready everywhere else, because backfill places them where slots are free.
    """
    if not job.best_effort_pod_sets or job.satisfied:
        return Demand(())
    subs = [sub.number for sub in job.subs]
    waits = sum(cycle.backlog.left(pod_set) for _, pod_set in job.best_effort_pod_sets)
    placed = int((cycle.ledger.ready[subs] + cycle.ledger.waiting[subs]).sum()) - waits
    missing = min(waits, job.minimum - placed)
    task_groups = []
    for number, pod_set in job.best_effort_pod_sets:
        count = min(missing, cycle.backlog.left(pod_set))
        if count > 0:
            task_groups.append(TaskGroup.of(job.subs[number], pod_set, count))
            missing -= count
    return Demand(tuple(task_groups))


def _has_minimum(cycle: Cycle, job: Job) -> bool:
    """Whether a job has its minimum without tasks that wait for room, such as an earlier action nominated."""
    nominated = any(decision.job is job and not decision.bound for decision in cycle.report.decisions)
    return not cycle.pipeline.gangs or (not nominated and job_ready(cycle.ledger, job))


class ProtectedJobs:
    """Which jobs an evicting action leaves alone, by number; follows the report.

    `alone` are jobs that others went for, that wait for room kept for them, or whose minimum was met in this cycle:
    none of their tasks goes. `kept` are jobs that were given more than their minimum: they may lose what is beyond
    it, and the tasks placed in this cycle count for them.
    """

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._decisions = 0
        self.alone: Bools = np.zeros(len(cycle.snapshot.jobs), dtype=bool)
        self.kept: Bools = np.zeros(len(cycle.snapshot.jobs), dtype=bool)

    def catch_up(self) -> None:
        """Look at what was decided since the last time."""
        report = self._cycle.report
        for decision in report.decisions[self._decisions :]:
            number = decision.job.number
            self.kept[number] = True
            self.alone[number] |= not decision.bound or self._minimum_hangs_on(decision)
        self._decisions = len(report.decisions)

    def _minimum_hangs_on(self, decision: Decision) -> bool:
        """Whether its minimum hangs on what was placed; with minimums of parts of it, that is taken for granted."""
        job = decision.job
        if not job.shape.only_pods:
            return True
        ready = int(self._cycle.ledger.ready[[sub.number for sub in job.subs]].sum())
        return ready - decision.count() < job.minimum


def highest_priority(job: Job) -> int:
    """The highest priority of its pending tasks."""
    return max((pod_set.shape.priority for pod_set in job.pod_sets()), default=0)


def marked(job: Job) -> str:
    """That a job must not cause evictions, and what says so; empty where nothing does."""
    if job.never_preempts:
        return f"it must not cause evictions ({job.never_preempts})"
    return ""


def without_never_preempting(job: Job, demand: Demand) -> Demand | None:
    """The demand without pods that must not cause evictions; None where its minimum cannot do without them."""
    if job.never_preempts:
        return None
    task_groups, substitutes = (
        tuple(map(_group_without_never_preempting, groups)) for groups in (demand.task_groups, demand.substitutes)
    )
    enough = all(task_group.enough for task_group in task_groups)
    if enough:
        return Demand(task_groups, tuple(group for group in substitutes if group.enough))
    return None


def _group_without_never_preempting(task_group: TaskGroup) -> TaskGroup:
    remaining = (p for p in task_group.remaining if not p.pod_set.shape.never_preempts)
    return replace(task_group, remaining=tuple(remaining))


def _why_no_candidate(cycle: Cycle, preemptor: Preemptor, others_running: Ints, *, less: Bools, action: str) -> str:
    """Why none of the running pods `others_running`, by position, is a candidate: its queue is looked at first.

    `less` says who of them is less important.
    """
    queues = [
        cycle.snapshot.jobs[number].queue == preemptor.job.queue
        for number in preemptor.running.job[others_running].tolist()
    ]
    in_same_queue: Bools = np.array(queues, dtype=bool)
    same_count = int(in_same_queue.sum())
    elsewhere = len(others_running) - same_count
    pods = count(len(others_running), "running pod")
    if not len(others_running):
        return "no other pod is running"
    fair = int(
        (less & (in_same_queue | preemptor.across) if preemptor.purpose is Purpose.PREEMPT else ~in_same_queue).sum()
    )
    slots = cycle.view.axis.index[POD_SLOTS]
    if fair and not np.delete(preemptor.need, slots).any():
        text = f"{count(fair, 'running pod')} {verb(fair, 'holds', 'hold')} more than a pod slot"
        return f"{text}, and a pod that asks for a slot alone may replace only such pods"
    if preemptor.purpose is not Purpose.PREEMPT:
        return f"none of {pods} is in another reclaimable queue"
    if preemptor.across or not elsewhere:
        return f"none of {pods} is less important"
    away = f"{count(elsewhere, 'running pod')} {verb(elsewhere, 'is', 'are')} in other queues"
    if not same_count:
        return f"{away}, and {action} evicts in the job's own queue alone"
    return f"none of {count(same_count, 'running pod')} in its own queue is less important, and {away}"
