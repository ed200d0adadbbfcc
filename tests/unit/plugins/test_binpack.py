"""Bin packing: nodes that a task would leave fuller rank higher."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.points import takes
from tests.support.worlds import World, node, pods, world

from tierwise.framework.extension import ScoreEffect, Scorer
from tierwise.framework.ledger import Pool
from tierwise.plugins.binpack import Binpack


def scores(w: World, number: int = 0, **arguments: object) -> dict[str, float]:
    """The scores of all nodes for a shape."""
    spelled = {key.replace("__", "/").replace("_", "."): value for key, value in arguments.items()}
    fits = np.ones(len(w.snapshot.nodes), dtype=bool)
    return w.scores(Binpack(spelled, w.view).score(w.ask(number), w.everywhere, fits))


def two_nodes(asks: str = "cpu=2 memory=10 gpu=1") -> World:
    """An idle node, and one that runs a quarter of what it has."""
    nodes = [node("n0", "cpu=8 memory=40 gpu=4"), node("n1", "cpu=8 memory=40 gpu=4")]
    return world(nodes, [pods(asks, pending=9), pods("cpu=2 memory=10 gpu=1", on="n1")])


def test_is_a_node_scorer() -> None:
    """The plugin takes part in the scorer point."""
    assert takes(Binpack({}, two_nodes().view), Scorer)


def test_a_fuller_node_scores_higher() -> None:
    """The score is the used share of cpu and memory with the task on the node, in percent."""
    assert {"n0": 25.0, "n1": 50.0} == scores(two_nodes())


def test_weights_decide_how_resources_count() -> None:
    """Shares are averaged by weight; a resource without weight does not count."""
    w = two_nodes("cpu=2 memory=20")

    assert {"n0": 37.5, "n1": 62.5} == scores(w)
    assert {"n0": 31.25, "n1": 56.25} == scores(w, binpack_cpu=3)
    assert {"n0": 50.0, "n1": 75.0} == scores(w, binpack_cpu=0)
    assert {"n0": 375.0, "n1": 625.0} == scores(w, binpack_weight="10")


def test_listed_resources_count() -> None:
    """Further resources count once they are listed, with weight 1 unless given."""
    w = two_nodes("cpu=2 memory=10 gpu=3")

    assert {"n0": 25.0, "n1": 50.0} == scores(w)
    assert {"n0": 41.666667, "n1": 66.666667} == scores(w, binpack_resources="gpu, other")
    assert {"n0": 50.0, "n1": 75.0} == scores(w, binpack_resources="gpu", **{"binpack.resources.gpu": 2})


def test_a_resource_that_would_overflow_adds_nothing() -> None:
    """Where the task does not fit beside what runs, that resource counts 0; so it does where a node has none."""
    nodes = [node("n0", "cpu=4 memory=40"), node("n1", "cpu=8"), node("n2", "cpu=8 memory=40")]
    w = world([*nodes], [pods("cpu=6 memory=20")])

    assert {"n0": 25.0, "n1": 37.5, "n2": 62.5} == scores(w)


def test_pod_slots_are_never_scored() -> None:
    """Every task takes a pod slot, which says nothing about packing, even if it is listed."""
    w = world([node("n0", "cpu=4 pods=1")], [pods("")])

    assert {"n0": 0.0} == scores(w, binpack_resources="pods")
    assert ScoreEffect.FIXED is Binpack({"binpack.resources": "pods"}, w.view).effect(w.ask(0))


def test_pipelined_tasks_do_not_count_as_used() -> None:
    """As on Volcano's nodes: used is what runs or is on its way out."""
    w = world([node("n0", "cpu=8")], [pods("cpu=2", pending=4), pods("cpu=4", leaving="n0")])

    assert {"n0": 75.0} == scores(w)
    w.place(0, "n0", pool=Pool.FUTURE_IDLE)
    assert {"n0": 75.0} == scores(w)


def test_scores_follow_the_ledger() -> None:
    """A task raises its own node and no other; a rewind lowers it again."""
    w = two_nodes("cpu=2 memory=10")
    plugin = Binpack({}, w.view)
    mark = w.ledger.mark()
    w.place(0, "n0", 2)
    fits = np.ones(2, dtype=bool)

    assert {"n0": 75.0, "n1": 50.0} == w.scores(plugin.score(w.ask(0), w.everywhere, fits))
    w.ledger.rewind(mark)
    assert {"n0": 25.0, "n1": 50.0} == w.scores(plugin.score(w.ask(0), w.everywhere, fits))
    assert ScoreEffect.ROW is plugin.effect(w.ask(0))
    assert slice(1, 2) == plugin.stale(w.ask(0), 1)


def test_a_span_scores_like_the_whole() -> None:
    """Rows of a span score as within the whole cluster."""
    w = two_nodes()

    assert [50.0] == Binpack({}, w.view).score(w.ask(0), slice(1, 2), np.ones(1, dtype=bool)).tolist()


@pytest.mark.parametrize("arguments", [{"binpack.weight": 0}, {"binpack.cpu": 0, "binpack.memory": 0}])
def test_without_weight_nothing_moves(arguments: dict[str, object]) -> None:
    """A plugin or resources without weight score 0 and leave the choice of kernel to others."""
    w = two_nodes()
    plugin = Binpack(arguments, w.view)

    assert ScoreEffect.FIXED is plugin.effect(w.ask(0))
    assert [0.0, 0.0] == plugin.score(w.ask(0), w.everywhere, np.ones(2, dtype=bool)).tolist()
