"""Reads Kueue's topology annotations and pod groups into model types, with Kueue installed and without it.

*With Kueue* a pod carries the name of its admitted Workload, and Kueue has chosen its domain: it removes a scheduling
gate and adds node selectors. Gates and selectors are honoured, and the annotations add no constraint;
the pods of a Workload start together. *Without Kueue* the annotations themselves are limits: a level is a node label
of a Topology, slices are sub-groups by the index of their pods, slices of several sizes lie within each other, and the
pods of a pod group, or of an owner whose size is known, start together. Pods that name their pod set, as those of a
JobSet do, are a sub-group with limits of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from tierwise.api.codec import Unknown
from tierwise.api.core import ObjectMeta, OwnerReference, Pod, Requirement, read_number
from tierwise.api.duration import seconds
from tierwise.api.eviction_terms import EXPECTED_DURATION, MINIMUM_RUN_TIME, queue_times
from tierwise.api.hold import HOLD, held
from tierwise.api.kueue import GROUP, ClusterQueue, LocalQueue, ResourceFlavor, Topology, Workload
from tierwise.api.limits import PODS
from tierwise.api.own_keys import said_by_jobs
from tierwise.api.quantity import milli
from tierwise.api.sets import WHOLE
from tierwise.dialects.elastic_quota import forbearing
from tierwise.dialects.groups import Group, SubGroup, created, group_marks, not_supported
from tierwise.dialects.label_trees import LabelTree
from tierwise.dialects.language import Language, NotOurs, Rules
from tierwise.model.job import Constraint, Reason, SetMember, SetRule
from tierwise.model.part_names import PartNames
from tierwise.port import Key, Objects

__all__ = ["LANGUAGE", "assigned", "named"]


_QUEUE: Final = f"{GROUP}/queue-name"
_GROUP_NAME: Final = f"{GROUP}/pod-group-name"
_TOTAL: Final = f"{GROUP}/pod-group-total-count"
_WORKLOAD: Final = f"{GROUP}/workload"
_MANAGED: Final = f"{GROUP}/managed"
_REQUIRED: Final = f"{GROUP}/podset-required-topology"
_PREFERRED: Final = f"{GROUP}/podset-preferred-topology"
_SLICE: Final = f"{GROUP}/podset-slice-required-topology"
_SLICE_SIZE: Final = f"{GROUP}/podset-slice-size"
_SLICES: Final = f"{GROUP}/podset-slice-required-topology-constraints"
_POD_SET: Final = f"{GROUP}/podset"
_SPREADING: Final = f"{GROUP}/podset-topology-spreading"
_SHARED: Final = f"{GROUP}/podset-group-name"
_REPLICAS: Final = "jobset.sigs.k8s.io/replicatedjob-replicas"
_INDEX: Final = f"{GROUP}/pod-group-pod-index"
_INDEX_LABEL: Final = f"{GROUP}/pod-group-pod-index-label"
_COMPLETION: Final = "batch.kubernetes.io/job-completion-index"
_ASKS: Final = (_REQUIRED, _PREFERRED, _SLICE, _SLICE_SIZE, _SLICES, _SPREADING)
_OF_SET: Final = "leaderworkerset.sigs.k8s.io/name"
"""The label that the pods of one LeaderWorkerSet share; Kueue has one Workload for each of its groups."""
_TOO_MANY: Final = 2
_LONGEST: Final = 256
_TRAILING: Final = r"(\d+)$"


def assigned(pod: Pod) -> bool:
    """Whether Kueue looks after a pod: what it asked for in annotations has become gates and selectors."""
    return pod.metadata.labels.get(_MANAGED) == "true" or bool(pod.metadata.annotations.get(_WORKLOAD))


def _topology_asks(pod: Pod) -> list[str]:
    """The topology annotations of a pod as KEY=VALUE; none once Kueue has assigned nodes."""
    marks = pod.metadata.annotations
    if marks.keys().isdisjoint(_ASKS) or assigned(pod):
        return []
    stated = ((key[len(GROUP) + 1 :], "".join(marks.get(key, "").split())) for key in _ASKS)
    return [f"{key}={value}" for key, value in stated if value or f"{GROUP}/{key}" in marks]


def named(pod: Pod) -> str:
    """The gang of a pod: its pod group, its Workload, or who controls it where it asks for a topology.

    What it asks for follows the name, so that pods of one gang that ask for different things are told apart.
    """
    meta = pod.metadata
    namespace = meta.namespace or "default"
    marks = meta.annotations
    group = meta.labels.get(_GROUP_NAME, "") or marks.get(_GROUP_NAME, "") or marks.get(_WORKLOAD, "")
    asked = _topology_asks(pod)
    if not group and not asked:
        return ""
    if _grouped(pod):
        asked.append(f"{_TOTAL[len(GROUP) + 1 :]}={marks.get(_TOTAL, '')}")
        asked += [f"podset={_pod_set(pod)}"] if _pod_set(pod) else []
    if not group:
        owner = _owner(pod)
        group = f"{owner.kind}/{owner.name}" if owner is not None else f"Pod/{meta.name}"
    return f"{namespace}/{group}" + (f" ({', '.join(asked)})" if asked else "")


def _owner(pod: Pod) -> OwnerReference | None:
    """Who makes the pods that a pod starts with; None for one that starts by itself, as replicas that are spread do."""
    owner = next((reference for reference in pod.metadata.owner_references if reference.controller), None)
    alone = owner is not None and owner.kind == "ReplicaSet" and _SPREADING in pod.metadata.annotations
    return None if alone else owner


def _pod_set(pod: Pod) -> str:
    """The pod set of a pod of a JobSet that is a pod group, where Kueue has not answered it."""
    labels = pod.metadata.labels
    if _REPLICAS in labels and _grouped(pod) and not assigned(pod):
        return labels.get(_POD_SET, "")
    return ""


def sub_group(pod: Pod) -> str:
    """The slice of a pod, by its index within the pod set, else by the number at the end of its name; else its pod set.

    Where slices lie within each other, the innermost one.
    """
    layers = _layers(pod.metadata.annotations) if not assigned(pod) else ()
    own = _pod_set(pod)
    if isinstance(layers, str) or not layers:
        return own
    size = layers[-1][1]
    prefix = f"{own}-" if own else ""
    labels = pod.metadata.labels
    marks = pod.metadata.annotations
    for key in (marks.get(_INDEX_LABEL, ""), _INDEX, _COMPLETION):
        index = read_number(labels.get(key, "") or marks.get(key, "")) if key else None
        if index is not None:
            return f"{prefix}slice-{index // size}"
    trailing = re.search(_TRAILING, pod.metadata.name)
    if trailing is not None:
        return f"{prefix}slice-{int(trailing[1]) // size}"
    return ""


def tree_of(name: str) -> str:
    """How constraints name the tree of a Topology."""
    return f"Topology {GROUP}/{name}"


def _tree_marks(objects: Objects) -> Iterator[tuple[str, ObjectMeta]]:
    return ((tree_of(name), record.metadata) for name, record in objects.every(Topology).items())


def trees(objects: Objects) -> Iterator[LabelTree]:
    """One of every Topology, over the nodes of the flavors that name it; over all nodes where none does."""
    flavors = objects.every(ResourceFlavor).values()
    for name, record in objects.every(Topology).items():
        keys = tuple(dict.fromkeys(level.node_label for level in record.spec.levels if level.node_label))
        own = (flavor.spec.node_labels for flavor in flavors if flavor.spec.topology_name == name)
        if keys:
            yield LabelTree(tree_of(name), keys, only=tuple(tuple(sorted(labels.items())) for labels in own))


def _woven(objects: Objects, pods: Mapping[str, Pod], rules: Rules) -> dict[str, Group]:
    """The gangs that pods name; one whose pods ask for different things is under each of its names."""
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
    record = objects.every(Workload).get(path)
    first = pods[0]
    if record is None and first.metadata.annotations.get(_WORKLOAD) and not _grouped(first):
        return None
    total = _size(objects, record, first)
    spreading = _spreading(objects, pods)
    refusal = _refusal(pods, total) or (spreading if isinstance(spreading, Reason) else None)
    asks = not assigned(first) and refusal is None
    own = SubGroup(name, 0)
    if asks and _pod_set(first):
        own = SubGroup(name, 0, None, tuple(_pod_sets(objects, pods)))
    elif asks:
        own = _asked(objects, first, total or 0)
    return Group(
        key=Key(GROUP, "Workload", namespace, name),
        minimum=total or 1,
        created=created(record.metadata if record is not None else first.metadata),
        marks=_with_queue(objects, record, first),
        constraint=own.constraint,
        sub_groups=own.sub_groups,
        forbears=forbearing(record.metadata) if record is not None else "",
        refusal=refusal,
        member=SetMember("", spreading) if spreading and not isinstance(spreading, Reason) else None,
        labels=record.metadata.labels if record is not None else first.metadata.labels,
        part_names=_part_names(pods),
    )


def _part_names(pods: list[Pod]) -> PartNames:
    """Slices, the replicated jobs of a JobSet, which are its pod sets, and those of them that share a domain."""
    jobs = sorted({name for pod in pods if (name := _pod_set(pod))})
    shared = sorted({name for pod in pods if (name := pod.metadata.annotations.get(_SHARED, ""))})
    others = [(name, "replicated job") for name in jobs]
    others += [(f"podset-group-{name}", "pod set group") for name in shared]
    return PartNames("replicated job", "slice", "slice", tuple(others))


class _Rule(msgspec.Struct, frozen=True, rename="camel"):
    topology_key: str
    max_share_allowing_placement: str | int | float
    enforcement_mode: str = ""


class _Spreading(msgspec.Struct, frozen=True, rename="camel"):
    rules: tuple[_Rule, ...]
    workload_label_selectors: tuple[Requirement, ...] = ()


def _spreading(objects: Objects, pods: list[Pod]) -> tuple[SetRule, ...] | Reason:
    """How a gang stands apart from others that labels mean; why that cannot be read."""
    texts = {text for pod in pods if (text := pod.metadata.annotations.get(_SPREADING, "").strip())}
    if not texts or assigned(pods[0]):
        return ()
    if len(texts) > 1:
        return not_supported("several topology spreadings in one pod group", "its pods ask for different ones")
    try:
        found = msgspec.json.decode(texts.pop(), type=_Spreading)
    except msgspec.DecodeError as wrong:
        return _unreadable(f"it must be JSON with workloadLabelSelectors and rules: {wrong}")
    fault = _fault_of_spreading(found)
    if not fault and not any(pod.metadata.annotations.get(_REQUIRED) for pod in pods):
        fault = f"it needs {_REQUIRED}, which is missing"
    if fault:
        return _unreadable(fault)
    among = found.workload_label_selectors or _default_selector(pods[0])
    if not among:
        return ()  # without a selector it means the gangs of one LeaderWorkerSet, and this is none
    text = ", ".join(f"{entry.key}={'|'.join(entry.values)}" for entry in among)
    return tuple(_rule(objects, rule, text, among) for rule in found.rules)


def _rule(objects: Objects, rule: _Rule, text: str, among: tuple[Requirement, ...]) -> SetRule:
    """A rule about the gangs that labels select; `text` is what people call these."""
    hard = rule.enforcement_mode != "Preferred"
    level = rule.topology_key
    constraint = Constraint(hard, tier_name=level, kind=_kind(objects, level))
    return SetRule(text, constraint, share=_share(rule), among=among)


def _fault_of_spreading(found: _Spreading) -> str:
    """What is wrong with a readable spreading; "" where nothing is."""
    return _fault_of_rules(found.rules) or _fault_of_selectors(found.workload_label_selectors)


def _fault_of_rules(rules: tuple[_Rule, ...]) -> str:
    if not 1 <= len(rules) <= _TOO_MANY or len({rule.topology_key for rule in rules}) < len(rules):
        return "it must have one rule, or two with different topologyKeys"
    if not all(rule.topology_key for rule in rules):
        return "a rule has no topologyKey"
    if any(rule.enforcement_mode not in ("", "Required", "Preferred") for rule in rules):
        return "enforcementMode is neither Required nor Preferred"
    readable = all(0 < _share(rule) < WHOLE for rule in rules)
    if readable:
        return ""
    return "maxShareAllowingPlacement must be more than 0 and less than 1"


def _fault_of_selectors(selectors: tuple[Requirement, ...]) -> str:
    if len(selectors) > 1 or any(entry.operator != "In" or not entry.values for entry in selectors):
        return "workloadLabelSelectors must be one entry with the operator In and values"
    longest = max((len(entry.key) + sum(map(len, entry.values)) for entry in selectors), default=0)
    if longest > _LONGEST:
        return f"workloadLabelSelectors has more than {_LONGEST} characters"
    return ""


def _share(rule: _Rule) -> int:
    """A share in thousandths, rounded up; 0 where it cannot be read."""
    try:
        return milli(str(rule.max_share_allowing_placement))
    except ValueError:
        return 0


def _default_selector(pod: Pod) -> tuple[Requirement, ...]:
    """The other gangs of a pod's LeaderWorkerSet."""
    name = pod.metadata.labels.get(_OF_SET, "")
    if name:
        return (Requirement(key=_OF_SET, operator="In", values=(name,)),)
    return ()


def _unreadable(fault: str) -> Reason:
    return Reason("InvalidGroup", "pod", f"annotation {_SPREADING}: {fault}")


def _asked(objects: Objects, pod: Pod, number: int) -> SubGroup:
    """What a pod asks for all of its pod set, which has so many."""
    marks = pod.metadata.annotations
    own = _pod_set(pod)
    layers = _layers(marks)
    inner = (
        () if isinstance(layers, str) or not layers else _slices(objects, layers, 0, number, f"{own}-" if own else "")
    )
    return SubGroup(own, number, _constraint(objects, marks), tuple(inner))


def _pod_sets(objects: Objects, pods: list[Pod]) -> Iterator[SubGroup]:
    """The pod sets of a gang, each by one of its pods; those of one `podset-group-name` share their domain."""
    shared: dict[str, list[SubGroup]] = {}
    for pod in pods:
        asked = _asked(objects, pod, _of_owner(objects, pod) or 0)
        group = pod.metadata.annotations.get(_SHARED, "") if asked.constraint is not None else ""
        if group:
            shared.setdefault(group, []).append(asked)
        else:
            yield asked
    for name, parts in shared.items():
        inner = tuple(msgspec.structs.replace(part, constraint=None) for part in parts)
        yield SubGroup(f"podset-group-{name}", sum(part.minimum for part in parts), parts[0].constraint, inner)


def _with_queue(objects: Objects, record: Workload | None, pod: Pod) -> Mapping[str, str]:
    """The marks of a gang, with the times of its queues: where it says nothing of its end, or is content with less."""
    marks = group_marks(record.metadata) if record is not None else _marks_of_pod(pod)
    named = pod.metadata.labels.get(_QUEUE, "") or (record.spec.queue_name if record is not None else "")
    local = objects.every(LocalQueue).get(f"{pod.metadata.namespace or 'default'}/{named}") if named else None
    if local is None:
        return marks
    above = objects.every(ClusterQueue).get(local.spec.cluster_queue)
    marks_of_queues = [queue.metadata.annotations for queue in (local, above) if queue is not None]
    times = [queue_times(annotations) for annotations in marks_of_queues]
    own = marks.get(MINIMUM_RUN_TIME, pod.metadata.annotations.get(MINIMUM_RUN_TIME))
    stated = seconds(own) if own is not None else 0.0
    lasts = next((expected for _, expected in times if expected), 0.0)
    if lasts and EXPECTED_DURATION not in pod.metadata.annotations:
        marks = {EXPECTED_DURATION: f"{lasts:.0f}s", **marks}
    holds = [why for why in map(held, marks_of_queues) if why]
    if holds:
        marks = {HOLD: f"queue {named}: {holds[0]}", **marks}
    least = max(time for time, _ in times)
    if stated is None or least <= stated:
        return marks
    return {**marks, MINIMUM_RUN_TIME: f"{least:.0f}s"}


def _marks_of_pod(pod: Pod) -> dict[str, str]:
    """What a pod says for its gang, where no object says so; whether it may be evicted each pod says for itself."""
    return {key: value for key, value in group_marks(pod.metadata).items() if said_by_jobs(key)}


def _grouped(pod: Pod) -> bool:
    """Whether a pod is in a pod group that has a name."""
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
    return _of_owner(objects, pod)


def _of_owner(objects: Objects, pod: Pod) -> int | None:
    """How many pods the Job of a pod has at a time, and those beside it that are of its pod set; 1 without an owner."""
    owner = _owner(pod)
    if owner is None:
        return 1
    namespace = pod.metadata.namespace or "default"
    places = (namespace, "") if namespace == "default" else (namespace,)  # a manifest may leave the default out
    jobs = (objects.raw(Key("batch", "Job", place, owner.name)) for place in places if owner.kind == "Job")
    spec = next(filter(None, jobs), {}).get("spec")
    if not isinstance(spec, dict):
        return None
    at_once = spec.get("parallelism", 1)
    in_all = spec.get("completions")
    if not isinstance(at_once, int):
        return None
    beside = read_number(pod.metadata.labels.get(_REPLICAS, "")) if _pod_set(pod) else None
    return (min(at_once, in_all) if isinstance(in_all, int) else at_once) * (1 if beside is None else beside)


def _refusal(pods: list[Pod], total: int | None) -> Reason | None:
    first = pods[0]
    totals = {pod.metadata.annotations.get(_TOTAL, "") for pod in pods}
    if len(totals) > 1 and _grouped(first):
        return Reason("InvalidGroup", "pod", f"annotation {_TOTAL} is not the same on all of its pods")
    sets = [_pod_set(pod) for pod in pods]
    if len(pods) > 1 and not (all(sets) and len(set(sets)) == len(sets)):
        return not_supported("several topologies in one pod group", "its pods ask for different ones")
    refusal = _refusal_of_total(first, total)
    if refusal is not None or assigned(first):
        return refusal
    return _bad_levels(pods)


def _refusal_of_total(pod: Pod, total: int | None) -> Reason | None:
    """Why a gang of so many pods cannot be scheduled; None if it can. The pod is its first one."""
    if _grouped(pod) and (total is None or total < 1):
        return Reason("InvalidGroup", "pod", f"annotation {_TOTAL} does not say how many pods its group has")
    if total is None:
        owner = next(reference for reference in pod.metadata.owner_references if reference.controller)
        text = f"how many pods {owner.kind} {owner.name} makes is not known here; a pod group says so itself"
        return not_supported("a topology for the pods of an owner", text)
    if total > PODS:
        return Reason("InvalidGroup", "pod", f"{total} pods are more than the {PODS} that a gang may have")
    return None


def _bad_levels(pods: Iterable[Pod]) -> Reason | None:
    """Why the levels that a group's pods ask for cannot be read; None if all can."""
    for pod in pods:
        marks = pod.metadata.annotations
        if _REQUIRED in marks and not marks[_REQUIRED].strip():
            return Reason("InvalidGroup", "pod", f"annotation {_REQUIRED} names no level")
        fault = _layers(marks)
        if isinstance(fault, str):
            return Reason("InvalidGroup", "pod", fault)
    return None


def _layers(marks: Mapping[str, str]) -> tuple[tuple[str, int], ...] | str:
    """Levels of slices with their sizes, the outermost first; or what is wrong with what is asked for."""
    if bool(marks.get(_SLICE)) is not bool(marks.get(_SLICE_SIZE)):
        return f"{_SLICE} and {_SLICE_SIZE} go together, and one of them is missing"
    if marks.get(_SLICES):
        if not marks.get(_SLICE):
            return _listed(marks)
        return f"{_SLICES} and {_SLICE} exclude each other"
    if not marks.get(_SLICE):
        return ()
    size = read_number(marks[_SLICE_SIZE]) or 0
    if size > 0:
        return ((marks[_SLICE], size),)
    return f"{_SLICE_SIZE} is no positive number"


class _Layer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    topology: str
    size: int | str


def _listed(marks: Mapping[str, str]) -> tuple[tuple[str, int], ...] | str:
    """Slices that lie within each other."""
    try:
        listed = msgspec.json.decode(marks[_SLICES], type=list[_Layer])
    except msgspec.DecodeError:
        return f"{_SLICES} is no JSON list of objects with topology and size"
    layers = tuple((layer.topology, read_number(str(layer.size)) or 0) for layer in listed)
    sizes = [size for _, size in layers]
    if not layers or not all(level for level, _ in layers) or min(sizes) <= 0:
        return f"{_SLICES} must name a level and a positive size for each layer"
    uneven = next((i for i in range(len(sizes) - 1) if sizes[i] % sizes[i + 1]), None)
    if uneven is not None:
        return f"{_SLICES}: slices of {sizes[uneven]} pods do not consist of slices of {sizes[uneven + 1]}"
    return layers


def _slices(
    objects: Objects, layers: tuple[tuple[str, int], ...], first: int, last: int, of: str
) -> Iterator[SubGroup]:
    """The pods from an index up to another one in slices, each with the slices inside it."""
    (level, size), *inner = layers
    limit = Constraint(hard=True, tier_name=level, kind=_kind(objects, level))
    for start in range(first, last, size):
        end = min(start + size, last)
        if inner:
            parts = tuple(_slices(objects, tuple(inner), start, end, of))
            yield SubGroup(f"{of}pods-{start}-{end - 1}", end - start, limit, parts)
        else:
            yield SubGroup(f"{of}slice-{start // size}", end - start, limit)


def _constraint(objects: Objects, marks: Mapping[str, str]) -> Constraint | None:
    level = marks.get(_REQUIRED, "") or marks.get(_PREFERRED, "")
    if not level:
        return None
    preferred = marks.get(_PREFERRED, "") if marks.get(_REQUIRED) else ""
    return Constraint(
        bool(marks.get(_REQUIRED)),
        tier_name=level,
        kind=_kind(objects, level),
        preferred=preferred if preferred != level else "",
    )


def _kind(objects: Objects, level: str) -> str:
    """The tree that a level is in: of a Topology that some flavor names, before others; of several, the first."""
    found = [n for n, t in objects.every(Topology).items() if any(entry.node_label == level for entry in t.spec.levels)]
    used = {flavor.spec.topology_name for flavor in objects.every(ResourceFlavor).values()}
    first = next((name for name in found if name in used), next(iter(found), None))
    if first is not None:
        return tree_of(first)
    return f"Topology of {GROUP} with this level"


_KUEUES: Final = "a Workload is Kueue's: the pods of a gang say why they wait, and show how long"

LANGUAGE: Final = Language(
    name=GROUP,
    reads=(Topology, ResourceFlavor, Workload, LocalQueue, ClusterQueue, Unknown),  # owners are of any kind
    declares=(Workload,),
    named=named,
    keys=frozenset((_GROUP_NAME, _WORKLOAD, *_ASKS)),
    woven=_woven,
    sub_group=sub_group,
    trees=trees,
    tree_marks=_tree_marks,
    tree_reads=(Topology, ResourceFlavor),
    page="languages/kueue.md",
    admit=NotOurs("Kueue judges its Workloads; what pods say is judged with the pods"),
    status=NotOurs(_KUEUES),
    check="tierwise.audit.languages:kueue_groups",
    marks=NotOurs(_KUEUES),
)
