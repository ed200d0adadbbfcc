"""Objects into the snapshot of one cycle. The same objects, in whatever order, give the same snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from tierwise.api.core import Node, Pod, PodDisruptionBudget, PriorityClass, ResourceQuota
from tierwise.api.elastic_quota import ElasticQuota
from tierwise.api.koordinator import ClusterNetworkTopology
from tierwise.api.koordinator import PodGroup as GangRecord
from tierwise.api.meta import parse_time
from tierwise.api.natural import natural
from tierwise.api.network_aware import AppGroup, KepAppGroup, KepNetworkTopology, NetworkTopology
from tierwise.api.volcano import HyperNode, PodGroup, Queue
from tierwise.config.profile import DEFAULT, Profile
from tierwise.dialects.budgets import Budgets
from tierwise.dialects.elastic_quota import OWNER, Quotas, firm, shielded
from tierwise.dialects.hypernodes import declare
from tierwise.dialects.job_builder import JobBuilder, Member
from tierwise.dialects.koordinator import (
    Gang,
    build_gangs,
    default_match_policy,
    drawn_to,
    gang_of,
    lone_gather,
    read_gangs,
)
from tierwise.dialects.layers import declare_layers, default_topology, layer_faults, read_layers
from tierwise.dialects.marks import group_of, role_of, spared
from tierwise.dialects.nodes import node_resources, node_table
from tierwise.dialects.quotas import left_by_namespace
from tierwise.dialects.requests import Ports, firm_request
from tierwise.dialects.services import app_groups, network_topologies, services
from tierwise.dialects.shapes import Priorities, Shapes, resource_names
from tierwise.dialects.volcano import read_group, read_queue
from tierwise.model.held import rows_by_shape
from tierwise.model.job import Job, Status, Task
from tierwise.model.node import NodeTable
from tierwise.model.queue import Queue as ModelQueue
from tierwise.model.resources import Axis
from tierwise.model.services import Services
from tierwise.model.shape import Shape
from tierwise.model.snapshot import Fault, Snapshot
from tierwise.model.topology import Topology
from tierwise.model.tree import grow
from tierwise.port import Objects

__all__ = ["SCHEDULER_NAMES", "build", "tree"]

_SINGLY = frozenset({"jobpreempt", "podpreempt", "quotapreempt"})
"""Actions that evict running pods which belong to no group."""

_CRITICAL = ("system-cluster-critical", "system-node-critical")

SCHEDULER_NAMES = frozenset(
    {"", "tierwise", "volcano", "koord-scheduler", "network-aware-scheduler", "default-scheduler"}
)
"""Whose pods the embedded cluster serves; pods of other schedulers only take up room."""


def build(
    objects: Objects, now: float, profile: Profile = DEFAULT, *, schedulers: frozenset[str] | None = None
) -> Snapshot:
    """What one cycle sees; pods are told apart as far as the profile does.

    Pods of these schedulers are served; where none are given, those of the usual names and of the profile's.
    """
    nodes = list(objects.every(Node).values())
    topology, order, topology_faults = tree(objects, nodes)
    pods = list(objects.every(Pod).values())
    ports = Ports(pod.spec for pod in pods)
    quotas = Quotas(objects.every(ElasticQuota))
    axis = _axis(nodes, pods, ports, quotas)
    table = node_table([nodes[i] for i in order], axis)
    priorities = Priorities(objects.every(PriorityClass))
    shapes = Shapes(axis, ports, priorities, pods, nodes=len(nodes), profile=profile, firmness=bool(quotas))
    budgets = Budgets(objects.every(PodDisruptionBudget), pods)
    schedulers = SCHEDULER_NAMES.union(profile.schedulers) if schedulers is None else schedulers
    groups = objects.every(PodGroup)
    gangs = read_gangs(objects.every(GangRecord), pods, default_match_policy(profile))
    alone = bool(quotas) or not _SINGLY.isdisjoint(profile.actions)
    sorted_pods = _Sorting(shapes, table.row, schedulers, budgets, alone=alone).sort(pods, groups, gangs)
    builder = JobBuilder(axis, quotas)
    jobs = _jobs(builder, groups, sorted_pods, priorities)
    drawn = drawn_to(pods, table.row)
    jobs += build_gangs(builder, gangs, sorted_pods.gangs, drawn)
    jobs += [builder.lone(member, lone_gather(member, drawn)) for member in sorted_pods.lone]
    jobs += [builder.standing(member) for member in sorted_pods.standing]
    return Snapshot(
        axis=axis,
        nodes=table,
        topology=topology,
        queues={**_queues(objects.every(Queue)), **quotas.queues()},
        jobs=tuple(jobs),
        shapes=tuple(shapes.all),
        others=tuple(sorted_pods.others),
        orphans=dict(sorted_pods.orphans),
        faults=(*topology_faults, *sorted_pods.faults, *_crowded(table, axis, shapes.all, jobs, sorted_pods.others)),
        now=now,
        budgets=budgets.allowed,
        services=_services(objects),
        resource_quotas=left_by_namespace(objects.every(ResourceQuota).values(), pods, axis),
    )


def _axis(nodes: Sequence[Node], pods: Sequence[Pod], ports: Ports, quotas: Quotas) -> Axis:
    """Everything that a node has, a pod asks for or a quota names."""
    asked = resource_names(pods)
    apart = firm_request(dict.fromkeys(asked, 1)) if quotas and any(firm(pod.metadata) for pod in pods) else {}
    return Axis.of(node_resources(nodes) | asked | quotas.resources() | set(ports.names()) | set(apart))


def tree(objects: Objects, nodes: Sequence[Node]) -> tuple[Topology, list[int], list[Fault]]:
    """The tree over these nodes, their order in it, and what is wrong: from layers where a cluster has them, else
    from hyperNodes.
    """
    names = [node.metadata.name for node in nodes]
    layered = default_topology(objects.every(ClusterNetworkTopology))
    if layered is None:
        return (*grow(declare(objects.every(HyperNode).values(), nodes), names), [])
    layers = read_layers(layered)
    declared = [] if layers.fault else declare_layers(layers, nodes)
    return (*grow(declared, names, layers.tiers()), layer_faults(layers, nodes))


def _services(objects: Objects) -> Services:
    groups = app_groups(objects.every(AppGroup), objects.every(KepAppGroup))
    topologies = network_topologies(objects.every(NetworkTopology), objects.every(KepNetworkTopology))
    return services(groups, topologies)


@dataclass(slots=True)
class _Sorted:
    """Pods by what they are to this scheduler."""

    grouped: dict[str, list[Member]]
    gangs: dict[str, list[Member]]
    lone: list[Member]  # pending pods of no group
    standing: list[Member]  # running ones, where they are jobs too
    others: list[Task]  # they take up room, nothing more
    orphans: dict[str, str]  # pending pods whose group does not exist -> the group
    faults: list[Fault]


class _Sorting:
    """`alone` says that a running pod of no group is a job too: its quota counts it, or it may be evicted."""

    def __init__(
        self, shapes: Shapes, rows: Mapping[str, int], schedulers: frozenset[str], budgets: Budgets, *, alone: bool
    ) -> None:
        self._alone = alone
        self._budgets = budgets
        self._shapes = shapes
        self._rows = rows
        self._schedulers = schedulers

    def sort(self, pods: Sequence[Pod], groups: Mapping[str, PodGroup], gangs: Mapping[str, Gang]) -> _Sorted:
        result = _Sorted({}, {}, [], [], [], {}, [])
        for pod in pods:
            task = self._task(pod, result.faults)
            if task is None:
                continue
            group, gang = group_of(pod), gang_of(pod)
            ours = pod.spec.scheduler_name in self._schedulers
            if group in groups and ours:
                result.grouped.setdefault(group, []).append(Member(pod, task))
            elif gang in gangs and ours:
                result.gangs.setdefault(gang, []).append(Member(pod, task))
            elif self._alone and ours and not group and task.status is Status.RUNNING:
                result.standing.append(Member(pod, task))
            elif task.status in (Status.RUNNING, Status.RELEASING):
                result.others.append(task)
            elif ours and (group or gang) and task.status is Status.PENDING:
                result.orphans[task.key] = group or gang
            elif ours and not group and not gang and task.status in (Status.PENDING, Status.GATED):
                result.lone.append(Member(pod, task))
        return result

    def _task(self, pod: Pod, faults: list[Fault]) -> Task | None:
        key = f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"
        status = _status(pod)
        if status is None:
            return None
        row = -1
        if pod.spec.node_name:
            row = self._rows.get(pod.spec.node_name, -1)
            if row < 0 and status in (Status.RUNNING, Status.RELEASING):
                text = f"stands on node {pod.spec.node_name}, which does not exist"
                faults.append(Fault(f"Pod {key}", "UnknownNode", text))
        nominated = self._rows.get(pod.status.nominated_node_name, -1) if pod.status.nominated_node_name else -1
        created = pod.metadata.creation_timestamp
        return Task(
            key=key,
            shape=self._shapes.of(pod),
            role=role_of(pod),
            status=status,
            row=row,
            nominated=nominated,
            created=parse_time(created) if created else 0.0,
            kin=pod.metadata.labels.get(OWNER, ""),
            spared=spared(pod.metadata) or shielded(pod.metadata),
            critical=pod.metadata.namespace == "kube-system" or pod.spec.priority_class_name in _CRITICAL,
            budgets=self._budgets.of(pod),
        )


def _status(pod: Pod) -> Status | None:
    """Where a pod stands; None for one that is leaving without ever having had a node."""
    ended = {"Succeeded": Status.SUCCEEDED, "Failed": Status.FAILED}.get(pod.status.phase)
    if ended is not None:
        return ended
    if pod.spec.node_name:
        return Status.RELEASING if pod.metadata.deletion_timestamp else Status.RUNNING
    if pod.metadata.deletion_timestamp:
        return None
    return Status.GATED if pod.spec.scheduling_gates else Status.PENDING


def _jobs(builder: JobBuilder, groups: Mapping[str, PodGroup], pods: _Sorted, priorities: Priorities) -> list[Job]:
    jobs = []
    for key, record in groups.items():
        members = pods.grouped.get(key, [])
        named = record.spec.priority_class_name
        highest = max((m.task.shape.priority for m in members), default=priorities.of_class(""))
        jobs.append(read_group(builder, record, members, priorities.of_class(named) if named else highest))
    return jobs


def _crowded(
    table: NodeTable, axis: Axis, shapes: Sequence[Shape], jobs: Sequence[Job], others: Sequence[Task]
) -> list[Fault]:
    """Nodes that hold more than they have: nothing more fits there, and the rest goes on."""
    used = np.zeros_like(table.allocatable)
    for status in (Status.RUNNING, Status.RELEASING):
        for number, rows in rows_by_shape(chain(*(job.tasks for job in jobs), others), status).items():
            used += shapes[number].request[:, None] * np.bincount(rows, minlength=len(table))
    over = used > table.allocatable
    faults = []
    for row in np.flatnonzero(over.any(axis=0)).tolist():
        names = ", ".join(axis.names[r] for r in np.flatnonzero(over[:, row]).tolist())
        faults.append(
            Fault(f"Node {table.names[row]}", "Oversubscribed", f"its pods ask for more than it has of {names}")
        )
    return faults


def _queues(records: Mapping[str, Queue]) -> dict[str, ModelQueue]:
    """The declared queues, and the default one, which always exists."""
    queues = {name: read_queue(record) for name, record in records.items()}
    queues.setdefault("default", ModelQueue("default", order=natural("default")))
    return queues
