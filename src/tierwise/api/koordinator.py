"""Koordinator's objects as users write them: network layers, gangs, and a gang's network requirements.

Built by the codec. Both spellings are here: that of the proposal (`hierarchy`, `networkTopologyAware`) and that of
Koordinator itself (`networkTopologySpec`, annotations). `dialects.koordinator` gives them their meaning, `admission`
checks them.
"""

from typing import Final

import msgspec

from tierwise.api.core import Int, ObjectMeta, Record, ResourceList

__all__ = ["GROUPS", "ClusterNetworkTopology", "GatherRule", "GatherSpec", "PodGroup", "gang_names", "gather_spec"]

GROUPS: Final = "gang.scheduling.koordinator.sh/groups"
"""On what declares a gang: the gangs that start together, as a JSON list of namespace/name."""


class TopologyLayer(Record, frozen=True):
    """A layer of the network: the node labels that name its domains, and the layer around it."""

    topology_layer: str = ""
    parent_topology_layer: str = ""
    label_key: str | tuple[str, ...] = ()


class HierarchyLayer(Record, frozen=True):
    """A layer of a ClusterNetworkTopology in the spelling of Koordinator's proposal."""

    layer_name: str = ""
    parent_topology_layer: str = ""
    label_key: str | tuple[str, ...] = ()


class ClusterNetworkTopologySpec(Record, frozen=True):
    """The layers, in either spelling and any order."""

    network_topology_spec: tuple[TopologyLayer, ...] = ()
    hierarchy: tuple[HierarchyLayer, ...] = ()


class ClusterNetworkTopology(Record, frozen=True):
    """How the labels of nodes make a tree. Its status is the controller's, which reads and writes it raw."""

    metadata: ObjectMeta
    spec: ClusterNetworkTopologySpec = ClusterNetworkTopologySpec()


class GatherRule(Record, frozen=True):
    """Rule for the domains of one layer."""

    layer: str = ""
    strategy: str = ""
    pod_count_multiple: Int | None = None


class ParallelRule(Record, frozen=True):
    """How wide a job is in one dimension of its parallelism."""

    parallel_strategy: str = ""
    parallelism: Int | None = None


class GatherSpec(Record, frozen=True):
    """Network requirements of a gang."""

    gather_strategy: tuple[GatherRule, ...] = ()
    parallel_model: tuple[ParallelRule, ...] = ()
    communication_mode: str = ""


class PodGroupSpec(Record, frozen=True):
    """Conditions under which a gang may start."""

    min_member: Int = 0
    schedule_timeout_seconds: Int | None = None
    min_resources: ResourceList | None = None
    network_topology_aware: GatherSpec | None = None


class PodGroupStatus(Record, frozen=True):
    """Reported state of a gang."""

    phase: str = ""
    scheduled: Int = 0
    running: Int = 0
    succeeded: Int = 0
    failed: Int = 0


class PodGroup(Record, frozen=True):
    """Pods that start together or not at all (scheduling.sigs.k8s.io, scheduling.koordinator.sh)."""

    metadata: ObjectMeta
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


def gather_spec(text: str) -> GatherSpec | str:
    """Network requirements in an annotation, or the error text if its JSON is not valid."""
    try:
        return msgspec.json.decode(text, type=GatherSpec)
    except msgspec.MsgspecError as error:
        return str(error)


def gang_names(text: str) -> tuple[str, ...] | str:
    """The gangs that an annotation lists as namespace/name, or why its JSON is no such list."""
    try:
        names = msgspec.json.decode(text, type=tuple[str, ...])
    except msgspec.MsgspecError as error:
        return str(error)
    wrong = next((name for name in names if name.count("/") != 1), None)
    if wrong is None:
        return names
    return f'"{wrong}" is not of the form namespace/name'
