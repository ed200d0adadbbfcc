"""What must stand before a gang starts, and what follows once it does."""

from __future__ import annotations

import pytest
from tests.support.draw import (
    allocate,
    draw,
    gang,
    groups,
    placed,
    role,
    spots,
    why,
)


def test_all_or_nothing() -> None:
    """A gang starts no pod where its minimum does not fit."""
    outcome = allocate(draw("r0[n0 n1]"), gang("train", tasks=3, each="cpu=8"))

    assert ({}, "LargerThanAnyDomain") == (placed(outcome, "train"), why(outcome, "train"))


def test_role_minimums() -> None:
    """Every role has its minimum or nothing starts, though the job's own minimum would be met."""
    chief, worker = role("chief", 1, each="gpu=1", minimum=1), role("worker", 3, each="cpu=1", minimum=2)
    both = gang("train", minimum=3, roles=(chief, worker))

    assert {} == placed(allocate(draw("r0[n0]", node="cpu=8"), both), "train")
    assert {"n0": 4} == placed(allocate(draw("r0[n0]", node="cpu=8 gpu=1"), both), "train")


def test_role_minimums_are_placed_before_the_rest() -> None:
    """A gang that must choose takes what its roles need, not merely enough pods."""
    many, few = role("a", 3, minimum=0), role("b", 1, minimum=1)
    outcome = allocate(draw("r0[n0]", node="cpu=2"), gang("train", minimum=2, roles=(many, few)))

    assert {"train-a-0", "train-b-0"} == set(outcome.bindings)


def test_role_minimums_above_the_jobs_are_skipped() -> None:
    """Where the roles' minimums exceed minMember in sum, only minMember counts."""
    chief, worker = role("chief", 1, each="gpu=1", minimum=1), role("worker", 3, each="cpu=1", minimum=2)
    outcome = allocate(draw("r0[n0]", node="cpu=8"), gang("train", minimum=2, roles=(chief, worker)))

    assert {"n0": 3} == placed(outcome, "train")


@pytest.mark.parametrize("large", ["a", "z"])
def test_the_names_of_roles_do_not_decide_whether_a_gang_fits(large: str) -> None:
    """A pod that fits only one way is not locked out by smaller ones whose role is named before its own."""
    roles = (role("m", 2, each="cpu=2"), role(large, 1, each="cpu=3"))
    world = draw("r0[n0 n1]", nodes={"n0": "cpu=3", "n1": "cpu=4"})

    assert {"n0": 1, "n1": 2} == placed(allocate(world, gang("train", within=1, roles=roles)), "train")


def test_too_few_pods_of_a_role() -> None:
    """A gang whose role has fewer pods than its minimum is not tried."""
    workers = role("worker", 1, minimum=2)
    outcome = allocate(draw("r0[n0]"), gang("train", tasks=2, minimum=2, roles=(workers,)))

    assert ({}, "NotEnoughPodsOfTask") == (placed(outcome, "train"), why(outcome, "train"))


def test_too_few_sub_groups_exist() -> None:
    """A gang with fewer whole sub-groups than its policy asks for is not tried."""
    outcome = allocate(draw("r0[n0]"), gang("train", minimum=2, groups=(groups(1, size=2, minimum=2),)))

    assert ({}, "NotEnoughPodsOfTask") == (placed(outcome, "train"), why(outcome, "train"))


def test_sub_groups_of_too_few_pods_do_not_count() -> None:
    """Two sub-groups of one pod each are no sub-group of two, however many pods there are in all."""
    outcome = allocate(draw("r0[n0]"), gang("train", minimum=2, groups=(groups(2, 2, tasks=1, minimum=1),)))

    assert ({}, "NotEnoughPodsOfTask") == (placed(outcome, "train"), why(outcome, "train"))


def test_pods_behind_a_gate_exist() -> None:
    """A role is not short of a pod that only waits for its gate: the other waits with it, for that reason."""
    outcome = allocate(draw("r0[n0]"), gang("train", minimum=2, roles=(role("worker", 2, minimum=2),), on="~"))

    assert {} == placed(outcome, "train")
    assert "NotEnoughPodsOfTask" != why(outcome, "train")


def test_pods_of_one_role_do_not_stand_for_those_of_another() -> None:
    """Where a chief waits for its gate, three workers are pods enough, and start nothing."""
    chief, worker = role("chief", 1, minimum=1), role("worker", 3, minimum=2)
    outcome = allocate(draw("r0[n0]"), gang("train", minimum=3, roles=(chief, worker), on="~"))

    assert {} == placed(outcome, "train")


def test_ended_pods_of_a_role_count() -> None:
    """A worker that has succeeded is one of the two that its role must have."""
    outcome = allocate(draw("r0[n0]"), gang("train", minimum=2, roles=(role("worker", 2, minimum=2),), on="+"))

    assert {"n0": 1} == placed(outcome, "train")


def test_too_few_pods() -> None:
    """A gang with fewer pods than minMember is not tried."""
    outcome = allocate(draw("r0[n0]"), gang("train", tasks=2, minimum=3))

    assert ({}, "NotEnoughTasks") == (placed(outcome, "train"), why(outcome, "train"))


def test_minimum_first() -> None:
    """An elastic gang starts with its minimum where not all of it fits."""
    outcome = allocate(draw("r0[n0 n1]"), gang("train", tasks=3, each="cpu=8", minimum=2))

    assert ({"n0": 1, "n1": 1}, "NotEnoughResources") == (placed(outcome, "train"), why(outcome, "train"))


def test_minimums_of_all_before_the_surplus_of_any() -> None:
    """A gang's surplus waits until the others have had their minimum."""
    outcome = allocate(
        draw("r0[n0 n1 n2 n3]"),
        gang("elastic", tasks=4, each="cpu=8", minimum=1),
        gang("rigid", tasks=2, each="cpu=8", created=1),
    )

    assert (2, 2) == (len(placed(outcome, "elastic")), len(placed(outcome, "rigid")))


def test_the_limit_is_asked_of_the_minimum_only() -> None:
    """Three pods of which one must start are not kept out of racks for two."""
    world = draw("s0: r0[n0 n1] r1[n2 n3]")
    outcome = allocate(world, gang("train", tasks=3, each="cpu=8", minimum=1, within=1))

    assert {"n0": 1, "n1": 1} == placed(outcome, "train")


def test_surplus_stays_near() -> None:
    """Pods beyond the minimum go to the rack of the gang, then to its spine, before a fuller rack elsewhere."""
    world = draw("z0: (s0: r0[n0 n1 n2] r1[n3]) (s1: r2[n4 n5])", running="n4:cpu=6")
    outcome = allocate(world, gang("train", tasks=3, each="cpu=2", minimum=1, within=3, on="n0 -"))

    assert "n0 n0" == spots(outcome, "train")


def test_surplus_widens_tier_by_tier() -> None:
    """Surplus that the rack does not hold stays below the spine."""
    world = draw("z0: (s0: r0[n0] r1[n1]) (s1: r2[n2] r3[n3])")
    outcome = allocate(world, gang("train", tasks=3, each="cpu=8", minimum=1, soft=True, on="n3"))

    assert {"n0": 1, "n2": 1} == placed(outcome, "train")


def test_surplus_keeps_to_the_limit() -> None:
    """Pods beyond the minimum do not leave the domain that the limit allows."""
    world = draw("s0: r0[n0 n1] r1[n2 n3]")
    outcome = allocate(world, gang("train", tasks=3, each="cpu=8", minimum=2, within=1))

    assert ({"n0": 1, "n1": 1}, "NotEnoughResources") == (placed(outcome, "train"), why(outcome, "train"))


def test_running_pods_count() -> None:
    """Pods that run count towards the minimum, so the rest need not all fit."""
    outcome = allocate(draw("r0[n0 n1]"), gang("train", tasks=3, each="cpu=8", minimum=2, on="n0"))

    assert {"n1": 1} == placed(outcome, "train")


def test_succeeded_pods_count() -> None:
    """Pods that have succeeded count towards the minimum and hold nothing."""
    outcome = allocate(draw("r0[n0]"), gang("train", tasks=2, each="cpu=8", on="+"))

    assert "n0" == spots(outcome, "train")


def test_leaving_pods_do_not_count() -> None:
    """Pods on their way out are no longer part of the gang."""
    outcome = allocate(draw("r0[n0 n1]"), gang("train", tasks=2, each="cpu=8", minimum=2, on="n0! -"))

    assert ({}, "NotEnoughTasks") == (placed(outcome, "train"), why(outcome, "train"))


def test_surplus_of_a_refused_gang_does_not_start() -> None:
    """A running sub-group gets no more pods while its job lacks a sub-group that it needs."""
    two = gang("train", minimum=2, groups=(groups(2, size=2, tasks=3, minimum=2),), on="n0 n0 - ~ ~ ~")

    assert {} == placed(allocate(draw("r0[n0]"), two), "train")
