"""The lifecycle events of a job, derived from the state of its objects.

An event here is a condition that holds, not a message: it is seen on every reconciliation until something is done about
it. Every action of a policy ends the condition, so nothing is done twice. docs/controllers/job.md says how each event
is recognised.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final

import msgspec

from tierwise.api.core import Pod, parse_time
from tierwise.api.plurals import count
from tierwise.api.volcano import Job, PodGroup, TaskSpec
from tierwise.controllers.job.controlled_resources import losses, lost_key, seen
from tierwise.controllers.job.job_pods import JobPod, JobPods
from tierwise.dialects.volcano.job import partition_of

__all__ = ["EVENTS", "JobEvent", "job_events"]


class JobEvent(msgspec.Struct, frozen=True):
    """Something that a policy may answer."""

    event: str
    text: str
    since: float | None  # None where nothing tells when it began
    task: str = ""
    partition: str = ""
    index: int = -1
    exit_codes: frozenset[int] = frozenset()
    left: bool = False  # a pod that is gone, or is going


EVENTS: Final = frozenset(
    {"PodEvicted", "PodFailed", "PodPending", "TaskCompleted", "TaskFailed", "Unknown", "JobUpdated"}
)


def job_events(
    job: Job, group: PodGroup | None, job_pods: JobPods, answered: Container[str] = EVENTS
) -> Iterator[JobEvent]:
    """All that has happened to a job with its defaults filled in, task by task; what concerns no task comes last.

    Where only some events are `answered`, others may be left out.
    """
    present: dict[str, dict[int, JobPod]] = {task.name: {} for task in job.spec.tasks}
    for member in job_pods.current():
        present[member.task][member.index] = member
    # Most pods are well, and there may be very many: of those that run or have succeeded there is nothing to tell.
    news = {"Failed", "Pending"} if "PodPending" in answered else {"Failed"}
    lost = any(losses(job.status.controlled_resources))
    for task in job.spec.tasks:
        pods = present[task.name]
        seen_indexes = seen(job.status.controlled_resources, task.name).indexes
        for index in range(task.replicas):
            found = pods.get(index)
            has_news = index in seen_indexes if found is None else found.leaving or found.phase in news
            if lost or has_news:
                yield from _of_pod(job, task, index, found, seen_before=index in seen_indexes)
        if "TaskCompleted" in answered or "TaskFailed" in answered:
            yield from _of_task(job, task, list(pods.values()))
    if group is not None and group.status.phase == "Unknown":
        yield JobEvent("Unknown", "the pod group is in phase Unknown", _last_transition(job))
    if "JobUpdated" in answered and _was_changed(job):
        yield JobEvent("JobUpdated", "the job was scaled", _last_transition(job))


def _of_pod(job: Job, task: TaskSpec, index: int, member: JobPod | None, *, seen_before: bool) -> Iterator[JobEvent]:
    """Events of the pod at an index; `seen_before` says whether the pod was there at the last look."""
    partition = partition_of(task, index)
    name = f"pod {job.metadata.name}-{task.name}-{index}"
    missed = job.status.controlled_resources.get(lost_key(task.name, index), "")
    if member is None:
        if seen_before or missed:
            text = f"{name} was evicted"
            yield JobEvent("PodEvicted", text, _time(missed), task.name, partition, index, left=True)
        return
    pod = member.pod
    if member.leaving:
        since = _time(missed or pod.metadata.deletion_timestamp)
        yield JobEvent("PodEvicted", f"{name} is being evicted", since, task.name, partition, index, left=True)
    elif missed and member.phase == "Pending":
        text = f"{name} was evicted and does not run yet"
        yield JobEvent("PodEvicted", text, _time(missed), task.name, partition, index)
    if member.phase == "Failed":
        codes = frozenset(_exit_codes(pod))
        shown = f" with exit code {', '.join(map(str, sorted(codes)))}" if codes else ""
        since = _ended(pod) or _last_transition(job)
        yield JobEvent("PodFailed", f"{name} failed{shown}", since, task.name, partition, index, codes)
    if member.phase == "Pending" and not member.leaving:
        since = _time(pod.metadata.creation_timestamp) or _last_transition(job)
        yield JobEvent("PodPending", f"{name} is pending", since, task.name, partition, index)


def _of_task(job: Job, task: TaskSpec, members: list[JobPod]) -> Iterator[JobEvent]:
    done = [member.pod for member in members if member.phase == "Succeeded"]
    if task.replicas > 0 and len(done) >= task.replicas:
        ended = [_ended(pod) for pod in done]
        since = max((time for time in ended if time is not None), default=_last_transition(job))
        yield JobEvent("TaskCompleted", f"all pods of task {task.name} succeeded", since, task.name)
    limit = task.max_retry or 0
    restarts = sum(_restarts(member.pod) for member in members if member.phase in ("Pending", "Running"))
    if limit >= 0 and restarts > limit:
        text = f"containers of task {task.name} were restarted {count(restarts, 'time')}, more than maxRetry of {limit}"
        yield JobEvent("TaskFailed", text, _last_transition(job), task.name)


def _was_changed(job: Job) -> bool:
    """Whether replicas or the minimum are not what they were when the job was last looked at."""
    memory = job.status.controlled_resources
    before = ((seen(memory, task.name).replicas, task.replicas) for task in job.spec.tasks)
    scaled = any(old >= 0 and old != new for old, new in before)
    return scaled or (bool(memory) and 0 < job.status.min_available != job.spec.min_available)


def _exit_codes(pod: Pod) -> Iterator[int]:
    """How the containers of a pod ended that did not end well; Volcano looks at the first container alone."""
    for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        ended = container.state.terminated
        if ended is not None and ended.exit_code:
            yield ended.exit_code


def _restarts(pod: Pod) -> int:
    return sum(c.restart_count for c in (*pod.status.init_container_statuses, *pod.status.container_statuses))


def _ended(pod: Pod) -> float | None:
    """When the last container of a pod ended, as far as its status tells."""
    ended = [c.state.terminated.finished_at for c in pod.status.container_statuses if c.state.terminated is not None]
    times = [time for time in map(_time, ended) if time is not None]
    return max(times, default=None)


def _last_transition(job: Job) -> float | None:
    return _time(job.status.state.last_transition_time)


def _time(text: str) -> float | None:
    """A time of a status; these are not checked, so one that cannot be read is none."""
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None
