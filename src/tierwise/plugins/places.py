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

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.config.arguments import number
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, Ask, CycleView, Foresight, Scorer
from tierwise.framework.kept import KeptOfLedger
from tierwise.framework.node_scores import ComparedScores
from tierwise.model.arrays import Bools, Floats, Ints, Rows, begins, of_rows
from tierwise.model.job import Shape

__all__ = ["Places"]

_IDLE = 100.0
_TIME = 50.0
_END = 5.0
"""The most that idle devices of a host, the time for which it would be whole, and the distance of ends weigh."""
_MOST = 3.0
"""How much more a whole host of an empty leaf counts than one of a usual leaf, at most."""
_LATE = 4.0
"""How much worse it is to keep a host from being whole for some time than to leave a part of it idle for as long."""
_SCALE = 2.5
"""Of the scores of hosts, so that they decide beside up to 100 of other plugins."""
_NO_HOST = 1e8


class _Leaves(msgspec.Struct, frozen=True):
    """All rows of some leaves in their order, in which those directly in a domain follow each other."""

    numbers: Ints
    rows: Rows
    starts: Ints  # by leaf, the position at which it begins, and how many rows it has
    sizes: Ints

    def mean(self, values: Floats) -> Floats:
        """By position, the mean of these over its leaf."""
        mean_by_position: Floats = (np.add.reduceat(values, self.starts) / self.sizes).repeat(self.sizes)
        return mean_by_position


class _Hosts(msgspec.Struct, frozen=True):
    """Hosts by some devices."""

    idle: Floats  # by row: the share of these devices that is idle
    again: Floats  # by row: when all of them are idle; infinite where that is not known


@takes_part(Foresight, Scorer, scores_by_shape=True)
class Places(ComparedScores):
    """The room ahead by domain for gangs; for pods alone the cost of the best host there, and scores of hosts."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        super().__init__(view)
        self._weight = number(arguments, "weight", 1)
        self._ledger = view.ledger
        self._topology = view.topology
        self._ahead = view.ahead
        self._now = view.snapshot.now
        self._devices = view.axis.devices
        moved = view.ledger.moved
        self._hosts = KeptOfLedger(moved, Places._first_hosts, Places._look)
        self._of_run = KeptOfLedger(moved, Places._costs_of_run)
        self._least = KeptOfLedger(moved, Places._first_least, Places._least_again)
        self._asked: dict[int, Ints] = {}

    def room_ahead(self, ask: Ask, room: Ints, open_rows: Bools) -> Floats | None:
        """By domain, the mean room over the run of a gang, or what the best host for a pod alone costs."""
        run = self._ahead.run_time(ask.job)
        if not self._speaks(ask):
            by = self._ahead.planner(ask.job)
            if run:
                return self._ahead.mean(ask.shape, room, open_rows, run, by)
            return None
        if run:
            return self._topology.least(self._first_least(ask, open_rows, run))
        return self._topology.least(self._least.of(ask.shape.number, self, ask, open_rows, run))

    # -- pods alone

    def _speaks(self, ask: Ask) -> bool:
        return len(ask.job.tasks) == 1 and ask.sub.constraint is not None and len(self._devices_of(ask.shape)) > 0

    def _devices_of(self, shape: Shape) -> Ints:
        """The devices that a task asks for."""
        devices = self._asked.get(shape.number)
        if devices is None:
            devices = self._asked[shape.number] = self._devices[shape.request[self._devices] > 0]
        return devices

    def _compared(self, ask: Ask, span: slice, fits: Bools) -> Floats:
        costs = self._costs(ask, self._ahead.run_time(ask.job), self._around(np.arange(span.start, span.stop)))
        before = span.start - int(self._topology.own_start[self._topology.leaf[span.start]])
        scores: Floats = self._weight * _SCALE * (_IDLE + _TIME + _END - costs[before : before + len(fits)])
        return scores

    # What the best host of each leaf costs, `_NO_HOST` where none takes the pod.

    def _first_least(self, ask: Ask, open_rows: Bools, run: float) -> Floats:
        return self._least_in(self._every, ask, open_rows, run, np.full(len(self._topology), _NO_HOST))

    def _least_again(self, ask: Ask, open_rows: Bools, run: float, least_costs: Floats, changed: Ints) -> Floats:
        return self._least_in(self._around(changed), ask, open_rows, run, least_costs)

    def _least_in(self, leaves: _Leaves, ask: Ask, open_rows: Bools, run: float, least_costs: Floats) -> Floats:
        rows = leaves.rows
        shape = ask.shape
        free = of_rows(self._ledger.idle, shape.asked, rows) >= shape.request[shape.asked, None]
        fits = np.logical_and.reduce(free, axis=0) & open_rows[rows]
        costs = np.where(fits, self._costs(ask, run, leaves), _NO_HOST)
        if len(costs):
            least_costs[leaves.numbers] = np.minimum.reduceat(costs, leaves.starts)
        return least_costs

    @cached_property
    def _every(self) -> _Leaves:
        size = len(self._nodes)
        return replace(self._around(np.arange(size)), rows=slice(0, size))

    def _around(self, rows: Ints) -> _Leaves:
        """The leaves of some rows in order."""
        topology = self._topology
        leaf = topology.leaf[rows]
        numbers = leaf[begins(leaf)]
        first_rows = topology.own_start[numbers]
        sizes = topology.end[numbers] - first_rows
        ends = sizes.cumsum()
        starts = ends - sizes
        rows = (first_rows - starts).repeat(sizes) + np.arange(ends[-1] if len(ends) else 0)
        return _Leaves(numbers, rows, starts, sizes)

    # What each host costs.

    def _costs(self, ask: Ask, run: float, leaves: _Leaves) -> Floats:
        """Idle devices count most, then the time in which it would be whole, then how far its end is from the pod's.

        Whole hosts are worth more in a leaf that has more of them ahead than others. Where no run is known, the whole
        hosts of now stay whole.
        """
        devices = self._devices_of(ask.shape)
        if run:
            by = self._ahead.planner(ask.job)
            return self._of_run.of((devices.tobytes(), run, by), self, devices, run, by)[leaves.rows]
        idle, is_whole = self._idle(devices, leaves.rows)
        costs_of_host: Floats = _IDLE * idle + _TIME / _MOST * is_whole * leaves.mean(is_whole)
        return costs_of_host

    def _costs_of_run(self, devices: Ints, run: float, by: str) -> Floats:
        """By row."""
        leaves = self._every
        hosts = self._hosts.of((devices.tobytes(), by), self, devices, by)
        apart = self._now + run - hosts.again
        is_whole_in_time = np.minimum(np.maximum(apart / run, 0.0), 1.0)
        usual = np.add.reduce(is_whole_in_time) / len(is_whole_in_time)
        worth = np.minimum(leaves.mean(is_whole_in_time) / (usual or 1.0), _MOST) / _MOST
        late = np.maximum(_LATE * apart, -apart)
        costs: Floats = _IDLE * hosts.idle + _TIME * is_whole_in_time * worth + _END * (1.0 - run / (late + run))
        return costs

    def _first_hosts(self, devices: Ints, by: str) -> _Hosts:
        size = len(self._nodes)
        return self._look(devices, by, _Hosts(np.zeros(size), np.zeros(size)), slice(0, size))

    def _look(self, devices: Ints, by: str, hosts: _Hosts, rows: Rows) -> _Hosts:
        """Look again at hosts that have changed."""
        hosts.idle[rows], is_whole = self._idle(devices, rows)
        hosts.again[rows] = np.where(is_whole, self._now, self._ahead.whole_from(devices, rows, by))
        return hosts

    def _idle(self, devices: Ints, rows: Rows) -> tuple[Floats, Floats]:
        """By row, the share of devices that is idle, and 1 where all are."""
        total = of_rows(self._nodes.allocatable, devices, rows)
        free = of_rows(self._ledger.idle, devices, rows)
        share: Floats = np.add.reduce(free / np.maximum(total, 1), axis=0) / len(devices)
        return share, np.logical_and.reduce(free >= total, axis=0).astype(float)
