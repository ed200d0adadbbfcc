"""The pods of one job, classified: current, outdated, or surplus.

Built once per reconciliation and passed to every module. A pod is outdated once the job, or the part that it belongs
to, was restarted after the pod was created; annotations record when that was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from tierwise.api.codec import Object, Raw
from tierwise.api.core import Pod, read_number
from tierwise.api.volcano import Job
from tierwise.controllers.job.controlled_resources import restarted_at, restarts
from tierwise.controllers.job.phases import phase_rule
from tierwise.dialects.volcano.job import TASK_SPEC, partition_of, pod_name, uid_of

__all__ = [
    "JOB_VERSION",
    "RETRY_COUNT",
    "STANDINGS",
    "JobPod",
    "JobPods",
    "PodSlot",
    "is_owned",
    "owner_reference",
    "pod_slots",
]


# The mark that a job puts on what it makes.


def owner_reference(job: Job) -> Raw:
    """The owner reference to a job: whatever carries it is deleted with the job."""
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": job.metadata.name,
        "uid": uid_of(job),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_owned(record: Object, job: Job) -> bool:
    """Whether an object carries the mark of a job."""
    return any((o.kind, o.uid) == ("Job", uid_of(job)) for o in record.metadata.owner_references)


JOB_VERSION: Final = "volcano.sh/job-version"
RETRY_COUNT: Final = "volcano.sh/job-retry-count"


STANDINGS: Final = ("Pending", "Running", "Succeeded", "Failed", "Terminating", "Unknown")
"""What pods of a job are counted as."""

PodSlot = tuple[str, int, str]
"""A pod that a job asks for: its task, its index there, and its partition ("" where the task is not parted)."""


class JobPod(msgspec.Struct, frozen=True):
    """A pod of a job."""

    pod: Pod
    task: str
    index: int  # -1 where the job has no such pod
    partition: str  # "" for the pods of a task that is not parted
    past: bool  # made before the last restart that covers it

    @property
    def current(self) -> bool:
        """Whether it is one of the pods that the job asks for now."""
        return self.index >= 0 and not self.past

    @property
    def leaving(self) -> bool:
        return bool(self.pod.metadata.deletion_timestamp)

    @property
    def phase(self) -> str:
        """The pod's phase; one without a status is pending, or running where it has a node."""
        return self.pod.status.phase or ("Running" if self.pod.spec.node_name else "Pending")


class JobPods(msgspec.Struct, frozen=True):
    """All pods of a job."""

    members: tuple[JobPod, ...]
    standings: tuple[str, ...]  # what each of them counts as: its phase, or Terminating if it goes or is about to
    counts: Mapping[str, int]  # how many pods count as what; of each of `STANDINGS`, and of what phases there are else
    wanted: bool  # whether the job is in a phase in which it wants pods

    @classmethod
    def of(cls, job: Job, pods: Sequence[Pod], slots: Mapping[str, PodSlot]) -> JobPods:
        """The pods of a job; `slots` are those that it asks for, see `pod_slots`."""
        wants_pods = phase_rule(job.status.state.phase).wants_pods
        counts = dict.fromkeys(STANDINGS, 0)
        if not pods:
            return cls((), (), counts, wants_pods)
        restarted = restarts(job.status.controlled_resources)
        members = tuple([_member(job.status.version, restarted, pod, slots) for pod in pods])
        standings = tuple([_standing(member, wants_pods=wants_pods) for member in members])
        for state in standings:
            counts[state] = counts.get(state, 0) + 1
        return cls(members, standings, counts, wants_pods)

    def current(self) -> list[JobPod]:
        """The pods that the job asks for now, those on their way out included."""
        return [member for member in self.members if member.index >= 0 and not member.past]

    def by_task(self) -> dict[str, dict[str, int]]:
        """How many pods of each task are in each phase; those that count as Terminating are left out."""
        counts: dict[str, dict[str, int]] = {}
        for member, state in zip(self.members, self.standings, strict=True):
            if state != "Terminating":
                phases = counts.setdefault(member.task, {})
                phases[state] = phases.get(state, 0) + 1
        return counts


def pod_slots(job: Job) -> dict[str, PodSlot]:
    """The pods that a job with its defaults filled in asks for, by name."""
    return {
        pod_name(job, task, index): (task.name, index, partition_of(task, index))
        for task in job.spec.tasks
        for index in range(task.replicas)
    }


def _standing(member: JobPod, *, wants_pods: bool) -> str:
    if wants_pods and not member.current:
        return "Terminating"
    if member.leaving and not member.pod.status.ended:
        return "Terminating"
    return member.phase


def _member(version: int, restarted: Mapping[str, int], pod: Pod, slots: Mapping[str, PodSlot]) -> JobPod:
    meta = pod.metadata
    named = meta.annotations.get(TASK_SPEC) or meta.labels.get(TASK_SPEC, "")
    task, index, partition = slots.get(meta.name, (named, -1, ""))
    last = restarted_at(restarted, task, partition, index)
    past = _number(pod, JOB_VERSION) < version or _number(pod, RETRY_COUNT) < last
    return JobPod(pod, task, index, partition, past)


def _number(pod: Pod, mark: str) -> int:
    """A number among the marks of a pod; one without the mark is as old as its job."""
    text = pod.metadata.annotations.get(mark, "")
    return read_number(text) or 0
