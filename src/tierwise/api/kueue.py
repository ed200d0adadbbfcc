"""Kueue's objects, as far as placing looks at them: topologies by node label, flavors, and the size of workloads.

Built by the codec; `dialects.kueue` gives them their meaning.
"""

from tierwise.api.core import Int, ObjectMeta, Record

__all__ = ["GROUP", "Level", "ResourceFlavor", "Topology", "TopologySpec", "Workload"]

GROUP = "kueue.x-k8s.io"


class Level(Record, frozen=True):
    """A level of a topology: the node label that names its domains."""

    node_label: str = ""


class TopologySpec(Record, frozen=True):
    """The levels, outermost first."""

    levels: tuple[Level, ...] = ()


class Topology(Record, frozen=True):
    """How the labels of nodes make a tree."""

    metadata: ObjectMeta
    spec: TopologySpec = TopologySpec()


class ResourceFlavorSpec(Record, frozen=True):
    """The nodes of a flavor, by labels, and the topology that they are in."""

    node_labels: dict[str, str] = {}
    topology_name: str = ""


class ResourceFlavor(Record, frozen=True):
    """A kind of nodes."""

    metadata: ObjectMeta
    spec: ResourceFlavorSpec = ResourceFlavorSpec()


class PodSet(Record, frozen=True):
    """Pods of one template."""

    name: str = ""
    count: Int = 1


class LocalQueueSpec(Record, frozen=True):
    """Where a queue of a namespace leads."""

    cluster_queue: str = ""


class LocalQueue(Record, frozen=True):
    """A queue that the pods of a namespace name."""

    metadata: ObjectMeta
    spec: LocalQueueSpec = LocalQueueSpec()


class ClusterQueue(Record, frozen=True):
    """Pool of quota that queues of namespaces share; Kueue enforces its quotas, tierwise reads only its annotations."""

    metadata: ObjectMeta


class WorkloadSpec(Record, frozen=True):
    """The pods of a workload."""

    pod_sets: tuple[PodSet, ...] = ()
    queue_name: str = ""


class PodSetAssignment(Record, frozen=True):
    """How many of them were admitted."""

    name: str = ""
    count: Int | None = None


class Admission(Record, frozen=True):
    """Resources that Kueue has reserved for a workload."""

    pod_set_assignments: tuple[PodSetAssignment, ...] = ()


class WorkloadStatus(Record, frozen=True):
    """Whether a workload was admitted."""

    admission: Admission | None = None


class Workload(Record, frozen=True):
    """Unit of admission of Kueue: the pods of a job, or a group of pods."""

    metadata: ObjectMeta
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()
