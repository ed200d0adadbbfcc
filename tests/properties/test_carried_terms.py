"""Pods that carry terms about a shape are counted as asking each term about each shape would count them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.depth import examples

from tierwise.api.core import Requirement
from tierwise.framework.extension import CycleView
from tierwise.framework.ledger import Tally
from tierwise.model.job import Shape, plain_shape
from tierwise.model.pod_terms import PodSelector
from tierwise.plugins.kubernetes.pod_affinity import Count, PodCounts

RACKS = np.array([0, 0, 1, 1, 2, -1])
KEYS = ("rack", "zone")
ALL = frozenset(range(64))

Term = tuple[int, PodSelector, str, int]


def shapes_of(drawn: list[tuple[str, dict[str, str]]]) -> tuple[Shape, ...]:
    """One shape for each of these namespaces and labels."""
    return tuple(
        replace(plain_shape(i, np.array([1]), namespace=name), labels=labels) for i, (name, labels) in enumerate(drawn)
    )


def counts_of(shapes: tuple[Shape, ...]) -> PodCounts:
    """Counts of a cluster of six nodes, on one of which a pod of each shape runs."""
    held = {shape.number: np.array([shape.number % len(RACKS)]) for shape in shapes}

    def tally(registered: Tally) -> None:
        for number, weight in registered.weights.items():
            for bucket in registered.bucket[held[number]].tolist():
                registered.values[bucket] += weight if bucket >= 0 else 0

    view: Any = SimpleNamespace(
        snapshot=SimpleNamespace(shapes=shapes), ledger=SimpleNamespace(tally=tally, leaving={}), nodes=()
    )
    counts = PodCounts(cast(CycleView, view))
    counts._places.update({"rack": (RACKS, 3), "zone": (np.minimum(RACKS, 1), 2)})
    return counts


def obvious(shapes: tuple[Shape, ...], terms: list[Term], shape: Shape, key: str) -> list[int]:
    """What pods at each value of a label weigh that carry a term about a shape."""
    places = RACKS if key == "rack" else np.minimum(RACKS, 1)
    found = [0] * (4 if key == "rack" else 3)
    for number, selector, at, weight in terms:
        place = int(places[number % len(RACKS)])
        if at == key and place >= 0 and selector.matches(shape.namespace, shape.labels):
            found[place] += weight
    return found


apps, groups = ("db", "web"), tuple(f"g{i}" for i in range(5))
pods = st.tuples(
    st.sampled_from("ab"),
    st.fixed_dictionaries({}, optional={"app": st.sampled_from(apps), "group": st.sampled_from(groups)}),
)
values = st.lists(st.sampled_from((*groups, "none")), min_size=1, max_size=3, unique=True).map(tuple)
conditions = st.lists(
    st.builds(Requirement, key=st.just("group"), operator=st.sampled_from(("In", "NotIn", "NotIn")), values=values)
    | st.builds(
        Requirement, key=st.sampled_from(("app", "group")), operator=st.sampled_from(("Exists", "DoesNotExist"))
    )
    | st.builds(Requirement, key=st.just("app"), operator=st.sampled_from(("In", "NotIn")), values=st.just(("db",))),
    max_size=3,
).map(tuple)
selectors = st.builds(
    PodSelector,
    labels=st.none() | conditions,
    namespaces=st.frozensets(st.sampled_from("abc"), max_size=2),
    also=st.none() | st.just(()),
)


@given(drawn=st.lists(pods, min_size=1, max_size=24), data=st.data(), lifted=st.integers(0, 3))
@examples(200)
def test_counts_equal_asking_each_term(
    drawn: list[tuple[str, dict[str, str]]], data: st.DataObject, lifted: int
) -> None:
    """For each shape and label, whatever terms leave out, and however many they may leave out."""
    shapes = shapes_of(drawn)
    one = st.tuples(st.integers(0, len(shapes) - 1), selectors, st.sampled_from(KEYS), st.integers(1, 3))
    terms = data.draw(st.lists(one, max_size=12))
    wanted = data.draw(st.sets(st.integers(0, len(shapes) - 1)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tierwise.plugins.kubernetes.pod_affinity._LIFTED", lifted)
        found = counts_of(shapes).carrying(terms, wanted)

    assert set(found) <= wanted
    for number in wanted:
        told = {"rack": [0, 0, 0, 0], "zone": [0, 0, 0]}
        for count in found.get(number, ()):
            told["rack" if count.place is RACKS else "zone"] = count.values.tolist()
            meaning = [n for n, s, _, _ in terms if s.matches(shapes[number].namespace, shapes[number].labels)]
            assert count.of(ALL) <= set(meaning)
        assert told == {key: obvious(shapes, terms, shapes[number], key) for key in KEYS}
        met = any(s.matches(shapes[number].namespace, shapes[number].labels) for _, s, _, _ in terms)
        assert (number in found) == met


@given(drawn=st.lists(pods, min_size=1, max_size=24), meant=st.lists(selectors, min_size=4, max_size=8))
@examples(200)
def test_pods_that_match_are_counted_once(drawn: list[tuple[str, dict[str, str]]], meant: list[PodSelector]) -> None:
    """Also where they are all of a label but a few: by value, by shape, and whether there are others."""
    shapes = shapes_of(drawn)
    counts = counts_of(shapes)
    for selector in meant:
        count: Count = counts.matching((selector,), "rack")
        numbers = {s.number for s in shapes if selector.matches(s.namespace, s.labels)}
        places = [int(RACKS[number % len(RACKS)]) for number in numbers]

        assert [places.count(place) for place in range(3)] == count.values[:-1].tolist()
        assert count.of(ALL) == numbers
        assert count.counts_beyond(frozenset((0, 1))) == bool(numbers - {0, 1})
        assert counts.means_any(selector) == bool(numbers)


@pytest.mark.parametrize("groups", [50, 400])
def test_groups_that_keep_apart_are_not_compared_with_each_other(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each group keeps away from all groups but itself: a few comparisons for each, however many there are."""
    shapes = shapes_of([("a", {"group": f"g{i}"}) for i in range(groups)])
    there = Requirement(key="group", operator="Exists")
    own = [Requirement(key="group", operator="NotIn", values=(f"g{i}",)) for i in range(groups)]
    terms = [(i, PodSelector((there, own[i]), frozenset("a"), None), "rack", 1) for i in range(groups)]
    compared: list[PodSelector] = []
    matches = PodSelector.matches

    def counted(selector: PodSelector, *given: Any) -> bool:
        compared.append(selector)
        return matches(selector, *given)

    monkeypatch.setattr(PodSelector, "matches", counted)

    counts = counts_of(shapes)
    found = counts.carrying(terms, set(range(groups)))
    mine = [counts.matching((selector,), "rack") for _, selector, _, _ in terms]

    assert len(found) == len(mine) == groups
    assert len(compared) <= 4 * groups
    assert sum(count.tallies for count in mine) == 2 * groups


@pytest.mark.parametrize("groups", [8, 40])
def test_pods_that_keep_apart_by_two_shared_labels_are_few_tallies(
    groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pod keeps away from those of other groups and other places in them: three tallies for it, shared or not."""
    shapes = shapes_of([("a", {"group": f"g{i}", "app": f"w{j}"}) for i in range(groups) for j in range(groups)])
    there, registered = Requirement(key="group", operator="Exists"), list[Tally]()
    terms = []
    for shape in shapes:
        own = [Requirement(key=key, operator="NotIn", values=(shape.labels[key],)) for key in ("app", "group")]
        terms.append((shape.number, PodSelector((there, *own), frozenset("a"), None), "rack", 1))
    counts = counts_of(shapes)
    ledger = counts._view.ledger
    tally = ledger.tally

    def noted(one: Tally) -> None:
        registered.append(one)
        tally(one)

    monkeypatch.setattr(ledger, "tally", noted)

    found = counts.carrying(terms, set(range(len(shapes))))
    for _, selector, _, _ in terms:
        assert 4 == counts.matching((selector,), "rack").tallies

    assert all(4 == count.tallies for each in found.values() for count in each)
    assert sum(len(one.weights) for one in registered) <= 8 * len(shapes)
