"""Marks of pods, Volcano's above all: their group, role, rank and queue, and whether they may be evicted."""

from __future__ import annotations

from typing import Final

from tierwise.api.core import ObjectMeta, Pod, read_number

__all__ = [
    "GROUP_ANNOTATION",
    "KAI_QUEUE",
    "NO_GROUP",
    "PARTS",
    "PLACES",
    "PREEMPTABLE",
    "QUEUE_ANNOTATION",
    "group_of",
    "index_of",
    "marked_not_preemptable",
    "not_preemptable",
    "part_of",
    "place_of",
    "queue_of",
    "role_of",
]

GROUP_ANNOTATION: Final = "scheduling.k8s.io/group-name"
_ROLE: Final = "volcano.sh/task-spec"
_INDEX: Final = "volcano.sh/task-index"
_INDEXES: Final = (
    "leaderworkerset.sigs.k8s.io/worker-index",
    "training.kubeflow.org/replica-index",
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
)
"""Labels by which other controllers count the pods of one set, the most particular first."""
_PARTS: Final = (
    ("rbg.workloads.x-k8s.io/role-name", "role"),
    ("leaderworkerset.sigs.k8s.io/group-index", "group"),
    ("jobset.sigs.k8s.io/replicatedjob-name", "replicated job"),
)
"""Labels by which workloads say of which part of theirs a pod is, and how they call such parts, the outermost first."""
PARTS: Final = frozenset(key for key, _ in _PARTS)
"""The keys without one of which a pod is of no such part."""
_JOB_SET: Final = "jobset.sigs.k8s.io/job-index"
NO_GROUP: Final = "tierwise.io/no-group"
"""Why the group that a pod names was not made: what its workload says of it is not understood."""
PREEMPTABLE: Final = "volcano.sh/preemptable"
PLACES: Final = frozenset((_ROLE, _INDEX, *_INDEXES))
"""The keys without one of which a pod has neither role nor index."""
QUEUE_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"
KAI_QUEUE: Final = "kai.scheduler/queue"
"""KAI's label for the same."""


def group_of(pod: Pod) -> str:
    """The pod group that a pod names, as namespace/name; empty where it names none."""
    name = pod.metadata.annotations.get(GROUP_ANNOTATION, "")
    if name:
        return f"{pod.metadata.namespace or 'default'}/{name}"
    return ""


def role_of(pod: Pod) -> str:
    """The task that a pod is one of, by annotation, else by label."""
    return pod.metadata.annotations.get(_ROLE) or pod.metadata.labels.get(_ROLE, "")


def part_of(pod: Pod) -> str:
    """The part of its workload that a pod is of, as that calls it: "role decode"; "" where nothing says so."""
    labels = pod.metadata.labels
    return next((f"{word} {labels[key]}" for key, word in _PARTS if labels.get(key)), "")


def index_of(pod: Pod) -> int | None:
    """The place of a pod among those of its task, by label, else by annotation; None where it has none.

    Labels of other controllers count too, but not in a JobSet: there the index is one of several, and names sort right.
    """
    place = place_of(pod)
    if place is not None and not place[0]:
        return place[1]
    return None


def place_of(pod: Pod) -> tuple[str, int] | None:
    """The part of its task that a pod counts in, which is a job of a JobSet and "" elsewhere, and its index there."""
    labels = pod.metadata.labels
    index = labels.get(_INDEX) or pod.metadata.annotations.get(_INDEX, "")
    part = ""
    if not index and labels:
        part = f"job {labels[_JOB_SET]}" if _JOB_SET in labels else ""
        index = next((labels[key] for key in _INDEXES if key in labels), "")
    number = read_number(index)
    return (part, number) if number is not None else None


def queue_of(pod: Pod) -> str:
    """The queue that a pod without a group names; empty where it names none."""
    return pod.metadata.annotations.get(QUEUE_ANNOTATION, "") or pod.metadata.labels.get(KAI_QUEUE, "")


def not_preemptable(meta: ObjectMeta) -> bool:
    """Whether an object is marked as not to be evicted; the annotation counts before the label, nonsense as a mark."""
    return marked_not_preemptable(meta.annotations.get(PREEMPTABLE, meta.labels.get(PREEMPTABLE)))


def marked_not_preemptable(value: str | None) -> bool:
    """Whether this value of `volcano.sh/preemptable` shields from evictions; None where it is not set."""
    return value is not None and value.lower() not in ("true", "t", "1")
