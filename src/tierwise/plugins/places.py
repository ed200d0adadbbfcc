"""places: prefer what takes least from later gangs, counted in whole hosts and leaves over the time that a gang runs.

    a gang     k tasks of a leaf cost the mean over its run of a² - (a - k)²; a: tasks that the leaf would hold
    a pod      costs the same with k = 1, from when its host would be whole again up to the pod's own end

What runs ends as `model.expected_ends` says, and nobody new comes (`framework.room_ahead`). Where it is not known how
long a gang runs, the room of now stands for that ahead. A pod alone goes to the host that costs least, then to the one
with the fewest idle devices, then to the fullest leaf; cpu and memory do not count.

Argument: `weight` (1), of the scores of hosts beside those of other plugins.
"""

from __future__ import annotations

import numpy as np

from tierwise.config.arguments import number
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, Ask, CycleView, Foresight, Scorer
from tierwise.framework.node_scores import ComparedScores
from tierwise.model.arrays import Bools, Floats, Ints

__all__ = ["Places"]

_COST, _IDLE, _LEAF = 300.0, 100.0, 1.0
"""The most that the cost of a host, its idle devices and those of its leaf weigh, beside up to 100 of other plugins."""


@takes_part(Foresight, Scorer, scores_by_shape=True)
class Places(ComparedScores):
    """The room ahead by domain for gangs, and scores of hosts for pods alone."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        super().__init__(view)
        self._weight = number(arguments, "weight", 1)
        self._ledger, self._topology, self._ahead = view.ledger, view.topology, view.ahead
        self._now = view.snapshot.now
        self._devices = view.axis.devices()

    def room_ahead(self, ask: Ask, room: Ints, open_rows: Bools) -> Floats | None:
        """By domain, the mean room over the run of a gang."""
        run = self._ahead.run_time(ask.job)
        return self._ahead.mean(ask.shape, room, open_rows, run) if run else None

    # -- pods alone

    def _speaks(self, ask: Ask) -> bool:
        alone = len(ask.job.tasks) == 1 and ask.sub.constraint is not None
        return alone and bool(ask.shape.request[self._devices].any())

    def _compared(self, ask: Ask, span: slice, fits: Bools) -> Floats:
        asked = self._devices[ask.shape.request[self._devices] > 0]
        total = np.maximum(self._nodes.allocatable[asked], 1)
        idle = (self._ledger.idle[asked] / total).mean(axis=0)
        cost = self._costs(ask, asked)
        highest = float(cost[span][fits].max(initial=0.0))
        share = np.minimum(cost, highest) / (highest or 1.0)
        leaf, size = self._topology.leaf, len(self._topology)
        inside = np.bincount(leaf, weights=idle, minlength=size) / np.maximum(np.bincount(leaf, minlength=size), 1)
        score = _COST * (1 - share) + _IDLE * (1 - idle) + _LEAF * (1 - inside[leaf])
        found: Floats = self._weight * score[span]
        return found

    def _costs(self, ask: Ask, asked: Ints) -> Floats:
        """By host: whole hosts of its leaf, squared, that are missed because it is not whole, over the pod's run."""
        leaf, size = self._topology.leaf, len(self._topology)
        whole = (self._ledger.idle[asked] >= self._nodes.allocatable[asked]).all(axis=0)
        wholes = np.bincount(leaf[whole], minlength=size)
        run = self._ahead.run_time(ask.job)
        if not run:
            return np.where(whole, 2.0 * wholes[leaf] - 1, 0.0)
        again = np.where(whole, self._now, self._ahead.whole_from(asked))
        left = np.maximum(self._now + run - again, 0.0)  # the time that it would be whole
        # Of a leaf's hosts that become whole, those before a host count for all of its time, those after it for theirs.
        order = np.lexsort((again, leaf))
        own, time = leaf[order], left[order]
        first = np.searchsorted(own, np.arange(size))
        sums = np.concatenate(([0.0], np.cumsum(time)))
        upto, ends = np.arange(1, len(own) + 1), np.append(first[1:], len(own))
        cost = np.zeros(len(leaf))
        cost[order] = 2 * ((upto - first[own]) * time + sums[ends[own]] - sums[upto]) - time
        return cost
