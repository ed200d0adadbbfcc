"""The nodes of a cluster in tree order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from tierwise.api.core import Node, ResourceList, Taint
from tierwise.api.fabric import fabric_of
from tierwise.api.koordinator import ClusterNetworkTopology
from tierwise.api.natural import natural
from tierwise.api.quantity import amount
from tierwise.api.volcano import HyperNode
from tierwise.dialects.koordinator.network_topology import declare_layers, default_topology, layer_faults, read_layers
from tierwise.dialects.kubernetes.requests import FIRM_PREFIX, PORT_PREFIX
from tierwise.dialects.label_trees import Planned, plan
from tierwise.dialects.languages import TREES_READ, label_trees, tree_aliases
from tierwise.dialects.volcano.hypernodes import by_fabric, declare
from tierwise.model.arrays import Ints, ranks
from tierwise.model.node import LabelTable, NodeTable
from tierwise.model.resources import POD_SLOTS, Axis, ceiling
from tierwise.model.snapshot import Fault
from tierwise.model.topology import HYPERNODES, LAYERS, AlternateTopology, Topology, fabric_kind
from tierwise.model.tree import build_tree
from tierwise.port import Objects

__all__ = ["NodeIndex", "OrderedTopology", "node_resources", "node_table", "order_topology", "read_nodes", "renewed"]


# Node records into columns, in the order of the topology's rows.


def node_resources(nodes: Sequence[Node]) -> set[str]:
    """Every resource that some node has."""
    names: set[str] = set()
    for node in nodes:
        names.update(_amounts(node))
    return names


def _amounts(node: Node) -> ResourceList:
    return node.status.allocatable or node.status.capacity


def node_table(nodes: Sequence[Node], axis: Axis, most: int | None = None, conditions: Sequence[str] = ()) -> NodeTable:
    """The table of these nodes, which stand in topology order already; no amount in it is more than `most`.

    Nodes with one of the `conditions` are unhealthy: a type, which is wrong where it is True, or `Type=Status`.
    """
    names = tuple(node.metadata.name for node in nodes)
    taints, taint_set = _taints(nodes)
    images = tuple(_images(node) for node in nodes)
    return NodeTable(
        names=names,
        row={name: i for i, name in enumerate(names)},
        rank=ranks(sorted(range(len(names)), key=lambda i: natural(names[i]))),
        allocatable=_allocatable(nodes, axis, ceiling(len(nodes)) if most is None else most),
        labels=LabelTable(names, [node.metadata.labels for node in nodes]),
        taints=taints,
        taint_set=taint_set,
        cordoned=np.array([node.spec.unschedulable for node in nodes], dtype=bool),
        ready=np.array([_ready(node) for node in nodes], dtype=bool),
        unhealthy=_unhealthy(enumerate(nodes), conditions),
        images=images if any(images) else (),
    )


def renewed(
    table: NodeTable, nodes: Sequence[Node], rows: list[int], axis: Axis, most: int, conditions: Sequence[str] = ()
) -> NodeTable:
    """The table with these rows read anew; names and labels are as they were."""
    changed = [nodes[row] for row in rows]
    allocatable, cordoned, ready = table.allocatable.copy(), table.cordoned.copy(), table.ready.copy()
    allocatable[:, rows] = _allocatable(changed, axis, most)
    cordoned[rows] = [node.spec.unschedulable for node in changed]
    ready[rows] = [_ready(node) for node in changed]
    taints, taint_set = table.taints, table.taint_set
    if any(taints[taint_set[row]] != nodes[row].spec.taints for row in rows):
        taints, taint_set = _taints(nodes)
    images: Sequence[dict[str, int]] = table.images
    if table.images or any(node.status.images for node in changed):
        images = list(table.images or ({} for _ in nodes))
        for row in rows:
            images[row] = _images(nodes[row])
    return replace(
        table,
        allocatable=allocatable,
        taints=taints,
        taint_set=taint_set,
        cordoned=cordoned,
        ready=ready,
        unhealthy=_unhealthy(((row, nodes[row]) for row in sorted({*table.unhealthy, *rows})), conditions),
        images=tuple(images) if any(images) else (),
    )


def _taints(nodes: Sequence[Node]) -> tuple[tuple[tuple[Taint, ...], ...], NDArray[np.int32]]:
    """The distinct sets of taints, and which of them each node has."""
    sets: dict[tuple[Taint, ...], int] = {}
    taint_set = np.array([sets.setdefault(node.spec.taints, len(sets)) for node in nodes], dtype=np.int32)
    return tuple(sets), taint_set


def _images(node: Node) -> dict[str, int]:
    return {name: image.size_bytes for image in node.status.images for name in image.names}


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
    known: dict[tuple[str, str | int | float], int] = {}  # nodes are of few kinds
    for row, node in enumerate(nodes):
        given = _amounts(node)
        for entry in given.items():
            if entry not in known:
                known[entry] = min(amount(*entry), most)
            result[axis.index[entry[0]], row] = known[entry]
        if POD_SLOTS not in given:
            result[axis.index[POD_SLOTS], row] = most
    return result


def _ready(node: Node) -> bool:
    """A node that reports no Ready condition is taken to be ready."""
    return all(c.status == "True" for c in node.status.conditions if c.type == "Ready")


def _unhealthy(nodes: Iterable[tuple[int, Node]], conditions: Sequence[str]) -> dict[int, str]:
    """The first of the listed conditions that each of these nodes has, by row."""
    return {row: found for row, node in nodes if (found := _wrong(node, conditions))} if conditions else {}


def _wrong(node: Node, conditions: Sequence[str]) -> str:
    """The first of the listed conditions that a node has; "" where it has none."""
    present = {f"{condition.type}={condition.status}" for condition in node.status.conditions}
    listed = (text if "=" in text else f"{text}=True" for text in conditions)
    return next((text for text in listed if text in present), "")


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
    moved: list[int] = []  # rows that differ from those of the index that it was made from


def read_nodes(
    objects: Objects,
    last: NodeIndex | None = None,
    at: Objects | None = None,
    *,
    follow: str = "",
    conditions: Sequence[str] = (),
) -> NodeIndex:
    """The site of these objects; what has not changed since the last one, seen `at` earlier objects, is taken from it.

    Kubelets report every few minutes and controllers write statuses: that changes records, and no site. Rows `follow`
    the tree of a kind where one is named; `conditions` are those that make a node unhealthy.
    """
    records = objects.every(Node)
    changed = objects.changes(at, Node) if last is not None and at is not None else []
    if last is None or at is None or not _same_tree(objects, at, changed):
        nodes = list(records.values())
        found = order_topology(objects, nodes, follow)
        ordered = tuple(nodes[i] for i in found.order)
        names = tuple(node.metadata.name for node in ordered)
        resources = frozenset(node_resources(nodes))
        return NodeIndex(
            ordered, names, resources, found.topology, found.faults, found.kind, found.alternate_topologies
        )
    before = at.every(Node)
    moved = [name for name in changed if _read(records[name], conditions) != _read(before[name], conditions)]
    if not moved:
        return last
    row = {name: i for i, name in enumerate(last.names)}
    rows, current = [row[name] for name in moved], list(last.nodes)
    for i, name in zip(rows, moved, strict=True):
        current[i] = records[name]
    resources = last.resources
    if any(_amounts(records[name]).keys() != _amounts(before[name]).keys() for name in moved):
        resources = frozenset(node_resources(current))
    return replace(last, nodes=tuple(current), resources=resources, moved=rows)


def _read(node: Node, conditions: Sequence[str]) -> object:
    """All that a table holds of a node, but for its labels."""
    health = _ready(node), _wrong(node, conditions) if conditions else ""
    return node.spec.taints, node.spec.unschedulable, _amounts(node), node.status.images, health


def order_topology(objects: Objects, nodes: Sequence[Node], follow: str = "") -> OrderedTopology:
    """The trees over these nodes.

    Rows `follow` the tree of a kind where it is named and exists; else that of the hyperNodes without a fabric where
    there are any, else that of the layers, of the first fabric, of the first that labels make.
    """
    names = [node.metadata.name for node in nodes]
    layered = default_topology(objects.every(ClusterNetworkTopology))
    follow = tree_aliases(objects).get(follow, follow)
    fabrics = by_fabric(objects.every(HyperNode).values())
    hypernodes = fabrics.pop("", [])
    trees: list[Planned] = []
    faults: tuple[Fault, ...] = ()
    if layered is not None:
        layers = read_layers(layered)
        trees.append(Planned(LAYERS, [] if layers.fault else declare_layers(layers, nodes), layers.tiers()))
        faults = tuple(layer_faults(layers, nodes))
    trees += (Planned(fabric_kind(name), declare(members, nodes), {}) for name, members in fabrics.items())
    trees += (planned for tree in label_trees(objects) for planned in plan(tree, nodes))
    if hypernodes or not trees:
        trees.insert(0, Planned(HYPERNODES, declare(hypernodes, nodes), {}))
    first = trees.pop(next((i for i, tree in enumerate(trees) if tree.kind == follow), 0))
    topology, order = build_tree(first.declared, names, first.tiers)
    ordered = [names[i] for i in order]
    alternate_topologies: dict[str, AlternateTopology] = {}
    for tree in trees:
        other, rows = build_tree(tree.declared, ordered, tree.tiers)
        alternate_topologies[tree.kind] = AlternateTopology(other, np.array(rows, dtype=np.int64))
    return OrderedTopology(topology, order, first.kind, faults, alternate_topologies)


def _same_tree(now: Objects, then: Objects, changed: Sequence[str]) -> bool:
    """Whether names, labels and declarations are as they were; `changed` are the nodes that may not be."""
    nodes, before = now.every(Node), then.every(Node)
    for name in changed:
        node, old = nodes.get(name), before.get(name)
        if node is None or old is None or node.metadata.labels != old.metadata.labels:
            return False
    return now.alike(then, HyperNode, ClusterNetworkTopology, *TREES_READ) or (
        _equal(now.every(HyperNode), then.every(HyperNode), _spec_and_fabric)
        and _equal(now.every(ClusterNetworkTopology), then.every(ClusterNetworkTopology), _spec)
        and label_trees(now) == label_trees(then)
        and tree_aliases(now) == tree_aliases(then)
    )


def _spec_and_fabric(record: HyperNode) -> object:
    return record.spec, fabric_of(record.metadata)


def _spec(record: ClusterNetworkTopology) -> object:
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
