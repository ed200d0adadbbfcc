"""Place k tasks of a gang below one domain, close together. Called by `trial`; it does not change the ledger.

Distance is decided before score: first the domains with most of the gang's placed tasks, then the child that holds all
remaining tasks with the least capacity left over, and if there is none, the largest child. This uses the fewest domains
at every tier. Inside an innermost domain scores choose the nodes (`placer`). A domain that is used completely is taken
as one slice, so the work grows with the depth of the tree, not with the number of tasks.

`close_reference` in the tests states the same rule task by task.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask
from tierwise.framework.ledger import Pool
from tierwise.framework.placer import Picks, place
from tierwise.model.arrays import Ints
from tierwise.model.topology import ROOT

__all__ = ["walk"]


def walk(cycle: Cycle, ask: Ask, count: int, domain: int, pool: Pool) -> Picks:
    """Choose rows for up to `count` tasks below a domain, close to each other and to the sub-job's placed tasks."""
    if cycle.pipeline.moving(ask.shape):
        return place(cycle, ask, count, cycle.topology.span(domain), pool)
    return _Walk(cycle, ask, pool).run(domain, count)


class _Walk:
    def __init__(self, cycle: Cycle, ask: Ask, pool: Pool) -> None:
        self._cycle = cycle
        self._ask = replace(ask, distance_decided=True)
        self._pool = pool
        self._topology = cycle.topology
        room = cycle.fit_counts.of(ask.shape)
        self._per_row = room.rows(pool)
        self._per_domain = room.domains(pool)
        self._siblings = _siblings(cycle, ask)
        self._rows: list[Ints] = []
        self._counts: list[Ints] = []

    def run(self, domain: int, count: int) -> Picks:
        self._descend(domain, min(count, int(self._per_domain[domain])))
        if not self._rows:
            empty = np.zeros(0, dtype=np.int64)
            return empty, empty
        rows, counts = np.concatenate(self._rows), np.concatenate(self._counts)
        order = np.argsort(rows)
        return rows[order], counts[order]

    def _descend(self, domain: int, count: int) -> None:
        if not count:
            return
        children = self._topology.children[domain]
        if count >= self._per_domain[domain] or not children:
            self._span(self._topology.span(domain), count)
            return
        for child, number in self._split(domain, children, count):
            if child == domain:
                self._span(self._topology.own_span(domain), number)
            else:
                self._descend(child, number)

    def _span(self, span: slice, count: int) -> None:
        rows, counts = place(self._cycle, self._ask, count, span, self._pool)
        self._rows.append(rows)
        self._counts.append(counts)

    def _split(self, domain: int, children: tuple[int, ...], count: int) -> list[tuple[int, int]]:
        """How many tasks each child takes; the domain's own number stands for the rows directly in it."""
        places = np.array([*children, domain])
        room = self._per_domain[places]
        room[-1] = self._per_row[self._topology.own_span(domain)].sum()
        parts: list[tuple[int, int]] = []
        for siblings in self._siblings:
            known = siblings[places]
            known[-1] -= known[:-1].sum()
            for i in np.argsort(-known, kind="stable"):
                if known[i] <= 0 or not count:
                    break
                number = min(count, int(room[i]))
                if number:
                    parts.append((int(places[i]), number))
                room[i] = 0
                count -= number
        parts += _fewest(places, room, count)
        return parts


def _fewest(places: Ints, room: Ints, count: int) -> list[tuple[int, int]]:
    """Use the largest children first, until one of the others holds the rest: that one with the least left over."""
    order = np.argsort(-room, kind="stable")
    sizes = room[order]
    parts: list[tuple[int, int]] = []
    for i, size in enumerate(sizes.tolist()):
        if not count or not size:
            break
        if size >= count:
            tightest = sizes[i:][sizes[i:] >= count].min()
            i += int(np.argmax(sizes[i:] == tightest))
            size = count
        parts.append((int(places[order[i]]), size))
        count -= size
    return parts


def _siblings(cycle: Cycle, ask: Ask) -> list[Ints]:
    """For each domain, the number of placed tasks of the sub-job, and then of the whole job."""
    own = cycle.ledger.placed_rows(ask.sub)
    found = [cycle.topology.spread(*own)] if own is not None else []
    if len(ask.job.subs) > 1 and cycle.ledger.placed_span(ask.job) is not None:
        every = cycle.ledger.placed_spread(ask.job)
        if every[ROOT] > (found[0][ROOT] if found else 0):
            found.append(every)
    return found
