"""Placing: fast kernels equal `reference`, and `walk` equals the recursion that states its rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, DrawFn
from tests.support.depth import examples
from tests.support.draw import Gang, allocate, draw, gang, objects_of, spots
from tests.support.kernels import (
    disturb,
    drawn_ask,
    drawn_pool,
    drawn_span,
    exact_kernels,
    kernels_agree,
    plain,
    reference,
)
from tests.support.reference import close_reference
from tests.support.strategies import Scene, profile, scenes, trees

from tierwise.api.codec import Raw
from tierwise.config.arguments import number
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.framework.cycle import Cycle
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, Ask, CycleView, ScoreEffect, Scorer
from tierwise.framework.ledger import Pool
from tierwise.framework.placer import KeptScores, domains, kernel_for, place_in_order, step, walk
from tierwise.model.arrays import POD_SLOTS, Bools, Floats, Rows
from tierwise.plugins import PLUGINS
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

    assume(cycle.pipeline.moving(ask.shape))  # with one place, and at most so many in it, nothing moves
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


@pytest.mark.parametrize(
    "choice", [DEFAULT, profile("gang", "network-topology-aware")], ids=["room ahead", "room of now"]
)
def test_what_is_left_over_goes_to_the_rack_that_it_fills(choice: Profile) -> None:
    """Four of six pods take the largest rack, and the other two the smallest that holds them."""
    world = draw("s0: r0[n0..3] r1[n4..6] r2[n7..8]", node="gpu=8")
    six = gang("g", tasks=6, each="gpu=8", within=2)

    assert "n0 n1 n2 n3 n7 n8" == spots(allocate(world, six, profile=choice), "g")


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


@st.composite
def _uneven_racks(draw_: DrawFn) -> tuple[str, str]:
    """Racks of up to five nodes below one or two spines, and pods on some of them that ask for different amounts."""
    sizes = draw_(st.lists(st.integers(2, 5), min_size=2, max_size=5))
    first = [sum(sizes[:i]) for i in range(len(sizes))]
    names = draw_(st.permutations([f"n{i}" for i in range(sum(sizes))]))
    racks = [f"r{i}[{' '.join(names[at : at + size])}]" for i, (at, size) in enumerate(zip(first, sizes, strict=True))]
    cut = draw_(st.integers(1, len(racks)))
    spines = [" ".join(racks[:cut]), " ".join(racks[cut:])]
    amounts = st.sampled_from(("cpu=1", "cpu=2", "cpu=3", "cpu=1,memory=1000", "cpu=1,memory=1001", "memory=64000000"))
    used = draw_(st.dictionaries(st.integers(0, sum(sizes) - 1), amounts, max_size=6))
    tree = " ".join(f"s{i}: {below}" for i, below in enumerate(spines) if below)
    return tree, " ".join(f"n{node}:{asks}" for node, asks in used.items())


@examples(100)
@given(_uneven_racks(), st.sampled_from(["domains", "packing"]), st.sampled_from([1, 2, 5]), st.integers(1, 40))
def test_nodes_of_a_domain_are_filled_together(racks: tuple[str, str], scorers: str, each: int, count: int) -> None:
    """Taking all nodes of a domain that are ahead of the others gives what placing one task after the other does."""
    tree, running = racks
    world = draw(tree, node="cpu=10,memory=100000000", running=running)
    cycle = _open(Scene(world, (Gang("g", tasks=count, each=f"cpu={each},memory=1000000"),)), scorers)
    (job,) = cycle.snapshot.jobs
    ask, everywhere = Ask(job.subs[0].pod_sets[0].shape, job.subs[0], job), slice(0, len(cycle.nodes))

    assert kernel_for(cycle, ask, Pool.IDLE) is domains
    expected = _one_by_one(cycle, ask, count)
    assert expected == place_in_order(cycle, ask, count, everywhere, Pool.IDLE).tolist()


_QUARTER = 2.0**-22
"""A fourth of the steps in which scores are compared."""


@takes_part(Scorer)
class _Near:
    """More for all nodes of a domain with each pod in it, by some fourths of a step."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._view, self._slots = view, view.axis.index[POD_SLOTS]
        self._rise = number(arguments, "rise", 0)

    def effect(self, ask: Ask) -> ScoreEffect:
        return ScoreEffect.DOMAIN

    def stale(self, ask: Ask, row: int) -> slice:
        return slice(0, len(self._view.nodes))

    def score(self, ask: Ask, span: slice, fits: Bools) -> Floats:
        return self.score_leaves(ask)[self._view.topology.leaf[span]]

    def score_leaves(self, ask: Ask) -> Floats:
        ledger = self._view.ledger
        used: Floats = (ledger.domain_allocatable - ledger.domain_idle)[self._slots] * self._rise * _QUARTER
        return used


@takes_part(Scorer)
class _Own:
    """For each node some fourths of a step, by the digits of a number."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        digits = [int(digit, 36) for digit in str(arguments["own"])]
        self._scores = np.resize(digits, len(view.nodes)) * _QUARTER

    def effect(self, ask: Ask) -> ScoreEffect:
        return ScoreEffect.FIXED

    def stale(self, ask: Ask, row: int) -> slice:
        return slice(row, row)

    def score(self, ask: Ask, span: slice, fits: Bools) -> Floats:
        return self.score_rows(ask, span)

    def score_rows(self, ask: Ask, rows: Rows) -> Floats:
        return self._scores[rows].copy()


@examples(200)
@given(_uneven_racks(), st.text("0123hijkxyz", min_size=1, max_size=20), st.integers(0, 9), st.integers(1, 20))
def test_rounding_makes_no_order_certain(racks: tuple[str, str], own: str, rise: int, count: int) -> None:
    """Nodes whose scores are closer than rounding tells apart are filled in the order of one by one."""
    snapshot = build(objects_of(draw(racks[0], node="cpu=1"), Gang("g", tasks=count)), now=0.0)
    scorers = profile("predicates", PluginChoice("near", {"rise": rise}), PluginChoice("own", {"own": own}))
    cycle = open_cycle(snapshot, scorers, plugins={**PLUGINS, "near": _Near, "own": _Own})
    (job,) = cycle.snapshot.jobs
    ask, everywhere = Ask(job.subs[0].pod_sets[0].shape, job.subs[0], job), slice(0, len(cycle.nodes))

    assert kernel_for(cycle, ask, Pool.IDLE) is domains
    expected = _one_by_one(cycle, ask, count)
    assert expected == place_in_order(cycle, ask, count, everywhere, Pool.IDLE).tolist()
    assert expected == _by_kept_scores(cycle, ask, count)


def _by_kept_scores(cycle: Cycle, ask: Ask, count: int) -> list[int]:
    """The same, as pods of many shapes are placed."""
    kept, rows = KeptScores(cycle), list[int]()
    while len(rows) < count and (row := kept.best(ask)) is not None and row >= 0:
        kept.place(ask.shape, row)
        rows.append(row)
    return rows


def _one_by_one(cycle: Cycle, ask: Ask, count: int) -> list[int]:
    """The row of each task, in their order."""
    rows: list[int] = []
    with cycle.ledger.statement():
        for _ in range(count):
            row, number = reference(cycle, ask, 1, slice(0, len(cycle.nodes)), Pool.IDLE)
            if not len(row):
                break
            cycle.ledger.place(ask.shape, row, number, pool=Pool.IDLE)
            rows.append(int(row[0]))
    return rows
