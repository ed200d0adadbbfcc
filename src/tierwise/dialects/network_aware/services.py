"""Reads AppGroups and NetworkTopologies into model types. Used by the snapshot and by the controllers of both kinds.

A pod belongs to an application by one label, and to a workload of it by another. The label has no namespace: it means
the AppGroup of the pod's own namespace, or else that of a namespace which the profile lists by hand. No other counts:
pods elsewhere that carry the labels of an application would decide where its own pods may run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeVar

import msgspec

from tierwise.api import network_aware as api
from tierwise.api.core import Labels, Node, Pod
from tierwise.api.natural import natural
from tierwise.api.quantity import whole
from tierwise.config.profile import Profile
from tierwise.model.services import AppGroup as ModelGroup
from tierwise.model.services import Dependency, Link, NetworkMap, Place, Service, Services, Weights

__all__ = [
    "GROUP_LABEL",
    "WORKLOAD_LABEL",
    "Homes",
    "app_groups",
    "dependencies",
    "group_homes",
    "link_of",
    "network_topologies",
    "placed_by_zone",
    "service_of",
    "services",
    "zone_of",
]

GROUP_LABEL: Final = "appgroup.diktyo.x-k8s.io"
WORKLOAD_LABEL: Final = "appgroup.diktyo.x-k8s.io.workload"
_ENDED: Final = ("Succeeded", "Failed")

A = TypeVar("A")
B = TypeVar("B")


class Homes(msgspec.Struct, frozen=True):
    """The namespaces that have an AppGroup of one name, and which of them counts for pods of the others."""

    own: frozenset[str] = frozenset()
    trusted: str = ""  # the first that the profile lists by hand; empty where it lists none of them


_NOWHERE: Final = Homes()


def group_homes(groups: Iterable[str], profile: Profile) -> dict[str, Homes]:
    """Where AppGroups are, by name; of those that plugins list, NetworkOverhead's namespaces come first."""
    listed: list[str] = []
    for plugin in ("NetworkOverhead", "TopologicalSort"):
        listed.extend(profile.listed(plugin, "namespaces"))
    by_name: dict[str, set[str]] = {}
    for key in groups:
        namespace, _, name = key.partition("/")
        by_name.setdefault(name, set()).add(namespace)
    return {
        name: Homes(frozenset(namespaces), next((namespace for namespace in listed if namespace in namespaces), ""))
        for name, namespaces in by_name.items()
    }


def service_of(labels: Labels, namespace: str, homes: Mapping[str, Homes]) -> Service | None:
    """The application and the workload that a pod's labels name; the application need not exist."""
    name = labels.get(GROUP_LABEL, "")
    if not name:
        return None
    home = homes.get(name, _NOWHERE)
    where = namespace if namespace in home.own else home.trusted or namespace
    return f"{where}/{name}", labels.get(WORKLOAD_LABEL, "")


def zone_of(node: Node) -> Place:
    """Region and zone of a node."""
    return node.metadata.labels.get(api.REGION, ""), node.metadata.labels.get(api.ZONE, "")


def app_groups(shipped: Mapping[str, api.AppGroup], proposed: Mapping[str, api.KepAppGroup]) -> dict[str, api.AppGroup]:
    """The AppGroups of both forms by namespace/name; where both have one, the shipped form counts."""
    return _merged(shipped, proposed)


def network_topologies(
    shipped: Mapping[str, api.NetworkTopology], proposed: Mapping[str, api.KepNetworkTopology]
) -> dict[str, api.NetworkTopology | api.KepNetworkTopology]:
    """The NetworkTopologies of both forms, likewise."""
    return _merged(shipped, proposed)


def services(
    groups: Mapping[str, api.AppGroup], topologies: Mapping[str, api.NetworkTopology | api.KepNetworkTopology]
) -> Services:
    """Application groups and network costs for a cycle."""
    return Services(
        groups={
            key: ModelGroup(
                key=key,
                dependencies=tuple(dependencies(record)),
                order={entry.workload.identity: entry.index for entry in record.status.topology_order},
            )
            for key, record in groups.items()
        },
        maps={
            key: NetworkMap(key, {weight.name: _weights(weight) for weight in record.spec.weights})
            for key, record in topologies.items()
        },
    )


def dependencies(group: api.AppGroup) -> Iterator[Dependency]:
    """Which service calls which, as listed."""
    for workload in group.spec.workloads:
        for dependency in workload.dependencies:
            yield Dependency(
                caller=workload.workload.identity,
                callee=dependency.workload.identity,
                max_cost=dependency.max_network_cost,
                bandwidth=max(whole(dependency.min_bandwidth), 0) if dependency.min_bandwidth is not None else 0,
            )


def placed_by_zone(
    pods: Iterable[Pod], nodes: Mapping[str, Node], homes: Mapping[str, Homes]
) -> dict[Service, dict[Place, int]]:
    """How many pods of each service have a node, by the position of that node; those that ended do not count."""
    counts: dict[Service, dict[Place, int]] = {}
    for pod in pods:
        service = service_of(pod.metadata.labels, pod.metadata.namespace or "default", homes)
        node = nodes.get(pod.spec.node_name) if pod.spec.node_name else None
        if service is not None and node is not None and pod.status.phase not in _ENDED:
            positions = counts.setdefault(service, {})
            positions[zone_of(node)] = positions.get(zone_of(node), 0) + 1
    return counts


def link_of(key: str, origin: str, destination: str) -> Link | None:
    """The link that an entry of a NetworkTopology is about; None for topology keys other than region and zone."""
    if key in (api.REGION, api.ZONE):
        return Link(key == api.REGION, origin, destination)
    return None


def _weights(weight: api.Weight | api.KepWeight) -> Weights:
    costs: dict[Link, int] = {}
    capacities: dict[Link, int] = {}
    for key in weight.keys:
        for origin in key.origins:
            for cost in origin.costs:
                link = link_of(key.topology_key, origin.origin, cost.destination)
                if link is None:
                    continue
                costs[link] = cost.network_cost
                if cost.bandwidth_capacity is not None:
                    capacities[link] = whole(cost.bandwidth_capacity)
    return Weights(costs, capacities)


def _merged(shipped: Mapping[str, A], proposed: Mapping[str, B]) -> dict[str, A | B]:
    keys = sorted({*shipped, *proposed}, key=natural)
    return {key: shipped[key] if key in shipped else proposed[key] for key in keys}
