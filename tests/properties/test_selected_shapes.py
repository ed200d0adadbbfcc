"""Which shapes a rule between pods means is looked up by label and namespace, and is what asking each of them gives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.depth import examples

from tierwise.api.core import Requirement
from tierwise.framework.extension import CycleView
from tierwise.model.job import plain_shape
from tierwise.model.pod_terms import NAMESPACE_NAME, PodSelector
from tierwise.plugins.kubernetes.pod_affinity import PodCounts

NAMES = ("a", "b", "c", "d")
TEAMS = {"a": {"team": "x"}, "b": {"team": "x"}, "c": {"team": "y"}, "d": {}}


def conditions(key: str, values: tuple[str, ...]) -> st.SearchStrategy[tuple[Requirement, ...]]:
    """Up to two conditions on labels of these keys and values."""
    listed = st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True).map(tuple)
    some = st.builds(Requirement, key=st.just(key), operator=st.sampled_from(("In", "In", "NotIn")), values=listed)
    there = st.builds(Requirement, key=st.just(key), operator=st.just("Exists"))
    return st.lists(some | there, max_size=2).map(tuple)


selectors = st.builds(
    PodSelector,
    labels=st.none() | conditions("app", ("db", "web", "none")),
    namespaces=st.frozensets(st.sampled_from((*NAMES, "elsewhere")), max_size=2),
    also=st.none() | conditions("team", ("x", "y", "z")) | conditions(NAMESPACE_NAME, NAMES),
)
pods = st.tuples(st.sampled_from(NAMES), st.fixed_dictionaries({}, optional={"app": st.sampled_from(("db", "web"))}))


@given(drawn=st.lists(pods, max_size=30), meant=st.lists(selectors, min_size=8, max_size=12))
@examples(200)
def test_looking_up_equals_asking_every_shape(
    drawn: list[tuple[str, dict[str, str]]], meant: list[PodSelector]
) -> None:
    """Whatever labels and namespaces a rule names, and by whichever labels of theirs."""
    shapes = tuple(
        replace(plain_shape(i, np.array([1]), namespace=name), labels=labels, namespace_labels=TEAMS[name])
        for i, (name, labels) in enumerate(drawn)
    )
    counts = PodCounts(cast(CycleView, SimpleNamespace(snapshot=SimpleNamespace(shapes=shapes))))
    for selector in meant:
        asked = [s.number for s in shapes if selector.matches(s.namespace, s.labels, s.namespace_labels)]

        assert asked == counts.shapes_matching(selector)
