"""Kubernetes' own groups (scheduling.k8s.io): Workload, PodGroup and CompositePodGroup, in every version there was.

Kubernetes 1.35 has Workloads alone (v1alpha1), 1.36 PodGroups besides (v1alpha2), 1.37 both in v1beta1 and composites
in v1alpha3. One record holds what the versions of a kind say. Built by the codec;
`dialects.kubernetes.pod_groups` gives it its meaning.
"""

from tierwise.api.core import Condition, Int, ObjectMeta, Record

__all__ = [
    "GROUP",
    "CompositePodGroup",
    "CompositePodGroupSpec",
    "CompositePolicy",
    "DisruptionMode",
    "PodGroup",
    "PodGroupSpec",
    "SchedulingConstraints",
    "SchedulingPolicy",
    "Workload",
]

GROUP = "scheduling.k8s.io"


class Nothing(Record, frozen=True):
    """A choice that says nothing more than that it was made."""


class GangPolicy(Record, frozen=True):
    """All or nothing."""

    min_count: Int = 0


class SchedulingPolicy(Record, frozen=True):
    """Whether the pods of a group start together, or each when it can."""

    basic: Nothing | None = None
    gang: GangPolicy | None = None


class CompositeGangPolicy(Record, frozen=True):
    """So many groups or nothing."""

    min_group_count: Int = 0


class CompositePolicy(Record, frozen=True):
    """Whether the groups of a CompositePodGroup start together, or each when it can."""

    basic: Nothing | None = None
    gang: CompositeGangPolicy | None = None


class TopologyConstraint(Record, frozen=True):
    """All pods on nodes with one value of this label."""

    key: str = ""


class SchedulingConstraints(Record, frozen=True):
    """Where the pods of a group may run."""

    topology: tuple[TopologyConstraint, ...] = ()


class DisruptionMode(Record, frozen=True):
    """Whether a group is disrupted pod by pod, or as a whole."""

    single: Nothing | None = None
    all: Nothing | None = None


class WorkloadRef(Record, frozen=True):
    """The template that a group was made from."""

    workload_name: str = ""
    template_name: str = ""


class GroupResourceClaim(Record, frozen=True):
    """A claim that the pods of a group share."""

    name: str = ""


class PodGroupSpec(Record, frozen=True):
    """Conditions under which a group may start; v1alpha2 writes the disruption mode as a word."""

    parent_composite_pod_group_name: str = ""
    workload_ref: WorkloadRef | None = None
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints = SchedulingConstraints()
    resource_claims: tuple[GroupResourceClaim, ...] = ()
    disruption_mode: str | DisruptionMode | None = None
    priority_class_name: str = ""
    priority: Int | None = None
    preemption_policy: str = ""


class GroupStatus(Record, frozen=True):
    """Reported state of a group."""

    conditions: tuple[Condition, ...] = ()


class PodGroup(Record, frozen=True):
    """Pods that start together."""

    metadata: ObjectMeta
    spec: PodGroupSpec = PodGroupSpec()
    status: GroupStatus = GroupStatus()


class CompositePodGroupSpec(Record, frozen=True):
    """Conditions under which a group of groups may start."""

    parent_composite_pod_group_name: str = ""
    workload_ref: WorkloadRef | None = None
    scheduling_policy: CompositePolicy = CompositePolicy()
    scheduling_constraints: SchedulingConstraints = SchedulingConstraints()
    disruption_mode: DisruptionMode | None = None
    priority_class_name: str = ""
    priority: Int | None = None
    preemption_policy: str = ""


class CompositePodGroup(Record, frozen=True):
    """Groups that start together."""

    metadata: ObjectMeta
    spec: CompositePodGroupSpec = CompositePodGroupSpec()
    status: GroupStatus = GroupStatus()


class WorkloadPodGroup(Record, frozen=True):
    """A group as v1alpha1 has it, within its Workload."""

    name: str = ""
    policy: SchedulingPolicy = SchedulingPolicy()


class WorkloadSpec(Record, frozen=True):
    """The groups of a workload in v1alpha1; later versions hold templates that controllers make groups of."""

    pod_groups: tuple[WorkloadPodGroup, ...] = ()


class Workload(Record, frozen=True):
    """Groups, or templates of groups."""

    metadata: ObjectMeta
    spec: WorkloadSpec = WorkloadSpec()
