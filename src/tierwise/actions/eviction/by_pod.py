"""Plan evictions pod by pod: the tightest place that can be freed, with the fewest evictions.

Koordinator preempts like this for a job, and for a pod within its quota; Kubernetes does for any pod. The gangs of
victims are not considered: the pods that are needed are evicted, and the others stay. Candidate places are those that
the job's topology allows; all of one kind (one tier, or one gather option) are compared before the next kind is tried.

For tasks of one plain shape every node is priced and the cheapest choice is exact; what it costs at least is known for
every place before, so that it is made for the most promising places alone. Everything else (several shapes, rules
between pods, sub-jobs, a quota that must shrink first) is tried on the ledger, the least important victims first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush

import msgspec
import numpy as np

from tierwise.actions.eviction import node_costs
from tierwise.actions.eviction.feasibility import Quotas, fits_in, quota_objection
from tierwise.actions.eviction.price_bounds import Price
from tierwise.actions.eviction.victims import EvictionPlan, choose
from tierwise.actions.placement.bounds import Room, may_hold_all
from tierwise.actions.placement.demand import Demand
from tierwise.actions.placement.slots import Quanta, slot_tree
from tierwise.framework.bundle import Bundles
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Preemptor
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import EMPTY, Bools, Ints, distinct, ordinals
from tierwise.model.snapshot import Ground
from tierwise.model.topology import ROOT

__all__ = ["at_least", "fewest", "fewest_in_multiples", "plans_by_pod", "rates"]

_ROWS = 8
"""How many single nodes are looked at: the first is the cheapest, others matter where its quota objects."""


def plans_by_pod(
    cycle: Cycle,
    preemptor: Preemptor,
    demand: Demand,
    candidates: Ints,
    gone: Bools,
    *,
    allowed: Ints,
    victim_order: node_costs.VictimOrder,
) -> tuple[Iterator[EvictionPlan], tuple[int, ...]]:
    """The plans of the first kind of place that can be made, the cheapest first, and the domains that they are for.

    `allowed` are the domains in which a job is searched, `gone` those who are evicted already. Counting does not see
    what a group that falls as one loses elsewhere, so plans are made without such groups as well.
    """
    together = preemptor.running.jobs.together[preemptor.running.job[candidates]]
    choices = (candidates, candidates[~together]) if together.any() else (candidates,)
    planners = [_Planner(cycle, preemptor, demand, allowed_domains, gone, victim_order) for allowed_domains in choices]
    for kind in planners[0].kinds(allowed):
        bounds = []
        for planner in planners:
            for price, bounded_place in planner.bounds(kind):
                bounds.append((price, bounded_place, planner))
        if bounds:
            return _cheapest_first(bounds), tuple(dict.fromkeys(bounded_place.domain for _, bounded_place, _ in bounds))
    return iter(()), ()


def _cheapest_first(bounds: list[tuple[Price, _Place | EvictionPlan, _Planner]]) -> Iterator[EvictionPlan]:
    """Plans by price; one is made once nothing else can be cheaper."""
    ahead = [(price, i, place_or_plan) for i, (price, place_or_plan, _) in enumerate(bounds)]
    heapify(ahead)
    while ahead:
        _, i, place_or_plan = heappop(ahead)
        if isinstance(place_or_plan, EvictionPlan):
            yield place_or_plan
        elif (plan := bounds[i][2].plan(place_or_plan)) is not None:
            heappush(ahead, (plan.price, i, plan))


class _Place(msgspec.Struct, frozen=True):
    """A domain, or a single row of it, and how tasks are to be gathered there."""

    domain: int
    span: slice
    name: int  # natural order among its like
    quanta: Quanta | None = None  # in which numbers tasks come there; None where any number may


class _Planner:
    def __init__(
        self,
        cycle: Cycle,
        preemptor: Preemptor,
        demand: Demand,
        candidates: Ints,
        gone: Bools,
        victim_order: node_costs.VictimOrder,
    ) -> None:
        self._cycle = cycle
        self._gone = gone
        self._cause = preemptor
        self._asked = demand
        self._candidates = candidates
        self._manner = victim_order
        self._priorities = distinct(preemptor.running.priority[candidates])
        self._prices = self._priced()

    def _priced(self) -> node_costs.NodeCosts | None:
        """Prices on every node; None where counting would not be exact."""
        demand = self._asked
        parted = self._cause.job.shape.parted
        several = parted or len(demand.task_groups) > 1 or len(demand.shapes) > 1 or demand.substitutes
        if several or self._cycle.pipeline.moving(demand.shapes[0]):
            return None
        return self._prices_of_first()

    def _prices_of_first(self) -> node_costs.NodeCosts:
        shape = self._asked.shapes[0]
        need = self._asked.task_groups[0].need
        return node_costs.price_nodes(self._cycle, shape, self._cause.running, self._candidates, need, self._manner)

    @property
    def _by_node(self) -> bool:
        """Whether single nodes are compared: Kubernetes looks for one, whatever the others hold."""
        return self._manner is node_costs.VictimOrder.POD and self._asked.need == 1

    # -- where

    def kinds(self, allowed: Ints) -> Iterator[list[_Place]]:
        """Places of equal worth, the tightest first."""
        topology = self._cycle.topology
        job = self._cause.job
        options = self._cycle.pipeline.gather_options(job, self._asked.need)
        if options and self._prices is not None and self._cycle.alternate_topology(job) is None:
            tree = slot_tree(self._cycle, self._asked.task_groups[0].sub, job, self._prices.room)
            for option in options:
                places = (quanta := Quanta(tree, option)).holding(self._asked.need)
                if option.tier <= 0:
                    yield self._nodes(self._prices, places - len(topology), topology.leaf)
                else:
                    stepped = quanta if option.multiples else None
                    yield [_Place(d, topology.span(d), int(topology.rank[d]), stepped) for d in places.tolist()]
            return
        freed = self._cause.running.freed(self._candidates)
        room = Room(self._cycle, Pool.FUTURE_IDLE, freed=freed)
        able = allowed[may_hold_all(room, self._asked, allowed)]
        if self._by_node and self._prices is None and ROOT in able:
            prices = self._prices_of_first()  # of nodes that have room enough: rules between pods decide the rest
            yield self._nodes(prices, np.flatnonzero(prices.room > 0), np.full(len(prices.room), ROOT))
        for tier in distinct(topology.tier[able]).tolist():
            yield [
                _Place(d, topology.span(d), int(topology.rank[d])) for d in able[topology.tier[able] == tier].tolist()
            ]

    def _nodes(self, prices: node_costs.NodeCosts, rows: Ints, domain: Ints) -> list[_Place]:
        """The cheapest single nodes, each in a domain; there are many, and what they cost is known already."""
        rank = self._cycle.nodes.rank
        best = self._cheapest_first(prices, rows)[:_ROWS]
        return [_Place(int(domain[r]), slice(r, r + 1), int(rank[r])) for r in best.tolist()]

    def _cheapest_first(self, prices: node_costs.NodeCosts, rows: Ints) -> Ints:
        """Rows by what all tasks of the demand cost there, then by name."""
        if not len(rows):
            return rows  # no eviction makes room: nothing was priced
        rank = self._cycle.nodes.rank[rows]
        if not self._by_node:
            return rows[np.lexsort((rank, prices.price[self._asked.need, rows]))]
        going = prices.gone[1]
        keys = node_costs.node_keys(
            self._cycle, self._cause.running, prices.candidates[going], prices.rows[going], len(self._cycle.nodes)
        )
        return rows[np.lexsort((rank, *(key[rows] for key in reversed(keys))))]

    # -- who

    def bounds(self, places: list[_Place]) -> list[tuple[Price, _Place | EvictionPlan]]:
        """What plans for these places cost at least, where they can be made; the plans where only trying tells."""
        prices = self._prices
        over = self._cycle.pipeline.quota_exceeded(self._cause.job, self._cause.need)
        tried = prices is None or self._by_node or self._on_other_trees or over is not None
        if prices is None or tried or any(place.quanta is not None for place in places):
            plans = [plan for place in places if (plan := self.plan(place)) is not None]
            return [(plan.price, plan) for plan in plans]
        cheapest_by_row = rates(prices)
        lower_bounds = [(at_least(prices, cheapest_by_row, place.span, self._asked.need), place) for place in places]
        return [((*prices.told(price), float(place.name)), place) for price, place in lower_bounds if price is not None]

    @property
    def _on_other_trees(self) -> bool:
        """Whether nodes are priced on the tree that rows follow, and that is not the job's."""
        cycle = self._cycle
        job = self._cause.job
        return cycle.alternate_topology(job) is not None or cycle.snapshot.ground(job) is Ground.TREES

    def plan(self, place: _Place) -> EvictionPlan | None:
        if self._on_other_trees:
            return self._tried(place)
        victims = self._cheapest(place)
        if victims is not None and quota_objection(self._cycle, self._cause, victims) is None:
            return self._as_plan(place, victims)
        if victims is None and self._prices is not None:
            return None  # counting is exact: no evictions make enough room here
        return self._tried(place)

    def _cheapest(self, place: _Place) -> Ints | None:
        if self._prices is None:
            return None
        count = self._asked.need
        rank = self._cycle.nodes.rank
        if self._by_node:
            numbers = self._on_one_node(self._prices, place.span)
        elif place.quanta is None:
            numbers = fewest(self._prices, rank, place.span, count)
        else:
            numbers = fewest_in_multiples(self._prices, place.domain, count, place.quanta)
        return None if numbers is None else self._prices.of(numbers)

    def _on_one_node(self, prices: node_costs.NodeCosts, span: slice) -> Ints | None:
        """The task on the best node of a span; on none where it fits as things are."""
        rows = np.arange(span.start, span.stop)
        numbers = np.zeros(len(prices.free), dtype=np.int64)
        if not prices.free[rows].any():
            able = rows[prices.room[rows] > 0]
            if not len(able):
                return None
            numbers[self._cheapest_first(prices, able)[0]] = 1
        return numbers

    def _tried(self, place: _Place) -> EvictionPlan | None:
        """Evict the least important first until the gang fits and its quota allows it; drop unnecessary victims."""
        running = self._cause.running
        inside = running.inside(place.span)
        local = self._candidates[(self._candidates >= inside.start) & (self._candidates < inside.stop)]
        local = local[np.lexsort(node_costs.by_importance(running, local, self._manner))]
        if self._manner.budgets_first:
            local = local[np.argsort(~node_costs.beyond_budgets(self._cycle, running, local), kind="stable")]
        quotas = Quotas(self._cycle, self._cause)
        fits = fits_in(self._cycle, self._cause, self._asked, place.domain, quotas)
        victims = choose(_bundles(running.job, local[::-1], np.arange(len(local))), fits)
        if victims is None:
            return None
        return self._as_plan(place, np.sort(victims))

    def _as_plan(self, place: _Place, victims: Ints) -> EvictionPlan:
        """Compared by what the victims cost, with all who fall with them, then by name."""
        running = self._cause.running
        tasks = self._asked.need
        falling = running.with_groups(victims, self._gone)
        cost = node_costs.price_of(
            self._cycle, running, falling, self._manner, tasks=tasks, priorities=self._priorities
        )
        by_job = victims[np.argsort(running.job[victims], kind="stable")]
        bundles = _bundles(running.job, by_job, np.flatnonzero(np.diff(running.job[by_job], prepend=-1)))
        return EvictionPlan(place.domain, victims, bundles, tuple(range(len(bundles))), (*cost, float(place.name)))


def _bundles(jobs: Ints, victims: Ints, bundle_starts: Ints) -> Bundles:
    """Victims in bundles, each of one job, that begin at these; to break a gang costs nothing here."""
    count = len(bundle_starts)
    safe = np.ones(count, dtype=bool)
    nothing = np.zeros(count)
    start = np.append(bundle_starts, len(victims)).astype(np.int64)
    return Bundles(
        victims, start, jobs[victims[bundle_starts]], safe, nothing, nothing, np.zeros(count, dtype=np.int64)
    )


# Choose how many tasks each row of a domain takes, at the lowest total cost: an exact knapsack over the rows.
#
# Without multiples, free capacity is used first, and of rows with equal prices only as many as could be needed are
# considered, the first by name; so the work follows what is missing, not the size of the cluster. With multiples
# (each domain of a tier takes a multiple of a number) there is one knapsack inside the other, from the rows up. Among
# equal choices the first parts by name take the most.


_NEVER = 2**60
"""The price of what cannot be: two of them still add up inside 64 bits."""


def fewest(prices: node_costs.NodeCosts, rank: Ints, span: slice, count: int) -> Ints | None:
    """The number of tasks of each row (of all rows of the cluster); None where the span cannot hold so many."""
    rows = np.arange(span.start, span.stop)
    rows = rows[prices.room[rows] > 0]
    free = prices.free[rows]
    missing = count - int(free.sum())
    numbers = np.zeros(len(prices.free), dtype=np.int64)
    if missing <= 0:
        return numbers  # the placement chooses among the free rows
    numbers[rows] = free
    has_further_room = prices.room[rows] > free
    rows = rows[has_further_room][np.argsort(rank[rows[has_further_room]], kind="stable")]
    table = _table(prices, rows, missing)
    cheapest_columns = _first_of_each(table, missing)
    dealt = _deal([_trimmed(table[:, i]) for i in cheapest_columns.tolist()], missing)
    if dealt is None:
        return None
    numbers[rows[cheapest_columns]] += np.array(dealt, dtype=np.int64)
    return numbers


def rates(prices: node_costs.NodeCosts) -> Ints:
    """Lowest price of one task more than fit without evictions, by row, however many tasks the row takes."""
    rows = np.arange(len(prices.free))
    largest_number = len(prices.price) - 1
    table = _table(prices, rows, largest_number)[1:]
    result: Ints = (table // np.arange(1, largest_number + 1)[:, None]).min(axis=0, initial=_NEVER)
    return result


def at_least(prices: node_costs.NodeCosts, rates_by_row: Ints, span: slice, count: int) -> int | None:
    """A lower bound of the price that `fewest` finds, given the `rates` of rows. None where the span is too small."""
    free = prices.free[span]
    room = prices.room[span]
    missing = count - int(free.sum())
    if int(room.sum()) < count:
        return None
    if missing <= 0:
        return 0
    further = np.repeat(rates_by_row[span], np.minimum(room - free, missing))
    return int(np.partition(further, missing - 1)[:missing].sum())


def fewest_in_multiples(prices: node_costs.NodeCosts, domain: int, count: int, quanta: Quanta) -> Ints | None:
    """Number of tasks on each row below a domain, at the lowest price, in multiples. None where they do not fit."""
    return _Nested(prices, quanta, count).deal(domain)


def _table(prices: node_costs.NodeCosts, rows: Ints, missing: int) -> Ints:
    """The price of each number of tasks beyond what is free, (numbers x rows)."""
    largest_number = min(missing, len(prices.price) - 1)
    numbers = prices.free[rows] + np.arange(largest_number + 1)[:, None]
    priced_numbers = np.minimum(numbers, len(prices.price) - 1)
    table = prices.price[priced_numbers, rows]
    table[numbers > prices.room[rows]] = _NEVER
    result: Ints = table
    return result


def _first_of_each(table: Ints, limit: int) -> Ints:
    """Of the columns that are equal, the first so many; in their order."""
    if not table.shape[1]:
        return EMPTY
    _, kind = np.unique(table, axis=1, return_inverse=True)
    return np.flatnonzero(ordinals(kind.ravel()) < limit)


def _trimmed(prices: Ints) -> Ints:
    """Without the numbers at the end that cannot be."""
    possible = np.flatnonzero(prices < _NEVER)
    if len(possible):
        return prices[: int(possible[-1]) + 1]
    return prices[:0]


def _tables(parts: Sequence[Ints], count: int) -> list[Ints]:
    """For each part, the least price of every number of tasks that it and the parts after it take together."""
    after = np.full(count + 1, _NEVER, dtype=np.int64)
    after[0] = 0
    tables = [after]
    for part in reversed(parts):
        best = np.full(count + 1, _NEVER, dtype=np.int64)
        for number, price in enumerate(part[: count + 1].tolist()):
            if price < _NEVER:
                np.minimum(best[number:], after[: count + 1 - number] + price, out=best[number:])
        after = np.minimum(best, _NEVER)
        tables.append(after)
    return tables[::-1]


def _deal(parts: Sequence[Ints], count: int) -> list[int] | None:
    """The number of each part, the first taking the most among equal choices."""
    tables = _tables(parts, count)
    if tables[0][count] >= _NEVER:
        return None
    return _followed(parts, tables, count)


def _followed(parts: Sequence[Ints], tables: Sequence[Ints], count: int) -> list[int]:
    numbers = []
    for part, table, after in zip(parts, tables, tables[1:], strict=False):
        limit = min(count, len(part) - 1)
        totals = part[: limit + 1] + after[count - limit : count + 1][::-1]
        number = int(np.flatnonzero(totals == table[count])[-1])
        numbers.append(number)
        count -= number
    return numbers


class _Inside(msgspec.Struct, frozen=True):
    """A domain taken apart: its children and its own rows, what each costs, and the least price of all numbers."""

    children: tuple[int, ...]
    rows: tuple[int, ...]
    parts: list[Ints]
    tables: list[Ints]


class _Nested:
    """Knapsacks inside each other: a domain takes what its parts take, in whole multiples."""

    def __init__(self, prices: node_costs.NodeCosts, quanta: Quanta, count: int) -> None:
        self._prices = prices
        self._tree = quanta.tree
        self._quanta = quanta
        self._count = count
        self._inside: dict[int, _Inside] = {}

    def deal(self, domain: int) -> Ints | None:
        dealt_tree = self._take_apart(domain)
        if dealt_tree.tables[0][self._count] >= _NEVER:
            return None
        numbers = np.zeros(len(self._prices.free), dtype=np.int64)
        pending = [(domain, self._count)]
        while pending:
            current, count = pending.pop()
            inside = self._inside[current]
            dealt = _followed(inside.parts, inside.tables, count)
            pending += zip(inside.children, dealt, strict=False)
            numbers[list(inside.rows)] = dealt[len(inside.children) :]
        return numbers

    def _take_apart(self, domain: int) -> _Inside:
        topology = self._tree.topology
        children = sorted(topology.children[domain], key=lambda child: int(topology.rank[child]))
        own_span = topology.own_span(domain)
        direct = own_span.start + np.flatnonzero(self._prices.room[own_span] > 0)
        direct = direct[np.argsort(self._tree.rank[direct], kind="stable")]
        parts = [self._of_domain(child) for child in children] + [self._of_row(row) for row in direct.tolist()]
        self._inside[domain] = _Inside(tuple(children), tuple(direct.tolist()), parts, _tables(parts, self._count))
        return self._inside[domain]

    def _of_domain(self, child: int) -> Ints:
        price = self._take_apart(child).tables[0].copy()
        return self._in_steps(price, child)

    def _of_row(self, row: int) -> Ints:
        limit = min(self._count, int(self._prices.room[row]))
        price = self._prices.price[: limit + 1, row].copy()
        return self._in_steps(price, len(self._tree.topology) + row)

    def _in_steps(self, price: Ints, place: int) -> Ints:
        """Only numbers that make a whole multiple together with what is held."""
        price[(np.arange(len(price)) + self._tree.held[place]) % self._quanta.quantum[place] != 0] = _NEVER
        return _trimmed(price)
