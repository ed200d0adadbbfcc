"""Plain pods: jobs of one task that may go anywhere, of which a Deployment or a DaemonSet makes thousands.

Served one by one, each of them would cost a whole search. Pods that no plugin distinguishes are taken from the queue
together and placed as one run, each where it would have gone in its own turn. The pods of a DaemonSet differ in the
node that they are pinned to: each is looked for on that node alone.

Called by `allocate`, which serves pods that a run leaves over one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask
from tierwise.framework.kept_scores import KeptScores
from tierwise.framework.ledger import Pool
from tierwise.framework.pipeline import PluginError
from tierwise.framework.placer import best_row, place_in_order
from tierwise.model.arrays import Ints
from tierwise.model.job import Job
from tierwise.model.shape import Shape
from tierwise.model.topology import ROOT

if TYPE_CHECKING:
    from tierwise.api.core import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm

__all__ = ["RowsAhead", "Run", "is_pinned", "pinned_alike", "place_each", "place_run"]

Run = tuple[Sequence[Job], Ints]
"""Pods that were placed together, in their order, and the row of each."""

_NONE: Ints = np.zeros(0, dtype=np.int64)
_PINNED_BY = "metadata.name"
_COMPARED = tuple(name for name in Shape.__struct_fields__ if name not in ("number", "request", "asked", "affinity"))


def is_pinned(job: Job) -> bool:
    """Whether a plain pod is pinned to a node, as those of DaemonSets are."""
    return _pin(_shape(job)) is not None


def pinned_alike(one: Job, other: Job) -> bool:
    """Whether no plugin distinguishes two plain pods, but for the nodes that they are pinned to."""
    a, b = _shape(one), _shape(other)
    same = one.queue == other.queue and _pin(a) is not None and _pin(b) is not None
    return same and _equal_but_for_pins(a, b)


class _Plan(msgspec.Struct):
    """Rows of the next tasks, and how much of what was placed since is known to agree with them."""

    rows: Ints
    used: int  # how many of the rows are taken, or more where it was used to the end
    seen: int  # entries of the history
    moved: int  # entries of the ledger's list of changed rows
    length: int  # of the next plan, if this one is used to the end


class RowsAhead:
    """The rows of the next tasks of an ask, for as long as nobody but tasks of its shape is placed, and just there.

    Where queues take turns, or an elastic gang places one task in each of its turns, a task finds its row without a
    look at all nodes. A plan that was used to the end is followed by one of twice its length, any other by one of as
    many rows as are wanted at the time: so little is planned in vain.
    """

    def __init__(self, cycle: Cycle, scores: KeptScores) -> None:
        self._cycle = cycle
        self._scores = scores
        self._plans: dict[object, _Plan] = {}
        self._history: list[tuple[Shape, Ints, int, int]] = []  # with how many changes of the ledger before and after

    def rows(self, ask: Ask, count: int) -> Ints:
        """Rows for up to `count` tasks, in their order, of a job without constraints."""
        who = id(ask.shape) if self._cycle.pipeline.scores_by_shape else (id(ask.shape), ask.job.queue, ask.job.lone)
        plan = self._plans.get(who)
        length = count
        if plan is not None and self._holds(plan, ask.shape):
            if plan.used + count <= len(plan.rows) or len(plan.rows) < plan.length // 2:
                return plan.rows[plan.used : plan.used + count]
            length = max(count, plan.length)
        if length == 1:
            row = self._scores.best(ask)
            if row is not None:
                rows = np.full(int(row >= 0), row, dtype=np.int64)
                self._plans[who] = _Plan(rows, 0, len(self._history), self._cycle.ledger.moved.length, 2)
                return rows
        before = self._cycle.ledger.moved.length
        rows = place_in_order(self._cycle, ask, length, self._cycle.topology.span(ROOT), Pool.IDLE)
        after = self._cycle.ledger.moved.length
        if after > before:  # it has tried them on the ledger, and undone that
            self._history.append((ask.shape, _NONE, before, after))
        self._plans[who] = _Plan(rows, 0, len(self._history), after, 2 * length)
        return rows[:count]

    def place(self, shape: Shape, rows: Ints) -> None:
        """Place tasks on these rows, which may repeat, in this order."""
        ledger, before = self._cycle.ledger, self._cycle.ledger.moved.length
        if len(rows) == 1:
            ledger.place_one(shape, int(rows[0]))
        else:
            ledger.place(shape, *np.unique(rows, return_counts=True), pool=Pool.IDLE)
        self._history.append((shape, rows, before, ledger.moved.length))

    def _holds(self, plan: _Plan, shape: Shape) -> bool:
        """Whether all that has changed since is tasks of the shape on the rows of the plan."""
        for placed, rows, before, after in self._history[plan.seen :]:
            planned = plan.rows[plan.used : plan.used + len(rows)]  # fewer where the plan ends: then what went is right
            other = len(rows) and (placed is not shape or planned.tobytes() != rows[: len(planned)].tobytes())
            if other or before != plan.moved:
                return False
            plan.used += len(rows)
            plan.moved = after
        plan.seen = len(self._history)
        return plan.moved == self._cycle.ledger.moved.length


def place_run(
    cycle: Cycle, ahead: RowsAhead, alike: Sequence[Job], allowed: Callable[[Sequence[Job]], int], *, in_turn: bool
) -> Run:
    """Place plain pods that nobody distinguishes on idle resources, each where it would have gone in its own turn.

    `allowed` says how many of those that fit may go one after the other, each after those before it were charged: the
    run ends where its queue may not use more. `in_turn` says that nobody may be placed before a pod that finds no place
    now: it may preempt, wait for what is being released, or have another reason to wait once its queue has used more.
    """
    first, shape = alike[0], _shape(alike[0])
    pinned = _pin(shape) is not None and any(_shape(job) is not shape for job in alike)
    if cycle.pipeline.limit(first) is not None or (pinned and cycle.pipeline.moving(shape)):
        return (), _NONE
    fitting, rows = _on_pins(cycle, alike, in_turn=in_turn) if pinned else _anywhere(ahead, alike)
    count = allowed(fitting) if fitting else 0
    if not count:
        return (), _NONE
    fitting, rows = fitting[:count], rows[:count]
    with cycle.ledger.statement() as statement:
        cycle.ledger.count_each([job.subs[0] for job in fitting], shape, rows)
        cycle.ledger.charge_each(fitting, shape.request)
        ahead.place(shape, rows)
        statement.keep()
    cycle.report.search_counts.trials += count
    cycle.report.search_counts.domains += count
    return fitting, rows


def place_each(cycle: Cycle, scores: KeptScores, jobs: Iterator[Job]) -> tuple[Run, Job | None]:
    """Place plain pods of any kinds on idle resources, one after the other, each on the node that is best for it then.

    For pods that nothing but room on nodes limits. The first one that finds no room, or that needs a search, is
    returned besides, and those behind it are not looked at.
    """
    placed: list[Job] = []
    rows: list[int] = []
    free: dict[int, bool] = {}  # by identity of a shape: its pods need no search
    left = None
    with cycle.ledger.statement() as statement:
        statement.keep()  # what is placed stays, whatever becomes of the next one
        for job in jobs:
            shape = _shape(job)
            if id(shape) not in free:
                free[id(shape)] = not shape.best_effort and _pin(shape) is None and cycle.pipeline.limit(job) is None
            row = _best(cycle, scores, Ask(shape, job.subs[0], job)) if free[id(shape)] else -1
            if row < 0:
                left = job
                break
            cycle.ledger.place_one(shape, row)
            placed.append(job)
            rows.append(row)
        if placed:
            subs, requests = [job.subs[0] for job in placed], [_shape(job).request for job in placed]
            cycle.ledger.count_each(subs, _shape(placed[0]), np.array(rows, dtype=np.int64))
            cycle.ledger.charge_all(placed, np.stack(requests, axis=1))
    cycle.report.search_counts.trials += len(placed)
    cycle.report.search_counts.domains += len(placed)
    return (placed, np.array(rows, dtype=np.int64)), left


def _best(cycle: Cycle, scores: KeptScores, ask: Ask) -> int:
    """The best row for a task; -1 also where a plugin fails, which fails again when the job is served by itself."""
    try:
        row = scores.best(ask)
        return best_row(cycle, ask, cycle.topology.span(ROOT), Pool.IDLE) if row is None else row
    except PluginError:
        return -1


def _anywhere(ahead: RowsAhead, alike: Sequence[Job]) -> Run:
    """The first pods of those of one shape for which there is room, and a row for each."""
    first, shape = alike[0], _shape(alike[0])
    rows = ahead.rows(Ask(shape, first.subs[0], first), len(alike))
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
