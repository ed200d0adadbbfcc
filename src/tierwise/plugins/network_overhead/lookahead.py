"""Place the next pod of an application with regard to its other pending pods: the node that suits them all.

Computed again for every pod from the current ledger, so placements, evictions and rewinds in between are seen. What was
planned for the others of the application is kept as a start, which is improved where it still has room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.framework.extension import CycleView
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Bools, Floats, Ints
from tierwise.model.job import Shape
from tierwise.plugins.network_overhead.dependencies import ServiceKinds
from tierwise.plugins.network_overhead.zones import ServiceCounts, ZoneCosts, Zones

__all__ = ["LookAhead", "LookAheadProblem", "plan"]


# Where the pods of an application that still wait would best go, all of them together: what `lookAhead` goes by.
#
# Starts from several centres fill nodes outwards; the cheapest few are improved by moving one pod or trading two as
# long as that helps. Then a few pods that call each other are taken away and put back where they cost least, the ones
# first that lose most by waiting; again and again. The result is a good plan, not a proven one, and nothing is placed.


_CENTRES = 24  # from which starts are made, spread over the nodes
_STARTS = 4  # that are improved
_STEPS = 200  # of improvement, at most
_REBUILDS = 4  # for each pod and each of the best starts
_SMALL = 11  # pods, for which moves and trades are enough
_REBUILT = 3  # starts in which pods are put back elsewhere
_DEARER = 0.06  # by which share a plan may be dearer than the one before, in the beginning
_GROUP = 12  # pods that are taken away together, at most
_NEVER = 2**60


class LookAheadProblem(msgspec.Struct, frozen=True):
    """Pods that wait (p), and the nodes that they may go to (n)."""

    calls: Ints  # (p x p): how often the one calls the other
    fixed: Ints  # (p x n): what a pod there costs with those that stand already
    cost: Ints  # (n x n): from node to node
    request: Ints  # (p x resources)
    free: Ints  # (n x resources)


def plan(outlook: LookAheadProblem, before: Ints | None = None) -> Ints | None:
    """A node for every pod; None where no start holds them all. A plan from before, -1 for pods that it does not know,
    is improved and taken.
    """
    strangers = ~np.eye(len(outlook.calls), dtype=bool)  # what a pod calls itself for costs nothing anywhere
    outlook = replace(outlook, calls=np.where(strangers, outlook.calls, 0))
    if before is not None:
        search = _Search(outlook, before)
        if search.put_back(np.flatnonzero(before < 0).tolist()) and (search.free >= 0).all():
            search.descend()
            return search.plan
    count = len(outlook.cost)
    centres = np.arange(count) if count <= _CENTRES else np.linspace(0, count - 1, _CENTRES).astype(np.int64)
    starts = _starts(outlook, centres)
    if not len(starts):
        return None
    best = starts[np.argsort(_totals(outlook, starts), kind="stable")[:_STARTS]]
    improved = np.stack([_improved(outlook, np.array(start)) for start in dict.fromkeys(map(tuple, best.tolist()))])
    order = np.argsort(_totals(outlook, improved), kind="stable")[:_REBUILT]
    rebuilt = np.stack([_rebuilt(outlook, improved[i]) for i in order.tolist()])
    result: Ints = rebuilt[int(np.argmin(_totals(outlook, rebuilt)))]
    return result


def _improved(outlook: LookAheadProblem, start: Ints) -> Ints:
    """A plan that is moved and traded as long as that makes the whole of it cheaper."""
    search = _Search(outlook, start)
    search.descend()
    return search.plan


def _rebuilt(outlook: LookAheadProblem, start: Ints) -> Ints:
    """The cheapest plan that is met while groups of pods are taken away and put back, at first dearer ones as well."""
    best = plan = start
    lowest_cost = cost = int(_totals(outlook, start[None])[0])
    links = outlook.calls + outlook.calls.T
    number = len(start)
    turns = _REBUILDS * number if number > _SMALL else 0
    for turn in range(turns):
        search = _Search(outlook, plan)
        group = _group(links, turn % number, 2 + turn * 7 % min(_GROUP, number - 1), shuffle=turn)
        for pod in group:
            search.shift(pod, -1)
        if search.put_back(group):
            search.descend()
            plan_cost = int(_totals(outlook, search.plan[None])[0])
            if plan_cost <= cost + lowest_cost * _DEARER * (turns - turn) / turns:
                plan = search.plan
                cost = plan_cost
            if plan_cost < lowest_cost:
                best = search.plan
                lowest_cost = plan_cost
    return best


def _group(links: Ints, first_pod: int, size: int, *, shuffle: int) -> list[int]:
    """A pod and others that are linked with it or with those chosen before; of equal ones another each time."""
    turned = np.arange(len(links)) * (2 * shuffle + 1) * 40503 % 997
    group = [first_pod]
    reach = links[first_pod] * 1000 + turned
    while len(group) < min(size, len(links)):
        reach[group] = -1
        pod = int(reach.argmax())
        group.append(pod)
        reach = reach + links[pod] * 1000
    return group


class _Search:
    """One plan, in which pods are shifted; what each pod would cost on each node is kept up."""

    def __init__(self, outlook: LookAheadProblem, start: Ints) -> None:
        self._outlook = outlook
        self._calls, self._cost = outlook.calls.astype(float), outlook.cost.astype(float)
        self.plan, self.free = start.copy(), outlook.free.copy()
        placed = np.flatnonzero(start >= 0)
        np.subtract.at(self.free, start[placed], outlook.request[placed])
        out = self._calls[:, placed] @ self._cost.T[start[placed]]
        self._each = outlook.fixed + out + self._calls[placed].T @ self._cost[start[placed]]

    def shift(self, pod: int, node: int) -> None:
        """Put a pod on a node, or nowhere (-1)."""
        for node_changed, sign in ((int(self.plan[pod]), -1), (node, 1)):
            if node_changed >= 0:
                self._each += sign * self._calls[:, pod, None] * self._cost[:, node_changed]
                self._each += sign * self._calls[pod, :, None] * self._cost[node_changed]
                self.free[node_changed] -= sign * self._outlook.request[pod]
        self.plan[pod] = node

    def put_back(self, group: Sequence[int]) -> bool:
        """Put pods that are nowhere where they cost least, those first that would lose most; whether all have room."""
        pods_left = list(group)
        while pods_left:
            waiting = np.array(pods_left)
            fits: Bools = np.asarray((self.free >= self._outlook.request[waiting, None]).all(axis=2))
            cost = np.where(fits, self._each[waiting], float(_NEVER))
            two = np.sort(cost, axis=1)[:, :2]
            worst = int(np.argmax(two[:, -1] - two[:, 0]))
            node = int(cost[worst].argmin())
            if not fits[worst, node]:
                return False
            self.shift(pods_left.pop(worst), node)
        return True

    def descend(self) -> None:
        """Move one pod or trade two as long as that helps."""
        outlook = self._outlook
        pods = np.arange(len(self.plan))
        for _ in range(_STEPS):
            cost_by_node = self._each
            nodes = self.plan
            moves = np.where(
                _movable(outlook, self.free), cost_by_node - cost_by_node[pods, nodes][:, None], float(_NEVER)
            )
            trades = np.where(
                _tradable(outlook, nodes, self.free), _trades(outlook, nodes, cost_by_node), float(_NEVER)
            )
            move = int(moves.argmin())
            trade = int(trades.argmin())
            if min(moves.flat[move], trades.flat[trade]) >= -0.5:
                return
            if moves.flat[move] <= trades.flat[trade]:
                self.shift(*divmod(move, moves.shape[1]))
            else:
                pod, other_pod = divmod(trade, len(nodes))
                node_of_pod = int(nodes[pod])
                node_of_other = int(nodes[other_pod])
                self.shift(pod, node_of_other)
                self.shift(other_pod, node_of_pod)


def _totals(outlook: LookAheadProblem, plans: Ints) -> Ints:
    """What each of some plans (k x p) costs as a whole."""
    between = outlook.calls * outlook.cost[plans[:, :, None], plans[:, None, :]]
    result: Ints = between.sum(axis=(1, 2)) + outlook.fixed[np.arange(plans.shape[1]), plans].sum(axis=1)
    return result


def _starts(outlook: LookAheadProblem, centres: Ints) -> Ints:
    """A plan (k x p) around each centre that can have one.

    The most connected pods come first, each on the nearest node to the centre that has room. Pods that follow each
    other and ask for the same fill one node after the other, so all of them are put there at once.
    """
    near = outlook.cost[centres] + outlook.cost[:, centres].T
    order = np.argsort(near, axis=1, kind="stable")
    degree = outlook.calls.sum(axis=0) + outlook.calls.sum(axis=1)
    free = np.repeat(outlook.free[None], len(centres), axis=0)  # (k x n x resources)
    plans = np.zeros((len(centres), len(degree)), dtype=np.int64)
    has_room = np.ones(len(centres), dtype=bool)
    every = np.arange(len(centres))[:, None]
    pods = np.argsort(-degree, kind="stable")
    changes = np.flatnonzero((outlook.request[pods[1:]] != outlook.request[pods[:-1]]).any(axis=1)) + 1
    for alike in np.split(pods, changes):
        request = outlook.request[alike[0]]
        number = len(alike)
        resources = np.flatnonzero(request)
        room = np.clip(free[:, :, resources] // request[resources], 0, number).min(axis=2, initial=number)
        upto = room[every, order].cumsum(axis=1)  # how many the nearest nodes take
        has_room &= upto[:, -1] >= number
        places = (upto[:, None, :] <= np.arange(number)[:, None]).sum(axis=2)
        nodes_chosen = order[every, np.minimum(places, order.shape[1] - 1)]
        plans[:, alike] = nodes_chosen
        np.subtract.at(free, (every, nodes_chosen), request)
    return plans[has_room]


def _movable(outlook: LookAheadProblem, free: Ints) -> Bools:
    """(p x n): whether a node has room for a pod."""
    return np.asarray((free >= outlook.request[:, None]).all(axis=2))


def _trades(outlook: LookAheadProblem, plan: Ints, cost_by_node: Floats) -> Floats:
    """(p x p): what trading places changes."""
    cost_there = cost_by_node[:, plan]  # pod i where pod j is
    gain = cost_there - cost_there.diagonal()[:, None]
    pair = outlook.cost[plan[:, None], plan]
    # Both terms took the other pod to stay where it is: put right what lies between the two of them.
    between = outlook.calls * (pair + pair.T)
    result: Floats = gain + gain.T + between + between.T
    return result


def _tradable(outlook: LookAheadProblem, plan: Ints, free: Ints) -> Bools:
    """(p x p): whether two pods have room where the other one is."""
    room = free[plan] + outlook.request  # at the place of each pod, without it
    fits = _movable(outlook, room)
    result: Bools = fits & fits.T & (plan[:, None] != plan)
    return result


_PODS = 64  # that are planned at once
_NODES = 64  # that are looked at
_NONE = ServiceKinds.of(())


class LookAhead:
    """Plans the waiting pods of one application at a time."""

    def __init__(
        self,
        view: CycleView,
        places: Zones,
        costs: ZoneCosts,
        census: ServiceCounts,
        kind: Mapping[int, int],
        calls: Iterable[tuple[int, int]],
    ) -> None:
        self._ledger = view.ledger
        self._spots = places
        self._paid = costs.paid
        self._census = census
        self._kind = kind
        self._start = census.places.sum(axis=1)
        self._calls = Counter(calls)
        self._sides = _sides(self._calls)
        self._planned: dict[str, dict[int, list[int]]] = {}  # by application and shape, the rows of those that wait
        self._waiting: dict[str, Counter[Shape]] = {}
        for job in view.jobs:
            for pod_set in job.every_pod_set():
                if pod_set.shape.service is not None:
                    self._waiting.setdefault(pod_set.shape.service[0], Counter())[pod_set.shape] += len(pod_set.tasks)

    def row(self, shape: Shape, rows: Ints) -> int | None:
        """The row for the next pod of a shape among those that take it; None where no other pod waits."""
        pods = self._pods(shape)
        if len(pods) < 2:
            return None
        rows = self._nearest(shape, rows)
        application = shape.service[0] if shape.service is not None else ""
        before = self._before(application, pods, rows)
        kinds = np.array([self._kind[pod.number] for pod in pods], dtype=np.int64)
        resources = np.flatnonzero(np.any([pod.request for pod in pods], axis=0))
        nodes = plan(
            LookAheadProblem(
                calls=self._between_kinds(kinds),
                fixed=self._fixed(kinds, rows),
                cost=self._between(rows),
                request=np.stack([pod.request[resources] for pod in pods]),
                free=self._ledger.free(resources, rows, Pool.IDLE).T,
            ),
            before,
        )
        if nodes is None:
            return None
        planned_nodes: dict[int, list[int]] = {}
        for pod, node in zip(pods[1:], rows[nodes[1:]].tolist(), strict=True):
            planned_nodes.setdefault(pod.number, []).append(node)
        self._planned[application] = planned_nodes
        return int(rows[nodes[0]])

    def _before(self, application: str, pods: Sequence[Shape], rows: Ints) -> Ints | None:
        """Where the pods were planned to go when another of the application was placed, by position in rows.

        None where nothing was planned, or they are to go to more rows than are looked at now.
        """
        planned_nodes = self._planned.get(application)
        if planned_nodes is None:
            return None
        nodes_left = {shape: list(planned) for shape, planned in planned_nodes.items()}
        planned_rows = np.array(
            [nodes_left[pod.number].pop(0) if nodes_left.get(pod.number) else -1 for pod in pods], dtype=np.int64
        )
        place = np.minimum(np.searchsorted(rows, planned_rows), len(rows) - 1)
        return np.where(rows[place] == planned_rows, place, -1)

    def _pods(self, shape: Shape) -> list[Shape]:
        """The pods that still wait, one of the shape itself first."""
        assert shape.service is not None
        placed = np.maximum(self._census.places.sum(axis=1) - self._start, 0)
        placed[self._kind[shape.number]] += 1  # the one in question comes first
        waiting_pods = [shape]
        for pod, number in self._waiting.get(shape.service[0], Counter()).items():
            kind = self._kind[pod.number]
            gone = min(number, int(placed[kind]))
            placed[kind] -= gone
            waiting_pods += [pod] * min(number - gone, _PODS - len(waiting_pods))
        return waiting_pods

    def _nearest(self, shape: Shape, rows: Ints) -> Ints:
        """The rows with most room for the shape, of every place some."""
        if len(rows) <= _NODES:
            return rows
        room = shape.max_tasks(self._ledger.free(shape.asked, rows, Pool.IDLE))
        places = self._spots.of_row[rows]
        order = np.lexsort((rows, -room, places))
        place = np.arange(len(order)) - np.searchsorted(places[order], places[order])
        return np.sort(rows[order[np.lexsort((-room[order], place))[:_NODES]]])

    def _fixed(self, kinds: Ints, rows: Ints) -> Ints:
        """(pods x rows): what each would cost with those that stand."""
        result = np.zeros((len(kinds), len(rows)), dtype=np.int64)
        places = self._spots.of_row[rows]
        placed_kinds = np.asarray(self._census.places.any(axis=1))
        for kind in dict.fromkeys(kinds.tolist()):
            callees, callers = self._sides.get(kind, (_NONE, _NONE))
            for related_kinds, paid in ((callees, self._paid), (callers, self._paid.T)):
                if not placed_kinds[related_kinds.kinds].any():
                    continue
                cost = (paid @ self._census.at(related_kinds.kinds, related_kinds.times))[places]
                related_rows, counts = self._census.rows(related_kinds.kinds, related_kinds.times)
                positions = np.searchsorted(rows, related_rows)
                on = (positions < len(rows)) & (rows[np.minimum(positions, len(rows) - 1)] == related_rows)
                np.subtract.at(
                    cost, positions[on], (counts * self._paid.diagonal()[self._spots.of_row[related_rows]])[on]
                )
                result[kinds == kind] += cost
        return result

    def _between_kinds(self, kinds: Ints) -> Ints:
        """(pods x pods): how often the one calls the other."""
        distinct_kinds, place = np.unique(kinds, return_inverse=True)
        table = np.array(
            [[self._calls.get((a, b), 0) for b in distinct_kinds.tolist()] for a in distinct_kinds.tolist()],
            dtype=np.int64,
        )
        result: Ints = table[place[:, None], place]
        return result

    def _between(self, rows: Ints) -> Ints:
        places = self._spots.of_row[rows]
        cost: Ints = self._paid[places[:, None], places]
        np.fill_diagonal(cost, 0)
        return cost


def _sides(calls: Mapping[tuple[int, int], int]) -> dict[int, tuple[ServiceKinds, ServiceKinds]]:
    """By kind, the kinds that it calls and those that call it."""
    callees: dict[int, list[int]] = {}
    callers: dict[int, list[int]] = {}
    for (caller, callee), times in calls.items():
        callees.setdefault(caller, []).extend([callee] * times)
        callers.setdefault(callee, []).extend([caller] * times)
    kinds = dict.fromkeys((*callees, *callers))
    return {kind: (ServiceKinds.of(callees.get(kind, ())), ServiceKinds.of(callers.get(kind, ()))) for kind in kinds}
