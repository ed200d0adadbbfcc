"""Reads Volcano's pod groups and queues into model types.

A pod belongs to the pod group that its annotation names; its role is its task name. Sub-groups follow the first
policy whose selector matches and whose label keys the pod all has; tasks that no policy takes form a sub-job of their
own (`dialects.groups`).
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Final

import msgspec

from tierwise.api.core import ObjectMeta, Record, ResourceList
from tierwise.api.duration import seconds
from tierwise.api.eviction_terms import queue_times
from tierwise.api.hold import held
from tierwise.api.koordinator import GROUPS, gang_names
from tierwise.api.natural import natural
from tierwise.api.quantity import amount
from tierwise.api.sets import PARTS
from tierwise.api.volcano import PodGroup, Queue, QueueAffinity, SubGroupPolicy
from tierwise.dialects.elastic_quota import forbearing
from tierwise.dialects.groups import Group, created, group_marks, tier_limit
from tierwise.dialects.language import Language, Rules
from tierwise.dialects.pod_marks import GROUP_ANNOTATION, group_of
from tierwise.dialects.volcano.job import PARTITION_ID
from tierwise.dialects.volcano.topology_affinity import Affinity, read_affinity
from tierwise.model.job import NodeGroups, Phase, Reason, SetMember, namespace_of
from tierwise.model.job import Queue as ModelQueue
from tierwise.model.part_names import PART_NAMES, PartNames
from tierwise.port import DEPENDS_ON_ANNOTATION, SUB_GROUPS_ANNOTATION, Key

__all__ = ["LANGUAGE", "PreviousPlacement", "partners_of", "previous_placements", "read_queue"]

GROUP: Final = "scheduling.volcano.sh"
_LONGEST: Final = 100
_HIERARCHY = "volcano.sh/hierarchy"
_HIERARCHY_WEIGHTS = "volcano.sh/hierarchy-weights"
_SLA = ("volcano.sh/sla-waiting-time", "sla-waiting-time")
_PHASES = {phase.value: phase for phase in Phase}


def read_queue(record: Queue) -> ModelQueue:
    """A queue; it takes jobs unless its state says otherwise."""
    spec = record.spec
    guarantee = spec.guarantee.resource
    run_time, expected = queue_times(record.metadata.annotations)
    return ModelQueue(
        name=record.metadata.name,
        order=natural(record.metadata.name),
        weight=spec.weight if spec.weight is not None else 1,
        priority=spec.priority or 0,
        parent=spec.parent,
        open=record.status.state in ("", "Open", "Unknown"),
        reclaimable=spec.reclaimable is not False,
        capability=_amounts(spec.capability),
        deserved=_amounts(spec.deserved),
        guarantee=_amounts(guarantee),
        hierarchy=record.metadata.annotations.get(_HIERARCHY, ""),
        hierarchy_weights=record.metadata.annotations.get(_HIERARCHY_WEIGHTS, ""),
        groups=_node_groups(spec.affinity) if spec.affinity is not None else None,
        minimum_run_time=run_time,
        expected_duration=expected,
        held=held(record.metadata.annotations),
    )


def _node_groups(affinity: QueueAffinity) -> NodeGroups:
    near = affinity.node_group_affinity
    far = affinity.node_group_anti_affinity
    return NodeGroups(
        required=near.required_during_scheduling_ignored_during_execution,
        preferred=near.preferred_during_scheduling_ignored_during_execution,
        forbidden=far.required_during_scheduling_ignored_during_execution,
        avoided=far.preferred_during_scheduling_ignored_during_execution,
    )


def _amounts(quantities: ResourceList) -> dict[str, int]:
    """Amounts by name; a negative one, which admission refuses, counts as none."""
    return {name: max(amount(name, quantity), 0) for name, quantity in quantities.items()}


def _group(path: str, record: PodGroup, rules: Rules) -> Group:
    """Gang that a pod group declares."""
    namespace, _, name = path.partition("/")
    meta = record.metadata
    spec = record.spec
    partners = _partners(path, meta)
    affinity = read_affinity(spec) if rules.affinity and spec.topology_affinity is not None else _NO_AFFINITY
    member = partners if isinstance(partners, SetMember) else None
    return Group(
        key=Key(GROUP, "PodGroup", namespace, name),
        minimum=spec.min_member or 0,
        phase=_PHASES.get(record.status.phase, Phase.PENDING),
        created=created(meta),
        marks=group_marks(meta),
        constraint=tier_limit(spec.network_topology),
        min_resources=spec.min_resources,
        queue=spec.queue or "default",
        priority_class=spec.priority_class_name,
        forbears=forbearing(meta),
        roles=spec.min_task_member,
        policies=spec.sub_group_policy,
        previous={sub: placed.hyper_node for sub, placed in previous_placements(meta).items()},
        owner=next((reference for reference in meta.owner_references if reference.controller), None),
        keyless=True,
        sla=_sla(meta),
        awaits=_awaits(meta),
        member=member if affinity is _NO_AFFINITY else affinity.joined(member),
        refusal=partners if isinstance(partners, Reason) else affinity.refusal,
        labels=meta.labels if rules.affinity else {},
        apart=affinity.between,
        part_names=_part_names(spec.sub_group_policy),
    )


_NO_AFFINITY = Affinity()


def _part_names(policies: Sequence[SubGroupPolicy]) -> PartNames:
    """Tasks and sub-groups; those of a policy by which a Job's controller parts a task are partitions."""
    parted = [(policy.name, "partition") for policy in policies if PARTITION_ID in policy.match_label_keys]
    return PartNames(others=tuple(parted)) if parted else PART_NAMES


def partners_of(path: str, meta: ObjectMeta) -> frozenset[str] | str:
    """The pod groups that start together by Koordinator's word, this one included, or why they cannot be read.

    Pod groups of other namespaces are passed over: a set is of one namespace.
    """
    text = meta.annotations.get(GROUPS, "")
    listed = gang_names(text) if text else ()
    if isinstance(listed, str):
        return listed
    namespace = namespace_of(path)
    names = frozenset((path, *(name for name in listed if namespace_of(name) == namespace)))
    if len(names) <= PARTS:
        return names
    return f"{len(names)} gangs are more than the {PARTS} that a set may have"


def _partners(path: str, meta: ObjectMeta) -> SetMember | Reason | None:
    """The set of the pod groups that start together; why it cannot be read, and None where there is none."""
    names = partners_of(path, meta)
    if isinstance(names, str):
        return Reason("InvalidGroup", "pod", f"annotation {GROUPS}: {names}")
    if len(names) > 1:
        return SetMember(_called(names), starts=len(names), partners=names)
    return None


def _called(names: frozenset[str]) -> str:
    """A set by the names of its gangs; of many the first two, with what tells it apart from others that begin so."""
    short = sorted((name.partition("/")[2] for name in names), key=natural)
    text = "+".join(short)
    if len(text) <= _LONGEST:
        return text
    return f"{'+'.join(short[:2])[:_LONGEST]}+{len(short) - 2} more ({sha256(text.encode()).hexdigest()[:12]})"


def _awaits(meta: ObjectMeta) -> dict[str, tuple[str, ...]]:
    """Which tasks wait for which others, as the job controller notes it; what cannot be read says nothing."""
    noted = meta.annotations.get(DEPENDS_ON_ANNOTATION)
    if noted is None:
        return {}
    try:
        return msgspec.json.decode(noted, type=dict[str, tuple[str, ...]])
    except msgspec.DecodeError:
        return {}


class PreviousPlacement(Record, frozen=True):
    """Where a sub-group was last placed, as its pod group remembers it."""

    hyper_node: str = ""
    tier: int = 0


def previous_placements(meta: ObjectMeta) -> dict[str, PreviousPlacement]:
    """Where the sub-groups of a pod group were last placed; what cannot be read is forgotten."""
    noted = meta.annotations.get(SUB_GROUPS_ANNOTATION)
    if noted is None:
        return {}
    try:
        placements = msgspec.json.decode(noted, type=dict[str, PreviousPlacement])
    except msgspec.DecodeError:
        return {}
    return placements


def _sla(meta: ObjectMeta) -> float | None:
    """How long a job may wait by its own word; a time that cannot be read, or is not positive, is none."""
    for key in _SLA:
        time = seconds(meta.annotations.get(key, ""))
        if time is not None and time > 0:
            return time
    return None


LANGUAGE: Final = Language(
    name=GROUP,
    reads=(PodGroup,),
    declares=(PodGroup,),
    named=group_of,
    keys=frozenset((GROUP_ANNOTATION,)),
    each=_group,
    page="languages/volcano.md",
    admit="tierwise.admission.podgroup:admit",
    status="tierwise.status.pod_group:of_volcano",
    check="tierwise.audit.gangs:gangs",
    marks=(PodGroup,),
)
