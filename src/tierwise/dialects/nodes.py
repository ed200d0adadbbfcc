"""Node records into columns, in the order of the topology's rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tierwise.api.core import Node, Taint
from tierwise.api.natural import natural
from tierwise.api.quantity import amount
from tierwise.dialects.requests import FIRM_PREFIX, PORT_PREFIX
from tierwise.model.arrays import Ints, ranks
from tierwise.model.node import LabelTable, NodeTable
from tierwise.model.resources import POD_SLOTS, Axis, ceiling

__all__ = ["node_resources", "node_table"]


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
