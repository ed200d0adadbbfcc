"""Which pod of a gang goes to which of its nodes: consecutive ranks stand together."""

from __future__ import annotations

from tests.support.draw import (
    allocate,
    by_group,
    draw,
    gang,
    groups,
    role,
    spots,
)


def test_consecutive_ranks_share_a_node() -> None:
    """Ranks fill one node before the next, and one rack before the next."""
    world = draw("s0: r0[n0 n2] r1[n1 n3]", node="cpu=2")
    outcome = allocate(world, gang("train", tasks=8, within=2))

    assert "n0 n0 n2 n2 n1 n1 n3 n3" == spots(outcome, "train")


def test_ranks_follow_natural_names() -> None:
    """Pod 10 comes after pod 9."""
    world = draw("s0: r0[n0] r1[n1]", node="cpu=10")
    outcome = allocate(world, gang("train", tasks=11, within=2))

    assert "n0 n0 n0 n0 n0 n0 n0 n0 n0 n0 n1" == spots(outcome, "train")


def test_the_task_index_comes_before_the_name() -> None:
    """Where pods carry a task index, it is their rank."""
    indexes = {f"train-{i}": {"volcano.sh/task-index": str(3 - i)} for i in range(4)}
    world = draw("s0: r0[n0] r1[n1]", node="cpu=2")
    outcome = allocate(world, gang("train", tasks=4, within=2, labels=indexes))

    assert "n1 n1 n0 n0" == spots(outcome, "train")


def test_ranks_within_sub_groups() -> None:
    """Each sub-group has its own ranks, and sub-groups follow each other."""
    world = draw("s0: r0[n0 n1] r1[n2 n3]", node="cpu=2")
    outcome = allocate(world, gang("train", within=2, groups=(groups(2, size=4, within=1),)))

    assert {"part-0": "n0 n0 n1 n1", "part-1": "n2 n2 n3 n3"} == by_group(outcome, "train")


def test_ranks_within_roles() -> None:
    """Pods of one role are dealt in order, role after role."""
    roles = (role("a", 2, minimum=2), role("b", 2, minimum=2))
    outcome = allocate(draw("s0: r0[n0] r1[n1]", node="cpu=2"), gang("train", within=2, roles=roles))

    assert "n0 n0 n1 n1" == spots(outcome, "train")
