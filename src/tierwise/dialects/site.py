"""Where pods can stand: the nodes of a cluster in the order of its tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.api.core import Node
from tierwise.api.koordinator import ClusterNetworkTopology
from tierwise.api.volcano import HyperNode
from tierwise.dialects.hypernodes import declare
from tierwise.dialects.layers import declare_layers, default_topology, layer_faults, read_layers
from tierwise.dialects.nodes import node_resources
from tierwise.model.snapshot import Fault
from tierwise.model.topology import HYPERNODES, LAYERS, Fabric, Topology
from tierwise.model.tree import grow
from tierwise.port import Objects

__all__ = ["Planted", "Site", "look", "plant"]

R = TypeVar("R")


class Planted(msgspec.Struct, frozen=True, eq=False):
    """The tree that rows follow, the order of the nodes in it, the kind that declares it, and further trees."""

    topology: Topology
    order: list[int]
    kind: str = HYPERNODES
    faults: tuple[Fault, ...] = ()
    fabrics: dict[str, Fabric] = {}


class Site(msgspec.Struct, frozen=True, eq=False):
    """Nodes by row, the trees over them, and what is wrong with these."""

    nodes: tuple[Node, ...]
    names: tuple[str, ...]
    resources: frozenset[str]  # that some node has
    topology: Topology
    faults: tuple[Fault, ...]
    kind: str = HYPERNODES
    fabrics: dict[str, Fabric] = {}


def look(objects: Objects, last: Site | None = None, at: Objects | None = None) -> Site:
    """The site of these objects; what has not changed since the last one, seen `at` earlier objects, is taken from it.

    Kubelets report every few minutes and controllers write statuses: that changes records, and no site.
    """
    records = objects.every(Node)
    if last is None or at is None or not _same_tree(objects, at):
        nodes = list(records.values())
        found = plant(objects, nodes)
        ordered = tuple(nodes[i] for i in found.order)
        names = tuple(node.metadata.name for node in ordered)
        resources = frozenset(node_resources(nodes))
        return Site(ordered, names, resources, found.topology, found.faults, found.kind, found.fabrics)
    if objects.alike(at, Node) or _equal(records, at.every(Node), lambda node: (node.spec, node.status)):
        return last
    ordered = tuple(records[name] for name in last.names)
    return replace(last, nodes=ordered, resources=frozenset(node_resources(ordered)))


def plant(objects: Objects, nodes: Sequence[Node]) -> Planted:
    """The trees over these nodes: rows follow that of the hyperNodes where there are any, else that of the layers."""
    names = [node.metadata.name for node in nodes]
    layered, hypernodes = default_topology(objects.every(ClusterNetworkTopology)), objects.every(HyperNode)
    if layered is None:
        return Planted(*grow(declare(hypernodes.values(), nodes), names))
    layers = read_layers(layered)
    declared = [] if layers.fault else declare_layers(layers, nodes)
    faults = tuple(layer_faults(layers, nodes))
    if not hypernodes:
        return Planted(*grow(declared, names, layers.tiers()), kind=LAYERS, faults=faults)
    topology, order = grow(declare(hypernodes.values(), nodes), names)
    other, rows = grow(declared, [names[i] for i in order], layers.tiers())
    return Planted(topology, order, faults=faults, fabrics={LAYERS: Fabric(other, np.array(rows, dtype=np.int64))})


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
