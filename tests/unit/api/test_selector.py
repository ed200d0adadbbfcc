"""Label selectors, requirements and the natural order of names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierwise.api.core import LabelSelector, Requirement
from tierwise.api.natural import natural
from tierwise.api.selector import holds, matches, selects_nothing

LABELS = {"app": "web", "tier": "front"}


def needs(operator: str, *values: str, key: str = "app") -> Requirement:
    """A requirement on a key."""
    return Requirement(key=key, operator=operator, values=values)


@pytest.mark.parametrize(
    ("requirement", "value", "expected"),
    [
        (needs("In", "a", "b"), "a", True),
        (needs("In", "a", "b"), "c", False),
        (needs("In", "a"), None, False),
        (needs("In"), "a", False),
        (needs("NotIn", "a"), "b", True),
        (needs("NotIn", "a"), "a", False),
        (needs("NotIn", "a"), None, True),
        (needs("NotIn"), "a", False),
        (needs("Exists"), "", True),
        (needs("Exists"), None, False),
        (needs("Exists", "a"), "a", False),
        (needs("DoesNotExist"), None, True),
        (needs("DoesNotExist"), "a", False),
        (needs("DoesNotExist", "a"), None, False),
        (needs("Gt", "5"), "6", True),
        (needs("Gt", "5"), "5", False),
        (needs("Lt", "5"), "-6", True),
        (needs("Lt", "5"), "05", False),
        (needs("Gt", "5"), None, False),
        (needs("Gt", "5"), "many", False),
        (needs("Gt", "few"), "6", False),
        (needs("Gt", "5", "6"), "7", False),
        (needs("Gt", "5"), "99999999999999999999", False),
        (needs("in", "a"), "a", False),
        (needs(""), "a", False),
    ],
)
def test_a_requirement_holds(requirement: Requirement, value: str | None, expected: bool) -> None:
    """Operators mean what they mean to Kubernetes; a malformed requirement holds for nothing."""
    assert expected == holds(requirement, value)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (LabelSelector(), True),
        (LabelSelector(match_labels={"app": "web"}), True),
        (LabelSelector(match_labels={"app": "web", "tier": "back"}), False),
        (LabelSelector(match_labels={"zone": ""}), False),
        (LabelSelector(match_expressions=(needs("In", "web"), needs("Exists", key="tier"))), True),
        (LabelSelector(match_expressions=(needs("In", "web"), needs("Exists", key="zone"))), False),
        (LabelSelector(match_labels={"app": "web"}, match_expressions=(needs("NotIn", "web"),)), False),
        (LabelSelector(match_expressions=(needs("Gt", "1", key="size"),)), False),
    ],
)
def test_a_selector_matches_when_all_conditions_hold(selector: LabelSelector, expected: bool) -> None:
    """Labels and expressions are all needed; an empty selector matches everything."""
    assert expected == matches(selector, LABELS)


def test_comparing_operators_are_for_nodes_only() -> None:
    """Gt in a label selector matches nothing, although it holds as a node requirement."""
    bigger = needs("Gt", "1", key="size")

    assert holds(bigger, "2")
    assert not matches(LabelSelector(match_expressions=(bigger,)), {"size": "2"})


def test_no_selector_means_what_the_caller_says() -> None:
    """Nothing by default, everything where the caller reads absence as no restriction."""
    assert (False, True) == (matches(None, LABELS), matches(None, LABELS, absent=True))


def test_a_selector_without_conditions_is_recognised() -> None:
    """Volcano reads an empty selector as no node: absent and empty look the same to it."""
    found = [selects_nothing(selector) for selector in (None, LabelSelector(), LabelSelector(match_labels={"a": ""}))]

    assert [True, True, False] == found


def test_names_sort_as_people_count() -> None:
    """Runs of digits compare as numbers, however long; leading zeros only break ties."""
    names = ["n10", "n2", "n02", "n1", "n", "m99", "n2a10", "n2a9", "n" + "9" * 5000]

    assert ["m99", "n", "n1", "n02", "n2", "n2a9", "n2a10", "n10", "n" + "9" * 5000] == sorted(names, key=natural)


@given(st.lists(st.text("ab019-é٣", max_size=6), max_size=8))
def test_the_order_of_names_is_total(names: list[str]) -> None:
    """Different names never compare equal, so any shuffle sorts the same."""
    backwards = names[::-1]

    assert sorted(names, key=natural) == sorted(backwards, key=natural)
    assert len(set(names)) == len({natural(name) for name in names})
