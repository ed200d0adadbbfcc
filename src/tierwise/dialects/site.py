"""Where pods can stand: the nodes of a cluster in the order of its tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from tierwise.api.core import Node
from tierwise.api.koordinator import ClusterNetworkTopology
from tierwise.api.volcano import HyperNode
from tierwise.dialects.hypernodes import declare
from tierwise.dialects.layers import declare_layers, default_topology, layer_faults, read_layers
from tierwise.dialects.nodes import node_resources
from tierwise.model.snapshot import Fault
from tierwise.model.topology import Topology
from tierwise.model.tree import grow
from tierwise.port import Objects

__all__ = ["Site", "look", "tree"]

R = TypeVar("R")


class Site(msgspec.Struct, frozen=True, eq=False):
    """Nodes by row, the tree over them, and what is wrong with it."""

    nodes: tuple[Node, ...]
    names: tuple[str, ...]
    resources: frozenset[str]  # that some node has
    topology: Topology
    faults: tuple[Fault, ...]


def look(objects: Objects, last: Site | None = None, at: Objects | None = None) -> Site:
    """The site of these objects; what has not changed since the last one, seen `at` earlier objects, is taken from it.

    Kubelets report every few minutes and controllers write statuses: that changes records, and no site.
    """
    records = objects.every(Node)
    if last is None or at is None or not _same_tree(objects, at):
        nodes = list(records.values())
        topology, order, faults = tree(objects, nodes)
        ordered = tuple(nodes[i] for i in order)
        names = tuple(node.metadata.name for node in ordered)
        return Site(ordered, names, frozenset(node_resources(nodes)), topology, tuple(faults))
    if objects.alike(at, Node) or _equal(records, at.every(Node), lambda node: (node.spec, node.status)):
        return last
    ordered = tuple(records[name] for name in last.names)
    return replace(last, nodes=ordered, resources=frozenset(node_resources(ordered)))


def tree(objects: Objects, nodes: Sequence[Node]) -> tuple[Topology, list[int], list[Fault]]:
    """The tree over these nodes, their order in it, and what is wrong: from layers where a cluster has them, else
    from hyperNodes.
    """
    names = [node.metadata.name for node in nodes]
    layered = default_topology(objects.every(ClusterNetworkTopology))
    if layered is None:
        return (*grow(declare(objects.every(HyperNode).values(), nodes), names), [])
    layers = read_layers(layered)
    declared = [] if layers.fault else declare_layers(layers, nodes)
    return (*grow(declared, names, layers.tiers()), layer_faults(layers, nodes))


def _same_tree(now: Objects, then: Objects) -> bool:
    return now.alike(then, Node, HyperNode, ClusterNetworkTopology) or (
        _equal(now.every(Node), then.every(Node), lambda node: node.metadata.labels)
        and _equal(now.every(HyperNode), then.every(HyperNode), _spec)
        and _equal(now.every(ClusterNetworkTopology), then.every(ClusterNetworkTopology), _spec)
    )


def _spec(record: HyperNode | ClusterNetworkTopology) -> object:
    return record.spec


def _equal(now: Mapping[str, R], then: Mapping[str, R], of: Callable[[R], object]) -> bool:
    """Whether the same names stand for records that are the same in this respect."""
    if len(now) != len(then):
        return False
    for path, record in now.items():
        before = then.get(path)
        if before is not record and (before is None or of(before) != of(record)):
            return False
    return True
