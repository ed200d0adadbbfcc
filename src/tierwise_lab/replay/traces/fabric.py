"""The cluster that a trace is replayed on: hosts with GPUs below a tree of switches, as model types.

Amounts of cpu and memory go with the GPUs, so that a host is full when its GPUs are: traces of training jobs say how
many GPUs a job has, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from tierwise.api.natural import natural
from tierwise.model.arrays import CPU, MEMORY, POD_SLOTS, Axis, Ints, ranks
from tierwise.model.job import Shape, plain_shape
from tierwise.model.node import NodeTable, plain_nodes
from tierwise.model.topology import Topology
from tierwise.model.tree import Declared, build_tree

__all__ = ["AXIS", "GPU", "NAMESPACE", "Fabric", "amounts", "fabric", "shape", "table_of"]

GPU = "nvidia.com/gpu"
AXIS = Axis.of((CPU, MEMORY, POD_SLOTS, GPU))
NAMESPACE = "replay"
_CPU_PER_GPU = 12_000
_MEMORY_PER_GPU = 128 * 2**30
_PODS = 110


class Fabric(msgspec.Struct, frozen=True):
    """Hosts in tree order, the tree over them, and how many GPUs the largest host has."""

    nodes: NodeTable
    topology: Topology
    gpus_per_host: int

    @property
    def host_gpus(self) -> Ints:
        """Of each host."""
        gpus: Ints = self.nodes.allocatable[AXIS.index[GPU]]
        return gpus

    @property
    def gpus(self) -> int:
        return int(self.host_gpus.sum())

    def domains(self, tier: int) -> Ints:
        """For every row its domain of a tier; a row outside of any is in one of its own."""
        domains_found = -1 - np.arange(len(self.nodes))
        for domain in self.topology.at_tier.get(tier, ()):
            domains_found[self.topology.span(int(domain))] = domain
        return domains_found


def fabric(hosts: Mapping[str, Sequence[str]], gpus: Sequence[int]) -> Fabric:
    """Hosts by name, each with the switches above it, outermost first; and the GPUs of each.

    A switch is known by its path, because labels repeat below different ones. The innermost switches are tier 1.
    """
    depth = max(map(len, hosts.values()), default=0)
    children: dict[tuple[str, ...], dict[str, None]] = {}
    members: dict[tuple[str, ...], set[str]] = {}
    for host, switches in hosts.items():
        path = tuple(switches)
        members.setdefault(path, set()).add(host)
        for i in range(1, len(path)):
            children.setdefault(path[:i], {})["/".join(path[: i + 1])] = None
    declared = [
        Declared(
            "/".join(path),
            depth - len(path) + 1,
            nodes=frozenset(members.get(path, ())),
            children=tuple(children.get(path, ())),
        )
        for path in dict.fromkeys((*children, *members))
        if path
    ]
    names = tuple(hosts)
    topology, order = build_tree(declared, names)
    kinds = {size: amounts(size, _PODS) for size in set(gpus)}
    allocatable = np.stack([kinds[gpus[i]] for i in order.tolist()], axis=1)
    return Fabric(table_of(tuple(names[i] for i in order.tolist()), allocatable), topology, max(gpus))


def table_of(names: tuple[str, ...], allocatable: Ints) -> NodeTable:
    """Plain nodes with these amounts, (resources x rows)."""
    return plain_nodes(names, ranks(sorted(range(len(names)), key=lambda i: natural(names[i]))), allocatable)


def shape(number: int, gpus: int, priority: int) -> Shape:
    """Pods that ask for so many GPUs, with the cpu and memory that go with them."""
    return plain_shape(number, amounts(gpus, 1), namespace=NAMESPACE, priority=priority)


def amounts(gpus: int, pods: int) -> Ints:
    """So many GPUs and pod slots, and the cpu and memory that go with the GPUs."""
    return AXIS.vector({CPU: gpus * _CPU_PER_GPU, MEMORY: gpus * _MEMORY_PER_GPU, POD_SLOTS: pods, GPU: gpus})
