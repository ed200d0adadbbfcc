"""KAI's objects: pod groups with nested sub-groups, topologies by node label, and queues, as their users write them.

Built by the codec; `dialects.kai` gives them their meaning, `admission` checks them.
"""

from tierwise.api.core import Int, ObjectMeta, Record
from tierwise.api.kueue import TopologySpec

__all__ = [
    "GROUP",
    "TOPOLOGY_GROUP",
    "PodGroup",
    "Queue",
    "QueueResource",
    "SubGroup",
    "Topology",
    "TopologyConstraint",
]

GROUP = "scheduling.run.ai"
TOPOLOGY_GROUP = "kai.scheduler"


class TopologyConstraint(Record, frozen=True):
    """How close the pods of a group must be and should be, by levels of a topology."""

    topology: str = ""
    required_topology_level: str = ""
    preferred_topology_level: str = ""


class SubGroup(Record, frozen=True):
    """A part of a group: so many pods, or so many sub-groups that name it as their parent."""

    name: str = ""
    parent: str | None = None
    min_member: Int | None = None
    min_sub_group: Int | None = None
    topology_constraint: TopologyConstraint | None = None


class PodGroupSpec(Record, frozen=True):
    """Conditions under which a gang may start."""

    min_member: Int = 0
    min_sub_group: Int | None = None
    queue: str = ""
    priority_class_name: str = ""
    preemptibility: str = ""
    topology_constraint: TopologyConstraint = TopologyConstraint()
    sub_groups: tuple[SubGroup, ...] = ()
    subgroups: tuple[SubGroup, ...] = ()  # as KAI's own documentation spells it


class PodGroup(Record, frozen=True):
    """Pods that start together or not at all. Its status is read and written raw."""

    metadata: ObjectMeta
    spec: PodGroupSpec = PodGroupSpec()


class Topology(Record, frozen=True):
    """How the labels of nodes make a tree; its fields are Kueue's."""

    metadata: ObjectMeta
    spec: TopologySpec = TopologySpec()


class QueueResource(Record, frozen=True):
    """Quota, weight and limit of a queue for one resource; -1 means unlimited. Thousandths of cpus, megabytes."""

    quota: float = 0
    limit: float = -1
    over_quota_weight: float = 1


class QueueResources(Record, frozen=True):
    """The resources that queues share."""

    gpu: QueueResource = QueueResource()
    cpu: QueueResource = QueueResource()
    memory: QueueResource = QueueResource()


class QueueSpec(Record, frozen=True):
    """Resources and parent of a queue."""

    parent_queue: str = ""
    priority: Int | None = None
    resources: QueueResources | None = None
    preempt_min_runtime: str | None = None  # a Go duration: how long pods run before their own queue may preempt them
    reclaim_min_runtime: str | None = None  # and before other queues may reclaim what they hold


class Queue(Record, frozen=True):
    """Who waits where."""

    metadata: ObjectMeta
    spec: QueueSpec = QueueSpec()
