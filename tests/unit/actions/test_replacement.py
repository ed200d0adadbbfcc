"""Pods of a gang that already runs: as close to the others as there is room."""

from __future__ import annotations

import pytest
from tests.support.draw import (
    allocate,
    by_group,
    draw,
    gang,
    groups,
    placed,
    spots,
    why,
)

DEEP = "z0: (s0: (l0: r0[n0 n1] r1[n2]) (l1: r2[n3])) (s1: (l2: r3[n4]))"


@pytest.mark.parametrize(
    ("busy", "expected"),
    [
        ("", "n1"),  # same rack
        ("n1:cpu=8", "n2"),  # same leaf
        ("n1:cpu=8 n2:cpu=8", "n3"),  # same spine
        ("n1:cpu=8 n2:cpu=8 n3:cpu=8", "n4"),
    ],
)
def test_replacement_goes_next_to_its_siblings(busy: str, expected: str) -> None:
    """A new pod of a running gang stands in the rack of the others, else below the same leaf, else the same spine."""
    outcome = allocate(draw(DEEP, running=busy), gang("train", tasks=2, each="cpu=8", soft=True, on="n0"))

    assert expected == spots(outcome, "train")


def test_nearness_comes_before_fullness() -> None:
    """A fuller rack elsewhere does not draw a replacement away from its siblings."""
    world = draw("s0: r0[n0 n1 n2] r1[n3 n4]", running="n3:cpu=4 n4:cpu=8")
    outcome = allocate(world, gang("train", tasks=2, each="cpu=4", within=2, on="n0"))

    assert "n0" == spots(outcome, "train")


def test_most_siblings_first() -> None:
    """Between racks where the gang stands, the one that holds more of it is taken."""
    world = draw("s0: r0[n0 n1] r1[n2 n3]", node="cpu=2")
    outcome = allocate(world, gang("train", tasks=4, within=2, on="n0 n2 n2"))

    assert "n3" == spots(outcome, "train")


def test_a_replacement_keeps_to_the_limit() -> None:
    """A hard gang is never completed outside the domain that its running pods pin it to."""
    world = draw("s0: r0[n0 n1] r1[n2 n3]", running="n1:cpu=8")
    outcome = allocate(world, gang("train", tasks=2, each="cpu=8", within=1, on="n0"))

    assert ({}, "NotEnoughResources") == (placed(outcome, "train"), why(outcome, "train"))


def test_already_too_wide() -> None:
    """A gang whose pods span more than its limit gets no more, and the reason says so."""
    outcome = allocate(draw("r0[n0 n1] r1[n2 n3]"), gang("train", tasks=3, within=1, on="n0 n2"))

    assert ({}, "AlreadyTooWide") == (placed(outcome, "train"), why(outcome, "train"))


def test_a_sub_group_already_too_wide() -> None:
    """A sub-group whose pods span more than its limit gets no more; the reason names it."""
    two = gang("train", within=2, groups=(groups(1, size=3, within=1),), on="n0 n2")
    outcome = allocate(draw("s0: r0[n0 n1] r1[n2 n3]"), two)

    assert {} == placed(outcome, "train")
    assert "AlreadyTooWide" in list(outcome.report.rejections["default/train"].codes())


def test_a_sub_group_is_completed_in_its_rack() -> None:
    """A lost pod of a sub-group returns to the sub-group's rack, not to that of another."""
    world = draw("s0: r0[n0 n1] r1[n2 n3]")
    two = gang("train", each="cpu=8", within=2, groups=(groups(2, size=2, within=1),), on="n2 - n0")

    assert {"part-0": "n3", "part-1": "n1"} == by_group(allocate(world, two), "train")


def test_room_is_left_for_a_sub_group_that_can_go_nowhere_else() -> None:
    """Racks with equal room are not the same where a running sub-group is pinned to one of them."""
    world = draw("s0: r0[n0] r1[n1]", nodes={"n0": "cpu=2", "n1": "cpu=3"})
    pinned, free = groups(1, size=2, within=1, name="a"), groups(1, size=2, within=1, name="b")
    outcome = allocate(world, gang("train", within=2, groups=(pinned, free), on="n1"))

    assert {"a-0": "n1", "b-0": "n0 n0"} == by_group(outcome, "train")


def test_partition_restart_returns_to_the_free_rack() -> None:
    """A sub-group that restarts as a whole takes a rack near the job's others, whatever is fuller elsewhere."""
    world = draw("z0: (s0: r0[n0 n1] r1[n2 n3]) (s1: r2[n4 n5 n6])", running="n6:cpu=8")
    two = gang("train", each="cpu=8", within=3, groups=(groups(2, size=2, within=1),), on="n0 n1")

    assert {"part-1": "n2 n3"} == by_group(allocate(world, two), "train")


def test_partition_restart_keeps_to_the_jobs_limit() -> None:
    """A restarted sub-group waits where the job's own domain has no room for it."""
    world = draw("z0: (s0: r0[n0 n1] r1[n2 n3]) (s1: r2[n4 n5])", running="n3:cpu=8")
    two = gang("train", each="cpu=8", within=2, groups=(groups(2, size=2, within=1),), on="n0 n1")

    assert {} == placed(allocate(world, two), "train")


def test_leaving_siblings_do_not_pin() -> None:
    """A gang all of whose pods are on their way out is placed anew."""
    world = draw("r0[n0] r1[n1 n2]")
    outcome = allocate(world, gang("train", tasks=3, each="cpu=8", minimum=2, within=1, on="n0!"))

    assert {"n1": 1, "n2": 1} == placed(outcome, "train")


def test_a_pod_without_a_rack_pins_to_the_whole_cluster() -> None:
    """A soft gang that stands outside every domain is completed, nearest first."""
    outcome = allocate(draw("r0[n0] n1 n2"), gang("train", tasks=2, each="cpu=8", soft=True, on="n2"))

    assert "n1" == spots(outcome, "train")


@pytest.mark.parametrize("limit", [{"soft": True}, {"within": 2}])
def test_a_sub_group_without_topology_joins_the_job(limit: dict[str, int]) -> None:
    """The rest of a job goes near what runs of it, its own sub-group first, although only the job has a topology."""
    world = draw("s0: r0[n0 n1] r1[n2 n3] r2[n4 n5]", node="cpu=4", nodes={"n4": "cpu=8", "n5": "cpu=8"})
    parts = (groups(2, 3, name="p"),)

    outcome = allocate(world, gang("g", each="cpu=2", groups=parts, on="n0 - - n2 - -", **limit))  # type: ignore[arg-type]

    assert {"p-0": {"n0", "n1"}, "p-1": {"n2", "n3"}} == {
        name: set(nodes.split()) for name, nodes in by_group(outcome, "g").items()
    }


def test_a_sub_group_whose_rack_is_full_joins_the_others() -> None:
    """Nearest to its own sub-group, then to the other sub-groups of the job."""
    world = draw("s0: r0[n0] r1[n1] r2[n2]", node="cpu=4", nodes={"n1": "cpu=9", "n2": "cpu=6"}, running="n0:cpu=2")

    outcome = allocate(world, gang("g", each="cpu=2", soft=True, groups=(groups(2, 2),), on="n0 - n2 -"))

    assert {"part-0": "n2", "part-1": "n2"} == by_group(outcome, "g")


@pytest.mark.parametrize("job", [{"soft": True}, {"within": 2}, {}])
def test_a_sub_group_wider_than_a_rack_fills_the_jobs_rack_first(job: dict[str, int]) -> None:
    """Four pods need two racks: those of the job's other sub-group first, each node once, and the rest beside it."""
    parts = (groups(1, 1, name="first"), groups(1, 4, name="second", soft=True))
    world = draw("s0: r0[n0 n1 n2] r1[n3 n4 n5]", node="gpu=1")
    outcome = allocate(world, gang("train", each="gpu=1", groups=parts, on="n5", **job))  # type: ignore[arg-type]

    assert {"n0": 1, "n1": 1, "n3": 1, "n4": 1} == placed(outcome, "train")
