"""Reads Volcano's pod groups and queues into model types.

A pod belongs to the pod group that its annotation names; its role is its task name. Sub-groups follow the first
policy whose selector matches and whose label keys the pod all has; tasks that no policy takes form a sub-job of their
own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from tierwise.api.core import ResourceList
from tierwise.api.duration import seconds
from tierwise.api.eviction_terms import queue_times
from tierwise.api.meta import ObjectMeta, OwnerReference, Record, parse_time, read_number
from tierwise.api.natural import natural
from tierwise.api.pattern import PATTERN, parse_pattern
from tierwise.api.quantity import amount
from tierwise.api.selector import matches
from tierwise.api.volcano import NetworkTopologySpec, PodGroup, Queue, QueueAffinity, SubGroupPolicy
from tierwise.dialects.fabrics import read_marks
from tierwise.dialects.jobs import JobBuilder, Member, Split
from tierwise.dialects.koordinator.elastic_quota import forbearing
from tierwise.dialects.language import Language
from tierwise.dialects.volcano.annotations import group_of, not_preemptable
from tierwise.model.arrays import Ints
from tierwise.model.job import Constraint, Job, Phase, Policy
from tierwise.model.queue import NodeGroups
from tierwise.model.queue import Queue as ModelQueue
from tierwise.model.topology import HYPERNODES
from tierwise.port import DEPENDS_ON_ANNOTATION, SUB_GROUPS_ANNOTATION

__all__ = ["LANGUAGE", "PreviousPlacement", "previous_placements", "read_group", "read_queue"]

GROUP: Final = "scheduling.volcano.sh"
_HIERARCHY = "volcano.sh/hierarchy"
_HIERARCHY_WEIGHTS = "volcano.sh/hierarchy-weights"
_SLA = ("volcano.sh/sla-waiting-time", "sla-waiting-time")
_PHASES = {phase.value: phase for phase in Phase}
_LONGEST = 128
_SAFE = "bcdfghjklmnpqrstvwxz2456789"


def read_queue(record: Queue) -> ModelQueue:
    """A queue; it takes jobs unless its state says otherwise."""
    spec = record.spec
    guarantee = spec.guarantee.resource
    least, expected = queue_times(record.metadata.annotations)
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
        minimum_run_time=least,
        expected_duration=expected,
    )


def _node_groups(affinity: QueueAffinity) -> NodeGroups:
    near, far = affinity.node_group_affinity, affinity.node_group_anti_affinity
    return NodeGroups(
        required=near.required_during_scheduling_ignored_during_execution,
        preferred=near.preferred_during_scheduling_ignored_during_execution,
        forbidden=far.required_during_scheduling_ignored_during_execution,
        avoided=far.preferred_during_scheduling_ignored_during_execution,
    )


def _amounts(given: ResourceList) -> dict[str, int]:
    """Amounts by name; a negative one, which admission refuses, counts as none."""
    return {name: max(amount(name, quantity), 0) for name, quantity in given.items()}


def read_group(
    builder: JobBuilder, record: PodGroup, members: Sequence[Member], priority: int, least: Ints | None
) -> Job:
    """The job of a pod group and its pods; `least` is what the builder makes of its minResources."""
    spec = record.spec
    key = f"{record.metadata.namespace or 'default'}/{record.metadata.name}"
    roles = builder.roles(spec.min_task_member)
    marks = read_marks(record.metadata, HYPERNODES, [policy.name for policy in spec.sub_group_policy])
    policies = tuple(
        Policy(
            p.name,
            p.sub_group_size or 1,
            p.min_sub_groups or 0,
            marks.own(_constraint(p.network_topology), p.name),
            marks.of(p.name),
        )
        for p in spec.sub_group_policy
    )
    owner = next((reference for reference in record.metadata.owner_references if reference.controller), None)
    return builder.job(
        key=key,
        order=_order(key, owner),
        queue=builder.queue(spec.queue or "default", record.metadata.namespace or "default"),
        priority=priority,
        created=parse_time(record.metadata.creation_timestamp) if record.metadata.creation_timestamp else 0.0,
        phase=_phase(record.status.phase),
        minimum=spec.min_member or 0,
        roles={number: spec.min_task_member[name] for name, number in roles.items()},
        role_names={number: name for name, number in roles.items()},
        constraint=marks.own(_constraint(spec.network_topology)),
        further=marks.whole,
        refusal=marks.refusal,
        policies=policies,
        min_resources=least,
        not_preemptable=not_preemptable(record.metadata),
        forbears=forbearing(record.metadata),
        sla=_sla(record.metadata),
        pattern=parse_pattern(record.metadata.annotations.get(PATTERN, "")),
        marks=record.metadata.annotations,
        owner=owner.name if owner is not None else "",
        lone=owner is not None and owner.kind == "Pod",
        split=_split(key, spec.sub_group_policy, members),
        formers={f"{key}/{sub}": former.hyper_node for sub, former in previous_placements(record.metadata).items()},
        numbers=roles,
        awaits=_awaits(record.metadata),
        language=GROUP,
    )


def _order(key: str, owner: OwnerReference | None) -> tuple[object, ...]:
    """The natural order of its name; a group that was made is named by a uid, and so takes the place of its owner."""
    namespace, _, name = key.partition("/")
    made = owner is not None and name == f"podgroup-{owner.uid}"
    return natural(f"{namespace}/{owner.name} {name}" if owner is not None and made else key)


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
        found = msgspec.json.decode(noted, type=dict[str, PreviousPlacement])
    except msgspec.DecodeError:
        return {}
    return found


def _sla(meta: ObjectMeta) -> float | None:
    """How long a job may wait by its own word; a time that cannot be read, or is not positive, is none."""
    for key in _SLA:
        time = seconds(meta.annotations.get(key, ""))
        if time is not None and time > 0:
            return time
    return None


def _constraint(spec: NetworkTopologySpec | None) -> Constraint | None:
    if spec is None:
        return None
    return Constraint(spec.mode.lower() != "soft", spec.highest_tier_allowed, spec.highest_tier_name)


def _phase(text: str) -> Phase:
    return _PHASES.get(text, Phase.PENDING)


def _split(key: str, policies: Sequence[SubGroupPolicy], members: Sequence[Member]) -> Split:
    """By policy and label values; the tasks that no policy takes stand under the job's own key.

    A policy without keys has no values to tell sub-groups apart, so all tasks that it selects are one.
    """
    if not policies:
        return {key: (-1, 0, [*members])}
    found: Split = {key: (-1, 0, [])}
    for member in members:
        labels = member.pod.metadata.labels
        for i, policy in enumerate(policies):
            values = [labels.get(k, "") for k in policy.match_label_keys]
            if all(values) and matches(policy.label_selector, labels, absent=True):
                sub = f"{key}/{policy.name}-{_joined(values)}"
                index = read_number(values[0]) or 0 if values else 0
                found.setdefault(sub, (i, index, []))[2].append(member)
                break
        else:
            found[key][2].append(member)
    return found


def _joined(values: list[str]) -> str:
    """Label values as part of a name; long ones as a 32-bit FNV-1a hash in letters that form no words."""
    text = "-".join(values)
    if len(text) <= _LONGEST:
        return text
    number = 2166136261
    for byte in text.encode():
        number = (number ^ byte) * 16777619 % 2**32
    return "".join(_SAFE[ord(digit) % len(_SAFE)] for digit in str(number))


LANGUAGE: Final = Language(
    name=GROUP,
    reads=(PodGroup,),
    declares=(PodGroup,),
    named=group_of,
    page="languages/volcano.md",
    admit="tierwise.admission.podgroup:admit",
    status="tierwise.status.pod_group:of_volcano",
    check="tierwise.audit.gangs:gangs",
    marks=(PodGroup,),
)
