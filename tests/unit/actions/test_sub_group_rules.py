"""Which pods form a sub-group, and in which order sub-groups have their turn."""

from __future__ import annotations

from tests.support.draw import (
    allocate,
    by_group,
    draw,
    gang,
    groups,
    placed,
    spots,
)


def test_the_first_policy_that_matches_takes_the_pod() -> None:
    """A pod with the labels of two policies belongs to the first, and stays in that one's rack."""
    both = {f"train-a-0-{i}": {"b": str(i)} for i in range(2)}
    policies = (groups(1, size=2, within=1, name="a"), groups(0, size=1, within=1, name="b"))
    outcome = allocate(draw("s0: r0[n0] r1[n1]"), gang("train", each="cpu=8", groups=policies, labels=both))

    assert {} == placed(outcome, "train")


def test_a_policy_without_label_keys_makes_one_sub_group() -> None:
    """All pods that it selects, and its limit holds for them, though the job's is wider."""
    loose = groups(1, size=2, within=1, keyed=False)
    apart = allocate(draw("s0: r0[n0] r1[n1]"), gang("train", each="cpu=8", within=2, groups=(loose,)))
    together = allocate(draw("s0: r0[n0] r1[n1 n2]"), gang("train", each="cpu=8", within=2, groups=(loose,)))

    assert {} == placed(apart, "train")
    assert {"n1": 1, "n2": 1} == placed(together, "train")


def test_sub_groups_have_their_turn_by_index() -> None:
    """Where not all sub-groups find room, 2 comes before 10."""
    many = gang("train", each="cpu=8", minimum=3, groups=(groups(11, size=1, within=1),))
    outcome = allocate(draw("r0[n0 n1 n2]"), many)

    assert {"part-0", "part-1", "part-2"} == set(by_group(outcome, "train"))


def test_sub_groups_that_stand_have_their_turn_last() -> None:
    """A sub-group without its minimum goes before the surplus of one that has it."""
    two = gang("train", each="cpu=8", minimum=1, groups=(groups(2, size=1, tasks=2, within=1),), on="n0")
    outcome = allocate(draw("r0[n0 n1]"), two)

    assert {"part-1": "n1"} == by_group(outcome, "train")


def test_the_rest_is_confined_by_the_job() -> None:
    """Pods outside every policy keep to the job's own limit."""
    world = draw("s0: r0[n0 n1] r1[n2]")
    outcome = allocate(world, gang("train", tasks=2, each="cpu=8", within=1, groups=(groups(1, size=1, within=1),)))

    assert "" == spots(outcome, "train")


def test_order_of_equal_sub_groups_never_depends_on_the_objects_order() -> None:
    """Policies are told apart by name where nothing else decides."""
    one, other = groups(1, size=1, within=1, name="a"), groups(1, size=1, within=1, name="b")
    first = allocate(draw("r0[n0]"), gang("train", each="cpu=8", minimum=1, groups=(one, other)))
    second = allocate(draw("r0[n0]"), gang("train", each="cpu=8", minimum=1, groups=(other, one)))

    assert {"a-0": "n0"} == by_group(first, "train") == by_group(second, "train")
