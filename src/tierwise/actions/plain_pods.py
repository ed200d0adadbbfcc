"""Plain pods: jobs of one task that may go anywhere, of which a Deployment or a DaemonSet makes thousands.

Served one by one, each of them would cost a whole search. Pods that no plugin distinguishes are taken from their queue
together and placed as one run, each where it would have gone by itself. The pods of a DaemonSet differ in the node that
they are pinned to: each is looked for on that node alone. Tasks beyond the minimum of a gang without constraints are
placed likewise where shares decide after each of them who is served next.

Called by `allocate`, which searches for the jobs that `PlainPods` does not place. Nothing is decided here that would
not be decided if every job were searched for, in the same order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from tierwise.actions.jobs_by_queue import JobsByQueue, Kind, QueuedJobs, ServedQueue, plain_kind
from tierwise.actions.placement.commit import commit_each, commit_surplus
from tierwise.actions.placement.demand import surplus
from tierwise.actions.placement.problem import Placement
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask
from tierwise.framework.ledger import Pool
from tierwise.framework.pipeline import PluginError
from tierwise.framework.placer import KeptScores, best_row, place_in_order
from tierwise.model.arrays import Ints, ordinals
from tierwise.model.job import Job, Reason, Shape
from tierwise.model.topology import ROOT

if TYPE_CHECKING:
    from tierwise.actions.reservations import Reservations
    from tierwise.api.core import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm

__all__ = ["PlainPods"]

_MANY = 8
"""Plain pods of one kind that wait behind each other are placed as one run from this number on."""

_NONE: Ints = np.zeros(0, dtype=np.int64)
_PINNED_BY = "metadata.name"
_COMPARED = tuple(name for name in Shape.__struct_fields__ if name not in ("number", "request", "asked", "affinity"))


class PlainPods:
    """Places plain pods of the queue that is served, and surplus tasks that may go anywhere, without a search."""

    def __init__(self, cycle: Cycle, jobs: JobsByQueue, reservations: Reservations | None, *, preempts: bool) -> None:
        pipeline = cycle.pipeline
        self._cycle = cycle
        self._jobs = jobs
        self._reservations = reservations
        self._preempts = preempts
        self._unlimited = not (pipeline.quota_exceeded or pipeline.overused or pipeline.queue_order)
        self._scores = KeptScores(cycle)
        self._batch = 1  # how many pods to take at once where each of them may be the last one before another queue
        self._all_placed_of: str | None = None  # the queue that was served last, if all that was taken of it was placed
        self._surplus_batches: dict[int, int] = {}  # by gang: how many tasks to try when it is served next

    def serve(self, queue: ServedQueue) -> Iterator[Job]:
        """Pop the next job of a queue and, if it is a plain pod, place it with those behind it that may go with it.

        Yields the jobs that have to be searched for: a gang, or the plain pods that are left over, one by one.
        """
        self._batch = min(2 * self._batch, len(queue.jobs)) if self._all_placed_of == queue.name else 1
        self._all_placed_of = queue.name
        job, kind = queue.jobs.pop()
        if kind is not None and self._skips_search() and self._are_few_alike(kind, queue.jobs):
            unplaced = self._place_each(self._pop_few_alike(job, queue.jobs))
            if unplaced is None:
                return
            fits = self._scores.has_room(_shape(unplaced))
            job = unplaced
            kind = plain_kind(self._cycle, unplaced) if fits else None
        if kind is None or not self._skips_search():
            self._all_placed_of = None
            yield job
            return
        in_order = self._in_order()
        alike = self._pop_alike(job, kind, queue, in_order=in_order)
        not_placed = self._place_run(alike, in_order=in_order)
        ask_again = in_order and _is_pinned(job)  # those behind one that waits may have room on their nodes
        for i, job in enumerate(not_placed):
            self._all_placed_of = None
            some_served = i or len(not_placed) < len(alike)  # since the queue was found to be the first
            if some_served and (self._jobs.must_give_way() or (ask_again and i)):
                for job_behind in not_placed[i:]:
                    self._jobs.put_back(job_behind)
                return
            yield job

    def place_free_surplus(self, job: Job) -> bool:
        """Place tasks beyond a gang's minimum until another job or queue comes first; whether any was placed.

        Where placing a task moves the shares, each of them is a decision of its own. This is for gangs without
        constraints, whose tasks go where scores lead them; all others place one task each time they are served.
        """
        if not self._has_free_surplus(job):
            return False
        cycle, (sub,) = self._cycle, job.subs
        pod_set = next(surplus(cycle, job)).remaining[0].pod_set
        shape = pod_set.shape
        batch = min(cycle.backlog.left(pod_set), self._surplus_batches.get(job.number, 1))
        rows = self._best_rows(Ask(shape, sub, job), batch)

        def allows(count: int) -> bool:
            if count and not self._jobs.is_next(job):
                return False
            return cycle.over_quota(job, shape.request, leaving=True) is None

        def charge(count: int) -> None:
            cycle.ledger.charge(job, shape.request * count)

        number = self._number_allowed(len(rows), charge, allows)
        self._surplus_batches[job.number] = 2 * batch if number == batch else 1
        if not number:
            return False
        rows = rows[:number]
        before = cycle.ledger.placed_span(job)
        charge(number)
        cycle.ledger.count_placed(sub, pod_set, *np.unique(rows, return_counts=True), pool=Pool.IDLE)
        cycle.ledger.place(shape, *np.unique(rows, return_counts=True), pool=Pool.IDLE)
        commit_surplus(cycle, job, Placement(sub, pod_set, rows, Pool.IDLE), before)
        return True

    def _skips_search(self) -> bool:
        """Whether no plugin and no onlooker has to be asked about each job by itself."""
        pipeline = self._cycle.pipeline
        searched = pipeline.propose or bool(self._reservations)
        return pipeline.gangs and not searched and self._cycle.inspect is None

    def _in_order(self) -> bool:
        """Whether no pod may be placed before a plain pod that finds no place now.

        It may preempt, wait for what is being released, or have another reason to wait once its queue has used more.
        """
        return not self._unlimited or self._preempts or self._cycle.ledger.any_releasing

    def _has_free_surplus(self, job: Job) -> bool:
        """Whether shares decide after each task, and the tasks beyond a gang's minimum may go anywhere."""
        pipeline = self._cycle.pipeline
        if not pipeline.queue_order or not self._skips_search() or self._cycle.ledger.followed:
            return False
        free = len(job.subs) == 1 and job.shape.free and not job.ranks
        return free and self._cycle.fit_counts.closed is None and pipeline.limit(job) is None

    # Which pods go together.

    def _are_few_alike(self, kind: Kind, jobs: QueuedJobs) -> bool:
        """Whether few pods of a kind wait behind each other, and nothing but free resources limits any pod."""
        return self._unlimited and not self._cycle.ledger.followed and not jobs.are_alike(kind, _MANY - 1)

    def _pop_few_alike(self, job: Job, jobs: QueuedJobs) -> Iterator[Job]:
        """A plain pod and those behind it, each popped as it is asked for, up to the first of many that are alike."""
        yield job
        yield from jobs.pop_unlike(_MANY, self._jobs.binds_left() - 1)

    def _pop_alike(self, job: Job, kind: Kind, queue: ServedQueue, *, in_order: bool) -> list[Job]:
        """A plain pod, and those behind it in its queue that no plugin distinguishes from it."""
        if self._cycle.ledger.followed:
            return [job]  # what followers take, such as volumes, depends on the order
        in_batches = queue.following is not None or (in_order and _is_pinned(job))
        max_pods = min(self._batch if in_batches else float("inf"), self._jobs.binds_left())
        alike = [job, *queue.jobs.pop_alike(kind, max_pods - 1)]
        while queue.jobs and len(alike) < max_pods:
            _, _, next_job, another = queue.jobs.peek()
            if another is None or not _pinned_alike(job, next_job):
                break
            alike.append(queue.jobs.pop()[0])
        return alike

    # Placing them.

    def _place_each(self, jobs: Iterable[Job]) -> Job | None:
        """Place plain pods of any kinds on idle resources, one after the other, each on the node that is best for it.

        Returns the first one that finds no node, or that needs a search; those behind it are not looked at.
        """
        cycle = self._cycle
        cycle.open_to(None)
        placed: list[Job] = []
        nodes: list[int] = []
        free: dict[int, bool] = {}  # by identity of a shape: its pods need no search
        unplaced = None
        for job in jobs:
            sub = job.subs[0]
            shape = sub.pod_sets[0].shape
            if id(shape) not in free:
                limited = _pin(shape) is not None or cycle.pipeline.limit(job) is not None
                free[id(shape)] = not shape.best_effort and not limited and not _awaits_volumes(shape)
            row = self._best_row(Ask(shape, sub, job)) if free[id(shape)] else -1
            if row < 0 or self._deferred(job, row):
                unplaced = job
                break
            self._scores.place(shape, row)
            placed.append(job)
            nodes.append(row)
        self._scores.write()
        rows = np.array(nodes, dtype=np.int64)
        if placed:
            cycle.ledger.count_each([job.subs[0] for job in placed], _shape(placed[0]), rows)
            requests = np.concatenate([_shape(job).request for job in placed])
            cycle.ledger.charge_all(placed, requests.reshape(len(placed), -1).T)
        self._decide(placed, rows)
        return unplaced

    def _deferred(self, job: Job, row: int) -> bool:
        """Whether a plugin delays a pod that would go there: then it is searched for, which tells why."""
        defer = self._cycle.pipeline.defer
        return bool(defer) and defer(job, np.array([row])) is not None

    def _best_row(self, ask: Ask) -> int:
        """The best row for a task; -1 also where a plugin fails, which fails again when the job is searched for."""
        try:
            row = self._scores.best(ask)
            if row is None:
                return best_row(self._cycle, ask, self._cycle.topology.span(ROOT), Pool.IDLE)
            return row
        except PluginError:
            return -1

    def _best_rows(self, ask: Ask, count: int) -> Ints:
        """The rows of up to `count` tasks of a job without constraints, in the order in which they would be placed."""
        row = self._scores.best(ask) if count == 1 else None
        if row is not None:
            return np.full(int(row >= 0), row, dtype=np.int64)
        return place_in_order(self._cycle, ask, count, self._cycle.topology.span(ROOT), Pool.IDLE)

    def _place_run(self, alike: list[Job], *, in_order: bool) -> list[Job]:
        """Place plain pods that no plugin distinguishes on idle resources; returns those that are left."""
        placed_and_rows = self._cycle.attempt(alike[0], lambda _: self._run(alike, in_order=in_order))
        if isinstance(placed_and_rows, Reason):
            return alike
        placed, rows = placed_and_rows
        self._decide(placed, rows)
        if len(placed) == len(alike):
            return []
        numbers = {job.number for job in placed}
        return [job for job in alike if job.number not in numbers]

    def _run(self, alike: Sequence[Job], *, in_order: bool) -> tuple[Sequence[Job], Ints]:
        """The pods that were placed, and the row of each; the run ends where its queue may not use more."""
        cycle = self._cycle
        first_job = alike[0]
        shape = _shape(alike[0])
        pinned = _pin(shape) is not None and any(_shape(job) is not shape for job in alike)
        picky = pinned or _awaits_volumes(shape)  # what a decision tells of volumes comes after the run
        if cycle.pipeline.limit(first_job) is not None or (picky and cycle.pipeline.moving(shape)):
            return (), _NONE
        if pinned:
            jobs, rows = _on_pins(cycle, alike, in_order=in_order)
        else:
            rows = self._best_rows(Ask(shape, first_job.subs[0], first_job), len(alike))
            jobs = alike[: len(rows)]
        if any(self._deferred(job, row) for job, row in zip(jobs, rows.tolist(), strict=True)):
            return (), _NONE
        count = self._number_allowed(
            len(jobs),
            lambda count: cycle.ledger.charge_all(jobs[:count], shape.request[:, None]),
            lambda count: cycle.over_quota(jobs[count], shape.request, leaving=True) is None,
        )
        if count:
            cycle.ledger.count_each([job.subs[0] for job in jobs[:count]], shape, rows[:count])
            cycle.ledger.charge_all(jobs[:count], shape.request[:, None])
            cycle.ledger.place(shape, *np.unique(rows[:count], return_counts=True), pool=Pool.IDLE)
        return jobs[:count], rows[:count]

    def _decide(self, placed: Sequence[Job], rows: Ints) -> None:
        """Add the decisions, and count a search for each pod as if it had been made."""
        if placed:
            commit_each(self._cycle, placed, rows)
        self._cycle.report.search_counts.trials += len(placed)
        self._cycle.report.search_counts.domains += len(placed)

    def _number_allowed(self, max_tasks: int, charge: Callable[[int], None], allows: Callable[[int], bool]) -> int:
        """How many tasks may be placed one after the other before one may not, or another queue comes first.

        `charge` adds so many of them to what is used, and `allows` says whether one more may go after so many.
        """
        if self._unlimited or not max_tasks:
            return max_tasks

        def one_more(count: int) -> bool:
            with self._cycle.ledger.statement():
                if count:
                    charge(count)
                    if self._jobs.must_give_way():
                        return False
                return allows(count)

        if not self._cycle.pipeline.rises_with_use:
            return next((count for count in range(max_tasks) if not one_more(count)), max_tasks)
        if one_more(max_tasks - 1):
            return max_tasks
        return bisect_left(range(max_tasks - 1), True, key=lambda count: not one_more(count))


# Pins: the node that the controller of a DaemonSet names in the affinity of each of its pods.


def _is_pinned(job: Job) -> bool:
    return _pin(_shape(job)) is not None


def _pinned_alike(job: Job, other_job: Job) -> bool:
    """Whether no plugin distinguishes two plain pods, but for the nodes that they are pinned to."""
    a = _shape(job)
    b = _shape(other_job)
    if job.queue != other_job.queue or _pin(a) is None or _pin(b) is None:
        return False
    all_equal = all(getattr(a, name) == getattr(b, name) for name in _COMPARED) and np.array_equal(a.request, b.request)
    return all_equal and _besides_pin(a) == _besides_pin(b)


def _on_pins(cycle: Cycle, alike: Sequence[Job], *, in_order: bool) -> tuple[Sequence[Job], Ints]:
    """The pods whose nodes have room for them, and the row of each.

    Filters are asked for all of them at once, as for a pod that may stand on any of these nodes. No pod is placed by
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
    fits = ordinals(rows) < room[rows]
    if in_order and not fits.all():
        fits[int(np.argmin(fits)) :] = False
    return [job for job, fit in zip(alike, fits.tolist(), strict=True) if fit], rows[fits]


def _awaits_volumes(shape: Shape) -> bool:
    """Whether volumes are made for its pods: which node they are made for may concern whoever is placed next."""
    return shape.volumes is not None and bool(shape.volumes.wanted)


def _shape(job: Job) -> Shape:
    return job.subs[0].pod_sets[0].shape


def _required(shape: Shape) -> tuple[NodeSelectorTerm, ...]:
    nodes = shape.affinity.node_affinity if shape.affinity is not None else None
    if nodes is not None and nodes.required is not None:
        return nodes.required.node_selector_terms
    return ()


def _pin(shape: Shape) -> str | None:
    """The node that a DaemonSet's controller has pinned a pod to; None where it may choose or has claims to heed."""
    terms = _required(shape)
    if len(terms) != 1 or terms[0].match_expressions or len(terms[0].match_fields) != 1:
        return None
    (field,) = terms[0].match_fields
    named = field.key == _PINNED_BY and field.operator == "In" and len(field.values) == 1
    if named and shape.devices is None and shape.volumes is None:
        return field.values[0]
    return None


def _besides_pin(shape: Shape) -> tuple[object, ...]:
    """The wishes and rules of a pinned shape's affinity."""
    affinity, nodes, _ = _pinned(shape)
    return nodes.preferred, affinity.pod_affinity, affinity.pod_anti_affinity


def _with_terms(shape: Shape, terms: tuple[NodeSelectorTerm, ...]) -> Shape:
    """A pinned shape whose alternatives of nodes are these instead of its pin."""
    affinity, nodes, required = _pinned(shape)
    other_affinity = replace(nodes, required=replace(required, node_selector_terms=terms))
    return replace(shape, affinity=replace(affinity, node_affinity=other_affinity))


def _pinned(shape: Shape) -> tuple[Affinity, NodeAffinity, NodeSelector]:
    """The affinity of a pinned shape, and the parts of it that hold its pin."""
    assert shape.affinity is not None
    nodes = shape.affinity.node_affinity
    assert nodes is not None
    assert nodes.required is not None
    return shape.affinity, nodes, nodes.required
