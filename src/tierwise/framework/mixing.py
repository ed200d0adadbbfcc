"""Deal tasks of several shapes over a tree, all below one domain, in whole multiples: exact where it is small enough.

What a node can take is a set of mixtures (so many tasks of each shape); what a domain can take is every sum of one
mixture of each of its parts whose total is a whole multiple. Sets are arrays of truth over all mixtures, counted from
the nodes up, so a solution is found if there is one. `gathering` does the same for one shape, where numbers suffice.

The work grows with the number of mixtures, so there is a bound, and `fits_bound` says whether a demand is within it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from math import lcm, prod

import msgspec
import numpy as np

from tierwise.framework.gathering import Ground, Quanta, Way
from tierwise.model.arrays import Bools, Ints

__all__ = ["Mixed", "Mixture", "fits_bound"]

_MIXTURES = 2048
"""How many mixtures a demand may have."""
_PLACES = 16
"""How many domains of a tier are tried: counting tells nearly always which of them hold the tasks."""

Mix = tuple[int, ...]
"""How many tasks of each shape."""


def fits_bound(counts: Mix) -> bool:
    """Whether so many tasks of each shape can be mixed exactly."""
    return prod(count + 1 for count in counts) <= _MIXTURES


class Mixed(msgspec.Struct, frozen=True, eq=False):
    """Where tasks go: the domain that holds them all, rows in the order in which they are filled, and how many each."""

    domain: int
    rows: Ints
    numbers: Ints  # (rows x shapes)


class _Part(msgspec.Struct, frozen=True):
    """A child domain or a row, and what it can take."""

    number: int
    is_row: bool
    takes: Bools  # by mixture


class Mixture:
    """So many tasks of each shape, on the room that rows have for them."""

    def __init__(self, ground: Ground, counts: Mix, requests: Ints, free: Ints, *, open_to: Bools) -> None:
        """`requests` are (shapes x resources), `free` (resources x rows); filters let `open_to`, (shapes x rows)."""
        self._counts = counts
        self._size = tuple(count + 1 for count in counts)
        mixes = np.indices(self._size).reshape(len(counts), -1)
        self._totals: Ints = mixes.sum(axis=0).reshape(self._size)
        self._kinds, self._kind_of = _kinds(mixes, requests, free, open_to)
        most = (self._kinds * self._totals.ravel()).max(axis=1, initial=0)
        self._ground = Ground(ground.topology, ground.rank, most[self._kind_of], ground.drawn, ground.standing)

    def find(self, way: Way) -> Mixed | None:
        """The best domain of the way's tier that takes all tasks."""
        count = sum(self._counts)
        dealing = _Dealing(self, way)
        for place in islice(self._ground.each(way, count), _PLACES):
            if way.tier <= 0:
                row = int(place.rows[0])
                if self.of_row(row)[self._counts]:
                    return Mixed(place.domain, np.array([row]), np.array([self._counts]))
            elif (dealt := dealing.deal(place.domain)) is not None:
                rows = np.array(list(dealt), dtype=np.int64)
                return Mixed(place.domain, rows, np.array(list(dealt.values()), dtype=np.int64))
        return None

    @property
    def ground(self) -> Ground:
        """The tree, with the most tasks of any mixture that each row takes."""
        return self._ground

    @property
    def counts(self) -> Mix:
        return self._counts

    def of_row(self, row: int) -> Bools:
        """Which mixtures a row has room for."""
        result: Bools = self._kinds[self._kind_of[row]].reshape(self._size)
        return result

    def in_steps(self, takes: Bools, quantum: int, held: int) -> Bools:
        """Only mixtures that make a whole multiple together with what is held."""
        return takes if quantum == 1 else takes & ((self._totals + held) % quantum == 0)

    @cached_property
    def nothing(self) -> Bools:
        """What no part at all can take."""
        takes = np.zeros(self._size, dtype=bool)
        takes[(0,) * len(self._counts)] = True
        return takes

    def least(self, mixes: Ints) -> Mix:
        """Of some mixtures (n x shapes) one with the fewest tasks."""
        order = np.lexsort((*mixes.T[::-1], mixes.sum(axis=1)))
        return tuple(int(number) for number in mixes[order[0]])


def _kinds(mixes: Ints, requests: Ints, free: Ints, open_to: Bools) -> tuple[Bools, Ints]:
    """Rows that are alike: which mixtures each kind takes, (kinds x mixtures), and the kind of each row."""
    columns = np.concatenate((np.maximum(free, 0), open_to.astype(np.int64)))
    alike, kind_of = np.unique(columns, axis=1, return_inverse=True)
    asked = requests.T @ mixes  # (resources x mixtures)
    resources = len(free)
    takes = np.ones((alike.shape[1], mixes.shape[1]), dtype=bool)
    for kind, column in enumerate(alike.T):
        takes[kind] = (asked <= column[:resources, None]).all(axis=0)
        takes[kind] &= ((mixes == 0) | (column[resources:, None] > 0)).all(axis=0)
    return takes, kind_of.ravel()


class _Dealing:
    """Sets of mixtures from the rows up, and the way back down."""

    def __init__(self, mixture: Mixture, way: Way) -> None:
        self._mixture = mixture
        self._ground = mixture.ground
        self._quanta: Quanta = self._ground.quanta(way)
        self._whole = lcm(*(number for _, number in way.multiples))
        self._room: Ints = self._ground.topology.totals(self._ground.room)
        self._inside: dict[int, tuple[list[_Part], list[Bools]]] = {}

    def deal(self, domain: int) -> dict[int, Mix] | None:
        """How many tasks of each shape every row below a domain takes, in the order of filling; None if it cannot."""
        target = self._mixture.counts
        held = int(self._quanta.held[domain])
        if (sum(target) + held) % self._whole:
            return None
        parts, tables = self._add_up(domain, until=target)
        return self._followed(parts, tables, target) if tables[-1][target] else None

    def _add_up(self, domain: int, until: Mix | None = None) -> tuple[list[_Part], list[Bools]]:
        """The parts of a domain in order, and what the first so many of them take together; `until` may end it early.

        Parts in which tasks stand come first: these may have to take some to make a multiple whole.
        """
        parts: list[_Part] = []
        tables = [self._mixture.nothing]
        for number, is_row, bound in self._ordered(domain):
            if until is not None and tables[-1][until] and not bound:
                break
            takes = self._of_row(number) if is_row else self._of_domain(number)
            parts.append(_Part(number, is_row, takes))
            tables.append(_sums(tables[-1], takes))
        return parts, tables

    def _ordered(self, domain: int) -> Iterator[tuple[int, bool, bool]]:
        """Parts with room or with tasks of the gang: number, whether a row, and whether such tasks stand there."""
        ground, topology = self._ground, self._ground.topology
        children = np.array(topology.children[domain], dtype=np.int64)
        after = int(topology.end[children[-1]]) if len(children) else int(topology.start[domain])
        direct = np.arange(after, int(topology.end[domain]))
        direct = direct[ground.inside[direct]]
        held = np.concatenate((self._quanta.held[children], ground.standing[direct]))
        room = np.concatenate((self._room[children], ground.room[direct]))
        drawn = np.concatenate((ground.drawn_below[children], ground.drawn[direct]))
        rank = np.concatenate((topology.rank[children], ground.rank[direct]))
        is_row = np.repeat((False, True), (len(children), len(direct)))
        order = np.lexsort((rank, is_row, -room, -drawn, held == 0))
        order = order[(room[order] > 0) | (held[order] > 0)]
        numbers = np.concatenate((children, direct))
        yield from zip(numbers[order].tolist(), is_row[order].tolist(), (held[order] > 0).tolist(), strict=True)

    def _of_row(self, row: int) -> Bools:
        quantum, standing = int(self._quanta.rows[row]), int(self._quanta.standing[row])
        return self._mixture.in_steps(self._mixture.of_row(row), quantum, standing)

    def _of_domain(self, child: int) -> Bools:
        if child not in self._inside:
            self._inside[child] = self._add_up(child)
        quantum, held = int(self._quanta.domains[child]), int(self._quanta.held[child])
        return self._mixture.in_steps(self._inside[child][1][-1], quantum, held)

    def _followed(self, parts: list[_Part], tables: list[Bools], mix: Mix) -> dict[int, Mix]:
        """What each row takes; the last parts take as little as they can."""
        dealt: list[dict[int, Mix]] = []
        for part, before in zip(reversed(parts), reversed(tables[:-1]), strict=True):
            mine = self._share(part.takes, before, mix)
            mix = tuple(a - b for a, b in zip(mix, mine, strict=True))
            if any(mine) and part.is_row:
                dealt.append({part.number: mine})
            elif any(mine):
                dealt.append(self._followed(*self._inside[part.number], mine))
        return {row: numbers for rows in reversed(dealt) for row, numbers in rows.items()}

    def _share(self, takes: Bools, before: Bools, mix: Mix) -> Mix:
        """The least that a part can take of a mixture if the parts before it take the rest."""
        upto = tuple(slice(0, number + 1) for number in mix)
        able = takes[upto] & np.flip(before[upto])
        return self._mixture.least(np.argwhere(able))


def _sums(one: Bools, other: Bools) -> Bools:
    """Every sum of a mixture of one set and a mixture of the other."""
    few, many = sorted((one, other), key=np.count_nonzero)
    result = np.zeros_like(many)
    for mix in np.argwhere(few):
        shifted = tuple(slice(int(number), None) for number in mix)
        kept = tuple(slice(0, size - int(number)) for size, number in zip(many.shape, mix, strict=True))
        result[shifted] |= many[kept]
    return result
