"""Reads KAI's pod groups and queues into model types.

A pod belongs to the group that its annotation names and to the sub-group that its label names. Sub-groups name their
parents, so they form a tree of any depth. A required level limits how far apart pods are; a preferred one asks for
what the search does anyway, from the tightest domain outwards, and is a soft limit where it is alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from tierwise.api.core import ObjectMeta, Pod
from tierwise.api.duration import seconds
from tierwise.api.eviction_terms import queue_times
from tierwise.api.hold import held
from tierwise.api.kai import GROUP, TOPOLOGY_GROUP, PodGroup, Queue, QueueResource, Topology, TopologyConstraint
from tierwise.api.kai import SubGroup as SubGroupRecord
from tierwise.api.limits import DEPTH
from tierwise.api.natural import natural
from tierwise.dialects.elastic_quota import forbearing
from tierwise.dialects.groups import Group, SubGroup, created, group_marks, smallest
from tierwise.dialects.label_trees import LabelTree
from tierwise.dialects.language import Language, Rules
from tierwise.dialects.pod_marks import KAI_QUEUE
from tierwise.model.job import Constraint, Phase, Reason
from tierwise.model.job import Queue as ModelQueue
from tierwise.model.part_names import PartNames
from tierwise.port import Key, Objects

__all__ = [
    "ANNOTATION",
    "LANGUAGE",
    "STARTED",
    "SUB_GROUP_LABEL",
    "inherited_run_times",
    "read_queue",
]

ANNOTATION: Final = "pod-group-name"
SUB_GROUP_LABEL: Final = "kai.scheduler/subgroup-name"
STARTED: Final = "kai.scheduler/last-start-timestamp"
"""On a pod group: when it was whole for the last time."""
_FIRM: Final = 100
"""Groups of this priority and above are not evicted unless they say otherwise."""
_MEGABYTE: Final = 1_000_000
_PARTS: Final = PartNames("sub-group", "sub-group", "sub-group")


def named(pod: Pod) -> str:
    """The group that a pod names, as namespace/name; empty where it names none."""
    name = pod.metadata.annotations.get(ANNOTATION, "")
    if name:
        return f"{pod.metadata.namespace or 'default'}/{name}"
    return ""


def sub_group(pod: Pod) -> str:
    """The sub-group that a pod names."""
    return pod.metadata.labels.get(SUB_GROUP_LABEL, "")


def tree_of(name: str) -> str:
    """How constraints name the tree of a Topology."""
    return f"Topology {TOPOLOGY_GROUP}/{name}"


def _tree_marks(objects: Objects) -> Iterator[tuple[str, ObjectMeta]]:
    return ((tree_of(name), record.metadata) for name, record in objects.every(Topology).items())


def trees(objects: Objects) -> Iterator[LabelTree]:
    """One of every Topology."""
    for name, record in objects.every(Topology).items():
        keys = tuple(dict.fromkeys(level.node_label for level in record.spec.levels if level.node_label))
        if keys:
            yield LabelTree(tree_of(name), keys)


def _group(path: str, record: PodGroup, rules: Rules) -> Group:
    """Gang that an object declares."""
    namespace, _, name = path.partition("/")
    spec = record.spec
    listed = (*spec.sub_groups, *spec.subgroups)
    below: dict[str, list[SubGroupRecord]] = {}
    for sub in listed:
        below.setdefault(sub.parent or "", []).append(sub)
    fault = _fault(listed, below)
    subs = tuple(_children(below, "")) if not fault else ()
    started = bool(record.metadata.annotations.get(STARTED))
    return Group(
        key=Key(GROUP, "PodGroup", namespace, name),
        minimum=smallest(subs, spec.min_sub_group) if subs else max(spec.min_member, 1),
        phase=Phase.RUNNING if started else Phase.PENDING,
        created=created(record.metadata),
        marks=group_marks(record.metadata),
        constraint=_constraint(spec.topology_constraint),
        sub_groups=subs,
        min_sub_groups=spec.min_sub_group,
        queue=spec.queue or record.metadata.labels.get(KAI_QUEUE, ""),
        priority_class=spec.priority_class_name,
        forbears=forbearing(record.metadata),
        protected=spec.preemptibility == "non-preemptible",
        protected_from=None if spec.preemptibility else _FIRM,
        refusal=Reason("InvalidGroup", "pod", fault) if fault else None,
        part_names=_PARTS,
    )


def _children(below: Mapping[str, Sequence[SubGroupRecord]], parent: str) -> Iterator[SubGroup]:
    """The sub-groups that name this parent, each with those that name it."""
    for record in below.get(parent, ()):
        inner = tuple(_children(below, record.name))
        min_member = (
            1 if record.min_member is None else max(record.min_member, 0)
        )  # with 0 its pods come as room allows
        minimum = smallest(inner, record.min_sub_group) if inner else min_member
        constraint = _constraint(record.topology_constraint) if record.topology_constraint is not None else None
        yield SubGroup(record.name, minimum, constraint, inner, record.min_sub_group)


def _fault(records: Sequence[SubGroupRecord], below: Mapping[str, Sequence[SubGroupRecord]]) -> str:
    """Error in the tree of sub-groups: a repeated name, an unknown parent, a circle, or too many levels. "" without
    one.
    """
    names = Counter(record.name for record in records)
    twice = next((name for name, number in names.items() if number > 1), None)
    if twice is not None:
        return f"there are two sub-groups of the name {twice}"
    lost = next((r for r in records if r.parent and r.parent not in names), None)
    if lost is not None:
        return f"the parent {lost.parent} of sub-group {lost.name} does not exist"
    layer = list(below.get("", ()))
    seen = 0
    for _ in range(DEPTH):
        seen += len(layer)
        layer = [inner for record in layer for inner in below.get(record.name, ())]
    if layer or seen < len(records):
        return f"sub-groups form a circle, or more than {DEPTH} deep"
    return ""


def _constraint(constraint: TopologyConstraint) -> Constraint | None:
    """Constraint of a group: hard if a level is required, soft if one is only preferred, None without either."""
    required = constraint.required_topology_level
    preferred = constraint.preferred_topology_level
    if not required and not preferred:
        return None
    inside = preferred if required and preferred != required else ""
    return Constraint(
        bool(required), tier_name=required or preferred, kind=tree_of(constraint.topology), preferred=inside
    )


def read_queue(record: Queue) -> ModelQueue:
    """A queue: its quota is what it deserves, its limit what it may use.

    A minimum run time is its own field, for one purpose, or the annotation, for both; one that says nothing has that of
    its parent (`inherited_run_times`).
    """
    spec = record.spec
    run_time, expected = queue_times(record.metadata.annotations)
    reclaim = seconds(spec.reclaim_min_runtime or "")
    weight = spec.resources.gpu.over_quota_weight if spec.resources is not None else 1
    return ModelQueue(
        name=record.metadata.name,
        order=natural(record.metadata.name),
        weight=max(int(weight), 0),
        priority=spec.priority if spec.priority is not None else _FIRM,
        parent=spec.parent_queue,
        capability=_amounts(record, limit=True),
        deserved=_amounts(record, limit=False),
        minimum_run_time=max(run_time, seconds(spec.preempt_min_runtime or "") or 0.0),
        reclaim_run_time=max(run_time, reclaim) if reclaim is not None else run_time or None,
        expected_duration=expected,
        held=held(record.metadata.annotations),
    )


def inherited_run_times(queues: Mapping[str, ModelQueue]) -> dict[str, ModelQueue]:
    """Queues with the run times of the nearest queue above that states one."""
    by_name = {}
    for name, queue in queues.items():
        minimum = queue.minimum_run_time
        reclaim = queue.reclaim_run_time
        above = queue
        for _ in range(DEPTH):
            if (minimum and reclaim is not None) or above.parent not in queues:
                break
            above = queues[above.parent]
            minimum = minimum or above.minimum_run_time
            reclaim = above.reclaim_run_time if reclaim is None else reclaim
        by_name[name] = replace(queue, minimum_run_time=minimum, reclaim_run_time=reclaim or 0.0)
    return by_name


def _amounts(record: Queue, *, limit: bool) -> dict[str, int]:
    """By resource, in the units of the model; what has no end is left out."""
    resources = record.spec.resources
    if resources is None:
        return {}

    def stated(resource: QueueResource, unit: int) -> int | None:
        number = resource.limit if limit else resource.quota
        return int(number * unit) if number >= 0 else None

    amounts = {
        "nvidia.com/gpu": stated(resources.gpu, 1),
        "cpu": stated(resources.cpu, 1),
        "memory": stated(resources.memory, _MEGABYTE),
    }
    return {name: number for name, number in amounts.items() if number is not None}


LANGUAGE: Final = Language(
    name=GROUP,
    reads=(PodGroup,),
    declares=(PodGroup,),
    named=named,
    keys=frozenset((ANNOTATION,)),
    each=_group,
    sub_group=sub_group,
    trees=trees,
    tree_marks=_tree_marks,
    tree_reads=(Topology,),
    page="languages/kai.md",
    admit="tierwise.admission.languages:admit_kai",
    status="tierwise.status.languages:of_kai",
    check="tierwise.audit.languages:kai_groups",
    marks=(PodGroup,),
)
