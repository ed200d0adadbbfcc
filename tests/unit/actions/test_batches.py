"""Gangs of a queue that are placed together, and gangs whose parts are."""

from __future__ import annotations

from tests.support.draw import Outcome, allocate, draw, gang, placed, role

ONE_SPINE = "s0[r0[n0] r1[n1 n2] r2[n3]]"
ROOM = {"n0": "gpu=1", "n1": "gpu=4", "n2": "gpu=5", "n3": "gpu=1"}


def _started(outcome: Outcome) -> set[str]:
    return {decision.job.key.partition("/")[2] for decision in outcome.report.decisions}


def test_an_earlier_gang_makes_way_for_one_that_could_not_start() -> None:
    """The rack of nine is the only one for a gang of five, and two that are not so choosy come before it."""
    world = draw(ONE_SPINE, nodes=ROOM)
    gangs = [
        gang("a", tasks=2, each="gpu=1", soft=True),
        gang("b", tasks=3, each="gpu=1", soft=True, created=1),
        gang("c", tasks=5, each="gpu=1", within=1, created=2),
    ]

    assert {"a", "b", "c"} == _started(allocate(world, *gangs))


def test_a_more_important_gang_does_not_make_way() -> None:
    """The same, where the ones before it have a higher priority: they keep their rack."""
    world = draw(ONE_SPINE, nodes=ROOM)
    gangs = [
        gang("a", tasks=2, each="gpu=1", soft=True, priority=5),
        gang("b", tasks=3, each="gpu=1", soft=True, created=1, priority=5),
        gang("c", tasks=5, each="gpu=1", within=1, created=2),
    ]

    assert {"a", "b"} == _started(allocate(world, *gangs))


def test_of_equal_racks_an_earlier_gang_leaves_the_one_that_a_later_needs() -> None:
    """Each of both racks holds the first gang, and one of them alone has the memory that the second asks for."""
    world = draw("s0[r0[n0] r1[n1]]", nodes={"n0": "gpu=2 mem=8", "n1": "gpu=2 mem=1"})
    gangs = [
        gang("a", tasks=2, each="gpu=1", within=1),
        gang("b", tasks=2, each="gpu=1,mem=4", within=1, created=1),
    ]
    outcome = allocate(world, *gangs)

    assert ({"n1": 2}, {"n0": 2}) == (placed(outcome, "a"), placed(outcome, "b"))


def test_nobody_is_given_a_wider_place_so_that_a_later_gang_is_closer() -> None:
    """The rack of ten is the first gang's, although two others would be closer together without it."""
    world = draw(
        "s0[r0[n0] r1[n1] r2[n2] r3[n3]] s1[r4[n4] r5[n5]]",
        nodes={"n0": "gpu=3", "n1": "gpu=5", "n2": "gpu=2", "n3": "gpu=2", "n4": "gpu=10", "n5": "gpu=3"},
    )
    gangs = [gang(name, tasks=size, each="gpu=1", soft=True, created=i) for i, (name, size) in enumerate(SIZES)]
    outcome = allocate(world, *gangs)

    assert {"n4": 10} == placed(outcome, "a")


SIZES = (("a", 10), ("b", 9), ("c", 4))


def test_two_roles_share_the_fewest_racks() -> None:
    """The workers fit any two racks, and the drivers one of them: they are chosen for both roles."""
    world = draw("s0[r0[n0] r1[n1] r2[n2]]", nodes={"n0": "gpu=4 cpu=1", "n1": "gpu=4 cpu=1", "n2": "gpu=3 cpu=8"})
    both = gang("a", soft=True, roles=(role("worker", 6, "gpu=1"), role("driver", 2, "cpu=2")))
    outcome = allocate(world, both)

    assert (2, True) == (len(placed(outcome, "a")), "n2" in placed(outcome, "a"))


def test_a_minimum_leaves_its_surplus_the_fewest_racks() -> None:
    """A minimum of four fits the rack of four best, and all ten of the gang fit two racks of five."""
    world = draw("s0[r0[n0] r1[n1] r2[n2]]", nodes={"n0": "gpu=5", "n1": "gpu=4", "n2": "gpu=5"})
    outcome = allocate(world, gang("a", tasks=10, each="gpu=1", soft=True, minimum=4))

    assert {"n0": 5, "n2": 5} == placed(outcome, "a")


def test_alike_gangs_with_roles_are_not_placed_in_other_orders() -> None:
    """Of three alike gangs the earlier one chooses first, whatever form they have: no more is tried than for each."""
    world = draw("s0[r0[n0] r1[n1]]", nodes={"n0": "gpu=3", "n1": "gpu=3"})
    roles = (role("chief", 1, "gpu=1"), role("worker", 1, "gpu=1", minimum=1))
    gangs = [gang(name, within=1, roles=roles, created=i) for i, name in enumerate("abc")]

    looked_at = [allocate(world, *gangs[:number]).report.search_counts.domains for number in (1, 2, 3)]

    assert 3 * looked_at[0] >= looked_at[2]
