"""The speed of a node's network interface, and the patch that advertises it as a resource of the node."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tierwise.api.codec import Raw, part
from tierwise.api.core import Node
from tierwise.api.errors import InputError, suggestion
from tierwise.port import Effect, Key, Objects, PatchStatus

__all__ = ["RESOURCE", "advertise", "default_interface", "manifest", "speed"]

RESOURCE: Final = "network.aware.com/bandwidth"
_MEGABIT: Final = 1_000_000


def default_interface(procfs: Path) -> str:
    """The interface of the default route; InputError where there is none."""
    table = procfs / "net" / "route"
    try:
        lines = table.read_text().splitlines()[1:]
    except OSError as error:
        raise InputError(error.strerror or str(error), file=str(table)) from None
    routes = [line.split() for line in lines]
    defaults = []
    for words in routes:
        if len(words) > 7 and words[1] == words[7] == "00000000":
            defaults.append((int(words[6]), words[0]))
    if not defaults:
        raise InputError("there is no default route: name the interface with --interface", file=str(table))
    return min(defaults)[1]


def speed(sysfs: Path, interface: str) -> int:
    """Bits per second of an interface; InputError where it does not exist or does not say."""
    if not interface or "/" in interface or interface in (".", ".."):
        raise InputError(f'"{interface}" is not the name of an interface', field="--interface")
    file = sysfs / "class" / "net" / interface / "speed"
    if not file.parent.exists():
        raise InputError(f"there is no interface {interface}", file=str(file.parent))
    try:
        megabits = int(file.read_text())
    except (OSError, ValueError):  # interfaces that have no speed refuse to be read
        megabits = -1
    if megabits <= 0:
        raise InputError(f"interface {interface} does not say its speed: give it with --speed", file=str(file))
    return megabits * _MEGABIT


def manifest(node: str, status: Raw) -> Raw:
    """A patch of the node's status, as a manifest."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "status": status}


def advertise(objects: Objects, node: str, bits: int) -> list[Effect]:
    """The patch that sets a node's capacity and allocatable of bandwidth to this many bits per second; no effect where
    both say so already. InputError where there is no such node.
    """
    key = Key("", "Node", "", node)
    raw = objects.raw(key)
    if raw is None:
        raise InputError(f"there is no such node{suggestion(node, objects.every(Node))}", obj=f"Node {node}")
    changes: Raw = {}
    for field in ("capacity", "allocatable"):  # kubelet derives what is allocatable from the capacity, in time
        amounts = part(part(raw, "status"), field)
        if amounts.get(RESOURCE) != str(bits):
            changes[field] = {**amounts, RESOURCE: str(bits)}
    return [PatchStatus(key, changes)] if changes else []
