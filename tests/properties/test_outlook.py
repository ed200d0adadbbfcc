"""The plan behind lookAhead: nobody is overfilled, and no single move or trade would make it cheaper."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import size
from tests.support.service_graphs import annealed, drawn_graph, total

from tierwise.model.arrays import Ints
from tierwise.plugins.network_overhead.lookahead import LookAheadProblem, _improved, _starts, plan


@st.composite
def _outlooks(draw: st.DrawFn) -> LookAheadProblem:
    pods, nodes = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    cost = rng.integers(1, 20, size=(nodes, nodes))
    np.fill_diagonal(cost, 0)
    return LookAheadProblem(
        calls=rng.integers(0, 2, size=(pods, pods)),
        fixed=rng.integers(0, 10, size=(pods, nodes)) * rng.integers(0, 2),
        cost=cost,
        request=rng.integers(1, 3, size=(pods, 2)),
        free=rng.integers(0, 6, size=(nodes, 2)),
    )


def _total(outlook: LookAheadProblem, nodes: tuple[int, ...]) -> int:
    """Pair by pair."""
    pods = range(len(nodes))
    between = sum(int(outlook.calls[a, b] * outlook.cost[nodes[a], nodes[b]]) for a in pods for b in pods)
    return between + sum(int(outlook.fixed[a, nodes[a]]) for a in pods)


def _holds(outlook: LookAheadProblem, nodes: tuple[int, ...]) -> bool:
    used: Ints = np.zeros_like(outlook.free)
    np.add.at(used, np.array(nodes), outlook.request)
    return bool((used <= outlook.free).all())


def _start(outlook: LookAheadProblem, centre: int) -> list[int] | None:
    """The slow twin: one centre, pod after pod, the most connected first, on the nearest node that has room."""
    near = outlook.cost[centre] + outlook.cost[:, centre]
    degree = outlook.calls.sum(axis=0) + outlook.calls.sum(axis=1)
    free, nodes = outlook.free.copy(), [0] * len(degree)
    for pod in sorted(range(len(degree)), key=lambda pod: -degree[pod]):
        able = [node for node in range(len(free)) if (free[node] >= outlook.request[pod]).all()]
        if not able:
            return None
        nodes[pod] = min(able, key=lambda node: near[node])
        free[nodes[pod]] -= outlook.request[pod]
    return nodes


@given(_outlooks())
def test_all_starts_at_once_are_those_one_by_one(outlook: LookAheadProblem) -> None:
    """Centres that cannot have a plan are left out."""
    slow = [start for centre in range(len(outlook.cost)) if (start := _start(outlook, centre)) is not None]

    assert slow == _starts(outlook, np.arange(len(outlook.cost))).tolist()


def _step(outlook: LookAheadProblem, nodes: tuple[int, ...]) -> tuple[int, ...]:
    """The slow twin: the plan after the move or trade that saves most, moves and lower numbers first."""
    pods, places = range(len(nodes)), range(len(outlook.cost))
    moves = [(*nodes[:pod], place, *nodes[pod + 1 :]) for pod in pods for place in places]
    trades = [tuple(nodes[{a: b, b: a}.get(pod, pod)] for pod in pods) for a in pods for b in pods]
    able = [other for other in (*moves, *trades) if other != nodes and _holds(outlook, other)]
    best = min(able, key=lambda other: _total(outlook, other), default=nodes)
    return best if _total(outlook, best) < _total(outlook, nodes) else nodes


@given(_outlooks())
def test_plans_are_improved_step_by_step(outlook: LookAheadProblem) -> None:
    """Each plan ends where moves and trades, one at a time, would lead it."""
    np.fill_diagonal(outlook.calls, 0)
    starts = _starts(outlook, np.arange(len(outlook.cost)))
    slow: list[list[int]] = []
    for start in starts.tolist():
        nodes: tuple[int, ...] = tuple(start)
        while (better := _step(outlook, nodes)) != nodes:
            nodes = better
        slow.append(list(nodes))

    assert slow == [_improved(outlook, start).tolist() for start in starts]


@given(_outlooks())
def test_a_plan_holds_and_cannot_be_improved_by_one_step(outlook: LookAheadProblem) -> None:
    """Moving one pod, or trading two, never makes it cheaper; where one start fits there is a plan."""
    found = plan(outlook)
    every = [nodes for nodes in product(range(len(outlook.cost)), repeat=len(outlook.calls)) if _holds(outlook, nodes)]
    if found is None:
        return
    nodes = tuple(int(node) for node in found)

    assert nodes in every
    assert _total(outlook, nodes) >= min(_total(outlook, other) for other in every)
    for other in every:
        changed = [i for i, (a, b) in enumerate(zip(nodes, other, strict=True)) if a != b]
        trade = len(changed) == 2 and (nodes[changed[0]], nodes[changed[1]]) == (other[changed[1]], other[changed[0]])
        if len(changed) == 1 or trade:
            assert _total(outlook, nodes) <= _total(outlook, other)


def test_the_optimum_of_a_small_application_is_found() -> None:
    """A chain of three on two zones with room for two and three."""
    outlook = LookAheadProblem(
        calls=np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]]),
        fixed=np.zeros((3, 3), dtype=np.int64),
        cost=np.array([[0, 9, 9], [9, 0, 1], [9, 1, 0]]),
        request=np.ones((3, 1), dtype=np.int64),
        free=np.array([[2], [2], [1]]),
    )
    found = plan(outlook)

    assert found is not None
    assert 1 == _total(outlook, tuple(found.tolist()))


@pytest.mark.parametrize("seed", range(size(4, 40, quick=1)))
def test_plans_are_near_what_annealing_finds(seed: int) -> None:
    """A drawn graph of sixteen services: at most 1.15 times as dear as what a long annealing meets."""
    graph = drawn_graph(seed, 16)
    found = plan(graph)

    assert found is not None
    assert total(graph, found) <= 1.15 * annealed(graph, found, steps=size(20_000, 60_000, quick=8_000), seed=1)


def test_a_plan_goes_on_where_another_stopped() -> None:
    """The others stay where they were planned once the first pod of a plan stands there."""
    graph = drawn_graph(3, 12)
    found = plan(graph)

    assert found is not None
    again = plan(graph, np.where(np.arange(12) < 1, -1, found))
    assert again is not None
    assert total(graph, again) <= total(graph, found)
