"""AppGroups and NetworkTopologies: which services call which, and the costs of the network between zones and regions.

Built by the codec. Both kinds exist in two forms, each with its own API group: the one that is released, and the one in
the proposal that introduced them ("KEP"). Both forms have the same attributes here; only the names of fields in
manifests differ. `dialects.network_aware.services` gives them their meaning, `admission` checks them.
"""

from typing import Final

from msgspec import field

from tierwise.api.core import Condition, Int, ObjectMeta, Record
from tierwise.api.quantity import Quantity

__all__ = [
    "KEP_GROUP",
    "REGION",
    "ZONE",
    "AppGroup",
    "AppGroupStatus",
    "KepAppGroup",
    "KepNetworkTopology",
    "KepNetworkTopologySpec",
    "KepWeight",
    "NetworkTopology",
    "NetworkTopologySpec",
    "NetworkTopologyStatus",
    "Weight",
    "WorkloadRef",
    "algorithm_of",
]

KEP_GROUP: Final = "scheduling.sigs.x-k8s.io"
REGION: Final = "topology.kubernetes.io/region"
ZONE: Final = "topology.kubernetes.io/zone"


class WorkloadRef(Record, frozen=True):
    """A workload of the group; pods belong to it whose label is its selector (its name, where it has none)."""

    kind: str = ""
    api_version: str = ""
    namespace: str = ""
    name: str = ""
    selector: str = ""

    @property
    def identity(self) -> str:
        return self.selector or self.name


class Dependency(Record, frozen=True):
    """A workload that another one calls, and what it asks of the network between them."""

    workload: WorkloadRef = WorkloadRef()
    min_bandwidth: Quantity | None = None
    max_network_cost: Int = 0


class AppGroupWorkload(Record, frozen=True):
    """A workload and those that it calls."""

    workload: WorkloadRef = WorkloadRef()
    dependencies: tuple[Dependency, ...] = ()


class AppGroupSpec(Record, frozen=True):
    """The dependency graph of an application, and how to order it."""

    num_members: Int | None = None
    topology_sorting_algorithm: str = ""
    workloads: tuple[AppGroupWorkload, ...] = ()


class OrderedWorkload(Record, frozen=True):
    """A workload's place in the order; 1 goes first."""

    workload: WorkloadRef = WorkloadRef()
    index: Int = 0


class AppGroupStatus(Record, frozen=True):
    """Counts and order that the AppGroup controller reported."""

    running_workloads: Int = 0
    schedule_start_time: str = ""
    topology_calculation_time: str = ""
    topology_order: tuple[OrderedWorkload, ...] = ()
    conditions: tuple[Condition, ...] = ()


class AppGroup(Record, frozen=True):
    """Services that call each other."""

    metadata: ObjectMeta
    spec: AppGroupSpec = AppGroupSpec()
    status: AppGroupStatus = AppGroupStatus()


class KepAppGroup(AppGroup, frozen=True):
    """An AppGroup in the group of the proposal, where workloads have no selector."""


class Cost(Record, frozen=True):
    """Cost of reaching a destination, and the bandwidth of the link there."""

    destination: str = ""
    network_cost: Int = 0
    bandwidth_capacity: Quantity | None = None
    bandwidth_allocated: Quantity | None = None
    bandwidth_allocatable: Quantity | None = None


class Origin(Record, frozen=True):
    """The costs from one zone or region."""

    origin: str = ""
    costs: tuple[Cost, ...] = field(default=(), name="costList")


class KepOrigin(Record, frozen=True):
    """Costs from one origin, in the proposal's spelling."""

    origin: str = ""
    costs: tuple[Cost, ...] = ()


class Costs(Record, frozen=True):
    """The costs between the values of one topology key."""

    topology_key: str = ""
    origins: tuple[Origin, ...] = field(default=(), name="originList")


class KepCosts(Record, frozen=True):
    """Costs of one topology key, in the proposal's spelling."""

    topology_key: str = ""
    origins: tuple[KepOrigin, ...] = field(default=(), name="originCosts")


class Weight(Record, frozen=True):
    """One set of costs, by name: "UserDefined" by hand, "NetperfCosts" from measurements."""

    name: str = ""
    keys: tuple[Costs, ...] = field(default=(), name="topologyList")


class KepWeight(Record, frozen=True):
    """One set of weights, in the proposal's spelling."""

    name: str = ""
    keys: tuple[KepCosts, ...] = field(default=(), name="costList")


class NetworkTopologySpec(Record, frozen=True):
    """Costs, and the ConfigMap that measurements are read from."""

    configmap_name: str = ""
    weights: tuple[Weight, ...] = ()

    @property
    def measurements(self) -> str:
        return self.configmap_name


class KepNetworkTopologySpec(Record, frozen=True):
    """Spec of a NetworkTopology in the proposal's spelling; its definition and its examples differ in one letter."""

    configmap_name: str = ""
    config_map_name: str = ""
    weights: tuple[KepWeight, ...] = ()

    @property
    def measurements(self) -> str:
        return self.configmap_name or self.config_map_name


class NetworkTopologyStatus(Record, frozen=True):
    """Counts that the NetworkTopology controller reported."""

    node_count: Int = 0
    weight_calculation_time: str = ""


class NetworkTopology(Record, frozen=True):
    """Costs of the network between zones and between regions."""

    metadata: ObjectMeta
    spec: NetworkTopologySpec = NetworkTopologySpec()
    status: NetworkTopologyStatus = NetworkTopologyStatus()


class KepNetworkTopology(Record, frozen=True):
    """A NetworkTopology in the group of the proposal."""

    metadata: ObjectMeta
    spec: KepNetworkTopologySpec = KepNetworkTopologySpec()
    status: NetworkTopologyStatus = NetworkTopologyStatus()


def algorithm_of(text: str) -> str:
    """The name of a sorting algorithm as AppGroups ship it, however it is spelled: "Reverse Tarjan" is ReverseTarjan.

    KEP and plugin spell it differently, so spaces, dashes, case and a closing "sort" do not count. "" for unknown ones.
    """
    plain = "".join(c for c in text.lower() if c.isalpha()).removesuffix("sort")
    return _ALGORITHMS.get(plain, "")


_ALGORITHMS: Final = {
    "kahn": "KahnSort",
    "tarjan": "TarjanSort",
    **{
        f"{prefix}{name}".lower(): f"{prefix}{name}"
        for prefix in ("Alternate", "Reverse")
        for name in ("Kahn", "Tarjan")
    },
}
