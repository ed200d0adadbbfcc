"""Volumes that wait for claims: how many each claim could have from each node, and which one it gets.

A claim gets the smallest volume that fits, as Kubernetes' binder chooses; of equal ones that which the fewest nodes
reach. The counts follow every placement and every rewind. Where a volume can be reached from one node alone, as local
disks can, a count per node is all there is to it; one that several nodes reach is taken from all of them at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np

from tierwise.api.selector import matches
from tierwise.framework.ledger import Ledger, stays_released
from tierwise.model.arrays import Bools, Ints, ranks, summed
from tierwise.model.job import Shape
from tierwise.model.volumes import ClaimTerms, Storage, VolumeKind
from tierwise.plugins.kubernetes.taken import TakenLog

__all__ = ["MADE", "RESERVED", "VolumePool", "suits"]

MADE = -1
"""Means a volume that is made for the claim."""

RESERVED = -2
"""Means the volume that is meant for this very claim."""

_encode = msgspec.msgpack.Encoder().encode


def suits(kind: VolumeKind, claim: ClaimTerms) -> bool:
    """Whether a claim could have volumes of a kind, from wherever they can be reached."""
    return (
        kind.storage_class == claim.storage_class
        and kind.capacity >= claim.size
        and kind.volume_mode == claim.volume_mode
        and kind.attributes_class == claim.attributes_class
        and set(claim.access_modes) <= set(kind.access_modes)
        and matches(claim.selector, dict(kind.labels), absent=True)
    )


_FEW = 8
"""Rows up to which a kind of volumes is looked up by row."""


_STATED = 4096
"""Kinds of volumes that are looked at to say what pods leave for each other."""


class _Choice(msgspec.Struct, frozen=True, eq=False):
    """The volumes that one claim could have: kinds, in the order in which they are taken."""

    kinds: Ints
    fits: Bools  # by kind: whether it is among them
    free: Ints  # per row: how many can be had from there
    reach: Bools  # per row: whether any can be reached from there
    narrow: Ints  # places among the kinds of those that few rows reach, by row
    first: Ints  # those of a row are from first[row] up to first[row + 1]
    wide: Ints  # places of the others
    local: bool  # none of them can be reached from two rows

    def at(self, row: int) -> list[int]:
        """The kinds that may be reached from a row, in order; some of the wide ones may not."""
        narrow = self.narrow[self.first[row] : self.first[row + 1]]
        kinds: list[int] = self.kinds[np.sort(np.concatenate((narrow, self.wide)))].tolist()
        return kinds


class VolumePool:
    """The volumes of a cluster that no claim is settled on."""

    def __init__(
        self,
        ledger: Ledger,
        storage: Storage,
        shapes: Iterable[Shape],
        reach: Callable[[Ints], tuple[Ints, Ints]],
        rows: int,
    ) -> None:
        """`reach` gives the rows that volumes of each of some kinds can be reached from, and how many each has."""
        self._columns = storage.columns
        self._names = [names for _, names in storage.volumes]
        self._left: Ints = np.array([len(names) for names in self._names], dtype=np.int64)
        self._reach = reach
        self._rows_of: dict[int, Ints] = {}  # by kind that was asked about
        self._rows = rows
        self._choices: dict[bytes, _Choice] = {}
        self._by_shape: dict[int, list[_Choice | None]] = {}
        self._log = TakenLog[list[int]]()  # what each claim got
        for shape in shapes:
            claims = shape.volumes.wanted if shape.volumes is not None else ()
            choices = [self._choice(claim) if _chooses(claim) else None for claim in claims]
            if any(choice is not None and len(choice.kinds) for choice in choices):
                self._by_shape[shape.number] = choices
        if self._by_shape:
            ledger.follow(self, linger=stays_released)

    def _choice(self, claim: ClaimTerms) -> _Choice:
        key = _encode(claim)
        choice = self._choices.get(key)
        if choice is None:
            choice = self._choices[key] = self._chosen(claim)
        return choice

    def _chosen(self, claim: ClaimTerms) -> _Choice:
        columns = self._columns
        meant = np.array([suits(kind, claim) for kind in columns.largest], dtype=bool)
        fits = meant[columns.terms] & (columns.size >= bisect_left(columns.sizes, claim.size))
        kinds = np.flatnonzero(fits)
        row, widths = self._reach(kinds)
        order = np.lexsort((kinds, widths, columns.size[kinds]))
        free = summed(row, np.repeat(self._left[kinds], widths), self._rows)
        place = np.repeat(ranks(order.tolist()), widths)
        few = np.repeat(widths <= _FEW, widths)
        by_row = np.lexsort((place[few], row[few]))
        row_starts = np.searchsorted(row[few][by_row], np.arange(self._rows + 1))
        wide = np.flatnonzero(widths[order] > _FEW)
        local = bool((widths <= 1).all())
        return _Choice(kinds[order], fits, free, free > 0, place[few][by_row], row_starts, wide, local)

    def _reached(self, kind: int) -> Ints:
        """The rows that the volumes of a kind can be reached from."""
        rows = self._rows_of.get(kind)
        if rows is None:
            rows = self._rows_of[kind] = self._reach(np.array([kind]))[0]
        return rows

    def reachable(self, claim: ClaimTerms) -> Bools:
        """The rows from which any volume can be reached that a claim could have."""
        return self._choice(claim).reach

    def chooses(self, shape: Shape) -> bool:
        """Whether a claim of the shape could have one of these volumes."""
        return shape.number in self._by_shape

    def local(self, shape: Shape) -> bool:
        """Whether each of the volumes that claims of the shape could have can be reached from one row alone."""
        return all(choice is None or choice.local for choice in self._by_shape.get(shape.number, ()))

    def free(self, shape: Shape) -> Ints:
        """By row, how many volumes the one claim of a shape could have from there."""
        (choice,) = self._by_shape[shape.number]
        assert choice is not None, "a shape is noted for a claim that chooses"
        return choice.free

    def supplies(self, shape: Shape) -> tuple[Ints, Ints] | None:
        """The places whose rows reach the same volumes that the one claim of a shape could have, and how many.

        None where places would overlap: a row reaches some that another place reaches, too.
        """
        (choice,) = self._by_shape[shape.number]
        assert choice is not None, "a shape is noted for a claim that chooses"
        if len(choice.kinds) > _STATED:
            return None
        places = np.full(self._rows, -1, dtype=np.int64)
        number = 0
        volumes_left = list[int]()
        sizes: list[int] = []
        for kind in choice.kinds.tolist():
            rows = self._reached(kind)
            if not len(rows):
                continue
            place_number = int(places[rows[0]])
            if (places[rows] != place_number).any() or (place_number >= 0 and sizes[place_number] != len(rows)):
                return None
            if place_number < 0:
                place_number, number = number, number + 1
                places[rows] = place_number
                volumes_left.append(0)
                sizes.append(len(rows))
            volumes_left[place_number] += int(self._left[kind])
        return places, np.array(volumes_left, dtype=np.int64)

    def meet(self, shape: Shape, other_shape: Shape) -> bool:
        """Whether claims of two shapes could have the same volume."""
        pairs = ((a, b) for a in self._by_shape[shape.number] for b in self._by_shape[other_shape.number])
        return any(bool((a.fits & b.fits).any()) for a, b in pairs if a is not None and b is not None)

    def alike(self, shape: Shape, other_shape: Shape) -> bool:
        """Whether the one claim of each of two shapes could have the very same volumes."""
        return self._by_shape[shape.number] == self._by_shape[other_shape.number]

    def lacking(self, shape: Shape, span: slice, needless_by_claim: Sequence[Bools]) -> Bools:
        """Rows where some claim of a shape gets no volume. `needless_by_claim`: rows where the claim needs none."""
        choices = self._by_shape.get(shape.number) or [None] * len(needless_by_claim)
        lacking = np.zeros(span.stop - span.start, dtype=bool)
        contested = np.zeros_like(lacking)
        for choice, besides in zip(choices, needless_by_claim, strict=True):
            free = choice.free[span] if choice is not None else np.zeros(len(lacking), dtype=np.int64)
            lacking |= (free <= 0) & ~besides[span]
            # With as many volumes as claims for each of them, no choice leaves another claim without one.
            contested |= (free < len(needless_by_claim)) & ~besides[span]
        if len(needless_by_claim) > 1:
            for at in np.flatnonzero(contested & ~lacking).tolist():
                row = span.start + at
                volumes_taken = self._take(shape, row, dict[int, int]())
                lacking[at] = any(
                    k == MADE and not o[row] for k, o in zip(volumes_taken, needless_by_claim, strict=True)
                )
        return lacking

    def _take(self, shape: Shape, row: int, used: dict[int, int]) -> list[int]:
        """What the claims of a task would get on a row, one after the other; `used` is what was taken besides."""
        volumes_taken: list[int] = []
        for choice in self._by_shape[shape.number]:
            volume_kind = self._first(choice, row, used) if choice is not None and choice.free[row] > 0 else MADE
            if volume_kind != MADE:
                used[volume_kind] = used.get(volume_kind, 0) + 1
            volumes_taken.append(volume_kind)
        return volumes_taken

    def _first(self, choice: _Choice, row: int, used: dict[int, int]) -> int:
        """The first kind that has a volume left which can be reached from a row; `MADE` if there is none."""
        for k in choice.at(row):
            if self._left[k] > used.get(k, 0) and (choice.local or row in self._reached(k)):
                return k
        return MADE

    def count(self, ledger: Ledger, shape: Shape, rows: Ints, counts: Ints) -> None:
        """Tasks come and take volumes, or leave and give them back."""
        if shape.number not in self._by_shape:
            return
        for row, number in zip(rows.tolist(), counts.tolist(), strict=True):
            for _ in range(abs(number)):
                if number > 0:
                    volumes_taken = self._take(shape, row, {})
                    self._move(ledger, volumes_taken, -1)
                    self._log.add(ledger, shape, row, volumes_taken)
                else:
                    volumes_by_task = self.taken().get((shape.number, row))
                    if volumes_by_task:  # who stood there before the cycle began took nothing
                        self._move(ledger, volumes_by_task[-1], 1)
                        self._log.add(ledger, shape, row, volumes_by_task[-1], back=True)

    def _move(self, ledger: Ledger, kinds: Sequence[int], by: int) -> None:
        for k in kinds:
            if k < 0:
                continue
            ledger.save(self._left, np.array([k]))
            self._left[k] += by
            rows = self._reached(k)
            for choice in self._choices.values():
                if choice.fits[k]:
                    ledger.save(choice.free, rows)
                    choice.free[rows] += by

    def taken(self) -> dict[tuple[int, int], list[list[int]]]:
        """By shape and row, what the tasks there have taken, in order."""
        return self._log.by_place()

    def names(self, kind: int) -> tuple[str, ...]:
        """The volumes of a kind, in natural order of their names."""
        return self._names[kind]


def _chooses(claim: ClaimTerms) -> bool:
    """Whether a claim may have any volume that fits: none is being made for it, and none is meant for it."""
    return not claim.selected_node and not claim.reserved
