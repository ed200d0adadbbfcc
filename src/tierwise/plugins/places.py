"""places: prefer what takes least from later gangs, counted in whole hosts and leaves over the time that a gang runs.

    a gang     k tasks of a leaf cost the mean over its run of a² - (a - k)²; a: tasks that the leaf would hold
    a pod      costs the idle devices of its host, and the time for which the host would be whole without it

What runs ends as `model.endings` says, and nothing new comes (`framework.room_ahead`). Where it is not known how
long a gang runs, the room of now counts as that ahead. A pod alone goes to the host that costs least; of equal ones to
that whose end is closest to its own, rather later than earlier; cpu and memory do not count.

Argument: `weight` (1), of the scores of hosts beside those of other plugins.
"""

from __future__ import annotations

from functools import cached_property
from math import inf

import msgspec
import numpy as np

from tierwise.config.arguments import number
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, Ask, CycleView, Foresight, Scorer
from tierwise.framework.kept import KeptOfLedger
from tierwise.framework.node_scores import ComparedScores
from tierwise.model.arrays import Bools, Floats, Ints, begins, distinct

__all__ = ["Places"]

_IDLE, _TIME, _END = 100.0, 50.0, 5.0
"""The most that idle devices of a host, the time for which it would be whole, and the distance of ends weigh."""
_MOST = 3.0
"""How much more a whole host of an empty leaf counts than one of a usual leaf, at most."""
_LATE = 4.0
"""How much worse it is to keep a host from being whole for some time than to leave a part of it idle for as long."""
_SCALE = 2.5
"""Of the scores of hosts, so that they decide beside up to 100 of other plugins."""
_NO_HOST = 1e8


class _Leaves(msgspec.Struct, frozen=True):
    """All rows of some leaves, leaf by leaf: those directly in a domain follow each other."""

    rows: Ints
    starts: Ints  # the position at which each leaf begins
    first: Ints  # by position, that at which its leaf begins, and that behind its leaf
    end: Ints

    @classmethod
    def of(cls, rows: Ints, leaf: Ints) -> _Leaves:
        starts = np.flatnonzero(begins(leaf[rows]))
        ends = np.append(starts[1:], len(rows))
        return cls(rows, starts, np.repeat(starts, ends - starts), np.repeat(ends, ends - starts))

    def mean(self, values: Floats) -> Floats:
        """By position, the mean of these over its leaf."""
        sums = np.concatenate(([0.0], np.cumsum(values)))
        found: Floats = (sums[self.end] - sums[self.first]) / (self.end - self.first)
        return found


class _Hosts(msgspec.Struct, frozen=True):
    """Hosts by some devices."""

    idle: Floats  # by row: the share of these devices that is idle
    again: Floats  # by row: when all of them are idle; infinite where that is not known


class _Least(msgspec.Struct, frozen=True):
    """What the best host for a pod of some shape costs."""

    by_leaf: Floats  # of the rows directly in a domain; `_NO_HOST` where none takes the pod
    by_domain: Floats


@takes_part(Foresight, Scorer, scores_by_shape=True)
class Places(ComparedScores):
    """The room ahead by domain for gangs; for pods alone the cost of the best host there, and scores of hosts."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        super().__init__(view)
        self._weight = number(arguments, "weight", 1)
        self._ledger, self._topology, self._ahead = view.ledger, view.topology, view.ahead
        self._now = view.snapshot.now
        self._devices = view.axis.devices
        self._hosts = KeptOfLedger(view.ledger.moved, Places._first_hosts, Places._look)
        self._least = KeptOfLedger(view.ledger.moved, Places._first_least, Places._least_of)
        self._seen: dict[bytes, _Leaves] = {}

    def room_ahead(self, ask: Ask, room: Ints, open_rows: Bools) -> Floats | None:
        """By domain, the mean room over the run of a gang, or what the best host for a pod alone costs."""
        run = self._ahead.run_time(ask.job)
        if self._speaks(ask):
            return self._of_hosts(ask, open_rows, run)
        return self._ahead.mean(ask.shape, room, open_rows, run) if run else None

    # -- pods alone

    def _speaks(self, ask: Ask) -> bool:
        alone = len(ask.job.tasks) == 1 and ask.sub.constraint is not None
        return alone and bool(ask.shape.request[self._devices].any())

    def _of_hosts(self, ask: Ask, open_rows: Bools, run: float) -> Floats:
        """By domain, what its best host costs; where no run is known, that is kept, and follows what has changed."""
        if run:
            return self._first_least(ask, open_rows, run).by_domain
        return self._least.of(ask.shape.number, self, ask, open_rows, run).by_domain

    def _first_least(self, ask: Ask, open_rows: Bools, run: float) -> _Least:
        none = _Least(np.full(len(self._topology), _NO_HOST), np.zeros(0))
        return self._least_of(ask, open_rows, run, none)

    def _least_of(self, ask: Ask, open_rows: Bools, run: float, least: _Least, changed: Ints | None = None) -> _Least:
        """What the best host of each domain costs, once these rows have changed, or all."""
        hosts, leaves = self._known_hosts(ask, run), self._around(changed)
        rows, shape = leaves.rows, ask.shape
        fits = (self._ledger.idle[shape.asked[:, None], rows] >= shape.request[shape.asked, None]).all(axis=0)
        key = np.where(fits & open_rows[rows], self._costs(hosts, leaves, run), _NO_HOST)
        if len(rows):
            least.by_leaf[self._topology.leaf[leaves.rows[leaves.starts]]] = np.minimum.reduceat(key, leaves.starts)
        return _Least(least.by_leaf, self._topology.least(least.by_leaf))

    def _compared(self, ask: Ask, span: slice, fits: Bools) -> Floats:
        run = self._ahead.run_time(ask.job)
        hosts, every = self._known_hosts(ask, run), self._every
        around = slice(int(every.first[span.start]), int(every.end[span.stop - 1]))
        leaves = _Leaves.of(every.rows[around], self._topology.leaf)
        own = slice(span.start - around.start, span.stop - around.start)
        found: Floats = self._weight * _SCALE * (_IDLE + _TIME + _END - self._costs(hosts, leaves, run)[own])
        return found

    @cached_property
    def _every(self) -> _Leaves:
        return _Leaves.of(np.arange(len(self._nodes)), self._topology.leaf)

    def _around(self, changed: Ints | None) -> _Leaves:
        """The leaves of rows that have changed, or all; most are the same again and again."""
        if changed is None:
            return self._every
        leaf = self._topology.leaf
        numbers = distinct(leaf[changed])
        key = numbers.tobytes()
        if key not in self._seen:
            spans = map(self._topology.own_span, numbers.tolist())
            rows = np.concatenate([np.arange(span.start, span.stop) for span in spans])
            self._seen[key] = _Leaves.of(rows, leaf)
        return self._seen[key]

    def _known_hosts(self, ask: Ask, run: float) -> _Hosts:
        """The hosts by the devices that a task asks for, as the ledger is now."""
        asked = self._devices[ask.shape.request[self._devices] > 0]
        return self._hosts.of((asked.tobytes(), bool(run)), self, asked, run)

    def _first_hosts(self, asked: Ints, run: float) -> _Hosts:
        size = len(self._nodes)
        return self._look(asked, run, _Hosts(np.zeros(size), np.zeros(size)))

    def _look(self, asked: Ints, run: float, hosts: _Hosts, changed: Ints | None = None) -> _Hosts:
        """Look again at the hosts of leaves in which these rows have changed, or at all."""
        rows = self._around(changed).rows
        total, free = self._nodes.allocatable[asked[:, None], rows], self._ledger.idle[asked[:, None], rows]
        hosts.idle[rows] = (free / np.maximum(total, 1)).mean(axis=0)
        ends = self._ahead.whole_from(asked, rows) if run else inf
        hosts.again[rows] = np.where(np.all(free >= total, axis=0), self._now, ends)
        return hosts

    def _costs(self, hosts: _Hosts, leaves: _Leaves, run: float) -> Floats:
        """Idle devices count most, then the time in which it would be whole, then how far its end is from the pod's.

        Whole hosts are worth more in a leaf that has more of them ahead than others. Where no run is known, the whole
        hosts of now stay whole.
        """
        rows, again = leaves.rows, hosts.again[leaves.rows]
        if not run:
            whole = (again <= self._now).astype(float)
            kept: Floats = _IDLE * hosts.idle[rows] + _TIME / _MOST * whole * leaves.mean(whole)
            return kept
        apart = self._now + run - again
        whole, usual = np.clip(apart / run, 0.0, 1.0), np.clip((self._now + run - hosts.again) / run, 0.0, 1.0).mean()
        worth = np.minimum(leaves.mean(whole) / (usual or 1.0), _MOST) / _MOST
        late = np.maximum(_LATE * apart, -apart)
        found: Floats = _IDLE * hosts.idle[rows] + _TIME * whole * worth + _END * (1.0 - run / (late + run))
        return found
