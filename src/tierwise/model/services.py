"""Services that call each other, and the network between them, as a cycle sees them.

A service is a workload of an application, written (key of its AppGroup, workload). A place is a place that the network
tells apart: a region and a zone. A link leads from one zone to another of its region, or from one region to another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

__all__ = [
    "MEASURED",
    "USER_DEFINED",
    "AppGroup",
    "Dependency",
    "Link",
    "NetworkMap",
    "Place",
    "Service",
    "Services",
    "Weights",
    "link_between",
]

Service = tuple[str, str]
Place = tuple[str, str]
"""Region and zone; empty texts where a node has no such label."""

USER_DEFINED: Final = "UserDefined"
MEASURED: Final = "NetperfCosts"


class Link(msgspec.Struct, frozen=True, order=True):
    """A way through the network in one direction."""

    regional: bool
    origin: str
    destination: str

    def __str__(self) -> str:
        return f"{self.origin} -> {self.destination}"


def link_between(one: Place, other: Place) -> Link | None:
    """The link from one place to another: none within a zone, and none where either has no labels at all."""
    if one == other or not any(one) or not any(other):
        return None
    if one[0] != other[0]:
        return Link(True, one[0], other[0])
    return Link(False, one[1], other[1])


class Dependency(msgspec.Struct, frozen=True):
    """That one workload calls another: at most at this cost, with at least this bandwidth for each pair of pods."""

    caller: str
    callee: str
    max_cost: int
    bandwidth: int


class AppGroup(msgspec.Struct, frozen=True):
    """The dependencies of one application, and the order in which its workloads are placed."""

    key: str  # namespace/name
    dependencies: tuple[Dependency, ...]
    order: Mapping[str, int]  # workload -> index; the smallest goes first


class Weights(msgspec.Struct, frozen=True):
    """One set of costs by link; a pair that is not listed is unknown."""

    costs: Mapping[Link, int]
    capacities: Mapping[Link, int]


class NetworkMap(msgspec.Struct, frozen=True):
    """What the network costs, by name of the set of weights."""

    key: str
    weights: Mapping[str, Weights]

    def costs(self, name: str) -> Mapping[Link, int]:
        found = self.weights.get(name)
        return found.costs if found is not None else {}

    def capacities(self, name: str) -> dict[Link, int]:
        """What links carry, by the word of the user: the named weights' first, then "UserDefined", then the others."""
        names = [n for n in dict.fromkeys((name, USER_DEFINED, *self.weights)) if n in self.weights and n != MEASURED]
        found: dict[Link, int] = {}
        for weights in map(self.weights.__getitem__, reversed(names)):
            found.update(weights.capacities)
        return found


class Services(msgspec.Struct, frozen=True):
    """Everything that a cycle knows of applications and networks, by namespace/name."""

    groups: Mapping[str, AppGroup] = {}
    maps: Mapping[str, NetworkMap] = {}

    def map(self, name: str, namespaces: Iterable[str]) -> NetworkMap | None:
        """The network of that name in the first namespace that has one."""
        return next((self.maps[k] for ns in namespaces if (k := f"{ns}/{name}") in self.maps), None)
