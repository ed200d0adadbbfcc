"""Queues of a trace: what they deserve, and that profiles with shares hold them to it in a replay."""

from __future__ import annotations

import pytest
from tests.support.traces import FABRIC, profile, trace

from tierwise.api.errors import InputError
from tierwise_lab.replay.engine.contenders import Contender
from tierwise_lab.replay.engine.engine import Engine
from tierwise_lab.replay.engine.rules import Rules
from tierwise_lab.replay.report.outcome import outcome
from tierwise_lab.replay.spec import weighted_queues
from tierwise_lab.replay.traces.fabric import GPU
from tierwise_lab.replay.traces.trace import Trace

FULL = trace(*[("a", 0.0, 10_000.0, 8)] * 12, *[("b", 1000.0, 3000.0, 8)] * 6)
"""One queue fills the cluster, the other comes when it is full."""


def replayed(jobs: Trace, how: str, action: str, plugin: str) -> Engine:
    """A replay to its end."""
    rules = Rules(restart_cost=600.0, queues=weighted_queues(how, jobs, FABRIC))
    engine = Engine(FABRIC, jobs, Contender("shares", profile(action, plugin)), rules)
    for _ in engine.run():
        assert engine.state.useful + engine.state.lost.sum() <= engine.state.held + 1e-6
    return engine


@pytest.mark.parametrize("plugin", ["proportion", "capacity"])
def test_a_queue_takes_back_what_it_deserves(plugin: str) -> None:
    """Half of the cluster at once, for six gangs of a host each; each victim repeats ten minutes on eight GPUs."""
    told = outcome(replayed(FULL, "equal", "gangreclaim", plugin))

    assert told["stops"] == {"evictions": 6, "failures": 0}
    assert told["gpu_hours"]["lost"] == pytest.approx(6 * 8 * 600 / 3600)  # type: ignore[index]
    assert [q["evictions"] for q in told["queues"]] == [6, 0]  # type: ignore[attr-defined]
    assert told["queues"][1]["wait_seconds"]["max"] == 0.0  # type: ignore[index]
    assert told["jobs"]["finished"] == 18  # type: ignore[index]


def test_weights_decide_how_much_is_taken_back() -> None:
    """Three quarters stay with the first queue."""
    told = outcome(replayed(FULL, "a=3,b=1", "gangreclaim", "proportion"))

    assert told["stops"] == {"evictions": 3, "failures": 0}


def test_without_an_evicting_action_shares_hold_for_what_starts() -> None:
    """Who runs is told in count form, and queues are charged for it: half of the cluster goes to the second queue."""
    jobs = trace(*[("a", 0.0, 1000.0, 8)] * 24, *[("b", 0.0, 1000.0, 8)] * 6)
    engine = replayed(jobs, "equal", "", "proportion")
    first = engine.state.first_start[jobs.queue == 1]

    assert not engine.state.evictions.any()
    assert (first == 0.0).all()
    assert (engine.state.end >= 0).all()


def test_one_queue_where_none_are_asked_for() -> None:
    """The first to come is the first to be served."""
    contender = Contender("shares", profile("gangreclaim", "proportion"))
    engine = Engine(FABRIC, FULL, contender, Rules())
    for _ in engine.run():
        pass

    assert not engine.state.evictions.any()
    assert engine.trace.queues == ("default",)


def test_shares_are_those_of_gpu_time() -> None:
    """Twelve times 10,000 seconds against six times 3,000; what is deserved adds up to the cluster at most."""
    queues = weighted_queues("share", FULL, FABRIC)

    assert [queue.weight for queue in queues] == [870, 130]
    assert [queue.deserved[GPU] for queue in queues] == [83, 12]


@pytest.mark.parametrize("text", ["c=1", "a=0", "a", "a=x", "shares"])
def test_bad_weights_are_named(text: str) -> None:
    """With the queues that there are."""
    with pytest.raises(InputError, match="one of a, b"):
        weighted_queues(text, FULL, FABRIC)
