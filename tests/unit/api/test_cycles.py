"""Cycles in what names depend on, and how much work it is to find them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierwise.api.cycles import cycle_text, find_cycles

NAMES = "abcdefgh"
GRAPHS = st.dictionaries(st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), max_size=4))


class _Counted(Mapping[str, Sequence[str]]):
    """A graph that counts how many dependencies were read."""

    def __init__(self, graph: Mapping[str, Sequence[str]]) -> None:
        self._graph = graph
        self.read = 0

    def __getitem__(self, name: str) -> Sequence[str]:
        self.read += len(self._graph[name])
        return self._graph[name]

    def __contains__(self, name: object) -> bool:
        return name in self._graph

    def __iter__(self) -> Iterator[str]:
        return iter(self._graph)

    def __len__(self) -> int:
        return len(self._graph)


def _sortable(graph: Mapping[str, Sequence[str]]) -> bool:
    try:
        TopologicalSorter({name: [o for o in others if o in graph] for name, others in graph.items()}).prepare()
    except CycleError:
        return False
    return True


@given(GRAPHS)
def test_there_are_cycles_where_names_cannot_be_sorted(graph: dict[str, list[str]]) -> None:
    """Those returned are cycles of the graph, and no name is in two of them; without them all can be sorted."""
    cycles = find_cycles(graph)

    assert _sortable(graph) == (not cycles)
    for cycle in cycles:
        assert all(later in graph[earlier] for earlier, later in pairwise([*cycle, cycle[0]]))
    named = [name for cycle in cycles for name in cycle]
    assert sorted(set(named)) == sorted(named)


@given(GRAPHS)
def test_names_that_depend_on_each_other_have_a_cycle(graph: dict[str, list[str]]) -> None:
    """Without the names of the cycles, and what depends on them or they on, nothing is circular."""
    named = {name for cycle in find_cycles(graph) for name in cycle}
    reach = {name: _reached(graph, name) for name in graph}

    for name in graph:
        if name in reach[name]:
            assert any(name in reach[other] and other in reach[name] for other in named)


def _reached(graph: Mapping[str, Sequence[str]], start: str) -> set[str]:
    seen: set[str] = set()
    pending = [start]
    while pending:
        for name in graph.get(pending.pop(), ()):
            if name in graph and name not in seen:
                seen.add(name)
                pending.append(name)
    return seen


@pytest.mark.parametrize("back", [False, True], ids=["a chain", "a circle"])
@pytest.mark.parametrize("each", [1, 60])
def test_every_dependency_is_read_once(each: int, back: bool) -> None:
    """However many names wait for how many others."""
    size = 1000
    edges = {f"t{i}": [f"t{(i - d) % size}" for d in range(1, each + 1) if back or i >= d] for i in range(size)}
    graph = _Counted(edges)
    find_cycles(graph)

    assert sum(map(len, edges.values())) == graph.read


def test_a_long_cycle_is_cut() -> None:
    """The text names eight of them and says how many more there are, from whichever it begins with."""
    names = list("abcdefghij")

    assert "a -> a" == cycle_text(["a"])
    assert "b -> c -> a -> b" == cycle_text(["a", "b", "c"], 1)
    assert "j -> a -> b -> c -> d -> e -> f -> g -> 2 more -> j" == cycle_text(names, 9)
