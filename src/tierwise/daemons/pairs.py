"""Which nodes measure which: one pair of nodes for each ordered pair of zones in a region, and of regions.

Costs inside a zone are assumed to be equal, so the number of connections depends on the number of zones and regions,
not on the number of nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tierwise.api.core import Node
from tierwise.api.natural import natural
from tierwise.dialects.network_aware.services import zone_of
from tierwise.model.services import Link, link_between

__all__ = ["address_of", "pairs"]


def pairs(nodes: Mapping[str, Node]) -> list[tuple[str, str]]:
    """(origin node, destination node), one pair for each link between two zones or two regions, in each direction.

    The first ready node of a zone by natural order speaks for it, so all nodes agree; nodes without a zone do not
    count.
    """
    speakers: dict[tuple[str, str], str] = {}
    for name in sorted(nodes, key=natural):
        zone = zone_of(nodes[name])
        if any(zone) and _ready(nodes[name]):
            speakers.setdefault(zone, name)
    by_link: dict[Link, tuple[str, str]] = {}
    for node, origin in speakers.items():
        for peer, destination in speakers.items():
            link = link_between(node, peer)
            if link is not None and link.origin and link.destination:
                by_link.setdefault(link, (origin, destination))
    return list(by_link.values())


def address_of(node: Node) -> str:
    """Where a node answers: its internal address, else another one, else its name."""
    by_type = {entry.type: entry.address for entry in reversed(node.status.addresses)}
    return _first(by_type.get(kind, "") for kind in ("InternalIP", "ExternalIP", "Hostname")) or node.metadata.name


def _first(addresses: Iterable[str]) -> str:
    return next((address for address in addresses if address), "")


def _ready(node: Node) -> bool:
    return all(c.status == "True" for c in node.status.conditions if c.type == "Ready")
