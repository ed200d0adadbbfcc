"""A ClusterNetworkTopology as declared domains: node labels, layer by layer, into the tree that hyperNodes make too.

Called by the snapshot builder, the controller that writes its status, and `validate`. Only the object named `default`
counts. A domain is the path of label values from the outermost layer inwards, so a value under two parents
is two domains; it is named by its value where that is unique in the tree, else by its path.

A node without a label for the innermost layer gets a domain of its own there, named after it. A node that lacks any
other label is outside the tree, where gathered gangs are not placed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from tierwise.api.core import Node, ObjectMeta
from tierwise.api.koordinator import ClusterNetworkTopology
from tierwise.api.natural import natural
from tierwise.api.plurals import count
from tierwise.dialects.label_trees import declared
from tierwise.model.snapshot import Fault
from tierwise.model.topology import LAYERS
from tierwise.model.tree import Declared
from tierwise.port import Objects

__all__ = [
    "CLUSTER_LAYER",
    "NODE_LAYERS",
    "SUBJECT",
    "Layer",
    "Layers",
    "declare_layers",
    "default_topology",
    "layer_faults",
    "read_layers",
    "tree_marks",
]

SUBJECT = "ClusterNetworkTopology default"
_SHOWN = 3

CLUSTER_LAYER = "ClusterTopologyLayer"
NODE_LAYERS = ("NodeTopologyLayer", "nodeLayer")

Path = tuple[str, ...]


class Layer(msgspec.Struct, frozen=True):
    """A layer above the nodes: its name and the labels that name its domains, the first that is set counting."""

    name: str
    label_keys: tuple[str, ...]


class Layers(msgspec.Struct, frozen=True):
    """The layers above the nodes, innermost first, and the name of the nodes' own; or what is wrong with them."""

    above: tuple[Layer, ...] = ()
    node: str = NODE_LAYERS[0]
    fault: str = ""

    def tiers(self) -> dict[str, int]:
        """The tier of every layer by name: nodes are tier 0, the cluster as a whole is above all others."""
        if self.fault:
            return {}
        names = (self.node, *(layer.name for layer in self.above), CLUSTER_LAYER)
        return {name: tier for tier, name in enumerate(names)}


def default_topology(topologies: Mapping[str, ClusterNetworkTopology]) -> ClusterNetworkTopology | None:
    """The one object that counts."""
    return topologies.get("default")


def tree_marks(objects: Objects) -> Iterator[tuple[str, ObjectMeta]]:
    """The tree of the layers, with what its object says of itself."""
    record = default_topology(objects.every(ClusterNetworkTopology))
    if record is not None:
        yield LAYERS, record.metadata


def read_layers(record: ClusterNetworkTopology) -> Layers:
    """The chain of layers from the nodes outwards; the order in which they are listed does not matter."""
    spec = record.spec
    listed = [(e.topology_layer, e.parent_topology_layer, _keys(e.label_key)) for e in spec.network_topology_spec]
    listed += [(e.layer_name, e.parent_topology_layer, _keys(e.label_key)) for e in spec.hierarchy]
    if not listed:
        return Layers(fault="no layer is listed")
    by_name = {name: (parent, keys) for name, parent, keys in listed}
    twice = [name for name, number in Counter(name for name, _, _ in listed).items() if number > 1]
    if twice:
        return Layers(fault=f'layer "{twice[0]}" is listed twice')
    node = _node_layer(by_name)
    if node is None:
        return Layers(fault=f"the layer of the nodes, {NODE_LAYERS[0]}, is not listed")
    return _chain(by_name, node)


def _node_layer(by_name: Mapping[str, tuple[str, tuple[str, ...]]]) -> str | None:
    """The layer of the nodes by its usual name, else the one without labels that is around no other."""
    outer = {parent for parent, _ in by_name.values()}
    inmost = [name for name, (_, keys) in by_name.items() if not keys and name not in outer and name != CLUSTER_LAYER]
    return next((name for name in (*NODE_LAYERS, *inmost[:1]) if name in by_name), None)


def _chain(by_name: Mapping[str, tuple[str, tuple[str, ...]]], node: str) -> Layers:
    above: list[Layer] = []
    name = node
    parent = by_name[node][0]
    while parent not in ("", CLUSTER_LAYER):
        if parent not in by_name:
            return Layers(fault=f'layer "{name}" has the parent "{parent}", which is not listed')
        if parent == node or any(layer.name == parent for layer in above):
            return Layers(fault=f'layer "{parent}" is its own ancestor')
        if not by_name[parent][1]:
            return Layers(fault=f'layer "{parent}" has no labelKey')
        above.append(Layer(parent, by_name[parent][1]))
        name = parent
        parent = by_name[parent][0]
    used = {node, CLUSTER_LAYER, *(layer.name for layer in above)}
    unused = [name for name in by_name if name not in used]
    if unused:
        return Layers(fault=f'layer "{unused[0]}" is not above the nodes: no chain of parents leads to it')
    return Layers(tuple(above), node)


def _keys(label_key: str | tuple[str, ...]) -> tuple[str, ...]:
    keys = (label_key,) if isinstance(label_key, str) else label_key
    return tuple(key for key in keys if key)


def declare_layers(layers: Layers, nodes: Iterable[Node]) -> list[Declared]:
    """The domains that the labels of these nodes make; none where nodes are the only layer."""
    height = len(layers.above)
    placed = ((_path(layers.above, node) or (), node) for node in nodes)
    return declared(placed, _names, lambda path: (height - len(path) + 1, layers.above[height - len(path)].name))


def layer_faults(layers: Layers, nodes: Sequence[Node]) -> list[Fault]:
    """Faults of the layers: no chain, layers without nodes, and nodes outside the tree."""
    if layers.fault:
        return [Fault(SUBJECT, "BrokenLayers", layers.fault)]
    labels = set()
    for node in nodes:
        for label, value in node.metadata.labels.items():
            if value:
                labels.add(label)
    faults = [
        Fault(
            SUBJECT, "LayerWithoutNodes", f'no node has a label of layer "{layer.name}": {", ".join(layer.label_keys)}'
        )
        for layer in layers.above
        if nodes and labels.isdisjoint(layer.label_keys)
    ]
    outside = sorted((n.metadata.name for n in nodes if _path(layers.above, n) is None), key=natural)
    if outside:
        shown = ", ".join(outside[:_SHOWN]) + (" and others" if len(outside) > _SHOWN else "")
        number = f"{len(outside)} of {count(len(nodes), 'node')}"
        text = f"outside the tree for want of labels, and not used by gathered gangs: {shown} ({number})"
        faults.append(Fault(SUBJECT, "NodesOutsideTree", text))
    return faults


def _path(above: Sequence[Layer], node: Node) -> Path | None:
    """A node's label values from the outermost layer inwards; None where it is outside the tree."""
    labels = node.metadata.labels
    values = [next((v for key in layer.label_keys if (v := labels.get(key, ""))), "") for layer in reversed(above)]
    if not values:
        return ()
    values[-1] = values[-1] or node.metadata.name
    return tuple(values) if all(values) else None


def _names(paths: Sequence[Path]) -> dict[Path, str]:
    """Each domain's own value where no other domain has it, else its path."""
    number = Counter(path[-1] for path in paths)
    return {path: path[-1] if number[path[-1]] == 1 else "/".join(path) for path in paths}
