"""Slurm's descriptions of a network: topology.conf and topology.yaml, switches and blocks, read and written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Annotated, Final

import msgspec
import yaml
from msgspec.structs import replace

from tierwise.api.codec import converted
from tierwise.api.errors import InputError, suggestion
from tierwise.api.natural import natural
from tierwise.discovery.hostlist import HostlistError, compress, expand, fits
from tierwise.discovery.naming import names
from tierwise.discovery.tree import Discovered, Path, PathElement, SourceRemark, Tree

__all__ = ["Switch", "merge_planes", "parse_conf", "parse_yaml", "without_planes", "write_conf", "write_yaml"]


# A tree from blocks of nodes and the sizes in which they are joined, as Slurm's topology/block does.
#
# Called by the two Slurm readers. Blocks that follow each other in the file are joined by twos, fours and so on, as
# the sizes say: with sizes 30 and 120, four blocks of at least 30 nodes form one domain of tier 2.


_NAME: Final = "block"


class Block(msgspec.Struct, frozen=True):
    """A block as it was written, and where."""

    name: str
    nodes: tuple[str, ...]
    where: str


def joined(blocks: Sequence[Block], sizes: Sequence[int], where: str, name: str = _NAME) -> Discovered:
    """The tree of these blocks: one tier for the blocks, and one for each further size."""
    remarks = [*_twins(blocks, name), *_odd_sizes(sizes, where)]
    if remarks:
        return Discovered.failed(*remarks)
    factors = [1, *(size // sizes[0] for size in sizes[1:])]
    places: dict[str, Path] = {}
    for index, block in enumerate(blocks):
        places |= dict.fromkeys(block.nodes, _block_path(blocks, index, factors))
    base = sizes[0] if sizes else 0
    for block in blocks:
        if len(block.nodes) < base:
            text = f"{name} {block.name} has {len(block.nodes)} nodes, fewer than the base size {base}"
            remarks.append(SourceRemark(block.where, text, error=False))
    tier_names = {tier: name if factor == 1 else f"{name}x{factor}" for tier, factor in enumerate(factors, start=1)}
    return Discovered.of(Tree(places, tier_names, unique=True), remarks)


def _block_path(blocks: Sequence[Block], index: int, factors: Sequence[int]) -> Path:
    """The domains around a block. Blocks left over at the end form no domain that holds one smaller one alone."""
    steps = [PathElement(1, blocks[index].name)]
    block_size = 1
    for tier, factor in enumerate(factors[1:], start=2):
        start = index - index % factor
        group = blocks[start : start + factor]
        if len(group) > block_size:
            # A domain of several blocks is called by its first and last.
            steps.append(PathElement(tier, f"{group[0].name}-{group[-1].name}"))
        block_size = len(group)
    return tuple(reversed(steps))


def _twins(blocks: Sequence[Block], name: str) -> Iterator[SourceRemark]:
    seen: dict[str, Block] = {}
    homes: dict[str, str] = {}
    for block in blocks:
        if block.name in seen:
            yield SourceRemark(block.where, f"{name} {block.name} is given twice, first at {seen[block.name].where}")
        seen.setdefault(block.name, block)
        for node in dict.fromkeys(block.nodes):
            block_of_node = homes.setdefault(node, block.name)
            if block_of_node != block.name:
                yield SourceRemark(block.where, f"node {node} is in {name} {block.name} and in {block_of_node}")


def _odd_sizes(sizes: Sequence[int], where: str) -> Iterator[SourceRemark]:
    if sizes and sizes[0] < 1:
        yield SourceRemark(where, f"block size {sizes[0]} is not positive")
        return
    for before, size in pairwise(sizes):
        factor, remainder = divmod(size, sizes[0])
        if remainder or factor & (factor - 1) or size <= before:
            text = f"block size {size} is not {sizes[0]} times a power of two above {before // sizes[0]}"
            yield SourceRemark(where, text)


# A tree from switches that name their nodes and the switches below them, as Slurm's configuration does.
#
# Called by the two Slurm readers, and by `topology import` for its planes. Switches with the same members are planes
# of one domain: Slurm's own guide lists four spines over the same leaves, and then advises to list one. Any other
# switch with two parents, and a node on two switches that differ, cannot be told in a tree and is an error.


class Switch(msgspec.Struct, frozen=True):
    """A switch as it was written, and where."""

    name: str
    nodes: tuple[str, ...]
    children: tuple[str, ...]
    where: str


def grown(written: Sequence[Switch], tier_names: Mapping[int, str] | None = None) -> Discovered:
    """The tree of these switches: tier 1 has nodes alone, every other switch is one above its highest child."""
    remarks = list(_references(written))
    if remarks:
        return Discovered.failed(*remarks)
    switches, parents, merged = without_planes(written)
    remarks += merged
    heights = _heights(switches)
    for switch in switches.values():
        if switch.name not in heights:
            remarks.append(SourceRemark(switch.where, f"switch {switch.name} is below itself, or holds one that is"))
    if any(remark.error for remark in remarks):
        return Discovered.failed(*remarks)
    places = {
        node: _switch_path(switch.name, parents, heights) for switch in switches.values() for node in switch.nodes
    }
    remarks += _empty(switches.values(), places)
    return Discovered.of(Tree(places, tier_names or {}, unique=True), remarks)


def _references(switches: Iterable[Switch]) -> Iterator[SourceRemark]:
    """Yield an error for each switch whose name is given twice, and for each child switch that does not exist."""
    seen: dict[str, Switch] = {}
    for switch in switches:
        if switch.name in seen:
            yield SourceRemark(switch.where, f"switch {switch.name} is given twice, first at {seen[switch.name].where}")
        seen.setdefault(switch.name, switch)
    for switch in seen.values():
        for child in switch.children:
            if child not in seen:
                yield SourceRemark(switch.where, f"switch {switch.name} names switch {child}, which does not exist")


def without_planes(written: Sequence[Switch]) -> tuple[dict[str, Switch], dict[str, str], list[SourceRemark]]:
    """The switches with one for all that have the same members, the parent of each, and what is to be said.

    A warning for each switch that represents others; an error for whatever still has two parents.
    """
    switches, remarks = merge_planes(written)
    parents: dict[str, str] = {}
    remarks += _claims(switches.values(), parents)
    return switches, parents, remarks


def merge_planes(written: Sequence[Switch]) -> tuple[dict[str, Switch], list[SourceRemark]]:
    """One switch for all that have the same members, by name, and a warning for each that represents others."""
    switches = {switch.name: switch for switch in sorted(written, key=lambda switch: natural(switch.name))}
    planes: dict[str, list[str]] = {}
    while True:
        by_members: dict[tuple[frozenset[str], frozenset[str]], str] = {}
        instead: dict[str, str] = {}
        for switch in switches.values():
            members = frozenset(switch.nodes), frozenset(switch.children)
            if any(members):
                representative = by_members.setdefault(members, switch.name)
                if representative != switch.name:
                    instead[switch.name] = representative
                    planes.setdefault(representative, []).extend([switch.name, *planes.pop(switch.name, [])])
        if not instead:
            break
        # References to a merged plane now name its representative, which may make further switches equal.
        switches = {
            name: replace(switch, children=tuple(dict.fromkeys(instead.get(c, c) for c in switch.children)))
            for name, switch in switches.items()
            if name not in instead
        }
    remarks = []
    for representative, merged_names in planes.items():
        others = ", ".join(sorted(merged_names, key=natural))
        text = f"switch {representative} stands for {others} too: they have the same members"
        remarks.append(SourceRemark(switches[representative].where, text, error=False))
    return switches, remarks


def _claims(switches: Iterable[Switch], parents: dict[str, str]) -> Iterator[SourceRemark]:
    """Fills in the parents of switches; errors for switches and nodes that several claim."""
    homes: dict[str, str] = {}
    for switch in switches:
        for child in dict.fromkeys(switch.children):
            parent = parents.setdefault(child, switch.name)
            if parent != switch.name:
                yield SourceRemark(
                    switch.where, f"switch {child} is below {switch.name} and below {parent}: two parents"
                )
        for node in dict.fromkeys(switch.nodes):
            parent = homes.setdefault(node, switch.name)
            if parent != switch.name:
                yield SourceRemark(switch.where, f"node {node} is on switch {switch.name} and on {parent}")


def _heights(switches: Mapping[str, Switch]) -> dict[str, int]:
    """The tier of each switch; those in or above a circle have none."""
    order = TopologicalSorter({name: switch.children for name, switch in switches.items()})
    with suppress(CycleError):  # what is outside of it can still be had
        order.prepare()
    heights: dict[str, int] = {}
    while ready := order.get_ready():
        for name in ready:
            heights[name] = 1 + max((heights[child] for child in switches[name].children), default=0)
        order.done(*ready)
    return heights


def _switch_path(name: str, parents: Mapping[str, str], heights: Mapping[str, int]) -> Path:
    steps = [PathElement(heights[name], name)]
    while steps[-1].name in parents:
        above = parents[steps[-1].name]
        steps.append(PathElement(heights[above], above))
    return tuple(reversed(steps))


def _empty(switches: Iterable[Switch], places: Mapping[str, Path]) -> Iterator[SourceRemark]:
    used = set()
    for place in places.values():
        for step in place:
            used.add(step.name)
    for switch in switches:
        if switch.name not in used:
            yield SourceRemark(switch.where, f"no node is below switch {switch.name}: it is left out", error=False)


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
    """Content of a file's lines."""

    switches: list[Switch] = []
    blocks: list[Block] = []
    rings: list[Block] = []
    sizes: list[int] = []
    sizes_at: str = ""


def parse_conf(text: str, file: str) -> Discovered:
    """The tree that a file describes; remarks name the file and the line."""
    written = _Written()
    remarks: list[SourceRemark] = []
    for number, line in _lines(text):
        try:
            _take(line, f"{file}:{number}", written)
        except ValueError as error:
            remarks.append(SourceRemark(f"{file}:{number}", str(error)))
    kinds = [kind for kind in (written.switches, written.blocks, written.rings) if kind]
    if len(kinds) > 1:
        remarks.append(SourceRemark(file, "switches, blocks and rings cannot be told in one tree: give one of them"))
    if written.sizes and not written.blocks:
        remarks.append(SourceRemark(written.sizes_at, "BlockSizes stands alone, without blocks"))
    if not kinds and not remarks:
        remarks.append(SourceRemark(file, "names no switch, block or ring"))
    if remarks:
        return Discovered.failed(*remarks)
    if written.switches:
        return grown(written.switches)
    if written.rings:
        return joined(written.rings, [], file, "ring")
    return joined(written.blocks, written.sizes, written.sizes_at)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that say something, without comments and continued ones in one piece, with the number of their first."""
    start = 0
    pending = ""
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
        written.sizes = _sizes(pairs[leading])
        written.sizes_at = where
        return
    name = pairs[leading]
    nodes = _expanded(pairs.get("nodes", ""))
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
            raise ValueError(f"{form[1]} is given twice")
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


def write_conf(tree: Tree) -> str:
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
    """Slurm name of each domain: its own name if that is unique, else one made from its path."""
    _refuse_unfit(tree.places)
    plain_names = {path: path[-1].name for path in tree}
    if len(set(plain_names.values())) == len(plain_names) and all(map(fits, plain_names.values())):
        return plain_names
    return names(tree)


def _refuse_unfit(nodes: Iterable[str]) -> None:
    for node in nodes:
        if not fits(node):
            raise ValueError(f'node "{node}" cannot be written in Slurm\'s format')


# Slurm's `topology.yaml`: several named topologies, each a tree of switches, a list of blocks or rings, or flat.
#
# One topology is read: the one asked for, else the first that is the cluster's default, else the first. The data has
# been read from YAML already; fields are named by their path. https://slurm.schedmd.com/topology.yaml.html describes
# the format.


_Name = int | Annotated[str, msgspec.Meta(min_length=1)]  # YAML reads the name 7 as a number


class _SwitchEntry(msgspec.Struct, frozen=True):
    switch: _Name
    nodes: _Name | None = None
    children: _Name | None = None


class _BlockEntry(msgspec.Struct, frozen=True):
    block: _Name
    nodes: _Name | None = None


class _RingEntry(msgspec.Struct, frozen=True, rename={"block": "ring"}):
    block: _Name
    nodes: _Name | None = None


class _TreeEntry(msgspec.Struct, frozen=True):
    switches: tuple[_SwitchEntry, ...]


class _BlocksEntry(msgspec.Struct, frozen=True):
    blocks: tuple[_BlockEntry, ...]
    block_sizes: tuple[int, ...] | None = None


class _RingsEntry(msgspec.Struct, frozen=True, rename={"blocks": "rings"}):
    blocks: tuple[_RingEntry, ...]
    block_sizes: tuple[int, ...] | None = None


_KINDS: Final = {"tree": _TreeEntry, "block": _BlocksEntry, "ring": _RingsEntry, "flat": object, "torus3d": object}


def parse_yaml(data: object, file: str, topology: str = "") -> Discovered:
    """The tree of one topology; remarks name the file and the field."""
    try:
        document, at = _chosen(converted(data, list[dict[str, object]]), topology)
        kinds = [kind for kind in _KINDS if document.get(kind)]
        if len(kinds) != 1:
            raise InputError(f"exactly one of {', '.join(_KINDS)} is needed", field=at)
        at = f"{at}.{kinds[0]}"
        return _read(converted(document[kinds[0]], _KINDS[kinds[0]], at), kinds[0], file, at)
    except InputError as error:
        return Discovered.failed(SourceRemark(f"{file}: {error.field}" if error.field else file, error.message))


def _chosen(entries: list[dict[str, object]], topology: str) -> tuple[dict[str, object], str]:
    """The topology to read, and its field."""
    if not entries:
        raise InputError("holds no topology")
    named = [entry.get("topology") for entry in entries]
    if topology and topology not in named:
        names = [str(name) for name in named]
        raise InputError(f'there is no topology "{topology}": it has {", ".join(names)}{suggestion(topology, names)}')
    default = next((i for i, entry in enumerate(entries) if entry.get("cluster_default") is True), 0)
    index = named.index(topology) if topology else default
    return entries[index], f"[{index}]"


def _read(found: object, kind: str, file: str, at: str) -> Discovered:
    def hosts(value: _Name | None, field: str) -> tuple[str, ...]:
        try:
            return _expanded("" if value is None else str(value))
        except ValueError as error:
            raise InputError(str(error), field=field) from None

    if isinstance(found, _TreeEntry):
        switches = []
        for i, switch in enumerate(found.switches):
            on = f"{at}.switches[{i}]"
            nodes = hosts(switch.nodes, f"{on}.nodes")
            children = hosts(switch.children, f"{on}.children")
            switches.append(Switch(str(switch.switch), nodes, children, f"{file}: {on}"))
        return grown(switches)
    if isinstance(found, _BlocksEntry | _RingsEntry):
        blocks = []
        entries: Sequence[_BlockEntry | _RingEntry] = found.blocks
        for i, block in enumerate(entries):
            on = f"{at}.{kind}s[{i}]"
            blocks.append(Block(str(block.block), hosts(block.nodes, f"{on}.nodes"), f"{file}: {on}"))
        return joined(blocks, found.block_sizes or (), f"{file}: {at}.block_sizes", kind)
    if kind == "torus3d":
        raise InputError("a torus is no tree", field=at)
    return Discovered.of(Tree({}))


def write_yaml(tree: Tree, name: str = "tierwise") -> str:
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
