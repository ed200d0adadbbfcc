"""Replays through the embedded cluster: the same decisions as by calling the cycle, and gangs that come back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from msgspec.structs import replace
from tests.support.traces import FABRIC, profile, trace

from tierwise.sim.cluster.agenda import NodeBack, NodeLost
from tierwise_lab.replay.engine.contenders import BUILT_IN, Contender
from tierwise_lab.replay.engine.embedded import EmbeddedReplay
from tierwise_lab.replay.engine.engine import Engine
from tierwise_lab.replay.engine.rules import Rules
from tierwise_lab.replay.report.outcome import outcome
from tierwise_lab.replay.spec import weighted_queues
from tierwise_lab.replay.traces.synthetic import synthetic_fabric, synthetic_trace
from tierwise_lab.replay.traces.trace import Trace

SMALL = synthetic_fabric("synthetic:spines=2,leaves=2,hosts=2", 8)
JOBS = synthetic_trace("synthetic:jobs=14,gap=300,mean=3000,largest=32,priorities=2", 5)
EXACT = Rules(period=1.0, look_ahead=1000)
"""Under these rules a replay sees every second, as the embedded cluster does, and all who wait."""

Starts = dict[int, list[tuple[float, tuple[int, ...]]]]


def starts(driver: Engine | EmbeddedReplay) -> Starts:
    """When each job started and on which rows, in the course of a replay to its end."""
    found: Starts = {}
    for state in driver.run():
        for job, where in state.running.items():
            known = found.setdefault(job, [])
            if where not in known:
                known.append(where)
    return found


@pytest.mark.parametrize("name", BUILT_IN)
def test_both_ways_start_the_same_jobs_on_the_same_hosts(name: str) -> None:
    """Where nobody is stopped: to the second, rank by rank, and with the same numbers in the end."""
    jobs = JOBS.in_whole_seconds()
    direct, lived = Engine(SMALL, jobs, BUILT_IN[name](1), EXACT), EmbeddedReplay(SMALL, jobs, BUILT_IN[name](1), EXACT)

    assert starts(direct) == starts(lived)
    told = [{key: value for key, value in outcome(d).items() if key != "cycles"} for d in (direct, lived)]
    assert told[0] == told[1]


def test_the_same_inputs_give_the_same_bytes() -> None:
    """Names, times and uids follow from the trace."""
    rules = replace(EXACT, incidents=(NodeLost(500.0, SMALL.nodes.names[0]), NodeBack(4000.0, SMALL.nodes.names[0])))
    told = []
    for _ in range(2):
        lived = EmbeddedReplay(SMALL, JOBS.first(8), BUILT_IN["default"](1), rules)
        starts(lived)
        told.append(json.dumps(outcome(lived)))

    assert told[0] == told[1]


def test_a_gang_on_a_lost_host_is_restarted_by_its_policy() -> None:
    """It stops when the host does, waits until the loss is noticed, and repeats ten minutes of its work."""
    one = trace(("a", 0.0, 5000.0, 16))
    rules = replace(
        EXACT, incidents=(NodeLost(1000.0, FABRIC.nodes.names[0]), NodeBack(90_000.0, FABRIC.nodes.names[0]))
    )
    lived = EmbeddedReplay(FABRIC, one, BUILT_IN["default"](1), rules)
    (first, rows), (second, others) = starts(lived)[0]

    assert 0 in rows
    assert 0 not in others
    assert first == 0.0
    assert 1040.0 <= second <= 1100.0
    assert lived.state.end[0] == second + 5000.0 - (1000.0 - 600.0)
    assert lived.state.failures == 1
    assert lived.state.lost.sum() == 16 * 600.0


def test_reclaimed_gangs_come_back() -> None:
    """Two queues of equal weight: evicted Jobs restart by their policy, go on from their checkpoints, and all end."""
    jobs: Trace = trace(*[("a", 0.0, 10_000.0, 8)] * 12, *[("b", 1000.0, 3000.0, 8)] * 6)
    rules = replace(EXACT, queues=weighted_queues("equal", jobs, FABRIC))
    lived = EmbeddedReplay(FABRIC, jobs, Contender("shares", profile("gangreclaim", "proportion")), rules)
    again = starts(lived)
    state = lived.state

    assert state.evictions.sum() == 6
    assert state.lost.sum() == 6 * 8 * 600.0
    assert [1001.0] * 6 == [again[job][0][0] for job in range(12, 18)]  # a second for the victims to stop
    assert (state.end >= 0).all()
    assert state.useful == pytest.approx(float((jobs.gpus * jobs.duration).sum()))
    assert np.isclose(state.held, state.useful + state.lost.sum())
