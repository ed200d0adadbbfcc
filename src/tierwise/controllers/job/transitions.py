"""Whether a job changes its phase now, and how: by command, by policy, or because of the state of its pods.

This module only decides. A change is written to the status before anything is done about it, so the next reconciliation
continues from there after any crash; the modules that create and delete objects follow the written status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from tierwise.api.plurals import count, of, verb
from tierwise.api.volcano import Command, Job, PodGroup
from tierwise.controllers.job.commands import done
from tierwise.controllers.job.controlled_resources import (
    Target,
    forget,
    losses,
    pods_key,
    restarts_part,
    seen,
    seen_text,
)
from tierwise.controllers.job.job_pods import JobPods
from tierwise.controllers.job.phases import NARROW, Transition, phase_rule
from tierwise.controllers.job.policies import PolicyAction, rank
from tierwise.dialects.volcano.job import partition_of, task_minimum

__all__ = ["PhaseChange", "applies", "by_command", "by_pods", "by_policy", "by_retries"]


class PhaseChange(msgspec.Struct, frozen=True):
    """A change of phase of a job: the phase it goes to, and why."""

    phase: str
    reason: str
    message: str
    retry_count: int
    version: int
    controlled_resources: Mapping[str, str]
    action: str = ""  # "" where the pods brought it about

    def remembering(self, memory: Mapping[str, str]) -> PhaseChange:
        """A copy of this change of phase that records other controlled resources."""
        return replace(self, controlled_resources=memory)


def by_command(job: Job, command: Command) -> PhaseChange:
    """The change that a command asks for; in a phase in which it means nothing, that it was looked at."""
    transition = phase_rule(job.status.state.phase).transitions.get(command.action)
    state = job.status.state
    if transition is None or command.action in NARROW:  # a command names no part of the job
        step = _to(job, state.phase or "Pending", state.reason, state.message)
    else:
        message = command.message or f"command {command.metadata.name}: {command.action}"
        step = _whole(job, transition, command.action, command.reason or "CommandIssued", message)
    return step.remembering({**step.controlled_resources, **done(command)})


def by_policy(job: Job, answers: Iterable[PolicyAction], now: float) -> PhaseChange | None:
    """The change that the policies ask for at this moment; one change restarts all parts that have to be."""
    due = sorted(
        (policy_action for policy_action in answers if policy_action.due <= now and applies(job, policy_action)),
        key=rank,
    )
    if not due:
        return None
    due_action = due[0]
    status = job.status
    transition = phase_rule(status.state.phase).transitions[due_action.action]
    message = f"{due_action.why.text}: {due_action.action}"
    if due_action.target is None:
        return _whole(job, transition, due_action.action, due_action.why.event, message)
    retries = status.retry_count + transition.retries
    memory = _restarted(job, sorted({a.target for a in due if a.target is not None}), retries)
    return PhaseChange(
        transition.phase, due_action.why.event, message, retries, status.version, memory, due_action.action
    )


def applies(job: Job, policy_action: PolicyAction) -> bool:
    """Whether an action leads anywhere from where the job is; a part is restarted once in one restart."""
    status = job.status
    transition = phase_rule(status.state.phase).transitions.get(policy_action.action)
    if transition is None or policy_action.target is None:
        return transition is not None
    return status.controlled_resources.get(policy_action.target.key) != str(status.retry_count + transition.retries)


def by_retries(job: Job) -> PhaseChange | None:
    """The change of a job whose last restart used up its retries: nothing else counts then."""
    status = job.status
    limit = job.spec.max_retry or 0
    if status.state.phase != "Restarting" or status.retry_count < limit:
        return None
    return _to(job, "Failed", "MaxRetry", f"restarted {count(status.retry_count, 'time')}, maxRetry is {limit}")


def by_pods(job: Job, group: PodGroup | None, job_pods: JobPods) -> PhaseChange | None:
    """The change that follows from where the pods have come to."""
    phase = phase_rule(job.status.state.phase)
    counts = job_pods.counts
    if phase.ends_in:
        alive = counts["Pending"] + counts["Running"] + counts["Terminating"] + counts["Unknown"]
        return None if alive else _to(job, phase.ends_in, "", "")
    match phase.phase:
        case "Restarting":
            return _after_restart(job, group, counts)
        case "Running":
            return _while_running(job, job_pods, counts)
        case "Pending":
            return _while_pending(job, counts)
        case _:
            return None


def _while_pending(job: Job, counts: Mapping[str, int]) -> PhaseChange | None:
    """Ended pods count: a job whose first pods are done before the last start has been running."""
    needed = job.spec.min_available or 0
    started = counts["Running"] + counts["Succeeded"] + counts["Failed"]
    if needed and started >= needed:
        return _to(job, "Running", "", "")
    return None


def _while_running(job: Job, job_pods: JobPods, counts: Mapping[str, int]) -> PhaseChange | None:
    needed = job.spec.min_available or 0
    min_success = job.spec.min_success
    total = sum(task.replicas for task in job.spec.tasks)
    succeeded = counts["Succeeded"]
    ended = counts["Succeeded"] + counts["Failed"]
    if not total:
        return None  # scaled to nothing: it goes on once it is scaled up again
    if min_success is not None and succeeded >= min_success:
        return _to(job, "Completed", "MinSuccess", f"{count(succeeded, 'pod')} succeeded, minSuccess is {min_success}")
    if ended >= total:
        return _at_the_end(job, job_pods, succeeded, total)
    if counts["Pending"] > total - needed:
        return _to(job, "Pending", "NotEnoughPods", of(counts["Pending"], total, "pod", "is", "are") + " pending")
    return None


def _at_the_end(job: Job, job_pods: JobPods, succeeded: int, total: int) -> PhaseChange:
    """The change to Completed or Failed of a job whose pods have all ended.

    It is Completed where at least minSuccess pods succeeded (minAvailable where that is not given). Where minAvailable
    is the sum of the tasks' minimums or more, each task with pods needs its own minimum too.
    """
    tasks = job.spec.tasks
    needed = job.spec.min_available or 0
    if needed >= sum(task_minimum(task) for task in tasks):
        by_task = job_pods.by_task()
        for task in tasks:
            minimum = task_minimum(task)
            good = by_task.get(task.name, {}).get("Succeeded", 0)
            if good < minimum and task.name in by_task:
                lacking = f"{minimum} {verb(minimum, 'is', 'are')} needed"
                text = f"{of(good, task.replicas, 'pod')} of task {task.name} succeeded, {lacking}"
                return _to(job, "Failed", "TaskFailed", text)
    minimum = max(needed if job.spec.min_success is None else job.spec.min_success, 0)
    text = f"{of(succeeded, total, 'pod')} succeeded, {minimum} {verb(minimum, 'is', 'are')} needed"
    if succeeded >= minimum:
        return _to(job, "Completed", "", text)
    return _to(job, "Failed", "PodFailed", text)


def _after_restart(job: Job, group: PodGroup | None, counts: Mapping[str, int]) -> PhaseChange | None:
    if group is not None and not restarts_part(job.status.controlled_resources, job.status.retry_count):
        return None  # a restarted gang waits for its queue again: the old pod group must be gone
    total = sum(task.replicas for task in job.spec.tasks)
    if total - counts["Terminating"] >= (job.spec.min_available or 0):
        return _to(job, "Pending", "", "")
    return None


def _to(job: Job, phase: str, reason: str, message: str) -> PhaseChange:
    status = job.status
    return PhaseChange(phase, reason, message, status.retry_count, status.version, status.controlled_resources)


def _whole(job: Job, transition: Transition, action: str, reason: str, message: str) -> PhaseChange:
    """A change of the whole job: whatever pods there are, they belong to the past."""
    status = job.status
    retries = status.retry_count + transition.retries
    version = status.version + transition.renews
    return PhaseChange(transition.phase, reason, message, retries, version, forget(status.controlled_resources), action)


def _restarted(job: Job, targets: Sequence[Target], retries: int) -> dict[str, str]:
    """The memory once parts of the job are restarted: their pods of now are pods of the past, seen or missed."""
    memory = {**job.status.controlled_resources, **{target.key: str(retries) for target in targets}}
    for task in job.spec.tasks:
        memory_before = seen(memory, task.name)
        staying = {i for i in memory_before.indexes if not _covered(targets, task.name, partition_of(task, i), i)}
        if memory_before.replicas >= 0:
            memory[pods_key(task.name)] = seen_text(staying, memory_before.replicas)
        for key, name, index in list(losses(memory)):
            if name == task.name and _covered(targets, name, partition_of(task, index), index):
                del memory[key]
    return memory


def _covered(targets: Iterable[Target], task: str, partition: str, index: int) -> bool:
    return any(target.covers(task, partition, index) for target in targets)
