"""The nodes of a cluster in tree order."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from tierwise.api.core import Node, ResourceList, Taint
from tierwise.api.fabric import fabric_of
from tierwise.api.koordinator import ClusterNetworkTopology
from tierwise.api.quantity import amount
from tierwise.api.volcano import HyperNode
from tierwise.dialects.koordinator.network_topology import declare_layers, default_topology, layer_faults, read_layers
from tierwise.dialects.kubernetes.requests import FIRM_PREFIX, PORT_PREFIX
from tierwise.dialects.label_trees import Planned, plan
from tierwise.dialects.languages import TREES_READ, label_trees, tree_aliases
from tierwise.dialects.volcano.hypernodes import by_fabric, declare
from tierwise.model.arrays import Bools, Ints
from tierwise.model.node import LabelTable, NodeTable
from tierwise.model.resources import POD_SLOTS, Axis
from tierwise.model.snapshot import Fault
from tierwise.model.topology import HYPERNODES, LAYERS, AlternateTopology, Topology, fabric_kind
from tierwise.model.tree import build_tree
from tierwise.port import Objects

__all__ = ["NodeIndex", "OrderedTopology", "node_resources", "node_table", "order_topology", "read_nodes", "renewed"]


# Node records into columns, in the order of the topology's rows.


def node_resources(nodes: Sequence[Node]) -> set[str]:
    """Every resource that some node has."""
    return {*chain.from_iterable({tuple(_amounts(node)) for node in nodes})}  # nodes are of few kinds


def _amounts(node: Node) -> ResourceList:
    return node.status.allocatable or node.status.capacity


def node_table(index: NodeIndex, axis: Axis, most: int, conditions: Sequence[str] = ()) -> NodeTable:
    """The table of these nodes; no amount in it is more than `most`.

    Nodes with one of the `conditions` are unhealthy: a type, which is wrong where it is True, or `Type=Status`.
    """
    nodes = index.nodes
    taints, taint_set = _taints(nodes)
    images = tuple(_images(node) for node in nodes)
    return NodeTable(
        names=index.names,
        row=index.row,
        rank=index.rank,
        number=_by_row(index),
        allocatable=_allocatable(nodes, axis, most),
        labels=LabelTable(index.names, [node.metadata.labels for node in nodes]),
        taints=taints,
        taint_set=taint_set,
        cordoned=np.array([node.spec.unschedulable for node in nodes], dtype=bool),
        ready=np.array([_ready(node) for node in nodes], dtype=bool),
        unhealthy=_unhealthy(enumerate(nodes), conditions),
        images=images if any(images) else (),
    )


def renewed(
    table: NodeTable, was: Axis, index: NodeIndex, axis: Axis, most: int, conditions: Sequence[str] = ()
) -> NodeTable:
    """The same table, made from that of the index before, which has another axis: only rows that differ are read."""
    nodes, former = index.nodes, index.former
    rows = np.flatnonzero(former < 0)
    fresh = [nodes[row] for row in rows.tolist()]
    allocatable = _allocatable((), axis, most, len(nodes))
    for name, r in axis.index.items():
        if name in was.index and len(table):
            allocatable[r] = table.allocatable[was.index[name], former]
    allocatable[:, rows] = _allocatable(fresh, axis, most)
    cordoned, ready = (column[former] if len(table) else np.zeros(len(nodes), bool) for column in _flags(table))
    cordoned[rows] = [node.spec.unschedulable for node in fresh]
    ready[rows] = [_ready(node) for node in fresh]
    taints, taint_set = table.taints, np.zeros(len(nodes), dtype=np.int32)
    if not nodes or len(taints) != 1 or any(node.spec.taints != taints[0] for node in fresh):
        taints, taint_set = _taints(nodes)
    images: Sequence[dict[str, int]] = ()
    if table.images or any(node.status.images for node in fresh):
        known = table.images or ({},) * len(table)
        images = [known[i] if i >= 0 else _images(node) for i, node in zip(former.tolist(), nodes, strict=True)]
    asked = [row for row, i in enumerate(former.tolist()) if i < 0 or i in table.unhealthy] if conditions else []
    same_names = index.names is table.names
    return NodeTable(
        names=index.names,
        row=index.row,
        rank=index.rank,
        number=table.number if same_names else _by_row(index),
        allocatable=allocatable,
        labels=table.labels if same_names else LabelTable(index.names, [node.metadata.labels for node in nodes]),
        taints=taints,
        taint_set=taint_set,
        cordoned=cordoned,
        ready=ready,
        unhealthy=_unhealthy(((row, nodes[row]) for row in asked), conditions),
        images=tuple(images) if any(images) else (),
    )


def _by_row(index: NodeIndex) -> Ints:
    """The numbers of nodes."""
    return np.fromiter(map(index.number.__getitem__, index.names), np.int64, len(index.names))


def _flags(table: NodeTable) -> tuple[Bools, Bools]:
    return table.cordoned, table.ready


def _taints(nodes: Sequence[Node]) -> tuple[tuple[tuple[Taint, ...], ...], NDArray[np.int32]]:
    """The distinct sets of taints, and which of them each node has."""
    sets: dict[tuple[Taint, ...], int] = {}
    taint_set = np.array([sets.setdefault(node.spec.taints, len(sets)) for node in nodes], dtype=np.int32)
    return tuple(sets), taint_set


def _images(node: Node) -> dict[str, int]:
    return {name: image.size_bytes for image in node.status.images for name in image.names}


def _allocatable(nodes: Sequence[Node], axis: Axis, most: int, rows: int | None = None) -> Ints:
    """Amounts by resource and row, of so many rows where there are more than nodes.

    A node that states no pod limit has none; each node has every port once, and no end of what is firm.
    """
    result = np.zeros((len(axis), len(nodes) if rows is None else rows), dtype=np.int64)
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
    order: Ints
    kind: str = HYPERNODES
    faults: tuple[Fault, ...] = ()
    alternate_topologies: dict[str, AlternateTopology] = {}


class NodeIndex(msgspec.Struct, frozen=True, eq=False):
    """Nodes by row, the trees over them, and what is wrong with these."""

    nodes: tuple[Node, ...]
    names: tuple[str, ...]
    row: dict[str, int]
    rank: Ints  # natural order of the names
    number: Mapping[str, int]  # by name: each node keeps its own for as long as it is there
    resources: frozenset[str]  # that some node has
    topology: Topology
    faults: tuple[Fault, ...]
    kind: str = HYPERNODES
    alternate_topologies: dict[str, AlternateTopology] = {}
    former: Ints = np.zeros(0, dtype=np.int64)  # the rows in the index that it was made from; -1: to be read anew


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
        nodes = list(records.values())  # in natural order
        found = order_topology(objects, nodes, follow)
        ordered = tuple([nodes[i] for i in found.order.tolist()])
        names = tuple([node.metadata.name for node in ordered])
        former = np.full(len(names), -1, dtype=np.int64)
        row = dict(zip(names, range(len(names)), strict=True))
        number: Mapping[str, int] = row
        resources = node_resources(nodes) if last is None else last.resources
        if last is not None and at is not None:
            before = at.every(Node)
            former[:] = [*map(last.row.get, names, repeat(-1))]
            for name in changed:
                there = name in before and name in records
                if there and _read(records[name], conditions) != _read(before[name], conditions):
                    former[row[name]] = -1
            number = _numbers(last.number, changed, records)
            resources = _resources(last.resources, nodes, changed, before, records)
        return NodeIndex(
            nodes=ordered,
            names=names,
            row=row,
            rank=found.order,
            number=number,
            resources=frozenset(resources),
            topology=found.topology,
            faults=found.faults,
            kind=found.kind,
            alternate_topologies=found.alternate_topologies,
            former=former,
        )
    before = at.every(Node)
    moved = [name for name in changed if _read(records[name], conditions) != _read(before[name], conditions)]
    if not moved:
        return last
    former, current = np.arange(len(last.names)), list(last.nodes)
    for name in moved:
        former[last.row[name]] = -1
        current[last.row[name]] = records[name]
    resources = _resources(last.resources, current, moved, before, records)
    return replace(last, nodes=tuple(current), resources=resources, former=former)


def _numbers(known: Mapping[str, int], changed: Iterable[str], nodes: Container[str]) -> Mapping[str, int]:
    """The numbers of nodes where some of these have come or gone; who comes gets the lowest that nobody has."""
    moved = [name for name in changed if (name in nodes) is not (name in known)]
    if not moved:
        return known
    came, numbers = [name for name in moved if name in nodes], dict(known)
    for name in moved:
        numbers.pop(name, None)
    free = {*range(len(numbers) + len(came))}.difference(numbers.values())
    return numbers | dict(zip(came, sorted(free), strict=False))


def _resources(
    known: frozenset[str],
    nodes: Sequence[Node],
    changed: Sequence[str],
    before: Mapping[str, Node],
    records: Mapping[str, Node],
) -> frozenset[str]:
    """Every resource that some of these nodes has, where some have changed: those that one lacks now are looked for."""
    now, then = ({r for name in changed if name in some for r in _amounts(some[name])} for some in (records, before))
    return (known | now).difference(r for r in then - now if not any(r in _amounts(node) for node in nodes))


def _read(node: Node, conditions: Sequence[str]) -> object:
    """All that a table holds of a node, but for its labels."""
    health = _ready(node), _wrong(node, conditions) if conditions else ""
    return node.spec.taints, node.spec.unschedulable, _amounts(node), node.status.images, health


def order_topology(objects: Objects, nodes: Sequence[Node], follow: str = "") -> OrderedTopology:
    """The trees over these nodes, which are given in natural order.

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
    place = dict(zip(names, range(len(names)), strict=True))
    topology, order = build_tree(first.declared, names, first.tiers, place=place)
    ordered = [names[i] for i in order.tolist()] if trees else []
    alternate_topologies: dict[str, AlternateTopology] = {}
    for tree in trees:
        other, rows = build_tree(tree.declared, ordered, tree.tiers, place=place)
        alternate_topologies[tree.kind] = AlternateTopology(other, rows)
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
