"""AppGroups and NetworkTopologies, each in the field names of its own API group: those of another count as missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from tierwise.admission.findings import Issue, at_least, error, missing, warning
from tierwise.api import network_aware
from tierwise.api.codec import Raw
from tierwise.api.core import Labels
from tierwise.api.errors import suggestion
from tierwise.api.quantity import whole
from tierwise.dialects.network_aware.services import GROUP_LABEL, WORKLOAD_LABEL, app_groups
from tierwise.port import Objects

__all__ = ["check_group", "check_pod", "check_topology"]


class _Names(msgspec.Struct, frozen=True):
    """Names of the fields of one form of NetworkTopology, and which of them it requires."""

    config: tuple[str, ...]  # either will do
    keys: str
    origins: str
    costs: str
    of_origin: tuple[str, ...]
    of_cost: tuple[str, ...]


_SHIPPED: Final = _Names(
    ("configmapName",), "topologyList", "originList", "costList", ("origin",), ("destination", "networkCost")
)
_PROPOSED: Final = _Names(
    ("configmapName", "configMapName"),
    "costList",
    "originCosts",
    "costs",
    ("origin", "costs"),
    ("destination", "bandwidthCapacity"),
)

_BANDWIDTHS: Final = ("bandwidthCapacity", "bandwidthAllocated")
"""What is left of a link may be less than nothing: its capacity can shrink below what is reserved."""


def check_topology(
    topology: network_aware.NetworkTopology | network_aware.KepNetworkTopology, raw: Raw
) -> Iterator[Issue]:
    """Issues of one NetworkTopology."""
    names = _PROPOSED if isinstance(topology, network_aware.KepNetworkTopology) else _SHIPPED
    spec = raw.get("spec")
    if not isinstance(spec, dict) or not any(spec.get(name) for name in names.config):
        yield error(f"spec.{names.config[0]}", f"{names.config[0]} is missing")
    yield from missing("spec", spec, "weights")
    for path, weight in _each("spec.weights", spec, "weights"):
        yield from missing(path, weight, "name", names.keys)
        for key_path, key in _each(f"{path}.{names.keys}", weight, names.keys):
            yield from _check_key(key_path, key, names)
    yield from at_least("status.nodeCount", topology.status.node_count, 0)


def _check_key(path: str, key: Raw, names: _Names) -> Iterator[Issue]:
    yield from missing(path, key, "topologyKey", names.origins)
    named = key.get("topologyKey")
    if named and named not in (network_aware.REGION, network_aware.ZONE):
        yield warning(
            f"{path}.topologyKey",
            f"{named} is neither {network_aware.REGION} nor {network_aware.ZONE}: its costs are not looked at",
        )
    for origin_path, origin in _each(f"{path}.{names.origins}", key, names.origins):
        yield from missing(origin_path, origin, *names.of_origin)
        for cost_path, cost in _each(f"{origin_path}.{names.costs}", origin, names.costs):
            yield from missing(cost_path, cost, *names.of_cost)
            number = cost.get("networkCost")
            yield from at_least(f"{cost_path}.networkCost", number if isinstance(number, int) else None, 0)
            for field in _BANDWIDTHS:
                cost_value = cost.get(field)
                yield from at_least(
                    f"{cost_path}.{field}", whole(cost_value) if isinstance(cost_value, str | int) else None, 0
                )


def _each(path: str, raw: object, field: str) -> Iterator[tuple[str, Raw]]:
    value = raw.get(field) if isinstance(raw, dict) else None
    entries: Sequence[object] = value if isinstance(value, list) else ()
    for i, entry in enumerate(entries):
        if isinstance(entry, dict):
            yield f"{path}[{i}]", entry


# AppGroups: the schema of their definition, and dependencies on workloads that do not exist.


_LARGEST_COST: Final = 10_000


def check_group(group: network_aware.AppGroup, raw: Raw) -> Iterator[Issue]:
    """Issues of one AppGroup."""
    spec = group.spec
    yield from missing("spec", raw.get("spec"), "numMembers", "topologySortingAlgorithm", "workloads")
    yield from at_least("spec.numMembers", spec.num_members, 1)
    if spec.topology_sorting_algorithm and not network_aware.algorithm_of(spec.topology_sorting_algorithm):
        text = f'topologySortingAlgorithm "{spec.topology_sorting_algorithm}" is not known: KahnSort is used instead'
        yield warning("spec.topologySortingAlgorithm", text)
    shipped = not isinstance(group, network_aware.KepAppGroup)
    listed = {entry.workload.identity for entry in spec.workloads}
    for i, entry in enumerate(spec.workloads):
        path = f"spec.workloads[{i}]"
        yield from _check_ref(f"{path}.workload", entry.workload, shipped=shipped)
        for j, dependency in enumerate(entry.dependencies):
            where = f"{path}.dependencies[{j}]"
            yield from _check_ref(f"{where}.workload", dependency.workload, shipped=shipped)
            cost = dependency.max_network_cost
            if not 0 <= cost <= _LARGEST_COST:
                text = f"maxNetworkCost is {cost}, it must be between 0 and {_LARGEST_COST}"
                yield error(f"{where}.maxNetworkCost", text)
            if dependency.min_bandwidth is not None:
                yield from at_least(f"{where}.minBandwidth", whole(dependency.min_bandwidth), 0)
            if dependency.workload.identity not in listed:
                text = f"{dependency.workload.identity} is not among the workloads: its own dependencies are not known"
                yield warning(f"{where}.workload", text)
    yield from at_least("status.runningWorkloads", group.status.running_workloads, 0)


def check_pod(labels: Labels, objects: Objects, path: str = "") -> Iterator[Issue]:
    """A warning where the labels of a pod, or of a template at a path, make it count for none of its workloads."""
    name = labels.get(GROUP_LABEL, "")
    workload = labels.get(WORKLOAD_LABEL, "")
    if not name:
        return
    groups = app_groups(objects.every(network_aware.AppGroup), objects.every(network_aware.KepAppGroup))
    groups_of_name = [group for key, group in groups.items() if key.partition("/")[2] == name]
    if not groups_of_name:
        return
    listed = sorted({entry.workload.identity for group in groups_of_name for entry in group.spec.workloads})
    if not workload:
        text = f"the label is missing: the pod is in AppGroup {name} and counts for none of its workloads"
        yield warning(f"{path}metadata.labels[{WORKLOAD_LABEL}]", text)
    elif workload not in listed:
        text = f'AppGroup {name} has no workload "{workload}"{suggestion(workload, listed)}: the pod counts for none'
        yield warning(f"{path}metadata.labels[{WORKLOAD_LABEL}]", text)


def _check_ref(path: str, ref: network_aware.WorkloadRef, *, shipped: bool) -> Iterator[Issue]:
    values = {"kind": ref.kind, "name": ref.name, "selector": ref.selector}
    for field in ("kind", "name", "selector") if shipped else ("kind", "name"):
        if not values[field]:
            yield error(f"{path}.{field}", f"the {field} is missing")
