"""Discovered trees in one line, and trees that Hypothesis draws.

fabric("s: r0[n0 n1] r1[n2]") is a domain s of tier 2 over racks r0 and r1.
"""

from __future__ import annotations

import re

from hypothesis import strategies as st

from tierwise.discovery.tree import Path, PathElement, Tree

__all__ = ["fabric", "same_shape", "trees"]

_RACK = re.compile(r"(\S+?)\[([^\]]*)\]")


def fabric(*drawings: str, unique: bool = True) -> Tree:
    """Two tiers: each drawing is a domain of tier 2 with its racks."""
    places: dict[str, Path] = {}
    for drawing in drawings:
        outer, _, racks = drawing.partition(":")
        for name, nodes in _RACK.findall(racks):
            places |= dict.fromkeys(nodes.split(), (PathElement(2, outer), PathElement(1, name)))
    return Tree(places, unique=unique)


def same_shape(one: Tree, other: Tree) -> bool:
    """Whether two trees have the same nodes in the same domains, whatever these are called."""
    return _shape(one) == _shape(other)


def _shape(tree: Tree) -> set[tuple[int, frozenset[str]]]:
    ranks = {tier: rank for rank, tier in enumerate(tree.tiers)}  # what counts is the order of tiers
    nodes: dict[Path, set[str]] = {}
    for node, place in tree.places.items():
        for length in range(1, len(place) + 1):
            nodes.setdefault(place[:length], set()).add(node)
    return {(ranks[path[-1].tier], frozenset(found)) for path, found in nodes.items()}


_NAMES = st.sampled_from(["a", "b", "A", "rack-1", "rack_1", "r1", "r01", "leaf.x", "交换机", "x" * 70])


@st.composite
def trees(draw: st.DrawFn, *, unique: bool = False, gaps: bool = True) -> Tree:
    """Trees of up to four tiers, some paths with gaps; names repeat in different places unless `unique`."""
    height = draw(st.integers(1, 4))
    taken: dict[tuple[Path, int, str], str] = {}
    places: dict[str, Path] = {}
    for number in sorted(draw(st.sets(st.integers(0, 120), min_size=1, max_size=12))):
        path: Path = ()
        for tier in range(height, 0, -1):
            if gaps and draw(st.integers(0, 5)) == 0 and (path or tier > 1):
                continue
            name = draw(_NAMES)
            if unique:
                name = taken.setdefault((path, tier, name), f"sw{len(taken)}")
            path += (PathElement(tier, name),)
        places[f"n{number}"] = path
    return Tree(places, unique=unique)
