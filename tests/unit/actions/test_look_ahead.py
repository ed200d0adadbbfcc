"""Among domains that are equal for the minimum, the one that has a place for the surplus too wins before the name."""

from __future__ import annotations

import pytest
from tests.support.draw import (
    Gang,
    World,
    allocate,
    draw,
    gang,
    groups,
    placed,
    role,
)


def full(tree: str, nodes: str) -> World:
    """A cluster of nodes with four cpus, these of which are taken."""
    return draw(tree, node="cpu=4", running=" ".join(f"{node}:cpu=4" for node in nodes.split()))


@pytest.mark.parametrize("limit", [{"within": 1}, {"within": 2}, {"soft": True}])
def test_the_rack_that_holds_the_surplus_too(limit: dict[str, int]) -> None:
    """Two alike racks, one of which has pod slots for the minimum alone."""
    world = draw(
        "s0: r0[n0 n1] r1[n2 n3]", nodes={"n0": "cpu=4 gpu=2", "n1": "cpu=4", "n2": "cpu=4 gpu=4", "n3": "cpu=4"}
    )
    asked = gang("g", tasks=4, each="gpu=1", minimum=2, **limit)  # type: ignore[arg-type]

    assert {"n2": 4} == placed(allocate(world, asked), "g")


@pytest.mark.parametrize("limit", [{"within": 2}, {"soft": True}])
def test_the_rack_whose_parent_holds_the_surplus(limit: dict[str, int]) -> None:
    """The first rack by name stands beside a full one."""
    world = full("s: (s0: r0[n0] r1[n1]) (s1: r2[n2] r3[n3])", "n1")

    outcome = allocate(world, gang("g", tasks=8, minimum=4, **limit))  # type: ignore[arg-type]

    assert {"n2": 4, "n3": 4} == placed(outcome, "g")


def test_a_parent_beyond_the_limit_is_no_help() -> None:
    """What the gang may never use is not looked at: the name decides."""
    world = full("s: (s0: r0[n0] r1[n1]) (s1: r2[n2] r3[n3])", "n1")

    assert {"n0": 4} == placed(allocate(world, gang("g", tasks=8, minimum=4, within=1)), "g")


def test_the_most_of_the_surplus_where_none_holds_all() -> None:
    """Among racks that hold a part of the surplus, the larger part."""
    world = full("s: (s0: r0[n0] r1[n1]) (s1: r2[n2] r3[n3])", "n1")

    assert {"n2": 4, "n3": 4} == placed(allocate(world, gang("g", tasks=16, minimum=4, within=2)), "g")


@pytest.mark.parametrize(
    "asked",
    [
        gang("g", minimum=4, within=2, groups=(groups(2, 4, within=1),)),
        gang("g", minimum=4, soft=True, groups=(groups(2, 4, within=1),)),
        gang("g", minimum=4, within=2, groups=(groups(1, 4, within=1, name="a"), groups(1, 3, within=1, name="b"))),
    ],
)
def test_further_sub_groups_count_as_surplus(asked: Gang) -> None:
    """The minimum of a job goes where its other sub-groups find a rack as well, alike or not."""
    world = full("s: (s0: r0[n0] r1[n1]) (s1: r2[n2] r3[n3])", "n1")

    assert {"n2", "n3"} == set(placed(allocate(world, asked), "g"))


def test_a_sub_group_with_surplus_of_its_own() -> None:
    """Inside the job's domain, an elastic sub-group goes to the rack that holds all of it."""
    world = draw(
        "s0: r0[n0 n1] r1[n2 n3]", nodes={"n0": "cpu=4 gpu=2", "n1": "cpu=4", "n2": "cpu=4 gpu=4", "n3": "cpu=4"}
    )
    asked = gang("g", minimum=2, within=2, each="gpu=1", groups=(groups(1, 2, 4, within=1),))

    assert {"n2": 4} == placed(allocate(world, asked), "g")


def test_pods_of_several_sizes() -> None:
    """All sizes must find their place for a domain to hold the surplus."""
    world = draw("r0[n0] r1[n1]", nodes={"n0": "cpu=8 gpu=1", "n1": "cpu=8 gpu=3"})
    roles = (role("a", 2, "gpu=1", minimum=1), role("b", 2, "cpu=1", minimum=1))

    assert {"n1": 4} == placed(allocate(world, gang("g", minimum=2, within=1, roles=roles)), "g")
