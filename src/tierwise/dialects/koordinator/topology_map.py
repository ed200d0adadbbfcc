"""A tree as one JSON text, the form that a topology ConfigMap holds (Koordinator's design, section 2 of its details).

A list of domains, each with its layer (1 innermost), its name, and the names of its parents and children; children are
domains or nodes. `topology import` makes hyperNodes of it, `topology export` writes whatever tree a cluster has.
"""

from __future__ import annotations

from collections.abc import Sequence

from tierwise.api.codec import Raw, converted
from tierwise.api.core import Int, Record
from tierwise.api.errors import InputError
from tierwise.model.topology import ROOT, Topology

__all__ = ["Entry", "entries_of", "hypernodes_of", "members_of", "read_entries"]


class Entry(Record, frozen=True):
    """One domain of the list."""

    layer: Int
    name: str
    parents: tuple[str, ...] = ()
    children: tuple[str, ...] = ()


def read_entries(raw: object) -> tuple[Entry, ...]:
    """The domains of a parsed text; InputError names the field that cannot be used."""
    if not isinstance(raw, list):
        raise InputError("expected a list of domains with layer, name, parents and children")
    entries = tuple(converted(item, Entry, f"[{i}]") for i, item in enumerate(raw))
    seen: set[str] = set()
    for i, entry in enumerate(entries):
        if not entry.name or entry.name in seen:
            text = f'"{entry.name}" is listed twice' if entry.name else "the name is empty"
            raise InputError(text, field=f"[{i}].name")
        if entry.layer < 1:
            raise InputError(f"layer is {entry.layer}, it must be at least 1", field=f"[{i}].layer")
        seen.add(entry.name)
    for i, entry in enumerate(entries):
        unknown = next((parent for parent in entry.parents if parent not in seen), None)
        if unknown is not None:
            raise InputError(f'"{unknown}" is not in the list', field=f"[{i}].parents")
    return entries


def members_of(entries: Sequence[Entry]) -> dict[str, tuple[str, ...]]:
    """The members of each domain; a domain that is named as a parent has that child, even if it does not list it."""
    children = {entry.name: dict.fromkeys(entry.children) for entry in entries}
    for entry in entries:
        for parent in entry.parents:
            children[parent].setdefault(entry.name)
    return {name: tuple(names) for name, names in children.items()}


def hypernodes_of(entries: Sequence[Entry]) -> list[Raw]:
    """HyperNodes that declare the same tree."""
    domains = {entry.name for entry in entries}
    children = members_of(entries)
    return [
        {
            "apiVersion": "topology.volcano.sh/v1alpha1",
            "kind": "HyperNode",
            "metadata": {"name": _object_name(entry.name)},
            "spec": {
                "tier": entry.layer,
                "members": [_member(child, inner=child in domains) for child in children[entry.name]],
            },
        }
        for entry in entries
    ]


def _member(name: str, *, inner: bool) -> Raw:
    kind, shown = ("HyperNode", _object_name(name)) if inner else ("Node", name)
    return {"type": kind, "selector": {"exactMatch": {"name": shown}}}


def _object_name(name: str) -> str:
    """Domains that are named by their path have slashes, which no object's name may have."""
    return name.replace("/", ".")


def entries_of(topology: Topology, node_names: Sequence[str]) -> list[Entry]:
    """Every domain of a tree but its virtual root, parents before children."""
    return [_of(topology, node_names, domain) for domain in range(1, len(topology))]


def _of(topology: Topology, node_names: Sequence[str], domain: int) -> Entry:
    parent = int(topology.parent[domain])
    children = [topology.name[child] for child in topology.children[domain]]
    inner = topology.children[domain]
    start = int(topology.end[inner[-1]]) if inner else int(topology.start[domain])
    return Entry(
        layer=int(topology.tier[domain]),
        name=topology.name[domain],
        parents=(topology.name[parent],) if parent != ROOT else (),
        children=(*children, *node_names[start : int(topology.end[domain])]),
    )
