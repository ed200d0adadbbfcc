"""Checks of groups in the other languages (not Volcano's or Koordinator's): their fields, and the pods that refer to
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tierwise.admission.context import ClusterContext, Surroundings
from tierwise.admission.findings import Issue, at_least, at_most, error, one_of, warning
from tierwise.api import workload
from tierwise.api.core import Pod
from tierwise.api.grove import PodGang
from tierwise.api.kai import PodGroup as KaiGroup
from tierwise.api.kai import Queue as KaiQueue
from tierwise.api.kai import Topology, TopologyConstraint
from tierwise.api.kueue import GROUP as KUEUE
from tierwise.api.kueue import Level
from tierwise.api.limits import PODS
from tierwise.api.scheduler_plugins import PodGroup as PluginGroup
from tierwise.api.volcano import Queue
from tierwise.dialects.groups import Group
from tierwise.dialects.koordinator.gangs import gang_of
from tierwise.dialects.languages import Name, named_group
from tierwise.dialects.pod_marks import group_of
from tierwise.port import Key

__all__ = [
    "admit_grove",
    "admit_kai",
    "admit_kubernetes",
    "admit_plugin_group",
    "check_levels",
    "check_pod",
    "check_waiting",
]

_PLUGIN_PHASES = frozenset(
    {"", "Pending", "PreScheduling", "Scheduling", "Scheduled", "Running", "Unknown", "Finished", "Failed"}
)


_PREEMPTIBILITY = frozenset({"", "preemptible", "non-preemptible"})
_PREEMPTION = frozenset({"", "Never", "PreemptLowerPriority"})


def check_pod(pod: Pod, declared: Mapping[Name, Group]) -> Iterator[Issue]:
    """Issues of what a pod says of its group: one that does not exist, or that waits."""
    name = named_group(pod)
    if name is None:
        return
    counts = group_of(pod) or gang_of(pod)
    if not counts and name not in declared:
        yield warning("metadata", f"the group {name[1]} of {name[0]} does not exist: the pod waits for it")
    elif not counts and name[0] == KUEUE:  # others have an object that is told
        yield from check_waiting(declared[name], "metadata")


def check_waiting(group: Group | None, path: str = "spec") -> Iterator[Issue]:
    """A warning where a group has to wait whatever room there is."""
    if group is not None and group.refusal is not None:
        yield warning(path, f"its pods will wait ({group.refusal.code}): {group.refusal.text}")


def admit_kubernetes(
    record: workload.PodGroup | workload.CompositePodGroup | workload.Workload, key: Key, around: Surroundings
) -> Iterator[Issue]:
    """Issues of a group of Kubernetes' own."""
    if isinstance(record, workload.Workload):
        for index, group in enumerate(record.spec.pod_groups):
            yield from _check_policy(f"spec.podGroups[{index}].policy", group.policy)
        return
    yield from _check_policy("spec.schedulingPolicy", record.spec.scheduling_policy)
    if isinstance(record, workload.PodGroup) and record.spec.scheduling_policy.gang is not None:
        yield from at_most("spec.schedulingPolicy.gang.minCount", record.spec.scheduling_policy.gang.min_count, PODS)
    yield from _check_shared(record.spec, around.cluster)
    if isinstance(record, workload.PodGroup) and isinstance(record.spec.disruption_mode, str):
        yield from one_of("spec.disruptionMode", record.spec.disruption_mode, frozenset({"Pod", "PodGroup"}))


def _check_policy(path: str, policy: workload.SchedulingPolicy | workload.CompositePolicy) -> Iterator[Issue]:
    if (policy.basic is None) is (policy.gang is None):
        yield error(path, "exactly one of basic and gang must be set")
    if isinstance(policy.gang, workload.GangPolicy):
        yield from at_least(f"{path}.gang.minCount", policy.gang.min_count, 1)
    elif policy.gang is not None:
        yield from at_least(f"{path}.gang.minGroupCount", policy.gang.min_group_count, 1)


def _check_shared(
    spec: workload.PodGroupSpec | workload.CompositePodGroupSpec, context: ClusterContext
) -> Iterator[Issue]:
    topology = spec.scheduling_constraints.topology
    if len(topology) > 1:
        yield error("spec.schedulingConstraints.topology", f"{len(topology)} constraints are more than the one allowed")
    for index, entry in enumerate(topology):
        if not entry.key:
            yield error(f"spec.schedulingConstraints.topology[{index}].key", "the key is empty")
    mode = spec.disruption_mode
    if isinstance(mode, workload.DisruptionMode) and (mode.single is None) is (mode.all is None):
        yield error("spec.disruptionMode", "exactly one of single and all must be set")
    yield from one_of("spec.preemptionPolicy", spec.preemption_policy, _PREEMPTION)
    yield from context.priority_class("spec.priorityClassName", spec.priority_class_name)


def admit_kai(record: KaiGroup, key: Key, around: Surroundings) -> Iterator[Issue]:
    """Issues of a PodGroup of KAI's."""
    spec = record.spec
    context = around.cluster
    topologies = around.objects.every(Topology)
    queues = {"default", *around.objects.every(KaiQueue), *around.objects.every(Queue)}
    yield from at_least("spec.minMember", spec.min_member, 0)
    yield from at_most("spec.minMember", spec.min_member, PODS)
    yield from at_least("spec.minSubGroup", spec.min_sub_group, 0)
    yield from one_of("spec.preemptibility", spec.preemptibility, _PREEMPTIBILITY)
    yield from context.priority_class("spec.priorityClassName", spec.priority_class_name)
    if spec.queue and spec.queue not in queues:
        yield warning("spec.queue", f'queue "{spec.queue}" does not exist')
    yield from _check_levels("spec.topologyConstraint", spec.topology_constraint, topologies)
    if spec.subgroups:
        yield warning("spec.subgroups", "an API server drops this field, which is spelled subGroups")
    for index, sub in enumerate(spec.sub_groups):
        path = f"spec.subGroups[{index}]"
        yield from at_least(f"{path}.minMember", sub.min_member, 0)
        yield from at_least(f"{path}.minSubGroup", sub.min_sub_group, 0)
        if not sub.name:
            yield error(f"{path}.name", "the name is empty")
        if sub.topology_constraint is not None:
            yield from _check_levels(f"{path}.topologyConstraint", sub.topology_constraint, topologies)


def _check_levels(path: str, constraint: TopologyConstraint, topologies: Mapping[str, Topology]) -> Iterator[Issue]:
    """Warnings of a topology, or a level of it, that does not exist; of a preference outside what is required."""
    levels_asked = {
        "requiredTopologyLevel": constraint.required_topology_level,
        "preferredTopologyLevel": constraint.preferred_topology_level,
    }
    if not any(levels_asked.values()):
        return
    topology = topologies.get(constraint.topology)
    if topology is None:
        yield warning(f"{path}.topology", f'Topology "{constraint.topology}" does not exist')
        return
    levels = [level.node_label for level in topology.spec.levels]
    for field, level in levels_asked.items():
        if level and level not in levels:
            yield warning(f"{path}.{field}", f'"{level}" is no level of Topology {constraint.topology}')


def admit_grove(record: PodGang, key: Key, around: Surroundings) -> Iterator[Issue]:
    """Issues of a PodGang of Grove's."""
    names = [group.name for group in record.spec.podgroups]
    if not names:
        yield error("spec.podgroups", "at least one is needed")
    for index, group in enumerate(record.spec.podgroups):
        yield from at_least(f"spec.podgroups[{index}].minReplicas", group.min_replicas, 0)
        if names.count(group.name) > 1:
            yield error(f"spec.podgroups[{index}].name", f'there are two PodCliques of the name "{group.name}"')
    for index, config in enumerate(record.spec.topology_constraint_group_configs):
        for name in config.pod_group_names:
            if name not in names:
                path = f"spec.topologyConstraintGroupConfigs[{index}].podGroupNames"
                yield warning(path, f'there is no PodClique of the name "{name}"')
    yield from around.cluster.priority_class("spec.priorityClassName", record.spec.priority_class_name)


def check_levels(levels: Sequence[Level]) -> Iterator[Issue]:
    """Issues of the levels of a Topology, KAI's or Kueue's."""
    if not levels:
        yield error("spec.levels", "no level is listed")
    seen: set[str] = set()
    for index, level in enumerate(levels):
        if not level.node_label or level.node_label in seen:
            text = f'"{level.node_label}" is listed twice' if level.node_label else "the label is empty"
            yield error(f"spec.levels[{index}].nodeLabel", text)
        seen.add(level.node_label)


def admit_plugin_group(record: PluginGroup, key: Key, around: Surroundings) -> Iterator[Issue]:
    """Issues of a PodGroup of scheduling.x-k8s.io."""
    spec = record.spec
    yield from at_least("spec.minMember", spec.min_member, 1)
    yield from at_most("spec.minMember", spec.min_member, PODS)
    yield from at_least("spec.scheduleTimeoutSeconds", spec.schedule_timeout_seconds, 0)
    yield from one_of("status.phase", record.status.phase, _PLUGIN_PHASES)
