"""PodGroups for pods that name none: one for a plain pod, or one for all pods of the same owner.

Called by `controllers.run`. A group exists as long as it has pods, and its spec follows from its pods and their owners,
so equal objects always lead to equal groups. The scheduler writes the status of groups (`status.pod_group`); groups
that users or other controllers created are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from tierwise.api.codec import Object, Raw, api_group, part
from tierwise.api.core import ObjectMeta, OwnerReference, Pod, parse_time, read_number
from tierwise.api.fabric import CONSTRAINTS, FABRIC
from tierwise.api.limits import PODS, TIER
from tierwise.api.natural import natural
from tierwise.api.own_keys import labels_said_by_jobs, said_by_jobs
from tierwise.api.pattern import PATTERN
from tierwise.api.quantity import LARGEST, show
from tierwise.api.volcano import PodGroup
from tierwise.controllers.workqueue import Changes, Index, Requeue, WorkQueue
from tierwise.dialects.identity import made_up_uid
from tierwise.dialects.koordinator.gangs import gang_of
from tierwise.dialects.kubernetes.requests import effective_request
from tierwise.dialects.languages import named_group
from tierwise.dialects.pod_marks import GROUP_ANNOTATION, KAI_QUEUE, group_of
from tierwise.dialects.volcano.job import DEFAULT_QUEUE
from tierwise.port import Create, Delete, Effect, Key, Objects, PatchStatus, Update, key_of

__all__ = ["MADE_FOR", "PodGroupController"]


# The owners of a pod: the object that controls it, the one that controls that, and so on.
#
# A Deployment's pods belong to its ReplicaSet, and what people write is on the Deployment. Owners may be of any
# kind, also of kinds that tierwise does not know: only their metadata is looked at.


MADE_FOR: Final = "tierwise.io/made-for"
"""The mark of a group of this controller: the object that it was made for. Owners come and go, and may name groups."""

_PREFIX: Final = "podgroup-"
_DEEPEST: Final = 8
"""How long a chain of owners may be; a longer one is taken for a circle."""


class OwnerChain(msgspec.Struct, frozen=True):
    """The group that a pod belongs to by its owners, the deciding owner, and the owners' settings, nearest first."""

    group: str
    owner: OwnerReference
    annotations: tuple[dict[str, str], ...]
    labels: tuple[dict[str, str], ...] = ()
    consulted: tuple[Key, ...] = ()  # the owners it follows from, whether they exist or not


def owner_chain(objects: Objects, pod: Pod) -> OwnerChain:
    """Owners of a pod up to the outermost that names a group, else its controller. A pod without a controller owns
    itself.
    """
    namespace = pod.metadata.namespace or "default"
    consulted: dict[Key, None] = {}
    chain = list(_chain(objects, pod.metadata, namespace, consulted))
    annotations = tuple(_words(meta) for _, meta in chain)
    above = tuple(consulted)
    labels = tuple(meta.labels for _, meta in chain)
    for reference, meta in reversed(chain):
        if meta.annotations.get(GROUP_ANNOTATION):
            name = meta.annotations[GROUP_ANNOTATION]
            return OwnerChain(name, _identified(reference, namespace), annotations, labels, above)
    itself = OwnerReference(api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid)
    owner = _identified(_controller(pod.metadata) or itself, namespace)
    return OwnerChain(f"{_PREFIX}{owner.uid}", owner, annotations, labels, above)


def _words(meta: ObjectMeta) -> dict[str, str]:
    """The annotations of an owner, with a queue from its label where no annotation names one.

    It may be the owner's own dict: do not change it.
    """
    named = next((meta.labels[key] for key in (_QUEUE_LABEL, KAI_QUEUE) if meta.labels.get(key)), "")
    if named:
        return {_QUEUE: named, **meta.annotations}
    return meta.annotations


def _identified(reference: OwnerReference, namespace: str) -> OwnerReference:
    """A reference as a group carries it, with a uid even where manifests have none."""
    uid = reference.uid or made_up_uid(reference.kind, namespace, reference.name)
    return replace(reference, uid=uid, controller=True, block_owner_deletion=True)


def is_made(group: PodGroup) -> bool:
    """Whether a group is one of this controller: it bears the mark, or is named as Volcano names such groups.

    The mark must name who owns the group: annotations are copied from jobs to the groups that others make for them.
    """
    owner = _controller(group.metadata)
    mark = group.metadata.annotations.get(MADE_FOR)
    if owner is None:
        return mark is not None
    return group.metadata.name == f"{_PREFIX}{owner.uid}" or mark == f"{owner.kind} {owner.name}"


def _chain(
    objects: Objects, meta: ObjectMeta, namespace: str, consulted: dict[Key, None]
) -> Iterator[tuple[OwnerReference, ObjectMeta]]:
    for _ in range(_DEEPEST):
        reference = _controller(meta)
        owner = _find(objects, reference, namespace, consulted) if reference is not None else None
        if reference is None or owner is None:
            return
        meta = owner.metadata
        yield reference, meta


def _controller(meta: ObjectMeta) -> OwnerReference | None:
    for owner in meta.owner_references:
        if owner.controller:
            return owner
    return None


def _find(objects: Objects, owner: OwnerReference, namespace: str, consulted: dict[Key, None]) -> Object | None:
    """The object that a reference means; a manifest of an unknown kind may leave the default namespace out."""
    group = api_group(owner.api_version)
    for place in (namespace, "") if namespace == "default" else (namespace,):
        key = Key(group, owner.kind, place, owner.name)
        consulted[key] = None
        record = objects.record(key)
        if record is not None and owner.uid in ("", record.metadata.uid or owner.uid):
            return record
    return None


# What the group of some pods looks like: minimum, queue, priority and topology, by what pods and owners say.
#
# Volcano's annotations count: the pod's own before its owner's, and that before the one above it. Of several pods the
# newest speaks for all, as it comes from the newest template.


_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
_QUEUE: Final = "scheduling.volcano.sh/queue-name"
_QUEUE_LABEL: Final = "volcano.sh/queue-name"
_MODE: Final = "volcano.sh/network-topology-mode"
_HIGHEST_TIER: Final = "volcano.sh/network-topology-highest-tier"
_HIGHEST_TIER_OF_RAY: Final = f"{_HIGHEST_TIER}-allowed"
_INHERITED: Final = ("volcano.sh/", PATTERN, FABRIC, CONSTRAINTS)
_OWNED: Final = ("minMember", "minResources", "networkTopology", "priorityClassName", "queue")


def manifest(members: Sequence[tuple[Pod, OwnerChain]]) -> Raw:
    """The group of these pods, which share it, as it should be."""
    pod, above = min(members, key=lambda member: _newest_first(member[0]))
    annotations = _said(pod, above)
    metadata: Raw = {
        "name": above.group,
        "namespace": pod.metadata.namespace or "default",
        "labels": {**_said_by_label(above), **_inherited(pod.metadata.labels.items())},
        "annotations": {
            **_said_for_the_job(above),
            **_inherited(annotations.items()),
            MADE_FOR: f"{above.owner.kind} {above.owner.name}",
        },
        "ownerReferences": [_reference(above.owner)],
    }
    born = min((p.metadata.creation_timestamp for p, _ in members if p.metadata.creation_timestamp), default="")
    if born:
        metadata["creationTimestamp"] = born  # a group has waited for as long as the first of its pods
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": _spec(pod, annotations),
        "status": {"phase": "Pending"},
    }


def followed(raw: Raw, wanted_manifest: Raw) -> Raw:
    """A group that exists with all that this controller decides as it should be, and all else as it is.

    The API server drops maps that are empty, so an empty one is no difference to none.
    """
    present = part(raw, "metadata")
    marks = {field: _marks(raw, _without_words(wanted_manifest), field) for field in ("labels", "annotations")}
    return {
        **raw,
        "metadata": {**present, **{field: values for field, values in marks.items() if values or field in present}},
        "spec": {
            **{field: value for field, value in part(raw, "spec").items() if field not in _OWNED},
            **part(wanted_manifest, "spec"),
        },
    }


def _newest_first(pod: Pod) -> tuple[float, object]:
    created = pod.metadata.creation_timestamp
    return -parse_time(created) if created else 0.0, natural(pod.metadata.name)


def _said(pod: Pod, above: OwnerChain) -> dict[str, str]:
    """All annotations that count, each by its nearest speaker."""
    annotations: dict[str, str] = {}
    for speaker in (*reversed(above.annotations), pod.metadata.annotations):
        annotations |= speaker
    return annotations


def _said_for_the_job(above: OwnerChain) -> dict[str, str]:
    """Annotations for the job from the workloads above its pods; the nearest workload wins."""
    annotations: dict[str, str] = {}
    for speaker in reversed(above.annotations):
        annotations |= {key: value for key, value in sorted(speaker.items()) if said_by_jobs(key)}
    return annotations


def _said_by_label(above: OwnerChain) -> dict[str, str]:
    """The labels of the workloads above the pods that say something for their job, each by its nearest speaker."""
    annotations: dict[str, str] = {}
    for speaker in reversed(above.labels):
        annotations |= {key: value for key, value in sorted(speaker.items()) if key in labels_said_by_jobs()}
    return annotations


def _without_words(manifest: Raw) -> Raw:
    """A group without what is handed on when it is made alone: from then on it may be held and released by itself."""
    meta = part(manifest, "metadata")
    marks = {}
    for form, words in (("annotations", said_by_jobs), ("labels", labels_said_by_jobs().__contains__)):
        entries = part(meta, form).items()
        marks[form] = {key: value for key, value in entries if key.startswith(_INHERITED) or not words(key)}
    return {**manifest, "metadata": {**meta, **marks}}


def _inherited(marks: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {key: value for key, value in sorted(marks) if key.startswith(_INHERITED)}


def _marks(raw: Raw, manifest: Raw, field: str) -> Raw:
    """Labels or annotations: the inherited ones as wanted, those of others as they are, and what it was made for."""
    present = part(part(raw, "metadata"), field)
    inherited = {key: value for key, value in present.items() if not key.startswith(_INHERITED)}
    made_for = {MADE_FOR: present[MADE_FOR]} if MADE_FOR in present else {}
    return inherited | part(part(manifest, "metadata"), field) | made_for


def _reference(owner: OwnerReference) -> Raw:
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _spec(pod: Pod, annotations: dict[str, str]) -> Raw:
    minimum_text = annotations.get(_MIN_MEMBER, "1")
    number = read_number(minimum_text)
    minimum = min(number, PODS) if number is not None and number >= 0 else 1  # Volcano goes on with one
    spec: Raw = {
        "minMember": minimum,
        "queue": annotations.get(_QUEUE) or pod.metadata.labels.get(KAI_QUEUE) or DEFAULT_QUEUE,
    }
    requests = {name: min(number * minimum, LARGEST) for name, number in effective_request(pod.spec).items()}
    if any(requests.values()):
        spec["minResources"] = {name: show(name, number) for name, number in sorted(requests.items())}
    if pod.spec.priority_class_name:
        spec["priorityClassName"] = pod.spec.priority_class_name
    if not annotations.keys().isdisjoint((_MODE, _HIGHEST_TIER, _HIGHEST_TIER_OF_RAY)):
        spec["networkTopology"] = _topology(annotations)
    return spec


def _topology(annotations: dict[str, str]) -> Raw:
    """Hard unless soft is asked for; a tier that is no number limits nothing, as in Volcano."""
    topology: Raw = {"mode": "soft" if annotations.get(_MODE, "").lower() == "soft" else "hard"}
    tier = annotations.get(_HIGHEST_TIER) or annotations.get(_HIGHEST_TIER_OF_RAY, "")
    number = read_number(tier)
    if number is not None and number >= 0:
        topology["highestTierAllowed"] = min(number, TIER)
    return topology


SERVED: Final = frozenset({"tierwise", "volcano"})
"""The scheduler names whose pods are always scheduled by group; others keep their pods to themselves."""

_NAMES_NONE: Final = ""
"""The key of pods that name no group, and are to be in one."""


class PodGroupController:
    """Brings groups of pods that name none up to date, and lets such pods know theirs."""

    def __init__(self) -> None:
        self._pods = Index(Pod, _group_key)
        self._queue = WorkQueue()
        self._owners: dict[str, frozenset[Key]] = {}  # by group, the owners of its pods
        self._owned: dict[Key, set[str]] = {}  # and the other way round

    def enqueue(self, objects: Objects, changed: Changes) -> None:
        """Take note of what has changed."""
        touched = self._pods.follow(changed) - {_NAMES_NONE}
        touched.update([key.path for key in changed.get(PodGroup, ())])
        if touched:
            groups = objects.every(PodGroup)
            touched_groups = [(path, groups.get(path)) for path in touched]
            self._queue.add(
                [path for path, group in touched_groups if group is None or is_made(group)]
            )  # most are not ours
        for keys in changed.values() if self._owned else ():
            self._queue.add(group for key in keys for group in self._owned.get(key, ()))

    def reconcile(self, objects: Objects, now: float) -> list[Effect]:
        """Effects on these groups and their pods."""
        if _NAMES_NONE not in self._pods and self._queue.idle(now):
            return []
        groups = objects.every(PodGroup)
        fresh: dict[str, list[tuple[Pod, OwnerChain]]] = {}
        effects: list[Effect] = []
        for pod in self._pods[_NAMES_NONE]:
            above = owner_chain(objects, pod)
            fresh.setdefault(f"{pod.metadata.namespace or 'default'}/{above.group}", []).append((pod, above))
            effects.append(PatchStatus(key_of(pod), {}, {GROUP_ANNOTATION: above.group}))
        self._queue.add(fresh)

        def one(path: str) -> Requeue:
            group = groups.get(path)
            name = path.partition("/")[2]
            if group is not None and not is_made(group):
                return (), None
            named = []
            for pod in self._pods[path]:
                if _is_served(pod):
                    named.append((pod, owner_chain(objects, pod)))
            self._follow_owners(path, named)
            members = fresh.get(path, []) + [(pod, above) for pod, above in named if above.group == name]
            if members:
                return _bring(objects, group, members), None
            deserted = path not in self._pods
            return ([Delete(key_of(group))] if group is not None and deserted else []), None

        return effects + self._queue.run(now, one)

    def _follow_owners(self, group: str, members: Iterable[tuple[Pod, OwnerChain]]) -> None:
        """Remember by whose settings a group is what it is, so that it is looked at again when they change."""
        owners = frozenset(key for _, above in members for key in above.consulted)
        for key in self._owners.pop(group, frozenset()) - owners:
            self._owned[key].discard(group)
            if not self._owned[key]:
                del self._owned[key]
        if owners:
            self._owners[group] = owners
        for key in owners:
            self._owned.setdefault(key, set()).add(group)


def _group_key(pod: Pod) -> str | None:
    """The group that a pod names; a gang of another language is a group already."""
    return group_of(pod) or (_NAMES_NONE if _is_served(pod) else None)


def _is_served(pod: Pod) -> bool:
    return pod.spec.scheduler_name in SERVED and not gang_of(pod) and named_group(pod) is None


def _bring(objects: Objects, group: PodGroup | None, members: list[tuple[Pod, OwnerChain]]) -> list[Effect]:
    wanted_manifest = manifest(members)
    if group is None:
        return [Create(wanted_manifest)]
    if not is_made(group):
        return []
    raw = objects.raw(key_of(group)) or {}
    changed = followed(raw, wanted_manifest)
    if changed != raw:
        return [Update(key_of(group), changed)]
    return []
