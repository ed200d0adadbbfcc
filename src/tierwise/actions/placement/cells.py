"""Place a job whose constraints are on several trees, or whose sub-groups have theirs on another than rows follow.

Constraints become limits that rows know (`limits`). A limit knows nothing of trees: it gives each row the domain that
the row is in, -1 for none. Rows that no limit tells apart form a *cell*, so what is counted are cells, of which
there are few, and their capacity. A place of a part is what one domain of each of its limits has in common.

For tasks of one plain shape the search of `assign` chooses places from the outside inwards, and a flow says whether the
tasks fit into the cells that are left (`tests/support/several_trees.py` states the same rule plainly). Tasks of several
shapes, or with rules between pods, go to the first places that it finds by score, or as the flow deals them. What that
leaves open, and what finds no way into enough domains, is asked of the integer program of `exact`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import NamedTuple

import numpy as np

from tierwise.actions.placement import problem
from tierwise.actions.placement.assign import Frame, Option, Search
from tierwise.actions.placement.bounds import Room, most_tasks
from tierwise.actions.placement.choose import pending
from tierwise.actions.placement.demand import Demand, TaskGroup, each_selection
from tierwise.actions.placement.limits import Tiers, limited, tiers_to_try, within_limits
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask
from tierwise.framework.ledger import Pool
from tierwise.framework.placer import best_row, score_keys
from tierwise.model.arrays import EMPTY, Bools, Ints, distinct
from tierwise.model.job import Job, PodSet
from tierwise.model.topology import ROOT

__all__ = ["Cells", "search_cells"]


def search_cells(
    cycle: Cycle, job: Job, demand: Demand, within: int, pools: tuple[Pool, ...]
) -> problem.SearchResult | problem.NoPlace:
    """The best place for a demand, written to the ledger."""
    pending_shapes = tuple(pending(cycle, job)) if demand.substitutes or demand.alternatives is not None else ()
    shapes = {*demand.shapes, *pending_shapes}
    if len(shapes) > 1 or any(map(cycle.pipeline.moving, shapes)):
        return _tried(cycle, job, demand, within, pools)
    counts = cycle.report.search_counts
    budget = problem.Budget(cycle.budget.steps, cycle.steps)
    bounded = False
    cut = counts.cut
    every = each_selection(cycle, job, demand)
    selections = islice(every, 1) if _interchangeable(demand) else cycle.first(every, cycle.budget.selections)
    tiers_and_pools = list(product(tiers_to_try(cycle, job), problem.usable(cycle, pools)))
    for selection, (tiers, pool) in product(selections, tiers_and_pools):
        counts.trials += 1
        placement = _place_within(cycle, job, selection, tiers, pool, budget)
        if not isinstance(placement, problem.NoPlace):
            return placement
        bounded |= placement is problem.NoPlace.BOUNDED
    return problem.NoPlace.of(bounded=bounded or counts.cut > cut)


def _tried(
    cycle: Cycle, job: Job, demand: Demand, within: int, pools: tuple[Pool, ...]
) -> problem.SearchResult | problem.NoPlace:
    """The best place for tasks of several shapes, or with rules between them: by score, and else by the program."""
    budget = problem.Budget(cycle.budget.steps, cycle.steps)
    doubted = False
    *tighter, stated = tiers_to_try(cycle, job)
    for tiers in (*tighter, stated):
        placement = _first_places(cycle, job, demand, tiers, pools, budget)
        if isinstance(placement, problem.SearchResult):
            return placement
        if placement is problem.NoPlace.PROVEN and not demand.substitutes and demand.alternatives is None:
            continue
        from tierwise.actions.placement.exact import place_exactly, refuted  # rarely needed

        if not doubted and refuted(cycle, job, demand, within=within):
            return problem.NoPlace.PROVEN
        doubted = True
        if tiers is not stated:  # of these the caller asks the program, as it does for all jobs
            exactly = place_exactly(cycle, job, demand, within, pools, tiers=tiers)
            if isinstance(exactly, problem.SearchResult):
                return exactly
    return problem.NoPlace.of(bounded=doubted)


def _first_places(
    cycle: Cycle, job: Job, demand: Demand, tiers: Tiers, pools: tuple[Pool, ...], budget: problem.Budget
) -> problem.SearchResult | problem.NoPlace:
    """The tasks of a demand in the first places that counting finds, if they go there."""
    root = limited(cycle, job, demand.task_groups, tiers)
    hopeful = False
    for pool in problem.usable(cycle, pools):
        cycle.report.search_counts.trials += 1
        cells = _cells(cycle, job, root, pool)
        first_solution = next(cells.solutions(budget, cycle.budget.tree_steps), None)
        hopeful |= first_solution is not None or cells.bounded
        dealt = cells.deal() if first_solution is not None else None
        for by_score in (True, False) if dealt is not None else ():
            placements = cycle.ledger.attempt(_one_by_one, cycle, job, dealt or (), tiers, pool, by_score=by_score)
            if placements is not None:
                return problem.found_on(cycle, placements)
    return problem.NoPlace.of(bounded=hopeful)


def _one_by_one(
    cycle: Cycle, job: Job, dealt: Sequence[Dealt], tiers: Tiers, pool: Pool, *, by_score: bool
) -> list[problem.Placement] | None:
    """Tasks on the best rows of their places, the shapes first that the fewest rows take, or on those that they were
    dealt; None where one does not fit, or limits are not kept.
    """
    everywhere = slice(0, len(cycle.nodes))
    placements = list[problem.Placement]()
    for units, rows, place in dealt:
        unit_asks = []
        for unit in units:
            unit_asks.extend(_asked(job, unit))
        if by_score:
            unit_asks.sort(key=lambda unit_ask: int(cycle.fit_counts.of(unit_ask[0].shape).rows(pool).sum()))
        tasks = [(ask, pod_set) for ask, pod_set, number in unit_asks for _ in range(number)]
        for (ask, pod_set), dealt_row in zip(tasks, rows.tolist(), strict=True):
            among = place if by_score else np.arange(len(place)) == dealt_row
            row = best_row(cycle, ask, everywhere, pool, among=among)
            if row < 0:
                return None
            placements.append(problem.place_tasks(cycle, ask, pod_set, (np.array([row]), np.array([1])), pool))
    if placements and within_limits(cycle, job, tiers):
        return problem.joined(placements)
    return None


def _interchangeable(demand: Demand) -> bool:
    """Whether other choices of sub-groups would fare no better, each being like those that were selected."""
    kinds = {
        (g.need, g.sub.policy, g.sub.inner_group, tuple(r.pod_set.shape.number for r in g.remaining))
        for g in (*demand.task_groups, *demand.substitutes)
    }
    return demand.alternatives is None and not demand.needs_substitutes and (not demand.substitutes or len(kinds) == 1)


def _place_within(
    cycle: Cycle, job: Job, task_groups: tuple[TaskGroup, ...], tiers: Tiers, pool: Pool, budget: problem.Budget
) -> problem.SearchResult | problem.NoPlace:
    """Where the tasks go within the limits at these tiers, written to the ledger."""
    cells = _cells(cycle, job, limited(cycle, job, task_groups, tiers), pool)
    if next(cells.solutions(budget, cycle.budget.tree_steps), None) is None:
        return problem.NoPlace.of(bounded=cells.bounded)
    dealt = cells.deal()
    if dealt is None:
        from tierwise.actions.placement.exact import place_exactly  # rarely needed

        return place_exactly(cycle, job, Demand(task_groups), ROOT, (pool,), tiers=tiers)
    return problem.found_on(cycle, _write(cycle, job, dealt, pool))


def _cells(cycle: Cycle, job: Job, root: problem.Part, pool: Pool) -> Cells:
    """The search for places of the parts of a job; rows are filled by score, and then by name."""
    room = most_tasks(Room(cycle, pool), {shape: cycle.fit_counts.of(shape).rows(pool) for shape in root.shapes})
    first_group = next(root.task_groups())
    ask = Ask(first_group.remaining[0].pod_set.shape, first_group.sub, job)
    keys = score_keys(cycle, ask, slice(0, len(room)), room > 0)
    order = np.empty(len(keys), dtype=np.int64)
    order[np.lexsort((cycle.nodes.rank, -keys))] = np.arange(len(keys))
    return Cells(root, room, order)


def _write(cycle: Cycle, job: Job, dealt: Sequence[Dealt], pool: Pool) -> list[problem.Placement]:
    """Every task group on the rows that it was dealt."""
    placements = []
    for units, rows, _ in dealt:
        unit_asks = []
        for unit in units:
            unit_asks.extend(_asked(job, unit))
        ends = np.cumsum([number for *_, number in unit_asks])
        for (ask, pod_set, _), dealt_rows in zip(unit_asks, np.split(rows, ends[:-1]), strict=True):
            placements.append(problem.place_tasks(cycle, ask, pod_set, np.unique(dealt_rows, return_counts=True), pool))
    return placements


def _asked(job: Job, unit: problem.Part) -> list[tuple[Ask, PodSet, int]]:
    """How many tasks of each pod set a unit takes."""
    taken_pod_sets = []
    for group in unit.task_groups():
        for taken_pod_set in group.taken():
            taken_pod_sets.append((group.sub, *taken_pod_set))
    return [(Ask(pod_set.shape, sub, job), pod_set, number) for sub, pod_set, number in taken_pod_sets]


class Dealt(NamedTuple):
    """Units that are alike, the rows of all their tasks, one entry each, ascending, and all rows of their place."""

    units: tuple[problem.Part, ...]
    rows: Ints
    place: Bools


class _Supply(NamedTuple):
    """So many tasks, whose they are, and the cells that they may go to."""

    units: tuple[problem.Part, ...]
    amount: int
    cells: Bools


_Spread = tuple[problem.Part, problem.Limit, Ints]
"""A limit that asks for several domains: whose it is, and the domain of each cell."""


class Cells(Search):
    """Chooses a place, which is a set of cells, for every part of a job, and checks by a flow that all tasks fit."""

    cost = 5

    def __init__(self, root: problem.Part, room: Ints, order: Ints) -> None:
        """Within a cell rows are filled in this order (a rank for each row)."""
        super().__init__(root, 0)
        self._room = room
        self._rows = np.flatnonzero(room > 0)
        self._rows = self._rows[np.argsort(order[self._rows], kind="stable")]
        self._around: dict[int, tuple[problem.Part, ...]] = {}  # of each part: itself and the groups that it is in
        parts = list(root.every())
        for part in parts:
            for inner in part.parts:
                self._around[inner.number] = (inner, *self._around.get(part.number, ()))
        limits = {id(limit): limit for part in parts for limit in part.limits}
        columns = [limit.domain_of_row[self._rows] for limit in limits.values()]
        stacked = np.stack(columns) if columns else np.zeros((1, len(self._rows)), dtype=np.int64)
        cells, of_row = np.unique(stacked, axis=1, return_inverse=True)
        self._column = dict(zip(limits, cells, strict=False))
        self._cell_of_row = of_row.ravel()
        counted = np.bincount(self._cell_of_row, weights=room[self._rows], minlength=cells.shape[1])
        self._capacity = counted.astype(np.int64)
        self._first = np.full(cells.shape[1], len(room), dtype=np.int64)
        np.minimum.at(self._first, self._cell_of_row, self._rows)
        self._masks: list[Bools] = [np.ones(len(self._capacity), dtype=bool)]
        self._rooms = [int(self._capacity.sum())]  # of each place
        self._numbers: dict[bytes, int] = {self._masks[0].tobytes(): 0}
        self._kinds = {unit.number: unit.kind or (unit.number,) for unit in root.units}
        self._copies = Counter(self._kinds.values())
        self._known: dict[tuple[object, int], list[Option]] = {}
        self._given: dict[tuple[object, int], list[problem.Part]] = {}  # by kind and place
        self._spreads: list[_Spread] = [
            (part, limit, self._column[id(limit)]) for part in parts for limit in part.limits if limit.spread
        ]

    # Places.

    def options(self, part: problem.Part, within: int) -> Iterator[Option]:
        """What a part can have: cells that share a domain for each of its limits, with room for its tasks."""
        key = (self._kinds.get(part.number, part.number), within)
        if key not in self._known:
            allowed = self._allowed(part, self._masks[within])
            places = self._places(part, allowed) if allowed is not None else ()
            spreads = [spread for spread in self._spreads if part in self._around[spread[0].number]]
            wide = (place for place in places if all(self._reaches(spread, place) for spread in spreads))
            self._known[key] = [Option(self._number(place), 0.0) for place in wide]
        yield from self._known[key]

    def _places(self, part: problem.Part, allowed: Bools) -> Iterator[Bools]:
        """The tightest comes first; where several alike units are to be placed, the roomiest."""
        columns = []
        for limit in part.limits:
            if not limit.spread:
                columns.append(self._column[id(limit)])
        cells = np.flatnonzero(allowed)
        if not columns or not len(cells):
            if int(self._capacity[allowed].sum()) >= part.pods:
                yield allowed
            return
        tuples, place_of = np.unique(np.stack([column[cells] for column in columns]), axis=1, return_inverse=True)
        place_of = place_of.ravel()
        rooms = np.bincount(place_of, weights=self._capacity[cells], minlength=tuples.shape[1]).astype(np.int64)
        first_rank = np.full(tuples.shape[1], len(self._room), dtype=np.int64)
        np.minimum.at(first_rank, place_of, self._first[cells])
        several = not part.parts and self._copies[self._kinds[part.number]] > 1
        for place in np.lexsort((first_rank, -(rooms // max(part.pods, 1)) if several else rooms)).tolist():
            if rooms[place] >= part.pods:
                mask = np.zeros(len(self._capacity), dtype=bool)
                mask[cells[place_of == place]] = True
                yield mask

    def _number(self, mask: Bools) -> int:
        number = self._numbers.setdefault(mask.tobytes(), len(self._masks))
        if number == len(self._masks):
            self._masks.append(mask)
            self._rooms.append(int(self._capacity[mask].sum()))
        return number

    def _allowed(self, part: problem.Part, around: Bools) -> Bools | None:
        """The cells that a part may use, whichever place it gets; None where its placed tasks leave none."""
        cells = around
        for limit in part.limits:
            if limit.spread:
                continue
            column = self._column[id(limit)]
            cells = cells & (column >= 0)
            if len(part.standing):
                domains = distinct(limit.domain_of_row[part.standing])
                if len(domains) > 1 or domains[0] < 0:
                    return None
                cells = cells & (column == domains[0])
        return cells

    # What is put into them.

    def put(self, part: problem.Part, option: Option) -> bool:
        parts_given = self._given.setdefault((self._kinds[part.number], option.place), [])
        parts_given.append(part)
        if len(parts_given) * part.pods <= self._rooms[option.place] and (
            len(self._copies) == 1 or self._flow(self._supplies(), self._capacity) is not None
        ):  # places of one kind do not overlap
            return True
        self.take_back(part, option)
        return False

    def take_back(self, part: problem.Part, option: Option) -> None:
        key = (self._kinds[part.number], option.place)
        self._given[key].pop()
        if not self._given[key]:
            del self._given[key]

    def state(self, frame: Frame) -> tuple[object, ...]:
        return (frozenset((key, len(units)) for key, units in self._given.items()),)

    def _supplies(self) -> list[_Supply]:
        return [
            _Supply(tuple(units), units[0].pods * len(units), self._masks[place])
            for (_, place), units in self._given.items()
        ]

    def deal(self) -> list[Dealt] | None:
        """Rows for what is chosen now; None where it does not fit, or no way is found into enough domains."""
        supplies = self._supplies()
        counts = self._spread_out(supplies)
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
                number_by_cell = np.clip(int(cells[cell]) - (upto - free[inside]), 0, free[inside])
                free[inside] -= number_by_cell
                rows.append(np.repeat(self._rows[inside], number_by_cell))
            place = np.zeros(len(self._room), dtype=bool)
            place[self._rows[supply.cells[self._cell_of_row]]] = True
            dealt.append(Dealt(supply.units, np.sort(np.concatenate(rows)) if rows else EMPTY, place))
        return dealt

    @staticmethod
    def _reaches(spread: _Spread, cells: Bools) -> bool:
        """Whether these cells, and the tasks that have a node, are in enough domains for a spread."""
        part, limit, column = spread
        domains = distinct(np.concatenate((column[cells], limit.domain_of_row[part.standing])))
        return int(np.count_nonzero(domains >= 0)) >= limit.spread

    def _met(self, spread: _Spread, supplies: list[_Supply], counts: Ints) -> bool:
        return len(self._hit(spread, supplies, counts)) >= spread[1].spread

    def _hit(self, spread: _Spread, supplies: list[_Supply], counts: Ints) -> set[int]:
        """The domains in which tasks of a part stand."""
        part, limit, column = spread
        mine = [i for i, supply in enumerate(supplies) if self._inside(supply, part)]
        hit = {int(domain) for domain in distinct(column[counts[mine].any(axis=0)])} if mine else set()
        hit |= {int(domain) for domain in limit.domain_of_row[part.standing].tolist()}
        return hit - {-1}

    def _inside(self, supply: _Supply, part: problem.Part) -> bool:
        return part in self._around[supply.units[0].number]

    def _spread_out(self, supplies: list[_Supply]) -> Ints | None:
        """How many tasks of each supply go to each cell, (supplies x cells), in enough domains for every spread.

        Single tasks are fixed to domains that would have none, until every spread is met; the rest goes anywhere.
        """
        fixed = np.zeros((len(supplies), len(self._capacity)), dtype=np.int64)
        while True:
            remaining_supplies = [s._replace(amount=s.amount - int(fixed[i].sum())) for i, s in enumerate(supplies)]
            counts = self._flow(remaining_supplies, self._capacity - fixed.sum(axis=0))
            if counts is None:
                return None
            counts = counts + fixed
            unmet = next((spread for spread in self._spreads if not self._met(spread, supplies, counts)), None)
            if unmet is None:
                return counts
            supply_and_cell = self._another_domain(unmet, remaining_supplies, self._hit(unmet, supplies, fixed), fixed)
            if supply_and_cell is None:
                return None
            fixed[supply_and_cell] += 1

    def _another_domain(
        self, spread: _Spread, supplies: list[_Supply], hit: set[int], fixed: Ints
    ) -> tuple[int, int] | None:
        """The supply of which a task may go to a domain that has none yet, and its roomiest cell there."""
        part, _, column = spread
        free = self._capacity - fixed.sum(axis=0)
        for cell in np.argsort(-free, kind="stable").tolist():
            if column[cell] >= 0 and int(column[cell]) not in hit and free[cell] > 0:
                for i, supply in enumerate(supplies):
                    if supply.amount and supply.cells[cell] and self._inside(supply, part):
                        return i, cell
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
        free_cells = capacity.copy()
        for i, kind in np.argwhere(flow > 0).tolist():
            cells = np.flatnonzero(kind_of == kind)
            cells = cells[np.argsort(self._first[cells], kind="stable")]
            before = np.cumsum(free_cells[cells]) - free_cells[cells]
            poured = np.clip(int(flow[i, kind]) - before, 0, free_cells[cells])
            counts[i, cells] += poured
            free_cells[cells] -= poured
        return counts


def _transport(amounts: Sequence[int], open_to: Bools, rooms: list[int]) -> Ints | None:
    """How much each supply sends to each kind of cell; None where not all of it can be sent.

    What finds no room directly goes where another supply makes way for it: shortest augmenting paths, exact.
    """
    flow = np.zeros(open_to.shape, dtype=np.int64)
    for i in np.argsort(open_to.sum(axis=1), kind="stable").tolist():
        missing = amounts[i]
        for kind in np.flatnonzero(open_to[i]).tolist():
            sent = min(missing, rooms[kind])
            flow[i, kind] += sent
            rooms[kind] -= sent
            missing -= sent
        while missing:
            pushed = _augmented(i, missing, flow, open_to, rooms)
            if not pushed:
                return None
            missing -= pushed
    return flow


def _augmented(start: int, amount_left: int, flow: Ints, open_to: Bools, rooms: list[int]) -> int:
    """Send more of a supply along a path of supplies that make way for each other; how much, 0 where none can."""
    came: dict[int, tuple[int, int]] = {}  # of each kind: the supply that wants to send there, and that supply's kind
    seen = {start}
    layer = [(start, -1)]
    while layer:
        after = []
        for supply, through in layer:
            for kind in np.flatnonzero(open_to[supply]).tolist():
                if kind in came:
                    continue
                came[kind] = supply, through
                if rooms[kind]:
                    return _push(kind, amount_left, came, flow, rooms)
                for other_supply in np.flatnonzero(flow[:, kind]).tolist():
                    if other_supply not in seen:
                        seen.add(other_supply)
                        after.append((other_supply, kind))
        layer = after
    return 0


def _push(kind: int, amount_left: int, came: dict[int, tuple[int, int]], flow: Ints, rooms: list[int]) -> int:
    path = []
    at = kind
    amount = min(amount_left, rooms[kind])
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
