"""NetworkOverhead: services near those that they call, within the costs they allow, on links with the bandwidth left.

Filter: a node goes where more placed dependencies violate their `maxNetworkCost` than keep it, or where a link would
be asked for more than it has left. Score: the sum of the costs to all placed dependencies, turned round so that the
cheapest node has 100. Costs are looked up per place (region and zone) and spread over the nodes at the end, so that
the price does not depend on how many dependencies are placed. docs/plugins/network-overhead.md states the rules.

Arguments: `namespaces` (["default"]), `weightsName` ("UserDefined"), `networkTopologyName` ("nt-default"), `strict`
(false: one violated limit is enough), `bothWays` (false: pods that depend on this one are scored too), `lookAhead`
(false: so are those that still wait, where `lookahead` would place them).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from tierwise.config.arguments import flag, listed
from tierwise.framework import extension as points
from tierwise.framework.declaration import takes_part
from tierwise.framework.node_scores import ComparedScores
from tierwise.model.arrays import Bools, Floats, Ints, Why
from tierwise.model.job import Reason, Shape, Task
from tierwise.model.services import NetworkMap
from tierwise.plugins.network_overhead.dependencies import Calls, DependencyPlan
from tierwise.plugins.network_overhead.lookahead import LookAhead
from tierwise.plugins.network_overhead.topological_sort import unknown_groups
from tierwise.plugins.network_overhead.zones import Edge, LinkBandwidth, ServiceCounts, ZoneCosts, Zones

__all__ = ["NetworkArguments", "NetworkOverhead"]

_PLUGIN = "NetworkOverhead"
_BEST = 100
_TOO_FAR = Reason("NetworkCostExceeded", _PLUGIN, "did not meet the network requirements of the placed dependencies")


class _Network(msgspec.Struct, frozen=True):
    """What the cycle's services see of the network; made once, while the plugin is constructed."""

    places: Zones
    costs: ZoneCosts
    census: ServiceCounts
    links: LinkBandwidth
    overloads: Ints  # number of the reason by number of the link, the first entry for none
    kind: Mapping[int, int]
    plans: Mapping[int, DependencyPlan]
    pairs: Sequence[tuple[int, int]]  # caller and callee, by kind
    ahead: LookAhead | None

    @classmethod
    def of(cls, view: points.CycleView, network_map: NetworkMap, arguments: NetworkArguments) -> _Network:
        places = Zones(view.nodes)
        costs = ZoneCosts.of(places, network_map.costs(arguments.weights))
        calls = Calls(view.snapshot.services, view.snapshot.shapes)
        census = ServiceCounts(view.ledger, calls.kind, len(calls), places.of_row, places.number)
        edges = []
        for caller, callee, d in calls.pairs:
            if d.bandwidth:
                edges.append(Edge(caller, callee, d.bandwidth))
        links = LinkBandwidth(view.ledger, places, network_map.capacities(arguments.weights), calls.kind, edges)
        pairs = [(caller, callee) for caller, callee, _ in calls.pairs]
        return cls(
            places=places,
            costs=costs,
            census=census,
            links=links,
            overloads=np.array([0, *(view.reasons.number(_overload(links, i)) for i in range(len(links.links)))]),
            kind=calls.kind,
            plans=calls.plans(costs, both_ways=arguments.both_ways, uses_links=links.concerns),
            pairs=pairs,
            ahead=LookAhead(view, places, costs, census, calls.kind, pairs) if arguments.look_ahead else None,
        )


class NetworkArguments(msgspec.Struct, frozen=True):
    """The plugin's arguments."""

    namespaces: tuple[str, ...]
    weights: str
    network: str
    strict: bool
    both_ways: bool
    look_ahead: bool

    @classmethod
    def of(cls, arguments: points.Arguments) -> NetworkArguments:
        look_ahead = flag(arguments, "lookAhead", default=False)
        return cls(
            namespaces=listed(arguments, "namespaces", ("default",)),
            weights=str(arguments.get("weightsName") or "UserDefined"),
            network=str(arguments.get("networkTopologyName") or "nt-default"),
            strict=flag(arguments, "strict", default=False),
            both_ways=look_ahead or flag(arguments, "bothWays", default=False),
            look_ahead=look_ahead,
        )


def _overload(links: LinkBandwidth, number: int) -> Reason:
    text = f"would overload the network link {links.links[number]}, which carries {links.capacity[number]}"
    return Reason("LinkBandwidthExceeded", _PLUGIN, text)


@takes_part(points.Reporter, points.Filter, points.Scorer, points.VictimFilter, scores_by_shape=True)
class NetworkOverhead(ComparedScores):
    """Filters and ranks nodes by what the network from them to their dependencies costs and carries."""

    answers = frozenset[points.Purpose]()
    counts = False

    def __init__(self, arguments: points.Arguments, view: points.CycleView) -> None:
        super().__init__(view)
        self._view = view
        self._asked = NetworkArguments.of(arguments)
        self._too_far = view.reasons.number(_TOO_FAR)
        self._given = view.snapshot.services.map(self._asked.network, self._asked.namespaces)
        served = self._given is not None and any(shape.service is not None for shape in view.snapshot.shapes)
        self._network = _Network.of(view, self._given, self._asked) if self._given is not None and served else None

    def protect(self, preemptor: points.Preemptor, victims: Ints) -> Bools:
        """Pods that the job's own services call: their going would leave nothing to be near to."""
        network = self._network
        if network is None:
            return np.zeros(len(victims), dtype=bool)
        callers = {network.kind.get(pod_set.shape.number) for pod_set in preemptor.job.pod_sets()}
        called = [callee for caller, callee in network.pairs if caller in callers]
        kinds = np.array([network.kind.get(shape.number, -1) for shape in self._view.snapshot.shapes])
        return np.isin(kinds[preemptor.running.shape[victims]], called)

    def _look(self, shape: Shape) -> tuple[_Network, DependencyPlan] | None:
        """The network and what a shape looks at in it; None where it looks at nothing."""
        if shape.service is None or self._network is None:
            return None
        plan = self._network.plans.get(self._network.kind[shape.number])
        return (self._network, plan) if plan is not None else None

    def complaints(self) -> Iterable[tuple[Task, Reason]]:
        """Pods whose group or network does not exist find all nodes equal."""
        yield from unknown_groups(self._view, _PLUGIN, "all nodes score equally")
        reason = None
        if self._given is None:
            text = f"NetworkTopology {self._asked.network} does not exist: all nodes score equally"
            reason = Reason("NetworkTopologyNotFound", _PLUGIN, text)
        elif self._asked.weights not in self._given.weights:
            weight_names = ", ".join(sorted(self._given.weights)) or "none"
            text = f"NetworkTopology {self._asked.network} has no weights {self._asked.weights}, only {weight_names}: "
            reason = Reason("NetworkWeightsNotFound", _PLUGIN, text + "no cost is known, and no limit on costs holds")
        if reason is not None:
            for job in self._view.jobs:
                for pod_set in job.every_pod_set():
                    if pod_set.shape.service is not None:
                        yield from ((task, reason) for task in pod_set.tasks)

    # -- filter

    def concerns(self, shape: Shape) -> bool:
        return self._look(shape) is not None

    def why_not_now(self, shape: Shape, span: slice) -> Why:
        """The vote of the limits first, then the links."""
        seen = self._look(shape)
        if seen is None:
            return np.zeros(span.stop - span.start, dtype=np.uint16)
        network, plan = seen
        why = np.zeros(network.places.number, dtype=np.uint16)
        if plan.links:
            why[:] = network.overloads[network.links.overloaded(plan.kind) + 1]
        result: Why = why[network.places.of_row[span]]
        limits_kept, violated = _vote(network, plan)
        far = violated > (0 if self._asked.strict else limits_kept)
        result[far[span]] = self._too_far
        return result

    # -- score

    def _speaks(self, ask: points.Ask) -> bool:
        """No node is preferred for tasks without dependencies."""
        return self._look(ask.shape) is not None

    def _compared(self, ask: points.Ask, span: slice, fits: Bools) -> Floats:
        """100 for the cheapest node that fits, 0 for the dearest; 0 for all where nothing costs anything."""
        seen = self._look(ask.shape)
        result = np.zeros(span.stop - span.start)
        if seen is None or not fits.any():
            return result
        network, plan = seen
        cost = _cost(network, plan)[span]
        low = int(cost[fits].min())
        high = int(cost[fits].max())
        if low != high:
            result[fits] = _BEST - _BEST * (cost[fits] - low) // (high - low)
        elif high:
            result[fits] = _BEST
        row = network.ahead.row(ask.shape, np.flatnonzero(fits) + span.start) if network.ahead is not None else None
        if row is not None:  # the node that suits the whole application goes before the cheapest one
            np.minimum(result, _BEST - 1, out=result)
            result[row - span.start] = _BEST
        return result

    # -- for people

    def figures(self, ask: points.Ask) -> Sequence[Mapping[str, object]]:
        """Per row: accumulated cost, limits kept and violated, and the links that a task there would use."""
        seen = self._look(ask.shape)
        if seen is None:
            return [{}] * len(self._nodes)
        network, plan = seen
        cost = _cost(network, plan)
        limits_kept, violated = _vote(network, plan)
        used = _links_used(network.links, plan) if plan.links else {}
        return [
            {
                "cost": int(cost[row]),
                "satisfied": int(limits_kept[row]),
                "violated": int(violated[row]),
                "links": used.get(int(network.places.of_row[row]), []),
            }
            for row in range(len(self._nodes))
        ]


def _vote(network: _Network, plan: DependencyPlan) -> tuple[Ints, Ints]:
    """Per row, how many placed dependencies would keep their limit, and how many would violate it."""
    limits_kept = np.zeros(network.places.number, dtype=np.int64)
    violated = np.zeros(network.places.number, dtype=np.int64)
    for limit in plan.limits:
        placed = network.census.at(limit.callees.kinds, limit.callees.times)
        limits_kept += limit.kept @ placed
        violated += limit.violated @ placed
    of_row = network.places.of_row
    kept_rows = limits_kept[of_row]
    violated_rows = violated[of_row]
    bare = network.places.bare
    if bare.any() and plan.callees:  # a node without labels still keeps every limit to itself
        rows, counts = network.census.rows(plan.callees.kinds, plan.callees.times)
        is_bare = bare[of_row[rows]]
        np.add.at(kept_rows, rows[is_bare], counts[is_bare])
        np.subtract.at(violated_rows, rows[is_bare], counts[is_bare])
    return kept_rows, violated_rows


def _cost(network: _Network, plan: DependencyPlan) -> Ints:
    """Per row, the sum of what it costs to reach every placed dependency (and to be reached by callers)."""
    paid = network.costs.paid
    census = network.census
    of_row = network.places.of_row
    per_place = paid @ census.at(plan.callees.kinds, plan.callees.times)
    if plan.callers:
        per_place += paid.T @ census.at(plan.callers.kinds, plan.callers.times)
    cost: Ints = per_place[of_row]
    cost_within = paid.diagonal()
    for kinds in (plan.callees, plan.callers):  # pods on the node itself cost nothing
        rows, counts = census.rows(kinds.kinds, kinds.times)
        np.subtract.at(cost, rows, counts * cost_within[of_row[rows]])
    return cost


def _links_used(links: LinkBandwidth, plan: DependencyPlan) -> dict[int, list[Mapping[str, object]]]:
    """By place, the links that one more pod there would ask for bandwidth, and what they have left."""
    used: dict[int, list[Mapping[str, object]]] = {}
    for places, numbers, needs in links.needs(plan.kind):
        for place, link, need in zip(places.tolist(), numbers.tolist(), needs.tolist(), strict=True):
            if need:
                carries = int(links.capacity[link])
                bandwidth_reserved = int(links.reserved[link])
                note = {"link": str(links.links[link]), "capacity": carries, "left": carries - bandwidth_reserved}
                used.setdefault(place, []).append({**note, "needs": need})
    return used
