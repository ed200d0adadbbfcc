"""The mutable state of a cycle, and the undo log of changes to it.

Every write first saves the old values in the undo log, so a rewind restores any array exactly and no inverse operations
are needed. Actions write through statements; plugins read the arrays and never write them.

A task is placed on one of two pools. `FUTURE_IDLE` is what is idle after all releasing tasks have left and all
pipelined tasks have started. `IDLE` is the smaller of idle and future idle, so that a task placed now never takes
resources that a pipelined task waits for.

Tasks that are evicted are gone for the one that they go for, and for no other: once that has its place (`linger`),
rules between tasks see them again, as they will see terminating ones in the next cycle. What they free is room of the
future from their eviction on.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from math import inf
from types import MappingProxyType
from typing import Any, Final, ParamSpec, Protocol, TypeVar

import msgspec
import numpy as np

from tierwise.framework.kept import MovedRows
from tierwise.framework.steps import StepAccount
from tierwise.model.arrays import EMPTY, Ints, Rows, distinct, of_rows
from tierwise.model.gang import GangShape, around, lacking
from tierwise.model.held import held_amounts
from tierwise.model.job import Job, PodSet, Shape, Size, Status, SubJob, Task
from tierwise.model.running import RunningTable
from tierwise.model.snapshot import Snapshot

__all__ = [
    "Follower",
    "Ledger",
    "Pool",
    "ShownLedger",
    "Statement",
    "Tally",
    "halves",
    "job_ready",
    "lacking_of",
    "ready_tasks",
    "size_of",
    "stands_in_part",
    "stays_released",
    "sub_ready",
]


P = ParamSpec("P")
T = TypeVar("T")
_ONE: Ints = np.ones(1, dtype=np.int64)
_NOWHERE = (2**62, -1)
"""The span of no rows."""

_Index = tuple[int | Ints, Ints] | tuple[slice, int | Ints] | Ints | int


class Pool(enum.Enum):
    """Which resources a task is placed on."""

    IDLE = "now"
    FUTURE_IDLE = "later"  # still being released: the task is pipelined


class Tally(msgspec.Struct, frozen=True):
    """A running sum that a plugin registers and reads: tasks per bucket of rows.

    `weights` says, by shape number, what one task adds to the bucket of its row; shapes that are not named add nothing.
    """

    values: Ints
    bucket: Ints  # the bucket of each row; -1 for none
    weights: Mapping[int, int]
    evicted: Ints | None = None  # where those evicted in this cycle are counted that linger; None: among the values


class Follower(Protocol):
    """State of a plugin that is updated with every placement and rewind, where a tally is not enough."""

    def count(self, ledger: Ledger, shape: Shape, rows: Ints, counts: Ints) -> None:
        """Tasks of a shape were placed on rows, or removed (negative). Changes must go through `save` or `append`."""


Counting = Callable[["Ledger", Shape, Ints, Ints], None]


class _Followed(msgspec.Struct, frozen=True):
    count: Counting
    evicted: Callable[[Ledger, Sequence[Task]], None] | None
    linger: Counting


def stays_released(ledger: Ledger, shape: Shape, rows: Ints, counts: Ints) -> None:
    """For those who follow room alone: nothing comes back with evicted tasks that linger."""


def _guarded(call: Callable[P, T], turned: Callable[[BaseException], Exception]) -> Callable[P, T]:
    def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except (Exception, SystemExit) as error:
            raise turned(error) from error

    return guarded


def _joined(rows_by_shape: Mapping[int, Ints], further_rows: Mapping[int, Ints]) -> dict[int, Ints]:
    """Rows by shape number of both."""
    joined = dict(rows_by_shape)
    for number, rows in further_rows.items():
        joined[number] = np.concatenate((joined[number], rows)) if number in joined else rows
    return joined


class Ledger:
    """Amounts per node and domain, and counts per sub-job, role, job and queue, for one cycle."""

    def __init__(self, snapshot: Snapshot, steps: StepAccount | None = None) -> None:
        """Every write is charged to `steps`, where an account is given."""
        self.steps = steps if steps is not None else StepAccount()
        self._snapshot = snapshot
        self._topology = snapshot.topology
        self._allocatable = snapshot.nodes.allocatable
        unused = snapshot.devices.unused if snapshot.devices is not None else {}
        self._unused = {snapshot.axis.index[name]: counts for name, counts in unused.items()}
        self.pipelined: Ints = np.zeros(self._allocatable.shape, dtype=np.int64)
        self.queue_index = {name: i for i, name in enumerate(snapshot.queues)}
        self.budgets: Ints = np.array([*snapshot.budgets.values()], dtype=np.int64)  # disruptions still allowed
        self.budget_index = snapshot.budget_index
        self.moved = MovedRows(len(snapshot.nodes))
        self.any_releasing = False
        self.any_pipelined = False  # whether a task was ever placed on future idle resources, or these were reserved
        self._releases: list[int] = [0]  # see `releases`: the last one counts
        self._released = 0  # how often capacity was released, what was undone included
        self._tallies: list[Tally] = []
        self._counting: dict[int, list[tuple[Tally, int]]] = {}  # by shape number: the tallies that count it
        self._expected: dict[int, tuple[Ints, Ints]] = {}  # by tally: its values, and who of them is pipelined
        self._followers: list[_Followed] = []
        self._going: list[tuple[RunningTable, Ints]] = []  # who was evicted
        self._lingering: list[int] = []  # how many of these entries linger: the last one counts
        self._ended: list[float] = []  # the moments that trials have gone ahead to: the last one counts
        self.registered = (0, 0)  # the number of tallies and followers
        self._jobs = snapshot.jobs
        self._rows = snapshot.nodes.rows
        self._each_row: Ints = np.arange(len(snapshot.nodes))
        self._placed_rows: dict[int, list[tuple[Ints, Ints]]] = {}
        self._spans: dict[int, list[tuple[int, int]]] = {}  # by job that was asked about; the last entry counts
        self._spreads: dict[int, list[Ints]] = {}  # by job that was asked about
        self._undo: list[tuple[Ints | list[Any], _Index, Ints | int]] = []
        self.lacking: dict[int, tuple[GangShape, tuple[bytes, bytes], list[list[int]]]] = {}  # by job, for `lacking_of`
        self.idle, self.releasing = self._amounts_at_start()
        owned = np.maximum(self.idle, 0)  # an oversubscribed node does not reduce its domain's idle sum
        self.domain_idle = self._topology.all_totals(owned)
        self.domain_releasing = (
            self._topology.all_totals(self.releasing)
            if self.any_releasing
            else np.zeros(self.domain_idle.shape, dtype=np.int64)
        )

    # What follows is counted when it is first asked for, or is about to change it: until then it is as it was at
    # the start of the cycle, and many cycles need little of it.

    @cached_property
    def domain_allocatable(self) -> Ints:
        """Sum of what the nodes of each domain have."""
        return self._topology.all_totals(self._allocatable)

    @cached_property
    def ready(self) -> Ints:
        """How many tasks of each sub-job count as ready."""
        return np.array([sub.ready for job in self._jobs for sub in job.subs], dtype=np.int64)

    @cached_property
    def waiting(self) -> Ints:
        """How many tasks of each sub-job are pipelined."""
        return np.zeros_like(self.ready)

    @cached_property
    def role_ready(self) -> Ints:
        """How many tasks of each role count as ready."""
        roles: dict[int, int] = {}
        for job in self._jobs:
            roles |= job.role_ready
        ready: Ints = np.zeros(1 + max(roles, default=-1), dtype=np.int64)
        ready[[*roles]] = [*roles.values()]
        return ready

    @cached_property
    def role_waiting(self) -> Ints:
        """How many tasks of each role are pipelined."""
        return np.zeros_like(self.role_ready)

    @cached_property
    def held(self) -> dict[int, Ints]:
        """By shape number: rows of its tasks at the start of the cycle."""
        return _joined(self._running, self.leaving)

    @cached_property
    def leaving(self) -> dict[int, Ints]:
        """Those of them that were terminating."""
        return self._snapshot.columns.held(Status.RELEASING).by_shape()

    @cached_property
    def _running(self) -> dict[int, Ints]:
        """Those of them that were not."""
        return _joined(self._snapshot.columns.held(Status.RUNNING).by_shape(), self._snapshot.standing)

    @cached_property
    def job_used(self) -> Ints:
        """Sum of the requests of the running tasks of each job, (resources x jobs)."""
        return self._running_at_start.copy()

    @cached_property
    def _running_at_start(self) -> Ints:
        return self._asked_by_jobs(Status.RUNNING)

    @cached_property
    def queue_used(self) -> Ints:
        """Sum of the requests of the running tasks of each queue, (resources x queues)."""
        used = self._of_queues(self._running_at_start)
        for queue, amounts in self._snapshot.standing_in.items():
            used[:, self.queue_index[queue]] += amounts
        return used

    @cached_property
    def queue_leaving(self) -> Ints:
        """Amounts that terminating tasks of each queue still hold, (resources x queues)."""
        return self._of_queues(self._asked_by_jobs(Status.RELEASING))

    @cached_property
    def queue_kept(self) -> Ints:
        """The part of `queue_used` that is only reserved for jobs of each queue, so that no eviction frees it."""
        return np.zeros_like(self.queue_used)

    def held_by_jobs(self) -> Ints:
        """Amounts that running and terminating tasks of each job hold at the start of the cycle, (resources x jobs)."""
        if not self.leaving:
            return self._running_at_start
        return self._running_at_start + self._asked_by_jobs(Status.RELEASING)

    def _asked_by_jobs(self, status: Status) -> Ints:
        """What the tasks of each job that had a status at the start ask for together."""
        snapshot = self._snapshot
        size = len(self._jobs), len(snapshot.axis)
        return np.ascontiguousarray(snapshot.columns.held(status).requests(snapshot.shapes, size).T)

    def _of_queues(self, by_job: Ints) -> Ints:
        """Amounts of jobs added up for their queues."""
        column: Ints = np.array([self.queue_index.get(job.queue, -1) for job in self._jobs], dtype=np.int64)
        by_queue: Ints = np.zeros((len(by_job), len(self.queue_index)), dtype=np.int64)
        np.add.at(by_queue.T, column[column >= 0], by_job.T[column >= 0])
        return by_queue

    def _amounts_at_start(self) -> tuple[Ints, Ints]:
        """What is idle on each node and what is being released there."""
        snapshot = self._snapshot
        used = self._snapshot.used
        if used is not None:
            return self._allocatable - used, np.zeros(self._allocatable.shape, dtype=np.int64)
        idle = snapshot.nodes.allocatable.copy()
        releasing: Ints = np.zeros(idle.shape, dtype=np.int64)
        for tasks in (self._running, self.leaving):
            for r, rows, amounts in held_amounts(snapshot.shapes, tasks):
                np.subtract.at(idle[r], rows, amounts)
                if tasks is self.leaving:
                    np.add.at(releasing[r], rows, amounts)
        self.any_releasing = bool(self.leaving)
        return idle, releasing

    # -- reading

    def disruptions_left(self, budget: str) -> int:
        """How many more of its pods a disruption budget lets go."""
        return int(self.budgets[self.budget_index[budget]])

    def free(self, resources: Ints, rows: Rows, pool: Pool) -> Ints:
        """The free amounts of some resources on some rows, as a new (resources x rows) array."""
        idle = of_rows(self.idle, resources, rows)
        if not self.any_releasing:
            return idle
        later: Ints = idle + of_rows(self.releasing, resources, rows) - of_rows(self.pipelined, resources, rows)
        return later if pool is Pool.FUTURE_IDLE else np.minimum(idle, later)

    def room(self) -> Ints:
        """What is idle or leaving on each node, as a new (resources x rows) array."""
        if self.any_releasing:
            return self.idle + self.releasing
        return self.idle.copy()

    def placed_rows(self, gang: Job | SubJob) -> tuple[Ints, Ints] | None:
        """The rows and counts of a gang's placed tasks (rows may repeat); None if it has none."""
        entries = (
            self._placed(gang) if isinstance(gang, SubJob) else [e for sub in gang.subs for e in self._placed(sub)]
        )
        if not entries:
            return None
        if len(entries) == 1:
            return entries[0]
        return np.concatenate([rows for rows, _ in entries]), np.concatenate([counts for _, counts in entries])

    def placed_span(self, gang: Job | SubJob) -> tuple[int, int] | None:
        """The lowest and the highest row of a gang's placed tasks; None if it has none."""
        if isinstance(gang, SubJob) or gang.subs is not self._jobs[gang.number].subs:
            span = self._span(gang.subs if isinstance(gang, Job) else (gang,))
        else:
            spans = self._spans.setdefault(gang.number, [])
            if not spans:
                self.append(spans, self._span(gang.subs))
            span = spans[-1]
        return span if span != _NOWHERE else None

    def _span(self, subs: Iterable[SubJob]) -> tuple[int, int]:
        entries = []
        for sub in subs:
            for rows, _ in self._placed(sub):
                entries.append(rows)
        if not entries:
            return _NOWHERE
        return min(int(rows.min()) for rows in entries), max(int(rows.max()) for rows in entries)

    def placed_spread(self, job: Job) -> Ints:
        """How many of a job's placed tasks stand below each domain; callers must not write to it."""
        spreads = self._spreads.setdefault(job.number, [])
        if not spreads:
            self.append(spreads, self._topology.spread(*(self.placed_rows(job) or (EMPTY, EMPTY))))
        return spreads[-1]

    def _placed(self, sub: SubJob) -> list[tuple[Ints, Ints]]:
        """The entries of a sub-job; the first is what it held at the start of the cycle."""
        entries = self._placed_rows.get(sub.number)
        if entries is None:
            rows = np.sort(self._rows[sub.held]) if len(sub.held) else sub.held
            entries = [(rows, np.ones(len(rows), dtype=np.int64))] if len(rows) else []
            self._placed_rows[sub.number] = entries
        return entries

    def tally(self, tally: Tally) -> None:
        """Register a tally: it starts with the tasks that hold resources now, and is kept up to date."""
        for number, weight in tally.weights.items():
            self._counting.setdefault(number, []).append((tally, weight))
            if number in self.held:
                buckets = tally.bucket[self.held[number]]
                np.add.at(tally.values, buckets[buckets >= 0], weight)
        self._tallies.append(tally)
        self._count_registered()

    def follow(
        self,
        follower: Follower,
        evicted: Callable[[Ledger, Sequence[Task]], None] | None = None,
        *,
        linger: Counting | None = None,
    ) -> None:
        """Register a follower of all later changes; the tasks at the start of the cycle are in `held`.

        `evicted` is told of tasks that are evicted, by those who must know them one by one; `linger` counts evicted
        tasks as they linger, where that is not the same as if they came again. Both save what they change.
        """
        self._followers.append(_Followed(follower.count, evicted, linger or follower.count))
        self._count_registered()

    def _count_registered(self) -> None:
        self.registered = len(self._tallies), len(self._followers)

    def unregister(self, since: tuple[int, int]) -> None:
        """Remove the tallies and followers that were registered since."""
        for tally in self._tallies[since[0] :]:
            self._expected.pop(id(tally), None)
            for number in tally.weights:
                self._counting[number].pop()
        del self._tallies[since[0] :], self._followers[since[1] :]
        self._count_registered()

    def guard(self, since: tuple[int, int], turned: Callable[[BaseException], Exception]) -> None:
        """Wrap the followers that were registered since, so that what they raise is attributed to their plugin."""
        for i in range(since[1], len(self._followers)):
            count = self._followers[i].count
            evicted = self._followers[i].evicted
            linger = self._followers[i].linger
            guarded_evicted = _guarded(evicted, turned) if evicted is not None else None
            self._followers[i] = _Followed(_guarded(count, turned), guarded_evicted, _guarded(linger, turned))

    def save(self, numbers: Ints, index: _Index) -> None:
        """Save the values at an index of a follower's array before a change, so that a rewind restores them."""
        self._undo.append((numbers, index, numbers[index].copy()))

    def append(self, entries: list[T], entry: T) -> None:
        """Append to a follower's list; a rewind removes the item."""
        self._undo.append((entries, 0, 0))
        entries.append(entry)

    # -- writing, inside a statement

    def place(self, shape: Shape, rows: Ints, counts: Ints, *, pool: Pool) -> None:
        """Place `counts` tasks of a shape on `rows`, which are distinct and ascending."""
        counting = self._counting.get(shape.number)
        self.steps.charge(5 + len(rows) // 64 + (len(counting) // 4 if counting else 0))
        amounts, sign = (self.idle, -1) if pool is Pool.IDLE else (self.pipelined, 1)
        self.any_pipelined |= pool is not Pool.IDLE
        resources = shape.asked[:, None]
        request = shape.request[resources]
        self._add(amounts, (resources, rows), request * (sign * counts))
        domains, numbers = self._topology.touched(rows, counts)
        self._add(self.domain_idle, (resources, domains), request * -numbers)  # Volcano counts pipelined tasks as used
        self._tell(shape, rows, counts)
        if pool is not Pool.IDLE:
            self.expect(shape, rows, counts)
        self.moved.append(rows, only_taken=pool is Pool.IDLE)

    def place_each(self, shapes: Sequence[Shape], row: int) -> None:
        """Place one task of each of these shapes on idle resources of a row: as `place`, for those who do so often."""
        request = shapes[0].request if len(shapes) == 1 else np.add.reduce([shape.request for shape in shapes])
        rows = self._each_row[row : row + 1]
        idle = self.idle[:, row]
        self._undo.append((self.idle, (slice(None), rows), idle[:, None].copy()))
        idle -= request
        around = slice(None), self._topology.chains[self._topology.leaf[row]]
        before = self.domain_idle[around]
        self._undo.append((self.domain_idle, around, before))
        self.domain_idle[around] = before - request[:, None]
        for shape in shapes if self._counting or self._followers else ():
            self._tell(shape, rows, _ONE)
        self.moved.append(rows, only_taken=True)

    def _tell(self, shape: Shape, rows: Ints, counts: Ints) -> None:
        """Tasks of a shape have come to rows, or gone: tallies and followers count them."""
        self._count(shape.number, rows, counts)
        for follower in self._followers:
            follower.count(self, shape, rows, counts)

    def _count(self, number: int, rows: Ints, counts: Ints, *, linger: bool = False) -> None:
        """Add tasks of a shape to the tallies that count it: there may be hundreds, over few kinds of buckets."""
        by_bucket: dict[int, tuple[Ints, Ints]] = {}
        for tally, weight in self._counting.get(number, ()):
            where = by_bucket.get(id(tally.bucket))
            if where is None:
                buckets = tally.bucket[rows]
                inside = buckets >= 0
                where = by_bucket[id(tally.bucket)] = buckets[inside], counts[inside]
            touched, added = where
            values = tally.evicted if linger and tally.evicted is not None else tally.values
            before = values[touched]
            self._undo.append((values, touched, before))
            if len(touched) == 1:
                values[touched] = before + weight * added
            else:
                np.add.at(values, touched, weight * added)  # rows may share a bucket

    def expect(self, shape: Shape, rows: Ints, counts: Ints) -> None:
        """Note that tasks of a shape which are placed, and counted by tallies, will not start in this cycle."""
        for tally, weight in self._counting.get(shape.number, ()):
            expected = self._expected.get(id(tally))
            if expected is None:
                expected = self._expected[id(tally)] = tally.values, np.zeros_like(tally.values)
            buckets = tally.bucket[rows]
            inside = buckets >= 0
            self.save(expected[1], buckets[inside])
            np.add.at(expected[1], buckets[inside], weight * counts[inside])

    @contextmanager
    def as_it_is(self) -> Iterator[None]:
        """Tallies without those who are pipelined, which are not there yet."""
        for values, expected in self._expected.values():
            values -= expected
        try:
            yield
        finally:
            for values, expected in self._expected.values():
                values += expected

    @property
    def expects(self) -> bool:
        """Whether tallies count tasks that are not there yet."""
        return any(expected.any() for _, expected in self._expected.values())

    def count_placed(self, sub: SubJob, pod_set: PodSet, rows: Ints, counts: Ints, *, pool: Pool) -> None:
        """Count placed tasks as ready in their sub-job and role; rows ascend. Those left to backfill were
        counted before.
        """
        placed = 0 if pod_set.backfilled else int(counts.sum())
        is_idle = pool is Pool.IDLE
        self._bump(self.ready if is_idle else self.waiting, sub.number, placed)
        if pod_set.role_number >= 0:
            self._bump(self.role_ready if is_idle else self.role_waiting, pod_set.role_number, placed)
        self._stand(sub, rows, counts)

    def count_each(self, subs: Sequence[SubJob], shape: Shape, rows: Ints) -> None:
        """Count one placed task of each of these sub-jobs as ready, on the row beside it; they are in no role."""
        if not shape.best_effort:
            self._add(self.ready, np.array([sub.number for sub in subs], dtype=np.int64), _ONE)
        undo = self._undo
        placed_rows = self._placed_rows
        spread_subs = {*self._spans, *self._spreads}
        for i, sub in enumerate(subs):
            if sub.number in placed_rows or sub.job_number in spread_subs or len(sub.held):
                self._stand(sub, rows[i : i + 1], _ONE)
            else:  # it was not asked about yet, and there may be thousands
                placed_rows[sub.number] = entries = [(rows[i : i + 1], _ONE)]
                undo.append((entries, 0, 0))

    def _stand(self, sub: SubJob, rows: Ints, counts: Ints) -> None:
        """Remember where tasks of a sub-job stand."""
        self.append(self._placed(sub), (rows, counts))
        spans = self._spans.get(sub.job_number)
        spreads = self._spreads.get(sub.job_number)
        if spans:
            low, high = spans[-1]
            self.append(spans, (min(low, int(rows[0])), max(high, int(rows[-1]))))
        if spreads:
            self._add(spreads[-1], *self._topology.touched(rows, counts))

    def occupy(self, resource: int, rows: Ints, amount: int) -> None:
        """Take so much of a resource on each of these rows for what tasks share; a negative amount comes back."""
        amounts = np.full(len(rows), amount, dtype=np.int64)
        domains, numbers = self._topology.touched(rows, amounts)
        self._add(self.idle, (resource, rows), -amounts)
        self._add(self.domain_idle, (resource, domains), -numbers)
        self.moved.append(rows)

    def vacate(self, resource: int, rows: Ints, amount: int) -> None:
        """Mark an amount of a shared resource on each of these rows as releasing: its last user is terminating."""
        self.any_releasing = True
        self._add(self.releasing, (resource, rows), np.full(len(rows), amount))
        self.moved.append(rows)

    def count_ready(self, sub: SubJob, roles: Iterable[int], by: int) -> None:
        """Count tasks of a sub-job and of some roles as ready; a negative number subtracts them, and frees nothing."""
        self._bump(self.ready, sub.number, by)
        for role in roles:
            self._bump(self.role_ready, role, by)

    def charge(self, job: Job, amounts: Ints) -> None:
        """Add amounts to what a job and its queue use; negative amounts subtract."""
        self._charge(self.job_used, job.number, amounts)
        self.charge_queue(job.queue, amounts)

    def charge_queue(self, queue: str, amounts: Ints) -> None:
        """Add amounts to what a queue uses; negative amounts subtract."""
        self._charge(self.queue_used, self.queue_index.get(queue), amounts)

    def charge_kept(self, job: Job, amounts: Ints) -> None:
        """Add amounts that are kept free for a job, and held by none of its tasks, to what it and its queue use."""
        self.charge(job, amounts)
        self._charge(self.queue_kept, self.queue_index.get(job.queue), amounts)

    def _charge(self, used: Ints, column: int | None, amounts: Ints) -> None:
        """Add amounts to a column, if there is one."""
        if column is not None:
            self.save(used, (slice(None), column))
            used[:, column] += amounts

    def charge_all(self, jobs: Sequence[Job], amounts: Ints) -> None:
        """Add to what each of these jobs uses its column of amounts, or the only one that there is."""
        self._add(self.job_used, (slice(None), np.array([job.number for job in jobs])), amounts)
        columns = np.array([self.queue_index.get(job.queue, -1) for job in jobs])
        in_queues = np.flatnonzero(columns >= 0)
        self._add_up(
            self.queue_used, columns[in_queues], np.broadcast_to(amounts, (len(amounts), len(jobs)))[:, in_queues]
        )

    def await_releases(self) -> None:
        """From now on compare idle with future idle amounts, even if nothing is being released."""
        self.any_releasing = True

    def set_aside(self, shape: Shape, rows: Ints, counts: Ints) -> None:
        """Reserve resources for nominated tasks as if these were pipelined; negative counts release them."""
        self.await_releases()
        self.place(shape, rows, counts, pool=Pool.FUTURE_IDLE)
        if (counts < 0).any():
            self._note_release()

    def reserve(self, request: Ints, row: int, count: int, queue: str) -> None:
        """Reserve so many times these amounts on a row, charged to a queue; a negative count releases them.

        Of tasks that do not exist yet: rules between pods know nothing of them.
        """
        if not count:
            return
        self.any_releasing = self.any_pipelined = True
        resources = np.flatnonzero(request)[:, None]
        rows = np.array([row], dtype=np.int64)
        domains, numbers = self._topology.touched(rows, np.array([count], dtype=np.int64))
        self._add(self.pipelined, (resources, rows), request[resources] * count)
        self._add(self.domain_idle, (resources, domains), request[resources] * -numbers)
        self._charge(self.queue_used, self.queue_index.get(queue), request * count)
        self.moved.append(rows)
        if count < 0:
            self._note_release()

    def count_leaving(self) -> None:
        """Count what terminating tasks hold as used by their queue again, as it is until they have left."""
        if self.queue_leaving.any():
            self.save(self.queue_used, np.arange(len(self.queue_used)))
            self.queue_used += self.queue_leaving

    def evict(self, running: RunningTable, victims: Ints) -> None:
        """Evict running tasks: their resources are being released, and they no longer count for job, queue or role.

        Rules between tasks take them for gone until `linger`: whoever they go for is placed in between.
        """
        self.any_releasing = True
        self._note_release()
        self._release(running, victims, 1)
        self._discount(running, victims)

    def take_back(self, running: RunningTable, victims: Ints) -> None:
        """Take back the eviction of tasks that linger and that nothing counts (`counted`)."""
        self._release(running, victims, -1)

    def counted(self, shape: int) -> bool:
        """Whether tallies or followers may count tasks of a shape, given by its number."""
        return bool(self._counting.get(shape)) or self.followed

    def _release(self, running: RunningTable, victims: Ints, sign: int) -> None:
        """What evicted tasks hold is being released; with a negative sign it is not."""
        freed = sign * running.request[:, victims]
        self._add_up(self.job_used, running.job[victims], -freed)
        column = np.array([self.queue_index.get(self._jobs[job].queue, -1) for job in running.job[victims].tolist()])
        in_queues = np.flatnonzero(column >= 0)
        self._add_up(self.queue_used, column[in_queues], -freed[:, in_queues])
        self._add_up(self.queue_leaving, column[in_queues], freed[:, in_queues])
        less = np.full((1, len(victims)), -sign)
        self._add_up(self.ready[None], running.sub[victims], less)
        roles = running.role[victims]
        self._add_up(self.role_ready[None], roles[roles >= 0], less[:, roles >= 0])
        for victim in victims.tolist():
            for budget in running.tasks[victim].budgets:
                self._bump(self.budgets, self.budget_index[budget], -sign)
        self._add_up(self.releasing, running.row[victims], freed)
        rows = distinct(running.row[victims])
        domains, _ = self._topology.touched(rows, np.ones(len(rows), dtype=np.int64))
        self.save(self.domain_releasing, (slice(None), domains))
        self.domain_releasing[:] = self._topology.all_totals(self.releasing)
        self.moved.append(rows)

    def let_end(self, shape: Shape, rows: Ints, counts: Ints) -> None:
        """Count running tasks of a shape on distinct, ascending rows as gone, to see what is idle without them.

        For trials that are rewound: the counts of jobs, sub-jobs, roles and queues do not change.
        """
        self.place(shape, rows, -counts, pool=Pool.IDLE)
        self.moved.append(rows)  # `place` notes that idle resources were taken, and here they come back

    def go_ahead(self, time: float) -> None:
        """Note that what was to end by a time has ended, in a trial that is rewound."""
        self.append(self._ended, time)

    @property
    def ended(self) -> float:
        """Until when a trial has let end what was to end; minus infinity outside of trials."""
        return self._ended[-1] if self._ended else -inf

    @property
    def releases(self) -> int:
        """A number that is another one whenever capacity was released; where that is undone, the one before."""
        return self._releases[-1]

    def _note_release(self) -> None:
        self._released += 1
        self.append(self._releases, self._released)

    @property
    def followed(self) -> bool:
        """Whether there are followers, whose state `clear` cannot clear."""
        return bool(self._followers)

    def clear(self, to_keep: Sequence[tuple[Shape, Ints]]) -> None:
        """Remove all tasks from the nodes except tasks of these shapes on these rows, which may repeat; a rewind undoes
        it.

        Devices of claims that no running pod uses are free then, too. The counts of jobs, sub-jobs, roles and queues do
        not change.
        """
        rows = np.arange(self.idle.shape[1])
        domains = np.arange(self.domain_idle.shape[1])
        for numbers in (self.idle, self.releasing, self.pipelined):
            self.save(numbers, (slice(None), rows))
        for numbers in (self.domain_idle, self.domain_releasing):
            self.save(numbers, (slice(None), domains))
        tallied = (values for t in self._tallies for values in (t.values, t.evicted) if values is not None)
        for values in (*tallied, *(expected for _, expected in self._expected.values())):
            self.save(values, np.arange(len(values)))
            values[:] = 0
        self.idle[:] = self._allocatable
        for resource, amounts in self._unused.items():
            self.idle[resource] += amounts
        for numbers in (self.releasing, self.pipelined, self.domain_releasing):
            numbers[:] = 0
        for shape, task_rows in to_keep:
            self.idle[shape.asked] -= shape.request[shape.asked, None] * np.bincount(task_rows, minlength=len(rows))
            distinct, counts = np.unique(task_rows, return_counts=True)
            self._count(shape.number, distinct, counts)
        self.domain_idle[:] = np.stack([self._topology.totals(a) for a in np.maximum(self.idle, 0)])
        self.moved.append(rows)

    def _discount(self, running: RunningTable, victims: Ints) -> None:
        """Remove evicted tasks from the tallies."""
        self.append(self._going, (running, victims))
        for shape, rows, counts in self._by_shape(running, victims):
            self._tell(shape, rows, -counts)
        for follower in self._followers:
            if follower.evicted is not None:
                follower.evicted(self, [running.tasks[victim] for victim in victims.tolist()])

    def linger(self) -> None:
        """Rules between tasks see those who were evicted until they are gone, which is not in this cycle."""
        done = self._lingering[-1] if self._lingering else 0
        if done == len(self._going):
            return
        for running, victims in self._going[done:]:
            for shape, rows, counts in self._by_shape(running, victims):
                self._count(shape.number, rows, counts, linger=True)
                for follower in self._followers:
                    follower.linger(self, shape, rows, counts)
            self.moved.append(distinct(running.row[victims]))
        self.append(self._lingering, len(self._going))

    def _by_shape(self, running: RunningTable, victims: Ints) -> Iterator[tuple[Shape, Ints, Ints]]:
        """Running tasks shape by shape, with their rows and how many are on each; nothing where nothing counts."""
        for number in dict.fromkeys(running.shape[victims].tolist()) if self._tallies or self._followers else ():
            of_shape = victims[running.shape[victims] == number]
            yield running.tasks[of_shape[0]].shape, *np.unique(running.row[of_shape], return_counts=True)

    def _add(self, numbers: Ints, index: _Index, by: Ints) -> None:
        before = numbers[index]
        self._undo.append((numbers, index, before))
        numbers[index] = before + by

    def _add_up(self, numbers: Ints, columns: Ints, by: Ints) -> None:
        """Add to columns of an array, which may repeat."""
        self.save(numbers, (slice(None), distinct(columns)))
        for row, amounts in zip(numbers, by, strict=True):
            np.add.at(row, columns, amounts)

    def _bump(self, tally: Ints, index: int, by: int) -> None:
        before = int(tally[index])
        self._undo.append((tally, index, before))
        tally[index] = before + by

    def mark(self) -> int:
        return len(self._undo)

    def rewind(self, mark: int) -> None:
        """Restore every value to what it was at the mark."""
        while len(self._undo) > mark:
            where, index, before = self._undo.pop()
            if isinstance(where, list):
                where.pop()
                continue
            where[index] = before
            if where is self.idle or where is self.pipelined or where is self.releasing:
                self.moved.append(index[1])  # type: ignore[index, arg-type]  # these are indexed (resource, rows)

    def attempt(self, method: Callable[P, T | None], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """The result of a method that writes to this ledger. What it wrote is undone where it returns None."""
        with self.statement() as statement:
            outcome = method(*args, **kwargs)
            if outcome is not None:
                statement.keep()
            return outcome

    def statement(self) -> Statement:
        """A transaction: all changes inside are undone on exit unless they were kept."""
        return Statement(self, len(self._undo))


_READ: Final = frozenset(
    (
        *("idle", "releasing", "pipelined", "domain_idle", "domain_releasing", "domain_allocatable", "budgets"),
        *("ready", "waiting", "role_ready", "role_waiting", "held", "leaving", "job_used", "queue_used"),
        *("queue_kept", "queue_leaving", "queue_index", "any_releasing", "any_pipelined", "releases", "expects"),
        *("followed", "free", "placed_rows", "placed_span", "placed_spread", "counted", "tally", "save", "append"),
    )
)
"""What plugins of other packages may ask a ledger for; `save` and `append` are for arrays and lists of their own."""


class ShownLedger:
    """A ledger for plugins of other packages: always current, and read-only.

    What they get is what the ledger has, but for arrays, which they cannot write to. They may register tallies and
    followers, which get this one as well.
    """

    __slots__ = ("_ledger",)

    def __init__(self, ledger: Ledger) -> None:
        object.__setattr__(self, "_ledger", ledger)

    def __getattr__(self, name: str) -> Any:
        if name not in _READ:
            raise AttributeError(f"a plugin may read the ledger, and not use its {name}")
        return _read_only(getattr(self._ledger, name))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a plugin may read the ledger, and not set its {name}")

    def follow(
        self,
        follower: Follower,
        evicted: Callable[[Ledger, Sequence[Task]], None] | None = None,
        *,
        linger: Counting | None = None,
    ) -> None:
        """As `Ledger.follow`."""
        count = self._told(follower.count)
        shown_evicted = self._told(evicted) if evicted is not None else None
        followed = _Followed(count, shown_evicted, self._told(linger) if linger is not None else count)
        self._ledger.follow(followed, shown_evicted, linger=followed.linger)

    def _told(self, call: Callable[..., None]) -> Callable[..., None]:
        return lambda _, *arguments: call(self, *arguments)


def _read_only(value: object) -> object:
    if isinstance(value, np.ndarray):
        value = value.view()
        value.setflags(write=False)
    elif isinstance(value, dict):
        return MappingProxyType({key: _read_only(entry) for key, entry in value.items()})
    return value


class Statement(msgspec.Struct):
    """A part of the undo log that is kept or undone as a whole."""

    ledger: Ledger
    mark: int
    kept: bool = False

    def __enter__(self) -> Statement:
        return self

    def __exit__(self, *raised: object) -> None:
        if not self.kept:
            self.ledger.rewind(self.mark)

    def keep(self) -> None:
        self.kept = True

    def rewind(self) -> None:
        self.ledger.rewind(self.mark)


# Whether a job meets its minimums, from the ledger's counts.
#
# Ready counts tasks that run, have succeeded or were placed in this cycle, and pending best-effort ones;
# `waiting=True` counts tasks pipelined onto releasing resources as well.


def ready_tasks(ledger: Ledger, sub: SubJob, *, waiting: bool = False) -> int:
    """How many tasks of a sub-job are ready."""
    ready = int(ledger.ready[sub.number])
    if waiting:
        return ready + int(ledger.waiting[sub.number])
    return ready


def sub_ready(ledger: Ledger, sub: SubJob, *, waiting: bool = False) -> bool:
    """Whether a sub-job has reached its minimum."""
    return ready_tasks(ledger, sub, waiting=waiting) >= sub.minimum


def stands_in_part(ledger: Ledger, job: Job) -> bool:
    """Whether tasks of a job run that are of little use without others, which it lacks for a minimum.

    The minimum is that of the job, or of a sub-job or inner group of which a part runs.
    """
    begun = [sub for sub in job.subs if len(sub.held)]
    return bool(begun) and (not job_ready(ledger, job) or bool(halves(ledger, job, begun)))


def halves(ledger: Ledger, job: Job, begun: Collection[SubJob]) -> list[tuple[SubJob, ...]]:
    """The units of a job, each by its sub-jobs, that are whole or of no use, and of which only a part runs.

    `begun` are sub-jobs of which tasks stand. A unit is the sub-job itself, or the largest inner group around it that
    is not whole: what runs in it is of no use either.
    """
    if not job.shape.parted or job.satisfied:
        return []
    shape = job.shape
    lacking = lacking_of(ledger, job)
    units: dict[int | str, tuple[SubJob, ...]] = {}
    for sub in begun:
        groups = list(around(shape, sub.inner_group))
        broken = next((number for number in reversed(groups) if lacking[number][0] > 0), -1)
        if broken >= 0:
            units[broken] = tuple([member for member in job.subs if broken in around(shape, member.inner_group)])
        elif not sub_ready(ledger, sub):
            units[sub.key] = (sub,)
    return list(units.values())


def lacking_of(ledger: Ledger, job: Job, *, waiting: bool = False) -> list[list[int]]:
    """What every group of a job's shape lacks, see `model.gang.lacking`; not to be changed by who asks.

    It is kept, and found out anew where other numbers of tasks count.
    """
    shape = job.shape
    first_sub = job.subs[0].number if job.subs else 0
    count = len(job.subs)
    roles = list(job.counted_roles) if shape.roles else []
    ready = ledger.ready[first_sub : first_sub + count]  # sub-jobs of a job have consecutive numbers
    by_role = ledger.role_ready[roles] if roles else EMPTY
    if waiting:
        ready = ready + ledger.waiting[first_sub : first_sub + count]
        by_role = by_role + ledger.role_waiting[roles] if roles else EMPTY
    counts = ready.tobytes(), by_role.tobytes()
    entry = ledger.lacking.get(job.number)
    if entry is None or entry[0] is not shape or entry[1] != counts:
        entry = shape, counts, lacking(shape, ready.tolist(), by_role.tolist())
        ledger.lacking[job.number] = entry
    return entry[2]


def job_ready(ledger: Ledger, job: Job, *, waiting: bool = False) -> bool:
    """Whether every minimum of the job is met, or was met once where that is enough."""
    if job.satisfied:
        return True
    if not job.subs:  # its pods do not exist yet
        return False
    if job.shape.only_pods:
        return ready_tasks(ledger, job.subs[0], waiting=waiting) >= job.minimum
    return max(lacking_of(ledger, job, waiting=waiting)[0]) <= 0


def size_of(ledger: Ledger, job: Job) -> Size | None:
    """The lack of a gang that is a number of pods of one shape, none of which is placed; None for all others."""
    if not job.subs or len(job.subs[0].pod_sets) != 1:
        return None
    if job.shape.parted:
        return _size_of_parts(ledger, job)
    (sub,) = job.subs
    (pod_set,) = sub.pod_sets
    if ledger.placed_rows(sub) is not None:
        return None
    pods = job.minimum - int(ledger.ready[sub.number])
    for role, minimum in job.counted_roles.items():
        if role != pod_set.role_number:
            return None
        pods = max(pods, minimum - int(ledger.role_ready[role]))
    return Size(pod_set.shape, pods)


def _size_of_parts(ledger: Ledger, job: Job) -> Size | None:
    """The size of a gang whose sub-groups are alike and all needed, and none of which has begun."""
    part = job.shape.one_part
    minimums = job.shape.groups[0].least
    if part is None or part.whole is None or part.apart or part.size <= 0 or len(minimums) > 2:
        return None
    count = len(job.subs)
    pods, parts = minimums
    if max(-(-pods // part.size), parts) != count:
        return None
    first_sub = job.subs[0]
    numbers = slice(first_sub.number, first_sub.number + count)
    if ledger.ready[numbers].any() or ledger.waiting[numbers].any():
        return None
    shape = first_sub.pod_sets[0].shape
    for sub in job.subs:
        if len(sub.pod_sets) != 1 or sub.pod_sets[0].shape is not shape or len(sub.pod_sets[0].tasks) != part.size:
            return None
    return Size(shape, count * part.size, part.size)
