"""What people write and what is not read: keys of tierwise's own that do not exist, and marks where they do not count.

Warnings of admission, and notes of verbs that read manifests: nothing is passed over without a word.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from tierwise.admission import koordinator, network_aware
from tierwise.admission.findings import FieldFinding, Issue, error, warning
from tierwise.api.codec import KINDS, Kind, Object, Raw, Unknown, api_group, decode, version_of, versions_of
from tierwise.api.core import Node, ObjectMeta, Pod, PodSpec
from tierwise.api.fabric import CONSTRAINTS, FABRIC
from tierwise.api.hold import HOLD
from tierwise.api.koordinator import PodGroup as GangGroup
from tierwise.api.kueue import GROUP as KUEUE
from tierwise.api.kueue import ClusterQueue
from tierwise.api.own_keys import unknown_keys, unknown_keys_in
from tierwise.api.plurals import joined
from tierwise.api.sets import SET, SET_START
from tierwise.api.volcano import Job, PodGroup
from tierwise.dialects.groups import Group, SubGroup, group_marks
from tierwise.dialects.koordinator.gangs import gang_of
from tierwise.dialects.languages import LANGUAGES, Name, named_group
from tierwise.dialects.pod_marks import group_of
from tierwise.dialects.workloads import checked, understood
from tierwise.port import Key, Objects

__all__ = ["NO_CONCERN", "check_passed_over", "known_as", "unknown_kind", "unserved"]


NO_CONCERN: Final = frozenset(
    {
        *(("v1", kind) for kind in ("Secret", "ServiceAccount", "Endpoints", "Event")),
        *(
            ("rbac.authorization.k8s.io/v1", f"{of}{kind}")
            for of in ("", "Cluster")
            for kind in ("Role", "RoleBinding")
        ),
        *(("networking.k8s.io/v1", kind) for kind in ("Ingress", "IngressClass")),
        ("autoscaling/v2", "HorizontalPodAutoscaler"),
        ("coordination.k8s.io/v1", "Lease"),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    }
)
"""Kinds of Kubernetes' own that people keep beside their jobs, and that say nothing about scheduling."""


def unknown_kind(kind: Kind) -> Issue:
    """Issue for a kind that is not read: an error for an unknown version of a known kind, else a warning."""
    text = f"kind {kind.name} of {kind.api_version} is not known{known_as(kind)}: it is ignored"
    if versions_of(api_group(kind.api_version), kind.name):
        return error("apiVersion", text)
    return warning("kind", text)


def known_as(kind: Kind) -> str:
    """The versions of a kind that exist, or the groups that have a kind of this name; empty where there is none."""
    group = api_group(kind.api_version)
    name = kind.name
    versions = [f"{group}/{version}" if group else version for version in versions_of(group, name)]
    versions = versions or [
        f"{group}/{version_of(group, name)}" for group, kind_name in KINDS if kind_name == name and group
    ]
    if versions:
        return f" (known is {', '.join(versions)})"
    return ""


def unserved(objects: Objects, served: Collection[str]) -> Iterator[FieldFinding]:
    """Pods that wait for a scheduler which is none of these, and objects whose pods will."""
    named = [(f"Pod {path}", "", pod.spec) for path, pod in objects.every(Pod).items() if not pod.spec.node_name]
    for path, job in objects.every(Job).items():
        named += [(f"Job {path}", "", PodSpec(scheduler_name=job.spec.scheduler_name))]
    for shown, field, raw in checked(objects):
        pod: Pod = decode({**raw, "metadata": {"name": "any"}})
        named.append((shown, f"{field}.", pod.spec))
    for shown, field, spec in named:
        if spec.scheduler_name not in served:
            name = spec.scheduler_name or "default-scheduler"  # as the API server reads it
            text = f'scheduler "{name}" is not served: such pods wait, unless --scheduler-name {name} is given'
            yield FieldFinding(shown, f"{field}spec.schedulerName", text)


def check_passed_over(record: Object, objects: Objects, key: Key, declared: Mapping[Name, Group]) -> Iterator[Issue]:
    """A warning for all that is written in an object and not read; `declared` are the groups of all languages."""
    yield from _keys(record, objects.raw(key))
    if isinstance(record, ClusterQueue) and (raw := objects.raw(key)) and raw.get("spec"):
        yield warning("spec", "a ClusterQueue is Kueue's: its quotas are not read, and limit nothing here")
    if isinstance(record, Unknown) and HOLD in record.metadata.annotations and understood(key.group, key.kind):
        text = "not read here: it counts in the pod template, and on what declares a gang (`tierwise hold` writes it)"
        yield warning(f"metadata.annotations.{HOLD}", text)
    if isinstance(record, GangGroup | Pod):
        yield from koordinator.check_mode(record)
    if isinstance(record, Pod):
        yield from network_aware.check_pod(record.metadata.labels, objects)
        yield from _marks(record, objects, declared)
        yield from _sub_group(record, declared)
        yield from _several_groups(record)


def _keys(record: Object, raw: Raw | None) -> Iterator[Issue]:
    """Labels and annotations of ours and of Kueue's that do not count; those of nodes name levels as people like."""
    if isinstance(record, Node):
        return
    if raw is not None and api_group(str(raw.get("apiVersion"))) == KUEUE:  # Kueue's own objects
        return
    meta: ObjectMeta | None = getattr(record, "metadata", None)
    if isinstance(record, Pod) or raw is None:
        unknown = unknown_keys(meta.labels, meta.annotations, "metadata") if meta is not None else iter(())
    else:
        unknown = unknown_keys_in(raw)
    yield from (warning(path, message) for path, message in unknown)


def _marks(pod: Pod, objects: Objects, declared: Mapping[Name, Group]) -> Iterator[Issue]:
    """Yield a warning for each annotation on a pod that constrains a further fabric and has no effect.

    It has none where the pod has no group, or where its group carries another value or none. It yields nothing where no
    object declares the group: the pod waits for it, or the first pod of the gang decides.
    """
    fabric_marks = {key: value for key, value in group_marks(pod.metadata).items() if _of_fabrics(key)}
    if not fabric_marks:
        return
    name = named_group(pod)
    namespace = pod.metadata.namespace or "default"
    if group := group_of(pod):
        path = f"{namespace}/{group.rpartition('/')[2]}"
        record = objects.every(PodGroup).get(path)
        group_marks_here = group_marks(record.metadata) if record is not None else {}
        whose = f"PodGroup {path}"
    elif gang_of(pod):
        return  # of a gang the marks of its first pod count, where no object declares it
    elif name is not None and name in declared:
        group_marks_here = declared[name].marks
        whose = f"{declared[name].key.kind} {name[1]}"
    elif name is None:
        group_marks_here = {}
        whose = ""
    else:
        return  # its group does not exist, and it waits for it
    for key, value in fabric_marks.items():
        if group_marks_here.get(key) == value:
            continue
        why = f"it counts on {whose}, and not on its pods" if whose else "a pod without a group has no such constraint"
        yield warning(f"metadata.annotations.{key}", f"it is passed over: {why}")


def _of_fabrics(key: str) -> bool:
    return key in (CONSTRAINTS, FABRIC, SET, SET_START) or key.startswith(f"{FABRIC}.")


def _sub_group(pod: Pod, declared: Mapping[Name, Group]) -> Iterator[Issue]:
    """A sub-group that the pod's group does not have."""
    name = named_group(pod)
    group = declared.get(name) if name is not None and not (group_of(pod) or gang_of(pod)) else None
    if name is None or group is None or not group.sub_groups:
        return
    called = LANGUAGES[name[0]].sub_group(pod)
    sub_group_names = list(_innermost(group.sub_groups))
    if called and called not in sub_group_names:
        names = joined(sub_group_names)
        word = group.part_names.of(called)
        text = f'there is no {word} "{called}" in {name[1]}, which has {names}: the pod counts for none'
        yield warning("metadata.labels", text)


def _several_groups(pod: Pod) -> Iterator[Issue]:
    """Groups that a pod names in several languages: the first counts, in the order in which languages are asked."""
    named = [(name, group) for name, language in LANGUAGES.items() if (group := language.named(pod))]
    for language, group in named[1:]:
        text = f"the pod names several groups: {named[0][1]} counts, and {group} ({language}) does not"
        yield warning("metadata", text)


def _innermost(sub_groups: tuple[SubGroup, ...]) -> Iterator[str]:
    for sub in sub_groups:
        if sub.sub_groups:
            yield from _innermost(sub.sub_groups)
        else:
            yield sub.name
