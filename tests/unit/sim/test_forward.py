"""A run ahead: jobs start when others end, in the order of the cycle, and what is not known stays."""

from __future__ import annotations

from math import inf

from tests.support.draw import Gang, draw, gang, objects_of

from tierwise.config.profile import DEFAULT
from tierwise.model.snapshot import Snapshot
from tierwise.sim.forecast.forward import ForwardRun, run_forward
from tierwise.snapshot.builder import build

TREE = "s0[r0[n0 n1] r1[n2 n3]]"


def seen(*gangs: Gang, tree: str = TREE) -> Snapshot:
    """Gangs on four nodes of four GPUs."""
    return build(objects_of(draw(tree, node="gpu=4"), *gangs), 1000.0, DEFAULT)


def ahead(
    snapshot: Snapshot,
    ends: dict[str, float],
    durations: dict[str, float] | None = None,
    *,
    until: str = "",
    cycles: int = 100,
    step: float = 0.0,
) -> ForwardRun:
    """A run until one gang has started, or everybody."""
    wanted = [f"default/{until}"] if until else [job.key for job in snapshot.jobs]
    return run_forward(
        snapshot,
        DEFAULT,
        ends={f"default/{name}": at for name, at in ends.items()},
        durations={f"default/{name}": for_ for name, for_ in (durations or {}).items()},
        until=wanted,
        cycles=cycles,
        step=step,
    )


def starts(run: ForwardRun) -> dict[str, float]:
    """When which gang starts."""
    return {key.removeprefix("default/"): start.at for key, start in run.starts.items()}


A = gang("a", tasks=2, each="gpu=4", on="n0 n1")
B = gang("b", tasks=2, each="gpu=4", on="n2 n3")


def test_a_gang_starts_when_what_it_needs_is_free() -> None:
    """It starts at the end of the first job that leaves it enough, and the run says which that was."""
    run = ahead(seen(A, B, gang("c", tasks=2, each="gpu=4", within=1)), {"a": 1600.0, "b": 1300.0})

    assert {"c": 1300.0} == starts(run)
    assert ("default/b",) == run.starts["default/c"].after
    assert run.complete


def test_a_limit_on_tiers_holds_ahead_as_well() -> None:
    """Half of each of two racks is no rack: the gang waits for the second end."""
    one, other = gang("one", tasks=1, each="gpu=4", on="n0"), gang("other", tasks=1, each="gpu=4", on="n2")
    rest = gang("rest", tasks=2, each="gpu=4", on="n1 n3")
    waiting = gang("c", tasks=2, each="gpu=4", within=1)
    run = ahead(seen(one, other, rest, waiting), {"one": 1100.0, "other": 1200.0, "rest": 1900.0})

    assert {"c": 1900.0} == starts(run)
    assert ("default/rest",) == run.starts["default/c"].after


def test_who_starts_ahead_ends_ahead() -> None:
    """The duration of a waiting gang counts from its own start on."""
    first = gang("c", tasks=2, each="gpu=4", within=1, created=1)
    second = gang("d", tasks=2, each="gpu=4", within=1, created=2)
    run = ahead(seen(A, B, first, second), {"a": 1200.0}, {"c": 50.0, "d": 10.0})

    assert {"c": 1200.0, "d": 1250.0} == starts(run)
    assert ("default/c",) == run.starts["default/d"].after


def test_the_cycle_s_order_decides_who_is_first() -> None:
    """Of two gangs that fit only one after the other, the one of higher priority starts first."""
    low = gang("low", tasks=2, each="gpu=4", within=1, created=1)
    high = gang("high", tasks=2, each="gpu=4", within=1, created=2, priority=10)
    run = ahead(seen(A, B, low, high), {"a": 1200.0}, {"high": 100.0, "low": 1.0})

    assert {"high": 1200.0, "low": 1300.0} == starts(run)


def test_what_has_no_end_stays() -> None:
    """A gang that waits for a job without an end does not start, and the run is over."""
    run = ahead(seen(A, B, gang("c", tasks=3, each="gpu=4")), {"a": 1200.0, "b": inf})

    assert {} == starts(run)
    assert run.complete
    assert ("default/b",) == run.running
    assert "default/c" in run.rejections


def test_a_run_stops_at_its_bound_and_says_so() -> None:
    """After so many cycles nothing more is tried."""
    run = ahead(seen(A, B, gang("c", tasks=4, each="gpu=4")), {"a": 1200.0, "b": 1300.0}, cycles=2)

    assert {} == starts(run)
    assert not run.complete


def test_moments_that_are_close_together_are_one() -> None:
    """With a step of one half, an end shortly after another is seen together with what follows it."""
    one, other = gang("one", tasks=2, each="gpu=4", on="n0 n1"), gang("other", tasks=2, each="gpu=4", on="n2 n3")
    small = gang("c", tasks=2, each="gpu=4", within=1, created=1)
    next_one = gang("d", tasks=2, each="gpu=4", within=1, created=2)
    world = seen(one, other, small, next_one)

    assert {"c": 1100.0, "d": 1101.0} == starts(ahead(world, {"one": 1100.0, "other": 1101.0}))
    assert {"c": 1100.0, "d": 1150.0} == starts(ahead(world, {"one": 1100.0, "other": 1101.0}, step=0.5))


def test_pods_on_their_way_out_are_gone_a_moment_later() -> None:
    """What is terminating holds its node for now."""
    leaving = gang("old", tasks=2, each="gpu=4", on="n0! n1!")
    run = ahead(seen(leaving, B, gang("c", tasks=2, each="gpu=4", within=1)), {})

    assert {"c": 1001.0} == starts(run)


def test_the_snapshot_is_left_as_it_was() -> None:
    """A second run finds what the first one found."""
    world = seen(A, B, gang("c", tasks=2, each="gpu=4", within=1))

    assert starts(ahead(world, {"a": 1200.0})) == starts(ahead(world, {"a": 1200.0}))
    assert 2 == len(next(job for job in world.jobs if job.key == "default/c").subs[0].pod_sets[0].tasks)
