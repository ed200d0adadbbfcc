"""Gangs that required pod affinity ties to the place of their first pod."""

from __future__ import annotations

import pytest
from tests.support.affinity import HOST, ZONE, near, only_for, tied, zoned
from tests.support.draw import Gang, allocate, draw, gang, groups, placed, role, spots, waiting

from tierwise.api.codec import Raw


@pytest.mark.parametrize("larger", ["n0", "n1", "n2"])
def test_the_node_that_holds_all_is_found(larger: str) -> None:
    """Whichever node scores best for one pod."""
    world = draw("n0 n1 n2", node="cpu=3", nodes={larger: "cpu=4"})

    assert {larger: 2} == placed(allocate(world, tied("g", 2)), "g")


def test_the_zone_that_holds_all_is_found() -> None:
    """The first pod does not choose a zone that is too small for the others."""
    world = draw("n0 n1 n2 n3 n4", node="cpu=4", running="n0:cpu=2 n1:cpu=2")
    world = zoned(world, {"n0": "a", "n1": "a", "n2": "b", "n3": "b"})

    outcome = allocate(world, tied("g", 4, key=ZONE))

    assert {"n2": 2, "n3": 2} == placed(outcome, "g")


def test_a_gang_that_no_place_holds_waits() -> None:
    """Not even a part of it starts, and nothing is left behind on the ledger."""
    world = draw("n0 n1", node="cpu=4")

    outcome = allocate(world, tied("g", 3), gang("other", tasks=4, each="cpu=2"))

    assert ({}, {"n0": 2, "n1": 2}) == (placed(outcome, "g"), placed(outcome, "other"))


def test_workers_go_where_their_leader_has_room_for_them() -> None:
    """The leader has no affinity and would fit anywhere; its workers come first by name and by size."""
    world = draw("n0 n1 n2", nodes={"n0": "cpu=3", "n1": "cpu=5", "n2": "cpu=2"})
    labels = {"g-zeta-0": {"app": "leader"}}
    follows = near(app="leader")
    roles = (role("alpha", 2, "cpu=2"), role("zeta", 1, "cpu=1"))

    outcome = allocate(world, only_for("alpha", gang("g", roles=roles, labels=labels), follows))

    assert {"n1": 3} == placed(outcome, "g")


@pytest.mark.parametrize("larger", ["n0", "n1", "n2"])
def test_one_place_is_tried_after_the_other(larger: str) -> None:
    """Every node holds the workers; only one holds their leader beside them."""
    world = draw("n0 n1 n2", node="cpu=4", nodes={larger: "cpu=5"})
    roles = (role("alpha", 2, "cpu=2"), role("zeta", 1, "cpu=1"))
    whole = gang("g", roles=roles, labels={"g-zeta-0": {"app": "leader"}})

    assert {larger: 3} == placed(allocate(world, only_for("alpha", whole, near(app="leader"))), "g")


def test_the_minimum_is_enough() -> None:
    """A gang that may start with fewer pods starts where these fit."""
    world = draw("n0 n1", nodes={"n0": "cpu=3", "n1": "cpu=5"})

    assert {"n1": 2} == placed(allocate(world, tied("g", 4, minimum=2)), "g")


def test_the_place_is_inside_the_domain() -> None:
    """A larger node in another rack does not help a gang that must stay in the rack of its pods."""
    world = draw("r0[n0 n1] r1[n2]", nodes={"n0": "cpu=3", "n1": "cpu=4", "n2": "cpu=3"})

    assert {"n1": 2} == placed(allocate(world, tied("g", 2, within=1)), "g")


def _sub_groups(within: int | None = None, **spec: object) -> Gang:
    """Two sub-groups of two pods with the label app=g."""
    labels = {f"g-part-{i}-{j}": {"app": "g"} for i in range(2) for j in range(2)}
    parts = (groups(2, 2, each="cpu=2", within=within, minimum=2),)
    return gang("g", groups=parts, labels=labels, spec=spec)


@pytest.mark.parametrize("within", [None, 1])
def test_sub_groups_that_are_tied_share_a_place(within: int | None) -> None:
    """Each of them would find a zone, but only one zone holds both."""
    world = draw("r0[n0] r1[n1] r2[n2] r3[n3]", nodes={"n0": "cpu=4", "n1": "cpu=2", "n2": "cpu=4", "n3": "cpu=4"})
    world = zoned(world, {"n0": "a", "n1": "a", "n2": "b", "n3": "b"})

    assert {"n2": 2, "n3": 2} == placed(allocate(world, _sub_groups(within, **near(ZONE, app="g"))), "g")


def test_sub_groups_are_placed_in_turn_where_their_order_decides() -> None:
    """A pod of each in turn is even at every step; one sub-group after the other is not."""
    world = draw("r0[n0] r1[n1]", nodes={"n0": "cpu=4", "n1": "cpu=4"})
    even: Raw = {
        "maxSkew": 1,
        "topologyKey": HOST,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "g"}},
    }

    outcome = allocate(world, _sub_groups(1, topologySpreadConstraints=[even]))

    assert {"n0": 2, "n1": 2} == placed(outcome, "g")


def test_room_that_is_being_released_counts() -> None:
    """The gang is nominated as a whole where its place becomes free."""
    world = draw("n0 n1", nodes={"n0": "cpu=3", "n1": "cpu=4"})

    outcome = allocate(world, tied("g", 2), gang("old", tasks=1, each="cpu=2", on="n1!"))

    assert ({}, {"n1": 2}) == (placed(outcome, "g"), waiting(outcome, "g"))


def test_pods_stay_in_the_order_of_their_ranks() -> None:
    """Consecutive pods share a node, wherever the first of them was tried."""
    world = draw("n0 n1 n2 n3", node="cpu=4", running="n0:cpu=3 n1:cpu=2")
    world = zoned(world, {"n0": "a", "n1": "a", "n2": "b", "n3": "b"})

    assert "n2 n2 n3 n3" == spots(allocate(world, tied("g", 4, key=ZONE)), "g")
