"""The ports and systems that NVIDIA's UFM lists for an InfiniBand fabric, as a tree.

Like Volcano's discoverer: a host's port names its leaf as the peer, and leaves that share a host, as the rails of one
machine do, form one domain. Unlike there, the links between switches tell the tiers above: groups that share a switch
of the next level are in one domain. Where no such link is listed one domain holds all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tierwise.api.natural import natural
from tierwise.discovery.tree import Discovered, Path, PathElement, SourceRemark, Tree

__all__ = ["read"]

_TIER_NAMES: Final = ("leaf", "spine", "core")
_FABRIC: Final = "fabric"
_NOWHERE: Final = frozenset({"", "N/A", "NA", "None"})


def read(ports: object, systems: object, file: str) -> Discovered:
    """The tree of the hosts that UFM's lists of ports and systems describe, or a failed Discovered that says what is
    wrong: it raises nothing. systems may be None; then a port's description says whether it belongs to a host. Hosts
    without a link are left out with a warning.
    """
    if not isinstance(ports, list):
        return Discovered.failed(SourceRemark(file, "expected a list of ports"))
    types = _types(systems)
    uplinks: dict[str, set[str]] = {}  # host -> leaves
    links: dict[str, set[str]] = {}  # switch -> its peers
    hosts: set[str] = set()
    for port in ports:
        if not isinstance(port, dict):
            return Discovered.failed(SourceRemark(file, "expected a list of ports, each an object"))
        name = _text(port.get("system_name"))
        peer = _text(port.get("peer_node_name"))
        kind = types.get(name) or ("host" if "Computer" in _text(port.get("description")) else "switch")
        if kind == "host" and name not in _NOWHERE:
            hosts.add(name)
            if peer not in _NOWHERE and types.get(peer) != "host":
                uplinks.setdefault(name, set()).add(peer)
        elif name not in _NOWHERE and peer not in _NOWHERE:
            links.setdefault(name, set()).add(peer)
    if not uplinks:
        return Discovered.failed(SourceRemark(file, "no port joins a host to a switch"))
    lost = sorted(hosts - set(uplinks), key=natural)
    remarks = [SourceRemark(file, f"host {host} has no link to a switch: it is left out", error=False) for host in lost]
    # Both ends of a link are listed, so that a peer without ports of its own is no switch.
    between = {switch: peers & (links.keys() - hosts) for switch, peers in links.items()}
    return Discovered.of(_tree(uplinks, between), remarks)


def _types(systems: object) -> dict[str, str]:
    """Type of each system, host or switch, by its name."""
    types = {}
    for system in systems if isinstance(systems, list) else ():
        if isinstance(system, dict) and system.get("type") in ("host", "switch"):
            types[_text(system.get("system_name"))] = str(system["type"])
    return types


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _tree(uplinks: Mapping[str, set[str]], links: Mapping[str, set[str]]) -> Tree:
    """The tree of the hosts. uplinks are the leaf switches of each host, links the neighbours of each switch, above and
    below. Hosts or groups that share a switch of the next level are one domain there, named after its first switch;
    groups without any switch above them are put into one domain of tier 2.
    """
    chains: dict[str, list[PathElement]] = {host: [] for host in uplinks}
    inside = {host: [host] for host in uplinks}  # what was grouped last, with the hosts in it
    above = {host: set(leaves) for host, leaves in uplinks.items()}
    seen: set[str] = set(uplinks)
    tier = 0
    while any(above.values()):
        tier += 1
        seen |= set().union(*above.values())
        grouped: dict[str, list[str]] = {}
        next_above: dict[str, set[str]] = {}
        for group in _groups(above):
            switches = set().union(*(above[member] for member in group))
            name = min(switches, key=natural)
            grouped[name] = [host for member in group for host in inside[member]]
            next_above[name] = {peer for switch in switches for peer in links.get(switch, ())} - seen
            for host in grouped[name]:
                chains[host].append(PathElement(tier, name))
        inside = grouped
        above = next_above
    if tier == 1 and len(inside) > 1:
        tier = 2
        for chain in chains.values():
            chain.append(PathElement(tier, _FABRIC))
    names = dict(enumerate(_TIER_NAMES[:tier], start=1)) if tier <= len(_TIER_NAMES) else {}
    places: dict[str, Path] = {host: tuple(reversed(chain)) for host, chain in chains.items()}
    return Tree(places, names, unique=True)


def _groups(above: Mapping[str, Iterable[str]]) -> Sequence[list[str]]:
    """Those that have something above them, together with all that share it, directly or through others."""
    below: dict[str, list[str]] = {}
    for member, switches in above.items():
        for switch in switches:
            below.setdefault(switch, []).append(member)
    groups: list[list[str]] = []
    done: set[str] = set()
    for start in sorted(above, key=natural):
        if start in done or not above[start]:
            continue
        group = []
        waiting = [start]
        done.add(start)
        while waiting:
            member = waiting.pop()
            group.append(member)
            for switch in above[member]:
                fresh = [neighbour for neighbour in below.pop(switch, ()) if neighbour not in done]
                done.update(fresh)
                waiting += fresh
        groups.append(group)
    return groups
