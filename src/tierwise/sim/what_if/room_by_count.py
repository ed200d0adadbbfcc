"""Whether a job has room by count once pods of some gangs are gone; what they free is kept by row and by domain.

Callers ask about one set of gangs after the other, and most sets differ in few gangs from the one before. Only the rows
of these gangs are counted again, and their shares are added to the domains around them. Used by the search for the
evictions that cost least, and by the first answer to what would start a job.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec
import numpy as np

from tierwise.model.arrays import Bools, Ints, distinct
from tierwise.model.job import Job
from tierwise.sim.what_if.fewest import PLENTY, Counting, Counts

__all__ = ["RoomByCount", "Shortfall"]


class Shortfall(msgspec.Struct, frozen=True):
    """Amount that a queue lacks of its limit for the job; only pods of these queues can return it."""

    queue: str
    queues: frozenset[str]  # itself and those inside it
    missing: Ints  # by resource

    def returned_by(self, owners: Sequence[Job | None]) -> Bools:
        """Which owners' pods hold what counts in the queue."""
        return np.array([owner is not None and owner.queue in self.queues for owner in owners], dtype=bool)


class _GangPods(msgspec.Struct, frozen=True):
    """The pods of one gang that may go only where it is broken."""

    rows: Ints  # rows on which that frees something
    freed: Ints  # (requested resources x rows): what it frees there
    returned: Ints  # (shortfalls x resources): what it returns to queues


class RoomByCount:
    """The room that a job has by count, as one set of gangs after the other is broken."""

    def __init__(
        self,
        owners: Sequence[Job | None],
        limits: Counts,
        surplus: Mapping[int, int],
        rows: Ints,
        amounts: Ints,
        counting: Counting | None,
        shortfalls: Sequence[Shortfall],
    ) -> None:
        """Pods of some kinds, each with its owner, how many there are, their row and what each holds.

        `surplus` names the gangs that can be broken by number, and how many pods each can lose unbroken.
        """
        self._most = np.array(limits, dtype=np.int64)
        self._spared = _spared(owners, limits, surplus)
        self._rows = rows
        self._amounts = amounts
        self._counting = counting
        self._shortfalls = shortfalls
        self._family = [short.returned_by(owners) for short in shortfalls]
        self._missing = np.array([short.missing for short in shortfalls], dtype=np.int64)
        self._returned = np.array(
            [(amounts * self._spared)[:, family].sum(axis=1) for family in self._family], dtype=np.int64
        )
        self._broken: set[int] = set()
        if counting is not None:
            self._free = counting.idle.copy()
            on_rows = rows >= 0
            freed = (amounts * self._spared)[counting.pod_set.shape.asked]
            np.add.at(self._free.T, rows[on_rows], freed[:, on_rows].T)
            self._fits = self._takes(np.arange(len(counting.fits)))
            self._totals = counting.snapshot.topology.totals(self._fits)
            self._judged = np.zeros(len(self._totals), dtype=bool)
            self._judged[counting.domains] = True
            self._holding = int((self._totals[counting.domains] >= counting.need).sum())
        self._kinds = _kinds_of(owners, surplus)
        self._pods: dict[int, _GangPods] = {}

    def limits(self, going: Collection[int]) -> Counts:
        """How many pods of each kind may go where of all gangs these alone may be broken."""
        limits = self._spared.copy()
        for number in going:
            kinds = self._kinds[number]
            limits[kinds] = self._most[kinds]
        return tuple(limits.tolist())

    def may_do(self, going: Collection[int]) -> bool:
        """Whether a count does not rule out that the job starts once all pods that may go then are gone."""
        self._become(going)
        return self._has_room()

    def _has_room(self) -> bool:
        if (self._returned < self._missing).any():
            return False
        return self._counting is None or self._holding > 0

    def needed(self, going: Sequence[int]) -> tuple[int, ...] | None:
        """Of these gangs those without which the job has no room by count, the last left out first.

        None where it has none with all of them.
        """
        if not self.may_do(going):
            return None
        needed_gangs = []
        for number in reversed(going):
            self._change(number, -1)
            if self._has_room():
                self._broken.discard(number)
            else:
                self._change(number, 1)
                needed_gangs.append(number)
        return tuple(reversed(needed_gangs))

    def tier(self, going: Collection[int]) -> int:
        """The tier of the tightest domain that holds the job by count then."""
        self._become(going)
        counting = self._counting
        assert counting is not None
        return int(min(counting.snapshot.topology.tier[counting.domains[self._held()]], default=PLENTY))

    def _held(self) -> Bools:
        counting = self._counting
        assert counting is not None
        enough: Bools = self._totals[counting.domains] >= counting.need
        return enough

    def _become(self, going: Collection[int]) -> None:
        """Break these gangs and no others."""
        breaking = set(going)
        for number in self._broken - breaking:
            self._change(number, -1)
        for number in breaking - self._broken:
            self._change(number, 1)
        self._broken = breaking

    def _change(self, number: int, sign: int) -> None:
        pods = self._pods.get(number)
        if pods is None:
            pods = self._pods[number] = self._pods_of(self._kinds[number])
        if len(self._shortfalls):
            self._returned += sign * pods.returned
        counting = self._counting
        if counting is None or not len(pods.rows):
            return
        self._free[:, pods.rows] += sign * pods.freed
        fits = self._takes(pods.rows)
        further = fits - self._fits[pods.rows]
        self._fits[pods.rows] = fits
        topology = counting.snapshot.topology
        need = counting.need
        for row, number_further in zip(pods.rows.tolist(), further.tolist(), strict=True):
            if not number_further:
                continue
            around = topology.chains[int(topology.leaf[row])]
            before = self._totals[around]
            after = before + number_further
            self._totals[around] = after
            judged = self._judged[around]
            self._holding += int((judged & (after >= need)).sum()) - int((judged & (before >= need)).sum())

    def _takes(self, rows: Ints) -> Ints:
        """How many tasks of the job rows take with what is free on them now."""
        counting = self._counting
        assert counting is not None
        fits = counting.fits[rows]
        taken = np.maximum(fits, counting.takes(self._free[:, rows]))
        result: Ints = np.where(counting.open[rows] > 0, taken, fits)
        return result

    def _pods_of(self, kinds: Ints) -> _GangPods:
        """The amounts that breaking a gang frees, whose kinds these are."""
        more = self._most[kinds] - self._spared[kinds]
        freed = self._amounts[:, kinds] * more
        returned = np.array([freed[:, family[kinds]].sum(axis=1) for family in self._family], dtype=np.int64)
        counting = self._counting
        if counting is None:
            return _GangPods(kinds[:0], freed[:, :0], returned)
        on_rows = self._rows[kinds] >= 0
        rows = distinct(self._rows[kinds][on_rows])
        position = rows.searchsorted(self._rows[kinds][on_rows])
        by_row = np.zeros((len(counting.pod_set.shape.asked), len(rows)), dtype=np.int64)
        np.add.at(by_row.T, position, freed[counting.pod_set.shape.asked][:, on_rows].T)
        return _GangPods(rows, by_row, returned)


def _spared(owners: Sequence[Job | None], limits: Counts, surplus: Mapping[int, int]) -> Ints:
    """How many pods of each kind may go while no gang is broken."""
    surplus_left = dict(surplus)
    spared = []
    for owner, limit in zip(owners, limits, strict=True):
        number = owner.number if owner is not None else -1
        if number in surplus_left:
            limit = min(limit, surplus_left[number])
            surplus_left[number] -= limit
        spared.append(limit)
    return np.array(spared, dtype=np.int64)


def _kinds_of(owners: Sequence[Job | None], gangs: Mapping[int, object]) -> dict[int, Ints]:
    """By number of each gang, its kinds."""
    kinds: dict[int, list[int]] = {number: [] for number in gangs}
    for kind, owner in enumerate(owners):
        if owner is not None and owner.number in kinds:
            kinds[owner.number].append(kind)
    return {number: np.array(indexes, dtype=np.int64) for number, indexes in kinds.items()}
