"""Plain pods: jobs of one task that may go anywhere, of which a Deployment or a DaemonSet makes thousands.

Served one by one, each of them would cost a whole search. Pods that no plugin distinguishes are taken from the queue
together and placed as one run, each where it would have gone in its own turn. The pods of a DaemonSet differ in the
node that they are pinned to: each is looked for on that node alone.

Called by `allocate`, which serves pods that a run leaves over one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.fit import Placement
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask
from tierwise.framework.ledger import Pool
from tierwise.framework.placer import place_in_order
from tierwise.model.arrays import Ints
from tierwise.model.job import Job
from tierwise.model.shape import Shape
from tierwise.model.topology import ROOT

if TYPE_CHECKING:
    from tierwise.api.core import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm

__all__ = ["Run", "exchangeable", "is_plain", "place_run"]

Run = list[tuple[Job, Placement]]
"""Pods that were placed together, in their order."""

_PINNED_BY = "metadata.name"
_COMPARED = tuple(name for name in Shape.__struct_fields__ if name not in ("number", "request", "asked", "affinity"))


def is_plain(cycle: Cycle, job: Job) -> bool:
    """Whether a job is one task that no gang, topology or promise concerns."""
    if not job.lone or len(job.tasks) != 1 or len(job.subs) != 1 or job.minimum != 1:
        return False
    if job.constraint is not None or job.policies or job.roles or job.pattern is not None or job.gather is not None:
        return False
    sub = job.subs[0]
    if job.repair is not None:
        return False
    free = sub.constraint is None and not sub.previous_domain and len(sub.pod_sets) == 1 and not sub.ready
    return free and not cycle.nominations.holds(job) and cycle.backlog.left(sub.pod_sets[0]) == 1


def exchangeable(one: Job, other: Job) -> bool:
    """Whether no plugin distinguishes two plain pods, but for the nodes that they are pinned to."""
    if one.queue != other.queue:
        return False
    a, b = _shape(one), _shape(other)
    return a is b or (_pin(a) is not None and _pin(b) is not None and _equal_but_for_pins(a, b))


def place_run(cycle: Cycle, alike: Sequence[Job], may_use: Callable[[Job], bool], *, in_turn: bool) -> Run:
    """Place exchangeable plain pods on idle resources, each where it would have gone in its own turn.

    `may_use` is asked for each of them, after those before it were charged: the run ends where its queue may not use
    more. `in_turn` says that nobody may be placed before a pod that finds no place now: it may preempt, wait for what
    is being released, or have another reason to wait once its queue has used more.
    """
    first = alike[0]
    if cycle.pipeline.moving(_shape(first)) or cycle.pipeline.limit(first) is not None:
        return []
    pinned = any(_shape(job) is not _shape(first) for job in alike)
    fitting, rows = _on_pins(cycle, alike, in_turn=in_turn) if pinned else _anywhere(cycle, alike)
    run: Run = []
    one = np.ones(1, dtype=np.int64)
    with cycle.ledger.statement() as statement:
        for i, job in enumerate(fitting):
            if not may_use(job):
                break
            (sub,) = job.subs
            (pod_set,) = sub.pod_sets
            where = rows[i : i + 1]
            cycle.ledger.count_placed(sub, pod_set, where, one, pool=Pool.IDLE)
            cycle.ledger.charge(job, pod_set.shape.request)
            run.append((job, Placement(sub, pod_set, where, Pool.IDLE)))
        if run:
            distinct, counts = np.unique(rows[: len(run)], return_counts=True)
            cycle.ledger.place(_shape(first), distinct, counts, pool=Pool.IDLE)
        statement.keep()
    cycle.report.search_counts.trials += len(run)
    cycle.report.search_counts.domains += len(run)
    return run


def _anywhere(cycle: Cycle, alike: Sequence[Job]) -> tuple[Sequence[Job], Ints]:
    """The first pods of those of one shape for which there is room, and a row for each."""
    first = alike[0]
    ask = Ask(_shape(first), first.subs[0], first)
    rows = place_in_order(cycle, ask, len(alike), cycle.topology.span(ROOT), Pool.IDLE)
    return alike[: len(rows)], rows


def _on_pins(cycle: Cycle, alike: Sequence[Job], *, in_turn: bool) -> tuple[Sequence[Job], Ints]:
    """The pods whose nodes have room for them, and the row of each.

    Filters are asked for all of them at once, as for a pod that may stand on any of these nodes. Nobody is placed by
    its pin where a pod that may stand on no node has one to go to: such a profile heeds no node affinity.
    """
    shapes = [_shape(job) for job in alike]
    rows = np.array([cycle.nodes.row.get(_pin(shape) or "", -1) for shape in shapes], dtype=np.int64)
    terms = tuple(dict.fromkeys(_required(shape)[0] for shape in shapes))
    if not cycle.pipeline.why_not(_with_terms(shapes[0], ())).all():
        return (), rows[:0]
    allowed = cycle.pipeline.why_not(_with_terms(shapes[0], terms)) == 0
    room = np.zeros(len(allowed) + 1, dtype=np.int64)  # the last for nodes that do not exist
    able = np.flatnonzero(allowed)
    room[able] = shapes[0].max_tasks(cycle.ledger.free(shapes[0].asked, able, Pool.IDLE))
    fits = _turns(rows) < room[rows]
    if in_turn and not fits.all():
        fits[int(np.argmin(fits)) :] = False
    return [job for job, fit in zip(alike, fits.tolist(), strict=True) if fit], rows[fits]


def _turns(rows: Ints) -> Ints:
    """How many entries before each name the same row."""
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    begins = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))
    lengths = np.diff(begins, append=len(rows))
    turns = np.empty(len(rows), dtype=np.int64)
    turns[order] = np.arange(len(rows)) - np.repeat(begins, lengths)
    return turns


def _shape(job: Job) -> Shape:
    return job.subs[0].pod_sets[0].shape


def _required(shape: Shape) -> tuple[NodeSelectorTerm, ...]:
    nodes = shape.affinity.node_affinity if shape.affinity is not None else None
    return nodes.required.node_selector_terms if nodes is not None and nodes.required is not None else ()


def _pin(shape: Shape) -> str | None:
    """The node that a DaemonSet's controller has pinned a pod to; None where it may choose or has claims to heed."""
    terms = _required(shape)
    if len(terms) != 1 or terms[0].match_expressions or len(terms[0].match_fields) != 1:
        return None
    (field,) = terms[0].match_fields
    named = field.key == _PINNED_BY and field.operator == "In" and len(field.values) == 1
    return field.values[0] if named and shape.devices is None and shape.volumes is None else None


def _equal_but_for_pins(a: Shape, b: Shape) -> bool:
    return (
        all(getattr(a, name) == getattr(b, name) for name in _COMPARED)
        and np.array_equal(a.request, b.request)
        and _besides_pin(a) == _besides_pin(b)
    )


def _besides_pin(shape: Shape) -> tuple[object, ...]:
    """The wishes and rules of a pinned shape's affinity."""
    affinity, nodes, _ = _pinned(shape)
    return nodes.preferred, affinity.pod_affinity, affinity.pod_anti_affinity


def _with_terms(shape: Shape, terms: tuple[NodeSelectorTerm, ...]) -> Shape:
    """A pinned shape whose alternatives of nodes are these instead of its pin."""
    affinity, nodes, required = _pinned(shape)
    others = replace(nodes, required=replace(required, node_selector_terms=terms))
    return replace(shape, affinity=replace(affinity, node_affinity=others))


def _pinned(shape: Shape) -> tuple[Affinity, NodeAffinity, NodeSelector]:
    """The affinity of a pinned shape, and the parts of it that hold its pin."""
    assert shape.affinity is not None
    nodes = shape.affinity.node_affinity
    assert nodes is not None
    assert nodes.required is not None
    return shape.affinity, nodes, nodes.required
