"""The status of the ClusterNetworkTopology: every domain that the labels of the nodes make, from the outside inwards.

Called by `controllers.run`. Writes `status.detailStatus` of the object named `default` and nothing else; layers that
form no chain leave the status as it is, and `validate` says what is wrong with them.
"""

from __future__ import annotations

from tierwise.api.codec import Raw, part
from tierwise.api.core import Node
from tierwise.api.koordinator import ClusterNetworkTopology
from tierwise.dialects.koordinator import network_topology
from tierwise.model.topology import ROOT, Topology
from tierwise.model.tree import build_tree
from tierwise.port import Effect, Objects, PatchStatus, key_of

__all__ = ["reconcile"]


def reconcile(objects: Objects, now: float) -> list[Effect]:
    """Bring the status of the network topology up to date."""
    record = network_topology.default_topology(objects.every(ClusterNetworkTopology))
    layers = network_topology.read_layers(record) if record is not None else None
    if record is None or layers is None or layers.fault:
        return []
    nodes = objects.every(Node)
    topology, _ = build_tree(network_topology.declare_layers(layers, nodes.values()), list(nodes), layers.tiers())
    details = [_detail(topology, layers, domain) for domain in range(len(topology))]
    key = key_of(record)
    if part(objects.raw(key), "status").get("detailStatus") == details:
        return []
    return [PatchStatus(key, {"detailStatus": details})]


def _detail(topology: Topology, layers: network_topology.Layers, domain: int) -> Raw:
    """The manifest entry of one domain: itself, its parent (left out for the root), the layer below, its children by
    name (left out on tier 1, where they are nodes) and its number of nodes.
    """
    tier = int(topology.tier[domain])
    detail: Raw = {"topologyInfo": _info(topology, layers, domain)}
    if domain != ROOT:
        detail["parentTopologyInfo"] = _info(topology, layers, int(topology.parent[domain]))
    detail["childTopologyLayer"] = _layer(layers, tier - 1)
    if tier > 1:
        detail["childTopologyNames"] = [topology.name[child] for child in topology.children[domain]]
    detail["nodeNum"] = _nodes(topology, layers, domain)
    return detail


def _info(topology: Topology, layers: network_topology.Layers, domain: int) -> Raw:
    name = "" if domain == ROOT else topology.name[domain]
    return {"topologyLayer": _layer(layers, int(topology.tier[domain])), "topologyName": name}


def _layer(layers: network_topology.Layers, tier: int) -> str:
    names = (layers.node, *(layer.name for layer in layers.above), network_topology.CLUSTER_LAYER)
    return names[tier]


def _nodes(topology: Topology, layers: network_topology.Layers, domain: int) -> int:
    """Nodes of the tree below a domain; those outside it hang on the root and are not counted."""
    inside = topology.children[ROOT] if domain == ROOT and layers.above else (domain,)
    return sum(int(topology.end[d] - topology.start[d]) for d in inside)
