"""places: prefer what takes least from later gangs, counted in whole hosts and leaves over the time that a gang runs.

    a gang     k tasks of a leaf cost the mean over its run of a² - (a - k)²; a: tasks that the leaf would hold
    a pod      costs the same with k = 1, from when its host would be whole again up to the pod's own end

What runs ends as `model.expected_ends` says, and nobody new comes (`framework.room_ahead`). Where it is not known how
long a gang runs, the room of now stands for that ahead. A pod alone goes to the host that costs least, then to the one
with the fewest idle devices, then to the fullest leaf; cpu and memory do not count.

Argument: `weight` (1), of the scores of hosts beside those of other plugins.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.config.arguments import number
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, Ask, CycleView, Foresight, Scorer
from tierwise.framework.node_scores import ComparedScores
from tierwise.model.arrays import Bools, Floats, Ints, distinct

__all__ = ["Places"]

_COST, _IDLE, _LEAF = 300.0, 100.0, 1.0
"""The most that the cost of a host, its idle devices and those of its leaf weigh, beside up to 100 of other plugins."""
_NO_HOST = 2.0**40


class _Least(msgspec.Struct):
    """What the best host for a pod of some shape costs, and which changes of the ledger that knows of."""

    by_leaf: Floats  # of the rows directly in a domain; `_NO_HOST` where none takes the pod
    by_domain: Floats
    read: int


@takes_part(Foresight, Scorer, scores_by_shape=True)
class Places(ComparedScores):
    """The room ahead by domain for gangs; for pods alone the cost of the best host there, and scores of hosts."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        super().__init__(view)
        self._weight = number(arguments, "weight", 1)
        self._ledger, self._topology, self._ahead = view.ledger, view.topology, view.ahead
        self._now = view.snapshot.now
        self._devices = view.axis.devices()
        self._least: dict[int, _Least] = {}

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
        moved, kept = self._ledger.moved, self._least.get(ask.shape.number) if not run else None
        if kept is None:
            every = np.arange(len(self._nodes))
            by_leaf = np.full(len(self._topology), _NO_HOST)
            self._look(ask, every, open_rows, run, by_leaf)
            kept = _Least(by_leaf, self._topology.least(by_leaf), moved.length)
            if not run:
                self._least[ask.shape.number] = kept
        elif kept.read < moved.length:
            leaves = distinct(self._topology.leaf[moved.since(kept.read, len(self._nodes))])
            rows = [np.arange(span.start, span.stop) for span in map(self._topology.own_span, leaves.tolist())]
            kept.by_leaf[leaves] = _NO_HOST
            self._look(ask, np.concatenate(rows), open_rows, run, kept.by_leaf)
            kept.by_domain, kept.read = self._topology.least(kept.by_leaf), moved.length
        return kept.by_domain

    def _look(self, ask: Ask, rows: Ints, open_rows: Bools, run: float, by_leaf: Floats) -> None:
        """Note the cost of the best of some rows, which are all that their leaves have."""
        shape = ask.shape
        cost, idle, inside = self._measured(ask, rows, run)
        fits = (self._ledger.idle[shape.asked[:, None], rows] >= shape.request[shape.asked, None]).all(axis=0)
        fits &= open_rows[rows]
        share = _shared(cost, fits) if run else cost  # without a run, only whole hosts cost anything: no scale matters
        key = _COST * share + _IDLE * idle + _LEAF * inside
        np.minimum.at(by_leaf, self._topology.leaf[rows[fits]], key[fits])

    def _compared(self, ask: Ask, span: slice, fits: Bools) -> Floats:
        leaf, topology = self._topology.leaf[span], self._topology
        around = slice(int(topology.start[leaf].min()), int(topology.end[leaf].max()))
        inner = slice(span.start - around.start, span.stop - around.start)
        measured = self._measured(ask, np.arange(around.start, around.stop), self._ahead.run_time(ask.job))
        cost, idle, inside = (column[inner] for column in measured)
        score = _COST * (1 - _shared(cost, fits)) + _IDLE * (1 - idle) + _LEAF * (1 - inside)
        found: Floats = self._weight * score
        return found

    def _measured(self, ask: Ask, rows: Ints, run: float) -> tuple[Floats, Floats, Floats]:
        """What hosts cost, and the shares of devices that are idle there and in their leaves; of whole leaves."""
        asked = self._devices[ask.shape.request[self._devices] > 0]
        leaf = self._topology.leaf[rows] - self._topology.leaf[rows].min()
        total, free = self._nodes.allocatable[asked[:, None], rows], self._ledger.idle[asked[:, None], rows]
        idle = (free / np.maximum(total, 1)).mean(axis=0)
        inside = (np.bincount(leaf, weights=idle) / np.maximum(np.bincount(leaf), 1))[leaf]
        return self._costs(leaf, np.all(free >= total, axis=0), asked, rows, run), idle, inside

    def _costs(self, leaf: Ints, whole: Bools, asked: Ints, rows: Ints, run: float) -> Floats:
        """By host: whole hosts of its leaf, squared, that are missed because it is not whole, over the pod's run.

        Given some rows with their leaves, numbered from 0, and which hosts are whole.
        """
        if not run:
            wholes = np.bincount(leaf, weights=whole)
            return np.where(whole, 2.0 * wholes[leaf] - 1, 0.0)
        again = np.where(whole, self._now, self._ahead.whole_from(asked, rows))
        left = np.maximum(self._now + run - again, 0.0) / run  # the share of its run in which it would be whole
        # Of a leaf's hosts that become whole, those before a host count for all of its time, those after it for theirs.
        order = np.lexsort((again, leaf))
        own, time = leaf[order], left[order]
        first = np.searchsorted(own, np.arange(own[-1] + 1))
        sums = np.concatenate(([0.0], np.cumsum(time)))
        upto, ends = np.arange(1, len(own) + 1), np.append(first[1:], len(own))
        cost = np.zeros(len(leaf))
        cost[order] = 2 * ((upto - first[own]) * time + sums[ends[own]] - sums[upto]) - time
        return cost


def _shared(cost: Floats, fits: Bools) -> Floats:
    """Costs as shares of the highest of those that fit."""
    highest = float(cost[fits].max(initial=0.0))
    found: Floats = np.minimum(cost, highest) / (highest or 1.0)
    return found
