"""Checks of the tasks of a Volcano Job: replicas, minimums, partitions, templates and dependencies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from tierwise.admission import network_topology, policy
from tierwise.admission.context import ClusterContext
from tierwise.admission.findings import Issue, at_least, error, one_of, warning
from tierwise.admission.names import dns_label
from tierwise.admission.node_pod import check_pod_spec, check_support, will_wait
from tierwise.api.unsupported import ANNOTATIONS, NUMA_POLICY, asks_something
from tierwise.api.volcano import TaskSpec

__all__ = ["check", "check_dependencies"]

_NUMA: Final = frozenset({"", "none", "best-effort", "restricted", "single-numa-node"})
_ITERATIONS: Final = frozenset({"", "any", "all"})


def check(path: str, task: TaskSpec, outer: int | None, context: ClusterContext) -> Iterator[Issue]:
    """Issues of one task as it was written; `outer` is the highest tier that its job insists on."""
    if task.name:
        yield from dns_label(f"{path}.name", task.name)
    yield from at_least(f"{path}.replicas", task.replicas, 0)
    yield from at_least(f"{path}.minAvailable", task.min_available, 0)
    yield from at_least(f"{path}.maxRetry", task.max_retry, -1)  # which means no limit
    if task.min_available is not None and task.min_available > task.replicas:
        message = f"minAvailable of {task.min_available} is more than the {task.replicas} replicas"
        yield error(f"{path}.minAvailable", message)
    yield from one_of(f"{path}.topologyPolicy", task.topology_policy, _NUMA)
    if task.topology_policy in _NUMA and asks_something(NUMA_POLICY, task.topology_policy):
        yield warning(f"{path}.topologyPolicy", will_wait(ANNOTATIONS[NUMA_POLICY]))
    yield from policy.check(f"{path}.policies", task.policies, parted=task.partition_policy is not None, of_task=True)
    template = task.template.spec
    if not template.containers:
        yield error(f"{path}.template.spec.containers", "at least one container is needed")
    yield from check_pod_spec(f"{path}.template.spec", template)
    yield from check_support(task.template, f"{path}.template.")
    yield from context.priority_class(f"{path}.template.spec.priorityClassName", template.priority_class_name)
    yield from _check_partitions(f"{path}.partitionPolicy", task, outer, context)


def _check_partitions(path: str, task: TaskSpec, outer: int | None, context: ClusterContext) -> Iterator[Issue]:
    partitions = task.partition_policy
    if partitions is None:
        return
    total, size, needed = partitions.total_partitions, partitions.partition_size, partitions.min_partitions
    yield from at_least(f"{path}.totalPartitions", total or 0, 1)
    yield from at_least(f"{path}.partitionSize", size or 0, 1)
    yield from at_least(f"{path}.minPartitions", needed, 0)
    if total and size and total * size != task.replicas:
        message = f"{total} partitions of {size} make {total * size} pods, not the {task.replicas} replicas"
        yield error(path, f"totalPartitions and partitionSize do not match: {message}")
    if needed is not None and total is not None and needed > total:
        yield error(f"{path}.minPartitions", f"minPartitions of {needed} is more than the {total} totalPartitions")
    if needed and size and task.min_available is not None and task.min_available != needed * size:
        message = f"minAvailable of {task.min_available} is not minPartitions * partitionSize, which is {needed * size}"
        yield error(path, message)
    topology = partitions.network_topology
    yield from network_topology.check(f"{path}.networkTopology", topology, context.tiers)
    inner = network_topology.limit(topology, context.tiers)
    yield from network_topology.within(f"{path}.networkTopology", inner, outer)


def check_dependencies(path: str, tasks: Sequence[TaskSpec]) -> Iterator[Issue]:
    """Issues of what tasks wait for: every name must be a task's, and no task may wait for itself in the end."""
    waits = {task.name: task.depends_on.name if task.depends_on else () for task in tasks}
    for index, task in enumerate(tasks):
        where = f"{path}[{index}].dependsOn"
        if task.depends_on is None:
            continue
        yield from one_of(f"{where}.iteration", task.depends_on.iteration, _ITERATIONS)
        for name in task.depends_on.name:
            if name not in waits:
                yield error(f"{where}.name", f'task "{name}" does not exist')
        cycle = _way_back(task.name, waits)
        if cycle:
            yield error(f"{where}.name", f"cyclic dependency: {' -> '.join(cycle)}")


def _way_back(start: str, waits: Mapping[str, Sequence[str]]) -> list[str]:
    """A chain of dependencies from a task to itself, nothing where there is none."""
    seen: set[str] = set()
    pending = [[start]]
    while pending:
        chain = pending.pop()
        for name in waits.get(chain[-1], ()):
            if name == start:
                return [*chain, start]
            if name not in seen:
                seen.add(name)
                pending.append([*chain, name])
    return []
