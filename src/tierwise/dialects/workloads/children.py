"""What a workload's controller would write: its pods, the objects between it and them, and the group they start in.

An expansion lists *children*. One with a whole name exists or is made. One whose name ends in a hyphen is one of many
alike: those that the workload owns already are counted by their labels, only the missing are made, and a number
takes the place of the random end that the API server would give a name. So the same input gives the same pods.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from tierwise.api.codec import Object, Raw
from tierwise.api.core import ObjectMeta, OwnerReference, Pod
from tierwise.api.errors import InputError
from tierwise.dialects.identity import made_up_uid
from tierwise.dialects.workloads.fields import Fields
from tierwise.port import Key, Objects, key_of, key_of_raw

__all__ = [
    "KUEUE_QUEUE",
    "Child",
    "Expansion",
    "Family",
    "NoTemplateError",
    "Owner",
    "alike",
    "controller_of",
    "digest",
    "missing",
    "named",
    "pod",
    "reference",
    "with_containers",
]


KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"


class NoTemplateError(InputError):
    """An object without what its pods are made of."""


class Child(msgspec.Struct, frozen=True):
    """An object to be made."""

    raw: Raw
    template: str = ""
    """The field of the workload that a pod comes from."""
    like: Mapping[str, str] | None = None
    """Labels by which one of many alike is known; None where the name says all, or where it is known to be missing."""


class Expansion(msgspec.Struct, frozen=True):
    """All children of a workload, or why it has none for the time being."""

    children: Sequence[Child] = ()
    note: str = ""
    waits: str = ""
    """Why its pods wait whatever room there is: they name a group that is not made, or fields that are not read."""
    examples: Sequence[Child] = ()
    """A pod by each template of the workload, where the children are workloads in which they stand elsewhere."""


class Family(msgspec.Struct, frozen=True):
    """Objects, and the owners among pods and workloads."""

    objects: Objects = Objects()
    owned: Mapping[tuple[str, str, str], Sequence[Object]] = {}  # kind, namespace and name of an owner -> its children

    @classmethod
    def of(cls, objects: Objects, kinds: Iterable[tuple[str, str]]) -> Family:
        """Read once for all workloads; `kinds` are those that may be between a workload and its pods."""
        owned: dict[tuple[str, str, str], list[Object]] = {}
        for kind in (("", "Pod"), *kinds):
            for record in objects.of_kind(*kind).values():
                owner = controller_of(record.metadata)
                if owner is not None:
                    place = (owner.kind, record.metadata.namespace or "default", owner.name)
                    owned.setdefault(place, []).append(record)
        return cls(objects, owned)

    def has(self, key: Key) -> bool:
        """Whether an object exists; a manifest of a kind without a record may leave the default namespace out."""
        return self.record(key) is not None

    def record(self, key: Key) -> Object | None:
        return next((record for place in _places(key) if (record := self.objects.record(place)) is not None), None)

    def raw(self, key: Key) -> Raw | None:
        return next((raw for place in _places(key) if (raw := self.objects.raw(place)) is not None), None)


def _places(key: Key) -> Iterator[Key]:
    yield key
    if key.namespace == "default":
        yield Key(key.group, key.kind, "", key.name)


def controller_of(meta: ObjectMeta) -> OwnerReference | None:
    """Who looks after an object: the owner that is marked so, or the only one."""
    owners = meta.owner_references
    return next((owner for owner in owners if owner.controller), owners[0] if len(owners) == 1 else None)


class Owner(msgspec.Struct, frozen=True):
    """A workload: its manifest, and what is around it."""

    raw: Raw
    family: Family = Family()

    @property
    def name(self) -> str:
        return key_of_raw(self.raw).name

    @property
    def namespace(self) -> str:
        return key_of_raw(self.raw).namespace or "default"

    @property
    def kind(self) -> str:
        return str(self.raw["kind"])

    @property
    def key(self) -> Key:
        """Its identity, with its namespace whether the manifest says it or not."""
        own_key = key_of_raw(self.raw)
        return Key(own_key.group, own_key.kind, self.namespace, own_key.name)

    @property
    def fields(self) -> Fields:
        return Fields(self.raw)

    @property
    def spec(self) -> Fields:
        return self.fields.at("spec")

    @property
    def labels(self) -> dict[str, str]:
        return self.fields.at("metadata").texts("labels")

    @property
    def annotations(self) -> dict[str, str]:
        return self.fields.at("metadata").texts("annotations")

    @property
    def uid(self) -> str:
        uid = self.fields.at("metadata").text("uid")
        return uid or made_up_uid(self.kind, self.namespace, self.name)

    @property
    def conditions(self) -> set[str]:
        """The conditions of its status that hold."""
        listed = self.fields.at("status").each("conditions")
        return {entry.text("type") for entry in listed if entry.text("status") == "True"}

    def suspended(self, *fields: Fields) -> bool:
        """Whether one of the fields says so; in a queue of Kueue's that is Kueue's gate, which stays shut here."""
        asks_suspension = any(part.flag("suspend") for part in fields or (self.spec,))
        return asks_suspension and KUEUE_QUEUE not in self.labels

    def children(self) -> Sequence[Object]:
        """Pods and workloads that it owns."""
        owned = self.family.owned.get((self.kind, self.namespace, self.name), ())
        uid = self.fields.at("metadata").text("uid")
        if uid:
            return [child for child in owned if _is_own(child, uid)]
        return owned

    def pods(self) -> Iterator[Pod]:
        return (record for record in self.children() if isinstance(record, Pod))


def _is_own(record: Object, uid: str) -> bool:
    """An object of the same name may have been there before."""
    owner = controller_of(record.metadata)
    return owner is not None and owner.uid in ("", uid)


def reference(owner: Owner) -> Raw:
    """Who a child belongs to."""
    return {
        "apiVersion": str(owner.raw["apiVersion"]),
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def named(owner: Owner, api_version: str, kind: str, name: str, body: Raw, **meta: Mapping[str, str]) -> Raw:
    """A child of any kind; `meta` are its labels and annotations."""
    metadata: Raw = {"name": name, "namespace": owner.namespace}
    metadata |= {field: dict(marks) for field, marks in meta.items() if marks}
    metadata["ownerReferences"] = [reference(owner)]
    born = owner.fields.at("metadata").text("creationTimestamp")
    if born:
        metadata["creationTimestamp"] = born  # its pods have waited since then
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}


def pod(
    owner: Owner,
    template: Fields,
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: Raw | None = None,
) -> Child:
    """A pod as a template says, with what the controller adds to it, or makes of its `spec`."""
    inside = with_containers(template.at("spec"))
    meta = template.at("metadata")
    marks = {
        "labels": meta.texts("labels") | dict(labels or {}),
        "annotations": meta.texts("annotations") | dict(annotations or {}),
    }
    return Child(
        named(owner, "v1", "Pod", name, {"spec": inside.raw if spec is None else spec}, **marks), template.path
    )


def with_containers(spec: Fields) -> Fields:
    """The spec of a pod, which must say what runs in it."""
    if not spec:
        raise NoTemplateError("it has no pod template", field=spec.path)
    if not spec.raw.get("containers"):
        raise NoTemplateError("at least one container is needed", field=spec.where("containers"))
    return spec


def alike(child: Child, number: int, like: Mapping[str, str] | None = None) -> list[Child]:
    """So many of one kind; its name ends in a hyphen."""
    return [Child(child.raw, child.template, like or {})] * number


def digest(value: object, length: int = 10) -> str:
    """A short name for a value, such as that of a pod template."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:length]


def missing(owner: Owner, children: Iterable[Child]) -> Iterator[Raw]:
    """The manifests of those children that do not exist."""
    counted: dict[tuple[object, ...], int] = {}
    last_number: dict[str, int] = {}
    for child in children:
        key = key_of_raw(child.raw)
        if not key.name.endswith("-"):
            if not owner.family.has(key):
                yield child.raw
            continue
        if child.like is not None:
            group = (key.kind, *sorted(child.like.items()))
            if group not in counted:
                counted[group] = _present(owner, key.kind, child.like)
            if counted[group] > 0:
                counted[group] -= 1
                continue
        number = last_number.get(key.name, 0) + 1
        while owner.family.has(fresh := Key(key.group, key.kind, key.namespace, f"{key.name}{number:05}")):
            number += 1
        last_number[key.name] = number
        meta = child.raw["metadata"]
        assert isinstance(meta, dict)
        yield {**child.raw, "metadata": {**meta, "name": fresh.name, "generateName": key.name}}


_LOST: Final = ("Failed",)
"""Phases of pods that are replaced; one that has succeeded has done its work."""


def _present(owner: Owner, kind: str, like: Mapping[str, str]) -> int:
    """Own children with these labels that have not failed and are not leaving."""
    return sum(
        key_of(record).kind == kind
        and not record.metadata.deletion_timestamp
        and not (isinstance(record, Pod) and record.status.phase in _LOST)
        and like.items() <= record.metadata.labels.items()
        for record in owner.children()
    )
