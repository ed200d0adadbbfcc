"""Check that a Koordinator gang, together with all gangs of its gang group, runs whole or not at all.

A gang is a PodGroup, or is declared by annotations of its pods; gangs of one namespace that all list the same group
start together. For a gang without an object, its pods show whether it was whole before: it was if one of them has ended
or is younger than the first binding, and may have been if fewer are left than it needs.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tierwise.api.core import ObjectMeta, Pod, read_number
from tierwise.api.koordinator import PodGroup, gang_names
from tierwise.api.volcano import PodGroup as VolcanoGroup
from tierwise.audit.gangs import was_whole
from tierwise.audit.pods import Finding, counts, diminished, gang, group
from tierwise.port import Objects

__all__ = ["AuditedGang", "gang_groups", "gangs_of", "koordinator_gangs"]

_PREFIX = "gang.scheduling.koordinator.sh/"
_ONCE_WHOLE = ("Scheduled", "Running", "Finished", "Failed", "Unknown")


class AuditedGang(msgspec.Struct):
    """One gang, as its object or its first pod describes it."""

    key: str
    meta: ObjectMeta
    minimum: int | None  # None where it cannot be read
    record: PodGroup | None = None
    pods: list[Pod] = []

    @property
    def name(self) -> str:
        return f"{'PodGroup' if self.record is not None else 'Gang'} {self.key}"

    def standing(self) -> list[Pod]:
        """Pods that hold a node and are not being deleted, and pods that succeeded."""
        return [pod for pod in self.pods if counts(pod)]

    def partners(self) -> list[str]:
        """Gangs that it lists as starting with it; itself as well, usually."""
        listed = gang_names(self.meta.annotations.get(f"{_PREFIX}groups", "") or "[]")
        return [] if isinstance(listed, str) else list(listed)


def gangs_of(objects: Objects) -> dict[str, AuditedGang]:
    """Every gang by its key, with its pods; a pod that is in a group of Volcano's is in no gang."""
    annotated = {
        key: AuditedGang(key, record.metadata, record.spec.min_member, record)
        for key, record in objects.every(PodGroup).items()
    }
    volcano = objects.every(VolcanoGroup)
    pods = [pod for pod in objects.every(Pod).values() if gang(pod) and group(pod) not in volcano]
    for pod in pods:
        notes = pod.metadata.annotations
        if gang(pod) not in annotated and notes.get(f"{_PREFIX}name") and f"{_PREFIX}min-available" in notes:
            text = notes[f"{_PREFIX}min-available"]
            annotated[gang(pod)] = AuditedGang(gang(pod), pod.metadata, read_number(text))
    for pod in pods:
        if gang(pod) in annotated:
            annotated[gang(pod)].pods.append(pod)
    return annotated


def koordinator_gangs(objects: Objects) -> Iterator[Finding]:
    """Gangs of which a part is placed, and gangs that are placed without those that start with them."""
    for several, missing in gang_groups(objects):
        if not any(audited.standing() for audited in several) or _was_whole(several):
            continue
        for key in missing:
            yield Finding("part-of-gang", f"Gang {key}", "does not exist, and gangs that start with it are placed")
        for audited in several:
            number = len(audited.standing())
            if audited.minimum is not None and number < audited.minimum:
                yield Finding("part-of-gang", audited.name, f"{number} of {audited.minimum} pods are placed")


def gang_groups(objects: Objects) -> list[tuple[list[AuditedGang], list[str]]]:
    """Gangs of a namespace that all list the same group, and what they list and does not exist; others are alone."""
    every = gangs_of(objects)
    lists = {
        audited.key: {audited.key, *(p for p in audited.partners() if _space(p) == _space(audited.key))}
        for audited in every.values()
    }
    groups_found: list[tuple[list[AuditedGang], list[str]]] = []
    for key, names in lists.items():
        agree = all(lists[name] == names for name in names if name in every)
        if not agree:
            groups_found.append(([every[key]], []))
        elif key == min(name for name in names if name in every):
            groups_found.append(([every[k] for k in sorted(names) if k in every], sorted(names - every.keys())))
    return groups_found


def _space(key: str) -> str:
    return key.partition("/")[0]


def _was_whole(several: list[AuditedGang]) -> bool:
    records = [audited.record for audited in several if audited.record is not None]
    if not records:
        return diminished(
            [pod for audited in several for pod in audited.pods], sum(audited.minimum or 0 for audited in several)
        )
    if any(record.metadata.annotations.get("tierwise.io/partial-since") for record in records):
        return False
    all_started = all(record.status.phase in _ONCE_WHOLE for record in records)
    return any(was_whole(record.metadata, by_status=all_started) for record in records)
