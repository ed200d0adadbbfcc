"""Check that gangs of the other languages run whole or not at all, and within their topology constraint.

Each language is read here independently, from its records and from labels and annotations of pods. A gang that was
whole and has lost pods since is no violation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec

from tierwise.api.codec import part
from tierwise.api.core import Node, Pod, read_number
from tierwise.api.grove import PodGang
from tierwise.api.kai import PodGroup as KaiGroup
from tierwise.api.kai import SubGroup as KaiSubGroup
from tierwise.api.kai import Topology
from tierwise.api.koordinator import PodGroup as KoordinatorGroup
from tierwise.api.kueue import Topology as KueueTopology
from tierwise.api.kueue import Workload as KueueWorkload
from tierwise.api.limits import DEPTH
from tierwise.api.scheduler_plugins import PodGroup as PluginGroup
from tierwise.api.volcano import PodGroup as VolcanoGroup
from tierwise.api.workload import CompositePodGroup as Composite
from tierwise.api.workload import PodGroup as KubernetesGroup
from tierwise.api.workload import Workload
from tierwise.audit.gangs import was_whole
from tierwise.audit.pods import Finding, by_part, counts, diminished, gang, group, holds
from tierwise.audit.topology import Fabrics
from tierwise.port import Key, Objects

__all__ = [
    "grove_gangs",
    "kai_groups",
    "kubernetes",
    "kueue_groups",
    "plugin_groups",
]

_STARTED = ("PodGroupInitiallyScheduled", "PodGroupScheduled")
_COMPOSITE_STARTED = "CompositePodGroupInitiallyScheduled"
_KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
_DEEPEST = 4
"""Levels of composites that the API allows."""


def plugin_groups(objects: Objects) -> Iterator[Finding]:
    """PodGroups of scheduling.x-k8s.io of which a part is placed."""
    fabrics = Fabrics(objects)
    inside = _standing(objects, lambda pod: pod.metadata.labels.get("scheduling.x-k8s.io/pod-group", ""))
    for path, record in objects.every(PluginGroup).items():
        by_status = record.status.phase in ("Running", "Finished", "Failed", "Unknown")
        if not was_whole(record.metadata, by_status=by_status):
            yield from _part(f"PodGroup {path}", inside.get(path, []), record.spec.min_member)
        yield from fabrics.findings(record.metadata, f"PodGroup {path}", inside.get(path, []))


def kubernetes(objects: Objects) -> Iterator[Finding]:
    """Groups of Kubernetes' own of which a part is placed, or whose pods are in several domains."""
    for check in (_pod_groups, _composites, _workloads):
        yield from check(objects)


def _pod_groups(objects: Objects) -> Iterator[Finding]:
    """PodGroups of scheduling.k8s.io of which a part is placed, or whose pods are in several domains."""
    fabrics = Fabrics(objects)
    inside = _standing(
        objects, lambda pod: pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group else ""
    )
    for path, record in objects.every(KubernetesGroup).items():
        policy = record.spec.scheduling_policy.gang
        placed = inside.get(path, [])
        by_status = any(c.type in _STARTED and c.status == "True" for c in record.status.conditions)
        if policy is not None and not was_whole(record.metadata, by_status=by_status):
            yield from _part(f"PodGroup {path}", placed, policy.min_count)
        yield from _far(objects, fabrics, f"PodGroup {path}", record, placed)


def _composites(objects: Objects) -> Iterator[Finding]:
    """Yield a finding for each CompositePodGroup with pods placed and fewer whole groups than minGroupCount, unless it
    or one around it has stood whole before; and one where its pods are in more domains than it allows. Composites
    inside composites count at every level.
    """
    fabrics = Fabrics(objects)
    inside = _standing(
        objects, lambda pod: pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group else ""
    )
    composites = objects.every(Composite)
    groups: dict[str, list[str]] = {}
    inner: dict[str, list[str]] = {}
    for by_parent, records in ((groups, objects.every(KubernetesGroup)), (inner, composites)):
        for path, record in records.items():
            parent = record.spec.parent_composite_pod_group_name
            if parent:
                by_parent.setdefault(f"{path.partition('/')[0]}/{parent}", []).append(path)

    def below(path: str, steps: int) -> tuple[list[Pod], int]:
        """The placed pods below a composite, and how many of its parts are whole."""
        pods = []
        complete = 0
        for name in groups.get(path, ()):
            gang = objects.every(KubernetesGroup)[name].spec.scheduling_policy.gang
            pods += inside.get(name, [])
            complete += len(inside.get(name, ())) >= (gang.min_count if gang is not None else 1)
        for name in inner.get(path, ()) if steps else ():
            gangs = composites[name].spec.scheduling_policy.gang
            inner_pods, parts = below(name, steps - 1)
            pods += inner_pods
            complete += parts >= (gangs.min_group_count if gangs is not None else 1)
        return pods, complete

    def started(path: str, steps: int) -> bool:
        """Whether a composite, or one around it, was whole once."""
        record = composites.get(path)
        if record is None:
            return False
        by_status = any((c.type, c.status) == (_COMPOSITE_STARTED, "True") for c in record.status.conditions)
        parent = record.spec.parent_composite_pod_group_name
        around = f"{path.partition('/')[0]}/{parent}"
        return was_whole(record.metadata, by_status=by_status) or (
            bool(parent and steps) and started(around, steps - 1)
        )

    for path, record in composites.items():
        pods, complete = below(path, _DEEPEST)
        policy = record.spec.scheduling_policy.gang
        if policy is not None and pods and complete < policy.min_group_count and not started(path, _DEEPEST):
            kinds = (("PodGroups", groups), ("CompositePodGroups", inner))
            words = " and ".join(word for word, by_parent in kinds if by_parent.get(path))
            text = f"{complete} of {policy.min_group_count} {words} are complete"
            yield Finding("part-of-gang", f"CompositePodGroup {path}", text)
        yield from _far(objects, fabrics, f"CompositePodGroup {path}", record, pods)


def _far(
    objects: Objects, fabrics: Fabrics, subject: str, record: KubernetesGroup | Composite, pods: list[Pod]
) -> Iterator[Finding]:
    """Pods of a group that are further apart than its constraints allow."""
    keys = [entry.key for entry in record.spec.scheduling_constraints.topology]
    for key in keys:
        yield from _apart(objects, subject, pods, key)
    yield from fabrics.findings(record.metadata, subject, pods, level=keys[0] if keys else "")


def _workloads(objects: Objects) -> Iterator[Finding]:
    """Yield a finding for each group of a Workload with a gang policy of which some pods, but fewer than minCount, are
    placed although at least minCount exist. These are the Workloads of the first version of scheduling.k8s.io, which
    pods name by workloadRef.
    """

    def named(pod: Pod) -> str:
        reference = pod.spec.workload_ref
        if reference is not None:
            return f"{reference.name}/{reference.pod_group}/{reference.pod_group_replica_key}"
        return ""

    inside = _standing(objects, named)
    every = _standing(objects, named, also_waiting=True)
    for path, pods in every.items():
        namespace, name, workload_name, _ = path.split("/", 3)
        record = objects.every(Workload).get(f"{namespace}/{name}")
        for entry in record.spec.pod_groups if record is not None else ():
            if (
                entry.name == workload_name
                and entry.policy.gang is not None
                and len(pods) >= entry.policy.gang.min_count
            ):
                yield from _part(f"Workload {path}", inside.get(path, []), entry.policy.gang.min_count)


def kai_groups(objects: Objects) -> Iterator[Finding]:
    """PodGroups of KAI's of which a part is placed, or whose pods are further apart than a level allows.

    Sub-groups that others name as their parent hold all the pods below them.
    """
    fabrics = Fabrics(objects)
    inside = _standing(objects, lambda pod: pod.metadata.annotations.get("pod-group-name", ""))
    topologies = objects.every(Topology)
    for path, record in objects.every(KaiGroup).items():
        spec = record.spec
        placed = inside.get(path, [])
        by_status = bool(record.metadata.annotations.get("kai.scheduler/last-start-timestamp"))
        was_complete = not placed or was_whole(record.metadata, by_status=by_status)
        listed = (*spec.sub_groups, *spec.subgroups)
        parents = {sub.name: sub.parent or "" for sub in listed}
        limits = [("", spec.topology_constraint)]
        limits += [(s.name, s.topology_constraint) for s in listed if s.topology_constraint is not None]
        if not was_complete and not listed:
            yield from _part(f"PodGroup {path}", placed, spec.min_member)
        for text in _lacking(record, placed) if listed and not was_complete else ():
            yield Finding("part-of-gang", f"PodGroup {path}", text)
        for name, constraint in limits:
            topology = topologies.get(constraint.topology)
            levels = [level.node_label for level in topology.spec.levels] if topology is not None else []
            if constraint.required_topology_level in levels:
                outer = levels[: levels.index(constraint.required_topology_level) + 1]
                whose = _part_of(f"PodGroup {path}", "sub-group", name)
                yield from _apart(objects, whose, _below(placed, name, parents), *outer)
        for name in ("", *(sub.name for sub in listed)):
            pods_below = _below(placed, name, parents) if name else placed
            whose = _part_of(f"PodGroup {path}", "sub-group", name)
            yield from fabrics.findings(record.metadata, whose, pods_below, sub_group=name)


def _lacking(record: KaiGroup, placed: list[Pod]) -> Iterator[str]:
    """Texts for missing parts of a group: pods of required sub-groups, or complete sub-groups among optional ones."""
    spec = record.spec
    listed = (*spec.sub_groups, *spec.subgroups)
    parents = {sub.name: sub.parent or "" for sub in listed}
    inside: dict[str, list[KaiSubGroup]] = {}
    for sub in listed:
        inside.setdefault(sub.parent or "", []).append(sub)

    def whole(name: str, minimum: int | None, least: int | None, steps: int) -> bool:
        parts = inside.get(name, []) if steps else []
        if not parts:
            return len(_below(placed, name, parents)) >= (1 if least is None else least)
        number = sum(whole(sub.name, sub.min_sub_group, sub.min_member, steps - 1) for sub in parts)
        return number >= (len(parts) if minimum is None else minimum)

    if whole("", spec.min_sub_group, spec.min_member, DEPTH):
        return
    if spec.min_sub_group is not None or any(sub.min_sub_group is not None for sub in listed):
        number = sum(whole(sub.name, sub.min_sub_group, sub.min_member, DEPTH) for sub in inside.get("", ()))
        minimum = len(inside.get("", ())) if spec.min_sub_group is None else spec.min_sub_group
        yield f"{number} of {minimum} sub-groups are complete"
        return
    for sub in listed:
        number = len(_below(placed, sub.name, parents))
        minimum = 1 if sub.min_member is None else sub.min_member
        if sub.name not in inside and number < minimum:
            yield f"{number} of {minimum} pods of sub-group {sub.name} are placed"


def grove_gangs(objects: Objects) -> Iterator[Finding]:
    """PodGangs of Grove's of which a part is placed, or whose pods are in several domains of a key that is required."""
    fabrics = Fabrics(objects)
    inside = _standing(objects, lambda pod: pod.metadata.labels.get("grove.io/podgang", ""))
    for path, record in objects.every(PodGang).items():
        spec = record.spec
        placed = inside.get(path, [])
        by_status = any((c.type, c.status) == ("Scheduled", "True") for c in record.status.conditions)
        cliques = [(pod.metadata.labels.get("grove.io/podclique", ""), pod) for pod in placed]
        of = {g.name: [pod for clique, pod in cliques if clique == g.name] for g in spec.podgroups}
        for pod_group in spec.podgroups if placed and not was_whole(record.metadata, by_status=by_status) else ():
            if len(of[pod_group.name]) < pod_group.min_replicas:
                placed_text = f"{len(of[pod_group.name])} of {pod_group.min_replicas} pods"
                text = f"{placed_text} of PodClique {pod_group.name} are placed"
                yield Finding("part-of-gang", f"PodGang {path}", text)
        limits = [("", "", placed, spec.topology_constraint)]
        limits += [("PodClique", g.name, of[g.name], g.topology_constraint) for g in spec.podgroups]
        for config in spec.topology_constraint_group_configs:
            together = [pod for name in config.pod_group_names for pod in of.get(name, ())]
            limits.append(("group of PodCliques", config.name, together, config.topology_constraint))
        for word, name, pods, constraint in limits:
            if constraint is not None and constraint.pack_constraint.required:
                whose = _part_of(f"PodGang {path}", word, name)
                yield from _apart(objects, whose, pods, constraint.pack_constraint.required)
        for name in ("", *of):
            whose = _part_of(f"PodGang {path}", "PodClique", name)
            yield from fabrics.findings(record.metadata, whose, of.get(name, placed), sub_group=name)


def kueue_groups(objects: Objects) -> Iterator[Finding]:
    """Gangs of Kueue's (pod groups, Workloads, owners) of which a part is placed, or that are further apart than asked.

    Where Kueue has chosen the nodes, it answers for them.
    """
    inside = _standing(objects, _in_kueue)
    every = _standing(objects, _in_kueue, also_waiting=True)
    for path, pods in every.items():
        total = _kueue_size(objects, path, pods[0])
        if not diminished(pods, total):
            yield from _part(f"pod group {path}", inside.get(path, []), total)
        if pods[0].metadata.labels.get("kueue.x-k8s.io/managed") == "true":
            continue
        sets: dict[tuple[str, str], list[Pod]] = {}
        for pod in inside.get(path, ()):
            sets.setdefault(_pod_set(pod), []).append(pod)
        for (word, name), mine in sorted(sets.items()):
            yield from _slices_apart(objects, _part_of(f"pod group {path}", word, name), mine)


def _slices_apart(objects: Objects, subject: str, pods: list[Pod]) -> Iterator[Finding]:
    """A pod set, or a slice of it, in several domains of a level that it requires."""
    listed = [[entry.node_label for entry in t.spec.levels] for t in objects.every(KueueTopology).values()]
    for level, size in _sliced(pods[0].metadata.annotations):
        levels = next((levels_listed for levels_listed in listed if level in levels_listed), None)
        slices: dict[int, list[Pod]] = {}
        for pod in pods if levels is not None else ():
            slices.setdefault(_index(pod) // size if size else 0, []).append(pod)
        for number, mine in sorted(slices.items()):
            of = f", slice {number} of {size}" if size else ""
            yield from _apart(objects, subject + of, mine, *(levels or [])[: (levels or []).index(level) + 1])


def _pod_set(pod: Pod) -> tuple[str, str]:
    """The replicated job of a pod of a JobSet, which is a pod set, or the group of pod sets that share a domain."""
    labels = pod.metadata.labels
    shared = pod.metadata.annotations.get("kueue.x-k8s.io/podset-group-name", "")
    parted = "jobset.sigs.k8s.io/replicatedjob-replicas" in labels and _KUEUE_GROUP in labels
    if not parted:
        return "", ""
    return ("pod set group", shared) if shared else ("replicated job", labels.get("kueue.x-k8s.io/podset", ""))


def _in_kueue(pod: Pod) -> str:
    """Name of the unit that a pod starts with: its pod group, its Workload, or its controller if it asks for a
    topology.
    """
    labels = pod.metadata.labels
    marks = pod.metadata.annotations
    names = (labels.get(_KUEUE_GROUP), marks.get(_KUEUE_GROUP), marks.get("kueue.x-k8s.io/workload"))
    name = next(filter(None, names), "")
    if name or not any(key.startswith("kueue.x-k8s.io/podset-") for key in marks):
        return name
    return next((f"{owner.kind}/{owner.name}" for owner in pod.metadata.owner_references if owner.controller), "")


def _kueue_size(objects: Objects, path: str, pod: Pod) -> int:
    """How many pods start together: as the group, the admitted Workload or the Job says; 0 where nothing does."""
    marks = pod.metadata.annotations
    record = objects.every(KueueWorkload).get(path)
    if _KUEUE_GROUP in pod.metadata.labels or _KUEUE_GROUP in marks:
        return read_number(marks.get("kueue.x-k8s.io/pod-group-total-count", "")) or 0
    if record is not None:
        admission = record.status.admission
        assigned = (
            {assignment.name: assignment.count for assignment in admission.pod_set_assignments}
            if admission is not None
            else {}
        )
        counts = ((assigned.get(pods.name), pods.count) for pods in record.spec.pod_sets)
        return sum(declared if count is None else count for count, declared in counts)
    namespace, _, owner = path.partition("/")
    kind, _, name = owner.partition("/")
    spec = part(objects.raw(Key("batch", "Job", namespace, name)), "spec") if kind == "Job" else {}
    counts_of = [spec[key] for key in ("parallelism", "completions") if key in spec]
    return min((count for count in counts_of if isinstance(count, int)), default=0)


def _sliced(marks: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """Yield (level, number of pods in a slice) for each level that Kueue's annotations require; 0 stands for all pods
    together. Preferred levels, and slices without a size above 0, are left out.
    """
    prefix = "kueue.x-k8s.io/podset-"
    if marks.get(f"{prefix}required-topology"):
        yield marks[f"{prefix}required-topology"], 0
    size = read_number(marks.get(f"{prefix}slice-size", "")) or 0
    if marks.get(f"{prefix}slice-required-topology") and size > 0:
        yield marks[f"{prefix}slice-required-topology"], size
    try:
        layers = msgspec.json.decode(marks.get(f"{prefix}slice-required-topology-constraints", "[]"))
    except msgspec.DecodeError:
        return
    for layer in layers if isinstance(layers, list) else ():
        number = read_number(str(layer.get("size", ""))) if isinstance(layer, dict) else None
        if number is not None and number > 0 and isinstance(layer.get("topology"), str):
            yield layer["topology"], number


def _index(pod: Pod) -> int:
    """The index of a pod in its group: as a label says, else the number at the end of its name."""
    labels = pod.metadata.labels
    marks = pod.metadata.annotations
    label_of_pod = marks.get("kueue.x-k8s.io/pod-group-pod-index-label", "")
    for key in (label_of_pod, "kueue.x-k8s.io/pod-group-pod-index", "batch.kubernetes.io/job-completion-index"):
        number = read_number(labels.get(key, "") or marks.get(key, "")) if key else None
        if number is not None:
            return number
    digits = pod.metadata.name[len(pod.metadata.name.rstrip("0123456789")) :]
    return int(digits) if digits else 0


def _below(pods: list[Pod], name: str, parents: dict[str, str]) -> list[Pod]:
    """The pods of a sub-group and of those below it; all of them where no name is given."""
    if not name:
        return pods
    pods_below = []
    for pod in pods:
        sub_group = pod.metadata.labels.get("kai.scheduler/subgroup-name", "")
        steps = 0
        while sub_group and sub_group != name and steps <= len(parents):
            sub_group = parents.get(sub_group, "")
            steps = steps + 1
        if sub_group == name:
            pods_below.append(pod)
    return pods_below


def _part(subject: str, placed: list[Pod], minimum: int) -> Iterator[Finding]:
    if 0 < len(placed) < minimum:
        yield Finding("part-of-gang", subject, f"{len(placed)} of {minimum} pods are placed{by_part(placed)}")


def _part_of(subject: str, word: str, name: str) -> str:
    """A part of a gang, or all of it where no name is given."""
    return f"{subject}, {word} {name}" if name else subject


def _apart(objects: Objects, subject: str, pods: list[Pod], *keys: str) -> Iterator[Finding]:
    """Pods that hold nodes with several values of these labels, from the outermost inwards, or with none."""
    nodes = objects.every(Node)
    placed_nodes = [nodes[pod.spec.node_name] for pod in pods if holds(pod) and pod.spec.node_name in nodes]
    values = {"/".join(node.metadata.labels.get(key, "") for key in keys) for node in placed_nodes}
    if len(values) > 1:
        text = f"its pods are in several domains of {keys[-1]}: {', '.join(sorted(values))}"
        yield Finding("topology", subject, text)


def _standing(objects: Objects, named: Callable[[Pod], str], *, also_waiting: bool = False) -> dict[str, list[Pod]]:
    """The placed pods, by namespace and what they name; groups of Volcano's and Koordinator's come first."""
    volcano_groups = objects.every(VolcanoGroup)
    second = objects.every(KoordinatorGroup)
    by_group: dict[str, list[Pod]] = {}
    for pod in objects.every(Pod).values():
        name = named(pod)
        if name and group(pod) not in volcano_groups and gang(pod) not in second and (also_waiting or counts(pod)):
            by_group.setdefault(f"{pod.metadata.namespace or 'default'}/{name}", []).append(pod)
    return by_group
