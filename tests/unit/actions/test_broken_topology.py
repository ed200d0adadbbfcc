"""Wrong trees: domains with an error are out of the search, all others serve on."""

from __future__ import annotations

from tests.support.draw import allocate, draw, gang, placed, why


def test_overlapping_racks_are_set_aside() -> None:
    """A gang that needs one of two racks which claim the same node waits, and hears of the error."""
    outcome = allocate(draw("r0[n0 n1] r1[n1 n2]"), gang("train", tasks=2, each="cpu=8", within=1))

    assert ({}, "BrokenTopology") == (placed(outcome, "train"), why(outcome, "train"))


def test_a_sound_rack_serves_on() -> None:
    """A rack apart from the broken ones takes the gang."""
    outcome = allocate(draw("r0[n0 n1] r1[n1 n2] r2[n3 n4]"), gang("train", tasks=2, each="cpu=8", within=1))

    assert {"n3": 1, "n4": 1} == placed(outcome, "train")


def test_a_sound_rack_below_a_broken_spine() -> None:
    """A spine whose tier is not above its rack's is broken; the rack below it is not."""
    world = draw("s0@1[r0@1[n0 n1]] r1@1[n2]")

    assert {"n0": 1, "n1": 1} == placed(allocate(world, gang("train", tasks=2, each="cpu=8", within=1)), "train")


def test_nodes_of_broken_domains_serve_gangs_without_a_limit() -> None:
    """Only the search by tier is affected."""
    outcome = allocate(draw("r0[n0 n1] r1[n1 n2]"), gang("train", tasks=3, each="cpu=8", soft=True))

    assert 3 == len(placed(outcome, "train"))
