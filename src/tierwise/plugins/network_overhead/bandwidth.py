"""The bandwidth of links: what placed services reserve, and which zones would exceed a link's remaining bandwidth.

Each pair of a placed caller and a placed callee reserves its dependency's bandwidth on the link between them. Only
links with a capacity are counted. Updated with every placement and rewind; an evicted pod keeps its reservation for the
rest of the cycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from tierwise.framework.ledger import Ledger, stays_released
from tierwise.model.arrays import Ints
from tierwise.model.resources import MOST
from tierwise.model.services import Link
from tierwise.model.shape import Shape
from tierwise.plugins.network_overhead.zones import Zones

__all__ = ["Edge", "LinkBandwidth"]

_MOST = 2**50
"""Bandwidths above that (a million gigabits) count as that, so that no sum overflows."""


class Edge(msgspec.Struct, frozen=True):
    """That pods of one kind call pods of another, with so much bandwidth for each pair."""

    caller: int
    callee: int
    bandwidth: int


class _Side(msgspec.Struct, frozen=True):
    """Pairs of places by the candidate's end: which (candidate, link) each belongs to, and where the other end is."""

    other: Ints  # per pair: the place at the other end
    group: Ints  # per pair: its (candidate, link)
    place: Ints  # per (candidate, link)
    link: Ints

    @classmethod
    def of(cls, candidate: Ints, other: Ints, link: Ints, links: int) -> _Side:
        groups, group = np.unique(candidate * links + link, return_inverse=True)
        return cls(other, group, groups // max(1, links), groups % max(1, links))

    def need(self, per_place: Ints) -> Ints:
        """Per (candidate, link): the sum over the other ends."""
        total = np.zeros(len(self.place), dtype=np.int64)
        np.add.at(total, self.group, per_place[self.other])
        return total


class LinkBandwidth:
    """Reservations on the links that have a capacity."""

    def __init__(
        self,
        ledger: Ledger,
        places: Zones,
        capacities: Mapping[Link, int],
        kind: Mapping[int, int],
        edges: Sequence[Edge],
    ) -> None:
        self.links = tuple(sorted(capacities))
        self.capacity: Ints = np.array([min(capacities[link], _MOST) for link in self.links], dtype=np.int64)
        self.reserved: Ints = np.zeros(len(self.links), dtype=np.int64)
        self._spots = places
        self._kind = kind
        self._calls: dict[int, list[Edge]] = {}
        self._called: dict[int, list[Edge]] = {}
        for edge in edges:
            self._calls.setdefault(edge.caller, []).append(edge)
            self._called.setdefault(edge.callee, []).append(edge)
        self._join()
        self._placed: Ints = np.zeros((1 + max(kind.values(), default=-1), places.number), dtype=np.int64)
        for number, rows in ledger.held.items():
            if number in kind:
                self._placed[kind[number]] += np.bincount(places.of_row[rows], minlength=places.number)
        for edge in edges:
            self._reserve(self._placed[edge.caller], self._placed[edge.callee], edge.bandwidth)
        ledger.follow(self, linger=stays_released)

    def _join(self) -> None:
        """Number the pairs of places that a limited link joins."""
        ends = [self._spots.pairs(link) for link in self.links]
        none = np.zeros(0, dtype=np.int64)
        self._origin = np.concatenate([one for one, _ in ends] or [none])
        self._destination = np.concatenate([other for _, other in ends] or [none])
        self._link = np.repeat(np.arange(len(ends)), [len(one) for one, _ in ends])
        self._out = _Side.of(self._origin, self._destination, self._link, len(self.links))
        self._in = _Side.of(self._destination, self._origin, self._link, len(self.links))

    def concerns(self, kind: int) -> bool:
        """Whether pods of a kind ask links for anything."""
        return bool(self.links) and (kind in self._calls or kind in self._called)

    def count(self, ledger: Ledger, shape: Shape, rows: Ints, counts: Ints) -> None:
        kind = self._kind.get(shape.number)
        if kind is None or not self.concerns(kind) or (counts < 0).any():
            return
        ledger.save(self.reserved, np.arange(len(self.links)))
        ledger.save(self._placed, (kind, self._spots.of_row[rows]))
        come: Ints = np.bincount(self._spots.of_row[rows], weights=counts, minlength=self._spots.number).astype(
            np.int64
        )
        for edge in self._calls.get(kind, ()):
            self._reserve(come, self._placed[edge.callee], edge.bandwidth)
        self._placed[kind] += come
        for edge in self._called.get(kind, ()):  # after the sum: a kind that calls itself is counted on both sides
            self._reserve(self._placed[edge.caller], come, edge.bandwidth)

    def _reserve(self, callers: Ints, callees: Ints, bandwidth: int) -> None:
        pairs = callers[self._origin] * callees[self._destination]
        sums = np.zeros_like(self.reserved)
        np.add.at(sums, self._link, pairs)
        # Links are full long before: what is beyond 64 bits counts as much as fits.
        self.reserved[:] = np.minimum(self.reserved + _times(sums, bandwidth), MOST)

    def needs(self, kind: int) -> tuple[tuple[Ints, Ints, Ints], ...]:
        """What one more task would ask, by direction: candidate places, links, amounts."""
        calls = self._wanted(self._calls.get(kind, ()), callee=True)
        called = self._wanted(self._called.get(kind, ()), callee=False)
        return tuple((side.place, side.link, side.need(w)) for side, w in ((self._out, calls), (self._in, called)))

    def _wanted(self, edges: Sequence[Edge], *, callee: bool) -> Ints:
        total = np.zeros(self._spots.number, dtype=np.int64)
        for edge in edges:
            more = _times(self._placed[edge.callee if callee else edge.caller], edge.bandwidth)
            total = np.minimum(total + more, _MOST)
        return total

    def overloaded(self, kind: int) -> Ints:
        """Per place the first link that one more task there would overload; -1 where there is none."""
        result = np.full(self._spots.number, len(self.links), dtype=np.int64)
        for place, link, need in self.needs(kind):
            short = (need > 0) & (self.reserved[link] + need > self.capacity[link])
            np.minimum.at(result, place[short], link[short])
        result[result == len(self.links)] = -1
        return result


def _times(counts: Ints, bandwidth: int) -> Ints:
    """So many times a bandwidth, at most as much as can be added up."""
    each = min(bandwidth, _MOST)
    return np.where(counts > MOST // max(each, 1), MOST, counts * each)
