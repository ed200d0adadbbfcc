"""Values that declare what they are made from: made again where an input is another, and only there."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.support.languages import nodes, pod

from tierwise.api.codec import Raw
from tierwise.api.core import Node, Pod
from tierwise.model.arrays import Ints
from tierwise.port import Key, Objects, key_of_raw
from tierwise.snapshot.derive import Each, Facet, Graph, Order, Rows


def changed(objects: Objects, *raws: Raw) -> Objects:
    """The objects with these manifests put."""
    return objects.changed({key_of_raw(raw): raw for raw in raws})


def labelled(name: str, **labels: str) -> Raw:
    """A pod with labels."""
    return pod(name, labels=labels)


def test_a_value_is_made_again_where_its_objects_are_others() -> None:
    """Objects of other types say nothing to it."""
    graph, made = Graph(), list[int]()
    graph.whole(lambda objects: made.append(len(objects.every(Pod))), graph.kinds(Pod))
    objects = changed(Objects(), pod("a"))
    for now in (objects, objects, changed(objects, *nodes({"s": {"r": "n0"}})), changed(objects, pod("b"))):
        graph.read(now)

    assert [1, 2] == made


def test_an_equal_value_stays_and_nothing_behind_it_runs() -> None:
    """The number of pods is the same where one has only become another."""
    graph, made = Graph(), list[int]()
    number = graph.equal(lambda objects: len(objects.every(Pod)), graph.kinds(Pod))
    graph.whole(made.append, number)
    objects = changed(Objects(), pod("a"))
    for now in (objects, changed(objects, labelled("a", app="x")), changed(objects, pod("b"))):
        graph.read(now)

    assert [1, 2] == made


def test_fields_that_are_not_declared_change_nothing() -> None:
    """A facet names the fields that somebody looks at."""
    graph, made = Graph(), list[list[str]]()
    graph.whole(lambda records: made.append([*records]), graph.records(Pod, Facet("metadata.labels")))
    objects = changed(Objects(), labelled("a", app="x"))
    for now in (objects, changed(objects, pod("a", on="n0", labels={"app": "x"})), changed(objects, pod("a"))):
        graph.read(now)

    assert [["default/a"], ["default/a"]] == made


def test_only_records_that_are_others_are_looked_at() -> None:
    """The rest keep their values, in the order of their names whoever came first."""
    graph, seen = Graph(), list[str]()

    def read(record: Pod) -> str:
        seen.append(record.metadata.name)
        return record.metadata.labels.get("app", "")

    each = Each(graph.records(Pod), read)
    objects = changed(Objects(), labelled("b", app="x"), labelled("c", app="y"))
    graph.read(objects)
    graph.read(changed(objects, labelled("a", app="y")))

    assert ["b", "c", "a"] == seen
    assert {"default/a": "y", "default/b": "x", "default/c": "y"} == each.value
    assert [*each.value] == sorted(each.value)


def test_a_set_of_values_is_another_with_the_last_of_its_kind() -> None:
    """One of several that goes changes nothing."""
    graph = Graph()
    each = Each(graph.records(Pod), attrgetter("metadata.labels"))
    apps = graph.equal(lambda found: {labels["app"] for labels in found.values()}, each)
    objects = changed(Objects(), labelled("a", app="x"), labelled("b", app="x"), labelled("c", app="y"))
    found = []
    for gone in ((), ("a",), ("a", "b")):
        graph.read(objects.changed({}, [Key("", "Pod", "default", name) for name in gone]))
        found.append((sorted(apps.value), apps.changed))

    assert [(["x", "y"], True), (["x", "y"], False), (["y"], True)] == found


@pytest.mark.parametrize("seed", range(10))
def test_columns_are_what_reading_all_rows_gives(seed: int) -> None:
    """Rows move, come, go and change at once."""
    pick, graph = Random(seed), Graph()
    records = graph.records(Node)
    shift = graph.equal(lambda objects: len(objects.every(Pod)) % 2, graph.kinds(Pod))
    last: list[Order] = []

    def ordered(_: Any) -> Order:
        last[:] = [Order(tuple(pick.sample([*records.value], len(records.value))), last[0] if last else None)]
        return last[0]

    def read(labels: Sequence[dict[str, str]], by: int) -> Ints:
        return np.array([int(label["app"]) + by for label in labels], dtype=np.int64)

    order = graph.whole(ordered, records)
    each = Each(records, attrgetter("metadata.labels"))
    column = Rows(order, each, read, shift)
    patched = Rows(order, each, read, shift, patch=lambda made, was, by: made - was[0] + by[0])
    objects = Objects()
    for step in range(8):
        names = pick.sample("abcdefgh", pick.randrange(4))
        raws: list[Raw] = [
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"app": str(pick.randrange(9))}}}
            for name in names
        ]
        gone = [Key("", "Node", "", name) for name in pick.sample("abcdefgh", 2) if name not in names]
        objects = changed(objects, *raws, *([pod(f"p{step}")] if pick.random() < 0.5 else [])).changed({}, gone)
        graph.read(objects)
        whole = read([each.value[name] for name in order.value.names], shift.value)

        assert whole.tolist() == column.value.tolist() == patched.value.tolist()


def test_a_function_that_raises_empties_the_graph() -> None:
    """The next reading begins from nothing, as if it were the first."""
    graph, fails = Graph(), [False]

    def check(values: dict[str, str]) -> int:
        if fails[0]:
            raise ValueError("no")
        return len(values)

    each = Each(graph.records(Pod), attrgetter("metadata.name"))
    number = graph.whole(check, each)
    memory = graph.follow(list[int], lambda last, _: (last.append(1), len(last))[1], each)
    objects = changed(Objects(), pod("a"))
    graph.read(objects)
    fails[0] = True
    with pytest.raises(ValueError, match="no"):
        graph.read(changed(objects, pod("b")))
    fails[0] = False
    graph.read(changed(objects, pod("c"), pod("d")))

    assert (3, 1) == (number.value, memory.value)
    assert ["a", "c", "d"] == [*each.value.values()]
