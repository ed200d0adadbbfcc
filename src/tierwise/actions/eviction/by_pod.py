"""Plan evictions pod by pod: the tightest place that can be freed, with the fewest evictions.

Koordinator preempts like this for a job, and for a pod within its quota; Kubernetes does for any pod. The gangs of
victims are not considered: the pods that are needed are evicted, and the others stay. Candidate places are those that
the job's topology allows; all of one kind (one tier, or one gather option) are compared before the next kind is tried.

For tasks of one plain shape every node is priced and the cheapest choice is exact; what it costs at least is known for
every place before, so that it is made for the most promising places alone. Everything else (several shapes, rules
between pods, sub-jobs, a quota that must shrink first) is tried on the ledger, the least important victims first.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

import msgspec
import numpy as np

from tierwise.actions.eviction.feasibility import fits_in, quota_allows
from tierwise.actions.eviction.knapsack import at_least, fewest, fewest_in_multiples, rates
from tierwise.actions.eviction.node_costs import (
    NodeCosts,
    VictimOrder,
    beyond_budgets,
    by_importance,
    node_keys,
    price_nodes,
    price_of,
)
from tierwise.actions.eviction.price_bounds import Price
from tierwise.actions.eviction.victims import EvictionPlan, choose
from tierwise.actions.placement.bounds import Room, may_hold_all
from tierwise.actions.placement.demand import Demand
from tierwise.actions.placement.quanta import Quanta, slot_tree
from tierwise.framework.bundle import Bundles
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Preemptor
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Bools, Ints
from tierwise.model.topology import ROOT

__all__ = ["plans_by_pod"]

_ROWS = 8
"""How many single nodes are looked at: the first is the cheapest, others matter where its quota objects."""


def plans_by_pod(
    cycle: Cycle,
    preemptor: Preemptor,
    asked: Demand,
    candidates: Ints,
    gone: Bools,
    *,
    allowed: Ints,
    victim_order: VictimOrder,
) -> tuple[Iterator[EvictionPlan], tuple[int, ...]]:
    """The plans of the first kind of place that can be made, the cheapest first, and the domains that they are for.

    `allowed` are the domains in which a job is searched, `gone` those who are evicted already. Counting does not see
    what a group that falls as one loses elsewhere, so plans are made without such groups as well.
    """
    together = preemptor.running.jobs.together[preemptor.running.job[candidates]]
    choices = (candidates, candidates[~together]) if together.any() else (candidates,)
    planners = [_Planner(cycle, preemptor, asked, chosen, gone, victim_order) for chosen in choices]
    for kind in planners[0].kinds(allowed):
        bounds = [(price, found, planner) for planner in planners for price, found in planner.bounds(kind)]
        if bounds:
            return _cheapest_first(bounds), tuple(dict.fromkeys(found.domain for _, found, _ in bounds))
    return iter(()), ()


def _cheapest_first(bounds: list[tuple[Price, _Place | EvictionPlan, _Planner]]) -> Iterator[EvictionPlan]:
    """Plans by price; one is made once nothing else can be cheaper."""
    ahead = [(price, i, found) for i, (price, found, _) in enumerate(bounds)]
    heapify(ahead)
    while ahead:
        _, i, found = heappop(ahead)
        if isinstance(found, EvictionPlan):
            yield found
        elif (plan := bounds[i][2].plan(found)) is not None:
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
        asked: Demand,
        candidates: Ints,
        gone: Bools,
        victim_order: VictimOrder,
    ) -> None:
        self._cycle = cycle
        self._gone = gone
        self._cause = preemptor
        self._asked = asked
        self._candidates = candidates
        self._manner = victim_order
        self._priorities = np.unique(preemptor.running.priority[candidates])
        self._prices = self._priced()

    def _priced(self) -> NodeCosts | None:
        """Prices on every node; None where counting would not be exact."""
        asked = self._asked
        several = len(asked.task_groups) > 1 or len(asked.shapes) > 1 or asked.substitutes or self._cause.job.policies
        return None if several or self._cycle.pipeline.moving(asked.shapes[0]) else self._prices_of_first()

    def _prices_of_first(self) -> NodeCosts:
        shape, need = self._asked.shapes[0], self._asked.task_groups[0].need
        return price_nodes(self._cycle, shape, self._cause.running, self._candidates, need, self._manner)

    @property
    def _by_node(self) -> bool:
        """Whether single nodes are compared: Kubernetes looks for one, whatever the others hold."""
        return self._manner is VictimOrder.POD and self._asked.tasks == 1

    # -- where

    def kinds(self, allowed: Ints) -> Iterator[list[_Place]]:
        """Places of equal worth, the tightest first."""
        topology, job = self._cycle.topology, self._cause.job
        options = self._cycle.pipeline.gather_options(job, self._asked.tasks)
        if options and self._prices is not None and self._cycle.alternate_topology(job) is None:
            tree = slot_tree(self._cycle, self._asked.task_groups[0].sub, job, self._prices.room)
            for option in options:
                places = (quanta := Quanta(tree, option)).holding(self._asked.tasks)
                if option.tier <= 0:
                    yield self._nodes(self._prices, places - len(topology), topology.leaf)
                else:
                    stepped = quanta if option.multiples else None
                    yield [_Place(d, topology.span(d), int(topology.rank[d]), stepped) for d in places.tolist()]
            return
        freed = self._cause.running.freed(self._candidates, len(self._cycle.nodes))
        room = Room(self._cycle, Pool.FUTURE_IDLE, freed=freed)
        able = allowed[may_hold_all(room, self._asked, allowed)]
        if self._by_node and self._prices is None and ROOT in able:
            prices = self._prices_of_first()  # of nodes that have room enough: rules between pods decide the rest
            yield self._nodes(prices, np.flatnonzero(prices.room > 0), np.full(len(prices.room), ROOT))
        for tier in np.unique(topology.tier[able]).tolist():
            yield [
                _Place(d, topology.span(d), int(topology.rank[d])) for d in able[topology.tier[able] == tier].tolist()
            ]

    def _nodes(self, prices: NodeCosts, rows: Ints, domain: Ints) -> list[_Place]:
        """The cheapest single nodes, each in a domain; there are many, and what they cost is known already."""
        rank, best = self._cycle.nodes.rank, self._cheapest_first(prices, rows)[:_ROWS]
        return [_Place(int(domain[r]), slice(r, r + 1), int(rank[r])) for r in best.tolist()]

    def _cheapest_first(self, prices: NodeCosts, rows: Ints) -> Ints:
        """Rows by what all tasks of the demand cost there, then by name."""
        if not len(rows):
            return rows  # no eviction makes room: nothing was priced
        rank = self._cycle.nodes.rank[rows]
        if not self._by_node:
            return rows[np.lexsort((rank, prices.price[self._asked.tasks, rows]))]
        going = prices.gone[1]
        keys = node_keys(
            self._cycle, self._cause.running, prices.candidates[going], prices.rows[going], len(self._cycle.nodes)
        )
        return rows[np.lexsort((rank, *(key[rows] for key in reversed(keys))))]

    # -- who

    def bounds(self, places: list[_Place]) -> list[tuple[Price, _Place | EvictionPlan]]:
        """What plans for these places cost at least, where they can be made; the plans where only trying tells."""
        prices, over = self._prices, self._cycle.pipeline.quota_exceeded(self._cause.job, self._cause.need)
        tried = prices is None or self._by_node or self._on_other_trees or over is not None
        if prices is None or tried or any(place.quanta is not None for place in places):
            plans = [plan for place in places if (plan := self.plan(place)) is not None]
            return [(plan.price, plan) for plan in plans]
        each = rates(prices)
        least = [(at_least(prices, each, place.span, self._asked.tasks), place) for place in places]
        return [((*prices.told(price), float(place.name)), place) for price, place in least if price is not None]

    @property
    def _on_other_trees(self) -> bool:
        """Whether nodes are priced on the tree that rows follow, and that is not the job's."""
        cycle, job = self._cycle, self._cause.job
        return cycle.alternate_topology(job) is not None or cycle.snapshot.on_several_trees(job)

    def plan(self, place: _Place) -> EvictionPlan | None:
        if self._on_other_trees:
            return self._tried(place)
        victims = self._cheapest(place)
        if victims is not None and quota_allows(self._cycle, self._cause, victims):
            return self._as_plan(place, victims)
        if victims is None and self._prices is not None:
            return None  # counting is exact: no evictions make enough room here
        return self._tried(place)

    def _cheapest(self, place: _Place) -> Ints | None:
        if self._prices is None:
            return None
        count, rank = self._asked.tasks, self._cycle.nodes.rank
        if self._by_node:
            numbers = self._on_one_node(self._prices, place.span)
        elif place.quanta is None:
            numbers = fewest(self._prices, rank, place.span, count)
        else:
            numbers = fewest_in_multiples(self._prices, place.domain, count, place.quanta)
        return None if numbers is None else self._prices.of(numbers)

    def _on_one_node(self, prices: NodeCosts, span: slice) -> Ints | None:
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
        local = local[np.lexsort(by_importance(running, local, self._manner))]
        if self._manner.budgets_first:
            local = local[np.argsort(~beyond_budgets(self._cycle, running, local), kind="stable")]
        fits = fits_in(self._cycle, self._cause, self._asked, place.domain)
        taken = choose(_bundles(running.job, local[::-1], np.arange(len(local))), fits)
        return None if taken is None else self._as_plan(place, np.sort(taken))

    def _as_plan(self, place: _Place, victims: Ints) -> EvictionPlan:
        """Compared by what the victims cost, with all who fall with them, then by name."""
        running, tasks = self._cause.running, self._asked.tasks
        falling = running.with_groups(victims, self._gone)
        cost = price_of(self._cycle, running, falling, self._manner, tasks=tasks, priorities=self._priorities)
        by_job = victims[np.argsort(running.job[victims], kind="stable")]
        bundles = _bundles(running.job, by_job, np.flatnonzero(np.diff(running.job[by_job], prepend=-1)))
        return EvictionPlan(place.domain, victims, bundles, tuple(range(len(bundles))), (*cost, float(place.name)))


def _bundles(jobs: Ints, victims: Ints, first: Ints) -> Bundles:
    """Victims in bundles, each of one job, that begin at these; to break a gang costs nothing here."""
    count = len(first)
    safe, nothing = np.ones(count, dtype=bool), np.zeros(count)
    start = np.append(first, len(victims)).astype(np.int64)
    return Bundles(victims, start, jobs[victims[first]], safe, nothing, nothing, np.zeros(count, dtype=np.int64))
