"""Which disruption budgets cover a pod."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierwise.api.core import (
    LabelSelector,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodSpec,
    PodStatus,
    Requirement,
)
from tierwise.snapshot.budgets import Budgets, allowed, covers


@given(pick=st.randoms(use_true_random=False))
def test_the_index_finds_what_a_scan_finds(pick: Random) -> None:
    """Whatever selectors ask for: labels, expressions, everything or nothing."""

    def selector() -> LabelSelector | None:
        match pick.randrange(5):
            case 0:
                return None
            case 1:
                return LabelSelector()
            case 2:
                return LabelSelector(match_expressions=(Requirement(key="a", operator="Exists"),))
            case _:
                return LabelSelector(match_labels={key: pick.choice("xy") for key in pick.sample("abc", 2)})

    records = {
        str(i): PodDisruptionBudget(
            metadata=ObjectMeta(name=str(i), namespace=pick.choice(["", "default", "n"])),
            spec=PodDisruptionBudgetSpec(selector=selector(), min_available=0),
        )
        for i in range(6)
    }
    pods = [
        Pod(
            metadata=ObjectMeta(
                name=str(i),
                namespace=pick.choice(["", "default", "n"]),
                labels={key: pick.choice("xy") for key in pick.sample("abc", pick.randrange(4))},
            )
        )
        for i in range(6)
    ]
    budgets = Budgets(records)

    for pod in pods:
        assert tuple(i for i, record in enumerate(records.values()) if covers(record, pod)) == budgets.of(pod)
    assert (0,) * 6 == allowed(budgets, records, {pod.metadata.name: pod for pod in pods})  # none of the pods runs


def test_a_budget_is_for_its_own_namespace() -> None:
    """One of another namespace that selects everything covers nobody here."""
    record = PodDisruptionBudget(
        metadata=ObjectMeta(name="b", namespace="n"), spec=PodDisruptionBudgetSpec(selector=LabelSelector())
    )

    assert [True, False] == [covers(record, Pod(metadata=ObjectMeta(name="p", namespace=at))) for at in ("n", "m")]


@pytest.mark.parametrize(("terms", "left"), [({"min_available": 3}, 0), ({"max_unavailable": 0}, 0)])
def test_a_budget_that_is_overdrawn_allows_nothing(terms: dict[str, int], left: int) -> None:
    """One of two pods runs: less than the budget asks for is no debt that others could pay."""
    record = PodDisruptionBudget(
        metadata=ObjectMeta(name="b", namespace="n"), spec=PodDisruptionBudgetSpec(selector=LabelSelector(), **terms)
    )
    pods = [
        Pod(metadata=ObjectMeta(name=node, namespace="n"), spec=PodSpec(node_name=node), status=PodStatus(phase=phase))
        for node, phase in (("a", "Running"), ("b", "Failed"))
    ]

    assert (left,) == allowed(Budgets({"n/b": record}), {"n/b": record}, {pod.metadata.name: pod for pod in pods})


@pytest.mark.parametrize(
    ("terms", "left"), [({"min_available": "50%"}, 1), ({"max_unavailable": "50%"}, 2), ({"max_unavailable": "0%"}, 0)]
)
def test_percentages_are_rounded_up(terms: dict[str, str], left: int) -> None:
    """Half of three pods are two of them: so many must stay, or may go."""
    record = PodDisruptionBudget(
        metadata=ObjectMeta(name="b", namespace="n"), spec=PodDisruptionBudgetSpec(selector=LabelSelector(), **terms)
    )
    pods = {
        node: Pod(
            metadata=ObjectMeta(name=node, namespace="n"), spec=PodSpec(node_name=node), status=PodStatus("Running")
        )
        for node in "abc"
    }

    assert (left,) == allowed(Budgets({"n/b": record}), {"n/b": record}, pods)
