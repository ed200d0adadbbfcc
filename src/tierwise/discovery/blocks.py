"""A tree from blocks of nodes and the sizes in which they are joined, as Slurm's topology/block does.

Called by the two Slurm readers. Blocks that follow each other in the file are joined by twos, fours and so on, as the
sizes say: with sizes 30 and 120, four blocks of at least 30 nodes form one domain of tier 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from tierwise.discovery.tree import Discovered, Path, Remark, Step, Tree

__all__ = ["Block", "joined"]

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
        places |= dict.fromkeys(block.nodes, _path(blocks, index, factors))
    base = sizes[0] if sizes else 0
    for block in blocks:
        if len(block.nodes) < base:
            text = f"{name} {block.name} has {len(block.nodes)} nodes, fewer than the base size {base}"
            remarks.append(Remark(block.where, text, error=False))
    tier_names = {tier: name if factor == 1 else f"{name}x{factor}" for tier, factor in enumerate(factors, start=1)}
    return Discovered.of(Tree(places, tier_names, unique=True), remarks)


def _path(blocks: Sequence[Block], index: int, factors: Sequence[int]) -> Path:
    """The domains around a block. Blocks left over at the end form no domain that holds one smaller one alone."""
    steps = [Step(1, blocks[index].name)]
    held = 1
    for tier, factor in enumerate(factors[1:], start=2):
        start = index - index % factor
        group = blocks[start : start + factor]
        if len(group) > held:
            # A domain of several blocks is called by its first and last.
            steps.append(Step(tier, f"{group[0].name}-{group[-1].name}"))
        held = len(group)
    return tuple(reversed(steps))


def _twins(blocks: Sequence[Block], name: str) -> Iterator[Remark]:
    first: dict[str, Block] = {}
    homes: dict[str, str] = {}
    for block in blocks:
        if block.name in first:
            yield Remark(block.where, f"{name} {block.name} is given twice, first at {first[block.name].where}")
        first.setdefault(block.name, block)
        for node in dict.fromkeys(block.nodes):
            other = homes.setdefault(node, block.name)
            if other != block.name:
                yield Remark(block.where, f"node {node} is in {name} {block.name} and in {other}")


def _odd_sizes(sizes: Sequence[int], where: str) -> Iterator[Remark]:
    if sizes and sizes[0] < 1:
        yield Remark(where, f"block size {sizes[0]} is not positive")
        return
    for before, size in pairwise(sizes):
        factor, rest = divmod(size, sizes[0])
        if rest or factor & (factor - 1) or size <= before:
            text = f"block size {size} is not {sizes[0]} times a power of two above {before // sizes[0]}"
            yield Remark(where, text)
