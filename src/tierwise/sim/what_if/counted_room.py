"""How much room each domain has for a waiting job by count alone: what is free, and what would be if pods were gone.

Pods of every shape are counted by node, and added up by domain; so are amounts where a job has several shapes. Rules
between pods, limits of its parts and the job's own limit are left out, so a domain that lacks something by count has
no place for certain, and one that lacks nothing should have one. The page asks which domains nearly have room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from tierwise.actions.placement.demand import demand
from tierwise.config.profile import Profile
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Bools, Ints, distinct
from tierwise.model.job import Job, Shape
from tierwise.model.snapshot import Ground, Snapshot
from tierwise.scheduler.cycle import open_cycle

__all__ = ["CountedRoom"]


class CountedRoom(msgspec.Struct, frozen=True):
    """The room for one job, by row and by domain."""

    snapshot: Snapshot
    needs: tuple[tuple[Shape, int], ...]  # tasks of each shape that are still to be placed
    open: tuple[Bools, ...]  # of each shape: rows where nothing but amounts can be in the way
    free: Ints  # (resources x rows)
    fits: tuple[Ints, ...]  # of each shape: how many more tasks each row takes now

    @classmethod
    def of(cls, snapshot: Snapshot, profile: Profile, job: Job) -> CountedRoom | None:
        """None for a job that nothing is to be placed of, and for one whose limits are on another tree than rows."""
        current = open_cycle(snapshot, profile)
        if snapshot.ground(job) is not Ground.ROWS:
            return None
        needs: Counter[Shape] = Counter()
        for task_group in demand(current, job).task_groups:
            for pod_set, number in task_group.taken():
                needs[pod_set.shape] += number
        if not needs:
            return None
        return cls(
            snapshot=snapshot,
            needs=tuple(needs.items()),
            open=tuple(current.pipeline.why_not(shape) == 0 for shape in needs),
            free=current.ledger.free(np.arange(len(snapshot.axis)), slice(None), Pool.IDLE),
            fits=tuple(current.fit_counts.of(shape).rows(Pool.IDLE).copy() for shape in needs),
        )

    @property
    def pods(self) -> int:
        """How many pods are still to be placed."""
        return sum(number for _, number in self.needs)

    def lacking(self, fits: Sequence[Ints] | None = None, free: Ints | None = None) -> Ints:
        """By domain, how many pods find no room there by count: of the shape, or the amount, that lacks most.

        It asks with what is free now, unless other counts by shape and row, and other free amounts, are given.
        """
        topology = self.snapshot.topology
        lacking = np.zeros(len(topology), dtype=np.int64)
        for (_, number), rows in zip(self.needs, self.fits if fits is None else fits, strict=True):
            np.maximum(lacking, number - topology.totals(rows), out=lacking)
        if len(self.needs) > 1:
            np.maximum(lacking, self._amounts_lacking(self.free if free is None else free), out=lacking)
        return lacking

    def _amounts_lacking(self, free: Ints) -> Ints:
        """By domain, how many of the largest requests together are more than what it lacks of an amount."""
        everywhere = np.logical_or.reduce(self.open)
        asked = distinct(np.concatenate([shape.asked for shape, _ in self.needs]))
        totals = self.snapshot.topology.all_totals(np.maximum(free[asked], 0) * everywhere)
        requests = np.sum([shape.request[asked] * number for shape, number in self.needs], axis=0)
        largest = np.max([shape.request[asked] for shape, _ in self.needs], axis=0)
        short: Ints = -((totals - requests[:, None]) // largest[:, None])
        lacking: Ints = np.maximum(short.max(axis=0), 0)
        return lacking

    def fits_with(self, freed: Ints, rows: Ints | slice = slice(None)) -> tuple[Ints, ...]:
        """Of each shape, how many tasks rows take with so much more free on them."""
        free = self.free[:, rows] + freed
        counts = []
        for (shape, _), is_open, before in zip(self.needs, self.open, self.fits, strict=True):
            with_freed = np.maximum(before[rows], shape.max_tasks(free[shape.asked]))
            counts.append(np.where(is_open[rows], with_freed, before[rows]))
        return tuple(counts)

    def holds(self, domain: int, rows: Ints, freed: Ints) -> bool:
        """Whether a domain lacks nothing once so much more is free on some of its rows."""
        span = self.snapshot.topology.span(domain)
        for (_, number), before, after in zip(self.needs, self.fits, self.fits_with(freed, rows), strict=True):
            if int(before[span].sum()) + int((after - before[rows]).sum()) < number:
                return False
        if len(self.needs) == 1:
            return True
        free = self.free.copy()
        free[:, rows] += freed
        return bool(self._amounts_lacking(free)[domain] == 0)
