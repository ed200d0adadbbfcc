"""The places of a network and what it costs to get from one to another, as arrays.

A place is a region and a zone that some node has. A cost is read from the candidate's place (first index) to that of
the pod it wants to reach (second index).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from tierwise.api.network_aware import REGION, ZONE
from tierwise.framework.ledger import Ledger, stays_released
from tierwise.model.arrays import EMPTY, MOST, Bools, Ints
from tierwise.model.job import Shape
from tierwise.model.node import NodeTable
from tierwise.model.services import Link, Place

__all__ = ["Edge", "LinkBandwidth", "ServiceCounts", "ZoneCosts", "Zones"]


_SAME_ZONE = 1
_UNKNOWN = 100  # what a pair without a cost counts for in scores
_NO_LIMIT_ALLOWS = 2**62


class Zones:
    """The places of all nodes, in the order of rows."""

    def __init__(self, nodes: NodeTable) -> None:
        region, self.region_names = _codes(nodes, REGION)
        zone, self.zone_names = _codes(nodes, ZONE)
        pairs, first_rows, self.of_row = np.unique(
            region * len(self.zone_names) + zone, return_index=True, return_inverse=True
        )
        self.number = len(pairs)
        self.region: Ints = region[first_rows]
        self.zone: Ints = zone[first_rows]

    def __getitem__(self, place: int) -> Place:
        return self.region_names[int(self.region[place])], self.zone_names[int(self.zone[place])]

    @property
    def bare(self) -> Bools:
        """Spots of nodes with neither a region nor a zone."""
        region = np.array([not name for name in self.region_names], dtype=bool)
        zone = np.array([not name for name in self.zone_names], dtype=bool)
        result: Bools = region[self.region] & zone[self.zone]
        return result

    def pairs(self, link: Link) -> tuple[Ints, Ints]:
        """The places that a link joins: every origin with every destination; none with itself."""
        codes, names = (self.region, self.region_names) if link.regional else (self.zone, self.zone_names)
        ends = [np.flatnonzero(codes == _number(names, name)) for name in (link.origin, link.destination)]
        origin, destination = (side.ravel() for side in np.meshgrid(*ends, indexing="ij"))
        apart = ((self.region[origin] != self.region[destination]) == link.regional) & (origin != destination)
        return origin[apart], destination[apart]


class ZoneCosts(msgspec.Struct, frozen=True):
    """What every pair of places costs."""

    paid: Ints  # in scores
    toll: Ints  # held against limits
    known: Bools  # whether a limit can be judged at all
    _judged: dict[int, tuple[Ints, Ints]] = {}

    @classmethod
    def of(cls, places: Zones, cost_by_link: Mapping[Link, int]) -> ZoneCosts:
        """Costs by link, spread over the pairs of places."""
        between_regions = _table(cost_by_link, places.region_names, regional=True)
        between_zones = _table(cost_by_link, places.zone_names, regional=False)
        near = places.region[:, None] == places.region
        cost = np.where(
            near,
            between_zones[places.zone[:, None], places.zone],
            between_regions[places.region[:, None], places.region],
        )
        is_known = cost >= 0
        paid = np.where(is_known, cost, _UNKNOWN)
        toll = cost.copy()
        same_zone = near & (places.zone[:, None] == places.zone)
        paid[same_zone], toll[same_zone], is_known[same_zone] = (
            _SAME_ZONE,
            -1,
            True,
        )  # within a zone every limit is kept
        bare = places.bare
        paid[:, bare], toll[:, bare], is_known[:, bare] = _UNKNOWN, _NO_LIMIT_ALLOWS, True
        return cls(paid, toll, is_known)

    def kept(self, limit: int) -> tuple[Ints, Ints]:
        """Which pairs keep a limit, and which violate it (1 where they do); an unknown cost does neither."""
        kept_and_violated = self._judged.get(limit)
        if kept_and_violated is None:
            within = self.toll <= limit
            kept_and_violated = (self.known & within).astype(np.int64), (self.known & ~within).astype(np.int64)
            self._judged[limit] = kept_and_violated
        return kept_and_violated


def _number(names: tuple[str, ...], name: str) -> int:
    return names.index(name) if name and name in names else -1


def _codes(nodes: NodeTable, key: str) -> tuple[Ints, tuple[str, ...]]:
    """A label over the rows as numbers of its values; the last value is the empty one, for rows without it."""
    column = nodes.labels.column(key)
    values = (*column.values, "")
    codes = column.codes.astype(np.int64)
    codes[codes < 0] = len(values) - 1
    return codes, values


def _table(cost_by_link: Mapping[Link, int], names: tuple[str, ...], *, regional: bool) -> Ints:
    """Costs by number of origin and destination; -1 where there is none. Nodes without the label have no costs."""
    index = {name: number for number, name in enumerate(names) if name}
    table = np.full((len(names), len(names)), -1, dtype=np.int64)
    for link, cost in cost_by_link.items():
        if link.regional is regional and link.origin in index and link.destination in index:
            table[index[link.origin], index[link.destination]] = cost
    return table


# Where tasks of each kind stand: how many at each place, and on which rows. Follows every placement and rewind.
#
# A kind is whatever a plugin tells shapes apart by; a place is a bucket of rows. The histogram of places costs the same
# to read however many tasks stand there.


class ServiceCounts:
    """Counts by kind and place, from what runs at the start of a cycle onwards."""

    def __init__(self, ledger: Ledger, kind: Mapping[int, int], kinds: int, place: Ints, places: int) -> None:
        """`kind` gives shapes by number; those it leaves out are not counted. `place` gives every row."""
        self.places: Ints = np.zeros((kinds, places), dtype=np.int64)
        self._kind = kind
        self._spot = place
        self._stands: list[list[tuple[Ints, Ints]]] = [[] for _ in range(kinds)]
        for number, rows in ledger.held.items():
            if number in kind:
                self.places[kind[number]] += np.bincount(place[rows], minlength=places)
                self._stands[kind[number]].append((rows, np.ones(len(rows), dtype=np.int64)))
        ledger.follow(self)

    def count(self, ledger: Ledger, shape: Shape, rows: Ints, counts: Ints) -> None:
        kind = self._kind.get(shape.number)
        if kind is None:
            return
        places = self._spot[rows]
        ledger.save(self.places, (kind, places))
        np.add.at(self.places[kind], places, counts)
        ledger.append(self._stands[kind], (rows, counts))

    def at(self, kinds: Ints, times: Ints) -> Ints:
        """Tasks of some kinds per place, each counted so many times."""
        result: Ints = times @ self.places[kinds]
        return result

    def rows(self, kinds: Ints, times: Ints) -> tuple[Ints, Ints]:
        """The rows of these tasks and how many each holds; rows may repeat."""
        placed = []
        for k, n in zip(kinds.tolist(), times, strict=True):
            for rows, counts in self._stands[k]:
                placed.append((rows, n * counts))
        if not placed:
            return EMPTY, EMPTY
        return np.concatenate([rows for rows, _ in placed]), np.concatenate([counts for _, counts in placed])


# The bandwidth of links: what placed services reserve, and which zones would exceed a link's remaining bandwidth.
#
# Each pair of a placed caller and a placed callee reserves its dependency's bandwidth on the link between them. Only
# links with a capacity are counted. Updated with every placement and rewind; an evicted pod keeps its reservation for
# the rest of the cycle.


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
    def of(cls, candidate: Ints, other_side: Ints, link: Ints, links: int) -> _Side:
        groups, group = np.unique(candidate * links + link, return_inverse=True)
        return cls(other_side, group, groups // max(1, links), groups % max(1, links))

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
        self._origin = np.concatenate([origins for origins, _ in ends] or [EMPTY])
        self._destination = np.concatenate([destinations for _, destinations in ends] or [EMPTY])
        self._link = np.repeat(np.arange(len(ends)), [len(origins) for origins, _ in ends])
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
            added = _times(self._placed[edge.callee if callee else edge.caller], edge.bandwidth)
            total = np.minimum(total + added, _MOST)
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
    limited_bandwidth = min(bandwidth, _MOST)
    return np.where(counts > MOST // max(limited_bandwidth, 1), MOST, counts * limited_bandwidth)
