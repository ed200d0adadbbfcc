"""Reads Kubernetes' own groups (scheduling.k8s.io) into model types.

A pod belongs to the PodGroup that `spec.schedulingGroup` names; in Kubernetes 1.35 to a group of the Workload that
`spec.workloadRef` names, one for each replica key. PodGroups below a CompositePodGroup start with it, and composites
below another likewise: they are the sub-groups of one job. All pods of a group have one scheduler and one priority. A
topology constraint names the key of a node label: all pods are placed on nodes with the same value of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from tierwise.api import workload as api
from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.fabric import CONSTRAINTS
from tierwise.dialects.elastic_quota import forbearing
from tierwise.dialects.fabrics import read_marks
from tierwise.dialects.groups import Group, SubGroup, created, group_marks, joint_marks, not_supported, smallest
from tierwise.dialects.label_trees import LabelTree
from tierwise.dialects.language import IN_SPEC, Language, Rules
from tierwise.dialects.pod_marks import not_preemptable
from tierwise.model.job import Constraint, Phase, Reason
from tierwise.model.part_names import PartNames
from tierwise.model.topology import LABELS
from tierwise.port import Key, Objects

__all__ = [
    "COMPOSITE_SCHEDULED",
    "DEEPEST",
    "LANGUAGE",
    "SCHEDULED",
]

SCHEDULED: Final = ("PodGroupInitiallyScheduled", "PodGroupScheduled")
"""Conditions that say, once and for all, that a group has started: today's name, and that of v1alpha2."""
COMPOSITE_SCHEDULED: Final = "CompositePodGroupInitiallyScheduled"
_PARTS: Final = PartNames("PodGroup", "PodGroup", "CompositePodGroup")
DEEPEST: Final = 4
"""Levels of groups that the API allows."""


Inside = Mapping[str, Sequence[api.PodGroup | api.CompositePodGroup]]
"""What is right below each composite, by the path of the composite."""


def named(pod: Pod) -> str:
    """The group that a pod names: namespace/podGroup, or namespace/workload/podGroup and the replica key if any."""
    spec = pod.spec
    if spec.scheduling_group is not None and spec.scheduling_group.pod_group_name:
        return f"{pod.metadata.namespace or 'default'}/{spec.scheduling_group.pod_group_name}"
    reference = spec.workload_ref
    if reference is None or not reference.name:
        return ""
    path = f"{pod.metadata.namespace or 'default'}/{reference.name}/{reference.pod_group}"
    if reference.pod_group_replica_key:
        return f"{path}/{reference.pod_group_replica_key}"
    return path


def sub_group(pod: Pod) -> str:
    """Within a composite: the PodGroup."""
    if pod.spec.scheduling_group is not None:
        return pod.spec.scheduling_group.pod_group_name
    return ""


def trees(objects: Objects) -> Iterator[LabelTree]:
    """One of all keys that a group names."""
    constraints_asked = [record.spec.scheduling_constraints for record in objects.every(api.PodGroup).values()]
    constraints_asked += (
        record.spec.scheduling_constraints for record in objects.every(api.CompositePodGroup).values()
    )
    keys = set()
    for constraints in constraints_asked:
        for entry in constraints.topology:
            if entry.key:
                keys.add(entry.key)
    if keys:
        yield LabelTree(LABELS, tuple(sorted(keys)), bare=True)


def _each(path: str, record: api.PodGroup, rules: Rules) -> Group | None:
    """The group of a PodGroup below no composite."""
    if not record.spec.parent_composite_pod_group_name:
        return _of_pod_group(path, record)
    return None


def _woven(objects: Objects, pods: Mapping[str, Pod], rules: Rules) -> dict[str, Group]:
    """PodGroups below composites, and those of Workloads as far as pods name them."""
    by_path = {path: _of_workload(objects, path) for path in pods if path.count("/") > 1}
    composites = objects.every(api.CompositePodGroup)
    below: dict[str, list[api.PodGroup]] = {}
    result = {path: group for path, group in by_path.items() if group is not None}
    for path, record in objects.every(api.PodGroup).items():
        parent = record.spec.parent_composite_pod_group_name
        if not parent:
            continue
        top = _top(composites, f"{path.partition('/')[0]}/{parent}")
        if isinstance(top, Reason):
            result[path] = replace(_of_pod_group(path, record), refusal=top)
        elif not top:
            result[path] = _of_pod_group(path, record)
        else:
            below.setdefault(top, []).append(record)
    inside: dict[str, list[api.PodGroup | api.CompositePodGroup]] = {}
    every: list[api.PodGroup | api.CompositePodGroup] = [*composites.values(), *objects.every(api.PodGroup).values()]
    for part in every if below else ():
        around = f"{part.metadata.namespace or 'default'}/{part.spec.parent_composite_pod_group_name}"
        inside.setdefault(around, []).append(part)
    for top, groups in below.items():
        group = _of_composite(top, composites[top], inside, groups)
        result |= {f"{top.partition('/')[0]}/{record.metadata.name}": group for record in groups}
    return result


def _of_workload(objects: Objects, path: str) -> Group | None:
    """A group of a Workload of v1alpha1; None where there is no such Workload or it has no such group."""
    namespace, name, pod_group = path.split("/")[:3]
    record = objects.every(api.Workload).get(f"{namespace}/{name}")
    declared = next((g for g in record.spec.pod_groups if g.name == pod_group), None) if record is not None else None
    if record is None or declared is None:
        return None
    return Group(
        key=Key(api.GROUP, "Workload", namespace, name),
        name=path,
        minimum=_minimum(declared.policy),
        created=created(record.metadata),
        marks=group_marks(record.metadata),
        forbears=forbearing(record.metadata),
        uniform=True,
        refusal=_no_policy(declared.policy),
    )


def _of_pod_group(path: str, record: api.PodGroup) -> Group:
    spec = record.spec
    refusal = _no_policy(spec.scheduling_policy) or _claims([record]) or _wrong_constraints(spec.scheduling_constraints)
    return replace(_declared(path, record), minimum=_minimum(spec.scheduling_policy), refusal=refusal)


def _declared(path: str, record: api.PodGroup | api.CompositePodGroup) -> Group:
    """Parts of a group that PodGroups and composites state in the same fields."""
    namespace, _, name = path.partition("/")
    spec = record.spec
    composite = isinstance(record, api.CompositePodGroup)
    return Group(
        key=Key(api.GROUP, "CompositePodGroup" if composite else "PodGroup", namespace, name),
        minimum=1,
        phase=_phase(record, (COMPOSITE_SCHEDULED,) if composite else SCHEDULED),
        created=created(record.metadata),
        marks=group_marks(record.metadata),
        constraint=_constraint(spec.scheduling_constraints),
        priority_class=spec.priority_class_name,
        priority=spec.priority,
        forbears=forbearing(record.metadata) or ("preemptionPolicy Never" if spec.preemption_policy == "Never" else ""),
        together=_together(spec.disruption_mode),
        uniform=True,
        part_names=_PARTS,
    )


def _of_composite(path: str, record: api.CompositePodGroup, inside: Inside, groups: list[api.PodGroup]) -> Group:
    """A composite and all PodGroups below it, at whatever depth."""
    subs = tuple(_children(path, inside, DEEPEST))
    parts = [record.metadata, *(part.metadata for part in _below(path, inside, DEEPEST))]
    gang = record.spec.scheduling_policy.gang
    minimum = max(gang.min_group_count, 1) if gang is not None else 1
    constraints = record.spec.scheduling_constraints
    declared = _declared(path, record)
    refusal = next(filter(None, (_no_policy(g.spec.scheduling_policy) for g in groups)), None) or _claims(groups)
    refusal = refusal or next(
        filter(None, map(_wrong_constraints, (constraints, *(g.spec.scheduling_constraints for g in groups)))), None
    )
    refusal = refusal or next(filter(None, (_marks_fault(g, record) for g in groups)), None)
    return replace(
        declared,
        minimum=smallest(subs, minimum),
        sub_groups=subs,
        min_sub_groups=minimum,
        together=declared.together or any(_together(g.spec.disruption_mode) for g in groups),
        forbears=declared.forbears or next(filter(None, map(forbearing, parts)), ""),
        protected=any(not_preemptable(g.metadata) for g in groups),
        marks=joint_marks(parts, fabrics=False),
        refusal=refusal,
    )


def _marks_fault(group: api.PodGroup, around: api.CompositePodGroup) -> Reason | None:
    """What is wrong with the marks of a group below a composite; rules about sets are about the gang as a whole."""
    own = read_marks(group.metadata, LABELS)
    whole = read_marks(around.metadata, LABELS)
    said = own.member.rules if own.member is not None else ()
    known = whole.member.rules if whole.member is not None else ()
    if own.refusal is not None or set(said) <= set(known):
        return own.refusal
    return not_supported(f"annotation {CONSTRAINTS}: set", "the CompositePodGroup says it for all groups below it")


def _children(path: str, inside: Inside, depth: int) -> Iterator[SubGroup]:
    """Sub-groups of a composite, with those below them."""
    namespace = path.partition("/")[0]
    for record in inside.get(path, ()):
        marks = read_marks(record.metadata, LABELS)
        constraint = marks.own(_constraint(record.spec.scheduling_constraints))
        further = marks.whole
        if isinstance(record, api.PodGroup):
            minimum = _minimum(record.spec.scheduling_policy)
            yield SubGroup(record.metadata.name, minimum, constraint, further=further)
        elif depth:
            below = tuple(_children(f"{namespace}/{record.metadata.name}", inside, depth - 1))
            gang = record.spec.scheduling_policy.gang
            minimum = max(gang.min_group_count, 1) if gang is not None else 1
            yield SubGroup(record.metadata.name, smallest(below, minimum), constraint, below, minimum, further)


def _below(path: str, inside: Inside, depth: int) -> Iterator[api.PodGroup | api.CompositePodGroup]:
    """Every group below a composite, each before those below it."""
    namespace = path.partition("/")[0]
    for record in inside.get(path, ()):
        yield record
        if depth and isinstance(record, api.CompositePodGroup):
            yield from _below(f"{namespace}/{record.metadata.name}", inside, depth - 1)


def _top(composites: Mapping[str, api.CompositePodGroup], path: str) -> str | Reason:
    """The outermost composite around this one, itself included, that binds its groups together; or why that is unknown.

    "" where all of them are basic and have no domain of their own: then their groups start each by itself.
    """
    seen: list[str] = []
    while True:
        record = composites.get(path)
        if record is None:
            return Reason("PodGroupNotFound", "pod", f"CompositePodGroup {path} does not exist")
        if path in seen or len(seen) >= DEEPEST:
            text = f"CompositePodGroup {path} is below itself, or has more than {DEEPEST} levels of groups"
            return Reason("InvalidGroup", "pod", text)
        fault = _no_policy(record.spec.scheduling_policy)
        if fault is not None:
            return replace(fault, text=f"CompositePodGroup {path}: {fault.text}")
        seen.append(path)
        parent = record.spec.parent_composite_pod_group_name
        if not parent:
            return next((outer for outer in reversed(seen) if _binds(composites[outer])), "")
        path = f"{path.partition('/')[0]}/{parent}"


def _binds(record: api.CompositePodGroup) -> bool:
    """Whether the groups of a composite start together, or share a domain."""
    return record.spec.scheduling_policy.gang is not None or bool(record.spec.scheduling_constraints.topology)


def _minimum(policy: api.SchedulingPolicy) -> int:
    """How many pods start together: one at a time where nothing asks for more."""
    return max(policy.gang.min_count, 1) if policy.gang is not None else 1


def _constraint(constraints: api.SchedulingConstraints) -> Constraint | None:
    key = next((entry.key for entry in constraints.topology if entry.key), "")
    return Constraint(hard=True, tier_name=key, kind=LABELS) if key else None


def _no_policy(policy: api.SchedulingPolicy | api.CompositePolicy) -> Reason | None:
    """That a policy does not say how many start together, so that it is not known whether a part of them would do."""
    if policy.gang is not None and policy.basic is not None:
        return Reason("InvalidGroup", "pod", "spec.schedulingPolicy has both basic and gang, of which one may be set")
    if policy.gang is not None:
        minimum = policy.gang.min_count if isinstance(policy.gang, api.GangPolicy) else policy.gang.min_group_count
        if minimum > 0:
            return None
        field = "minCount" if isinstance(policy.gang, api.GangPolicy) else "minGroupCount"
        return Reason("InvalidGroup", "pod", f"spec.schedulingPolicy.gang.{field} is {minimum}, it must be at least 1")
    if policy.basic is not None:
        return None
    return Reason(
        "InvalidGroup", "pod", "spec.schedulingPolicy has neither basic nor gang, the policies that are known"
    )


def _wrong_constraints(constraints: api.SchedulingConstraints) -> Reason | None:
    """Limits that cannot be kept: several of them, or one that does not say of what."""
    if len(constraints.topology) > 1:
        return not_supported("spec.schedulingConstraints.topology", "more than one topology constraint")
    if any(not entry.key for entry in constraints.topology):
        return Reason("InvalidGroup", "pod", "spec.schedulingConstraints.topology has a constraint without a key")
    return None


def _claims(groups: Iterable[api.PodGroup]) -> Reason | None:
    """Claims that a whole group shares."""
    if not any(record.spec.resource_claims for record in groups):
        return None
    return not_supported("spec.resourceClaims", "device claims of a whole PodGroup are not read")


def _together(mode: str | api.DisruptionMode | None) -> bool:
    """Whether a group is disrupted as a whole."""
    return mode.all is not None if isinstance(mode, api.DisruptionMode) else mode == "PodGroup"


def _phase(record: api.PodGroup | api.CompositePodGroup, conditions: Sequence[str]) -> Phase:
    """Phase of a group; a condition that was true once counts forever."""
    started = any(c.type in conditions and c.status == "True" for c in record.status.conditions)
    return Phase.RUNNING if started else Phase.PENDING


def _level(key: str) -> Raw:
    """A patch that makes a label of nodes the level which is required."""
    return {"spec": {"schedulingConstraints": {"topology": [{"key": key}]}}}


LANGUAGE: Final = Language(
    name=api.GROUP,
    reads=(api.PodGroup, api.CompositePodGroup, api.Workload),
    declares=(api.PodGroup, api.CompositePodGroup, api.Workload),
    named=named,
    keys=frozenset((IN_SPEC,)),
    each=_each,
    woven=_woven,
    sub_group=sub_group,
    trees=trees,
    tree_reads=(api.PodGroup, api.CompositePodGroup),
    level=_level,
    page="languages/kubernetes.md",
    admit="tierwise.admission.languages:admit_kubernetes",
    status="tierwise.status.languages:of_kubernetes",
    check="tierwise.audit.languages:kubernetes",
    marks=(api.PodGroup, api.CompositePodGroup),  # a Workload declares several gangs, whose pods show it
)
