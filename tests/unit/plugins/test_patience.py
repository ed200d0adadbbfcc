"""Patience: a wide place is declined for a time, nobody else waits for that, and in the end it is taken."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.support.draw import (
    Gang,
    allocate,
    draw,
    gang,
    objects_of,
    placed,
    role,
    why,
)

from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.scheduler import cycle
from tierwise.sim.cluster.simulation import Simulation
from tierwise.snapshot.builder import build

SCATTERED = draw("s0: r0[n0 n1] r1[n2 n3] r2[n4 n5]", node="gpu=4", running="n0:gpu=4 n2:gpu=4 n4:gpu=4")
"""Three racks, a node of each in use: three pods stand on three racks, and on two if all were free."""


def patient(**arguments: object) -> Profile:
    """The default profile with patience for gangs of any size."""
    first, second = DEFAULT.tiers
    choice = PluginChoice("patience", {"time": "1h", "stretch": 1, "fromPods": 1, **arguments})
    return replace(DEFAULT, tiers=(first, (*second, choice)))


def train(tasks: int = 3, *, soft: bool = True, priority: int = 0) -> Gang:
    """A gang of whole nodes that asks to stand close together."""
    return gang("train", tasks=tasks, each="gpu=4", soft=soft, priority=priority)


def test_a_wide_place_is_declined() -> None:
    """Three racks where two would do; the gang is told what it waits for and until when."""
    outcome = allocate(SCATTERED, train(), profile=patient())
    reason = outcome.report.rejections["default/train"].reason

    assert not placed(outcome, "train")
    assert "WaitsForCloserPlace" == reason.code
    assert "3 innermost hyperNodes is declined until 1970-01-01T01:00:00Z: 2 at most" in reason.text
    assert 3600.0 == outcome.report.retry_at


@pytest.mark.parametrize(
    ("profile", "asked"),
    [
        (patient(stretch=2), train()),
        (patient(fromPods=4), train()),
        (patient(time="soon"), train()),
        (patient(), train(soft=False)),
        (patient(), train(tasks=1)),
        (DEFAULT, train()),
    ],
    ids=["wide enough", "too small to wait", "no time", "no topology", "close", "no plugin"],
)
def test_others_take_what_there_is(profile: Profile, asked: Gang) -> None:
    """Within the stretch, below the size, without a time or a topology: nobody waits."""
    outcome = allocate(SCATTERED, asked, profile=profile)

    assert asked.tasks == sum(placed(outcome, "train").values())
    assert outcome.report.retry_at is None


def test_a_gang_of_which_some_stand_does_not_wait() -> None:
    """What it lacks may be needed now, and where it stands is decided."""
    half = gang("train", tasks=3, each="gpu=4", soft=True, on="n1")

    assert {"n3": 1, "n5": 1} == placed(allocate(SCATTERED, half, profile=patient()), "train")


def test_nodes_that_are_not_ready_promise_nothing() -> None:
    """A rack of machines that are down would hold the whole gang: two racks are the fewest all the same."""
    world = draw("s0: r0[n0 n1] r1[n2 n3] r2[n4 n5 n6]", node="gpu=4", running="n2:gpu=4")
    for raw in world.manifests:
        if raw["kind"] == "Node" and raw["metadata"]["name"] in ("n4", "n5", "n6"):  # type: ignore[index]
            raw["status"]["conditions"] = [{"type": "Ready", "status": "False"}]  # type: ignore[index]

    assert {"n0": 1, "n1": 1, "n3": 1} == placed(allocate(world, train(), profile=patient()), "train")


def test_the_widest_shape_says_how_few_would_do() -> None:
    """One small pod fits a rack, three whole nodes take two: two racks are close."""
    mixed = gang("train", roles=(role("chief", 1, "gpu=1"), role("worker", 3, "gpu=4")), soft=True)
    world = draw("s0: r0[n0 n1] r1[n2 n3]", node="gpu=4")

    assert 4 == sum(placed(allocate(world, mixed, profile=patient()), "train").values())


def test_who_comes_after_it_is_served() -> None:
    """Nothing is kept for the one that waits."""
    outcome = allocate(SCATTERED, train(), gang("small", tasks=2, each="gpu=4", created=5), profile=patient())

    assert "WaitsForCloserPlace" == why(outcome, "train")
    assert 2 == sum(placed(outcome, "small").values())


def test_nobody_is_evicted_for_it() -> None:
    """It could have had a place."""
    evicting = replace(patient(), actions=("enqueue", "allocate", "gangpreempt"))
    low = gang("low", tasks=1, each="gpu=4", on="n1")
    busy = "n0:gpu=4 n2:gpu=4 n4:gpu=4 n6:gpu=4"
    free = draw("s0: r0[n0 n1] r1[n2 n3] r2[n4 n5] r3[n6 n7]", node="gpu=4", running=busy)
    outcome = allocate(free, low, train(priority=10), profile=evicting)

    assert "WaitsForCloserPlace" == why(outcome, "train")
    assert not outcome.report.evictions


def test_the_time_ends() -> None:
    """An hour after its creation the gang takes what there is."""
    snapshot = build(objects_of(SCATTERED, train()), now=3600.0)
    report = cycle(snapshot, patient())

    assert ["default/train"] == [decision.job.key for decision in report.decisions]


def test_a_life_goes_on_when_the_time_ends() -> None:
    """Though nothing else happens then: the clock jumps there."""
    life = Simulation(objects_of(SCATTERED, train()), patient(time="10m"), start=0.0)
    bound = [h.at for moment in life.run(86_400) for h in moment.entries if h.reason == "Placed"]

    assert [600.0] == bound
