"""The obvious answers that `propose` is held against: every set of pieces, every division, and an exact solver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from tests.support.drawn_tree import domains, node_names, read_tree
from tests.support.strategies import trees

from tierwise.framework.extension import Units
from tierwise.model.arrays import Ints
from tierwise.model.topology import Topology
from tierwise.model.tree import Declared, build_tree
from tierwise.plugins.propose.min_cost_cover import CoverCosts

__all__ = ["asked", "cheapest_set", "fewest", "least_loss", "touched", "tree_of"]


def tree_of(drawing: str) -> Topology:
    """A drawn tree as the model has it."""
    members = read_tree(drawing)
    declared = [
        Declared(
            d.name,
            d.tier,
            nodes=frozenset(m for m in d.members if isinstance(m, str)),
            children=tuple(m.name for m in d.members if not isinstance(m, str)),
        )
        for d in domains(members)
    ]
    return build_tree(declared, tuple(node_names(members)))[0]


@st.composite
def asked(draw: DrawFn, most: int = 4) -> tuple[Topology, Units, int]:
    """A tree, room on its rows, a domain of it, and so many units that this domain holds."""
    topology = tree_of(draw(trees()))
    rooms = st.lists(st.integers(0, most), min_size=len(topology.leaf), max_size=len(topology.leaf))
    held = topology.totals(np.array(draw(rooms), dtype=np.int64))
    if not held[0]:
        held = topology.totals(np.ones(len(topology.leaf), dtype=np.int64))
    domain = draw(st.sampled_from(np.flatnonzero(held).tolist()))
    count = draw(st.integers(1, int(held[domain])))
    return topology, Units(None, count, 1, topology.own(held), held), domain


def touched(topology: Topology, pieces: Ints, domain: int) -> list[int]:
    """How many domains of each tier below a domain the pieces touch, outermost first, skipped tiers filled in."""
    counts = []
    for tier in sorted((t for t in topology.at_tier if t < topology.tier[domain]), reverse=True):
        counts.append(len({_at(topology, int(piece), tier) for piece in pieces}))
    return counts


def _at(topology: Topology, piece: int, tier: int) -> tuple[int, bool]:
    """The domain that stands for a piece on a tier: the outermost within it, or the piece itself as one of its own."""
    inside = topology.highest(piece, tier)
    return (piece, True) if inside is None else (inside, False)


def fewest(topology: Topology, units: Units, domain: int) -> tuple[list[int], int]:
    """By looking at every set of pieces: the fewest domains tier by tier, then the least room left over."""
    found = [
        (touched(topology, np.array(pieces), domain), int(units.own[list(pieces)].sum()) - units.count)
        for pieces in _sets(topology, units, domain)
    ]
    return min(found)


def cheapest_set(topology: Topology, units: Units, prices: CoverCosts, domain: int) -> int:
    """By looking at every set of pieces: the lowest price."""
    return min(_price(topology, prices, pieces, domain) for pieces in _sets(topology, units, domain))


def _price(topology: Topology, prices: CoverCosts, pieces: tuple[int, ...], domain: int) -> int:
    around = {d for piece in pieces for d in topology.ancestors(piece) if topology.contains(domain, d)} - {domain}
    return int(sum(prices.touch[d] for d in around) + sum(prices.piece[d] for d in pieces))


def _sets(topology: Topology, units: Units, domain: int) -> Iterator[tuple[int, ...]]:
    pieces = [d for d in range(domain, int(topology.last[domain])) if units.own[d]]
    for size in range(1, len(pieces) + 1):
        for chosen in combinations(pieces, size):
            if units.own[list(chosen)].sum() >= units.count:
                yield chosen


def least_loss(topology: Topology, units: Units, sizes: Mapping[int, int], domain: int) -> int:
    """By looking at every division of the units among the pieces: the fewest slots lost in all domains."""
    pieces = [d for d in range(domain, int(topology.last[domain])) if units.own[d]]
    return min(
        _loss(topology, units, sizes, dict(zip(pieces, counts, strict=True))) for counts in _counts(units, pieces)
    )


def _counts(units: Units, pieces: list[int]) -> Iterator[tuple[int, ...]]:
    def rest(left: int, i: int) -> Iterator[tuple[int, ...]]:
        if i == len(pieces):
            if not left:
                yield ()
            return
        for number in range(min(left, int(units.own[pieces[i]])) + 1):
            for more in rest(left - number, i + 1):
                yield (number, *more)

    return rest(units.count, 0)


def _loss(topology: Topology, units: Units, sizes: Mapping[int, int], taken: Mapping[int, int]) -> int:
    total = 0
    for d in range(len(topology)):
        gone = sum(number for piece, number in taken.items() if topology.contains(d, piece))
        for size, weight in sizes.items():
            total += weight * size * (int(units.held[d]) // size - (int(units.held[d]) - gone) // size)
    return total
