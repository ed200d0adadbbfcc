"""Replays obey conservation laws, repeat themselves byte for byte, and go on from a checkpoint as if never stopped."""

from __future__ import annotations

import json
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.depth import examples

from tierwise.api.errors import InputError
from tierwise.config.profile import DEFAULT, PluginChoice
from tierwise.explain.usage import held
from tierwise.framework.ledger import Ledger
from tierwise.model.held import rows_by_shape
from tierwise.model.job import Status
from tierwise.sim.cluster.agenda import NodeBack, NodeLost
from tierwise_lab.bench.worlds import GPU, cluster, jobs, snapshot
from tierwise_lab.replay.engine.checkpoint import load, save
from tierwise_lab.replay.engine.contenders import BUILT_IN, Contender
from tierwise_lab.replay.engine.engine import Engine
from tierwise_lab.replay.engine.rules import Rules, draw
from tierwise_lab.replay.engine.run import Comparison
from tierwise_lab.replay.report.outcome import outcome
from tierwise_lab.replay.report.spread import Spreads
from tierwise_lab.replay.traces.synthetic import synthetic_fabric, synthetic_trace
from tierwise_lab.replay.traces.trace import Trace, split

FABRIC = synthetic_fabric("synthetic:spines=2,leaves=2,hosts=3", 8)
PREEMPTING = Contender("preempting", replace(DEFAULT, actions=("enqueue", "allocate", "gangpreempt")))
HASTY = PluginChoice("patience", {"ladder": "1=20m"})
OTHERS = tuple(plugin for plugin in DEFAULT.tiers[1] if plugin.name != "patience")
PATIENT = Contender("patient", replace(DEFAULT, tiers=(DEFAULT.tiers[0], (*OTHERS, HASTY))))


def contender(name: str) -> Contender:
    """A contender by name, the one that evicts and the one that waits included."""
    return {"preempting": PREEMPTING, "patient": PATIENT}.get(name) or BUILT_IN[name](1)


def check(engine: Engine) -> None:
    """What holds at every moment."""
    state, trace = engine.state, engine.trace
    finished = set(state.finished().tolist())
    groups = [finished, set(state.running), set(state.repairing), state.waiting, set(state.refused)]
    assert sum(map(len, groups)) == state.arrived == len(set().union(*groups))
    taken = np.zeros(len(FABRIC.nodes), dtype=int)
    for job, rows in [*((job, rows) for job, (_, rows) in state.running.items()), *state.repairing.items()]:
        assert (job in state.repairing) == (-1 in rows)
        assert not state.down.intersection(rows)
        left = int(trace.gpus[job])
        for row in rows:
            taken[row] += min(left, 8) if row >= 0 else 0
            left -= 8
    assert (taken <= 8).all()
    working = sum((state.clock - start) * int(trace.gpus[job]) for job, (start, _) in state.running.items())
    if state.clock <= trace.span:
        assert state.window_worked == pytest.approx(state.held - state.halted, rel=1e-9, abs=1e-3)
    known = state.useful + float(state.lost.sum()) + working + state.halted
    assert known == pytest.approx(state.held, rel=1e-9, abs=1e-3)


@examples(12)
@given(
    name=st.sampled_from(["default", "propose", "best-fit", "random", "preempting", "patient", "repair", "spares"]),
    seed=st.integers(0, 10**6),
    period=st.sampled_from([0.0, 7.0, 300.0]),
    failing=st.booleans(),
)
def test_every_job_is_somewhere_and_gpu_hours_add_up(name: str, seed: int, period: float, failing: bool) -> None:
    """Whatever fails and whoever evicts; and all work is done in the end."""
    trace = synthetic_trace("synthetic:jobs=40,gap=300,mean=3000,largest=128,priorities=2", seed)
    incidents = draw(FABRIC.nodes.names, trace.span, between=30_000.0 if failing else 0.0, repair=2000.0, seed=seed)
    engine = Engine(FABRIC, trace, contender(name), Rules(period=period, look_ahead=8, seed=seed, incidents=incidents))
    for _ in engine.run():
        check(engine)
    assert not engine.state.running
    assert not engine.state.waiting
    work = float((trace.gpus * trace.duration)[engine.state.finished()].sum())
    assert engine.state.useful == pytest.approx(work)
    assert sorted(engine.state.refused) == np.flatnonzero(trace.gpus > FABRIC.gpus).tolist()


def test_a_gang_that_runs_out_of_patience_while_there_is_no_room_waits_on() -> None:
    """The time at which it would take a wide place comes, and goes by: the replay goes on to the next end."""
    hosts, gang, late = [8] * 12, [16], [8, 8]
    duration = np.array([50.0, *[100_000.0] * 10, 50.0, 1000.0, 5000.0, 5000.0])
    arrival = np.array([*[0.0] * 12, 100.0, 200.0, 200.0])
    none = np.zeros(len(arrival), dtype=np.int64)
    trace = Trace("declined", arrival, duration, np.array([*hosts, *gang, *late]), none, none)
    engine = Engine(FABRIC, trace, PATIENT, Rules(period=0.0, look_ahead=8))

    assert [0.0, 50.0, 100.0, 200.0, 1300.0, 5200.0, 6200.0, 100_000.0] == [
        state.clock for state in islice(engine.run(), 20)
    ]
    assert 5200.0 == engine.state.first_start[12]


def test_ends_that_are_called_off_are_no_events() -> None:
    """Every job comes and ends once, and every incident happens, however often gangs are stopped on the way."""
    trace = synthetic_trace("synthetic:jobs=60,gap=200,mean=3000,largest=96,priorities=2", 2)
    incidents = draw(FABRIC.nodes.names, trace.span, between=20_000.0, repair=2000.0, seed=2)
    engine = Engine(FABRIC, trace, contender("default"), Rules(period=300.0, look_ahead=8, incidents=incidents))
    *_, state = engine.run()

    assert state.failures
    assert 2 * len(trace) + state.incidents == state.events


def compare(seed: int = 3) -> Comparison:
    """A small comparison with failing hosts and evictions."""
    trace = synthetic_trace("synthetic:jobs=24,gap=30,mean=3000,largest=32,priorities=2", seed)
    incidents = draw(FABRIC.nodes.names, trace.span, between=2_000.0, repair=2000.0, seed=seed)
    names = ("default", "random", "preempting", "patient", "repair", "spares")
    return Comparison(FABRIC, trace, [contender(name) for name in names], Rules(seed=seed, incidents=incidents))


def through(comparison: Comparison) -> str:
    """The results of a comparison that runs to its end."""
    for _ in comparison.run():
        pass
    return json.dumps(comparison.results())


@cache
def never_stopped() -> str:
    """The results of the small comparison, run once for all tests that hold others against them."""
    return through(compare())


def test_the_same_inputs_give_the_same_bytes() -> None:
    """Chance is drawn with the seed alone."""
    assert through(compare()) == never_stopped()


@pytest.mark.parametrize("moments", [1, 40, 150])
def test_a_replay_goes_on_from_a_checkpoint(moments: int, tmp_path: Path) -> None:
    """Stopped after the first moment, in the midst of a contender, or later: nobody can tell."""
    file = str(tmp_path / "run.json")
    stopped = compare()
    for _ in islice(stopped.run(), moments):
        pass
    save(file, stopped.checkpoint())
    resumed = compare()
    point = load(file, resumed.digest)
    assert point is not None
    resumed.resume(point)
    assert through(resumed) == never_stopped()


def test_a_checkpoint_of_other_inputs_is_refused(tmp_path: Path) -> None:
    """It would go on to nonsense."""
    file = str(tmp_path / "run.json")
    save(file, compare(3).checkpoint())
    with pytest.raises(InputError, match="other inputs"):
        load(file, compare(4).digest)


def test_evictions_and_failures_cost_what_is_repeated() -> None:
    """Failing hosts stop gangs under everybody; only the profile that evicts evicts."""
    results = json.loads(never_stopped())
    stops = [outcome["stops"] for outcome in results["outcomes"]]
    lost = [outcome["gpu_hours"]["lost"] for outcome in results["outcomes"]]
    assert all(stop["failures"] for stop in stops)
    assert stops[0]["evictions"] == stops[1]["evictions"] == 0
    assert stops[2]["evictions"] > 0
    assert stops[3]["evictions"] == 0
    assert all(lost)


@examples(6)
@given(seed=st.integers(0, 10**6), name=st.sampled_from(["repair", "spares"]))
def test_gangs_that_are_repaired_keep_the_places_of_their_ranks(seed: int, name: str) -> None:
    """What was not on a failing host is where it was when the gang goes on."""
    trace = synthetic_trace("synthetic:jobs=30,gap=60,mean=9000,largest=64", seed)
    incidents = draw(FABRIC.nodes.names, trace.span, between=20_000.0, repair=3000.0, seed=seed)
    engine = Engine(FABRIC, trace, contender(name), Rules(seed=seed, incidents=incidents, checkpoint_interval=900.0))
    halted: dict[int, tuple[int, ...]] = {}
    for state in engine.run():
        for job, rows in halted.items():
            now = state.repairing.get(job) or state.running.get(job, (0.0, ()))[1]
            kept = {rank: row for rank, row in enumerate(rows) if row >= 0 and row not in state.down}
            assert not now or job in state.repairing or all(now[rank] == row for rank, row in kept.items())
        halted = dict(state.repairing)


def test_work_since_the_last_checkpoint_is_repeated() -> None:
    """A gang that stops 50 minutes after its start, with a checkpoint every 20 minutes, repeats ten of them."""
    trace = synthetic_trace("synthetic:jobs=1,gap=60,mean=100000,largest=1", 1)
    start = float(trace.arrival[0])
    rules = Rules(period=0.0, restart_cost=0.0, checkpoint_interval=1200.0)
    first = next(iter(Engine(FABRIC, trace, contender("default"), rules).run()))
    ((_, (row,)),) = first.running.values()
    incidents = (NodeLost(start + 3000.0, FABRIC.nodes.names[row]), NodeBack(start + 9000.0, FABRIC.nodes.names[row]))
    engine = Engine(FABRIC, trace, contender("default"), replace(rules, incidents=incidents))
    for _ in engine.run():
        pass

    assert (600.0, float(trace.duration[0]) + 600.0) == (
        float(engine.state.lost[0]),
        float(engine.state.end[0]) - start,
    )


def test_tasks_in_count_form_weigh_as_much_as_listed_ones() -> None:
    """The ledger has the same amounts left, and knows of the same tasks by shape."""
    listed = snapshot(cluster(64, load=0.5), jobs([]))
    counted = replace(listed, others=(), standing=rows_by_shape(listed.nodes, listed.others, Status.RUNNING))
    one, other = Ledger(listed), Ledger(counted)
    assert listed.others
    assert (one.idle == other.idle).all()
    assert (one.domain_idle == other.domain_idle).all()
    assert {n: rows.tolist() for n, rows in one.held.items()} == {n: rows.tolist() for n, rows in other.held.items()}
    assert (held(listed, GPU) == held(counted, GPU)).all()


def test_spread_of_a_gang_by_hand() -> None:
    """Four pods on two leaves of one spine: ranks 0 and 1 on one, 2 and 3 on the other; 3 hosts to a leaf."""
    near = Spreads.over(FABRIC).of(np.array([0, 1, 3, 4]))
    assert near == (2.0, 2.0, 2 * 2 * 3 / 4, 0.0, (16 - 8) / 4, 0.0)
    crossed = Spreads.over(FABRIC).of(np.array([0, 3, 1, 4]))
    assert crossed[2] == 4 * 2 * 3 / 4
    wide = Spreads.over(FABRIC).of(np.array([0, 6]))
    assert wide == (2.0, 3.0, 2.0, 2.0, 1.0, 1.0)


def test_the_pods_of_a_job_fill_hosts_one_after_the_other() -> None:
    """The largest come first, and what is left is one pod more."""
    assert [(8, 8, 4), (8, 8), (3,)] == [split(gpus, 8) for gpus in (20, 16, 3)]


def test_work_that_is_lost_is_no_goodput() -> None:
    """Of the GPUs in service counts what they worked, without what failing hosts made them repeat."""
    trace = synthetic_trace("synthetic:jobs=60,gap=60,mean=4000,largest=64", 2)
    incidents = draw(FABRIC.nodes.names, trace.span, between=2_000.0, repair=2000.0, seed=2)
    engine = Engine(FABRIC, trace, contender("default"), Rules(period=300.0, look_ahead=8, incidents=incidents))
    for _ in engine.run():
        pass
    state = engine.state
    told: Any = outcome(engine)

    assert state.window_lost > 0
    assert (state.window_worked - state.window_lost) / state.window_service == pytest.approx(
        told["gpus"]["goodput"], abs=1e-5
    )
