"""Checks of AppGroups: the schema of their definition, and dependencies on workloads that do not exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tierwise.admission.findings import Issue, at_least, error, missing, warning
from tierwise.api.codec import Raw
from tierwise.api.network_aware import AppGroup, KepAppGroup, WorkloadRef, algorithm_of
from tierwise.api.quantity import whole

__all__ = ["check"]

_LARGEST_COST: Final = 10_000


def check(group: AppGroup, raw: Raw) -> Iterator[Issue]:
    """Issues of one AppGroup."""
    spec = group.spec
    yield from missing("spec", raw.get("spec"), "numMembers", "topologySortingAlgorithm", "workloads")
    yield from at_least("spec.numMembers", spec.num_members, 1)
    if spec.topology_sorting_algorithm and not algorithm_of(spec.topology_sorting_algorithm):
        text = f'topologySortingAlgorithm "{spec.topology_sorting_algorithm}" is not known: KahnSort is used instead'
        yield warning("spec.topologySortingAlgorithm", text)
    shipped = not isinstance(group, KepAppGroup)
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


def _check_ref(path: str, ref: WorkloadRef, *, shipped: bool) -> Iterator[Issue]:
    given = {"kind": ref.kind, "name": ref.name, "selector": ref.selector}
    for field in ("kind", "name", "selector") if shipped else ("kind", "name"):
        if not given[field]:
            yield error(f"{path}.{field}", f"the {field} is missing")
