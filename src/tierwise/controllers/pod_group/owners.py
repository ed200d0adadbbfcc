"""Who stands behind a pod: the object that controls it, the one that controls that, and so on.

A Deployment's pods belong to its ReplicaSet, and what people write stands on the Deployment. Owners may be of any kind,
also of kinds that tierwise does not know: only their metadata is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec.structs import replace

from tierwise.api.codec import Object, group_of
from tierwise.api.core import Pod
from tierwise.api.meta import ObjectMeta, OwnerReference
from tierwise.api.volcano import PodGroup
from tierwise.dialects.identity import made_up_uid
from tierwise.dialects.marks import GROUP_ANNOTATION
from tierwise.port import Key, Objects

__all__ = ["MADE_FOR", "Lineage", "is_made", "lineage"]

MADE_FOR: Final = "tierwise.io/made-for"
"""The mark of a group of this controller: the object that it was made for. Owners come and go, and may name groups."""

_PREFIX: Final = "podgroup-"
_DEEPEST: Final = 8
"""Owners above each other after which somebody is taken to own itself."""


class Lineage(msgspec.Struct, frozen=True):
    """The group that a pod belongs to by those who own it, who that is, and what its owners say, the nearest first."""

    group: str
    owner: OwnerReference
    annotations: tuple[dict[str, str], ...]


def lineage(objects: Objects, pod: Pod) -> Lineage:
    """What follows for a pod from its owners: the outermost one that names a group, else the one that controls it.

    A pod that nobody controls stands for itself.
    """
    namespace = pod.metadata.namespace or "default"
    chain = list(_chain(objects, pod.metadata, namespace))
    annotations = tuple(meta.annotations for _, meta in chain)
    for reference, meta in reversed(chain):
        if meta.annotations.get(GROUP_ANNOTATION):
            return Lineage(meta.annotations[GROUP_ANNOTATION], _identified(reference, namespace), annotations)
    itself = OwnerReference(api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid)
    owner = _identified(_controller(pod.metadata) or itself, namespace)
    return Lineage(f"{_PREFIX}{owner.uid}", owner, annotations)


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
    group = group_of(owner.api_version)
    for place in (namespace, "") if namespace == "default" else (namespace,):
        found = objects.record(Key(group, owner.kind, place, owner.name))
        if found is not None and owner.uid in ("", found.metadata.uid or owner.uid):
            return found
    return None
