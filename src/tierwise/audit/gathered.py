"""Check that Koordinator's gathered gangs are inside one domain of the layer that they must not cross.

A domain is the path of label values from the outermost layer inwards, in the order of the ClusterNetworkTopology
`default`. If the layers cannot be read, or a gang names one that does not exist, nothing is checked.
"""

from __future__ import annotations

from collections.abc import Iterator

from tierwise.api.core import Node
from tierwise.api.koordinator import ClusterNetworkTopology, GatherSpec, gather_spec
from tierwise.audit.koordinator import AuditedGang, gangs_of
from tierwise.audit.pods import Finding, holds
from tierwise.port import Objects

__all__ = ["gathered", "layers"]

_NOTES = ("gang.scheduling.koordinator.sh/network-topology-spec", "gang.scheduling.koordinator.sh/networkTopologyAware")


def gathered(objects: Objects) -> Iterator[Finding]:
    """Gangs that cross a layer which they must not cross."""
    chain = layers(objects)
    nodes = objects.every(Node)
    for gang in gangs_of(objects).values():
        for layer in _must(gang):
            if layer not in chain:
                continue
            around = list(chain)[list(chain).index(layer) :]  # the layer itself, and all that are further out
            placed_on = [pod.spec.node_name for pod in gang.standing() if holds(pod)]
            on = [nodes[name] for name in placed_on if name in nodes]
            domains = {tuple(_label(node, chain[name]) for name in around) for node in on}
            if len(domains) > 1:
                shown = ", ".join(sorted(path[0] or "none" for path in domains))
                text = f"{len(on)} pods must gather in one {layer}, and are in {len(domains)}: {shown}"
                yield Finding("too-wide", gang.name, text)


def layers(objects: Objects) -> dict[str, tuple[str, ...]]:
    """The labels of each layer above the nodes, innermost first; none where they form no chain."""
    record = objects.every(ClusterNetworkTopology).get("default")
    if record is None:
        return {}
    listed = [(e.topology_layer, e.parent_topology_layer, e.label_key) for e in record.spec.network_topology_spec]
    listed += [(e.layer_name, e.parent_topology_layer, e.label_key) for e in record.spec.hierarchy]
    keys = {name: (key,) if isinstance(key, str) else key for name, _, key in listed}
    parents = {name: parent for name, parent, _ in listed}
    lowest = [name for name in parents if name not in parents.values()]
    chain: dict[str, tuple[str, ...]] = {}
    at = parents[lowest[0]] if len(lowest) == 1 else ""
    while at in parents and at not in chain:
        chain[at] = keys[at]
        at = parents[at]
    return chain


def _label(node: Node, keys: tuple[str, ...]) -> str:
    return next((value for key in keys if (value := node.metadata.labels.get(key, ""))), "")


def _must(gang: AuditedGang) -> list[str]:
    """Layers that a gang must not cross: as its annotation says, else its object, else its first pod."""
    spec = _noted(gang.meta.annotations)
    if spec is None and gang.record is not None:
        spec = gang.record.spec.network_topology_aware
    if spec is None and gang.pods:
        spec = _noted(gang.pods[0].metadata.annotations)
    rules = spec.gather_strategy if spec is not None else ()
    return [rule.layer for rule in rules if rule.strategy.lower() not in ("prefergather", "")]


def _noted(notes: dict[str, str]) -> GatherSpec | None:
    text = next((text for key in _NOTES if (text := notes.get(key, ""))), "")
    spec = gather_spec(text) if text else ""
    return None if isinstance(spec, str) else spec
