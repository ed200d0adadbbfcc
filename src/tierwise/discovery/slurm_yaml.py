"""Slurm's `topology.yaml`: several named topologies, each a tree of switches, a list of blocks or rings, or flat.

One topology is read: the one asked for, else the first that is the cluster's default, else the first. The data has
been read from YAML already; fields are named by their path. https://slurm.schedmd.com/topology.yaml.html describes the
format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import yaml

from tierwise.discovery.blocks import Block, joined
from tierwise.discovery.hostlist import HostlistError, compress, expand
from tierwise.discovery.slurm_conf import slurm_names
from tierwise.discovery.switches import Switch, grown
from tierwise.discovery.tree import Discovered, Remark, Tree

__all__ = ["parse", "write"]

_KINDS: Final = ("tree", "block", "ring", "flat", "torus3d")


class _MalformedError(ValueError):
    """A field that cannot be used."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


def parse(data: object, file: str, topology: str = "") -> Discovered:
    """The tree of one topology; remarks name the file and the field."""
    try:
        chosen, field = _chosen(data, topology)
        kinds = [kind for kind in _KINDS if chosen.get(kind)]
        if len(kinds) != 1:
            raise _MalformedError(field, f"exactly one of {', '.join(_KINDS)} is needed")
        return _read(kinds[0], chosen[kinds[0]], file, f"{field}.{kinds[0]}")
    except _MalformedError as error:
        return Discovered.failed(Remark(f"{file}: {error.field}" if error.field else file, str(error)))


def _chosen(data: object, topology: str) -> tuple[dict[str, object], str]:
    """The topology to read, and the field that it stands in."""
    entries = [_mapping(entry, f"[{i}]") for i, entry in enumerate(_list(data, ""))]
    named = [entry.get("topology") for entry in entries]
    if topology:
        if topology not in named:
            shown = ", ".join(str(name) for name in named)
            raise _MalformedError("", f'there is no topology "{topology}": it has {shown or "none"}')
        index = named.index(topology)
    else:
        index = next((i for i, entry in enumerate(entries) if entry.get("cluster_default") is True), 0)
    if not entries:
        raise _MalformedError("", "holds no topology")
    return entries[index], f"[{index}]"


def _read(kind: str, value: object, file: str, field: str) -> Discovered:
    if kind == "flat":
        return Discovered.of(Tree({}))
    if kind == "torus3d":
        raise _MalformedError(field, "a torus is no tree")
    content = _mapping(value, field)
    if kind == "tree":
        return grown(_switches(content, file, field))
    entries = _list(content.get(f"{kind}s"), f"{field}.{kind}s")
    blocks = []
    for i, entry in enumerate(entries):
        at = f"{field}.{kind}s[{i}]"
        block = _mapping(entry, at)
        blocks.append(Block(_text(block.get(kind), f"{at}.{kind}"), _hosts(block, "nodes", at), f"{file}: {at}"))
    sizes = content.get("block_sizes") or []
    if not isinstance(sizes, list) or not all(type(size) is int for size in sizes):
        raise _MalformedError(f"{field}.block_sizes", "expected a list of numbers")
    return joined(blocks, sizes, f"{file}: {field}.block_sizes", kind)


def _switches(content: dict[str, object], file: str, field: str) -> list[Switch]:
    switches = []
    for i, entry in enumerate(_list(content.get("switches"), f"{field}.switches")):
        at = f"{field}.switches[{i}]"
        switch = _mapping(entry, at)
        nodes, children = _hosts(switch, "nodes", at), _hosts(switch, "children", at)
        switches.append(Switch(_text(switch.get("switch"), f"{at}.switch"), nodes, children, f"{file}: {at}"))
    return switches


def _hosts(entry: dict[str, object], key: str, at: str) -> tuple[str, ...]:
    if entry.get(key) is None:
        return ()
    try:
        return tuple(expand(_text(entry[key], f"{at}.{key}")))
    except HostlistError as error:
        raise _MalformedError(f"{at}.{key}", str(error)) from None


def _mapping(value: object, field: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise _MalformedError(field, "expected a mapping")
    return value


def _list(value: object, field: str) -> Sequence[object]:
    if not isinstance(value, list):
        raise _MalformedError(field, "expected a list")
    return value


def _text(value: object, field: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise _MalformedError(field, "expected a name")
    return value


def write(tree: Tree, name: str = "tierwise") -> str:
    """A `topology.yaml` with this tree as the cluster's default; ValueError for a name that Slurm could not read."""
    called = slurm_names(tree)
    switches = []
    for path, members in tree.domains.items():
        switch = {"switch": called[path]}
        if members.domains:
            switch["children"] = compress(called[inner] for inner in members.domains)
        if members.nodes:
            switch["nodes"] = compress(members.nodes)
        switches.append(switch)
    kind: dict[str, object] = {"tree": {"switches": switches}} if switches else {"flat": True}
    return yaml.safe_dump([{"topology": name, "cluster_default": True, **kind}], sort_keys=False, width=1 << 20)
