"""Seeded synthetic clusters, straight into model types: 100,000 nodes in about a second.

Called by `rows` and by tests. A cluster is drawn with a seed of its own, so the same arguments give the same nodes,
the same tree and the same running tasks wherever they are drawn. Gangs come from `workloads`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from tierwise.model.arrays import Ints
from tierwise.model.job import Job, Status, Task
from tierwise.model.node import NodeTable, plain_nodes
from tierwise.model.queue import Queue
from tierwise.model.resources import CPU, MEMORY, POD_SLOTS, Axis
from tierwise.model.shape import Shape, plain_shape
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import Topology
from tierwise.model.tree import Declared, grow

__all__ = ["CLASSES", "GPU", "GPUS_PER_NODE", "LEAD", "Cluster", "cluster", "flat_cluster", "snapshot"]

GPU = "nvidia.com/gpu"
GPUS_PER_NODE = 8
_GIB = 2**30
_AXIS = Axis.of((CPU, MEMORY, POD_SLOTS, GPU))
_NODE = _AXIS.vector({CPU: 128_000, MEMORY: 2048 * _GIB, POD_SLOTS: 110, GPU: GPUS_PER_NODE})
_RACKS_PER_LEAF = 16
_LEAVES_PER_SPINE = 8
_PACKED = 0.7
"""Share of the load that fills whole nodes; the rest takes half a node each, as far as there are nodes for it."""


def _shape(number: int, *, gpus: int, cpu: int, memory: int) -> Shape:
    """Tasks that ask for so many GPUs, milli cpu and GiB."""
    amounts = {CPU: cpu, MEMORY: memory * _GIB, POD_SLOTS: 1} | ({GPU: gpus} if gpus else {})
    return plain_shape(number, _AXIS.vector(amounts), namespace="bench")


CLASSES: tuple[Shape, ...] = tuple(
    _shape(i, gpus=gpus, cpu=cpu * gpus, memory=memory * gpus)
    for i, (gpus, cpu, memory) in enumerate((g, *kind) for g in (1, 2, 4, 8) for kind in ((4_000, 64), (12_000, 192)))
)
"""The eight pod classes: 1, 2, 4 or 8 GPUs, each with little or much cpu and memory per GPU."""

LEAD = _shape(len(CLASSES), gpus=0, cpu=100, memory=1)
"""The class of the gang that opens a timed pass; nothing else is of it."""

_SHAPES = (*CLASSES, LEAD)


class Cluster(msgspec.Struct, frozen=True):
    """Nodes, their tree and what runs on them already."""

    nodes: NodeTable
    topology: Topology
    running: tuple[Task, ...]

    @property
    def top(self) -> int:
        """The tier of the root: the widest limit that a gang can state."""
        return int(self.topology.tier[0])


def cluster(nodes: int, *, load: float = 0.0, seed: int = 1) -> Cluster:
    """Racks of 16 to 32 nodes, 16 racks to a leaf (tier 2), 8 leaves to a spine (tier 3), one root over all."""
    rng = np.random.default_rng((seed, nodes))
    ends = np.cumsum(rng.integers(16, 33, size=nodes // 16 + 1))
    ends = np.append(ends[ends < nodes], nodes)
    return _cluster(ends, (_RACKS_PER_LEAF, _LEAVES_PER_SPINE), load=load, rng=rng)


def flat_cluster(racks: int, nodes_per_rack: int) -> Cluster:
    """Empty racks of one size directly below the root."""
    ends = np.arange(1, racks + 1) * nodes_per_rack
    return _cluster(ends, (), load=0.0, rng=np.random.default_rng(0))


def snapshot(where: Cluster, jobs: Sequence[Job]) -> Snapshot:
    """What one cycle sees of a cluster and a workload."""
    return Snapshot(
        axis=_AXIS,
        nodes=where.nodes,
        topology=where.topology,
        queues={"default": Queue("default")},
        jobs=tuple(jobs),
        shapes=_SHAPES,
        others=where.running,
        orphans={},
        faults=(),
        now=0.0,
    )


def _cluster(ends: Ints, widths: Sequence[int], *, load: float, rng: np.random.Generator) -> Cluster:
    """Racks that end at these rows, and above them domains of `widths` children, tier by tier."""
    names = tuple(f"n{i}" for i in range(int(ends[-1])))
    starts = np.append(0, ends[:-1])
    declared = [
        Declared(f"t1-{i}", 1, nodes=frozenset(names[start:end]))
        for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True))
    ]
    below = len(declared)
    for tier, width in enumerate(widths, start=2):
        parts = [range(i, min(i + width, below)) for i in range(0, below, width)]
        declared += [
            Declared(f"t{tier}-{i}", tier, children=tuple(f"t{tier - 1}-{c}" for c in part))
            for i, part in enumerate(parts)
        ]
        below = len(parts)
    topology, order = grow(declared, names)
    running = _running(topology, load, rng) if load else ()
    return Cluster(_table(tuple(names[i] for i in order)), topology, running)


def _table(names: tuple[str, ...]) -> NodeTable:
    rank = np.array([int(name[1:]) for name in names], dtype=np.int64)  # n2 before n10
    return plain_nodes(names, rank, np.repeat(_NODE[:, None], len(names), axis=1))


def _running(topology: Topology, load: float, rng: np.random.Generator) -> tuple[Task, ...]:
    """Whole and half nodes in use, unevenly from rack to rack, so that about `load` of all GPUs are."""
    racks = rng.beta(4 * load, 4 * (1 - load), size=len(topology))
    chance = racks[topology.leaf]
    draw = rng.random(len(chance))
    halves = np.minimum(2 * (1 - _PACKED) * chance, 2 * (1 - chance))
    wholes = chance - halves / 2
    whole = np.flatnonzero(draw < wholes)
    half = np.flatnonzero((draw >= wholes) & (draw < wholes + halves))
    full_node, half_node = CLASSES[6], CLASSES[4]
    return tuple(
        Task(f"bench/running-{row}", shape, "", Status.RUNNING, row)
        for shape, rows in ((full_node, whole), (half_node, half))
        for row in rows.tolist()
    )
