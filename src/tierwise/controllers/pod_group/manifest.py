"""What the group of some pods looks like: minimum, queue, priority and topology, by what pods and owners say.

Volcano's annotations count: the pod's own before its owner's, and that before the one above it. Of several pods the
newest speaks for all, as it comes from the newest template.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.limits import PODS, TIER
from tierwise.api.meta import OwnerReference, parse_time, read_number
from tierwise.api.natural import natural
from tierwise.api.pattern import PATTERN
from tierwise.api.quantity import LARGEST, show
from tierwise.controllers.pod_group.owners import MADE_FOR, Lineage
from tierwise.dialects.requests import effective_request
from tierwise.dialects.volcano_job import DEFAULT_QUEUE

__all__ = ["followed", "manifest"]

_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
_QUEUE: Final = "scheduling.volcano.sh/queue-name"
_MODE: Final = "volcano.sh/network-topology-mode"
_HIGHEST_TIER: Final = "volcano.sh/network-topology-highest-tier"
_INHERITED: Final = ("volcano.sh/", PATTERN)
_OWNED: Final = ("minMember", "minResources", "networkTopology", "priorityClassName", "queue")


def manifest(members: Sequence[tuple[Pod, Lineage]]) -> Raw:
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


def _said(pod: Pod, above: Lineage) -> dict[str, str]:
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
    spec: Raw = {"minMember": minimum, "queue": said.get(_QUEUE) or DEFAULT_QUEUE}
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
