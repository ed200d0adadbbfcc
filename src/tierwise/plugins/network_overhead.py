"""NetworkOverhead: services near those that they call, within the costs they allow, on links with the bandwidth left.

Filter: a node goes where more placed dependencies violate their `maxNetworkCost` than keep it, or where a link would
be asked for more than it has left. Score: the sum of the costs to all placed dependencies, turned round so that the
cheapest node has 100. Costs are looked up per spot (region and zone) and spread over the nodes at the end, so the price
does not depend on how many dependencies are placed. docs/plugins/network-overhead.md states the rules.

Arguments: `namespaces` (["default"]), `weightsName` ("UserDefined"), `networkTopologyName` ("nt-default"), `strict`
(false: one violated limit is enough), `bothWays` (false: pods that depend on this one are scored too), `lookAhead`
(false: so are those that still wait, where `outlook` would place them).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tierwise.framework.arguments import flag, listed
from tierwise.framework.census import Census
from tierwise.framework.extension import Arguments, Ask, CycleView, Reach
from tierwise.model.arrays import Bools, Floats, Ints, Why
from tierwise.model.job import Task
from tierwise.model.reason import Reason
from tierwise.model.services import Dependency, NetworkMap, Service
from tierwise.model.shape import Shape
from tierwise.plugins.ahead import Ahead
from tierwise.plugins.link_room import Edge, LinkRoom
from tierwise.plugins.spots import Costs, Spots
from tierwise.plugins.topological_sort import unknown_groups

__all__ = ["NetworkOverhead"]

_PLUGIN = "NetworkOverhead"
_BEST = 100
_TOO_FAR = Reason(
    "NetworkCostExceeded", _PLUGIN, "did not meet the network requirements of the placed dependencies", curable=True
)


@dataclass(frozen=True, slots=True)
class _Kinds:
    """Kinds of pods, and how often each counts."""

    kinds: Ints
    times: Ints

    @classmethod
    def of(cls, kinds: Iterable[int]) -> _Kinds:
        found, times = np.unique(np.array(list(kinds), dtype=np.int64), return_counts=True)
        return cls(found, times)

    def __bool__(self) -> bool:
        return len(self.kinds) > 0


@dataclass(frozen=True, slots=True)
class _Limit:
    """Dependencies with one limit: per pair of spots whether it is kept or violated."""

    callees: _Kinds
    kept: Ints
    violated: Ints


@dataclass(frozen=True, slots=True)
class _Plan:
    """What one kind looks at."""

    kind: int
    callees: _Kinds
    callers: _Kinds  # empty unless both ways are looked at
    limits: tuple[_Limit, ...]
    links: bool  # asks links for bandwidth

    def __bool__(self) -> bool:
        return bool(self.callees or self.callers or self.links)


class NetworkOverhead:
    """Filters and ranks nodes by what the network from them to their dependencies costs and carries."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._view = view
        self._namespaces = listed(arguments, "namespaces", ("default",))
        self._weights_name = str(arguments.get("weightsName") or "UserDefined")
        self._map_name = str(arguments.get("networkTopologyName") or "nt-default")
        self._strict = flag(arguments, "strict", default=False)
        self._look_ahead = flag(arguments, "lookAhead", default=False)
        self._both_ways = self._look_ahead or flag(arguments, "bothWays", default=False)
        self._rows = len(view.nodes)
        self._plans: dict[int, _Plan] = {}
        network = view.snapshot.services.map(self._map_name, self._namespaces)
        self._missing_map = network is None
        if network is not None and any(shape.service is not None for shape in view.snapshot.shapes):
            self._prepare(network)

    def _prepare(self, network: NetworkMap) -> None:
        view = self._view
        self._spots = Spots(view.nodes)
        self._costs = Costs.of(self._spots, network.costs(self._weights_name))
        numbers, kind = _kinds(view.snapshot.shapes)
        self._kind = kind
        self._census = Census(view.ledger, kind, len(numbers), self._spots.of_row, self._spots.number)
        calls = list(self._calls(numbers))
        edges = [Edge(caller, callee, d.bandwidth) for caller, callee, d in calls if d.bandwidth]
        capacities = network.capacities(self._weights_name)
        self._links = LinkRoom(view.ledger, self._spots, capacities, kind, edges)
        self._overloads = np.array([0, *(view.reasons.number(self._overload(i)) for i in range(len(capacities)))])
        self._too_far = view.reasons.number(_TOO_FAR)
        self._plans = self._plan(numbers, calls)
        if self._look_ahead:
            self._ahead = Ahead(view, self._spots, self._costs, self._census, kind, [(a, b) for a, b, _ in calls])

    def _calls(self, numbers: Mapping[Service, int]) -> Iterator[tuple[int, int, Dependency]]:
        """Every dependency between kinds that have pods in this cycle."""
        services = self._view.snapshot.services
        for name in dict.fromkeys(group for group, _ in numbers):
            group = services.some_group(name, self._namespaces)
            for dependency in group.dependencies if group is not None else ():
                caller, callee = numbers.get((name, dependency.caller)), numbers.get((name, dependency.callee))
                if caller is not None and callee is not None:
                    yield caller, callee, dependency

    def _overload(self, link: int) -> Reason:
        text = f"would overload the network link {self._links.links[link]}, which carries {self._links.capacity[link]}"
        return Reason("LinkBandwidthExceeded", _PLUGIN, text)

    def _plan(self, numbers: Mapping[Service, int], calls: Iterable[tuple[int, int, Dependency]]) -> dict[int, _Plan]:
        """What each kind looks at; bandwidth counts for every group, costs for those in the namespaces alone."""
        callees: dict[int, list[tuple[int, int]]] = {}
        callers: dict[int, list[int]] = {}
        for caller, callee, dependency in calls:
            callees.setdefault(caller, []).append((callee, dependency.max_cost))
            callers.setdefault(callee, []).append(caller)
        services = self._view.snapshot.services
        plans: dict[int, _Plan] = {}
        for (group, _), number in numbers.items():
            weighed = services.group(group, self._namespaces) is not None
            own = callees.get(number, []) if weighed else []
            plan = _Plan(
                kind=number,
                callees=_Kinds.of(callee for callee, _ in own),
                callers=_Kinds.of(callers.get(number, []) if weighed and self._both_ways else ()),
                limits=tuple(
                    _Limit(_Kinds.of(k for k, most in own if most == limit), *self._costs.kept(limit))
                    for limit in sorted({limit for _, limit in own})
                ),
                links=self._links.concerns(number),
            )
            if plan:
                plans[number] = plan
        return plans

    def _plan_of(self, shape: Shape) -> _Plan | None:
        if shape.service is None or not self._plans:
            return None
        return self._plans.get(self._kind[shape.number])

    def complaints(self) -> Iterable[tuple[Task, Reason]]:
        """Pods whose group or network does not exist find all nodes equal."""
        yield from unknown_groups(self._view, self._namespaces, _PLUGIN, "all nodes score equally")
        if self._missing_map:
            text = f"NetworkTopology {self._map_name} does not exist: all nodes score equally"
            reason = Reason("NetworkTopologyNotFound", _PLUGIN, text)
            for job in self._view.jobs:
                for part in job.parts():
                    if part.shape.service is not None:
                        yield from ((task, reason) for task in part.tasks)

    # -- filter

    def concerns(self, shape: Shape) -> bool:
        return self._plan_of(shape) is not None

    def why_not_now(self, shape: Shape, span: slice) -> Why:
        """The vote of the limits first, then the links."""
        plan = self._plan_of(shape)
        if plan is None:
            return np.zeros(span.stop - span.start, dtype=np.uint16)
        why = np.zeros(self._spots.number, dtype=np.uint16)
        if plan.links:
            why[:] = self._overloads[self._links.overloaded(plan.kind) + 1]
        result: Why = why[self._spots.of_row[span]]
        kept, violated = self._vote(plan)
        far = violated > (0 if self._strict else kept)
        result[far[span]] = self._too_far
        return result

    def _vote(self, plan: _Plan) -> tuple[Ints, Ints]:
        """Per row, how many placed dependencies would keep their limit, and how many would violate it."""
        kept = np.zeros(self._spots.number, dtype=np.int64)
        violated = np.zeros(self._spots.number, dtype=np.int64)
        for limit in plan.limits:
            placed = self._census.at(limit.callees.kinds, limit.callees.times)
            kept += limit.kept @ placed
            violated += limit.violated @ placed
        of_row = self._spots.of_row
        kept_rows, violated_rows = kept[of_row], violated[of_row]
        bare = self._spots.bare
        if bare.any() and plan.callees:  # a node without labels still keeps every limit to itself
            rows, counts = self._census.rows(plan.callees.kinds, plan.callees.times)
            there = bare[of_row[rows]]
            np.add.at(kept_rows, rows[there], counts[there])
            np.subtract.at(violated_rows, rows[there], counts[there])
        return kept_rows, violated_rows

    # -- score

    def reach(self, ask: Ask) -> Reach:
        return Reach.FREE if self._plan_of(ask.shape) is not None else Reach.FIXED

    def stale(self, ask: Ask, row: int) -> slice:
        return slice(0, self._rows) if self._plan_of(ask.shape) is not None else slice(row, row)

    def score(self, ask: Ask, span: slice, fits: Bools) -> Floats:
        """100 for the cheapest node that fits, 0 for the dearest; 0 for all where nothing costs anything."""
        plan = self._plan_of(ask.shape)
        result = np.zeros(span.stop - span.start)
        if plan is None or not fits.any():
            return result
        cost = self._cost(plan)[span]
        low, high = int(cost[fits].min()), int(cost[fits].max())
        if low != high:
            result[fits] = _BEST - _BEST * (cost[fits] - low) // (high - low)
        elif high:
            result[fits] = _BEST
        if self._look_ahead:
            self._foresee(ask.shape, span, fits, result)
        return result

    def _foresee(self, shape: Shape, span: slice, fits: Bools, scores: Floats) -> None:
        """Give the node that the outlook has for the next pod the best score, and the others less."""
        row = self._ahead.row(shape, np.flatnonzero(fits) + span.start)
        if row is not None:
            np.minimum(scores, _BEST - 1, out=scores)
            scores[row - span.start] = _BEST

    def _cost(self, plan: _Plan) -> Ints:
        """Per row, the sum of what it costs to reach every placed dependency (and to be reached by callers)."""
        paid = self._costs.paid
        of_row = self._spots.of_row
        per_spot = paid @ self._census.at(plan.callees.kinds, plan.callees.times)
        if plan.callers:
            per_spot += paid.T @ self._census.at(plan.callers.kinds, plan.callers.times)
        cost: Ints = per_spot[of_row]
        here = paid.diagonal()
        for kinds in (plan.callees, plan.callers):  # whoever stands on the node itself costs nothing
            rows, counts = self._census.rows(kinds.kinds, kinds.times)
            np.subtract.at(cost, rows, counts * here[of_row[rows]])
        return cost

    # -- for people

    def figures(self, ask: Ask) -> Sequence[Mapping[str, object]]:
        """Per row: accumulated cost, limits kept and violated, and the links that a task there would use."""
        plan = self._plan_of(ask.shape)
        if plan is None:
            return [{}] * self._rows
        cost = self._cost(plan)
        kept, violated = self._vote(plan)
        used: dict[int, list[Mapping[str, object]]] = {}
        for spots, links, needs in self._links.needs(plan.kind) if plan.links else ():
            for spot, link, need in zip(spots.tolist(), links.tolist(), needs.tolist(), strict=True):
                if need:
                    carries, taken = int(self._links.capacity[link]), int(self._links.reserved[link])
                    note = {"link": str(self._links.links[link]), "capacity": carries, "left": carries - taken}
                    used.setdefault(spot, []).append({**note, "needs": need})
        return [
            {
                "cost": int(cost[row]),
                "satisfied": int(kept[row]),
                "violated": int(violated[row]),
                "links": used.get(int(self._spots.of_row[row]), []),
            }
            for row in range(self._rows)
        ]


def _kinds(shapes: Iterable[Shape]) -> tuple[dict[Service, int], dict[int, int]]:
    """Services numbered, and the number of each shape that is one."""
    numbers: dict[Service, int] = {}
    kind: dict[int, int] = {}
    for shape in shapes:
        if shape.service is not None:
            kind[shape.number] = numbers.setdefault(shape.service, len(numbers))
    return numbers, kind
