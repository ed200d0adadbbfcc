"""Deal tasks of one shape over nodes where limits of several trees hold at once: counted, exact within a bound.

A *scope* is a part of a job with limits of its own: the job, its groups of groups, each sub-group. A limit of a scope
knows nothing of trees: it gives each row the domain that the row stands in, -1 for none, and asks that all tasks of
the scope stand in one domain, or in `fewest` domains at least. Rows that no limit tells apart form a *cell*, so what is
counted are cells, of which there are few, and their capacity.

The search chooses a place for each scope from the outside inwards (one domain for each of its limits), distributes
sub-groups that are alike over places all at once, and asks a flow whether the tasks fit into the cells that are left.
It tries everything, up to a number of steps. `tests/support/several_trees.py` states the same rule plainly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from tierwise.framework.search_budget import SearchBudget
from tierwise.model.arrays import Bools, Ints

__all__ = ["Dealt", "Limit", "OutOfStepsError", "Part", "Scope", "SeveralTrees"]

_DEEPEST = 64
"""How many places a search goes back over for one kind of sub-group; a job with more is tried once, the best first."""


class OutOfStepsError(Exception):
    """The search has made all the steps that it may."""


class Limit(msgspec.Struct, frozen=True, eq=False):
    """Where tasks of a scope may stand, as rows see it."""

    homes: Ints  # of each row the domain, -1 for none
    fewest: int = 0  # domains to stand in at least; 0: all in one


class Scope(msgspec.Struct, frozen=True, eq=False):
    """A part of a job: what is around it, its limits, and the rows of its tasks that are placed already."""

    parent: int  # the number of a scope before it; -1 for none
    limits: tuple[Limit, ...]
    held: Ints


class Part(msgspec.Struct, frozen=True):
    """Groups that are alike: so many, each of so many tasks, each a scope like this one by itself."""

    scope: int
    need: int
    copies: int = 1


class Dealt(NamedTuple):
    """So many groups of a part, the rows of all their tasks, one entry each, ascending, and all rows of their place."""

    part: int
    copies: int
    rows: Ints
    place: Bools


class _Supply(NamedTuple):
    """So many tasks of a part, and the cells that they may go to."""

    part: int
    copies: int
    amount: int
    cells: Bools


class SeveralTrees:
    """One question: these parts of these scopes, on rows with so much room."""

    def __init__(
        self,
        scopes: Sequence[Scope],
        parts: Sequence[Part],
        room: Ints,
        order: Ints,
        *,
        exact: bool = True,
        steps: int = SearchBudget().tree_steps,
    ) -> None:
        """Within a cell rows are filled in this order (a rank for each row); after so many steps a search gives up.

        Where `room` is not `exact` but the most that a row might take, every way that counting allows is a solution.
        """
        self._scopes, self._parts, self._exact = scopes, parts, exact
        self._room, self._left = room, steps
        self._rows = np.flatnonzero(room > 0)
        self._rows = self._rows[np.argsort(order[self._rows], kind="stable")]
        columns = [limit.homes[self._rows] for scope in scopes for limit in scope.limits]
        stacked = np.stack(columns) if columns else np.zeros((1, len(self._rows)), dtype=np.int64)
        cells, of_row = np.unique(stacked, axis=1, return_inverse=True)
        self._cell_of_row = of_row.ravel()
        self._capacity = np.bincount(self._cell_of_row, weights=room[self._rows], minlength=cells.shape[1]).astype(
            np.int64
        )
        self._first = np.full(cells.shape[1], len(room), dtype=np.int64)
        np.minimum.at(self._first, self._cell_of_row, self._rows)
        self._columns: list[list[Ints]] = []
        position = 0
        for scope in scopes:
            self._columns.append([cells[position + i] for i in range(len(scope.limits))])
            position += len(scope.limits)
        self._own = {part.scope: number for number, part in enumerate(parts)}
        self._needs = self._tasks_below()

    def solutions(self) -> Iterator[list[Dealt]]:
        """Every way that is found, the preferred first; OutOfStepsError where there may be more."""
        everywhere = np.ones(len(self._capacity), dtype=bool)
        yield from self._choose(0, {-1: everywhere}, [])

    # -- choices

    def _tasks_below(self) -> list[int]:
        needs = [0] * len(self._scopes)
        for part in self._parts:
            for scope in self._around(part.scope):
                needs[scope] += part.need * part.copies
        return needs

    def _around(self, scope: int) -> Iterator[int]:
        while scope >= 0:
            yield scope
            scope = self._scopes[scope].parent

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise OutOfStepsError

    def _choose(self, number: int, masks: dict[int, Bools], supplies: list[_Supply]) -> Iterator[list[Dealt]]:
        """A place for this scope and all after it."""
        self._step()
        if number == len(self._scopes):
            dealt = self._deal(supplies)
            if dealt is not None:
                yield dealt
            return
        if not self._needs[number]:  # nothing of it is to be placed
            yield from self._choose(number + 1, {**masks, number: masks[self._scopes[number].parent]}, supplies)
            return
        part = self._own.get(number)
        allowed = self._allowed(number, masks[self._scopes[number].parent])
        if allowed is None:
            return
        if part is not None:
            for chosen in self._distributed(part, allowed):
                together = [*supplies, *chosen]
                if len(self._parts) == 1 or self._flow(together, self._capacity) is not None:
                    yield from self._choose(number + 1, masks, together)
            return
        for place in self._places(number, allowed, self._needs[number]):
            yield from self._choose(number + 1, {**masks, number: place}, supplies)

    def _allowed(self, number: int, around: Bools) -> Bools | None:
        """The cells that a scope may use, whichever place it gets; None where its placed tasks leave none."""
        scope, cells = self._scopes[number], around
        for limit, column in zip(scope.limits, self._columns[number], strict=True):
            if limit.fewest:
                continue
            cells = cells & (column >= 0)
            if len(scope.held):
                homes = np.unique(limit.homes[scope.held])
                if len(homes) > 1 or homes[0] < 0:
                    return None
                cells = cells & (column == homes[0])
        return cells

    def _places(self, number: int, allowed: Bools, need: int, *, several: bool = False) -> list[Bools]:
        """What a scope can have: cells that share a domain for each of its limits, with room for so many tasks.

        The tightest comes first; where several groups are to be placed, the roomiest.
        """
        within = [
            column
            for limit, column in zip(self._scopes[number].limits, self._columns[number], strict=True)
            if not limit.fewest
        ]
        if not within:
            return [allowed] if int(self._capacity[allowed].sum()) >= need else []
        cells = np.flatnonzero(allowed)
        if not len(cells):
            return []
        tuples, place_of = np.unique(np.stack([column[cells] for column in within]), axis=1, return_inverse=True)
        place_of = place_of.ravel()
        rooms = np.bincount(place_of, weights=self._capacity[cells], minlength=tuples.shape[1]).astype(np.int64)
        first = np.full(tuples.shape[1], len(self._room), dtype=np.int64)
        np.minimum.at(first, place_of, self._first[cells])
        worth = -(rooms // max(need, 1)) if several else rooms
        found = []
        for place in np.lexsort((first, worth)).tolist():
            if rooms[place] >= need:
                mask = np.zeros(len(self._capacity), dtype=bool)
                mask[cells[place_of == place]] = True
                found.append(mask)
        return found

    def _distributed(self, number: int, allowed: Bools) -> Iterator[list[_Supply]]:
        """The groups of a part over its places: as many as possible in each comes first."""
        part = self._parts[number]
        places = self._places(part.scope, allowed, part.need, several=part.copies > 1)
        most = [int(self._capacity[place].sum()) // part.need if part.need else part.copies for place in places]
        greedy, left = [], part.copies
        for place, held in zip(places, most, strict=True):
            if left:
                greedy.append(_Supply(number, min(left, held), min(left, held) * part.need, place))
                left -= min(left, held)
        if left:
            return
        yield greedy
        if self._exact and len(self._parts) == 1 and not self._spreads():
            return  # places of one part do not overlap, so the first distribution is as good as any
        if len(greedy) > _DEEPEST or part.copies > _DEEPEST:
            raise OutOfStepsError
        after = np.cumsum([0, *reversed(most)])[::-1]  # what the places from each on hold
        for chosen in self._others(part, list(zip(places, most, strict=True)), after, 0, part.copies):
            yield [_Supply(number, copies, copies * part.need, places[place]) for place, copies in chosen]

    def _others(
        self, part: Part, places: list[tuple[Bools, int]], after: Ints, start: int, left: int
    ) -> Iterator[list[tuple[int, int]]]:
        if not left:
            yield []
            return
        for place in range(start, len(places)):
            if after[place] < left:
                return
            for copies in range(min(left, places[place][1]), 0, -1):
                self._step()
                for rest in self._others(part, places, after, place + 1, left - copies):
                    yield [(place, copies), *rest]

    # -- tasks to cells

    def _spreads(self) -> list[tuple[int, Limit, Ints]]:
        return [
            (number, limit, column)
            for number, scope in enumerate(self._scopes)
            for limit, column in zip(scope.limits, self._columns[number], strict=True)
            if limit.fewest and self._needs[number]
        ]

    def _deal(self, supplies: list[_Supply]) -> list[Dealt] | None:
        """Rows for these tasks; None where they do not fit, or stand in too few domains."""
        counts = self._spread_out(supplies, self._spreads())
        if counts is None:
            return None
        free = self._room[self._rows].copy()
        ordered = np.argsort(self._cell_of_row, kind="stable")  # rows by cell, in their order within it
        starts = np.searchsorted(self._cell_of_row[ordered], np.arange(len(self._capacity) + 1))
        dealt = []
        for supply, cells in zip(supplies, counts, strict=True):
            rows = []
            for cell in np.flatnonzero(cells).tolist():
                inside = ordered[starts[cell] : starts[cell + 1]]
                upto = np.cumsum(free[inside])
                given = np.clip(int(cells[cell]) - (upto - free[inside]), 0, free[inside])
                free[inside] -= given
                rows.append(np.repeat(self._rows[inside], given))
            found = np.sort(np.concatenate(rows)) if rows else np.zeros(0, dtype=np.int64)
            place = np.zeros(len(self._room), dtype=bool)
            place[self._rows[supply.cells[self._cell_of_row]]] = True
            dealt.append(Dealt(supply.part, supply.copies, found, place))
        return dealt

    def _spread_out(self, supplies: list[_Supply], spreads: list[tuple[int, Limit, Ints]]) -> Ints | None:
        """How many tasks of each supply go to each cell, (supplies x cells), in enough domains for every spread."""
        counts = self._flow(supplies, self._capacity)
        if counts is None or all(self._met(spread, supplies, counts) for spread in spreads):
            return counts
        fixed = np.zeros((len(supplies), len(self._capacity)), dtype=np.int64)
        return self._fixing(supplies, fixed, spreads)

    def _met(self, spread: tuple[int, Limit, Ints], supplies: list[_Supply], counts: Ints) -> bool:
        return len(self._hit(spread, supplies, counts)) >= spread[1].fewest

    def _hit(self, spread: tuple[int, Limit, Ints], supplies: list[_Supply], counts: Ints) -> set[int]:
        """The domains in which tasks of a scope stand."""
        number, limit, column = spread
        mine = [i for i, s in enumerate(supplies) if number in self._around(self._parts[s.part].scope)]
        hit = {int(home) for home in np.unique(column[counts[mine].any(axis=0)])} if mine else set()
        hit |= {int(home) for home in limit.homes[self._scopes[number].held].tolist()}
        return hit - {-1}

    def _fixing(self, supplies: list[_Supply], fixed: Ints, spreads: list[tuple[int, Limit, Ints]]) -> Ints | None:
        """Fix single tasks to domains that would have none, until every spread is met; then the rest goes anywhere."""
        self._step()
        rest = [s._replace(amount=s.amount - int(fixed[i].sum())) for i, s in enumerate(supplies)]
        counts = self._flow(rest, self._capacity - fixed.sum(axis=0))
        if counts is None:
            return None
        counts = counts + fixed
        open_spread = next((spread for spread in spreads if not self._met(spread, supplies, counts)), None)
        if open_spread is None:
            return counts
        number, _, column = open_spread
        hit = self._hit(open_spread, supplies, fixed)
        free = self._capacity - fixed.sum(axis=0)
        masks = np.stack([supply.cells for supply in supplies]).astype(np.uint8)
        homes = np.stack([column for _, _, column in spreads])
        tried: set[tuple[int, bytes, bytes]] = set()  # cells that the same supplies may use, in the same domains
        for cell in np.argsort(-free, kind="stable").tolist():
            home = int(column[cell])
            if home < 0 or home in hit or free[cell] < 1:
                continue
            for i, supply in enumerate(rest):
                inside = number in self._around(self._parts[supply.part].scope)
                alike = (i, masks[:, cell].tobytes(), homes[:, cell].tobytes())
                if not inside or not supply.amount or not supply.cells[cell] or alike in tried:
                    continue
                tried.add(alike)
                more = fixed.copy()
                more[i, cell] += 1
                found = self._fixing(supplies, more, spreads)
                if found is not None:
                    return found
        return None

    def _flow(self, supplies: Sequence[_Supply], capacity: Ints) -> Ints | None:
        """How many tasks of each supply go to each cell, (supplies x cells); None where they do not all fit."""
        counts = np.zeros((len(supplies), len(capacity)), dtype=np.int64)
        if not supplies:
            return counts
        masks = np.stack([supply.cells for supply in supplies])
        if not (masks @ capacity >= [supply.amount for supply in supplies]).all():
            return None
        kinds, kind_of = np.unique(masks, axis=1, return_inverse=True)  # cells that the same supplies may use
        kind_of = kind_of.ravel()
        rooms = np.bincount(kind_of, weights=capacity, minlength=kinds.shape[1]).astype(np.int64)
        flow = _transport([supply.amount for supply in supplies], kinds, rooms.tolist())
        if flow is None:
            return None
        left = capacity.copy()
        for i, kind in np.argwhere(flow > 0).tolist():
            cells = np.flatnonzero(kind_of == kind)
            cells = cells[np.argsort(self._first[cells], kind="stable")]
            before = np.cumsum(left[cells]) - left[cells]
            given = np.clip(int(flow[i, kind]) - before, 0, left[cells])
            counts[i, cells] += given
            left[cells] -= given
        return counts


def _transport(amounts: Sequence[int], open_to: Bools, rooms: list[int]) -> Ints | None:
    """How much each supply sends to each kind of cell; None where not all of it can be sent.

    What finds no room directly goes where another supply makes way for it: shortest augmenting paths, exact.
    """
    flow = np.zeros(open_to.shape, dtype=np.int64)
    for i in np.argsort(open_to.sum(axis=1), kind="stable").tolist():
        missing = amounts[i]
        for kind in np.flatnonzero(open_to[i]).tolist():
            given = min(missing, rooms[kind])
            flow[i, kind] += given
            rooms[kind] -= given
            missing -= given
        while missing:
            pushed = _augmented(i, missing, flow, open_to, rooms)
            if not pushed:
                return None
            missing -= pushed
    return flow


def _augmented(start: int, most: int, flow: Ints, open_to: Bools, rooms: list[int]) -> int:
    """Send more of a supply along a path of supplies that make way for each other; how much, 0 where none can."""
    came: dict[int, tuple[int, int]] = {}  # of each kind: the supply that wants to send there, and that supply's kind
    seen, layer = {start}, [(start, -1)]
    while layer:
        after = []
        for supply, through in layer:
            for kind in np.flatnonzero(open_to[supply]).tolist():
                if kind in came:
                    continue
                came[kind] = supply, through
                if rooms[kind]:
                    return _push(kind, most, came, flow, rooms)
                for other in np.flatnonzero(flow[:, kind]).tolist():
                    if other not in seen:
                        seen.add(other)
                        after.append((other, kind))
        layer = after
    return 0


def _push(kind: int, most: int, came: dict[int, tuple[int, int]], flow: Ints, rooms: list[int]) -> int:
    path = []
    at, amount = kind, min(most, rooms[kind])
    while at >= 0:
        supply, through = came[at]
        path.append((supply, at, through))
        if through >= 0:
            amount = min(amount, int(flow[supply, through]))
        at = through
    for supply, to, away in path:
        flow[supply, to] += amount
        if away >= 0:
            flow[supply, away] -= amount
    rooms[kind] -= amount
    return amount
