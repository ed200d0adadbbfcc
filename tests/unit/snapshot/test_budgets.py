"""Which disruption budgets cover a pod."""

from collections.abc import Mapping
from random import Random
from typing import TypeVar
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierwise.api.core import (
    LabelSelector,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PodSpec,
    PodStatus,
    Requirement,
)
from tierwise.snapshot.budgets import CoveredPods, allowed, covers

R = TypeVar("R")


def _drawn_selector(pick: Random) -> LabelSelector | None:
    match pick.randrange(5):
        case 0:
            return None
        case 1:
            return LabelSelector()
        case 2:
            return LabelSelector(match_expressions=(Requirement(key="a", operator="Exists"),))
        case _:
            return LabelSelector(match_labels={key: pick.choice("xy") for key in pick.sample("abc", 2)})


def _drawn_budget(pick: Random, name: str) -> PodDisruptionBudget:
    status = PodDisruptionBudgetStatus(disruptions_allowed=7) if pick.random() < 0.3 else None
    namespace = pick.choice(["", "default", "n"])
    spec = PodDisruptionBudgetSpec(selector=_drawn_selector(pick), min_available=pick.choice((0, 1, "50%")))
    return PodDisruptionBudget(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec, status=status)


def _drawn_pod(pick: Random, name: str) -> Pod:
    labels = {key: pick.choice("xy") for key in pick.sample("abc", pick.randrange(4))}
    metadata = ObjectMeta(name=name, namespace=pick.choice(["", "default", "n"]), labels=labels)
    return Pod(metadata=metadata, spec=PodSpec(node_name=pick.choice(["", "x"])), status=PodStatus(phase="Running"))


@given(pick=st.randoms(use_true_random=False))
def test_whoever_follows_changes_knows_what_a_scan_finds(pick: Random) -> None:
    """Whatever selectors ask for: labels, expressions, everything or nothing; pods and budgets come, change and go."""
    follower = CoveredPods()
    records: dict[str, PodDisruptionBudget] = {}
    pods: dict[str, Pod] = {}
    told: dict[str, tuple[str, ...]] = {}
    for _ in range(6):
        latest_pods = {n: _drawn_pod(pick, n) if pick.random() < 0.8 else None for n in _some(pick)}
        latest = {n: _drawn_budget(pick, n) if pick.random() < 0.7 else None for n in _some(pick)}
        pods = _after(pods, latest_pods)
        records = _after(records, latest)
        covering = follower.follow(pods, latest_pods, latest)
        fresh = CoveredPods().follow(pods, {}, records)

        scanned = {
            path: tuple(sorted(n for n, one in records.items() if covers(one, pod))) for path, pod in pods.items()
        }
        assert scanned == {path: covering.of(path) for path in pods} == {path: fresh.of(path) for path in pods}
        assert allowed(fresh, records) == allowed(covering, records)
        others = {path for path, budgets in scanned.items() if told.get(path, ()) != budgets}
        assert others <= covering.changed
        told = scanned


def _some(pick: Random) -> list[str]:
    return pick.sample("123456", pick.randrange(4))


def _after(records: dict[str, R], latest: Mapping[str, R | None]) -> dict[str, R]:
    return {path: one for path, one in {**records, **latest}.items() if one is not None}


def test_a_new_budget_is_held_against_pods_with_its_label_alone() -> None:
    """And a budget without a status counts its pods as they come and go, without looking at the others."""
    pods = {str(i): Pod(metadata=ObjectMeta(name=str(i), labels={"a": str(i % 10)})) for i in range(100)}
    follower = CoveredPods()
    follower.follow(pods, {}, {"b0": _of_label("0")})
    looked: list[Pod] = []

    def noted(record: PodDisruptionBudget, pod: Pod) -> bool:
        looked.append(pod)
        return covers(record, pod)

    with patch("tierwise.snapshot.budgets.covers", noted):
        follower.follow(pods, {}, {"b1": _of_label("1")})
        assert [pods[str(i)] for i in range(1, 100, 10)] == sorted(looked, key=lambda pod: int(pod.metadata.name))
        more = Pod(metadata=ObjectMeta(name="101", labels={"a": "1"}))
        covering = follower.follow({**pods, "101": more}, {"101": more}, {})

    assert more == looked[-1]
    assert 11 == len(looked)
    assert (11, 0) == covering.numbers["b1"]


def _of_label(value: str) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=value), spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"a": value}))
    )


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

    covering = CoveredPods().follow({pod.metadata.name: pod for pod in pods}, {}, {"n/b": record})
    assert {"n/b": left} == allowed(covering, {"n/b": record})


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

    assert {"n/b": left} == allowed(CoveredPods().follow(pods, {}, {"n/b": record}), {"n/b": record})
