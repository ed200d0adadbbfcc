"""Reads Grove's PodGangs into model types.

Its operator makes one of each replica of a PodCliqueSet. A pod belongs to the PodGang that its label names, and to the
group that is called like its PodClique. All groups start together, each with its minimum; a constraint may hold for the
whole, for some of the groups together, and for each of them. Keys of node labels are bare, as Kubernetes' own groups
have them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.grove import GROUP, PodGang, PodGangSpec, TopologyConstraint
from tierwise.api.sets import set_fault
from tierwise.dialects.elastic_quota import forbearing
from tierwise.dialects.groups import Group, SubGroup, created, group_marks, not_supported, smallest
from tierwise.dialects.label_trees import LabelTree
from tierwise.dialects.language import Language, Rules
from tierwise.model.job import Constraint, Phase, Reason, SetMember, SetRule
from tierwise.model.part_names import PartNames
from tierwise.model.topology import LABELS
from tierwise.port import Key, Objects

__all__ = ["LABEL", "LANGUAGE", "PART_OF", "REPLICA", "SCHEDULED"]

LABEL: Final = "grove.io/podgang"
SCHEDULED: Final = "Scheduled"
_CLIQUE: Final = "grove.io/podclique"
PART_OF: Final = "app.kubernetes.io/part-of"
REPLICA: Final = "grove.io/podcliqueset-replica-index"
_PARTS: Final = PartNames("PodClique", "PodClique", "group of PodCliques")


def named(pod: Pod) -> str:
    """The PodGang that a pod names, as namespace/name; empty where it names none."""
    name = pod.metadata.labels.get(LABEL, "")
    if name:
        return f"{pod.metadata.namespace or 'default'}/{name}"
    return ""


def sub_group(pod: Pod) -> str:
    """The PodClique of a pod."""
    return pod.metadata.labels.get(_CLIQUE, "")


def trees(objects: Objects) -> Iterator[LabelTree]:
    """One of all keys that a PodGang names."""
    keys: set[str] = set()
    for record in objects.every(PodGang).values():
        for constraint in _constraints(record.spec):
            pack = constraint.pack_constraint
            keys |= {key for key in (pack.required, pack.preferred) if key}
    if keys:
        yield LabelTree(LABELS, tuple(sorted(keys)), bare=True)


def _constraints(spec: PodGangSpec) -> Iterator[TopologyConstraint]:
    every = (spec.topology_constraint, *(c.topology_constraint for c in spec.topology_constraint_group_configs))
    yield from (
        constraint
        for constraint in (*every, *(g.topology_constraint for g in spec.podgroups))
        if constraint is not None
    )


def _group(path: str, record: PodGang, rules: Rules) -> Group:
    """Gang that an object declares."""
    namespace, _, name = path.partition("/")
    spec = record.spec
    subs = tuple(_sub_groups(spec))
    started = any(c.type == SCHEDULED and c.status == "True" for c in record.status.conditions)
    return Group(
        key=Key(GROUP, "PodGang", namespace, name),
        minimum=smallest(subs, None),
        phase=Phase.RUNNING if started else Phase.PENDING,
        created=created(record.metadata),
        marks=group_marks(record.metadata),
        constraint=_constraint(spec.topology_constraint),
        sub_groups=subs,
        priority_class=spec.priority_class_name,
        forbears=forbearing(record.metadata),
        refusal=_overlap(spec),
        member=_member(record),
        predecessor=_predecessor(namespace, spec),
        part_names=_PARTS,
    )


def _predecessor(namespace: str, spec: PodGangSpec) -> str:
    """The gang that is being replaced: one of its own namespace."""
    reference = spec.reuse_reservation_ref
    if reference is None or not reference.name or reference.namespace not in ("", namespace):
        return ""
    return f"{namespace}/{reference.name}"


def _member(record: PodGang) -> SetMember | None:
    """All PodGangs of a replica of a PodCliqueSet are a set. The operator copies the constraint of the whole onto each
    of them, so what all of them require they require together.
    """
    labels = record.metadata.labels
    path = f"{labels.get(PART_OF, '')}/{labels.get(REPLICA, '')}"
    if set_fault(path):
        return None
    constraint = _constraint(record.spec.topology_constraint)
    hard = constraint is not None and constraint.hard
    rules = (SetRule(path, replace(constraint, preferred=""), agreed=True),) if constraint is not None and hard else ()
    return SetMember(path, rules)


def _sub_groups(spec: PodGangSpec) -> Iterator[SubGroup]:
    """The groups; those that share a constraint are below one more."""
    groups: dict[str, SubGroup] = {}
    for group in spec.podgroups:
        groups[group.name] = SubGroup(group.name, max(group.min_replicas, 1), _constraint(group.topology_constraint))
    for config in spec.topology_constraint_group_configs:
        inside = tuple(groups.pop(name) for name in config.pod_group_names if name in groups)
        constraint = _constraint(config.topology_constraint)
        if len(inside) == 1 and inside[0].constraint is None:
            yield SubGroup(inside[0].name, inside[0].minimum, constraint)
        elif inside:
            yield SubGroup(config.name, smallest(inside, None), constraint, inside)
    yield from groups.values()


def _constraint(constraint: TopologyConstraint | None) -> Constraint | None:
    """Constraint of a gang: hard if a level is required, soft if one is only preferred, None without either."""
    pack = constraint.pack_constraint if constraint is not None else None
    if pack is None or not (pack.required or pack.preferred):
        return None
    inside = pack.preferred if pack.required and pack.preferred != pack.required else ""
    return Constraint(bool(pack.required), tier_name=pack.required or pack.preferred, kind=LABELS, preferred=inside)


def _overlap(spec: PodGangSpec) -> Reason | None:
    names: list[str] = []
    for config in spec.topology_constraint_group_configs:
        names.extend(config.pod_group_names)
    if len(set(names)) == len(names):
        return None
    return not_supported("spec.topologyConstraintGroupConfigs", "a group stands in several of them")


def _level(key: str) -> Raw:
    """A patch that makes a label of nodes the level which is required."""
    return {"spec": {"topologyConstraint": {"packConstraint": {"required": key}}}}


LANGUAGE: Final = Language(
    name=GROUP,
    reads=(PodGang,),
    declares=(PodGang,),
    named=named,
    keys=frozenset((LABEL,)),
    each=_group,
    sub_group=sub_group,
    trees=trees,
    tree_reads=(PodGang,),
    level=_level,
    page="languages/grove.md",
    admit="tierwise.admission.languages:admit_grove",
    status="tierwise.status.languages:of_kubernetes",
    check="tierwise.audit.languages:grove_gangs",
    marks=(PodGang,),
)
