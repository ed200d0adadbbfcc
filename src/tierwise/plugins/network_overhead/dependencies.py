"""The dependencies between the pods of a cycle as numbers, and which of them concern each kind of pod.

A kind is a service that has pods in this cycle. Used by `network_overhead`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import msgspec
import numpy as np

from tierwise.model.arrays import Ints
from tierwise.model.job import Shape
from tierwise.model.services import Dependency, Service, Services
from tierwise.plugins.network_overhead.zones import ZoneCosts

__all__ = ["Calls", "DependencyPlan", "Limit", "ServiceKinds"]


class ServiceKinds(msgspec.Struct, frozen=True):
    """Kinds of pods, and how often each counts."""

    kinds: Ints
    times: Ints

    @classmethod
    def of(cls, kinds: Iterable[int]) -> ServiceKinds:
        times = Counter(kinds)  # np.unique costs ten times as much for the few that most services call
        sorted_kinds = sorted(times)
        return cls(
            np.array(sorted_kinds, dtype=np.int64), np.array([times[kind] for kind in sorted_kinds], dtype=np.int64)
        )

    def __bool__(self) -> bool:
        return len(self.kinds) > 0


class Limit(msgspec.Struct, frozen=True):
    """Dependencies with one limit: per pair of places whether it is kept or violated."""

    callees: ServiceKinds
    kept: Ints
    violated: Ints


class DependencyPlan(msgspec.Struct, frozen=True):
    """What one kind looks at."""

    kind: int
    callees: ServiceKinds
    callers: ServiceKinds  # empty unless both ways are looked at
    limits: tuple[Limit, ...]
    links: bool  # asks links for bandwidth

    def __bool__(self) -> bool:
        return bool(self.callees or self.callers or self.links)


class Calls:
    """The dependencies between kinds."""

    def __init__(self, services: Services, shapes: Iterable[Shape]) -> None:
        self._numbers: dict[Service, int] = {}
        self.kind: dict[int, int] = {}  # by shape number; shapes that are no service are left out
        for shape in shapes:
            if shape.service is not None:
                self.kind[shape.number] = self._numbers.setdefault(shape.service, len(self._numbers))
        self.pairs = tuple(self._pairs(services))

    def __len__(self) -> int:
        return len(self._numbers)

    def _pairs(self, services: Services) -> Iterator[tuple[int, int, Dependency]]:
        """Caller, callee and what is asked of the network between them."""
        for key in dict.fromkeys(group for group, _ in self._numbers):
            group = services.groups.get(key)
            for dependency in group.dependencies if group is not None else ():
                caller = self._numbers.get((key, dependency.caller))
                callee = self._numbers.get((key, dependency.callee))
                if caller is not None and callee is not None:
                    yield caller, callee, dependency

    def plans(
        self, costs: ZoneCosts, *, both_ways: bool, uses_links: Callable[[int], bool]
    ) -> dict[int, DependencyPlan]:
        """By kind; those with nothing to look at have none."""
        callees: dict[int, list[tuple[int, int]]] = {}
        callers: dict[int, list[int]] = {}
        for caller, callee, dependency in self.pairs:
            callees.setdefault(caller, []).append((callee, dependency.max_cost))
            callers.setdefault(callee, []).append(caller)
        plans: dict[int, DependencyPlan] = {}
        for kind in self._numbers.values():
            calls_of_kind = callees.get(kind, [])
            plan = DependencyPlan(
                kind=kind,
                callees=ServiceKinds.of(callee for callee, _ in calls_of_kind),
                callers=ServiceKinds.of(callers.get(kind, []) if both_ways else ()),
                limits=tuple(
                    Limit(
                        ServiceKinds.of(callee for callee, max_cost in calls_of_kind if max_cost == limit),
                        *costs.kept(limit),
                    )
                    for limit in sorted({limit for _, limit in calls_of_kind})
                ),
                links=uses_links(kind),
            )
            if plan:
                plans[kind] = plan
        return plans
