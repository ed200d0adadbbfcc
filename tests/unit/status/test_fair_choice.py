"""Which jobs are told first where there are more than are told at a time."""

from __future__ import annotations

from tierwise.status.fair_choice import FairChoice


def test_all_are_chosen_where_they_are_few() -> None:
    """A limit that is not reached changes nothing."""
    choice = FairChoice()

    assert {"a/x", "b/y"} == choice.choose(["a/x", "b/y"], 2)
    assert {"a/x", "b/y"} == choice.choose(["a/x", "b/y"], None)


def test_namespaces_are_chosen_from_in_turn() -> None:
    """One job of a small tenant, and a pod by itself of another, come beside thousands of a large one."""
    many = [f"noisy/j{number}" for number in range(1000)]

    assert {"noisy/j0", "noisy/j1", "quiet/j", "pod calm/p"} == FairChoice().choose([*many, "quiet/j", "pod calm/p"], 4)


def test_those_that_were_chosen_longest_ago_come_first() -> None:
    """Statuses that cannot be written do not keep others of their namespace from being told."""
    choice, keys = FairChoice(), [f"a/{number}" for number in range(5)]

    assert [{"a/0", "a/1"}, {"a/2", "a/3"}, {"a/4", "a/0"}] == [choice.choose(keys, 2) for _ in range(3)]


def test_one_that_comes_is_chosen_before_those_that_were() -> None:
    """Whoever was never told anything does not wait for a second round of the others."""
    choice, keys = FairChoice(), [f"a/{number}" for number in range(4)]
    choice.choose(keys, 2)
    choice.choose(keys, 2)

    assert {"a/new", "a/0"} == choice.choose([*keys, "a/new"], 2)
