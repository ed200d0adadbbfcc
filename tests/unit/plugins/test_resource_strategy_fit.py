"""resource-strategy-fit: a strategy for each resource, scarce devices spared, cpu and memory kept for them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.points import answers
from tests.support.worlds import World, node, pods, world

from tierwise.framework.extension import ScoreEffect
from tierwise.plugins.binpack import Binpack
from tierwise.plugins.resource_strategy_fit import ResourceStrategyFit


def two_nodes(asks: str = "cpu=2 memory=10 gpu=1") -> World:
    """An idle node, and one that runs a quarter of what it has."""
    nodes = [node("n0", "cpu=8 memory=40 gpu=4"), node("n1", "cpu=8 memory=40 gpu=4")]
    return world(nodes, [pods(asks, pending=9), pods("cpu=2 memory=10 gpu=1", on="n1")])


def scores(w: World, **arguments: object) -> dict[str, float]:
    """The scores of all nodes for the first shape."""
    fits = np.ones(len(w.snapshot.nodes), dtype=bool)
    return w.scores(ResourceStrategyFit(arguments, w.view).score(w.ask(0), w.everywhere, fits))


def strategy(**types: str) -> dict[str, object]:
    """`resources` with a type for each, weight 1."""
    return {name.replace("__", "/").replace("_", "."): {"type": kind, "weight": 1} for name, kind in types.items()}


def test_takes_part() -> None:
    """The plugin scores and filters."""
    plugin = ResourceStrategyFit({}, two_nodes().view)

    assert answers(plugin, "score", "score_rows", "concerns", "why_not_now")


def test_cpu_and_memory_are_spread_unless_something_is_named() -> None:
    """The default: what is left of both, in percent, ten times."""
    assert {"n0": 750.0, "n1": 500.0} == scores(two_nodes())


def test_each_resource_has_its_strategy() -> None:
    """One is packed while another is spread; weights decide."""
    both = strategy(cpu="LeastAllocated", gpu="MostAllocated")

    assert {"n0": 25.0, "n1": 50.0} == scores(
        two_nodes(), resourceStrategyFitWeight=1, resources=strategy(gpu="MostAllocated")
    )
    assert {"n0": 50.0, "n1": 50.0} == scores(two_nodes(), resourceStrategyFitWeight=1, resources=both)
    heavy = {**both, "gpu": {"type": "MostAllocated", "weight": 3}}
    assert {"n0": 37.5, "n1": 50.0} == scores(two_nodes(), resourceStrategyFitWeight=1, resources=heavy)


def test_the_exact_name_counts_before_the_longest_prefix() -> None:
    """A star alone counts for nothing."""
    packed, spread = {"type": "MostAllocated"}, {"type": "LeastAllocated"}

    def of(**resources: object) -> dict[str, float]:
        return scores(
            two_nodes(), resourceStrategyFitWeight=1, resources={k.replace("S", "*"): v for k, v in resources.items()}
        )

    assert {"n0": 25.0, "n1": 50.0} == of(gS=spread, gpS=packed)
    assert {"n0": 75.0, "n1": 50.0} == of(gpS=packed, gpu=spread)
    assert {"n0": 0.0, "n1": 0.0} == of(S=packed)


def test_a_node_that_would_be_overfilled_scores_nothing() -> None:
    """Whatever else it has to offer."""
    w = two_nodes("cpu=7 memory=1")

    assert 0.0 == scores(w)["n1"]


def test_nodes_with_scarce_devices_are_left_to_those_who_need_them() -> None:
    """A node without the device scores all of it, one with the device nothing."""
    w = world([node("n0", "cpu=8 memory=40 gpu=4"), node("n1", "cpu=8 memory=40")], [pods("cpu=1", pending=1)])
    sra = {"enable": True, "resources": "gpu", "weight": 2}

    assert {"n0": 0.0, "n1": 200.0} == scores(w, resourceStrategyFitWeight=0, sra=sra)
    assert {"n0": 0.0, "n1": 0.0} == scores(w, resourceStrategyFitWeight=0, sra={**sra, "enable": False})


@pytest.mark.parametrize(("cores", "fits"), [(1, True), (3, True), (4, False), (8, False)])
def test_cpu_is_kept_for_idle_devices(cores: int, fits: bool) -> None:
    """A pod without devices may use what is not kept; one that asks for a device may use everything."""
    share = {"gpu.cpu": 0.001, "gpu.memory": 0}  # cpu is drawn in thousandths here
    kept = {"proportional": {"enable": True, "resources": "gpu", "resourceProportion": share}}
    w = world([node("n0", "cpu=7 memory=40 gpu=4")], [pods(f"cpu={cores}", pending=1), pods("cpu=7 gpu=1", pending=1)])
    plugin = ResourceStrategyFit(kept, w.view)
    shape = w.ask(0).shape

    assert plugin.concerns(shape)
    assert fits == (plugin.why_not_now(shape, w.everywhere)[0] == 0)
    assert not plugin.concerns(w.ask(1).shape)


@given(weight=st.integers(1, 9), asks=st.sampled_from(["cpu=1", "cpu=2 memory=10", "cpu=2 gpu=1"]))
def test_packing_everything_is_binpack(weight: int, asks: str) -> None:
    """With MostAllocated for all resources the scores are those of binpack."""
    w = two_nodes(asks)
    fits = np.ones(len(w.snapshot.nodes), dtype=bool)
    packed = strategy(cpu="MostAllocated", memory="MostAllocated", gpu="MostAllocated")
    other = Binpack({"binpack.weight": weight, "binpack.resources": "gpu"}, w.view)

    assert pytest.approx(w.scores(other.score(w.ask(0), w.everywhere, fits))) == scores(
        w, resourceStrategyFitWeight=weight, resources=packed
    )


def test_reach_follows_the_strategies() -> None:
    """Packing raises the node itself, spreading lowers it, and nothing moves where nothing counts."""
    w = two_nodes()

    def effect(**arguments: object) -> ScoreEffect:
        return ResourceStrategyFit(arguments, w.view).effect(w.ask(0))

    assert ScoreEffect.FREE == effect()
    assert ScoreEffect.ROW == effect(resources=strategy(cpu="MostAllocated"))
    assert ScoreEffect.FIXED == effect(resources=strategy(other="MostAllocated"))
    assert ScoreEffect.FIXED == effect(resourceStrategyFitWeight=0)
