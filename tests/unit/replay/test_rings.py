"""Rings on the uplinks of leaves: counted in a replay, waited for by a budget, and slowed by each other."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace
from tests.unit.replay.test_kinds_of_jobs import jobs

from tierwise.api.errors import InputError
from tierwise.config.profile import DEFAULT, PluginChoice
from tierwise.model.rings import uplinks
from tierwise_lab.replay.engine.contenders import Contender
from tierwise_lab.replay.engine.engine import Engine
from tierwise_lab.replay.engine.rules import Rules
from tierwise_lab.replay.engine.state import ReplayState
from tierwise_lab.replay.report.outcome import outcome
from tierwise_lab.replay.spec import ReplaySpec, comparison, replay
from tierwise_lab.replay.traces.synthetic import synthetic_fabric

LEAF = np.array([1, 1, 1, 2, 2, 2, 0])
"""Three hosts in each of two leaves, and one in none."""


@pytest.mark.parametrize(
    ("parts", "passed"),
    [
        ([[0, 1]], []),
        ([[0, 3]], [1, 2]),
        ([[0, 1], [3, 4]], [1, 2]),  # only what joins the two sub-groups
        ([[0, 3], [4, 5]], [1, 1, 2, 2]),  # the first of them, and what joins both
        ([[0, 6]], [1]),
        ([], []),
    ],
)
def test_a_ring_passes_the_uplinks_of_the_leaves_that_hold_some_of_it(parts: Any, passed: list[int]) -> None:
    """A ring inside one leaf passes none."""
    assert passed == sorted(uplinks(LEAF, [np.array(rows, dtype=np.int64) for rows in parts]).tolist())


FABRIC = synthetic_fabric("synthetic:spines=1,leaves=3,hosts=3", 8)


def lived(profile: Any, trace: Any, **rules: Any) -> Engine:
    """A replay on three leaves of three hosts that has come to its end."""
    engine = Engine(FABRIC, trace, Contender("c", profile), Rules(period=0.0, **rules))
    for _ in engine.run():
        pass
    return engine


def budget(rings: int, wait: float = 0.5) -> Any:
    """The default profile with a budget, and no patience for closer places."""
    first, second = DEFAULT.tiers
    others = tuple(choice for choice in second if choice.name != "patience")
    return replace(
        DEFAULT, tiers=(first, (*others, PluginChoice("patience", {"share": 0, "rings": rings, "wait": wait})))
    )


# Four hosts are more than a leaf has, and nine hosts hold two such gangs: both pass one of the three uplinks.
WIDE = jobs((0, 1000, 32), (10, 400, 32), (2000, 10, 8))


def test_rings_are_counted_by_time() -> None:
    """Of 2,000 s the two gangs run together for 400, and one of them for 600 more."""
    told: Any = outcome(lived(budget(0), WIDE))["rings"]

    assert round((400 * 2 + 600 * 1) / 2000, 6) == told["worst"]
    assert (0.0, 0.0) == (told["crowded"], told["excess"])


def test_a_gang_waits_for_an_uplink_up_to_a_share_of_its_run() -> None:
    """A budget of one ring: the second gang waits for half of its 400 s, or until the first has ended."""
    engine = lived(budget(1), WIDE)
    assert [0, 10 + 200] == engine.state.first_start[:2].tolist()

    patient = lived(budget(1, wait=10.0), WIDE)
    assert [0, 1000] == patient.state.first_start[:2].tolist()
    assert [0, 10] == lived(budget(2), WIDE).state.first_start[:2].tolist()


def test_a_gang_inside_one_leaf_does_not_wait() -> None:
    """Its ring passes no uplink; nor is it counted for others."""
    trace = jobs((0, 1000, 24), (10, 400, 48), (2000, 10, 8))

    assert [0, 10] == lived(budget(1), trace).state.first_start[:2].tolist()


def test_a_budget_that_nobody_reaches_decides_nothing() -> None:
    """Who stands where is told to the cycle, and changes no decision."""
    spec = ReplaySpec(
        topology="synthetic:spines=1,leaves=6,hosts=4", trace="synthetic:jobs=120,largest=96,sizes=odd", load=0.9
    )
    (plain,) = replay(spec).outcomes
    run = comparison(spec)
    first, second = DEFAULT.tiers
    tiers = (first, tuple(PluginChoice("patience", {"rings": 10**6}) if p.name == "patience" else p for p in second))
    engine = Engine(run.fabric, run.trace, Contender("default", replace(DEFAULT, tiers=tiers)), run.rules)
    for _ in engine.run():
        pass
    assert msgspec.to_builtins(outcome(engine)) == plain


def test_crowded_uplinks_slow_the_gangs_on_them() -> None:
    """Three rings where two are free of cost: with half of the time for communication the gangs take 1.25 times as
    long while all three run.
    """
    fabric = synthetic_fabric("synthetic:spines=1,leaves=2,hosts=3", 8)
    trace = jobs((0, 800, 16), (0, 800, 16), (0, 800, 16), (5000, 10, 8))
    engine = Engine(fabric, trace, Contender("c", budget(0)), Rules(period=0.0, contention=0.5))
    for job in range(3):
        engine.arrive()
        engine.start(job, (job, 3 + job))
    assert [0, 1, 2] == sorted(engine.slow_down())
    assert [0.8] * 3 == [engine.pace(job) for job in range(3)]

    engine.advance(500)
    engine.finish(0)
    assert [1, 2] == sorted(engine.slow_down())
    assert [1.0, 1.0] == [engine.pace(job) for job in (1, 2)]
    done = 500 * 0.8
    assert [500 - done] * 2 == [engine.state.running[job][0] for job in (1, 2)]


def test_a_replay_with_contention_goes_on_from_a_checkpoint() -> None:
    """Who is slowed is part of the state."""
    spec = ReplaySpec(
        topology="synthetic:spines=1,leaves=6,hosts=4",
        trace="synthetic:jobs=60,largest=160,sizes=odd,gap=30",
        contention=0.5,
    )
    run = comparison(spec)
    whole = Engine(run.fabric, run.trace, run.contenders[0], run.rules)
    steps = sum(1 for _ in whole.run())
    half = Engine(run.fabric, run.trace, run.contenders[0], run.rules)
    for number, _ in enumerate(half.run()):
        if number == steps // 2:
            break
    resumed = Engine(run.fabric, run.trace, run.contenders[0], run.rules, ReplayState.restored(half.kept()))
    for _ in resumed.run():
        pass

    assert whole.state.end.tolist() == resumed.state.end.tolist()
    assert whole.state.ring_seconds == pytest.approx(resumed.state.ring_seconds)


def test_contention_is_for_replays_of_cycles() -> None:
    """Kubelets run containers for as long as a job says."""
    spec = ReplaySpec(topology="synthetic:", trace="synthetic:jobs=5", contention=0.5, through="controllers")
    with pytest.raises(InputError, match="leave out contention"):
        replay(spec)
