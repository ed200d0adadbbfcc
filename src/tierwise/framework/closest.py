"""Which places a gang is split over where none holds all of it: the fewest, and of these the ones missed least.

Taking k tasks' room of a place costs a² - (a - k)², where a is the room that it is expected to have while the gang
runs: room is worth more where there is more of it, since larger gangs fit there. All places of a set but one are used
up, and the one that keeps something is that whose room will grow most.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from math import comb

import msgspec
import numpy as np

from tierwise.model.arrays import Floats, Ints, ordinals
from tierwise.model.topology import Topology

__all__ = ["Split", "least_missed", "pieces_needed", "sets_of_fewest", "sets_that_hold"]

_SETS = 4000
"""Sets of places that are compared at most; where there are more, the largest places are used first."""
_GRAIN = 64
"""Costs are compared in steps of so many to one, so that rounding noise decides nothing."""


class Split(msgspec.Struct, frozen=True):
    """Places by position, how many tasks each takes, and what that costs."""

    places: Ints
    counts: Ints
    cost: int


def least_missed(room: Ints, ahead: Floats, count: int) -> Split | None:
    """The fewest places that hold so many tasks, and of these sets the cheapest; None where there are too many sets."""
    sets = sets_of_fewest(room, count, _SETS, ahead)
    if sets is None:
        return None
    room_of_sets = room[sets]
    over = room_of_sets.sum(axis=1) - count
    # What is left over is less than any place of the set has, or one place fewer would do; so any of them may keep it.
    growth = ahead[sets] - room_of_sets
    cost = (room_of_sets * (2 * ahead[sets] - room_of_sets)).sum(axis=1) - over * (2 * growth.max(axis=1) + over)
    rounded = np.rint(cost * _GRAIN).astype(np.int64)
    best = int(np.argmin(rounded))
    counts = room_of_sets[best].copy()
    counts[len(counts) - 1 - np.argmax(growth[best][::-1])] -= over[best]  # of equal ones the last
    return Split(sets[best], counts, int(rounded[best]))


def sets_of_fewest(room: Ints, count: int, max_sets: int, ahead: Floats | None = None) -> Ints | None:
    """All sets of the fewest places that hold so many tasks, the roomiest places first; None where there are too many.

    Of no set at all where they do not hold so many together. Given their room ahead, of sets that are alike by both
    the first one alone.
    """
    order = np.lexsort((np.arange(len(room)), -room))
    order = order[room[order] > 0]
    fewest = 1 + int(np.searchsorted(np.cumsum(room[order]), count))
    if fewest > len(order):
        return np.zeros((0, fewest), dtype=np.int64)
    if comb(len(order), fewest) > max_sets:
        return None
    if ahead is not None:
        order = order[ordinals((room + 1j * ahead)[order]) < fewest]  # both as one number
    sets = order[_combinations(len(order), fewest)]
    holding_sets: Ints = sets[room[sets].sum(axis=1) >= count]
    return holding_sets


def sets_that_hold(has: Ints, required: Ints, size: int) -> Ints:
    """Sets of `size` places that together have the `required` amounts; none where there are too many sets."""
    number = has.shape[1]
    largest = np.sort(has, axis=1)[:, ::-1][:, :size].sum(axis=1)
    if size > number or (largest < required).any() or comb(number, size) > _SETS:
        return np.zeros((0, size), dtype=np.int64)
    sets = _combinations(number, size)
    holding_sets: Ints = sets[(has[:, sets].sum(axis=2) >= required[:, None]).all(axis=0)]
    return holding_sets


@lru_cache(64)
def _combinations(number: int, size: int) -> Ints:
    index_sets = np.array(list(combinations(range(number), size)), dtype=np.int64).reshape(-1, size)
    index_sets.setflags(write=False)
    return index_sets


def pieces_needed(topology: Topology, room: Ints, domains: Ints, count: int) -> Ints:
    """For each of some domains that do not overlap, how many innermost ones so many tasks take there at least.

    Given the room of every domain.
    """
    own_room = topology.own(room)
    pieces = np.flatnonzero(own_room)
    order = np.argsort(domains)
    owner = np.searchsorted(domains[order], pieces, side="right") - 1
    inside = (owner >= 0) & (pieces < topology.last[domains[order]][owner])
    pieces = pieces[inside]
    owner = owner[inside]
    by_size = np.lexsort((-own_room[pieces], owner))
    sizes = own_room[pieces][by_size]
    owner = owner[by_size]
    before = np.cumsum(sizes) - sizes
    first_piece = np.searchsorted(owner, np.arange(len(domains)))
    start = np.append(before, sizes.sum())[first_piece]
    needed = np.bincount(owner[before - start[owner] < count], minlength=len(domains))
    number_by_domain = np.empty(len(domains), dtype=np.int64)
    number_by_domain[order] = needed
    return number_by_domain
