"""The group that the pods of a workload start in: the PodGroup that its operator writes for a gang scheduler.

Volcano's by default, as most operators know it; that of scheduler-plugins where a workload asks for it by scheduler
name or policy. Pods whose template names a group already, in any language, stay in that one, and none is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.kueue import GROUP as KUEUE
from tierwise.dialects.groups import handed_on
from tierwise.dialects.languages import whose
from tierwise.dialects.pod_marks import GROUP_ANNOTATION, KAI_QUEUE, QUEUE_ANNOTATION
from tierwise.dialects.workloads.children import KUEUE_QUEUE, Child, Owner, named
from tierwise.port import key_of, key_of_raw

__all__ = [
    "POD_SET",
    "Gang",
    "Marks",
    "in_gang",
    "in_queue",
    "marks_of_group",
    "names_no_group",
    "of_templates",
    "queue",
]

_ROLE: Final = "volcano.sh/task-spec"
_QUEUE_LABEL: Final = "volcano.sh/queue-name"
_LABEL: Final = "scheduling.x-k8s.io/pod-group"
_PLUGINS: Final = "scheduler-plugins-scheduler"
_KUEUE_GROUP: Final = f"{KUEUE}/pod-group-name"
_KUEUE_TOTAL: Final = f"{KUEUE}/pod-group-total-count"
_KUEUE_WORKLOAD: Final = f"{KUEUE}/workload"
POD_SET: Final = f"{KUEUE}/podset"
_MODE: Final = "volcano.sh/network-topology-mode"
_TIER: Final = "volcano.sh/network-topology-highest-tier"
_TIER_OF_RAY: Final = f"{_TIER}-allowed"


class Gang(msgspec.Struct, frozen=True):
    """Conditions under which a group of pods may start."""

    name: str
    minimum: int
    queue: str = ""
    priority_class: str = ""
    topology: Raw = {}
    timeout: int | None = None
    plugins: bool = False
    """Whether scheduler-plugins' PodGroup is asked for."""


def queue(owner: Owner) -> str:
    """The queue that a workload names, in Volcano's words or KAI's."""
    labels = owner.labels
    return owner.annotations.get(QUEUE_ANNOTATION) or labels.get(_QUEUE_LABEL) or labels.get(KAI_QUEUE, "")


class Marks(msgspec.Struct, frozen=True):
    """Labels and annotations that the pods of a workload get beside those of their template."""

    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


def in_queue(owner: Owner, templates: Iterable[Child], total: int) -> Marks:
    """Marks that make one pod group of a workload in a Kueue queue, which is admitted as a whole; empty without a
    queue. Pods that name a group already keep it.
    """
    named_queue = owner.labels.get(KUEUE_QUEUE, "")
    if not named_queue or not names_no_group(templates):
        return Marks()
    name = f"{owner.kind.lower()}-{owner.name}"
    handed_on = marks_of_group(owner)
    labels = {**handed_on["labels"], KUEUE_QUEUE: named_queue, _KUEUE_GROUP: name}
    return Marks(labels, {**handed_on["annotations"], _KUEUE_TOTAL: str(total)})


def names_no_group(templates: Iterable[Child]) -> bool:
    """Whether no template names a group, in any language; a topology that is asked for in Kueue's words is none."""
    return all(whose(_pod(child)) == "" or _asks_kueue(child) for child in templates)


def in_gang(owner: Owner, gang: Gang, pods: Sequence[Child], roles: Iterable[str] = ()) -> list[Child]:
    """The group, and its pods with the marks of it; `roles` name the task of each."""
    if pods and all(_asks_kueue(child) for child in {child.template: child for child in pods}.values()):
        return _in_kueue_group(owner, gang, pods)
    if not pods or any(_elsewhere(child, gang) for child in {child.template: child for child in pods}.values()):
        return list(pods)
    # Pods that were there before name no group that is made now: the others start without them.
    present = _present(owner, gang, pods)
    if present >= len(pods):
        return list(pods)
    minimum = max(gang.minimum, len(pods)) if KUEUE_QUEUE in owner.labels else gang.minimum
    gang = msgspec.structs.replace(gang, minimum=max(minimum - present, 1))
    gang = msgspec.structs.replace(gang, plugins=_by_plugins(gang, pods))
    role_of_pods = list(roles) or [""] * len(pods)
    marks: dict[str, Mapping[str, str]] = {
        role: {GROUP_ANNOTATION: gang.name} | ({_ROLE: role} if role else {}) for role in dict.fromkeys(role_of_pods)
    }
    marked_children: dict[tuple[int, str], Child] = {}
    for child, role in zip(pods, role_of_pods, strict=True):
        if (id(child), role) not in marked_children:
            added = ("labels", {_LABEL: gang.name}) if gang.plugins else ("annotations", marks[role])
            marked_children[id(child), role] = msgspec.structs.replace(child, raw=_marked(child.raw, *added))
    return [
        _group(owner, gang),
        *(marked_children[id(child), role] for child, role in zip(pods, role_of_pods, strict=True)),
    ]


def of_templates(owner: Owner, gang: Gang, templates: Sequence[Child]) -> tuple[Marks, list[Child]]:
    """The group of all pods of workloads that are made, and the marks of their templates; none where they name one."""
    if not names_no_group(templates):
        return Marks(), []
    gang = msgspec.structs.replace(gang, plugins=_by_plugins(gang, templates))
    marks = Marks(labels={_LABEL: gang.name}) if gang.plugins else Marks(annotations={GROUP_ANNOTATION: gang.name})
    return marks, [_group(owner, gang)]


def _by_plugins(gang: Gang, pods: Iterable[Child]) -> bool:
    return gang.plugins or any(_scheduler(child) == _PLUGINS for child in pods)


def _group(owner: Owner, gang: Gang) -> Child:
    return Child(_plugin_group(owner, gang) if gang.plugins else _volcano_group(owner, gang))


def _present(owner: Owner, gang: Gang, pods: Sequence[Child]) -> int:
    """How many of the pods exist, and are not in the group."""
    keys = {key for child in pods if not (key := key_of_raw(child.raw)).name.endswith("-")}
    found = {key: record for key in keys if isinstance(record := owner.family.objects.record(key), Pod)}
    found |= {key_of(pod): pod for pod in owner.pods() if len(keys) < len(pods)}
    return sum(whose(pod) != f"{owner.namespace}/{gang.name}" for pod in found.values())


def _scheduler(child: Child) -> object:
    spec = child.raw.get("spec")
    if isinstance(spec, dict):
        return spec.get("schedulerName")
    return None


def _asks_kueue(child: Child) -> bool:
    """Whether a pod asks for a topology in Kueue's words, and is in no group of Kueue's yet."""
    meta = _pod(child).metadata
    grouped = _KUEUE_GROUP in meta.labels or _KUEUE_WORKLOAD in meta.annotations
    return not grouped and whose(_pod(child)).startswith(f"{KUEUE} ")


def _in_kueue_group(owner: Owner, gang: Gang, pods: Sequence[Child]) -> list[Child]:
    """The pods as a pod group of Kueue's, which is what Kueue makes of such a workload: they say what it says."""
    handed_on = marks_of_group(owner)
    total = {**handed_on["annotations"], _KUEUE_TOTAL: str(len(pods))}
    named = (_marked(child.raw, "labels", {**handed_on["labels"], _KUEUE_GROUP: gang.name}) for child in pods)
    marked = (_marked(raw, "annotations", total) for raw in named)
    return [msgspec.structs.replace(child, raw=raw) for child, raw in zip(pods, marked, strict=True)]


def _pod(child: Child) -> Pod:
    meta = child.raw["metadata"]
    assert isinstance(meta, dict)
    pod: Pod = codec.decode({**child.raw, "metadata": {**meta, "name": str(meta["name"]).rstrip("-")}})
    return pod


def _elsewhere(child: Child, gang: Gang) -> bool:
    """Whether a pod is in a group of another name."""
    pod = _pod(child)
    return whose(pod) not in ("", f"{pod.metadata.namespace}/{gang.name}")


def _marked(raw: Raw, field: str, marks: Mapping[str, str]) -> Raw:
    meta = raw["metadata"]
    assert isinstance(meta, dict)
    return {**raw, "metadata": {**meta, field: {**meta.get(field, {}), **marks}}}


def _volcano_group(owner: Owner, gang: Gang) -> Raw:
    spec: Raw = {"minMember": gang.minimum, "queue": gang.queue or queue(owner) or "default"}
    if gang.priority_class:
        spec["priorityClassName"] = gang.priority_class
    topology = gang.topology or _topology({**owner.labels, **owner.annotations})
    if topology:
        spec["networkTopology"] = topology
    return named(owner, "scheduling.volcano.sh/v1beta1", "PodGroup", gang.name, {"spec": spec}, **marks_of_group(owner))


def _plugin_group(owner: Owner, gang: Gang) -> Raw:
    spec: Raw = {"minMember": gang.minimum}
    if gang.timeout is not None:
        spec["scheduleTimeoutSeconds"] = gang.timeout
    return named(owner, "scheduling.x-k8s.io/v1alpha1", "PodGroup", gang.name, {"spec": spec}, **marks_of_group(owner))


def marks_of_group(owner: Owner) -> dict[str, dict[str, str]]:
    """Labels and annotations of a workload that its group takes over."""
    return handed_on(owner.labels, owner.annotations)


def _topology(marks: Mapping[str, str]) -> Raw:
    """How near the pods must be, as labels (KubeRay's way) or annotations of the workload say it."""
    if not {_MODE, _TIER, _TIER_OF_RAY} & marks.keys():
        return {}
    tier = marks.get(_TIER) or marks.get(_TIER_OF_RAY, "")
    topology: Raw = {"mode": "soft" if marks.get(_MODE, "").lower() == "soft" else "hard"}
    return topology | (
        {"highestTierAllowed": int(tier)} if tier.isascii() and tier.isdigit() and len(tier) < 10 else {}
    )
