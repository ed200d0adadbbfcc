"""Seeded synthetic clusters, straight into model types: 100,000 nodes in about a second.

Called by `rows` and by tests. A cluster is drawn with a seed of its own, so the same arguments give the same nodes,
the same tree and the same running tasks wherever they are drawn. Gangs come from `workloads`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.api.natural import natural
from tierwise.model.arrays import CPU, MEMORY, POD_SLOTS, Axis, Ints
from tierwise.model.job import Constraint, Job, Phase, PodSet, Policy, Queue, Shape, Status, SubJob, Task, plain_shape
from tierwise.model.node import NodeTable, plain_nodes
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import Topology
from tierwise.model.tree import Declared, build_tree

__all__ = [
    "CLASSES",
    "GPU",
    "GPUS_PER_NODE",
    "BenchCluster",
    "GangSpec",
    "cluster",
    "flat_cluster",
    "jobs",
    "mix",
    "snapshot",
    "with_leaders",
]


# Gangs as jobs of the model: the seeded heavy-tailed mix, or whatever gangs a row lists.
#
# Every workload starts with the lead, a gang of one small pod: its outcome is the first stamp of a timed pass, so that
# opening the cycle is not charged to the first gang that counts. Gangs ask for their whole number or nothing.


_TAIL = 0.7
"""The exponent of the distribution of gang sizes: the median is 2 pods, the mean about 12."""

_LARGEST = 512
_PARTITIONED = 0.4
_SPLIT_FROM = 16
_GROUP_SIZES = (4, 8, 16)


class GangSpec(msgspec.Struct, frozen=True):
    """Parameters of a drawn gang; `group` is 0 for a gang without sub-groups."""

    shape: Shape
    pods: int
    tier: int | None  # the highest that it may span; None: it may stand anywhere
    group: int = 0  # pods per group, each confined to a rack


def mix(number: int, *, top: int, seed: int = 1) -> list[GangSpec]:
    """1 to 512 pods, most of them small; eight classes; a tier limit from a rack to the root, at random.

    A smaller mix of the same seed is the beginning of a larger one.
    """
    rng = np.random.default_rng(seed)
    return [_draw(rng, top) for _ in range(number)]


def _draw(rng: np.random.Generator, top: int) -> GangSpec:
    span = 1.0 - float(_LARGEST + 1) ** -_TAIL
    pods = min(_LARGEST, int((1.0 - rng.random() * span) ** (-1.0 / _TAIL)))
    shape = CLASSES[int(rng.integers(len(CLASSES)))]
    tier = int(rng.integers(1, top + 1))
    split = rng.random() < _PARTITIONED
    size = int(rng.choice(_GROUP_SIZES))
    return GangSpec(shape, pods, tier, size if split and pods >= _SPLIT_FROM else 0)


def jobs(gangs: Sequence[GangSpec]) -> list[Job]:
    """The lead, and the gangs as jobs in the order in which they were made."""
    counter = _Counter()
    return [counter.job(gang) for gang in (GangSpec(LEAD, 1, 1), *gangs)]


def with_leaders(job: Job) -> Job:
    """A copy of a gang in which the first pod of each group asks for more cpu and memory."""
    subs = []
    for sub in job.subs:
        (workers,) = sub.pod_sets
        shape = CLASSES[CLASSES.index(workers.shape) + 1]
        leader = PodSet(shape, "", -1, (replace(workers.tasks[0], shape=shape),))
        other_workers = replace(workers, tasks=workers.tasks[1:])
        request = shape.request + workers.shape.request * len(other_workers.tasks)
        tasks = (*leader.tasks, *other_workers.tasks)
        subs.append(replace(sub, pod_sets=(leader, other_workers), request=request, tasks=tasks if sub.tasks else ()))
    tasks = tuple(task for sub in subs for pod_set in sub.pod_sets for task in pod_set.tasks)
    return replace(job, subs=tuple(subs), tasks=tasks)


class _Counter:
    """Numbers jobs and their sub-jobs."""

    def __init__(self) -> None:
        self._jobs = 0
        self._subs = 0

    def job(self, gang: GangSpec) -> Job:
        number = self._jobs
        self._jobs += 1
        key = f"bench/g{number}"
        groups = gang.pods // gang.group if gang.group else 1
        pods = groups * gang.group if gang.group else gang.pods
        tasks = tuple(Task(f"{key}-{i}", gang.shape, "", Status.PENDING) for i in range(pods))
        limit = None if gang.tier is None else Constraint(hard=True, tier=gang.tier)
        rack = Constraint(hard=True, tier=1)
        if gang.group:
            policies: tuple[Policy, ...] = (Policy("group", gang.group, groups, rack),)
            size = gang.group
            subs = tuple(
                self._sub(f"{key}/group-{i}", number, tasks[i * size : (i + 1) * size], rack, policy=0)
                for i in range(groups)
            )
        else:
            policies = ()
            subs = (self._sub(key, number, tasks, limit, policy=-1),)
        return Job(
            key=key,
            number=number,
            queue="default",
            priority=0,
            created=float(number),
            order=natural(key),
            phase=Phase.PENDING,
            declared=True,
            minimum=pods,
            constraint=limit,
            policies=policies,
            subs=subs,
            tasks=tasks,
        )

    def _sub(self, key: str, job: int, tasks: tuple[Task, ...], limit: Constraint | None, *, policy: int) -> SubJob:
        number = self._subs
        self._subs += 1
        shape = tasks[0].shape
        return SubJob(
            key=key,
            number=number,
            job_number=job,
            policy=policy,
            minimum=len(tasks),
            constraint=limit,
            order=natural(key),
            priority=0,
            pod_sets=(PodSet(shape, "", -1, tasks),),
            total=len(tasks),
            request=shape.request * len(tasks),
        )


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


class BenchCluster(msgspec.Struct, frozen=True):
    """Nodes, their tree and what runs on them already."""

    nodes: NodeTable
    topology: Topology
    running: tuple[Task, ...]

    @property
    def top(self) -> int:
        """The tier of the root: the widest limit that a gang can state."""
        return int(self.topology.tier[0])


def cluster(nodes: int, *, load: float = 0.0, seed: int = 1) -> BenchCluster:
    """Racks of 16 to 32 nodes, 16 racks to a leaf (tier 2), 8 leaves to a spine (tier 3), one root over all."""
    rng = np.random.default_rng((seed, nodes))
    ends = np.cumsum(rng.integers(16, 33, size=nodes // 16 + 1))
    ends = np.append(ends[ends < nodes], nodes)
    return _cluster(ends, (_RACKS_PER_LEAF, _LEAVES_PER_SPINE), load=load, rng=rng)


def flat_cluster(racks: int, nodes_per_rack: int) -> BenchCluster:
    """Empty racks of one size directly below the root."""
    ends = np.arange(1, racks + 1) * nodes_per_rack
    return _cluster(ends, (), load=0.0, rng=np.random.default_rng(0))


def snapshot(where: BenchCluster, jobs: Sequence[Job]) -> Snapshot:
    """Snapshot of a cluster and a workload for one cycle."""
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


def _cluster(ends: Ints, widths: Sequence[int], *, load: float, rng: np.random.Generator) -> BenchCluster:
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
    topology, order = build_tree(declared, names)
    running = _running(topology, load, rng) if load else ()
    return BenchCluster(_table(tuple(names[i] for i in order.tolist())), topology, running)


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
    full_rows = np.flatnonzero(draw < wholes)
    half = np.flatnonzero((draw >= wholes) & (draw < wholes + halves))
    full_node = CLASSES[6]
    half_node = CLASSES[4]
    return tuple(
        Task(f"bench/running-{row}", shape, "", Status.RUNNING, row)
        for shape, rows in ((full_node, full_rows), (half_node, half))
        for row in rows.tolist()
    )
