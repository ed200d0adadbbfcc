"""Gangs that fit only once others have left: they wait, and their room is kept."""

from __future__ import annotations

from tests.support.draw import (
    allocate,
    draw,
    gang,
    groups,
    placed,
    waiting,
    why,
)

from tierwise.explain.message import message


def test_a_gang_waits_for_room_that_is_being_released() -> None:
    """A gang that fits once leaving pods are gone is given that room, and nothing of it starts before."""
    outcome = allocate(draw("r0[n0 n1]", running="n0!:cpu=8"), gang("train", tasks=2, each="cpu=8", within=1))

    assert ({}, {"n0": 1, "n1": 1}) == (placed(outcome, "train"), waiting(outcome, "train"))


def test_room_that_is_waited_for_is_kept() -> None:
    """A gang behind a waiting one gets neither the room being released nor what the waiting one was given now."""
    outcome = allocate(
        draw("r0[n0 n1]", running="n0!:cpu=8"),
        gang("first", tasks=2, each="cpu=8", within=1),
        gang("second", tasks=1, each="cpu=8", created=1),
    )

    assert ({}, {}) == (placed(outcome, "second"), waiting(outcome, "second"))
    assert "NotEnoughResources" == why(outcome, "second")


def test_idle_room_first() -> None:
    """A pod does not wait on one node while another is free."""
    outcome = allocate(draw("r0[n0 n1]", running="n0!:cpu=8"), gang("train", tasks=1, each="cpu=8", within=1))

    assert {"n1": 1} == placed(outcome, "train")


def test_a_rack_that_is_free_before_one_that_is_fuller() -> None:
    """Of two racks of a tier the one that holds the gang now is taken before one where it would wait."""
    world = draw("r0[n0 n1] r1[n2 n3 n4]", running="n0!:cpu=8")
    outcome = allocate(world, gang("train", tasks=2, each="cpu=8", within=1))

    assert {"n2": 1, "n3": 1} == placed(outcome, "train")


def test_surplus_does_not_wait() -> None:
    """Pods beyond the minimum take idle room only."""
    outcome = allocate(draw("r0[n0 n1]", running="n0!:cpu=8"), gang("train", tasks=2, each="cpu=8", minimum=1))

    assert ({"n1": 1}, {}) == (placed(outcome, "train"), waiting(outcome, "train"))


def test_no_part_of_a_waiting_gang_starts() -> None:
    """A gang of which one sub-group waits is not bound on room that is still held, though minMember is met."""
    world = draw("r0[n0] r1[n1]", running="n1!:cpu=4")
    outcome = allocate(world, gang("train", each="cpu=4", minimum=3, groups=(groups(2, size=2, within=1),)))

    assert ({}, {"n0": 2, "n1": 2}) == (placed(outcome, "train"), waiting(outcome, "train"))


def test_sub_groups_wait_together() -> None:
    """Where one sub-group must wait the others are nominated with it."""
    world = draw("s0: r0[n0] r1[n1]", running="n1!:cpu=8")
    outcome = allocate(world, gang("train", each="cpu=8", within=2, groups=(groups(2, size=1, within=1),)))

    assert ({}, {"n0": 1, "n1": 1}) == (placed(outcome, "train"), waiting(outcome, "train"))


def test_the_rest_of_a_waiting_gang_has_a_reason() -> None:
    """Pods beyond the minimum of a gang that waits are told why they have no node."""
    outcome = allocate(draw("r0[n0]", running="n0!:cpu=8"), gang("train", tasks=2, each="cpu=8", minimum=1))

    assert ({"n0": 1}, True) == (waiting(outcome, "train"), bool(why(outcome, "train")))


def test_the_domain_that_came_farthest_is_named_with_the_most_that_is_free() -> None:
    """Of two racks the one that takes a pod; of its nodes that take none, the one that lacks least says how much."""
    busy = "n0:cpu=6 n1:cpu=7 n2:cpu=8 n3:cpu=5 n4:cpu=6"
    world = draw("s0: r0[n0 n1] r1[n2 n3 n4]", node="cpu=8", running=busy)
    outcome = allocate(world, gang("train", tasks=2, each="cpu=3", within=1))
    text = message(outcome.report.rejections["default/train"])

    assert "tier 1: best of 2 hyperNodes is r1: 1 of 2 pods fits" in text
    assert "2 nodes short of cpu: 3 asked, at most 2 free" in text
