"""The six orders of an application, and the cycle that has none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.boutique import CALLS

from tierwise.api.network_aware import algorithm_of
from tierwise.controllers.app_group import ALGORITHMS, cycle, order

TARJAN_FIRST = ("P3", "P6", "P10", "P9", "P8", "P1", "P2", "P4", "P5", "P7", "P11")


@pytest.mark.parametrize(
    ("algorithm", "listed", "expected"),
    [
        ("KahnSort", tuple(CALLS), "P1 P10 P9 P8 P7 P6 P5 P4 P3 P2 P11"),
        ("AlternateKahn", tuple(CALLS), "P1 P11 P10 P2 P9 P3 P8 P4 P7 P5 P6"),
        ("ReverseKahn", tuple(CALLS), "P11 P2 P3 P4 P5 P6 P7 P8 P9 P10 P1"),
        ("TarjanSort", tuple(CALLS), "P1 P10 P9 P8 P7 P5 P6 P4 P3 P2 P11"),
        ("TarjanSort", TARJAN_FIRST, "P1 P8 P7 P5 P4 P2 P11 P9 P10 P6 P3"),
        ("AlternateTarjan", TARJAN_FIRST, "P1 P3 P8 P6 P7 P10 P5 P9 P4 P11 P2"),
        ("ReverseTarjan", TARJAN_FIRST, "P3 P6 P10 P9 P11 P2 P4 P5 P7 P8 P1"),
    ],
)
def test_online_boutique(algorithm: str, listed: tuple[str, ...], expected: str) -> None:
    """The rows of document 002."""
    assert expected.split() == order({name: CALLS[name] for name in listed}, algorithm)


def test_lone_workloads_come_last_whatever_the_algorithm() -> None:
    """In listed order, also where the rest is turned round."""
    graph = {"x": [], "a": ["b"], "y": [], "b": []}

    assert ["b", "a", "x", "y"] == order(graph, "ReverseKahn")
    assert ["a", "b", "x", "y"] == order(graph, "Nosuch")


def test_a_cycle_is_named_from_where_it_is_entered() -> None:
    """Also one of a single workload."""
    assert ["web", "api", "web"] == cycle({"edge": ["web"], "web": ["api"], "api": ["web"]})
    assert ["a", "a"] == cycle({"a": ["a"]})
    assert cycle({"a": ["b", "c"], "b": ["c"], "c": []}) is None


@st.composite
def _graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    """Graphs without cycles, listed in any order."""
    size = draw(st.integers(1, 8))
    edges = {i: draw(st.lists(st.integers(i + 1, size - 1), max_size=4)) if i + 1 < size else [] for i in range(size)}
    listed = draw(st.permutations(range(size)))
    return {f"w{i}": [f"w{j}" for j in edges[i]] for i in listed}


@given(_graphs(), st.sampled_from(sorted(ALGORITHMS)))
def test_orders_hold_every_workload_once_and_callers_first(graph: dict[str, list[str]], algorithm: str) -> None:
    """Callers before callees for Kahn and Tarjan, the other way round for their reverses."""
    found = order(graph, algorithm)
    place = {name: i for i, name in enumerate(found)}
    pairs = [(place[a], place[b]) for a, callees in graph.items() for b in callees]

    assert cycle(graph) is None
    assert sorted(graph) == sorted(found)
    if algorithm.endswith("Sort"):
        assert all(a < b for a, b in pairs)
    elif algorithm.startswith("Reverse"):
        assert all(a > b for a, b in pairs)


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("KahnSort", "KahnSort"),
        ("Kahn", "KahnSort"),
        ("kahn sort", "KahnSort"),
        ("Tarjan", "TarjanSort"),
        ("Reverse Tarjan", "ReverseTarjan"),
        ("ReverseKahn", "ReverseKahn"),
        ("Alternate Kahn", "AlternateKahn"),
        ("alternate-tarjan", "AlternateTarjan"),
        ("Bogosort", ""),
        ("", ""),
    ],
)
def test_algorithms_are_known_however_they_are_spelled(said: str, means: str) -> None:
    """The KEP and the plugin spell them differently."""
    assert means == algorithm_of(said)
