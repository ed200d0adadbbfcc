"""Reservations over time: backfill never delays one, no large gang starves, and EASY starts what FIFO starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.depth import size
from tests.support.draw import draw, gang
from tests.support.sight import cycle, saw, sees

from tierwise.actions.placement.demand import Demand
from tierwise.actions.reservations import Reservations
from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.api.eviction_terms import EXPECTED_DURATION
from tierwise.api.ladder import LADDER
from tierwise.config.profile import DEFAULT, Profile
from tierwise.config.reservations import CONSERVATIVE
from tierwise.framework.report import CycleReport
from tierwise.model.job import Job
from tierwise.model.snapshot import Snapshot
from tierwise.port import Create, Effect, Objects
from tierwise.sim.cluster.simulation import Simulation
from tierwise_lab.replay.engine.cluster import ReplayEvent
from tierwise_lab.replay.engine.contenders import BUILT_IN
from tierwise_lab.replay.engine.engine import Engine
from tierwise_lab.replay.engine.rules import Rules
from tierwise_lab.replay.traces.synthetic import synthetic_fabric, synthetic_trace
from tierwise_lab.replay.traces.trace import Trace, sorted_trace

START = 1_000_000.0
CLUSTER = draw("s0[r0[n0 n1] r1[n2 n3]]", node="gpu=4")


def profile(mode: str) -> Profile:
    """The default one with reservations for gangs of any size."""
    return replace(DEFAULT, action_arguments={"allocate": {"reservations": mode, "reservationPods": 1}})


Drawn = tuple[int, int, int, int, bool]
"""Arrival in tens of seconds, pods, GPUs of each, duration in tens of seconds, whether confined to a rack."""

JOBS = st.lists(
    st.tuples(st.integers(0, 12), st.integers(1, 4), st.integers(1, 4), st.integers(1, 9), st.booleans()),
    min_size=3,
    max_size=9,
)


class Submitter:
    """Submits gangs when their time comes; they state their true durations."""

    def __init__(self, jobs: Sequence[Drawn], ladders: Sequence[str] = ("",)) -> None:
        self._ladders = ladders
        self._ahead = sorted(((10.0 * job[0], i, job) for i, job in enumerate(jobs)), reverse=True)

    def act(self, objects: Objects, now: float) -> Sequence[Effect]:
        """What arrives now."""
        found: list[Effect] = []
        while self._ahead and START + self._ahead[-1][0] <= now:
            _, number, (_, pods, gpus, lasts, close) = self._ahead.pop()
            limit = 1 if close and pods <= 2 else None
            for raw in gang(f"j{number}", tasks=pods, each=f"gpu={gpus}", within=limit).manifests():
                found.append(Create(_timed(raw, now, f"{10 * lasts}s", self._ladders[number % len(self._ladders)])))
        return found

    def due(self) -> float | None:
        """The next arrival."""
        return START + self._ahead[-1][0] if self._ahead else None


def _timed(raw: Raw, now: float, lasts: str, ladder: str) -> Raw:
    metadata = raw["metadata"]
    assert isinstance(metadata, dict)
    marks = {
        **metadata.get("annotations", {}),
        **({LADDER: ladder} if ladder else {}),
        "tierwise.io/run-for": lasts,
        "tierwise.io/start-after": "0s",
        EXPECTED_DURATION: lasts,
    }
    spec = raw["spec"]
    assert isinstance(spec, dict)
    more = {"restartPolicy": "Never"} if raw["kind"] == "Pod" else {}
    stamp = format_time(now)
    return {
        **raw,
        "metadata": {**metadata, "annotations": marks, "creationTimestamp": stamp},
        "spec": {**spec, **more},
    }


def lived(
    jobs: Sequence[Drawn], given_profile: Profile, ladders: Sequence[str] = ("",)
) -> list[tuple[Snapshot, CycleReport]]:
    """Every cycle of a cluster on which these jobs arrive."""
    seen: list[tuple[Snapshot, CycleReport]] = []
    objects = Objects.of((codec.decode(raw), raw) for raw in CLUSTER.manifests)
    cluster = Simulation(
        objects,
        given_profile,
        start=START,
        user=Submitter(jobs, ladders),
        observe=lambda snapshot, report, _: seen.append((snapshot, report)),
    )
    for _ in cluster.run(100_000.0):
        pass
    saw(reservations=sum(len(report.reservations) for _, report in seen))
    return seen


STARTED_TOGETHER: list[Drawn] = [
    (3, 4, 2, 6, True),
    (3, 4, 2, 3, True),
    (4, 4, 4, 5, True),
    (4, 4, 2, 6, True),
    (3, 1, 2, 7, True),
    (3, 2, 2, 2, False),
    (2, 4, 4, 1, False),
]
"""A gang that waits for jobs which start in the same cycle as it is refused."""


@sees(reservations=10)
@given(jobs=JOBS)
@example(jobs=STARTED_TOGETHER)
@settings(max_examples=size(8, 400))
def test_a_reservation_never_becomes_later(jobs: list[Drawn]) -> None:
    """With true durations, the first waiting gang starts when it was first promised to, or before."""
    promised: dict[str, float] = {}
    for snapshot, report in lived(jobs, profile("easy")):
        for reservation in report.reservations:
            key = reservation.job.key
            assert reservation.start <= promised.get(key, reservation.start), key
            promised[key] = min(promised.get(key, reservation.start), reservation.start)
        for decision in report.decisions:
            assert snapshot.now <= promised.get(decision.job.key, snapshot.now), decision.job.key


def _in_order(reservations: Any, job: Job, asked: Demand, again: float) -> tuple[int, float] | None:
    """The first moment at which a job finds a place beside the reservations: each is tried, and nothing is counted."""
    looks = [again]
    tried: set[tuple[int, float]] = set()
    while ahead := [moment for moment in reservations._moments(job, looks) if moment not in tried]:
        moment: tuple[int, float] = ahead[0]
        tried.add(moment)
        found = reservations._trial(job, asked, *moment)
        if isinstance(found, tuple):
            return moment
        if found is not None:
            looks.append(found.until)
    return None


@sees(reservations=10)
@given(
    jobs=JOBS,
    ladders=st.permutations(["", "1=60s,any", "1=30s,2=90s,any"]),
    mode=st.sampled_from(["easy", CONSERVATIVE]),
)
@settings(max_examples=size(8, 300))
def test_no_moment_is_passed_over_at_which_there_is_a_place(jobs: list[Drawn], ladders: list[str], mode: str) -> None:
    """Also where a gang declines places by its ladder, and where a place is free after another's reservation."""
    earliest = Reservations._earliest

    def checked(reservations: Reservations, job: Job, asked: Demand, again: float) -> Any:
        found = earliest(reservations, job, asked, again)
        assert (found and (found.group, found.time)) == _in_order(reservations, job, asked, again)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Reservations, "_earliest", checked)
        lived(jobs, profile(mode), ladders)


@sees(reservations=10)
@given(jobs=JOBS)
@settings(max_examples=size(5, 300))
def test_a_plan_never_asks_for_more_than_there_is(jobs: list[Drawn]) -> None:
    """At the start of each reservation its nodes have room, whatever was started, and beside those before it."""
    for snapshot, report in lived(jobs, profile("conservative")):
        held = [(r.start, r.end, r.held) for r in report.reservations]
        for start, _, own in held:
            free = snapshot.nodes.allocatable.copy()
            for job in snapshot.jobs:
                for task in job.tasks:
                    running = task.node >= 0 and task.status.value == "Running"
                    if running and job.terms is not None and task.started + job.terms.expected > start:
                        free[:, snapshot.nodes.rows[task.node]] -= task.shape.request
            for decision in report.decisions:
                assert decision.job.terms is not None
                if snapshot.now + decision.job.terms.expected > start:
                    for placed in decision.placed:
                        for task, row in zip(placed.tasks, placed.rows.tolist(), strict=True):
                            free[:, row] -= task.shape.request
            for other_start, other_end, other in held:
                if other is own or other_start <= start < other_end:
                    for shape, rows, counts in other:
                        free[:, rows] -= shape.request[:, None] * counts
            assert (free >= 0).all()


def fifo(report: CycleReport, snapshot: Snapshot) -> set[str]:
    """Who is served before the first one that waits."""
    waiting = sorted(
        (job for job in snapshot.jobs if any(task.status.value == "Pending" for task in job.tasks)),
        key=lambda job: (job.created, job.order),
    )
    found = set()
    for job in waiting:
        if job.key in report.rejections:
            break
        found.add(job.key)
    return found


@sees(decisions=12, refusals=14)
@given(jobs=JOBS)
@settings(max_examples=size(5, 300))
def test_easy_starts_what_fifo_starts(jobs: list[Drawn]) -> None:
    """In every cycle the jobs before the first one that has to wait start under EASY as they do without."""
    for snapshot, report in lived(jobs, profile("easy")):
        started = {decision.job.key for decision in report.decisions}
        without = cycle(snapshot, DEFAULT)
        assert fifo(without, snapshot) <= started


def stream(large: int, small: int) -> Trace:
    """Small jobs without an end, two at a time on every node, and a gang of the whole cluster among them."""
    arrivals = [20.0 * i for i in range(small)] + [55.0]
    durations = [100.0 + 7 * (i % 5) for i in range(small)] + [50.0]
    gpus = [1 + i % 2 for i in range(small)] + [large]
    count = len(arrivals)
    return sorted_trace(
        "stream",
        np.array(arrivals),
        np.array(durations),
        np.array(gpus, dtype=np.int64),
        np.zeros(count, dtype=np.int64),
        ["default"] * count,
    )


def waited(mode: str, durations: str, further: Mapping[str, object] | None = None) -> tuple[float, float]:
    """How long the large gang of a stream waits, and when the last small job has arrived."""
    trace, contender = stream(8, 60), BUILT_IN[mode](1)
    arguments = {"allocate": {**contender.profile.action_arguments.get("allocate", {}), **(further or {})}}
    engine = Engine(
        synthetic_fabric("synthetic:spines=1,leaves=2,hosts=2", 2),
        trace,
        replace(contender, profile=replace(contender.profile, action_arguments=arguments)),
        Rules(period=0.0, durations=durations),
    )
    for _ in engine.run():
        pass
    return float(engine.state.waited[int(trace.gpus.argmax())]), trace.span


def test_no_large_gang_starves() -> None:
    """It waits for about one generation of small jobs, where nothing is known by aging; without, until they stop."""
    aging = {"reservationAging": "1m"}
    for mode, durations in (("easy", "stated"), ("easy", "history"), ("conservative", "stated")):
        assert waited(mode, durations)[0] < 400.0, (mode, durations)
    assert waited("easy", "unknown", aging)[0] < 400.0

    without, span = waited("default", "stated")
    assert without > span - 100.0  # or the test shows nothing


def played(*, one_by_one: bool) -> list[ReplayEvent]:
    """What happens in an overloaded replay in which everybody who waits has a reservation."""
    fabric = synthetic_fabric("spines=2,leaves=2,hosts=2", 8)
    trace = synthetic_trace("jobs=40,gap=20,largest=64", 3).at_load(1.4, fabric.gpus)
    engine = Engine(fabric, trace, BUILT_IN["conservative"](1), Rules())
    vars(engine)["_one_by_one"] = one_by_one
    log = engine.record()
    for _ in engine.run():
        pass
    return log


def test_counting_and_standing_jobs_change_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay is the same where who runs is told job by job, and where every moment is searched instead of counted."""
    found = played(one_by_one=False)
    assert found == played(one_by_one=True)
    ruled_out, count = [], Reservations._may_fit

    def searched(*asked: Any, **beside: Any) -> bool:
        ruled_out.append(not count(*asked, **beside))
        return True

    monkeypatch.setattr(Reservations, "_may_fit", searched)
    assert found == played(one_by_one=False)
    assert any(ruled_out)  # or the test shows nothing
