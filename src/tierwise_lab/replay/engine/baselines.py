"""Simple rules of placing that are worth beating, each in the words of its origin, on idle GPUs and the tree alone.

They decide in place of the scheduler's cycle: jobs in their order, each whole or not at all, and those behind one that
finds no room are tried as well. No queue, priority of nodes or reservation is looked at.

- `tree`: the lowest domain that fits, fewest free hosts first; in it the largest children first, the last one best fit.
- `kueue`: the same choice level by level over all domains of a level (BestFit of its topology-aware scheduling).
- `kueue-least-free`: there the smallest domains first (LeastFreeCapacity).
- `slurm`: the lowest switch that fits, fewest free nodes first, for one pod too; in it leaf by leaf, nodes in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from tierwise.framework.ledger import Pool
from tierwise.framework.report import CycleReport, Decision, PlacedTasks, SearchCounts
from tierwise.model.arrays import Bools, Ints
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT, Topology
from tierwise_lab.replay.traces.fabric import AXIS, GPU

__all__ = ["RULES", "decided", "rows_by"]

_GPUS = AXIS.index[GPU]


class _Ground(msgspec.Struct, frozen=True):
    """Where pods of one size fit: the hosts, how many of them each domain has, and how many may be taken."""

    topology: Topology
    idle: Ints
    fits: Bools
    free: Ints

    @classmethod
    def of(cls, topology: Topology, idle: Ints, size: int) -> _Ground:
        fits = idle >= size
        return cls(topology, idle, fits, topology.totals(fits.astype(np.int64)))

    def lowest(self, hosts: int, also: Bools) -> int | None:
        """The domain of the lowest tier that has so many hosts, fewest free first; `also` says which may be chosen."""
        enough = (self.free >= hosts) & also
        for domains in (*self.topology.at_tier.values(), np.array([ROOT])):
            able = domains[enough[domains]]
            if len(able):
                return int(able[np.argmin(self.free[able])])
        return None

    def hosts(self, domain: int, number: int) -> list[int]:
        """The first hosts of a domain that fit."""
        span = self.topology.span(domain)
        rows: list[int] = (span.start + np.flatnonzero(self.fits[span])[:number]).tolist()
        return rows

    def fullest(self, domain: int) -> int | None:
        """The host of a domain that fits and has the fewest idle GPUs."""
        span = self.topology.span(domain)
        idle = np.where(self.fits, self.idle, np.iinfo(np.int64).max)
        row = span.start + int(np.argmin(idle[span]))
        return row if idle[row] < np.iinfo(np.int64).max else None


Shares = Iterator[tuple[int, int]]
"""Domains, and how many hosts are taken of each."""
Deal = Callable[[_Ground, int, int], list[int]]
"""The hosts of a domain for so many pods, which fit there."""


def _largest_first(free: Ints, domains: Sequence[int], number: int) -> Shares:
    """The largest domains, until one can hold what is left: then the smallest that can."""
    todo = sorted(domains, key=lambda d: (-free[d], d))
    while number:
        enough = [d for d in todo if free[d] >= number]
        domain_taken = min(enough, key=lambda d: (free[d], d)) if enough else todo[0]
        todo.remove(domain_taken)
        yield domain_taken, (share := min(number, int(free[domain_taken])))
        number -= share


def _smallest_first(free: Ints, domains: Sequence[int], number: int) -> Shares:
    for domain in sorted((d for d in domains if free[d]), key=lambda d: (free[d], d)):
        share = min(number, int(free[domain]))
        if share:
            yield domain, share
        number -= share


def _below(ground: _Ground, domain: int, number: int) -> list[int]:
    """Child by child, and in each of them the same again."""
    children = ground.topology.children[domain]
    if not children or ground.free[list(children)].sum() < number:
        return ground.hosts(domain, number)
    shares = _largest_first(ground.free, children, number)
    return [row for child, share in shares for row in _below(ground, child, share)]


def _levels(shares: Callable[[Ints, Sequence[int], int], Shares]) -> Deal:
    """Level by level: what is chosen of one level says which domains of the next there are, and no more."""

    def dealt(ground: _Ground, domain: int, number: int) -> list[int]:
        domains = [domain]
        while children := [child for d in domains for child in ground.topology.children[d]]:
            if ground.free[children].sum() < number:
                break
            domains = [d for d, _ in shares(ground.free, children, number)]
        return [row for d in domains for row in ground.hosts(d, number)][:number]

    return dealt


def _leaf_by_leaf(ground: _Ground, domain: int, number: int) -> list[int]:
    inside = [d for d in range(domain, int(ground.topology.last[domain])) if not ground.topology.children[d]]
    if ground.free[inside].sum() < number:
        return ground.hosts(domain, number)
    return [row for d, share in _largest_first(ground.free, inside, number) for row in ground.hosts(d, share)]


class Rule(msgspec.Struct, frozen=True):
    """How the hosts of a domain are dealt, and whether a pod alone looks for its leaf before its host."""

    deal: Deal
    leaf_first: bool = False


RULES: Mapping[str, Rule] = {
    "tree": Rule(_below),
    "kueue": Rule(_levels(_largest_first)),
    "kueue-least-free": Rule(_levels(_smallest_first)),
    "slurm": Rule(_leaf_by_leaf, leaf_first=True),
}


def rows_by(rule: Rule, topology: Topology, idle: Ints, sizes: Sequence[int]) -> list[int] | None:
    """A row for every pod of a gang by its GPUs, largest first: alike ones by the rule, the rest close to them.

    None where it finds no room.
    """
    equal_pods = sizes.count(sizes[0])
    last_size = sizes[-1]
    ground = _Ground.of(topology, idle, sizes[0])
    if len(sizes) == 1 and not rule.leaf_first:
        row = ground.fullest(ROOT)
        return None if row is None else [row]
    ground_of_last = _Ground.of(topology, idle, last_size)
    domain = ground.lowest(equal_pods, ground_of_last.free >= min(len(sizes), equal_pods + 1))
    if domain is None:
        return None
    rows = rule.deal(ground, domain, equal_pods)
    idle_left = idle.copy()
    idle_left[rows] -= sizes[0]
    rows += _close(topology, idle_left, rows, sizes[equal_pods:])
    return rows if len(rows) == len(sizes) else None


def _close(topology: Topology, idle: Ints, present_rows: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """Rows for further pods of a gang, one by one in the smallest domain around it that has room, while there is."""
    idle_left = idle.copy()
    rows = list[int]()
    for size in sizes:
        ground = _Ground.of(topology, idle_left, size)
        around = topology.chains[topology.meet_rows(np.array([*present_rows, *rows]))].tolist()
        row = next((row for domain in around if (row := ground.fullest(domain)) is not None), None)
        if row is None:
            break
        rows.append(row)
        idle_left[row] -= size
    return rows


def decided(rule: Rule, seen: Snapshot, idle: Ints) -> CycleReport:
    """The decisions of a simple rule in place of a cycle."""
    idle_left = idle.copy()
    decisions = []
    for job in sorted(seen.jobs, key=lambda job: (-job.priority, job.order)):
        waits = [task for task in job.tasks if task.node < 0]
        tasks = sorted(waits, key=lambda task: -int(task.shape.request[_GPUS]))
        sizes = [int(task.shape.request[_GPUS]) for task in tasks]
        if present_rows := [task.node for task in job.tasks if task.node >= 0]:
            rows = _close(seen.topology, idle_left, present_rows, sizes)
        else:  # whole, or as many as there is room for from the minimum of an elastic gang on
            numbers = range(len(sizes), job.minimum - 1, -1)
            rows = next(
                (rows_found for n in numbers if (rows_found := rows_by(rule, seen.topology, idle_left, sizes[:n]))), []
            )
        if not rows:
            continue
        np.subtract.at(idle_left, rows, sizes[: len(rows)])
        placed = PlacedTasks(job.subs[0], tuple(tasks[: len(rows)]), np.array(rows), Pool.IDLE)
        decisions.append(Decision(job, "allocate", seen.topology.meet_rows(placed.rows), (placed,), bound=True))
    return CycleReport(tuple(decisions), (), {}, {}, {}, SearchCounts())
