"""Hosts on which starts fail: what a replay makes of them, and what profiles that remember gain."""

from __future__ import annotations

import numpy as np
import pytest

from tierwise.api.errors import InputError
from tierwise.model.failed_starts import FailedStart
from tierwise_lab.replay.engine.contenders import BUILT_IN
from tierwise_lab.replay.engine.engine import Engine
from tierwise_lab.replay.engine.rules import Lemons, draw_lemons
from tierwise_lab.replay.engine.state import ReplayState
from tierwise_lab.replay.spec import ReplaySpec, comparison, replay

SPEC = ReplaySpec(
    topology="synthetic:spines=1,leaves=4,hosts=4",
    trace="synthetic:jobs=80,largest=64,gap=120",
    profile=("default", "remembers", "five-in-five"),
    lemons="12.5%",
)


def engine_of(number: int, state: ReplayState | None = None) -> Engine:
    """One of the contenders of the usual replay, about to start."""
    run = comparison(SPEC)
    return Engine(run.fabric, run.trace, run.contenders[number], run.rules, state)


def test_who_remembers_repeats_fewer_starts() -> None:
    """Of the same jobs on the same hosts; what the clock shows until all of a gang runs is less too."""
    plain, remembers, five = (one["starts"] for one in replay(SPEC).outcomes)

    assert remembers["failed"] < five["failed"] <= plain["failed"]
    assert remembers["retrying_seconds"]["mean"] < plain["retrying_seconds"]["mean"]
    assert remembers["gpu_hours_in_vain"] < plain["gpu_hours_in_vain"]


@pytest.mark.parametrize("number", range(3))
def test_what_starts_that_fail_have_held_is_lost(number: int) -> None:
    """All that was held is work that counts or time that was lost, and every job ends."""
    engine = engine_of(number)
    for _ in engine.run():
        pass
    state = engine.state

    assert np.isclose(state.held, state.useful + state.lost.sum())
    assert state.in_vain > 0
    assert not state.failing
    assert len(engine.trace) == len(state.finished())


def test_a_replay_with_lemons_goes_on_from_a_checkpoint() -> None:
    """Who does not come up, and what is remembered, is part of the state."""
    whole, half = engine_of(1), engine_of(1)
    steps = sum(1 for _ in whole.run())
    for number, _ in enumerate(half.run()):
        if number == steps // 2:
            break
    resumed = engine_of(1, ReplayState.restored(half.kept()))
    for _ in resumed.run():
        pass

    assert whole.state.end.tolist() == resumed.state.end.tolist()
    assert whole.state.remembered == resumed.state.remembered
    assert whole.state.in_vain == pytest.approx(resumed.state.in_vain)


def test_five_of_a_job_on_a_node_within_five_minutes() -> None:
    """SwarmKit's rule: four are nothing, five count, and five minutes after the first of them they do not."""
    contender = BUILT_IN["five-in-five"](1)
    starts = [FailedStart(f"p{i}", "a/x", "n0", 1000.0 + i, "") for i in range(5)]
    avoided = [
        contender.memory(known, now).recorded  # type: ignore[union-attr]
        for known, now in ((starts[:4], 1010.0), (starts, 1010.0), (starts, 1301.0))
    ]

    assert [0, 5, 0] == [len(recorded) for recorded in avoided]
    assert BUILT_IN["default"](1).memory(starts, 1010.0) is None


def test_lemons_are_drawn_with_the_seed() -> None:
    """The same share and seed give the same hosts; there is at least one."""
    hosts = [f"n{i}" for i in range(50)]

    assert draw_lemons(hosts, 0.1, 0.8, 1) == draw_lemons(hosts, 0.1, 0.8, 1)
    assert draw_lemons(hosts, 0.1, 0.8, 1) != draw_lemons(hosts, 0.1, 0.8, 2)
    assert (5, 1) == tuple(len(draw_lemons(hosts, share, 0.8, 1).hosts) for share in (0.1, 0.001))
    assert Lemons() == draw_lemons(hosts, 0.0, 0.8, 1)


@pytest.mark.parametrize("text", ["2", "101%", "2%x1", "-2%", "2%x", "%", "2%x0.5x", "٢%", "nan%"])
def test_lemons_that_cannot_be_read_are_refused(text: str) -> None:
    """With the option and what could be said."""
    with pytest.raises(InputError, match="such as 2%") as refused:
        replay(ReplaySpec(topology="synthetic:", trace="synthetic:jobs=5", lemons=text))
    assert "--lemons" == refused.value.field


def test_lemons_are_for_gangs_that_start_whole_through_the_cycle() -> None:
    """Kubelets, elastic gangs and repair have rules of their own."""
    for more in ({"through": "controllers"}, {"elastic": 0.5}, {"profile": ("repair",)}):
        with pytest.raises(InputError, match="leave out"):
            replay(ReplaySpec(topology="synthetic:", trace="synthetic:jobs=5", lemons="2%", **more))
