"""Checks of Volcano Jobs and of their tasks: what a Job may ask for, and which fields may be updated."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from tierwise.admission import names, network_topology
from tierwise.admission.capacity import Share, smallest
from tierwise.admission.context import ROOT_QUEUE, ClusterContext
from tierwise.admission.findings import Issue, at_least, error, one_of, warning
from tierwise.admission.names import LONGEST_LABEL, dns_label, dns_subdomain
from tierwise.admission.node_pod import check_pod_spec, check_support, will_wait
from tierwise.api import limits, plurals
from tierwise.api.cycles import cycle_text, find_cycles
from tierwise.api.repair import OnNodeLoss, RepairTerms, parse_repair
from tierwise.api.unsupported import ANNOTATIONS, NUMA_POLICY, asks_something
from tierwise.api.volcano import Command, Job, JobSpec, LifecyclePolicy, PartitionPolicy, TaskSpec
from tierwise.dialects.kubernetes.requests import effective_request
from tierwise.dialects.volcano.job import (
    MPI_FLAGS,
    OTHER_PLUGINS,
    PROVIDED_PLUGINS,
    defaulted,
    plugin_flags,
    pod_name,
    task_minimum,
)
from tierwise.model.part_names import PartNames

__all__ = ["check", "check_change", "check_command"]

# Checks of the lifecycle policies of jobs and tasks: event or exit code, action, timeout.
#
# Beyond the errors of Volcano's webhook it warns about policies without effect, and about one that does more than it
# says.

_RESTART_PARTITION: Final = "RestartPartition"
_ANY: Final = "*"
_PENDING: Final = "PodPending"
_EVENTS: Final = frozenset(
    {_ANY, "PodFailed", "PodEvicted", _PENDING, "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated"}
)
ACTIONS: Final = frozenset(
    {
        "AbortJob",
        "RestartJob",
        "RestartTask",
        "RestartPod",
        _RESTART_PARTITION,
        "TerminateJob",
        "CompleteJob",
        "ResumeJob",
    }
)
_PARTED: Final = PartNames(part="task with partitions")
_OF_JOBS: Final = frozenset({"Unknown", "JobUpdated"})
"""Events that concern no task, so that policies of tasks never hear of them."""

_ON_NODE_LOSS: Final = {
    OnNodeLoss.REPLACE: frozenset({"RestartPod"}),
    OnNodeLoss.RESTART_SUBGROUP: frozenset({"RestartTask", _RESTART_PARTITION}),
    OnNodeLoss.RESTART_ALL: frozenset({"RestartJob"}),
}
"""The actions of policies that say the same as what a job wants when it loses nodes."""

_DURATION: Final = r"(?P<sign>[+-]?)(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)"


def _check_policies(
    path: str, policies: Sequence[LifecyclePolicy], *, parted: bool, of_task: bool = False
) -> Iterator[Issue]:
    """Issues of the policies of one job or one task; `parted`: there are partitions that could be restarted."""
    seen: set[str | int] = set()
    for index, policy in enumerate(policies):
        where = f"{path}[{index}]"
        yield from one_of(f"{where}.action", policy.action, ACTIONS)
        yield from _check_triggers(where, policy)
        yield from _check_timeout(where, policy)
        yield from _check_sense(where, policy, parted=parted, of_task=of_task)
        for trigger in _triggers(policy):
            if trigger in seen:
                yield error(where, f'there are two policies for "{trigger}"')
            seen.add(trigger)
    if _ANY in seen and len(seen) > 1:
        yield error(path, f'event "{_ANY}" matches every event: it cannot be combined with another trigger')


def _check_node_loss(path: str, policies: Sequence[LifecyclePolicy], wish: OnNodeLoss) -> Iterator[Issue]:
    """A warning where a policy for evicted pods says something else than the job's annotation: both are carried out."""
    for index, policy in enumerate(policies):
        if {"PodEvicted", _ANY}.isdisjoint({policy.event, *policy.events}) or policy.action in _ON_NODE_LOSS[wish]:
            continue
        text = f'"{wish.value}" is what the job wants when it loses nodes, and this policy then does {policy.action}'
        yield warning(f"{path}[{index}].action", text)


def _triggers(policy: LifecyclePolicy) -> list[str | int]:
    """The events of a policy, each once, or its exit code."""
    events: list[str | int] = list(dict.fromkeys(event for event in (policy.event, *policy.events) if event))
    return events + ([policy.exit_code] if policy.exit_code is not None else [])


def _check_triggers(path: str, policy: LifecyclePolicy) -> Iterator[Issue]:
    events = [event for event in (policy.event, *policy.events) if event]
    for event in dict.fromkeys(events):
        yield from one_of(f"{path}.event", event, _EVENTS)
    if not events and policy.exit_code is None:
        yield error(path, "an event or an exitCode is needed")
    if events and policy.exit_code is not None:
        yield error(path, "event and exitCode exclude each other")
    if policy.exit_code == 0:
        yield error(f"{path}.exitCode", "exitCode 0 means success, no policy can wait for it")


def _check_sense(path: str, policy: LifecyclePolicy, *, parted: bool, of_task: bool) -> Iterator[Issue]:
    """Warnings for policies that are sound and yet hardly what is wanted."""
    if policy.action == _RESTART_PARTITION and not parted:
        why = "the task has no partitionPolicy" if of_task else "no task of the job has a partitionPolicy"
        yield warning(path, f"{_RESTART_PARTITION} does nothing: {why}")
    if policy.action == "ResumeJob":
        yield warning(path, "ResumeJob does nothing: policies are asked while a job is alive; send a Command instead")
    if of_task and set(_triggers(policy)) & _OF_JOBS:
        listed = ", ".join(sorted(str(trigger) for trigger in set(_triggers(policy)) & _OF_JOBS))
        yield warning(path, f"{listed} concerns no task: the policy belongs to the job")
    if _ANY in _triggers(policy) and policy.action.startswith("Restart"):
        yield warning(path, f'"{_ANY}" includes TaskCompleted: a task that is done is restarted, not completed')


def _check_timeout(path: str, policy: LifecyclePolicy) -> Iterator[Issue]:
    if not policy.timeout:
        if _PENDING in _triggers(policy):
            yield error(f"{path}.timeout", f"event {_PENDING} needs a timeout")
        return
    form = re.fullmatch(_DURATION, policy.timeout)
    if form is None:
        yield error(f"{path}.timeout", f'timeout "{policy.timeout}" is not a duration such as "90s" or "1h30m"')
    elif form["sign"] == "-":
        yield error(f"{path}.timeout", f'timeout "{policy.timeout}" is negative')


def check(written: Job, context: ClusterContext) -> Iterator[Issue]:
    """Issues of a job as it was written."""
    job = defaulted(written)
    spec = written.spec
    around = context
    context = context.on_fabric_of(written.metadata)
    yield from _check_names(job)
    yield from at_least("spec.minAvailable", spec.min_available, 0)
    yield from at_least("spec.minSuccess", spec.min_success, 1)
    yield from at_least("spec.maxRetry", spec.max_retry, 0)
    yield from at_least("spec.ttlSecondsAfterFinished", spec.ttl_seconds_after_finished, 0)
    if not spec.tasks:
        yield error("spec.tasks", "at least one task is needed")
    total = sum(task.replicas for task in spec.tasks)
    for field, count in (("minAvailable", spec.min_available), ("minSuccess", spec.min_success)):
        if count is not None and count > total:
            yield error(
                f"spec.{field}", f"{field} of {count} is more than the {plurals.count(total, 'replica')} of all tasks"
            )
    yield from _check_plugins(job)
    yield from names.check(written.metadata, total)
    terms = parse_repair(written.metadata.annotations)
    if isinstance(terms, RepairTerms) and terms.on_node_loss is not None:
        yield from _check_node_loss("spec.policies", spec.policies, terms.on_node_loss)
    yield from _check_policies("spec.policies", spec.policies, parted=any(task.partition_policy for task in spec.tasks))
    if spec.volumes:
        yield warning("spec.volumes", "volume claims are not supported: the pods of the job will wait (NotSupported)")
    yield from (error(path, text) for path, text in limits.beyond(job))
    yield from _check_queue(spec, context)
    yield from context.priority_class("spec.priorityClassName", spec.priority_class_name)
    yield from network_topology.check("spec.networkTopology", spec.network_topology, context)
    parted = [entry.name for entry in job.spec.tasks if entry.partition_policy is not None]
    yield from network_topology.check_fabrics(written.metadata, parted, around, _PARTED)
    outer = network_topology.limit(spec.network_topology, context.tiers)
    for index, entry in enumerate(spec.tasks):
        yield from _check_task(f"spec.tasks[{index}]", entry, outer, context)
    yield from _check_dependencies("spec.tasks", job.spec.tasks)
    yield from _check_start(job)
    yield from _check_room(job, outer, context)


def check_change(old: Job, new: Job) -> Iterator[Issue]:
    """Issues of an update: what a job is stays, only its size, its minimums and its priority may change."""
    if _frozen(defaulted(old).spec) != _frozen(defaulted(new).spec):
        yield error(
            "spec",
            "only minAvailable, priorityClassName, and of tasks replicas, minAvailable, totalPartitions and "
            "minPartitions may change",
        )


def _frozen(spec: JobSpec) -> JobSpec:
    """A spec without the fields that may change."""
    tasks = tuple(
        replace(entry, replicas=0, min_available=0, partition_policy=_shape_of(entry.partition_policy))
        for entry in spec.tasks
    )
    return replace(spec, min_available=0, priority_class_name="", tasks=tasks)


def _shape_of(partitions: PartitionPolicy | None) -> PartitionPolicy | None:
    """A partition policy without the number of partitions: a parted task grows and shrinks by whole ones."""
    if partitions is None:
        return None
    return replace(partitions, total_partitions=0, min_partitions=0)


def _check_plugins(job: Job) -> Iterator[Issue]:
    for name in sorted(job.spec.plugins.keys() - PROVIDED_PLUGINS):
        text = will_wait("Volcano alone provides it") if name in OTHER_PLUGINS else "not known: it is ignored"
        yield warning(f"spec.plugins.{name}", f'job plugin "{name}" is {text}')
    master = plugin_flags(job.spec.plugins.get("mpi", ()), MPI_FLAGS)["master"]
    if "mpi" in job.spec.plugins and all(task.name != master for task in job.spec.tasks):
        yield error("spec.plugins.mpi", f'the job has no task "{master}", which is to start the others (--master)')
    if "svc" in job.spec.plugins and not job.metadata.name[:1].isalpha():
        yield error("metadata.name", "the name becomes that of a Service (plugin svc): it must begin with a letter")


def _check_names(job: Job) -> Iterator[Issue]:
    name = job.metadata.name
    yield from dns_subdomain("metadata.name", name)
    if len(name) > LONGEST_LABEL:
        yield error("metadata.name", f"the name becomes a label: it must have at most {LONGEST_LABEL} characters")
    seen: set[str] = set()
    for index, entry in enumerate(job.spec.tasks):
        path = f"spec.tasks[{index}].name"
        if entry.name in seen:
            yield error(path, f'duplicate task name "{entry.name}": names must be unique')
        seen.add(entry.name)
        yield from dns_subdomain(path, pod_name(job, entry, max(entry.replicas - 1, 0)))


def _check_queue(spec: JobSpec, context: ClusterContext) -> Iterator[Issue]:
    yield from context.queue("spec.queue", spec.queue)
    if spec.queue == ROOT_QUEUE:
        yield error("spec.queue", "jobs cannot be submitted to the root queue")
    elif spec.queue in context.queues_below:
        yield error(
            "spec.queue", f'queue "{spec.queue}" has queues below it: jobs can be submitted to leaf queues only'
        )


def _check_start(job: Job) -> Iterator[Issue]:
    """A warning where the minimum counts pods that are made only once others run, and these wait for the minimum."""
    tasks = job.spec.tasks
    minimum = job.spec.min_available or 0
    later = [entry for entry in tasks if entry.depends_on is not None and entry.depends_on.name]
    at_once = sum(entry.replicas for entry in tasks) - sum(entry.replicas for entry in later)
    by_task = minimum >= sum(map(task_minimum, tasks)) and any(map(task_minimum, later))
    if later and (minimum > at_once or by_task):
        awaited = plurals.joined([f'"{name}"' for name in later[0].depends_on.name]) if later[0].depends_on else ""
        text = f'minAvailable {minimum} counts pods of task "{later[0].name}", which are made once {awaited} runs'
        yield warning("spec.minAvailable", f"{text} (dependsOn): the job never starts, unless minAvailable is less")


def _check_room(job: Job, outer: int | None, context: ClusterContext) -> Iterator[Issue]:
    """Warnings for minimums that no domain could ever hold."""
    if context.capacity is None:
        return
    shares = _minimum(job)
    together: dict[str, int] = {}
    for request, count in shares:
        for resource, quantity_each in request.items():
            together[resource] = together.get(resource, 0) + quantity_each * count
    if not context.capacity.holds(shares, outer, together):
        where = "" if outer is None else f" up to tier {outer}"
        message = f"no domain{where} can ever hold the minimum of {plurals.count(job.spec.min_available or 0, 'pod')}"
        yield warning("spec.minAvailable", message)
    for index, entry in enumerate(job.spec.tasks):
        partitions = entry.partition_policy
        inner = network_topology.limit(partitions.network_topology, context.tiers) if partitions else None
        if partitions is not None and inner is not None:
            share = (effective_request(entry.template.spec), partitions.partition_size or 0)
            if not context.capacity.holds([share], inner, {}):
                message = f"no domain up to tier {inner} can ever hold a partition of {plurals.count(share[1], 'pod')}"
                yield warning(f"spec.tasks[{index}].partitionPolicy.partitionSize", message)


def _minimum(job: Job) -> list[Share]:
    """(request, number of pods) pairs that the job cannot start with less than.

    It is one pair for each task with that task's minimum, where minAvailable is at least their sum; else it is a single
    pair: minAvailable pods of the smallest request of all tasks.
    """
    shares: list[Share] = [(effective_request(entry.template.spec), task_minimum(entry)) for entry in job.spec.tasks]
    needed = job.spec.min_available or 0
    if needed >= sum(count for _, count in shares):
        return shares
    return [(smallest(request for request, _ in shares), needed)]


# Tasks: replicas, minimums, partitions, templates and dependencies.


_NUMA: Final = frozenset({"", "none", "best-effort", "restricted", "single-numa-node"})
_ITERATIONS: Final = frozenset({"", "any", "all"})


def _check_task(path: str, task: TaskSpec, outer: int | None, context: ClusterContext) -> Iterator[Issue]:
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
    parted = task.partition_policy is not None
    yield from _check_policies(f"{path}.policies", task.policies, parted=parted, of_task=True)
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
    total = partitions.total_partitions
    size = partitions.partition_size
    needed = partitions.min_partitions
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
    yield from network_topology.check(f"{path}.networkTopology", topology, context)
    inner = network_topology.limit(topology, context.tiers)
    yield from network_topology.within(f"{path}.networkTopology", inner, outer)


def _check_dependencies(path: str, tasks: Sequence[TaskSpec]) -> Iterator[Issue]:
    """Issues of what tasks wait for: every name must be a task's, and no task may wait for itself in the end."""
    waits = {task.name: task.depends_on.name if task.depends_on else () for task in tasks}
    circular = {name: cycle_text(cycle, start) for cycle in find_cycles(waits) for start, name in enumerate(cycle)}
    for index, task in enumerate(tasks):
        where = f"{path}[{index}].dependsOn"
        if task.depends_on is None:
            continue
        yield from one_of(f"{where}.iteration", task.depends_on.iteration, _ITERATIONS)
        for name in task.depends_on.name:
            if name not in waits:
                yield error(f"{where}.name", f'task "{name}" does not exist')
        if task.name in circular:
            yield error(f"{where}.name", f"cyclic dependency: {circular[task.name]}")


# Commands: whether one can be carried out at all.


_QUEUE_ACTIONS = frozenset({"OpenQueue", "CloseQueue"})
_OF_PARTS = frozenset({"RestartTask", "RestartPod", "RestartPartition"})


def check_command(command: Command, jobs: Collection[str]) -> Iterator[Issue]:
    """Issues of a command; `jobs` are the keys of all jobs that are given."""
    target = command.target
    if target is None or not target.name:
        yield error("target", "target.name is missing: a command needs a job to act on")
        return
    if target.kind != "Job":
        yield from one_of("action", command.action, ACTIONS | _QUEUE_ACTIONS)
        return
    yield from one_of("action", command.action, ACTIONS)
    if command.action in _OF_PARTS:
        yield warning("action", f"{command.action} does nothing: a command names no part of a job")
    path = f"{command.metadata.namespace or 'default'}/{target.name}"
    if jobs and path not in jobs:
        yield warning("target.name", f'job "{path}" does not exist')
