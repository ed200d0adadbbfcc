"""Kubernetes' node scores with Volcano's weights."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from tests.support.points import takes
from tests.support.worlds import (
    NodeDraft,
    PodsDraft,
    World,
    node,
    pods,
    world,
)

from tierwise.api.core import (
    Affinity,
    LabelSelector,
    NodeAffinity,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PreferredNodeTerm,
    Requirement,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from tierwise.framework.extension import ScoreEffect, Scorer
from tierwise.framework.ledger import Pool
from tierwise.plugins.kubernetes.nodeorder import NodeOrder

WEIGHTS = (
    "nodeaffinity podaffinity leastrequested balancedresource mostrequested tainttoleration imagelocality "
    "podtopologyspread"
)
WEB = LabelSelector(match_labels={"app": "web"})
MB = 2**20


def only(**weights: float) -> dict[str, object]:
    """Arguments that leave only the named parts with weight."""
    return {f"{name}.weight": weights.get(name, 0) for name in WEIGHTS.split()}


def scores(w: World, plugin: NodeOrder, number: int = 0) -> dict[str, float]:
    """The scores of all nodes for a shape."""
    fits = np.ones(len(w.snapshot.nodes), dtype=bool)
    found = plugin.score(w.ask(number), w.everywhere, fits)
    return w.scores(np.zeros(len(fits)) if found is None else found)


def zoned(*groups: PodsDraft) -> World:
    """Two nodes in zone a, one in zone b, one in none."""
    zones = {"n0": "a", "n1": "a", "n2": "b", "n3": ""}
    return world([node(name, labels={"zone": z} if z else {}) for name, z in zones.items()], groups)


def prefers(*terms: tuple[int, str, str]) -> Affinity:
    """Preferred node affinity: weight, label, value."""
    wishes = tuple(
        PreferredNodeTerm(
            weight=weight,
            preference=NodeSelectorTerm(match_expressions=(Requirement(key=k, operator="In", values=(v,)),)),
        )
        for weight, k, v in terms
    )
    return Affinity(node_affinity=NodeAffinity(preferred=wishes))


def likes(weight: int = 1, key: str = "zone") -> PodAffinity:
    """A wish to be near web pods."""
    term = PodAffinityTerm(label_selector=WEB, topology_key=key)
    return PodAffinity(preferred=(WeightedPodAffinityTerm(weight=weight, pod_affinity_term=term),))


def test_is_a_node_scorer() -> None:
    """The plugin takes part in the scorer point."""
    assert takes(NodeOrder({}, zoned(pods()).view), Scorer)


def test_least_requested_prefers_idle_nodes() -> None:
    """The share of cpu and memory that the task would leave, averaged over what the node has."""
    nodes = [node("n0", "cpu=10 memory=20"), node("n1", "cpu=10 memory=20"), node("n2", "cpu=10")]
    w = world(nodes, [pods("cpu=2 memory=4"), pods("cpu=3", on="n1")])

    assert {"n0": 80.0, "n1": 65.0, "n2": 80.0} == scores(w, NodeOrder(only(leastrequested=1), w.view))


def test_most_requested_is_the_opposite() -> None:
    """The used share, and nothing on a node that has neither cpu nor memory."""
    nodes = [node("n0", "cpu=10 memory=20"), node("n1", "cpu=10 memory=20"), node("n2", "gpu=1")]
    w = world(nodes, [pods("cpu=2 memory=4"), pods("cpu=3", on="n1")])

    assert {"n0": 40.0, "n1": 70.0, "n2": 0.0} == scores(w, NodeOrder(only(mostrequested=2), w.view))


def test_balanced_resources_score_the_change() -> None:
    """75, more where the used shares come closer, less where they part; GPUs join in for tasks that ask for them."""
    nodes = [node(name, "cpu=10 memory=10 nvidia.com/gpu=10") for name in ("n0", "n1", "n2")]
    standing = [pods("cpu=4", on="n1"), pods("memory=6", on="n2")]
    asked = [pods("cpu=2 memory=2"), pods("cpu=2 memory=2 nvidia.com/gpu=5"), pods("cpu=4"), pods("example.com/x=1")]
    w = world(nodes, [*asked, *standing])
    plugin = NodeOrder(only(balancedresource=1), w.view)

    assert {"n0": 75.0, "n1": 75.0, "n2": 75.0} == scores(w, plugin)
    before = [np.std([0, 0, 0]), np.std([0.4, 0, 0]), np.std([0, 0.6, 0])]
    after = [np.std([0.2, 0.2, 0.5]), np.std([0.6, 0.2, 0.5]), np.std([0.2, 0.8, 0.5])]
    expected = [round(75 + 50 * float(b - a), 6) for b, a in zip(before, after, strict=True)]
    assert {f"n{i}": score for i, score in enumerate(expected)} == scores(w, plugin, 1)
    assert {"n0": 65.0, "n1": 65.0, "n2": 85.0} == scores(w, plugin, 2)
    assert {"n0": 0.0, "n1": 0.0, "n2": 0.0} == scores(w, plugin, 3)


def test_pipelined_tasks_count_as_present() -> None:
    """What waits for a node makes it less free for others."""
    w = world([node("n0", "cpu=10 memory=10")], [pods("cpu=2 memory=2"), pods("cpu=2 memory=2", leaving="n0")])
    plugin = NodeOrder(only(leastrequested=1), w.view)

    assert {"n0": 60.0} == scores(w, plugin)
    w.place(0, "n0", pool=Pool.FUTURE_IDLE)
    assert {"n0": 40.0} == scores(w, plugin)


def test_preferred_node_affinity_is_scaled_to_the_best_node() -> None:
    """Weights of matching terms add up; the best open node gets 100."""
    nodes = [
        node("n0", labels={"zone": "a", "disk": "ssd"}),
        node("n1", labels={"zone": "a"}),
        node("n2"),
        node("n3", labels={"disk": "ssd"}, cordoned=True),
    ]
    w = world(nodes, [pods(affinity=prefers((1, "zone", "a"), (3, "disk", "ssd"), (9, "disk", "tape")))])

    assert {"n0": 200.0, "n1": 50.0, "n2": 0.0, "n3": 150.0} == scores(w, NodeOrder(only(nodeaffinity=2), w.view))


def test_soft_taints_are_scaled_to_the_worst_node() -> None:
    """The more PreferNoSchedule taints are not tolerated, the lower."""
    soft = [
        node("n0"),
        node("n1", taints="a:PreferNoSchedule"),
        node("n2", taints="a:PreferNoSchedule b:PreferNoSchedule"),
    ]
    tolerant = (Toleration(key="b", operator="Exists", effect="PreferNoSchedule"),)
    w = world(soft, [pods(), pods(tolerations=tolerant), pods(tolerations=(Toleration(operator="Exists"),))])
    plugin = NodeOrder(only(tainttoleration=1), w.view)

    assert {"n0": 100.0, "n1": 50.0, "n2": 0.0} == scores(w, plugin)
    assert {"n0": 100.0, "n1": 0.0, "n2": 0.0} == scores(w, plugin, 1)
    assert {"n0": 0.0, "n1": 0.0, "n2": 0.0} == scores(w, plugin, 2)


def test_images_at_hand_count_by_size_and_spread() -> None:
    """Size times the share of nodes that have the image, between Kubernetes' bounds; no tag means latest."""
    nodes = [node("n0", images={"repo:5000/web:latest": 523 * MB}), node("n1", images={"db:1": 20 * MB})]
    w = world(nodes, [pods(images=("repo:5000/web",)), pods(images=("db:1",))])
    plugin = NodeOrder(only(imagelocality=1), w.view)

    assert {"n0": round(100 * (261.5 - 23) / 977, 6), "n1": 0.0} == scores(w, plugin)
    assert {"n0": 0.0, "n1": 0.0} == scores(w, plugin, 1)


def test_preferred_pod_affinity_is_scaled_between_the_extremes() -> None:
    """Nodes near liked pods get up to 100, and anti-affinity turns the order around."""
    standing = pods(on="n1 n1 n2", labels={"app": "web"})
    w = zoned(
        standing, pods(affinity=Affinity(pod_affinity=likes())), pods(affinity=Affinity(pod_anti_affinity=likes()))
    )
    plugin = NodeOrder(only(podaffinity=1), w.view)

    assert {"n0": 100.0, "n1": 100.0, "n2": 50.0, "n3": 0.0} == scores(w, plugin, 1)
    assert {"n0": 0.0, "n1": 0.0, "n2": 50.0, "n3": 100.0} == scores(w, plugin, 2)


def test_wishes_of_standing_pods_count_too() -> None:
    """A pod is drawn to where pods stand that would like it near."""
    w = zoned(pods(on="n2", affinity=Affinity(pod_affinity=likes(5))), pods(labels={"app": "web"}))

    assert {"n0": 0.0, "n1": 0.0, "n2": 100.0, "n3": 0.0} == scores(w, NodeOrder(only(podaffinity=1), w.view), 1)


def test_pod_wishes_follow_placements_and_rewinds() -> None:
    """Every placement moves the counts, and undoing it moves them back."""
    w = zoned(pods(pending=3, labels={"app": "web"}, affinity=Affinity(pod_anti_affinity=likes())))
    plugin = NodeOrder(only(podaffinity=1), w.view)
    mark = w.ledger.mark()
    before = scores(w, plugin)
    w.place(0, "n2")

    assert {"n0": 100.0, "n1": 100.0, "n2": 0.0, "n3": 100.0} == scores(w, plugin)
    w.ledger.rewind(mark)
    assert before == scores(w, plugin) == {"n0": 0.0, "n1": 0.0, "n2": 0.0, "n3": 0.0}


def test_soft_spread_prefers_emptier_places() -> None:
    """The fewer matching pods in a node's zone, the higher; a node without the label gets nothing."""
    spread = TopologySpreadConstraint(
        max_skew=2, topology_key="zone", label_selector=WEB, when_unsatisfiable="ScheduleAnyway"
    )
    w = zoned(pods(on="n0 n1 n2", labels={"app": "web"}), pods(labels={"app": "web"}, spread=(spread,)))
    many, few = 2 * log(4) + 1, log(4) + 1

    expected = {"n0": round(100 * few / many, 6), "n2": 100.0, "n3": 0.0}
    expected["n1"] = expected["n0"]
    assert expected == scores(w, NodeOrder(only(podtopologyspread=1), w.view), 1)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, ScoreEffect.FREE),
        (only(leastrequested=1), ScoreEffect.FREE),
        (only(balancedresource=1), ScoreEffect.FREE),
        (only(mostrequested=1, nodeaffinity=1), ScoreEffect.ROW),
        (
            only(nodeaffinity=1, tainttoleration=1, imagelocality=1, podaffinity=1, podtopologyspread=1),
            ScoreEffect.FIXED,
        ),
        (only(), ScoreEffect.FIXED),
    ],
)
def test_reach_is_as_narrow_as_the_parts_allow(arguments: dict[str, object], expected: ScoreEffect) -> None:
    """Parts that fall as a node fills are free, those that rise stay on the row, the rest is fixed."""
    w = zoned(pods(affinity=prefers((1, "zone", "a"))))
    plugin = NodeOrder(arguments, w.view)

    assert expected is plugin.effect(w.ask(0))
    assert slice(2, 3) == plugin.stale(w.ask(0), 2)


def test_pod_wishes_make_every_row_stale() -> None:
    """Where other pods matter a placement may move any node; a wish that means no pod moves none."""
    wish = pods(affinity=Affinity(pod_affinity=likes()))
    w, alone = zoned(wish, pods(on="n2", labels={"app": "web"})), zoned(wish)
    plugin, without = (NodeOrder(only(podaffinity=1), one.view) for one in (w, alone))

    assert ScoreEffect.FREE is plugin.effect(w.ask(0))
    assert slice(0, 4) == plugin.stale(w.ask(0), 2)
    assert ScoreEffect.FIXED is without.effect(alone.ask(0))


def test_nothing_applicable_is_not_scored() -> None:
    """Without weights or wishes it has nothing to say, whatever the span."""
    draft: list[NodeDraft] = [node("n0"), node("n1")]
    w = world(draft, [pods()])
    plugin = NodeOrder(only(nodeaffinity=1, podaffinity=1, podtopologyspread=1), w.view)

    assert plugin.score(w.ask(0), slice(1, 2), np.ones(1, dtype=bool)) is None
