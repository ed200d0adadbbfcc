"""The journal: whatever is done to a ledger, rewinding restores every number, and rooms keep up with it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from tests.support.depth import examples
from tests.support.draw import draw, gang, objects_of
from tests.support.strategies import Scene, scenes

from tierwise.config.profile import DEFAULT
from tierwise.framework.cycle import Cycle, FitCount
from tierwise.framework.ledger import Ledger, Pool, Tally
from tierwise.model.held import rows_by_shape
from tierwise.model.job import Status
from tierwise.model.running import RunningTable, running_table
from tierwise.scheduler import open_cycle
from tierwise.snapshot.builder import build

_ARRAYS = (
    *("idle", "releasing", "pipelined", "domain_allocatable", "domain_idle", "domain_releasing"),
    *("ready", "waiting", "role_ready", "role_waiting", "queue_used", "job_used"),
)


def _open(scene: Scene) -> Cycle:
    return open_cycle(build(objects_of(scene.world, *scene.gangs), now=0.0), DEFAULT)


@given(scenes())
def test_tasks_counted_at_once_are_those_counted_job_by_job(scene: Scene) -> None:
    """What jobs and queues use, and who stands where, as a list of tasks would give it."""
    snapshot = build(objects_of(scene.world, *scene.gangs), now=0.0)
    ledger = Ledger(snapshot)
    held: dict[int, list[int]] = {}
    for job in snapshot.jobs:
        used = np.zeros(len(snapshot.axis), dtype=np.int64)
        for number, rows in rows_by_shape(snapshot.nodes, job.tasks, Status.RUNNING).items():
            used += snapshot.shapes[number].request * len(rows)
        assert used.tolist() == ledger.job_used[:, job.number].tolist()
    for status in (Status.RUNNING, Status.RELEASING):
        for tasks in (*(job.tasks for job in snapshot.jobs), snapshot.others):
            for number, rows in rows_by_shape(snapshot.nodes, tasks, status).items():
                held.setdefault(number, []).extend(rows.tolist())
    queued = [job for job in snapshot.jobs if job.queue in ledger.queue_index]
    by_queue = {
        name: sum(ledger.job_used[:, j.number].sum() for j in queued if j.queue == name) for name in snapshot.queues
    }

    assert held == {number: rows.tolist() for number, rows in ledger.held.items()}
    assert by_queue == {name: ledger.queue_used[:, i].sum() for name, i in ledger.queue_index.items()}


class Hands:
    """Does random things to a ledger, and remembers what there is to compare."""

    def __init__(self, cycle: Cycle, data: DataObject) -> None:
        self.cycle = cycle
        self._data = data
        self._running: RunningTable = running_table(cycle.snapshot)
        self._evicted: set[int] = set()
        rows = len(cycle.nodes)
        shapes = range(len(cycle.snapshot.shapes))
        by_leaf = Tally(np.zeros(len(cycle.topology), dtype=np.int64), cycle.topology.leaf, {n: n + 1 for n in shapes})
        buckets = np.arange(rows) % 3 - 1  # every third row counts nowhere
        thirds = Tally(np.zeros(2, dtype=np.int64), buckets, {n: 1 for n in shapes if n % 2})
        self._tallies = (by_leaf, thirds)
        for tally in self._tallies:
            cycle.ledger.tally(tally)

    def state(self) -> list[object]:
        """Every number of the ledger, byte by byte."""
        ledger = self.cycle.ledger
        arrays = [getattr(ledger, name).tobytes() for name in _ARRAYS]
        stands = [ledger.placed_rows(sub) for job in self.cycle.snapshot.jobs for sub in job.subs]
        return [
            *arrays,
            *(tally.values.tobytes() for tally in self._tallies),
            *((s[0].tolist(), s[1].tolist()) if s is not None else None for s in stands),
        ]

    def act(self) -> None:
        """One of the things that statements do."""
        actions: list[Callable[[], None]] = [self._take, self._stand, self._charge, self._evict]
        self._data.draw(st.sampled_from(actions))()

    def _rows(self) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
        rows = sorted(self._data.draw(st.sets(st.integers(0, len(self.cycle.nodes) - 1), min_size=1, max_size=4)))
        counts = [self._data.draw(st.integers(1, 3)) for _ in rows]
        return np.array(rows, dtype=np.int64), np.array(counts, dtype=np.int64)

    def _pool(self) -> Pool:
        """Nothing is pipelined before something is being released."""
        return self._data.draw(st.sampled_from(tuple(Pool) if self.cycle.ledger.any_releasing else (Pool.IDLE,)))

    def _take(self) -> None:
        if self.cycle.snapshot.shapes:
            shape = self._data.draw(st.sampled_from(self.cycle.snapshot.shapes))
            self.cycle.ledger.place(shape, *self._rows(), pool=self._pool())

    def _stand(self) -> None:
        pod_sets = [(sub, pod_set) for job in self.cycle.snapshot.jobs for sub in job.subs for pod_set in sub.pod_sets]
        if pod_sets:
            sub, pod_set = self._data.draw(st.sampled_from(pod_sets))
            self.cycle.ledger.count_placed(sub, pod_set, *self._rows(), pool=self._pool())

    def _charge(self) -> None:
        job = self._data.draw(st.sampled_from(self.cycle.snapshot.jobs))
        self.cycle.ledger.charge(job, np.arange(len(self.cycle.view.axis)) - 1)

    def _evict(self) -> None:
        left = sorted(set(range(len(self._running))) - self._evicted)
        if left:
            victims = sorted(self._data.draw(st.sets(st.sampled_from(left), min_size=1)))
            self._evicted.update(victims)
            self.cycle.ledger.evict(self._running, np.array(victims))


@given(scenes(gangs=3), st.data())
def test_rewind_restores_every_byte(scene: Scene, data: DataObject) -> None:
    """Going back to any mark gives the numbers of that moment, whatever happened since, marks within marks."""
    hands = Hands(_open(scene), data)
    ledger = hands.cycle.ledger
    marks = [(ledger.mark(), hands.state())]
    for step in data.draw(st.lists(st.sampled_from(("act", "act", "mark", "rewind")), max_size=12)):
        if step == "act":
            hands.act()
        elif step == "mark":
            marks.append((ledger.mark(), hands.state()))
        else:
            mark, before = marks.pop() if len(marks) > 1 else marks[0]
            ledger.rewind(mark)
            assert before == hands.state()
    ledger.rewind(marks[0][0])

    assert marks[0][1] == hands.state()


@examples(10)
@given(scenes(gangs=3), st.data())
def test_where_a_job_stands_equals_its_sub_jobs(scene: Scene, data: DataObject) -> None:
    """A job's first and last row and its tasks by domain, which are kept, equal those counted anew from sub-jobs."""
    hands = Hands(_open(scene), data)
    ledger, topology = hands.cycle.ledger, hands.cycle.topology
    marks = [ledger.mark()]
    for step in data.draw(st.lists(st.sampled_from(("act", "act", "act", "mark", "rewind")), min_size=6, max_size=12)):
        if step == "act":
            hands.act()
        elif step == "mark":
            marks.append(ledger.mark())
        else:
            ledger.rewind(marks.pop() if len(marks) > 1 else marks[0])
        for job in hands.cycle.snapshot.jobs if data.draw(st.booleans()) else ():  # or something is asked for late
            placed = [p for p in map(ledger.placed_rows, job.subs) if p is not None]
            rows = np.concatenate([np.zeros(0, dtype=np.int64), *(rows for rows, _ in placed)])
            counts = np.concatenate([np.zeros(0, dtype=np.int64), *(counts for _, counts in placed)])
            assert ledger.placed_span(job) == ((rows.min(), rows.max()) if len(rows) else None)
            assert ledger.placed_spread(job).tolist() == topology.spread(rows, counts).tolist()


def test_where_a_job_stands_follows_what_is_placed() -> None:
    """The first and the last row of all its tasks so far, and how many stand in each rack; a rewind takes both back."""
    cycle = open_cycle(build(objects_of(draw("s0: r0[n0 n1] r1[n2 n3]"), gang("train", tasks=4)), now=0.0), DEFAULT)
    (job,) = cycle.snapshot.jobs
    (sub,) = job.subs
    ledger, racks = cycle.ledger, [cycle.topology.index[name] for name in ("r0", "r1")]
    seen = []
    with ledger.statement():
        for row in (1, 3, 2):
            ledger.count_placed(sub, sub.pod_sets[0], np.array([row]), np.array([1]), pool=Pool.IDLE)
            seen.append((ledger.placed_span(job), ledger.placed_spread(job)[racks].tolist()))

    assert [((1, 1), [1, 0]), ((1, 3), [1, 1]), ((1, 3), [1, 2])] == seen
    assert ledger.placed_span(job) is None
    assert [0, 0] == ledger.placed_spread(job)[racks].tolist()


@given(scenes(gangs=3), st.data(), st.booleans())
def test_a_statement_is_kept_or_undone(scene: Scene, data: DataObject, keep: bool) -> None:
    """Leaving a statement undoes what happened in it unless it was kept; what was kept goes with the outer one."""
    hands = Hands(_open(scene), data)
    before = hands.state()
    with hands.cycle.ledger.statement():
        hands.act()
        middle = hands.state()
        with hands.cycle.ledger.statement() as inner:
            hands.act()
            after = hands.state()
            if keep:
                inner.keep()
        assert hands.state() == (after if keep else middle)

    assert before == hands.state()


def test_a_statement_is_undone_when_something_goes_wrong() -> None:
    """An exception that leaves a statement leaves no trace in the ledger."""
    cycle = open_cycle(build(objects_of(draw("r0[n0]"), gang("train", tasks=1)), now=0.0), DEFAULT)
    before = cycle.ledger.idle.tobytes()

    def fail() -> None:
        with cycle.ledger.statement():
            cycle.ledger.place(cycle.snapshot.shapes[0], np.array([0]), np.array([1]), pool=Pool.IDLE)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert before == cycle.ledger.idle.tobytes()


def _same(kept: FitCount, fresh: FitCount) -> None:
    for pool in Pool:
        assert fresh.rows(pool).tolist() == kept.rows(pool).tolist()
        assert fresh.domains(pool).tolist() == kept.domains(pool).tolist()


def _naive(ledger: Ledger, cycle: Cycle, number: int, pool: Pool) -> list[int]:
    """Room per row, resource by resource in plain integers."""
    shape = cycle.snapshot.shapes[number]
    result = []
    for row, why in enumerate(cycle.pipeline.why_not(shape).tolist()):
        least = 2**62
        for r in shape.asked.tolist():
            idle = int(ledger.idle[r, row])
            later = idle + int(ledger.releasing[r, row]) - int(ledger.pipelined[r, row])
            least = min(least, (later if pool is Pool.FUTURE_IDLE else min(idle, later)) // int(shape.request[r]))
        result.append(0 if why else max(0, least))
    return result


@given(scenes(gangs=3), st.data())
def test_rooms_keep_up_with_the_ledger(scene: Scene, data: DataObject) -> None:
    """A room kept current from move to move equals one measured anew, per node and per domain, now and later."""
    hands = Hands(_open(scene), data)
    cycle = hands.cycle
    marks = [cycle.ledger.mark()]
    for shape in cycle.snapshot.shapes:
        cycle.fit_counts.of(shape)
    for step in data.draw(st.lists(st.sampled_from(("act", "act", "mark", "rewind", "look")), max_size=10)):
        if step == "act":
            hands.act()
        elif step == "mark":
            marks.append(cycle.ledger.mark())
        elif step == "rewind":
            cycle.ledger.rewind(marks.pop() if len(marks) > 1 else marks[0])
        elif cycle.snapshot.shapes:
            cycle.fit_counts.of(data.draw(st.sampled_from(cycle.snapshot.shapes)))
    for shape in cycle.snapshot.shapes:
        kept = cycle.fit_counts.of(shape)
        _same(kept, FitCount(shape, cycle.pipeline.why_not(shape), cycle.ledger, cycle.topology))
        for pool in Pool if cycle.ledger.any_releasing else (Pool.IDLE,):
            assert _naive(cycle.ledger, cycle, shape.number, pool) == kept.rows(pool).tolist()


@given(scenes(), st.lists(st.one_of(st.tuples(st.integers(0, 20), st.integers(-3, 3)), st.integers(0, 6)), max_size=12))
@examples(20)
def test_sums_that_are_asked_for_late_are_those_kept_from_the_start(
    scene: Scene, steps: list[tuple[int, int] | int]
) -> None:
    """Charges and rewinds before and after somebody asks what jobs and queues use lead to the same sums."""
    snapshot = build(objects_of(scene.world, *scene.gangs), now=0.0)
    early, late = Ledger(snapshot), Ledger(snapshot)
    kept = early.job_used, early.queue_used
    for step in steps:
        for ledger in (early, late):
            if isinstance(step, int):
                ledger.rewind(min(step, ledger.mark()))
            elif snapshot.jobs:
                job, times = snapshot.jobs[step[0] % len(snapshot.jobs)], step[1]
                ledger.charge(job, times * np.arange(1, len(snapshot.axis) + 1))
                if step[0] == 7:
                    _ = late.queue_used  # from now on it is kept
        assert early.mark() == late.mark()

    assert [sums.tolist() for sums in kept] == [late.job_used.tolist(), late.queue_used.tolist()]
    for ledger in (early, late):
        ledger.rewind(ledger.mark() // 2)
    assert [sums.tolist() for sums in kept] == [late.job_used.tolist(), late.queue_used.tolist()]
