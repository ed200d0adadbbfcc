"""Reads Kueue's topology annotations and pod groups into model types, with Kueue installed and without it.

*With Kueue* a pod carries the name of its admitted Workload, and Kueue has chosen its domain: it removes a scheduling
gate and adds node selectors. Gates and selectors are honoured, and the annotations add no constraint;
the pods of a Workload start together. *Without Kueue* the annotations themselves are limits: a level is a node label
of a Topology, slices are sub-groups by the index of their pods, and the pods of a pod group, or of an owner whose size
is known, start together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from tierwise.api.codec import Object, Unknown
from tierwise.api.core import Pod
from tierwise.api.kueue import GROUP, ResourceFlavor, Topology, Workload
from tierwise.api.limits import PODS
from tierwise.api.meta import read_number
from tierwise.dialects.groups import Group, SubGroup, created, not_supported
from tierwise.dialects.label_trees import LabelTree
from tierwise.model.job import Constraint
from tierwise.model.reason import Reason
from tierwise.port import Key, Objects

__all__ = ["LANGUAGE", "READS", "assigned", "named", "read", "sub_group", "tree_of", "trees"]

LANGUAGE: Final = GROUP
READS: Final[tuple[type[Object], ...]] = (Topology, ResourceFlavor, Workload, Unknown)  # owners are of any kind

_GROUP_NAME: Final = f"{GROUP}/pod-group-name"
_TOTAL: Final = f"{GROUP}/pod-group-total-count"
_WORKLOAD: Final = f"{GROUP}/workload"
_MANAGED: Final = f"{GROUP}/managed"
_REQUIRED: Final = f"{GROUP}/podset-required-topology"
_PREFERRED: Final = f"{GROUP}/podset-preferred-topology"
_SLICE: Final = f"{GROUP}/podset-slice-required-topology"
_SLICE_SIZE: Final = f"{GROUP}/podset-slice-size"
_INDEX: Final = f"{GROUP}/pod-group-pod-index"
_INDEX_LABEL: Final = f"{GROUP}/pod-group-pod-index-label"
_COMPLETION: Final = "batch.kubernetes.io/job-completion-index"
_ASKS: Final = (_REQUIRED, _PREFERRED, _SLICE, _SLICE_SIZE)
_TRAILING: Final = re.compile(r"(\d+)$")


def assigned(pod: Pod) -> bool:
    """Whether Kueue looks after a pod: what it asked for in annotations has become gates and selectors."""
    return pod.metadata.labels.get(_MANAGED) == "true" or bool(pod.metadata.annotations.get(_WORKLOAD))


def named(pod: Pod) -> str:
    """The gang of a pod: its pod group, its Workload, or who controls it where it asks for a topology.

    What it asks for stands behind the name, so that pods of one gang that ask for different things are told apart.
    """
    meta = pod.metadata
    namespace, marks = meta.namespace or "default", meta.annotations
    group = meta.labels.get(_GROUP_NAME, "") or marks.get(_GROUP_NAME, "") or marks.get(_WORKLOAD, "")
    asked = () if assigned(pod) else tuple(f"{key[len(GROUP) + 1 :]}={v}" for key in _ASKS if (v := marks.get(key, "")))
    if not group and not asked:
        return ""
    if not group:
        owner = next((reference for reference in meta.owner_references if reference.controller), None)
        group = f"{owner.kind}/{owner.name}" if owner is not None else f"Pod/{meta.name}"
    return f"{namespace}/{group}" + (f" ({', '.join(asked)})" if asked else "")


def sub_group(pod: Pod) -> str:
    """The slice of a pod, by its index within the pod set, else by the number at the end of its name."""
    size = read_number(pod.metadata.annotations.get(_SLICE_SIZE, ""))
    if size is None or size <= 0 or assigned(pod):
        return ""
    labels, marks = pod.metadata.labels, pod.metadata.annotations
    for key in (marks.get(_INDEX_LABEL, ""), _INDEX, _COMPLETION):
        index = read_number(labels.get(key, "") or marks.get(key, "")) if key else None
        if index is not None:
            return f"slice-{index // size}"
    trailing = _TRAILING.search(pod.metadata.name)
    return f"slice-{int(trailing[1]) // size}" if trailing is not None else ""


def tree_of(name: str) -> str:
    """How constraints name the tree of a Topology."""
    return f"Topology {GROUP}/{name}"


def trees(objects: Objects) -> Iterator[LabelTree]:
    """One of every Topology, over the nodes of the flavors that name it; over all nodes where none does."""
    flavors = objects.every(ResourceFlavor).values()
    for name, record in objects.every(Topology).items():
        keys = tuple(dict.fromkeys(level.node_label for level in record.spec.levels if level.node_label))
        own = (flavor.spec.node_labels for flavor in flavors if flavor.spec.topology_name == name)
        if keys:
            yield LabelTree(tree_of(name), keys, only=tuple(tuple(sorted(labels.items())) for labels in own))


def read(objects: Objects, pods: Mapping[str, Pod]) -> dict[str, Group]:
    """The gangs that pods name; one whose pods ask for different things stands under each of its names."""
    names: dict[str, list[str]] = {}
    for path in pods:
        names.setdefault(path.partition(" (")[0], []).append(path)
    found: dict[str, Group] = {}
    for path, called in names.items():
        group = _group(objects, path, [pods[name] for name in called])
        if group is not None:
            found |= dict.fromkeys(called, group)
    return found


def _group(objects: Objects, path: str, pods: list[Pod]) -> Group | None:
    """A gang by the first pods that ask for each of its things; None where its Workload does not exist."""
    namespace, _, name = path.partition("/")
    record, first = objects.every(Workload).get(path), pods[0]
    if record is None and first.metadata.annotations.get(_WORKLOAD) and not _grouped(first):
        return None
    total = _size(objects, record, first)
    refusal = _refusal(pods, total)
    marks = first.metadata.annotations
    asks = not assigned(first) and refusal is None
    size = read_number(marks.get(_SLICE_SIZE, "")) or 0
    return Group(
        key=Key(GROUP, "Workload", namespace, name),
        minimum=total or 1,
        created=created(record.metadata if record is not None else first.metadata),
        annotations=record.metadata.annotations if record is not None else {},
        constraint=_constraint(objects, marks) if asks else None,
        sub_groups=tuple(_slices(objects, marks, total or 0, size)) if asks and size > 0 else (),
        refusal=refusal,
    )


def _grouped(pod: Pod) -> bool:
    """Whether a pod is in a pod group that somebody has named."""
    return bool(pod.metadata.labels.get(_GROUP_NAME) or pod.metadata.annotations.get(_GROUP_NAME))


def _size(objects: Objects, record: Workload | None, pod: Pod) -> int | None:
    """How many pods start together: as many as Kueue admitted, as the pod group says, or as the owner makes."""
    if _grouped(pod):
        return read_number(pod.metadata.annotations.get(_TOTAL, ""))
    if record is not None:
        admission = record.status.admission
        admitted = {a.name: a.count for a in admission.pod_set_assignments} if admission is not None else {}
        counts = ((admitted.get(pod_set.name), pod_set.count) for pod_set in record.spec.pod_sets)
        return sum(asked if count is None else count for count, asked in counts)
    owner = next((reference for reference in pod.metadata.owner_references if reference.controller), None)
    if owner is None:
        return 1
    namespace = pod.metadata.namespace or "default"
    places = (namespace, "") if namespace == "default" else (namespace,)  # a manifest may leave the default out
    jobs = (objects.raw(Key("batch", "Job", place, owner.name)) for place in places if owner.kind == "Job")
    spec = next(filter(None, jobs), {}).get("spec")
    if not isinstance(spec, dict):
        return None
    at_once, in_all = spec.get("parallelism", 1), spec.get("completions")
    if not isinstance(at_once, int):
        return None
    return min(at_once, in_all) if isinstance(in_all, int) else at_once


def _refusal(pods: list[Pod], total: int | None) -> Reason | None:
    first = pods[0]
    if len(pods) > 1:
        return not_supported("several topologies in one pod group", "its pods ask for different ones")
    if total is None and _grouped(first):
        return Reason("InvalidGroup", "pod", f"annotation {_TOTAL} does not say how many pods its group has")
    if total is not None and total > PODS:
        return Reason("InvalidGroup", "pod", f"{total} pods are more than the {PODS} that a gang may have")
    if total is None:
        owner = next(reference for reference in first.metadata.owner_references if reference.controller)
        text = f"how many pods {owner.kind} {owner.name} makes is not known here; a pod group says so itself"
        return not_supported("a topology for the pods of an owner", text)
    marks = first.metadata.annotations
    if not assigned(first) and bool(marks.get(_SLICE)) is not bool(marks.get(_SLICE_SIZE)):
        return Reason("InvalidGroup", "pod", f"{_SLICE} and {_SLICE_SIZE} go together, and one of them is missing")
    if not assigned(first) and marks.get(_SLICE_SIZE) and (read_number(marks[_SLICE_SIZE]) or 0) <= 0:
        return Reason("InvalidGroup", "pod", f"{_SLICE_SIZE} is no positive number")
    return None


def _slices(objects: Objects, marks: Mapping[str, str], total: int, size: int) -> Iterator[SubGroup]:
    limit = Constraint(hard=True, tier_name=marks[_SLICE], kind=_kind(objects, marks[_SLICE]))
    for number in range((total + size - 1) // size):
        yield SubGroup(f"slice-{number}", min(size, total - number * size), limit)


def _constraint(objects: Objects, marks: Mapping[str, str]) -> Constraint | None:
    level = marks.get(_REQUIRED, "") or marks.get(_PREFERRED, "")
    if not level:
        return None
    return Constraint(bool(marks.get(_REQUIRED)), tier_name=level, kind=_kind(objects, level))


def _kind(objects: Objects, level: str) -> str:
    """The tree that a level is in: of a Topology that some flavor names, before others; of several, the first."""
    found = [n for n, t in objects.every(Topology).items() if any(entry.node_label == level for entry in t.spec.levels)]
    used = {flavor.spec.topology_name for flavor in objects.every(ResourceFlavor).values()}
    first = next((name for name in found if name in used), next(iter(found), None))
    return tree_of(first) if first is not None else f"Topology of {GROUP} with this level"
