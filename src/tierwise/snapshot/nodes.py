"""Where pods can stand: the nodes of a cluster in the order of its tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.api.core import Node, Taint
from tierwise.api.koordinator import ClusterNetworkTopology
from tierwise.api.natural import natural
from tierwise.api.quantity import amount
from tierwise.api.volcano import HyperNode
from tierwise.dialects.koordinator.network_topology import declare_layers, default_topology, layer_faults, read_layers
from tierwise.dialects.kubernetes.requests import FIRM_PREFIX, PORT_PREFIX
from tierwise.dialects.label_trees import Planned, plan
from tierwise.dialects.languages import TREES_READ, label_trees
from tierwise.dialects.volcano.hypernodes import declare
from tierwise.model.arrays import Ints, ranks
from tierwise.model.node import LabelTable, NodeTable
from tierwise.model.resources import POD_SLOTS, Axis, ceiling
from tierwise.model.snapshot import Fault
from tierwise.model.topology import HYPERNODES, LAYERS, AlternateTopology, Topology
from tierwise.model.tree import build_tree
from tierwise.port import Objects

__all__ = ["NodeIndex", "OrderedTopology", "node_resources", "node_table", "order_topology", "read_nodes"]


# Node records into columns, in the order of the topology's rows.


def node_resources(nodes: Sequence[Node]) -> set[str]:
    """Every resource that some node has."""
    names: set[str] = set()
    for node in nodes:
        names.update(node.status.allocatable or node.status.capacity)
    return names


def node_table(nodes: Sequence[Node], axis: Axis, most: int | None = None) -> NodeTable:
    """The table of these nodes, which stand in topology order already; no amount in it is more than `most`."""
    names = tuple(node.metadata.name for node in nodes)
    sets: dict[tuple[Taint, ...], int] = {}
    taint_set = np.array([sets.setdefault(node.spec.taints, len(sets)) for node in nodes], dtype=np.int32)
    images = tuple({name: image.size_bytes for image in n.status.images for name in image.names} for n in nodes)
    return NodeTable(
        names=names,
        row={name: i for i, name in enumerate(names)},
        rank=ranks(sorted(range(len(names)), key=lambda i: natural(names[i]))),
        allocatable=_allocatable(nodes, axis, ceiling(len(nodes)) if most is None else most),
        labels=LabelTable(names, [node.metadata.labels for node in nodes]),
        taints=tuple(sets),
        taint_set=taint_set,
        cordoned=np.array([node.spec.unschedulable for node in nodes], dtype=bool),
        ready=np.array([_ready(node) for node in nodes], dtype=bool),
        images=images if any(images) else (),
    )


def _allocatable(nodes: Sequence[Node], axis: Axis, most: int) -> Ints:
    """Amounts by resource and row.

    A node that states no pod limit has none; each node has every port once, and no end of what is firm.
    """
    result = np.zeros((len(axis), len(nodes)), dtype=np.int64)
    for name in axis.names:
        if name.startswith(PORT_PREFIX):
            result[axis.index[name]] = 1
        elif name.startswith(FIRM_PREFIX):
            result[axis.index[name]] = most
    for row, node in enumerate(nodes):
        given = node.status.allocatable or node.status.capacity
        for name, quantity in given.items():
            result[axis.index[name], row] = min(amount(name, quantity), most)
        if POD_SLOTS not in given:
            result[axis.index[POD_SLOTS], row] = most
    return result


def _ready(node: Node) -> bool:
    """A node that reports no Ready condition is taken to be ready."""
    return all(c.status == "True" for c in node.status.conditions if c.type == "Ready")


R = TypeVar("R")


class OrderedTopology(msgspec.Struct, frozen=True, eq=False):
    """The tree that rows follow, the order of the nodes in it, the kind that declares it, and further trees."""

    topology: Topology
    order: list[int]
    kind: str = HYPERNODES
    faults: tuple[Fault, ...] = ()
    alternate_topologies: dict[str, AlternateTopology] = {}


class NodeIndex(msgspec.Struct, frozen=True, eq=False):
    """Nodes by row, the trees over them, and what is wrong with these."""

    nodes: tuple[Node, ...]
    names: tuple[str, ...]
    resources: frozenset[str]  # that some node has
    topology: Topology
    faults: tuple[Fault, ...]
    kind: str = HYPERNODES
    alternate_topologies: dict[str, AlternateTopology] = {}


def read_nodes(objects: Objects, last: NodeIndex | None = None, at: Objects | None = None) -> NodeIndex:
    """The site of these objects; what has not changed since the last one, seen `at` earlier objects, is taken from it.

    Kubelets report every few minutes and controllers write statuses: that changes records, and no site.
    """
    records = objects.every(Node)
    if last is None or at is None or not _same_tree(objects, at):
        nodes = list(records.values())
        found = order_topology(objects, nodes)
        ordered = tuple(nodes[i] for i in found.order)
        names = tuple(node.metadata.name for node in ordered)
        resources = frozenset(node_resources(nodes))
        return NodeIndex(
            ordered, names, resources, found.topology, found.faults, found.kind, found.alternate_topologies
        )
    if objects.alike(at, Node) or _equal(records, at.every(Node), lambda node: (node.spec, node.status)):
        return last
    ordered = tuple(records[name] for name in last.names)
    return replace(last, nodes=ordered, resources=frozenset(node_resources(ordered)))


def order_topology(objects: Objects, nodes: Sequence[Node]) -> OrderedTopology:
    """The trees over these nodes.

    Rows follow that of the hyperNodes where there are any, else that of the layers, else the first that labels make.
    """
    names = [node.metadata.name for node in nodes]
    layered, hypernodes = default_topology(objects.every(ClusterNetworkTopology)), objects.every(HyperNode)
    trees: list[Planned] = []
    faults: tuple[Fault, ...] = ()
    if layered is not None:
        layers = read_layers(layered)
        trees.append(Planned(LAYERS, [] if layers.fault else declare_layers(layers, nodes), layers.tiers()))
        faults = tuple(layer_faults(layers, nodes))
    trees += (planned for tree in label_trees(objects) for planned in plan(tree, nodes))
    if hypernodes or not trees:
        kind, (topology, order) = HYPERNODES, build_tree(declare(hypernodes.values(), nodes), names)
    else:
        first = trees.pop(0)
        kind, (topology, order) = first.kind, build_tree(first.declared, names, first.tiers)
    ordered = [names[i] for i in order]
    alternate_topologies: dict[str, AlternateTopology] = {}
    for tree in trees:
        other, rows = build_tree(tree.declared, ordered, tree.tiers)
        alternate_topologies[tree.kind] = AlternateTopology(other, np.array(rows, dtype=np.int64))
    return OrderedTopology(topology, order, kind, faults, alternate_topologies)


def _same_tree(now: Objects, then: Objects) -> bool:
    if now.alike(then, Node, HyperNode, ClusterNetworkTopology, *TREES_READ):
        return True
    return (
        _equal(now.every(Node), then.every(Node), lambda node: node.metadata.labels)
        and _equal(now.every(HyperNode), then.every(HyperNode), _spec)
        and _equal(now.every(ClusterNetworkTopology), then.every(ClusterNetworkTopology), _spec)
        and label_trees(now) == label_trees(then)
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
