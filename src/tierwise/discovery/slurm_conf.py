"""Slurm's `topology.conf`: lines of SwitchName, BlockName or RingName, and the same from a tree.

Keys are read whatever their case, "#" starts a comment, a backslash at the end joins lines, and names are hostlist
expressions. https://slurm.schedmd.com/topology.conf.html describes the format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from tierwise.discovery.blocks import Block, joined
from tierwise.discovery.hostlist import HostlistError, compress, expand, fits
from tierwise.discovery.naming import names
from tierwise.discovery.switches import Switch, grown
from tierwise.discovery.tree import Discovered, Path, Remark, Tree

__all__ = ["parse", "slurm_names", "write"]

_PAIR: Final = re.compile(r'\s*([^\s="]+)\s*=\s*(?:"([^"]*)"|([^\s"=]*))(?=\s|$)')
_COMMENT: Final = re.compile(r"(?<!\\)((?:\\\\)*)#.*")
_KEYS: Final = {
    "switchname": frozenset({"switchname", "switches", "nodes", "linkspeed"}),
    "blockname": frozenset({"blockname", "nodes"}),
    "ringname": frozenset({"ringname", "nodes"}),
    "blocksizes": frozenset({"blocksizes"}),
}
_NAMED: Final = {"switchname": "SwitchName", "blockname": "BlockName", "ringname": "RingName"}


class _Written(msgspec.Struct):
    """What the lines of a file said."""

    switches: list[Switch] = []
    blocks: list[Block] = []
    rings: list[Block] = []
    sizes: list[int] = []
    sizes_at: str = ""


def parse(text: str, file: str) -> Discovered:
    """The tree that a file describes; remarks name the file and the line."""
    written = _Written()
    remarks: list[Remark] = []
    for number, line in _lines(text):
        try:
            _take(line, f"{file}:{number}", written)
        except ValueError as error:
            remarks.append(Remark(f"{file}:{number}", str(error)))
    kinds = [kind for kind in (written.switches, written.blocks, written.rings) if kind]
    if len(kinds) > 1:
        remarks.append(Remark(file, "switches, blocks and rings cannot be told in one tree: give one of them"))
    if written.sizes and not written.blocks:
        remarks.append(Remark(written.sizes_at, "BlockSizes stands alone, without blocks"))
    if not kinds and not remarks:
        remarks.append(Remark(file, "names no switch, block or ring"))
    if remarks:
        return Discovered.failed(*remarks)
    if written.switches:
        return grown(written.switches)
    if written.rings:
        return joined(written.rings, [], file, "ring")
    return joined(written.blocks, written.sizes, written.sizes_at)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that say something, without comments and continued ones in one piece, with the number of their first."""
    start, pending = 0, ""
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        start = start if pending else number
        content = _COMMENT.sub(r"\1", line).rstrip()
        if content.endswith("\\"):
            pending += content[:-1] + " "
            continue
        if (pending + content).strip():
            yield start, (pending + content).strip()
        pending = ""
    if pending.strip():
        yield start, pending.strip()


def _take(line: str, where: str, written: _Written) -> None:
    pairs = _pairs(line)
    leading = next((key for key in _KEYS if key in pairs), None)
    if leading is None:
        raise ValueError(f"{next(iter(pairs))} without SwitchName, BlockName, RingName or BlockSizes")
    for key in pairs:
        if key not in _KEYS[leading]:
            raise ValueError(f'"{key}" does not go with {_NAMED.get(leading, "BlockSizes")}')
    if leading == "blocksizes":
        written.sizes, written.sizes_at = _sizes(pairs[leading]), where
        return
    name, nodes = pairs[leading], _expanded(pairs.get("nodes", ""))
    if not name:
        raise ValueError(f"{_NAMED[leading]} is empty")
    if leading == "switchname":
        written.switches.append(Switch(name, nodes, _expanded(pairs.get("switches", "")), where))
    else:
        (written.blocks if leading == "blockname" else written.rings).append(Block(name, nodes, where))


def _pairs(line: str) -> dict[str, str]:
    """Keys in lower case with their values."""
    if line.lower().startswith("include "):
        raise ValueError("Include is not followed: give the file that holds the topology")
    pairs: dict[str, str] = {}
    at = 0
    while at < len(line):
        form = _PAIR.match(line, at)
        if form is None:
            raise ValueError(f'"{line[at:].split()[0]}" is not of the form Key=Value')
        key = form[1].lower()
        if key in pairs:
            raise ValueError(f"{form[1]} stands there twice")
        pairs[key] = form[2] if form[2] is not None else form[3]
        at = form.end()
    return pairs


def _expanded(value: str) -> tuple[str, ...]:
    try:
        return tuple(expand(value)) if value else ()
    except HostlistError as error:
        raise ValueError(str(error)) from None


def _sizes(value: str) -> list[int]:
    sizes = value.split(",")
    if not all(size.isascii() and size.isdigit() and len(size) < 10 for size in sizes):
        raise ValueError(f'BlockSizes="{value}" is not a list of numbers')
    return [int(size) for size in sizes]


def write(tree: Tree) -> str:
    """A `topology.conf` for topology/tree, leaves first; ValueError for a name that Slurm could not read."""
    called = slurm_names(tree)
    lines = []
    for path, members in tree.domains.items():
        words = [f"SwitchName={called[path]}"]
        if members.nodes:
            words.append(f"Nodes={compress(members.nodes)}")
        if members.domains:
            words.append(f"Switches={compress(called[inner] for inner in members.domains)}")
        lines.append(" ".join(words))
    return "".join(f"{line}\n" for line in lines)


def slurm_names(tree: Tree) -> dict[Path, str]:
    """What each domain is called in Slurm: its own name where that tells it apart, else one made from its path."""
    _refuse_unfit(tree.places)
    own = {path: path[-1].name for path in tree}
    if len(set(own.values())) == len(own) and all(map(fits, own.values())):
        return own
    return names(tree)


def _refuse_unfit(nodes: Iterable[str]) -> None:
    for node in nodes:
        if not fits(node):
            raise ValueError(f'node "{node}" cannot be written in Slurm\'s format')
