"""Two-level gangs: one domain for the job, one inside it for each sub-group, found together."""

from __future__ import annotations

import pytest
from tests.support.draw import (
    allocate,
    by_group,
    draw,
    gang,
    groups,
    placed,
    waiting,
    why,
)
from tests.support.evict_world import profile_of


def test_each_sub_group_stays_in_one_rack() -> None:
    """Sub-groups with a limit of their own take a rack each."""
    world = draw("s0: r0[n0 n1] r1[n2 n3]")
    outcome = allocate(world, gang("train", each="cpu=8", within=2, groups=(groups(2, size=2, within=1),)))

    assert {"part-0": "n0 n1", "part-1": "n2 n3"} == by_group(outcome, "train")


def test_the_job_takes_the_tightest_domain_for_all_its_sub_groups() -> None:
    """A spine that holds one sub-group too few is passed over."""
    world = draw("z0: (s0: r0[n0 n1] r1[n2]) (s1: r2[n3 n4] r3[n5 n6])")
    outcome = allocate(world, gang("train", each="cpu=8", within=3, groups=(groups(2, size=2, within=1),)))

    assert {"part-0": "n3 n4", "part-1": "n5 n6"} == by_group(outcome, "train")


def test_several_sub_groups_share_a_rack() -> None:
    """Where a rack holds more than one sub-group the job fits it as a whole."""
    world = draw("s0: r0[n0 n1] r1[n2 n3 n4 n5]")
    outcome = allocate(world, gang("train", each="cpu=8", within=2, groups=(groups(2, size=2, within=1),)))

    assert {"part-0": "n2 n3", "part-1": "n4 n5"} == by_group(outcome, "train")


def test_look_ahead_for_unlike_sizes() -> None:
    """Small sub-groups leave the only fitting rack to the large one, though each alone would have taken it."""
    world = draw("s0: r0[n0 n1 n2] r1[n3 n4 n5 n6]")
    small, large = groups(2, size=2, within=1, name="small"), groups(1, size=3, within=1, name="xl")
    outcome = allocate(world, gang("train", each="cpu=8", within=2, groups=(small, large)))

    assert {"small-0": "n3 n4", "small-1": "n5 n6", "xl-0": "n0 n1 n2"} == by_group(outcome, "train")


def test_look_ahead_for_unlike_limits() -> None:
    """A sub-group that may span the spine makes way for one that needs a rack."""
    world = draw("s0: r0[n0 n1] r1[n2] r2[n3]")
    wide, tight = groups(1, size=2, within=2, name="wide"), groups(1, size=2, within=1, name="tight")
    outcome = allocate(world, gang("train", each="cpu=8", within=2, groups=(wide, tight)))

    assert {"wide-0": "n2 n3", "tight-0": "n0 n1"} == by_group(outcome, "train")


def test_backtracking_for_several_classes() -> None:
    """A sub-group that could go anywhere makes way for one of another class that could not."""
    world = draw("s0: r0[n0] r1[n1]", nodes={"n0": "cpu=8 gpu=1", "n1": "cpu=8"})
    plain, picky = groups(1, size=1, within=1, name="any"), groups(1, size=1, within=1, each="cpu=8 gpu=1", name="gpu")
    outcome = allocate(world, gang("train", each="cpu=8", within=2, groups=(plain, picky)))

    assert {"any-0": "n1", "gpu-0": "n0"} == by_group(outcome, "train")


def test_nothing_where_one_sub_group_finds_no_place() -> None:
    """A job that needs all its sub-groups starts none without the last."""
    world = draw("s0: r0[n0 n1] r1[n2]")
    outcome = allocate(world, gang("train", each="cpu=8", within=2, groups=(groups(2, size=2, within=1),)))

    assert ({}, "LargerThanAnyDomain") == (placed(outcome, "train"), why(outcome, "train"))


def test_the_reason_names_the_sub_group_that_fits_nowhere() -> None:
    """A sub-group larger than every rack is told apart from a lack of room for all."""
    world = draw("s0: r0[n0 n1] r1[n2]")
    outcome = allocate(world, gang("train", each="cpu=8", within=2, groups=(groups(1, size=3, within=1),)))

    assert ["LargerThanAnyDomain", "SubGroupDoesNotFit"] == list(outcome.report.rejections["default/train"].codes())


def test_minimum_number_of_sub_groups() -> None:
    """A job starts with minSubGroups of them; one that finds no place waits without holding the others."""
    world = draw("s0: r0[n0 n1] r1[n2 n3] r2[n4]")
    three = gang("train", each="cpu=8", within=2, minimum=4, groups=(groups(3, size=2, within=1, minimum=2),))
    outcome = allocate(world, three)

    assert {"part-0": "n0 n1", "part-1": "n2 n3"} == by_group(outcome, "train")
    assert "NotEnoughResources" == why(outcome, "train")


def test_too_few_sub_groups() -> None:
    """Below minSubGroups nothing starts, though minMember would be met."""
    world = draw("s0: r0[n0 n1] r1[n2]")
    outcome = allocate(
        world, gang("train", each="cpu=8", within=2, minimum=2, groups=(groups(3, size=2, within=1, minimum=2),))
    )

    assert {} == placed(outcome, "train")


def test_minimum_below_the_sum_of_sub_groups() -> None:
    """Where only minMember counts, one sub-group is enough to start."""
    world = draw("s0: r0[n0 n1] r1[n2]")
    outcome = allocate(world, gang("train", each="cpu=8", within=2, minimum=2, groups=(groups(2, size=2, within=1),)))

    assert {"part-0": "n0 n1"} == by_group(outcome, "train")


def test_required_policies_come_first() -> None:
    """Sub-groups that a policy's minimum needs are placed before others, whatever their order."""
    anyone, needed = groups(2, size=2, within=1, name="a"), groups(1, size=2, within=1, minimum=1, name="b")
    outcome = allocate(draw("r0[n0 n1]"), gang("train", each="cpu=8", minimum=2, groups=(anyone, needed)))

    assert {"b-0": "n0 n1"} == by_group(outcome, "train")


def test_a_spare_stands_in_for_a_sub_group_that_does_not_fit() -> None:
    """Where any sub-groups will do, one that fits is taken in place of an earlier one that does not."""
    large, small = groups(1, size=3, within=1, name="a"), groups(1, size=2, within=1, name="b")
    outcome = allocate(draw("r0[n0 n1]"), gang("train", each="cpu=8", minimum=2, groups=(large, small)))

    assert {"b-0": "n0 n1"} == by_group(outcome, "train")


def test_what_is_not_needed_is_left_out_where_room_is_short() -> None:
    """A choice that goes beyond the minimum does without the pods that the rest covers for."""
    large = groups(1, size=4, name="xl")
    outcome = allocate(draw("r0[n0 n1 n2 n3]"), gang("train", tasks=1, each="cpu=8", minimum=3, groups=(large,)))

    assert {"xl-0": "n0 n1 n2 n3"} == by_group(outcome, "train")


def test_sub_groups_without_a_limit_stay_in_the_jobs_domain() -> None:
    """A policy without a topology of its own is confined by the job's."""
    world = draw("s0: r0[n0 n1 n2] r1[n3 n4 n5 n6]")
    outcome = allocate(world, gang("train", each="cpu=8", within=1, groups=(groups(2, size=2),)))

    assert {"n3": 1, "n4": 1, "n5": 1, "n6": 1} == placed(outcome, "train")


def test_a_wider_limit_than_the_jobs_changes_nothing() -> None:
    """A sub-group never leaves the domain of its job."""
    world = draw("s0: r0[n0 n1] r1[n2 n3]")
    outcome = allocate(world, gang("train", each="cpu=8", within=1, groups=(groups(2, size=2, within=2),)))

    assert {} == placed(outcome, "train")


def test_pods_that_no_policy_takes() -> None:
    """Pods without the policy's label form a sub-group of their own, under the job's limit."""
    world = draw("s0: r0[n0 n1] r1[n2] r2[n3]")
    outcome = allocate(world, gang("train", tasks=2, each="cpu=8", within=2, groups=(groups(1, size=2, within=1),)))

    assert {"part-0": "n0 n1", "train": "n2 n3"} == by_group(outcome, "train")


def test_a_sub_group_with_too_few_pods_waits() -> None:
    """A sub-group that has fewer pods than its size is left out; the others start."""
    world = draw("s0: r0[n0 n1] r1[n2 n3]")
    full, short = groups(1, size=2, within=1), groups(1, size=2, tasks=1, within=1, name="rest")
    outcome = allocate(world, gang("train", each="cpu=8", minimum=2, groups=(full, short)))

    assert {"part-0": "n0 n1"} == by_group(outcome, "train")
    assert "" != why(outcome, "train")


def test_pods_beyond_the_size_stay_with_their_sub_group() -> None:
    """A sub-group's surplus goes where the sub-group stands."""
    world = draw("s0: r0[n0 n1 n2] r1[n3 n4 n5]")
    outcome = allocate(world, gang("train", each="cpu=8", minimum=4, groups=(groups(2, size=2, tasks=3, within=1),)))

    assert {"part-0": "n0 n1 n2", "part-1": "n3 n4 n5"} == by_group(outcome, "train")


def test_surplus_of_any_sub_group_counts_towards_the_job() -> None:
    """Where minMember asks for more than the sizes, whichever sub-group has room for more of its pods adds them."""
    world = draw("r0[n0 n1] r1[n2 n3 n4]")
    first, second = groups(1, size=2, tasks=3, within=1, name="a"), groups(1, size=2, tasks=3, within=1, name="b")
    outcome = allocate(world, gang("train", each="cpu=8", minimum=5, groups=(first, second), on="n0"))

    assert {"a-0": "n1", "b-0": "n2 n3 n4"} == by_group(outcome, "train")


def test_surplus_makes_up_for_a_sub_group_that_is_left_out() -> None:
    """Where two sub-groups together are too many, one of them and its surplus will do."""
    small, large = groups(1, size=2, name="a"), groups(1, size=4, tasks=5, name="b")
    outcome = allocate(draw("r0[n0]", node="cpu=5"), gang("train", minimum=5, groups=(small, large)))

    assert {"b-0": "n0 n0 n0 n0 n0"} == by_group(outcome, "train")


def test_a_pod_group_with_policies_and_no_pods_yet() -> None:
    """A pod group may exist before its pods: it waits, and others go on."""
    empty = gang("early", minimum=2, groups=(groups(0, size=2, minimum=1),))
    outcome = allocate(draw("r0[n0]"), empty, gang("train", tasks=1))

    assert {"n0": 1} == placed(outcome, "train")


def test_groups_that_are_not_needed_refuse_nobody() -> None:
    """Three groups of two find no place; a gang that needs two of its three groups, of the same kind, starts."""
    world = draw("r0[n0 n1]", node="cpu=2")
    needs_all = gang("all", minimum=6, groups=(groups(3, size=2),), created=1)
    needs_two = gang("some", minimum=4, groups=(groups(3, size=2),), created=2)

    assert {"n0": 2, "n1": 2} == placed(allocate(world, needs_all, needs_two), "some")


@pytest.mark.parametrize(("sizes", "expected"), [((2, 1), 1), ((1, 2), 1), ((2, 2), 0), ((3, 2, 1), 1)])
def test_a_gang_may_evict_for_the_smallest_sub_group_that_would_do(sizes: tuple[int, ...], expected: int) -> None:
    """The fewest pods that are enough tell whether a gang is larger than every rack, not those chosen first."""
    parts = tuple(groups(1, size=size, name=f"s{i}") for i, size in enumerate(sizes))
    low = [gang(f"low-{node}", tasks=1, each="cpu=8", on=node) for node in ("n0", "n1")]
    urgent = gang("urgent", each="cpu=8", minimum=1, within=1, priority=9, groups=parts)
    outcome = allocate(draw("r0[n0] r1[n1]"), *low, urgent, profile=profile_of("gangpreempt"))

    assert expected == sum(waiting(outcome, "urgent").values())
