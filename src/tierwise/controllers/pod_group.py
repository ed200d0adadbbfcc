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

from tierwise.api.codec import Object, Raw, Unknown, api_group
from tierwise.api.core import Pod
from tierwise.api.limits import PODS, TIER
from tierwise.api.meta import ObjectMeta, OwnerReference, parse_time, read_number
from tierwise.api.natural import natural
from tierwise.api.pattern import PATTERN
from tierwise.api.quantity import LARGEST, show
from tierwise.api.volcano import PodGroup
from tierwise.dialects.koordinator.gangs import gang_of
from tierwise.dialects.kubernetes.identity import made_up_uid
from tierwise.dialects.kubernetes.requests import effective_request
from tierwise.dialects.languages import named_group
from tierwise.dialects.volcano.annotations import GROUP_ANNOTATION, KAI_QUEUE, group_of
from tierwise.dialects.volcano.job import DEFAULT_QUEUE
from tierwise.port import Create, Delete, Effect, Key, Objects, PatchStatus, Update, key_of

__all__ = ["MADE_FOR", "READS", "SERVED", "OwnerChain", "followed", "is_made", "manifest", "owner_chain", "reconcile"]


# Who stands behind a pod: the object that controls it, the one that controls that, and so on.
#
# A Deployment's pods belong to its ReplicaSet, and what people write stands on the Deployment. Owners may be of any
# kind, also of kinds that tierwise does not know: only their metadata is looked at.


MADE_FOR: Final = "tierwise.io/made-for"
"""The mark of a group of this controller: the object that it was made for. Owners come and go, and may name groups."""

_PREFIX: Final = "podgroup-"
_DEEPEST: Final = 8
"""Owners above each other after which somebody is taken to own itself."""


class OwnerChain(msgspec.Struct, frozen=True):
    """The group that a pod belongs to by its owners, the deciding owner, and the owners' settings, nearest first."""

    group: str
    owner: OwnerReference
    annotations: tuple[dict[str, str], ...]


def owner_chain(objects: Objects, pod: Pod) -> OwnerChain:
    """What follows for a pod from its owners: the outermost one that names a group, else the one that controls it.

    A pod that nobody controls stands for itself.
    """
    namespace = pod.metadata.namespace or "default"
    chain = list(_chain(objects, pod.metadata, namespace))
    annotations = tuple(meta.annotations for _, meta in chain)
    for reference, meta in reversed(chain):
        if meta.annotations.get(GROUP_ANNOTATION):
            return OwnerChain(meta.annotations[GROUP_ANNOTATION], _identified(reference, namespace), annotations)
    itself = OwnerReference(api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid)
    owner = _identified(_controller(pod.metadata) or itself, namespace)
    return OwnerChain(f"{_PREFIX}{owner.uid}", owner, annotations)


def _identified(reference: OwnerReference, namespace: str) -> OwnerReference:
    """A reference as a group carries it, with a uid even where manifests have none."""
    uid = reference.uid or made_up_uid(reference.kind, namespace, reference.name)
    return replace(reference, uid=uid, controller=True, block_owner_deletion=True)


def is_made(group: PodGroup) -> bool:
    """Whether a group is one of this controller: it bears the mark, or is named as Volcano names such groups."""
    owner = _controller(group.metadata)
    named = owner is not None and group.metadata.name == f"{_PREFIX}{owner.uid}"
    return named or MADE_FOR in group.metadata.annotations


def _chain(objects: Objects, meta: ObjectMeta, namespace: str) -> Iterator[tuple[OwnerReference, ObjectMeta]]:
    for _ in range(_DEEPEST):
        reference = _controller(meta)
        found = _find(objects, reference, namespace) if reference is not None else None
        if reference is None or found is None:
            return
        meta = found.metadata
        yield reference, meta


def _controller(meta: ObjectMeta) -> OwnerReference | None:
    return next((owner for owner in meta.owner_references if owner.controller), None)


def _find(objects: Objects, owner: OwnerReference, namespace: str) -> Object | None:
    """The object that a reference means; a manifest of an unknown kind may leave the default namespace out."""
    group = api_group(owner.api_version)
    for place in (namespace, "") if namespace == "default" else (namespace,):
        found = objects.record(Key(group, owner.kind, place, owner.name))
        if found is not None and owner.uid in ("", found.metadata.uid or owner.uid):
            return found
    return None


# What the group of some pods looks like: minimum, queue, priority and topology, by what pods and owners say.
#
# Volcano's annotations count: the pod's own before its owner's, and that before the one above it. Of several pods the
# newest speaks for all, as it comes from the newest template.


_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
_QUEUE: Final = "scheduling.volcano.sh/queue-name"
_MODE: Final = "volcano.sh/network-topology-mode"
_HIGHEST_TIER: Final = "volcano.sh/network-topology-highest-tier"
_INHERITED: Final = ("volcano.sh/", PATTERN)
_OWNED: Final = ("minMember", "minResources", "networkTopology", "priorityClassName", "queue")


def manifest(members: Sequence[tuple[Pod, OwnerChain]]) -> Raw:
    """The group of these pods, which share it, as it should be."""
    pod, above = min(members, key=lambda member: _newest_first(member[0]))
    said = _said(pod, above)
    metadata: Raw = {
        "name": above.group,
        "namespace": pod.metadata.namespace or "default",
        "labels": _inherited(pod.metadata.labels.items()),
        "annotations": {**_inherited(said.items()), MADE_FOR: f"{above.owner.kind} {above.owner.name}"},
        "ownerReferences": [_reference(above.owner)],
    }
    born = min((p.metadata.creation_timestamp for p, _ in members if p.metadata.creation_timestamp), default="")
    if born:
        metadata["creationTimestamp"] = born  # a group has waited for as long as the first of its pods
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": _spec(pod, said),
        "status": {"phase": "Pending"},
    }


def followed(raw: Raw, wanted: Raw) -> Raw:
    """A group that exists with all that this controller decides as it should be, and all else as it is.

    The API server drops maps that are empty, so an empty one is no difference to none.
    """
    present = _part(raw, "metadata")
    marks = {field: _marks(raw, wanted, field) for field in ("labels", "annotations")}
    return {
        **raw,
        "metadata": {**present, **{field: kept for field, kept in marks.items() if kept or field in present}},
        "spec": {
            **{field: value for field, value in _part(raw, "spec").items() if field not in _OWNED},
            **_part(wanted, "spec"),
        },
    }


def _newest_first(pod: Pod) -> tuple[float, object]:
    created = pod.metadata.creation_timestamp
    return -parse_time(created) if created else 0.0, natural(pod.metadata.name)


def _said(pod: Pod, above: OwnerChain) -> dict[str, str]:
    """All annotations that count, each by its nearest speaker."""
    said: dict[str, str] = {}
    for speaker in (*reversed(above.annotations), pod.metadata.annotations):
        said |= speaker
    return said


def _inherited(marks: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {key: value for key, value in sorted(marks) if key.startswith(_INHERITED)}


def _marks(raw: Raw, wanted: Raw, field: str) -> Raw:
    """Labels or annotations: the inherited ones as wanted, those of others as they are."""
    present = _part(_part(raw, "metadata"), field)
    kept = {key: value for key, value in present.items() if not key.startswith(_INHERITED)}
    return kept | _part(_part(wanted, "metadata"), field)


def _part(raw: Raw, field: str) -> Raw:
    found = raw.get(field)
    return found if isinstance(found, dict) else {}


def _reference(owner: OwnerReference) -> Raw:
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _spec(pod: Pod, said: dict[str, str]) -> Raw:
    least = said.get(_MIN_MEMBER, "1")
    number = read_number(least)
    minimum = min(number, PODS) if number is not None and number >= 0 else 1  # Volcano goes on with one
    spec: Raw = {"minMember": minimum, "queue": said.get(_QUEUE) or pod.metadata.labels.get(KAI_QUEUE) or DEFAULT_QUEUE}
    asked = {name: min(number * minimum, LARGEST) for name, number in effective_request(pod.spec).items()}
    if any(asked.values()):
        spec["minResources"] = {name: show(name, number) for name, number in sorted(asked.items())}
    if pod.spec.priority_class_name:
        spec["priorityClassName"] = pod.spec.priority_class_name
    if _MODE in said or _HIGHEST_TIER in said:
        spec["networkTopology"] = _topology(said)
    return spec


def _topology(said: dict[str, str]) -> Raw:
    """Hard unless soft is asked for; a tier that is no number limits nothing, as in Volcano."""
    topology: Raw = {"mode": "soft" if said.get(_MODE, "").lower() == "soft" else "hard"}
    tier = said.get(_HIGHEST_TIER, "")
    number = read_number(tier)
    if number is not None and number >= 0:
        topology["highestTierAllowed"] = min(number, TIER)
    return topology


READS: Final = (Pod, PodGroup, Unknown)

SERVED: Final = frozenset({"tierwise", "volcano"})
"""The scheduler names whose pods are always scheduled by group; others keep their pods to themselves."""


def reconcile(objects: Objects, now: float) -> list[Effect]:
    """Bring groups of pods that name none up to date, and let such pods know theirs."""
    pods, groups = objects.every(Pod), objects.every(PodGroup)
    effects: list[Effect] = []
    members: dict[str, list[tuple[Pod, OwnerChain]]] = {}
    made = {path for path, group in groups.items() if is_made(group)}
    named: set[str] = set()
    for path, pod in pods.items():
        own = group_of(pod)
        named.add(own)
        if pod.spec.scheduler_name not in SERVED or gang_of(pod) or named_group(pod) is not None:
            continue  # a gang of another language is a group already
        if own in groups and own not in made:
            continue  # somebody else's group: most pods are in one
        above = owner_chain(objects, pod)
        group = f"{path.partition('/')[0]}/{above.group}"
        if own in ("", group):
            members.setdefault(group, []).append((pod, above))
        if not own:
            effects.append(PatchStatus(key_of(pod), {}, {GROUP_ANNOTATION: above.group}))
    for path, found in members.items():
        effects += _bring(objects, groups.get(path), found)
    deserted = (path for path in groups if path in made and path not in named and path not in members)
    return effects + [Delete(key_of(groups[path])) for path in deserted]


def _bring(objects: Objects, group: PodGroup | None, members: list[tuple[Pod, OwnerChain]]) -> list[Effect]:
    wanted = manifest(members)
    if group is None:
        return [Create(wanted)]
    if not is_made(group):
        return []
    raw = objects.raw(key_of(group)) or {}
    changed = followed(raw, wanted)
    return [Update(key_of(group), changed)] if changed != raw else []
