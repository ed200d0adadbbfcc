"""Reads Koordinator's gangs into model types.

A pod belongs to the gang that its label names, or its annotation; a gang is a PodGroup object, or what its pods'
annotations say. Gangs that all name the same group become one job, in which each of them is a role with its own
minimum; a claim that the others do not return binds no gang, nor does one across namespaces unless a profile allows it.
What a gang asks of the network becomes a `Gather`; tasks are in the order of their index, then by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.api.codec import KINDS_OF
from tierwise.api.core import ObjectMeta, Pod, ResourceList, read_number
from tierwise.api.fabric import CONSTRAINTS, FABRIC
from tierwise.api.koordinator import (
    GROUPS,
    ClusterNetworkTopology,
    GatherRule,
    GatherSpec,
    PodGroup,
    gang_names,
    gather_spec,
)
from tierwise.api.natural import natural
from tierwise.api.pattern import PATTERN
from tierwise.config.profile import Profile
from tierwise.dialects.elastic_quota import forbearing
from tierwise.dialects.fabrics import FabricMarks, read_marks
from tierwise.dialects.groups import GangPart, Gathered, Group, created, gang_minimums, group_marks, joint_marks
from tierwise.dialects.jobs import Member
from tierwise.dialects.koordinator.network_topology import tree_marks
from tierwise.dialects.language import Drawn, Language, Rules
from tierwise.dialects.pod_marks import not_preemptable
from tierwise.model.arrays import EMPTY, Ints
from tierwise.model.job import Constraint, Gather, Phase, Reason
from tierwise.model.part_names import PartNames
from tierwise.model.snapshot import Fault
from tierwise.model.topology import LAYERS
from tierwise.port import Key, Objects

__all__ = [
    "INDEX",
    "LANGUAGE",
    "SELECTOR",
    "Gang",
    "drawn_to",
    "gang_faults",
    "gang_object",
    "gang_of",
    "gang_rules",
    "lone_gather",
    "pattern_of",
    "read_gangs",
]

_LABELS = ("pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/name")
_PREFIX = "gang.scheduling.koordinator.sh/"
NAME = f"{_PREFIX}name"
MINIMUM = f"{_PREFIX}min-available"
TOTAL = f"{_PREFIX}total-number"
MODE = f"{_PREFIX}mode"
MATCH_POLICY = f"{_PREFIX}match-policy"
GATHER = (f"{_PREFIX}network-topology-spec", f"{_PREFIX}networkTopologyAware")
INDEX = f"{_PREFIX}network-topology-index"
SELECTOR = "scheduling.koordinator.sh/network-topology-selector"
ONCE_SATISFIED = "once-satisfied"
_API: Final = "scheduling.sigs.k8s.io"
_PLAIN = Rules()
_STARTED = {"Scheduled": Phase.RUNNING, "Running": Phase.RUNNING, "Finished": Phase.COMPLETED}
_OVER = {"Failed": Phase.UNKNOWN, "Unknown": Phase.UNKNOWN}


class Gang(msgspec.Struct, frozen=True):
    """One gang: a PodGroup object, or what the annotations of its pods come to."""

    key: str  # namespace/name
    meta: ObjectMeta  # of the object, or of the first pod
    minimum: int | None  # None where nothing says how many pods it needs
    match_policy: str = ONCE_SATISFIED  # which of its pods count towards the minimum
    phase: Phase = Phase.PENDING
    asks: GatherSpec | None = None
    fault: str = ""  # why what it asks of the network, or which gangs it starts with, cannot be read
    partners: tuple[str, ...] = ()  # gangs that start with it, as it lists them
    min_resources: ResourceList | None = None
    by_pods: bool = False  # it has no object


def gang_of(pod: Pod) -> str:
    """The gang that a pod names, as namespace/name; empty where it names none."""
    meta = pod.metadata
    said = [name for label in _LABELS if (name := meta.labels.get(label, ""))]
    name = said[0] if said else meta.annotations.get(NAME, "")
    if name:
        return f"{meta.namespace or 'default'}/{name}"
    return ""


def gang_object(objects: Objects, path: str) -> tuple[Key, PodGroup] | None:
    """The object of a gang; of two in different API groups, the one that counts. None where pods declare it."""
    namespace, _, name = path.partition("/")
    for group, kind in sorted(KINDS_OF[PodGroup]):
        key = Key(group, kind, namespace, name)
        record = objects.record(key)
        if isinstance(record, PodGroup):
            return key, record
    return None


def gang_rules(profile: Profile) -> Rules:
    """How gangs are read that do not say so themselves, as the arguments of the plugin have it."""
    given = (c.arguments.get("defaultMatchPolicy") for c in profile.plugins() if c.name == "coscheduling")
    policy = next((str(policy) for policy in given if policy), ONCE_SATISFIED)
    across = profile.switched_on("coscheduling", "crossNamespaceGangGroups")
    # Asked for only where a profile sets it: an alpha gate is off else.
    affinity = "VolcanoTopologyAffinity" in profile.feature_gates and profile.feature("VolcanoTopologyAffinity")
    return Rules(policy, across, affinity)


def read_gangs(records: Mapping[str, PodGroup], pods: Iterable[Pod], rules: Rules = _PLAIN) -> dict[str, Gang]:
    """Every gang by its key: those with an object, and those that annotations of pods declare."""
    gangs = {key: _of_object(key, record, rules) for key, record in records.items()}
    for pod in pods:
        if _declares(pod) and (key := gang_of(pod)) not in gangs:
            gangs[key] = _of_pod(key, pod.metadata, rules)
    return gangs


def _declares(pod: Pod) -> bool:
    """Whether the annotations of a pod would declare its gang."""
    return bool(pod.metadata.annotations.get(NAME)) and MINIMUM in pod.metadata.annotations


def _named(pod: Pod) -> str:
    """The gang of a pod; those that could declare it are told apart from the others."""
    if _declares(pod):
        return f"{gang_of(pod)} (by annotations)"
    return gang_of(pod)


def _each(path: str, record: PodGroup, rules: Rules) -> Group | None:
    """The gang of an object that names no others."""
    gang = _of_object(path, record, rules)
    return _group([gang], ()) if not gang.partners else None


def _woven(objects: Objects, pods: Mapping[str, Pod], rules: Rules) -> dict[str, Group]:
    """Gangs that name others, and those without an object."""
    gangs = read_gangs(objects.every(PodGroup), pods.values(), rules)
    faults: dict[str, list[Fault]] = {}
    for fault in gang_faults(gangs, across=rules.across):
        faults.setdefault(fault.subject.removeprefix("Gang "), []).append(fault)
    found: dict[str, Group] = {}
    for several, missing in _groups(gangs, across=rules.across):
        told = tuple(fault for gang in several for fault in faults.get(gang.key, ()))
        if len(several) > 1 or several[0].partners or several[0].by_pods:
            found |= dict.fromkeys([gang.key for gang in several], _group(several, missing, told))
    return found


def _group(gangs: Sequence[Gang], missing: tuple[str, ...], faults: tuple[Fault, ...] = ()) -> Group:
    """What gangs that start together declare."""
    first = gangs[0]
    phases = {gang.phase for gang in gangs}
    namespace, _, name = first.key.partition("/")
    return Group(
        key=Key(_API, "PodGroup", namespace, name),
        name=",".join(gang.key for gang in gangs),
        minimum=0,
        phase=phases.pop() if len(phases) == 1 else Phase.PENDING,
        created=min(created(gang.meta) for gang in gangs),
        marks={**_pattern_marks(gangs), **joint_marks([gang.meta for gang in gangs])},
        min_resources=first.min_resources if len(gangs) == 1 else None,
        forbears=next(filter(None, (forbearing(gang.meta) for gang in gangs)), ""),
        protected=any(not_preemptable(gang.meta) for gang in gangs),
        faults=faults,
        gangs=tuple(GangPart(gang.key, gang.minimum, gang.match_policy == "only-waiting") for gang in gangs),
        missing=missing,
        keyless=True,
        satisfied=all(g.match_policy == ONCE_SATISFIED and g.phase in _STARTED.values() for g in gangs),
        asks=next((gang.asks for gang in gangs if gang.asks is not None), None),
        fault=next((gang.fault for gang in gangs if gang.fault), "") or _two_fabrics(gangs),
        part_names=_PARTS,
    )


_PARTS: Final = PartNames("gang", "gang")
_PATTERNS: Final = {"allringduce": "ring", "allringreduce": "ring", "ring": "ring", "alltoall": "all-to-all"}
"""What a `communicationMode` says of which ranks talk to each other; Koordinator's documents spell the first."""


def pattern_of(mode: str) -> str:
    """The pattern that a `communicationMode` names; empty where it is not known."""
    return _PATTERNS.get(mode.lower().replace("-", "").replace("_", ""), "")


def _pattern_marks(gangs: Sequence[Gang]) -> dict[str, str]:
    """The pattern of the first gang that says how its pods talk, as the annotation of tierwise would name it."""
    modes = (pattern_of(gang.asks.communication_mode) for gang in gangs if gang.asks is not None)
    found = next(filter(None, modes), "")
    return {PATTERN: found} if found else {}


def _two_fabrics(gangs: Sequence[Gang]) -> str:
    """Why the constraints of gangs that start together cannot all hold; "" where at most one of them says something."""
    for key in (FABRIC, CONSTRAINTS):
        said = sorted({value for gang in gangs if (value := group_marks(gang.meta).get(key, ""))})
        if len(said) > 1:
            return f"annotation {key}: gangs that start together have different values"
    return ""


def _of_object(key: str, record: PodGroup, rules: Rules) -> Gang:
    spec = record.spec
    phase = record.status.phase
    return replace(
        _gang(key, record.metadata, spec.min_member, spec.network_topology_aware, rules),
        phase=_STARTED.get(phase) or _OVER.get(phase, Phase.PENDING),
        min_resources=spec.min_resources,
    )


def _of_pod(key: str, meta: ObjectMeta, rules: Rules) -> Gang:
    return replace(_gang(key, meta, read_number(meta.annotations[MINIMUM]), None, rules), by_pods=True)


def _gang(key: str, meta: ObjectMeta, minimum: int | None, spec: GatherSpec | None, rules: Rules) -> Gang:
    """What the annotations of an object, or of the first pod, say of a gang."""
    asks, fault = _asks(meta, spec)
    partners, wrong = _partners(meta)
    policy = meta.annotations.get(MATCH_POLICY, "") or rules.match_policy
    return Gang(key, meta, minimum, policy, asks=asks, fault=fault or wrong, partners=partners)


def _asks(meta: ObjectMeta, spec: GatherSpec | None) -> tuple[GatherSpec | None, str]:
    """What is asked of the network, and why it cannot be read; an annotation counts before the field."""
    for key in GATHER:
        text = meta.annotations.get(key, "")
        if text:
            found = gather_spec(text)
            if isinstance(found, str):
                return (None, f"annotation {key}: {found}")
            return (found, "")
    return spec, ""


def _partners(meta: ObjectMeta) -> tuple[tuple[str, ...], str]:
    text = meta.annotations.get(GROUPS, "")
    found = gang_names(text) if text else ()
    if isinstance(found, str):
        return ((), f"annotation {GROUPS}: {found}")
    return (found, "")


def drawn_to(pods: Iterable[Pod], rows: Mapping[str, int]) -> dict[tuple[str, str], Ints]:
    """By namespace and value of the selector annotation, the rows of the running pods that have it, one entry each.

    Pods of another namespace draw no pods: else a tenant could pull the gangs of others to where they are worse off.
    """
    found: dict[tuple[str, str], list[int]] = {}
    for pod in pods:
        value = pod.metadata.annotations.get(SELECTOR, "")
        row = rows.get(pod.spec.node_name, -1) if value and pod.spec.node_name else -1
        if row >= 0 and pod.status.phase not in ("Succeeded", "Failed"):
            found.setdefault((pod.metadata.namespace or "default", value), []).append(row)
    return {key: np.array(sorted(rows), dtype=np.int64) for key, rows in found.items()}


def _claims(gangs: Mapping[str, Gang], *, across: bool) -> dict[str, frozenset[str]]:
    """The group that each gang says it starts with, itself included; foreign names count only `across` namespaces."""
    return {
        key: frozenset((key, *(p for p in gang.partners if across or _namespace(p) == _namespace(key))))
        for key, gang in gangs.items()
    }


def _groups(gangs: Mapping[str, Gang], *, across: bool) -> list[tuple[list[Gang], tuple[str, ...]]]:
    """Gangs that start together, and those of their group that do not exist.

    A group holds where every gang in it that exists names exactly this group. A gang whose claim is not returned
    starts by itself: neither those that it names nor it may be held up by it.
    """
    claims = _claims(gangs, across=across)
    agreed: dict[frozenset[str], list[str]] = {}
    for key, claim in claims.items():
        agreed.setdefault(claim, []).append(key)
    result: list[tuple[list[Gang], tuple[str, ...]]] = []
    for claim, keys in agreed.items():
        existing = claim & gangs.keys()
        if len(existing) == len(keys):
            ordered = sorted(claim, key=natural)
            result.append(([gangs[k] for k in ordered if k in gangs], tuple(k for k in ordered if k not in gangs)))
        else:
            result += [([gangs[key]], ()) for key in keys]
    return result


def gang_faults(gangs: Mapping[str, Gang], *, across: bool = False) -> list[Fault]:
    """Claims that bind no gang, with what would make them count."""
    claims = _claims(gangs, across=across)
    faults = []
    for key in sorted((k for k, gang in gangs.items() if gang.partners), key=natural):
        if not across and any(_namespace(partner) != _namespace(key) for partner in gangs[key].partners):
            text = (
                "names a gang of another namespace in its gang group: that counts only where the profile "
                "sets crossNamespaceGangGroups of coscheduling"
            )
            faults.append(Fault(f"Gang {key}", "GangGroupAcrossNamespaces", text))
        other = next((k for k in sorted(claims[key] & gangs.keys(), key=natural) if claims[k] != claims[key]), None)
        if other is not None:
            text = f"names gang {other} in its gang group, which does not name the same group: it starts by itself"
            faults.append(Fault(f"Gang {key}", "OneSidedGangGroup", text))
    return faults


def _namespace(key: str) -> str:
    return key.partition("/")[0]


def _gathered(group: Group, members: Sequence[Member], drawn: Drawn) -> Gathered:
    """What a job of gangs asks of the network: as a plugin gathers its pods, or as limits on the fabrics it names."""
    gather = _gather(group, members, drawn, sum(gang_minimums(group, members).values()))
    marks = read_marks(group.marks, LAYERS)
    if marks.kind or marks.whole or marks.refusal is not None:
        return Gathered(None, *_on_fabrics(marks, gather))
    return Gathered(gather, _constraint(gather))


def _on_fabrics(
    marks: FabricMarks, gather: Gather | None
) -> tuple[Constraint | None, tuple[Constraint, ...], Reason | None]:
    """The limits of a gang that names fabrics; on several trees there are neither multiples nor pipelines."""
    refusal = marks.refusal
    if gather is not None and gather.fault:
        refusal = refusal or Reason("UnreadableGather", "pod", gather.fault)
    elif gather is not None and (gather.multiples or gather.parallel):
        text = "podCountMultiple and parallelModel are not supported beside constraints on further fabrics"
        refusal = refusal or Reason("NotSupported", "pod", text)
    names = gather.within[1:] if gather is not None else ()
    others = tuple(Constraint(hard=True, tier_name=name, kind=marks.kind or LAYERS) for name in names)
    return marks.own(_constraint(gather)), (*others, *marks.whole), refusal


def _joined(group: Group, members: list[Member]) -> list[Member]:
    """The pods of a job in the order of their index, those without a readable one last, then by natural name.

    Where it is of several gangs, these are their roles.
    """
    several = len(group.gangs) > 1
    ordered = sorted(members, key=lambda m: _index(m.pod))  # by name they are already
    return [
        Member(m.pod, replace(m.task, rank=i, role=gang_of(m.pod) if several else m.task.role))
        for i, m in enumerate(ordered)
    ]


def _index(pod: Pod) -> tuple[bool, int]:
    text = pod.metadata.annotations.get(INDEX, "").strip()
    number = read_number(text)
    return number is None, number or 0


def _gather(group: Group, members: Sequence[Member], drawn: Drawn, total: int) -> Gather | None:
    """What is asked of the network, as the first gang that asks says it, else their first pod."""
    near = _near(members, drawn)
    fault = group.fault
    asks = group.asks
    if asks is None and not fault and members:
        asks, fault = _asks(members[0].pod.metadata, None)
    if asks is None and near is None and not fault:
        return None
    spec = asks if asks is not None else GatherSpec()
    rules = spec.gather_strategy
    return Gather(
        within=tuple(rule.layer for rule in rules if _insists(rule)),
        prefer=tuple(rule.layer for rule in rules if not _insists(rule)),
        multiples=tuple((rule.layer, n) for rule in rules if (n := rule.pod_count_multiple or 1) > 1),
        parallel=bool(spec.parallel_model),
        pipeline=_pipeline(spec, total),
        drawn=near if near is not None else EMPTY,
        fault=fault,
    )


def _insists(rule: GatherRule) -> bool:
    """Whether a layer must not be crossed: unless it says otherwise, in any case, as with modes of Volcano's."""
    return rule.strategy.lower() not in ("prefergather", "")


def lone_gather(member: Member, drawn: Drawn) -> Gather | None:
    """A pod of no gang is gathered where it has a selector: towards the pods that have the same."""
    near = _near([member], drawn)
    return Gather(drawn=near) if near is not None else None


def _near(members: Sequence[Member], drawn: Drawn) -> Ints | None:
    """Where the pods run that the first pod with a selector is drawn to; None where no pod has one."""
    found = ((m.pod.metadata.namespace or "default", m.pod.metadata.annotations.get(SELECTOR, "")) for m in members)
    key = next((key for key in found if key[1]), None)
    return drawn.get(key, EMPTY) if key is not None else None


def _pipeline(spec: GatherSpec, total: int) -> int:
    """How many pods form a pipeline; one that does not divide the gang counts as none."""
    size = next((r.parallelism for r in spec.parallel_model if r.parallel_strategy == "pipeline-parallel"), None)
    if size is not None and size > 0 and total % size == 0:
        return size
    return 1


def _constraint(gather: Gather | None) -> Constraint | None:
    """The network limit of a gang: hard where it must gather in a layer, else soft; None where it asks for none."""
    if gather is None or gather.fault:
        return None
    if not gather.within:
        return Constraint(hard=False, kind=LAYERS)
    return Constraint(hard=True, tier_name=gather.within[0], kind=LAYERS, must_exist=True)


LANGUAGE: Final = Language(
    name=_API,
    reads=(PodGroup,),
    declares=(PodGroup,),
    named=_named,
    keys=frozenset((*_LABELS, NAME)),
    each=_each,
    woven=_woven,
    joined=_joined,
    gathered=_gathered,
    tree_marks=tree_marks,
    tree_reads=(ClusterNetworkTopology,),
    page="languages/koordinator.md",
    admit="tierwise.admission.koordinator:admit",
    status="tierwise.status.languages:of_gangs",
    check="tierwise.audit.koordinator:koordinator_gangs",
    marks=(PodGroup,),
)
