"""Pod groups for pods that name none: a plain pod's own, or one for all pods of the object that made them.

Called by `controllers.run`. A group exists as long as a pod belongs to it, and its spec follows from its pods and from
the objects that own them; so whatever was seen or missed on the way, the same objects end with the same groups. The
status of a group is the scheduler's (`explain.status`); groups that people or other controllers made are left alone.
"""

from __future__ import annotations

from typing import Final

from tierwise.api.codec import Unknown
from tierwise.api.core import Pod
from tierwise.api.volcano import PodGroup
from tierwise.controllers.pod_group.manifest import followed, manifest
from tierwise.controllers.pod_group.owners import Lineage, is_made, lineage
from tierwise.dialects.koordinator import gang_of
from tierwise.dialects.marks import GROUP_ANNOTATION, group_of
from tierwise.port import Create, Delete, Effect, Objects, PatchStatus, Update, key_of

__all__ = ["READS", "SERVED", "reconcile"]

READS: Final = (Pod, PodGroup, Unknown)

SERVED: Final = frozenset({"tierwise", "volcano"})
"""The scheduler names whose pods are always scheduled by group; others keep their pods to themselves."""


def reconcile(objects: Objects, now: float) -> list[Effect]:
    """Bring groups of pods that name none up to date, and let such pods know theirs."""
    pods, groups = objects.every(Pod), objects.every(PodGroup)
    effects: list[Effect] = []
    members: dict[str, list[tuple[Pod, Lineage]]] = {}
    made = {path for path, group in groups.items() if is_made(group)}
    named: set[str] = set()
    for path, pod in pods.items():
        own = group_of(pod)
        named.add(own)
        if pod.spec.scheduler_name not in SERVED or gang_of(pod):
            continue  # a gang of Koordinator's is a group already
        if own in groups and own not in made:
            continue  # somebody else's group: most pods are in one
        above = lineage(objects, pod)
        group = f"{path.partition('/')[0]}/{above.group}"
        if own in ("", group):
            members.setdefault(group, []).append((pod, above))
        if not own:
            effects.append(PatchStatus(key_of(pod), {}, {GROUP_ANNOTATION: above.group}))
    for path, found in members.items():
        effects += _bring(objects, groups.get(path), found)
    deserted = (path for path in groups if path in made and path not in named and path not in members)
    return effects + [Delete(key_of(groups[path])) for path in deserted]


def _bring(objects: Objects, group: PodGroup | None, members: list[tuple[Pod, Lineage]]) -> list[Effect]:
    wanted = manifest(members)
    if group is None:
        return [Create(wanted)]
    if not is_made(group):
        return []
    raw = objects.raw(key_of(group)) or {}
    changed = followed(raw, wanted)
    return [Update(key_of(group), changed)] if changed != raw else []
