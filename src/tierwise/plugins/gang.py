"""gang: a job starts with its minimum or not at all.

Minimums: of the job (minMember), of its roles (minTaskMember), of sub-jobs (subGroupSize) and of their number
(minSubGroups, and at each level of a nested job). Roles are left out entirely where their sum exceeds the job's
minimum: Volcano does so, and so do we. `framework.ledger` counts them (`job_ready`); this plugin decides that they
apply.

Where single tasks are evicted, a job may lose tasks down to its minimum and no further; roles and sub-jobs are not
considered, as in Volcano. Where whole gangs are evicted this plugin does not filter victims, because bundles respect
the minimums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from tierwise.api.plurals import joined, several, verb
from tierwise.framework import extension as points
from tierwise.framework.declaration import takes_part
from tierwise.framework.ledger import job_ready, sub_ready
from tierwise.model.arrays import Bools, Ints, ordinals
from tierwise.model.gang import lacking
from tierwise.model.job import Job, Reason, Status, SubJob
from tierwise.model.part_names import joint_word

__all__ = ["GangPlugin"]

_TOLD = 3
"""Tasks of which a message says what they wait for."""

_EXISTING = (Status.PENDING, Status.GATED, Status.RUNNING, Status.SUCCEEDED)


@takes_part(
    points.Gate,
    points.JobOrder,
    points.VictimFilter,
    points.Starving,
    points.SubJobOrder,
    ignores_names=True,
    rises_with_use=True,
    by_amounts=True,
)
class GangPlugin:
    """Rejects jobs of which too few tasks exist, and orders jobs below their minimum before the others."""

    answers = frozenset(points.Purpose)
    counts = True

    def __init__(self, arguments: points.Arguments, view: points.CycleView) -> None:
        self._ledger = view.ledger

    def job_key(self, job: Job) -> tuple[float, ...]:
        return (float(job_ready(self._ledger, job)),)

    def sub_job_key(self, sub: SubJob) -> tuple[float, ...]:
        return (float(sub_ready(self._ledger, sub)),)

    def starving(self, job: Job) -> bool:
        """Whether ready and pipelined tasks are fewer than the minimum; pending best-effort tasks do not count."""
        subs = [sub.number for sub in job.subs]
        placed = int((self._ledger.ready[subs] + self._ledger.waiting[subs]).sum())
        best_effort_parts = sum(len(pod_set.tasks) for _, pod_set in job.best_effort_pod_sets)
        return placed - best_effort_parts < job.minimum

    def protect(self, preemptor: points.Preemptor, victims: Ints) -> Bools:
        """Protects tasks that their job needs for its minimum, counted in order, and all tasks of a job that is evicted
        whole.

        Protects none where whole gangs are evicted.
        """
        if preemptor.gang or not len(victims):
            return np.zeros(len(victims), dtype=bool)
        jobs = preemptor.running.job[victims]
        result: Bools = ordinals(jobs) >= preemptor.running.jobs.surplus(self._ledger.ready)[jobs]
        return result

    def protect_alone(self, preemptor: points.Preemptor, victims: Ints) -> Bools:
        """Tasks of jobs without surplus; none where whole gangs are evicted."""
        if preemptor.gang:
            return np.zeros(len(victims), dtype=bool)
        result: Bools = preemptor.running.jobs.surplus(self._ledger.ready)[preemptor.running.job[victims]] <= 0
        return result

    def admit(self, job: Job) -> Reason | None:
        """Enough tasks must exist: of each role, of each sub-job policy, and in total; having existed once may be
        enough.
        """
        if job.satisfied:
            return None
        shape = job.shape
        by_role = Counter[str]()
        existing = list[int]()
        if shape.roles:
            by_role = _existing_by_role(job)
            existing = [by_role[job.role_names[number]] for number in job.counted_roles]
        missing = lacking(shape, [sub.total for sub in job.subs], existing)
        if max(missing[0]) <= 0:
            return None
        return self._roles(job, by_role) or self._policies(job) or self._nested(job, missing) or self._total(job)

    def _roles(self, job: Job, existing: Counter[str]) -> Reason | None:
        for number, minimum in job.counted_roles.items():
            name = job.role_names[number]
            if existing[name] < minimum:
                text = f"not enough pods of {job.part_names.role} {name}: {existing[name]} exist, minimum {minimum}"
                return Reason("NotEnoughPodsOfTask", "gang", text + _made_later(job, (name,)))
        return None

    def _policies(self, job: Job) -> Reason | None:
        for i, policy in enumerate(job.policies):
            complete = sum(1 for sub in job.subs if sub.policy == i and sub.total >= sub.minimum)
            if complete < policy.minimum:
                # Elsewhere a policy is of whatever sub-groups are alike, and has the name of the first of them.
                of = f" of {policy.name}" if job.declared_by is None or len(job.policies) > 1 else ""
                word = several(job.part_names.of(policy.name, policy.name))
                text = f"not enough whole {word}{of}: {complete} exist, minimum {policy.minimum}"
                return Reason("NotEnoughPodsOfTask", "gang", text)
        return None

    def _nested(self, job: Job, missing: list[list[int]]) -> Reason | None:
        """Of each inner group enough parts must exist whole; the innermost one that lacks some is named."""
        if not job.shape.nested or missing[0][0] <= 0:
            return None
        short = 0
        inside = [i for i, group in enumerate(job.inner_groups) if group.parent == 0 and missing[i][0] > 0]
        while inside:
            short = inside[0]
            inside = [i for i, group in enumerate(job.inner_groups) if group.parent == short and missing[i][0] > 0]
        group = job.inner_groups[short]
        of = f" of {group.path}" if group.path else ""
        number = group.minimum - missing[short][0]
        word = several(_word_inside(job, short))
        text = f"not enough whole {word}{of}: {number} exist, minimum {group.minimum}"
        return Reason("NotEnoughPodsOfTask", "gang", text)

    def _total(self, job: Job) -> Reason | None:
        existing = sum(sub.total for sub in job.subs)
        if existing >= job.minimum:
            return None
        text = f"not enough tasks for gang scheduling: {existing} exist, minimum {job.minimum}"
        existing_roles = {task.role for task in job.tasks if task.status in _EXISTING}
        return Reason("NotEnoughTasks", "gang", text + _made_later(job, sorted(job.awaits.keys() - existing_roles)))


def _word_inside(job: Job, number: int) -> str:
    """One word for the parts of an inner group."""
    words = [job.part_names.of_group(group.path) for group in job.inner_groups if group.parent == number]
    by_group: dict[int, set[str]] = {}
    for sub in job.subs:
        by_group.setdefault(sub.inner_group, set()).add(job.part_word(sub))
    return joint_word([*words, *by_group.get(number, ())])


def _existing_by_role(job: Job) -> Counter[str]:
    """How many tasks of each role exist; where all of them wait, as in a backlog, pod sets tell."""
    waiting = job.every_pod_set()
    if sum([len(pod_set.tasks) for pod_set in waiting]) < len(job.tasks):
        return Counter([task.role for task in job.tasks if task.status in _EXISTING])
    tasks_by_role = Counter[str]()
    for pod_set in waiting:
        tasks_by_role[pod_set.role] += len(pod_set.tasks)
    return tasks_by_role


def _made_later(job: Job, roles: Iterable[str]) -> str:
    """Why tasks of some roles do not exist yet: those that they depend on do not run."""
    word = job.part_names.role
    parts = [
        f"; the pods of {word} {role} are made once {joined([f'{word} {name}' for name in awaited])} "
        f"{verb(len(awaited), 'runs', 'run')} (dependsOn)"
        for role in roles
        if (awaited := job.awaits.get(role))
    ]
    return "".join(parts[:_TOLD])
