"""Services on zones: which workloads of an application run where, what their calls cost as placed, how full links are.

The rules are those of NetworkOverhead: costs by zone and region, nothing within a node, limits that an unknown cost
neither keeps nor violates, and bandwidth for each pair of a placed caller and a placed callee.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import asdict

from tierwise.api.codec import Raw
from tierwise.api.natural import natural
from tierwise.explain.board.pods import BoardPod
from tierwise.explain.text.schedule import Run
from tierwise.model.arrays import EMPTY, Ints
from tierwise.model.job import Status
from tierwise.model.services import AppGroup, Dependency, NetworkMap, Service
from tierwise.model.snapshot import Snapshot
from tierwise.plugins.network_overhead.plugin import NetworkArguments
from tierwise.plugins.network_overhead.zones import ZoneCosts, Zones

__all__ = ["services_wire"]

_GROUPS: Final = 20
_CALLS: Final = 200
_LINKS: Final = 100
"""Applications, calls of one, and links that are told; those with something wrong first. The numbers count all."""


def services_wire(run: Run, board_pods: Sequence[BoardPod], names: Mapping[str, str]) -> Raw | None:
    """Applications on the zones of the network; None where no application is declared.

    `names` are those of links to jobs, by key.
    """
    snapshot = run.after
    services = snapshot.services
    if not services.groups:
        return None
    choice = next((choice for choice in run.profile.plugins() if choice.name == "NetworkOverhead"), None)
    arguments = NetworkArguments.of(choice.arguments if choice is not None else {})
    network = services.map(arguments.network, arguments.namespaces)
    zones = Zones(snapshot.nodes)
    placed = _Placed(snapshot, board_pods, zones)
    judge = _Judge(zones, ZoneCosts.of(zones, network.costs(arguments.weights) if network is not None else {}), placed)
    groups = [_App.of(group, judge) for group in services.groups.values()]
    groups.sort(key=lambda app: (-app.violated, natural(app.group.key)))
    links = _links(network, arguments.weights, judge, services.groups.values()) if network is not None else []
    return {
        "weighed": choice is not None,
        "network": network.key if network is not None else "",
        "weights": arguments.weights,
        "zones": [
            {"region": zones[zone][0], "zone": zones[zone][1], "nodes": int((zones.of_row == zone).sum())}
            for zone in range(zones.number)
        ],
        "count": len(groups),
        "violated": sum(app.violated for app in groups),
        "groups": [app.wire(placed, names) for app in groups[:_GROUPS]],
        "overloaded": sum(link.over for link in links),
        "links": [{**asdict(link), "over": link.over} for link in links[:_LINKS]],
    }


class _Placed:
    """The pods of every service that hold resources: their rows, and how many wait."""

    def __init__(self, snapshot: Snapshot, board_pods: Sequence[BoardPod], zones: Zones) -> None:
        rows: dict[Service, list[int]] = {}
        self.jobs: dict[Service, dict[str, None]] = {}
        self.waiting: Counter[Service] = Counter()
        for service, row in _held(snapshot, board_pods):
            rows.setdefault(service, []).append(row)
        holding = {stand.task.key for stand in board_pods if stand.holds}
        for job in snapshot.jobs:
            for task in job.tasks:
                if task.shape.service is not None:
                    self.jobs.setdefault(task.shape.service, {})[job.key] = None
                    idle = task.status in (Status.PENDING, Status.GATED) and task.key not in holding
                    self.waiting[task.shape.service] += idle
        self._rows = {service: np.array(sorted(service_rows), dtype=np.int64) for service, service_rows in rows.items()}
        self._zones = zones

    def rows(self, service: Service) -> Ints:
        return self._rows.get(service, EMPTY)

    def by_zone(self, service: Service) -> Ints:
        """How many in each zone."""
        return np.bincount(self._zones.of_row[self.rows(service)], minlength=self._zones.number)


def _held(snapshot: Snapshot, board_pods: Sequence[BoardPod]) -> Iterator[tuple[Service, int]]:
    """Service and row of every pod that holds resources, of jobs and of others."""
    for stand in board_pods:
        if stand.holds and stand.task.shape.service is not None:
            yield stand.task.shape.service, stand.row
    for task in snapshot.others:
        if task.shape.service is not None and task.node >= 0:
            yield task.shape.service, int(snapshot.nodes.rows[task.node])
    for number, rows in snapshot.standing.items():
        service = snapshot.shapes[number].service
        if service is not None:
            yield from ((service, row) for row in rows.tolist())


class _Way(msgspec.Struct, frozen=True):
    """The pairs of pods of one call between two zones."""

    origin: int
    destination: int
    pairs: int
    apart: int  # of these, on different nodes
    cost: int  # of all of them
    state: str  # "kept", "violated", "unknown"


class _Call(msgspec.Struct, frozen=True):
    """One dependency with the ways that its calls go."""

    dependency: Dependency
    ways: list[_Way]

    @property
    def cost(self) -> int:
        return sum(route.cost for route in self.ways)

    @property
    def violated(self) -> int:
        return sum(route.apart for route in self.ways if route.state == "violated")

    def wire(self) -> Raw:
        return {
            **asdict(self.dependency),
            "cost": self.cost,
            "violated": self.violated,
            "ways": [asdict(route) for route in self.ways],
        }


class _Judge:
    """What calls cost as their pods are placed."""

    def __init__(self, zones: Zones, costs: ZoneCosts, placed: _Placed) -> None:
        self.zones = zones
        self.placed = placed
        self._costs = costs

    def call(self, group: str, dependency: Dependency) -> _Call:
        """From where to where one workload calls another, and whether that keeps its limit."""
        caller = (group, dependency.caller)
        callee = (group, dependency.callee)
        origins = self.placed.by_zone(caller)
        ends = self.placed.by_zone(callee)
        together = self._on_one_node(caller, callee)
        keeps_limit, violated = self._costs.kept(dependency.max_cost)
        routes: list[_Way] = []
        for origin in np.flatnonzero(origins).tolist():
            for destination in np.flatnonzero(ends).tolist():
                pairs = int(origins[origin] * ends[destination])
                apart = pairs - (int(together[origin]) if origin == destination else 0)
                state = "violated" if violated[origin, destination] else "unknown"
                state = "kept" if keeps_limit[origin, destination] or not apart else state
                routes.append(
                    _Way(origin, destination, pairs, apart, apart * int(self._costs.paid[origin, destination]), state)
                )
        return _Call(dependency, routes)

    def _on_one_node(self, caller: Service, callee: Service) -> Ints:
        """Per zone, the pairs that share a node: these cost nothing, and keep every limit."""
        length = len(self.zones.of_row)
        caller_pods, callee_pods = (
            np.bincount(self.placed.rows(service), minlength=length) for service in (caller, callee)
        )
        pairs = np.bincount(self.zones.of_row, weights=caller_pods * callee_pods, minlength=self.zones.number)
        return pairs.astype(np.int64)


class _App(msgspec.Struct, frozen=True):
    """One application with its calls, violated ones first, then the dearest."""

    group: AppGroup
    calls: list[_Call]

    @classmethod
    def of(cls, group: AppGroup, judge: _Judge) -> _App:
        calls = [judge.call(group.key, dependency) for dependency in group.dependencies]
        return cls(group, sorted(calls, key=lambda call: (-call.violated, -call.cost)))

    @property
    def violated(self) -> int:
        """Calls that go further than they may."""
        return sum(call.violated > 0 for call in self.calls)

    def wire(self, placed: _Placed, names: Mapping[str, str]) -> Raw:
        """Its workloads in the order in which they are placed, and its calls."""
        order = self.group.order
        ends = ((call.dependency.caller, call.dependency.callee) for call in self.calls)
        workloads = dict.fromkeys(chain(order, *ends))
        ranked = sorted(workloads, key=lambda workload: (order.get(workload, len(workloads)), natural(workload)))
        return {
            "name": self.group.key,
            "cost": sum(call.cost for call in self.calls),
            "violated": self.violated,
            "workloads": [_workload(placed, (self.group.key, workload), names) for workload in ranked],
            "count": len(self.calls),
            "calls": [call.wire() for call in self.calls[:_CALLS]],
        }


def _workload(placed: _Placed, service: Service, names: Mapping[str, str]) -> Raw:
    counts = placed.by_zone(service)
    return {
        "name": service[1],
        "zones": [[zone, int(counts[zone])] for zone in np.flatnonzero(counts).tolist()],
        "waiting": placed.waiting[service],
        "jobs": [names[key] for key in placed.jobs.get(service, ()) if key in names][:2],
    }


class _LinkUse(msgspec.Struct, frozen=True):
    """A link: what it costs and carries, where that is known, and what calls reserve on it."""

    regional: bool
    origin: str
    destination: str
    cost: int | None
    capacity: int | None
    used: int

    @property
    def over(self) -> bool:
        return self.capacity is not None and self.used > self.capacity

    @property
    def share(self) -> float:
        if self.capacity:
            return self.used / self.capacity
        return float(self.over)


def _links(network: NetworkMap, weights: str, judge: _Judge, groups: Iterable[AppGroup]) -> list[_LinkUse]:
    """Every link that has a cost or a capacity; the fullest first."""
    capacities = network.capacities(weights)
    costs = network.costs(weights)
    ends = {link: judge.zones.pairs(link) for link in sorted({*capacities, *costs})}
    bandwidth_needed = np.zeros(
        (judge.zones.number, judge.zones.number)
    )  # from zone to zone; of any size, so no integers
    for group in groups:
        for call in group.dependencies:
            if call.bandwidth:
                callers, callees = (judge.placed.by_zone((group.key, end)) for end in (call.caller, call.callee))
                bandwidth_needed += float(call.bandwidth) * np.outer(callers, callees)
    used = {link: int(bandwidth_needed[pairs].sum()) for link, pairs in ends.items()}
    uses = [
        _LinkUse(link.regional, link.origin, link.destination, costs.get(link), capacities.get(link), used[link])
        for link in ends
    ]
    return sorted(uses, key=lambda link: (-link.share, -link.used))
