"""Placing: fast kernels equal `reference`, and `walk` equals the recursion that states its rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from tests.support.draw import Gang, allocate, draw, gang, objects_of, spots
from tests.support.kernels import disturb, drawn_ask, drawn_pool, drawn_span, exact_kernels, kernels_agree, plain
from tests.support.reference import close_reference
from tests.support.strategies import Scene, profile, scenes, trees

from tierwise.api.codec import Raw
from tierwise.config.profile import PluginChoice
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask
from tierwise.framework.ledger import Pool
from tierwise.framework.placer import kernel_for, reference, step
from tierwise.framework.walk import walk
from tierwise.scheduler import open_cycle
from tierwise.snapshot.builder import build

_MOST = {"mostrequested.weight": 1, "leastrequested.weight": 0, "balancedresource.weight": 0}
_KUBERNETES = (
    "ImageLocality",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "PodTopologySpread",
    "TaintToleration",
)
SCORERS = {
    "none": profile("predicates"),
    "binpack": profile("predicates", "binpack"),
    "most": profile("predicates", PluginChoice("nodeorder", _MOST)),
    "least": profile("predicates", "nodeorder"),
    "domains": profile("predicates", "network-topology-aware"),
    "packing": profile("predicates", PluginChoice("nodeorder", _MOST), "binpack", "network-topology-aware"),
    "all": profile("predicates", "nodeorder", "binpack", "network-topology-aware"),
    "kubernetes": profile(PluginChoice("predicates", {"kubernetes": True}), *_KUBERNETES),
    "kubernetes packing": profile(
        "predicates", PluginChoice("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated"}})
    ),
}


def _open(scene: Scene, scorers: str) -> Cycle:
    return open_cycle(build(objects_of(scene.world, *scene.gangs), now=0.0), SCORERS[scorers])


@given(scenes(gangs=2, leaving=True), st.sampled_from(sorted(SCORERS)), st.integers(0, 9), st.data())
def test_kernels_equal_reference(scene: Scene, scorers: str, count: int, data: DataObject) -> None:
    """Every kernel puts as many tasks on each node as placing them one by one does, where it says that it is exact."""
    cycle = _open(scene, scorers)
    ask, span, pool = drawn_ask(cycle, data), drawn_span(cycle, data), drawn_pool(cycle, data)
    disturb(cycle, data)

    kernels_agree(cycle, ask, count, span, pool)


@pytest.mark.parametrize(
    ("running", "kept", "pool"),
    [
        ("n0!:cpu=4 n2!:cpu=4", 0, Pool.FUTURE_IDLE),  # what waits is charged to its domain as if the room were there
        ("n0!:cpu=8", 1, Pool.IDLE),  # the same for what waited before
    ],
)
def test_pods_without_topology_beside_pods_that_wait(running: str, kept: int, pool: Pool) -> None:
    """Pipelined pods count as used in their domains, which can lower the score of the very node that took one."""
    world = draw("r0[n0 n1] r1[n2]", running=running, cordoned="n1" if pool is Pool.FUTURE_IDLE else "")
    cycle = _open(Scene(world, (Gang("g", tasks=2, each="cpu=4"),)), "domains")
    (job,) = cycle.snapshot.jobs
    ask = Ask(job.subs[0].pod_sets[0].shape, job.subs[0], job)
    if kept:
        cycle.ledger.place(ask.shape, np.array([0]), np.array([kept]), pool=Pool.FUTURE_IDLE)
    everywhere = slice(0, len(cycle.nodes))

    expected = plain(reference(cycle, ask, 2, everywhere, pool))
    assert expected == plain(kernel_for(cycle, ask, pool)(cycle, ask, 2, everywhere, pool))


def test_a_node_that_is_taken_draws_its_neighbours() -> None:
    """Of two racks that are alike the one that the first pod went to takes the second, whatever the names say."""
    cycle = _open(Scene(draw("r0[n0 n2] r1[n1 n3]", node="cpu=1"), (Gang("g", tasks=2),)), "domains")
    (job,) = cycle.snapshot.jobs
    ask, everywhere = Ask(job.subs[0].pod_sets[0].shape, job.subs[0], job), slice(0, len(cycle.nodes))
    rows, _ = kernel_for(cycle, ask, Pool.IDLE)(cycle, ask, 2, everywhere, Pool.IDLE)

    assert ["n0", "n2"] == [cycle.nodes.names[row] for row in rows.tolist()]
    assert plain(reference(cycle, ask, 2, everywhere, Pool.IDLE)) == dict.fromkeys(rows.tolist(), 1)


def _apart(key: str, most: int) -> Raw:
    """A rule between pods: no two on one node, or no more than `most` apart."""
    selector = {"matchLabels": {"app": "x"}}
    if not most:
        term = {"topologyKey": key, "labelSelector": selector}
        return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    constraint = {"topologyKey": key, "labelSelector": selector, "maxSkew": most, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [constraint]}


@given(trees(), st.integers(0, 2), st.integers(1, 6), st.sampled_from(sorted(SCORERS)), st.data())
def test_step_equals_reference_where_filters_move(
    tree: str, most: int, count: int, scorers: str, data: DataObject
) -> None:
    """Rules between the pods of a gang are asked again after each pod."""
    labels = {f"g-{i}": {"app": "x"} for i in range(count)}
    spread = Gang("g", tasks=count, labels=labels, spec=_apart("kubernetes.io/hostname", most))
    cycle = _open(Scene(draw(tree, node="cpu=3"), (spread,)), scorers)
    ask, span = drawn_ask(cycle, data), drawn_span(cycle, data)

    assert cycle.pipeline.moving(ask.shape)
    assert plain(reference(cycle, ask, count, span, Pool.IDLE)) == plain(step(cycle, ask, count, span, Pool.IDLE))


@given(scenes(gangs=3), st.sampled_from(sorted(SCORERS)), st.integers(0, 12), st.data())
def test_walk_equals_recursion(scene: Scene, scorers: str, count: int, data: DataObject) -> None:
    """Taking whole slices and sorting children gives what asking again after each member of a domain does."""
    cycle = _open(scene, scorers)
    ask, pool = drawn_ask(cycle, data), drawn_pool(cycle, data)
    domain = data.draw(st.integers(0, len(cycle.topology) - 1))
    disturb(cycle, data)
    expected = plain(close_reference(cycle, ask, count, domain, pool))

    assert expected == plain(walk(cycle, ask, count, domain, pool))


def test_what_is_left_over_goes_to_the_rack_that_it_fills() -> None:
    """Four of six pods take the largest rack, and the other two the smallest that holds them."""
    world = draw("s0: r0[n0..3] r1[n4..6] r2[n7..8]", node="gpu=8")

    assert "n0 n1 n2 n3 n7 n8" == spots(allocate(world, gang("g", tasks=6, each="gpu=8", within=2)), "g")


@given(scenes(gangs=2), st.sampled_from(sorted(SCORERS)), st.integers(0, 9), st.data())
def test_placing_leaves_no_trace(scene: Scene, scorers: str, count: int, data: DataObject) -> None:
    """Kernels and `walk` leave the ledger as it was."""
    cycle = _open(scene, scorers)
    ask, span, pool = drawn_ask(cycle, data), drawn_span(cycle, data), drawn_pool(cycle, data)
    before = [cycle.ledger.idle.tobytes(), cycle.ledger.pipelined.tobytes(), cycle.ledger.domain_idle.tobytes()]
    for kernel in exact_kernels(cycle, ask, pool):
        kernel(cycle, ask, count, span, pool)
    walk(cycle, ask, count, 0, pool)

    after = [cycle.ledger.idle.tobytes(), cycle.ledger.pipelined.tobytes(), cycle.ledger.domain_idle.tobytes()]
    assert before == after
