"""Small clusters built by hand from model types, for tests below `dialects`.

    w = world([node("n0", labels={"zone": "a"}), node("n1")], [pods("cpu=1", on="n0"), pods("cpu=2", pending=3)])
    plugin = Predicates({}, w.view)
    assert {"n0": "", "n1": "NodeSelectorMismatch"} == w.codes(plugin.why_not(w.shape(1)))

Each `pods(...)` is one shape, numbered in the order given; its pending tasks are one job with one sub-job.
Amounts are in the axis' own units; whoever asks for something asks for a pod slot as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from tierwise.api.core import Affinity, Taint, Toleration, TopologySpreadConstraint
from tierwise.api.natural import natural
from tierwise.framework.extension import Ask, CycleView
from tierwise.framework.ledger import Ledger, Pool
from tierwise.framework.room_ahead import RoomAhead
from tierwise.model.arrays import POD_SLOTS, Axis, Floats, Ints, Why, ranks
from tierwise.model.job import Job, Phase, PodSet, Queue, ReasonBook, Shape, Status, SubJob, Task
from tierwise.model.node import LabelTable, NodeTable
from tierwise.model.snapshot import Snapshot
from tierwise.model.tree import Declared, build_tree

__all__ = ["NodeDraft", "PodsDraft", "World", "amounts", "node", "pods", "taints", "world"]


class NodeDraft(msgspec.Struct, frozen=True):
    name: str
    amounts: Mapping[str, int]
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    cordoned: bool = False
    ready: bool = True
    images: Mapping[str, int] = {}


class PodsDraft(msgspec.Struct, frozen=True):
    asks: Mapping[str, int]
    on: tuple[str, ...] = ()  # nodes of the running tasks, one entry each
    leaving: tuple[str, ...] = ()  # nodes of the tasks on their way out
    pending: int = 1
    namespace: str = "default"
    labels: Mapping[str, str] = {}
    node_selector: Mapping[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    spread: tuple[TopologySpreadConstraint, ...] = ()
    images: tuple[str, ...] = ()
    priority: int = 0


def amounts(text: str) -> dict[str, int]:
    """Read "cpu=4 memory=8"."""
    return {name: int(amount) for name, amount in (item.split("=") for item in text.split())}


def taints(text: str) -> tuple[Taint, ...]:
    """Read "gpu=true:NoSchedule soft:PreferNoSchedule"."""
    split = (item.rpartition(":") for item in text.split())
    return tuple(Taint(key=k.split("=")[0], value=k.partition("=")[2], effect=effect) for k, _, effect in split)


def node(name: str, has: str = "cpu=100 memory=100 pods=110", **rest: object) -> NodeDraft:
    """A node that has "cpu=4 ..."; taints may be text, the rest is as in `NodeDraft`."""
    if isinstance(rest.get("taints"), str):
        rest["taints"] = taints(str(rest["taints"]))
    return NodeDraft(name, {POD_SLOTS: 110} | amounts(has), **rest)  # type: ignore[arg-type]


def pods(
    asks: str = "cpu=1", *, on: str = "", leaving: str = "", pending: int | None = None, **rest: object
) -> PodsDraft:
    """Pods of one shape; those with no node given are one pending task unless `pending` says how many."""
    number = int(not on and not leaving) if pending is None else pending
    asked = {POD_SLOTS: 1} | amounts(asks)
    return PodsDraft(asked, tuple(on.split()), tuple(leaving.split()), number, **rest)  # type: ignore[arg-type]


class World(msgspec.Struct, frozen=True):
    """A snapshot with a ledger and a view over it, and a few questions in words."""

    snapshot: Snapshot
    ledger: Ledger
    view: CycleView

    @property
    def everywhere(self) -> slice:
        return slice(0, len(self.snapshot.nodes))

    def shape(self, number: int) -> Shape:
        return self.snapshot.shapes[number]

    def row(self, name: str) -> int:
        return self.snapshot.nodes.row[name]

    def ask(self, number: int) -> Ask:
        """An ask for the pending tasks of a shape."""
        shape = self.shape(number)
        return next(Ask(shape, job.subs[0], job) for job in self.snapshot.jobs if job.tasks[-1].shape is shape)

    def place(self, number: int, name: str, count: int = 1, pool: Pool = Pool.IDLE) -> None:
        self.ledger.place(self.shape(number), np.array([self.row(name)]), np.array([count]), pool=pool)

    def codes(self, why: Why) -> dict[str, str]:
        """Reason codes of all nodes by name, "" where there is no objection."""
        book = self.view.reasons
        return {name: book[why[row]].code if why[row] else "" for name, row in sorted(self._rows())}

    def texts(self, why: Why) -> dict[str, str]:
        book = self.view.reasons
        return {name: book[why[row]].text if why[row] else "" for name, row in sorted(self._rows())}

    def scores(self, scores: Floats) -> dict[str, float]:
        return {name: round(float(scores[row]), 6) for name, row in sorted(self._rows())}

    def _rows(self) -> list[tuple[str, int]]:
        return list(self.snapshot.nodes.row.items())


def world(nodes: Sequence[NodeDraft], groups: Sequence[PodsDraft], *, racks: Mapping[str, str] | None = None) -> World:
    """A cluster. `racks` are domains of tier 1 with the names of their nodes, "r0": "n0 n1"."""
    axis = Axis.of({r for n in nodes for r in n.amounts} | {r for g in groups for r in g.asks})
    declared = [Declared(name, 1, nodes=frozenset(inside.split())) for name, inside in (racks or {}).items()]
    topology, order = build_tree(declared, [n.name for n in nodes])
    table = _table(axis, [nodes[i] for i in order])
    shapes = tuple(_shape(axis, i, g) for i, g in enumerate(groups))
    running = [_standing(table, shape, group) for shape, group in zip(shapes, groups, strict=True)]
    jobs: list[Job] = []
    for shape, group, tasks in zip(shapes, groups, running, strict=True):
        if group.pending:
            jobs.append(_job(len(jobs), shape, group.pending, tasks))
    others = tuple(t for group, tasks in zip(groups, running, strict=True) if not group.pending for t in tasks)
    queues = {"default": Queue("default")}
    snapshot = Snapshot(
        axis=axis,
        nodes=table,
        topology=topology,
        queues=queues,
        jobs=tuple(jobs),
        shapes=shapes,
        others=others,
        orphans={},
        faults=(),
        now=0.0,
    )
    ledger = Ledger(snapshot)
    ahead = RoomAhead(snapshot, ledger)
    view = CycleView(axis, table, topology, snapshot.jobs, queues, snapshot, ledger, ReasonBook(), ahead)
    return World(snapshot, ledger, view)


def _table(axis: Axis, nodes: list[NodeDraft]) -> NodeTable:
    names = tuple(n.name for n in nodes)
    sets = list(dict.fromkeys(n.taints for n in nodes))
    has_images = any(n.images for n in nodes)
    return NodeTable(
        names=names,
        row={name: i for i, name in enumerate(names)},
        rank=ranks(sorted(range(len(names)), key=lambda i: natural(names[i]))),
        number=np.arange(len(names)),
        allocatable=_columns(axis, [n.amounts for n in nodes]),
        labels=LabelTable(names, [dict(n.labels) for n in nodes]),
        taints=tuple(sets),
        taint_set=np.array([sets.index(n.taints) for n in nodes], dtype=np.int32),
        cordoned=np.array([n.cordoned for n in nodes], dtype=bool),
        ready=np.array([n.ready for n in nodes], dtype=bool),
        images=tuple(dict(n.images) for n in nodes) if has_images else (),
    )


def _columns(axis: Axis, rows: list[Mapping[str, int]]) -> Ints:
    return np.ascontiguousarray(np.array([axis.vector(r) for r in rows], dtype=np.int64).reshape(-1, len(axis)).T)


def _shape(axis: Axis, number: int, group: PodsDraft) -> Shape:
    request = axis.vector(group.asks)
    return Shape(
        number=number,
        request=request,
        asked=np.flatnonzero(request),
        namespace=group.namespace,
        labels=dict(group.labels),
        node_selector=dict(group.node_selector),
        affinity=group.affinity,
        tolerations=group.tolerations,
        spread=group.spread,
        images=group.images,
        priority=group.priority,
        best_effort=not any(amount for name, amount in group.asks.items() if name != POD_SLOTS),
        never_preempts=False,
    )


def _standing(table: NodeTable, shape: Shape, group: PodsDraft) -> tuple[Task, ...]:
    where = [(name, Status.RUNNING) for name in group.on] + [(name, Status.RELEASING) for name in group.leaving]
    return tuple(
        Task(f"{shape.namespace}/s{shape.number}-{i}", shape, "", status, table.row[name])
        for i, (name, status) in enumerate(where)
    )


def _job(number: int, shape: Shape, pending: int, standing: tuple[Task, ...]) -> Job:
    key = f"{shape.namespace}/job-{shape.number}"
    waiting = tuple(Task(f"{key}-{i}", shape, "", Status.PENDING) for i in range(pending))
    pod_set = PodSet(shape, "", -1, waiting)
    held = np.array([task.node for task in standing if task.status is Status.RUNNING], dtype=np.int64)
    sub = SubJob(
        key=key,
        number=number,
        job_number=number,
        policy=-1,
        minimum=1,
        constraint=None,
        match_index=0,
        order=natural(key),
        priority=shape.priority,
        pod_sets=() if shape.best_effort else (pod_set,),
        total=pending + len(standing),
        request=shape.request * (pending + len(standing)),
        held=held,
        ready=len(held),
        tasks=(*standing, *waiting),
    )
    return Job(
        key=key,
        number=number,
        queue="default",
        priority=shape.priority,
        created=0.0,
        order=natural(key),
        phase=Phase.INQUEUE,
        declared=True,
        minimum=1,
        roles={},
        constraint=None,
        policies=(),
        min_resources=None,
        subs=(sub,),
        tasks=(*standing, *waiting),
        best_effort_pod_sets=((0, pod_set),) if shape.best_effort else (),
    )
