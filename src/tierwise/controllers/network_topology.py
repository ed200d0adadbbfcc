"""The controller of NetworkTopologies: weights from measurements, reserved bandwidth of links, number of nodes.

Called by `controllers.run`. Of the weights it owns only the set "NetperfCosts"; in the other sets it writes reserved
bandwidth and nothing else. All values follow from the current objects, so they are exact regardless of history.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from math import ceil
from statistics import median
from typing import Final

import msgspec

from tierwise.api.codec import Raw, part
from tierwise.api.core import ConfigMap, Node, Pod
from tierwise.api.network_aware import REGION, ZONE, AppGroup, KepAppGroup, KepNetworkTopology, NetworkTopology
from tierwise.api.quantity import whole
from tierwise.config.profile import DEFAULT, Profile
from tierwise.controllers.stamp import stamp
from tierwise.dialects.network_aware import services
from tierwise.model.services import MEASURED, USER_DEFINED, Link, link_between
from tierwise.port import Effect, Objects, PatchStatus, Update, key_of

__all__ = ["KEY", "measured", "reconcile"]


# How the manifests of NetworkTopologies are put together: their two forms differ in what they call their lists.


_DECIMAL: Final = ("k", "M", "G", "T")
_BINARY: Final = ("Ki", "Mi", "Gi", "Ti")


class WeightsFormat(msgspec.Struct, frozen=True):
    """The names of the lists, from the outside in, and whether what is left of a link is written too."""

    keys: str
    origins: str
    costs: str
    writes_left: bool

    def listed(self, weight: Raw, field: str) -> dict[Link, object]:
        """A field of every pair that a set of weights lists, as written; None where it is not given."""
        return {link: entry.get(field) for link, entry in self._entries(weight)}

    def weight(self, name: str, entries: Mapping[Link, Raw]) -> Raw:
        """A set of weights, regions first, everything in alphabetical order."""
        keys: list[Raw] = []
        for key, regional in ((REGION, True), (ZONE, False)):
            origins: dict[str, list[Raw]] = {}
            for link in sorted(link for link in entries if link.regional is regional):
                origins.setdefault(link.origin, []).append(entries[link])
            listed = [{"origin": origin, self.costs: costs} for origin, costs in origins.items()]
            keys.append({"topologyKey": key, self.origins: listed})
        return {"name": name, self.keys: keys}

    def with_reserved(self, weight: Raw, reserved_by_link: Mapping[Link, int]) -> Raw:
        """A copy in which every pair says what is reserved on it."""
        changed = {
            id(entry): self._noted(entry, reserved_by_link.get(link, 0)) for link, entry in self._entries(weight)
        }
        keys = [
            {
                **key,
                self.origins: [
                    {**origin, self.costs: [changed.get(id(entry), entry) for entry in _dicts(origin, self.costs)]}
                    for origin in _dicts(key, self.origins)
                ],
            }
            for key in _dicts(weight, self.keys)
        ]
        if self.keys in weight:
            return {**weight, self.keys: keys}
        return weight

    def _noted(self, entry: Raw, number: int) -> Raw:
        capacity = entry.get("bandwidthCapacity")
        noted = {**entry, "bandwidthAllocated": _kept(entry.get("bandwidthAllocated"), number, like=capacity)}
        if self.writes_left and isinstance(capacity, str | int | float):
            free = whole(capacity) - number
            noted["bandwidthAllocatable"] = _kept(entry.get("bandwidthAllocatable"), free, like=capacity)
        return noted

    def _entries(self, weight: Raw) -> Iterator[tuple[Link, Raw]]:
        for key in _dicts(weight, self.keys):
            for origin in _dicts(key, self.origins):
                for entry in _dicts(origin, self.costs):
                    link = services.link_of(
                        str(key.get("topologyKey")), str(origin.get("origin", "")), str(entry.get("destination", ""))
                    )
                    if link is not None:
                        yield link, entry


_SHIPPED: Final = WeightsFormat("topologyList", "originList", "costList", writes_left=False)
_PROPOSED: Final = WeightsFormat("costList", "originCosts", "costs", writes_left=True)


def weights_format_of(topology: NetworkTopology | KepNetworkTopology) -> WeightsFormat:
    """The form of a NetworkTopology."""
    if isinstance(topology, KepNetworkTopology):
        return _PROPOSED
    return _SHIPPED


def _dicts(raw: Raw, field: str) -> list[Raw]:
    entries = raw.get(field)
    if isinstance(entries, list):
        return [entry for entry in entries if isinstance(entry, dict)]
    return []


def _kept(present: object, number: int, *, like: object) -> object:
    """The amount as it is written already where it says the same, else in the manner of the capacity beside it."""
    if isinstance(present, str | int | float):
        try:
            if whole(present) == number:
                return present
        except ValueError:
            pass
    return _spelled(number, str(like))


def _spelled(number: int, like: str) -> str:
    """With the largest suffix that loses nothing, of the kind that the other amount has; 200Mi beside 1Gi."""
    base, suffixes = (1024, _BINARY) if like.endswith("i") else (1000, _DECIMAL if like[-1:].isalpha() else ())
    spelled = str(number)
    for power, suffix in enumerate(suffixes, start=1):
        if number and number % base**power == 0:
            spelled = f"{number // base**power}{suffix}"
    return spelled


# Costs from measurements: per ordered pair of zones and of regions, the median of the measured pairs of nodes.
#
# Measurements are entries of a ConfigMap, one for each ordered pair of nodes. Two spellings are about, one in
# milliseconds and one in microseconds; both are read. The 90th percentile counts. What was not measured is unknown.


KEY: Final = "netperf.p{percentile}.latency.milliseconds.origin.{origin}.destination.{destination}"
"""How a measurement is named."""

_KEY: Final = re.compile(
    r"netperf[._]p90[._]latency[._](milliseconds|microseconds)\.origin\.(.+)\.destination\.(.+)", re.ASCII
)
_NUMBER: Final = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)
_PER_MILLISECOND: Final = {"milliseconds": 1, "microseconds": 1000}


def measured(data: Mapping[str, str], nodes: Mapping[str, Node]) -> dict[Link, int]:
    """Milliseconds, rounded up, by link."""
    samples: dict[Link, list[Fraction]] = {}
    for origin, destination, time in _samples(data):
        if origin in nodes and destination in nodes:
            link = link_between(services.zone_of(nodes[origin]), services.zone_of(nodes[destination]))
            if link is not None and link.origin and link.destination:
                samples.setdefault(link, []).append(time)
    return {link: ceil(median(times)) for link, times in samples.items()}


def _samples(data: Mapping[str, str]) -> Iterator[tuple[str, str, Fraction]]:
    for key, value in data.items():
        form = _KEY.fullmatch(key)
        if form is not None and _NUMBER.fullmatch(value.strip()):
            unit, origin, destination = form.groups()
            yield origin, destination, Fraction(value.strip()) / _PER_MILLISECOND[unit]


# What placed services reserve on the links between zones and regions: the sum over pairs of pods, from scratch.


def reserved(
    groups: Mapping[str, AppGroup], pods: Iterable[Pod], nodes: Mapping[str, Node], profile: Profile
) -> dict[Link, int]:
    """Bandwidth by link; each pair of a placed caller and a placed callee reserves its dependency's minimum."""
    placed = services.placed_by_zone(pods, nodes, services.group_homes(groups, profile))
    total: dict[Link, int] = {}
    for key, group in groups.items():
        for dependency in services.dependencies(group):
            if not dependency.bandwidth:
                continue
            for node, callers in placed.get((key, dependency.caller), {}).items():
                for peer, callees in placed.get((key, dependency.callee), {}).items():
                    link = link_between(node, peer)
                    if link is not None:
                        total[link] = total.get(link, 0) + dependency.bandwidth * callers * callees
    return total


_DEFAULT_CAPACITY: Final = "1G"
"""Shown for a measured pair that the user does not list; a link is limited by the user's word alone."""


def reconcile(objects: Objects, now: float, profile: Profile = DEFAULT) -> list[Effect]:
    """Bring each NetworkTopology up to date; whose AppGroup pods mean depends on the scheduler's `profile`."""
    topologies = services.network_topologies(objects.every(NetworkTopology), objects.every(KepNetworkTopology))
    if not topologies:
        return []
    groups = services.app_groups(objects.every(AppGroup), objects.every(KepAppGroup))
    nodes = objects.every(Node)
    reserved_by_link = reserved(groups, objects.every(Pod).values(), nodes, profile)
    effects: list[Effect] = []
    for topology in topologies.values():
        effects += _of(objects, topology, reserved_by_link, nodes, now)
    return effects


def _of(
    objects: Objects,
    topology: NetworkTopology | KepNetworkTopology,
    reserved_by_link: Mapping[Link, int],
    nodes: Mapping[str, Node],
    now: float,
) -> Iterable[Effect]:
    key = key_of(topology)
    form = weights_format_of(topology)
    raw = objects.raw(key) or {}
    spec = part(raw, "spec")
    declared_weights = _dicts(spec, "weights")
    namespace = topology.metadata.namespace or "default"
    config = objects.every(ConfigMap).get(f"{namespace}/{topology.spec.measurements}")
    weights = (
        declared_weights if config is None else _with_measured(declared_weights, measured(config.data, nodes), form)
    )
    recounted = [form.with_reserved(weight, reserved_by_link) for weight in weights]
    if recounted != declared_weights:
        yield Update(key, {**raw, "spec": {**spec, "weights": recounted}})
    status: Raw = {"nodeCount": len(nodes)}
    fresh = form.listed(_named(declared_weights, MEASURED), "networkCost") == form.listed(
        _named(weights, MEASURED), "networkCost"
    )
    if config is not None and not (fresh and topology.status.weight_calculation_time):
        status["weightCalculationTime"] = stamp(now)
    changes = {k: v for k, v in status.items() if part(raw, "status").get(k) != v}
    if changes:
        yield PatchStatus(key, changes)


def _named(weights: Iterable[Raw], name: str) -> Raw:
    return next((weight for weight in weights if weight.get("name") == name), {})


def _with_measured(weights: list[Raw], costs: Mapping[Link, int], form: WeightsFormat) -> list[Raw]:
    """The weights with the measured set in its place, or at the end where there was none."""
    capacities = form.listed(_named(weights, USER_DEFINED), "bandwidthCapacity")
    entries: dict[Link, Raw] = {}
    for link, cost in costs.items():
        capacity = capacities.get(link, _DEFAULT_CAPACITY)
        shown = {} if capacity is None else {"bandwidthCapacity": capacity}
        entries[link] = {"destination": link.destination, **shown, "networkCost": cost}
    measured_weight = form.weight(MEASURED, entries)
    if any(weight.get("name") == MEASURED for weight in weights):
        return [measured_weight if weight.get("name") == MEASURED else weight for weight in weights]
    return [*weights, measured_weight]
