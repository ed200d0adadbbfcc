"""The nodes of a cluster in tree order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from tierwise.api.core import ContainerImage, Node, ResourceList, Taint
from tierwise.api.koordinator import ClusterNetworkTopology
from tierwise.api.quantity import amount
from tierwise.api.volcano import HyperNode
from tierwise.dialects.koordinator.network_topology import declare_layers, default_topology, layer_faults, read_layers
from tierwise.dialects.kubernetes.requests import FIRM_PREFIX, PORT_PREFIX
from tierwise.dialects.label_trees import LabelTree, Planned, plan
from tierwise.dialects.languages import TREES_READ, label_trees
from tierwise.dialects.volcano.hypernodes import by_fabric, declare
from tierwise.model.arrays import POD_SLOTS, Axis, Ints, NDArray
from tierwise.model.node import LabelTable, NodeTable
from tierwise.model.snapshot import Fault
from tierwise.model.topology import HYPERNODES, LAYERS, AlternateTopology, Topology, fabric_kind
from tierwise.model.tree import build_tree
from tierwise.snapshot.derive import Derived, Each, Facet, Graph, Order, Rows

__all__ = ["LAYERED", "OF_HYPERNODES", "OF_TREES", "Nodes", "OrderedTopology"]

OF_TREES = Facet("metadata.labels")
"""All that trees look at of a node."""

OF_HYPERNODES = Facet("spec", "metadata.labels", "metadata.annotations")
"""And of a hyperNode: controllers write statuses, and that changes no tree."""

LAYERED = Facet("spec")
"""And of a ClusterNetworkTopology."""


class OrderedTopology(msgspec.Struct, frozen=True, eq=False):
    """The tree that rows follow, the order of the nodes in it, the kind that declares it, and further trees."""

    topology: Topology
    order: Ints
    kind: str = HYPERNODES
    faults: tuple[Fault, ...] = ()
    alternate_topologies: dict[str, AlternateTopology] = {}


def order_topology(
    records: Mapping[str, Node],
    hypernodes: Mapping[str, HyperNode],
    topologies: Mapping[str, ClusterNetworkTopology],
    of_labels: Sequence[LabelTree],
    aliases: Mapping[str, str],
    follow: str = "",
) -> OrderedTopology:
    """The trees over nodes, which are given in natural order.

    Rows `follow` the tree of a kind where it is named and exists; else that of the hyperNodes without a fabric where
    there are any, else that of the layers, of the first fabric, of the first that labels make.
    """
    names = [*records]
    nodes = [*records.values()]
    layered = default_topology(topologies)
    follow = aliases.get(follow, follow)
    fabrics = by_fabric(hypernodes.values())
    plain = fabrics.pop("", [])
    trees: list[Planned] = []
    faults: tuple[Fault, ...] = ()
    if layered is not None:
        layers = read_layers(layered)
        trees.append(Planned(LAYERS, [] if layers.fault else declare_layers(layers, nodes), layers.tiers()))
        faults = tuple(layer_faults(layers, nodes))
    trees += (Planned(fabric_kind(name), declare(members, nodes), {}) for name, members in fabrics.items())
    trees += (planned for tree in of_labels for planned in plan(tree, nodes))
    if plain or not trees:
        trees.insert(0, Planned(HYPERNODES, declare(plain, nodes), {}))
    followed_tree = trees.pop(next((i for i, tree in enumerate(trees) if tree.kind == follow), 0))
    place = dict(zip(names, range(len(names)), strict=True))
    topology, order = build_tree(followed_tree.declared, names, followed_tree.tiers, place=place)
    ordered = [names[i] for i in order.tolist()] if trees else []
    alternate_topologies: dict[str, AlternateTopology] = {}
    for tree in trees:
        alternate, rows = build_tree(tree.declared, ordered, tree.tiers, place=place)
        alternate_topologies[tree.kind] = AlternateTopology(alternate, rows)
    return OrderedTopology(topology, order, followed_tree.kind, faults, alternate_topologies)


class NodeRow(msgspec.Struct, frozen=True):
    """All that a table holds of a node, but for its labels."""

    taints: tuple[Taint, ...]
    cordoned: bool
    amounts: ResourceList
    images: tuple[ContainerImage, ...]
    ready: bool
    unhealthy: str  # the first of the listed conditions that it has; "" where it has none


def read_row(node: Node, conditions: Sequence[str]) -> NodeRow:
    """Row of a node for the table. With one of the `conditions` the node is unhealthy: a type, which is wrong if True,
    or `Type=Status`. A node that reports no Ready condition counts as ready.
    """
    status = node.status
    return NodeRow(
        taints=node.spec.taints,
        cordoned=node.spec.unschedulable,
        amounts=status.allocatable or status.capacity,
        images=status.images,
        ready=all(c.status == "True" for c in status.conditions if c.type == "Ready"),
        unhealthy=_wrong(node, conditions) if conditions else "",
    )


def _wrong(node: Node, conditions: Sequence[str]) -> str:
    """The first of the listed conditions that a node has; "" where it has none."""
    present = {f"{condition.type}={condition.status}" for condition in node.status.conditions}
    listed = (text if "=" in text else f"{text}=True" for text in conditions)
    return next((text for text in listed if text in present), "")


class Nodes:
    """Kept values of nodes: trees, rows, numbers and columns. A node keeps its number while it exists, whatever its
    row.
    """

    def __init__(
        self, graph: Graph, aliases: Derived[dict[str, str]], *, follow: str = "", conditions: Sequence[str] = ()
    ) -> None:
        """Rows `follow` the tree of a kind where one is named; `conditions` are those that make a node unhealthy."""
        records = graph.records(Node, OF_TREES)
        of_labels = graph.equal(label_trees, graph.kinds(*TREES_READ))
        self.trees = graph.whole(
            partial(order_topology, follow=follow),
            records,
            graph.records(HyperNode, OF_HYPERNODES),
            graph.records(ClusterNetworkTopology, LAYERED),
            of_labels,
            aliases,
        )
        self.order = graph.follow(list[Order], _ordered, self.trees, records)
        self.number = graph.follow(list[Mapping[str, int]], _numbered, self.order)
        self._by_number = graph.whole(_numbers, self.order, self.number)
        self._labels = graph.whole(_label_table, self.order, records)
        self.of = Each(graph.records(Node), partial(read_row, conditions=tuple(conditions)))
        self.resources = graph.equal(_united, Each(graph.records(Node), _names))
        self._graph = graph

    def amounts(self, axis: Derived[Axis], limit: Derived[int]) -> Derived[Ints]:
        """Amounts of nodes, (resources x rows), capped at `most`."""
        return Rows(self.order, self.of, read_amounts, axis, limit, patch=_realigned)

    def table(self, amounts: Derived[Ints]) -> Derived[NodeTable]:
        """The table of all nodes with these amounts."""
        graph = self._graph
        return graph.whole(
            lambda order, trees, number, amounts, labels, taints, *further: NodeTable(
                order.names, order.row, trees.order, number, amounts, labels, *taints, *further
            ),
            self.order,
            self.trees,
            self._by_number,
            amounts,
            self._labels,
            graph.whole(_taint_sets, self._column("taints", object)),
            self._column("cordoned", bool),
            self._column("ready", bool),
            graph.whole(_unhealthy, self._column("unhealthy", object)),
            graph.whole(_images, self._column("images", object)),
        )

    def _column(self, name: str, kind: type) -> Derived[NDArray[Any]]:
        """Column of one field, by row."""
        of = attrgetter(name)
        return Rows(self.order, self.of, lambda rows: np.fromiter(map(of, rows), kind, len(rows)))


def _ordered(previous: list[Order], trees: OrderedTopology, records: Mapping[str, Node]) -> Order:
    names = [*records]
    ordered = tuple([names[i] for i in trees.order.tolist()])
    if not previous or previous[0].names != ordered:
        previous[:] = [Order(ordered, previous[0] if previous else None)]
    return previous[0]


def _numbered(previous: list[Mapping[str, int]], order: Order) -> Mapping[str, int]:
    """The numbers of nodes; who comes gets the lowest that no other has."""
    if not previous:
        previous[:] = [order.row]
    numbers = previous[0]
    came = [name for name in order.names if name not in numbers]
    if came or len(numbers) > len(order.names):
        stay = {name: number for name, number in numbers.items() if name in order.row}
        free = sorted({*range(len(order.names))}.difference(stay.values()))
        previous[:] = [stay | dict(zip(sorted(came), free, strict=False))]
    return previous[0]


def _numbers(order: Order, number: Mapping[str, int]) -> Ints:
    return np.fromiter(map(number.__getitem__, order.names), np.int64, len(order.names))


def _label_table(order: Order, records: Mapping[str, Node]) -> LabelTable:
    return LabelTable(order.names, [records[name].metadata.labels for name in order.names])


def _names(node: Node) -> tuple[str, ...]:
    """The resources that a node has."""
    return tuple(node.status.allocatable or node.status.capacity)


def _united(names: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    return frozenset(chain.from_iterable({*names.values()}))


def _taint_sets(column: NDArray[np.object_]) -> tuple[tuple[tuple[Taint, ...], ...], NDArray[np.int32]]:
    """The distinct sets of taints, and which of them each row has."""
    sets: dict[tuple[Taint, ...], int] = {}
    which = np.array([sets.setdefault(taints, len(sets)) for taints in column.tolist()], dtype=np.int32)
    return tuple(sets), which


def _unhealthy(column: NDArray[np.object_]) -> dict[int, str]:
    return {row: text for row, text in enumerate(column.tolist()) if text}


def _images(column: NDArray[np.object_]) -> tuple[dict[str, int], ...]:
    listed: list[tuple[ContainerImage, ...]] = column.tolist()
    if not any(listed):
        return ()
    return tuple([{name: image.size_bytes for image in images for name in image.names} for images in listed])


def read_amounts(rows: Sequence[NodeRow], axis: Axis, limit: int) -> Ints:
    """Amounts by resource and row.

    A node that states no pod limit has none; each node has every port once, and no end of what is firm.
    """
    result = _constants(axis, limit, len(rows))
    by_entry: dict[tuple[str, str | int | float], int] = {}  # nodes are of few kinds
    for i, row in enumerate(rows):
        for entry in row.amounts.items():
            if entry not in by_entry:
                by_entry[entry] = min(amount(*entry), limit)
            result[axis.index[entry[0]], i] = by_entry[entry]
        if POD_SLOTS not in row.amounts:
            result[axis.index[POD_SLOTS], i] = limit
    return result


def _constants(axis: Axis, limit: int, rows: int) -> Ints:
    """Amounts that every node has of constant resources."""
    result = np.zeros((len(axis), rows), dtype=np.int64)
    for name, r in axis.index.items():
        if name.startswith(PORT_PREFIX):
            result[r] = 1
        elif name.startswith(FIRM_PREFIX):
            result[r] = limit
    return result


def _realigned(amounts: Ints, was: tuple[Axis, int], by: tuple[Axis, int]) -> Ints | None:
    """Amounts moved to another axis; nodes that have a resource that is new there are read again."""
    (old, before), (axis, limit) = was, by
    if before != limit:
        return None
    result = _constants(axis, limit, amounts.shape[1])
    for name, r in axis.index.items():
        if name in old.index:
            result[r] = amounts[old.index[name]]
    return result
