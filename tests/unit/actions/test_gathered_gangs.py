"""Gathered gangs, end to end: what Koordinator's users ask for is where their pods go."""

from __future__ import annotations

import json

import pytest
from tests.support.koordinator import annotated, cluster, gang, pod, run

from tierwise.api.codec import Raw
from tierwise.config.profile import PluginChoice, Profile

TWO_SPINES = {"s0": {"b0": "n0 n1 n2", "b1": "n3 n4"}, "s1": {"b2": "n5 n6 n7", "b3": "n8 n9 n10 n11"}}
GROUPS = "gang.scheduling.koordinator.sh/groups"


def test_one_node_is_the_innermost_layer() -> None:
    """A gang that fits a node is not spread over a block."""
    bound, _ = run(cluster(TWO_SPINES, cpu=2), gang("g", 2))

    assert {"g-0": "n3", "g-1": "n3"} == bound  # the block with the least room, then the name


def test_surplus_is_planned_with_the_rest() -> None:
    """A gang that fits a block as a whole is not split for the sake of its minimum."""
    bound, _ = run(cluster(TWO_SPINES), gang("g", 3, least=2))

    assert {"g-0": "n0", "g-1": "n1", "g-2": "n2"} == bound


def test_surplus_that_finds_no_room_undoes_nothing() -> None:
    """The minimum binds inside the layer that must not be crossed; what is too much waits."""
    bound, waiting = run(cluster(TWO_SPINES), gang("g", 5, least=4, must="BlockLayer"))

    assert {"g-0": "n8", "g-1": "n9", "g-2": "n10", "g-3": "n11"} == bound
    assert ["g-4"] == list(waiting)


@pytest.mark.parametrize("order", [("SpineLayer", "BlockLayer"), ("BlockLayer", "SpineLayer")])
def test_the_tightest_of_several_layers_limits(order: tuple[str, str]) -> None:
    """Five pods that must share a spine and a block wait, because no block has five nodes."""
    asks = json.dumps({"gatherStrategy": [{"layer": layer, "strategy": "MustGather"} for layer in order]})
    noted = {"gang.scheduling.koordinator.sh/network-topology-spec": asks}

    assert {} == run(cluster(TWO_SPINES), gang("g", 5, annotations=noted))[0]
    assert 4 == len(run(cluster(TWO_SPINES), gang("g", 4, annotations=noted))[0])


def test_a_pod_that_comes_back_stays_in_the_domain() -> None:
    """What runs already says which block the rest must join, though another has more room."""
    bound, _ = run(cluster(TWO_SPINES), gang("g", 3, must="BlockLayer", running={0: "n0", 1: "n1"}))

    assert {"g-2": "n2"} == bound


def test_a_pod_that_comes_back_makes_the_multiple_whole() -> None:
    """One of a pair is missing: it goes where its partner runs."""
    world = cluster({"s0": {"b0": "n0 n1", "b1": "n2 n3"}}, cpu=2)
    bound, _ = run(world, gang("g", 4, multiples={"NodeTopologyLayer": 2}, running={0: "n2", 1: "n2", 2: "n0"}))

    assert {"g-3": "n0"} == bound


def test_multiples_of_two_layers_are_counted_together() -> None:
    """Pairs per node and threes per block leave sixes per block: rounding layer by layer would miss that."""
    world = cluster({"s0": {"b0": "n0 n1 n2 n3", "b1": "n4 n5 n6 n7"}}, cpu=2)
    bound, _ = run(world, gang("g", 12, multiples={"NodeTopologyLayer": 2, "BlockLayer": 3}))

    assert 12 == len(bound)
    assert [6, 6] == [sum(node in block for node in bound.values()) for block in ("n0 n1 n2 n3", "n4 n5 n6 n7")]


def test_the_message_names_layer_room_and_multiple() -> None:
    """A gang that waits reads how much was wanted, where, and what the best domains take."""
    _, waiting = run(cluster(TWO_SPINES), gang("g", 8, must="SpineLayer", multiples={"BlockLayer": 2}))

    text = "even if the cluster were empty, 8 pods cannot be gathered in one SpineLayer: s1 takes 6, s0 takes 4;"
    assert waiting["g-0"].startswith(f"CannotGather: {text}")
    assert "multiples of 2 in each BlockLayer" in waiting["g-0"]


def test_a_wrong_multiple_is_all_that_is_told() -> None:
    """A number of pods that can never come in multiples is not the fault of any node."""
    _, waiting = run(cluster(TWO_SPINES), gang("g", 7, must="SpineLayer", multiples={"BlockLayer": 2}))

    text = "pods come in multiples of 2 in each BlockLayer, and 7 is not a multiple of 2"
    assert waiting["g-0"] == f"CannotGather: 7 pods cannot be gathered in one SpineLayer: {text}"


def test_pods_that_keep_apart_come_in_multiples_too() -> None:
    """Anti-affinity leaves one pod per node, and blocks take whole pairs of them."""
    apart: Raw = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "g"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
    bound, _ = run(cluster(TWO_SPINES, cpu=4), gang("g", 4, multiples={"BlockLayer": 2}, affinity=apart))

    assert ["n8", "n9", "n10", "n11"] == list(bound.values())


def test_gangs_of_two_sizes_share_a_block() -> None:
    """A group of unlike gangs is gathered as one job, the larger pods finding a node of their own."""
    together = {GROUPS: '["default/big", "default/small"]'}
    world = cluster({"s0": {"b0": "n0 n1", "b1": "n2"}}, cpu=4)
    big = [*gang("big", 1, annotations=together)[:1], pod("big-0", of="big", cpu=4)]
    small = gang("small", 4, annotations=together)
    bound, _ = run(world, big, small)

    assert {"n0", "n1"} == set(bound.values())
    assert 5 == len(bound)


def test_gangs_of_two_sizes_come_in_multiples() -> None:
    """Two large and two small pods, an even number in each block: each node takes one of both sizes."""
    together = {GROUPS: '["default/big", "default/small"]'}
    world = cluster({"s0": {"b0": "n0", "b1": "n1"}}, cpu=4)
    big, small = (gang(name, 2, multiples={"BlockLayer": 2}, annotations=together) for name in ("big", "small"))
    large = [big[0], *(pod(f"big-{i}", of="big", cpu=3) for i in range(2))]
    bound, _ = run(world, large, small)

    assert bound["big-0"] != bound["big-1"]
    assert bound["small-0"] != bound["small-1"]


def test_the_index_orders_pods_of_a_group_across_its_gangs() -> None:
    """Ranks are dealt out over the whole group, whichever gang they belong to."""
    together = {GROUPS: '["default/a", "default/b"]'}
    (a, a0, a1), (b, b0, b1) = gang("a", 2, annotations=together), gang("b", 2, annotations=together)
    ranked = [(a0, 3), (a1, 1), (b0, 2), (b1, 0)]
    pods = [annotated(raw, network_topology_index=str(index)) for raw, index in ranked]
    bound, _ = run(cluster(TWO_SPINES), [a, b, *pods])

    assert {"b-1": "n8", "a-1": "n9", "b-0": "n10", "a-0": "n11"} == bound


def test_running_pods_draw_a_gang_to_them() -> None:
    """Of two blocks that hold the gang, the one near pods of the same selector is taken, though it has more room."""
    group, *members = gang("g", 2)
    near = [annotated(raw, selector="app") for raw in (pod("old", on="n8"), *members)]
    bound, _ = run(cluster(TWO_SPINES), [group, *near])

    assert {"g-0": "n9", "g-1": "n10"} == bound


def test_a_gang_that_stands_too_wide_gets_no_more() -> None:
    """Pods that run in two blocks leave no block for the rest."""
    _, waiting = run(cluster(TWO_SPINES), gang("g", 3, must="BlockLayer", running={0: "n0", 1: "n3"}))

    assert "cannot be gathered in one BlockLayer, none of which holds its running pods" in waiting["g-2"]


@pytest.mark.parametrize(("spec", "code"), [("{", "UnreadableGather"), ('{"gatherStrategy": 3}', "UnreadableGather")])
def test_what_cannot_be_read_is_refused(spec: str, code: str) -> None:
    """A broken annotation keeps the gang waiting, with a reason."""
    noted = {"gang.scheduling.koordinator.sh/network-topology-spec": spec}
    _, waiting = run(cluster(TWO_SPINES), gang("g", 1, annotations=noted))

    assert waiting["g-0"].startswith(code)


def test_without_awareness_nothing_is_gathered() -> None:
    """The argument of Koordinator's plugin switches gathering off, layers that do not exist included."""
    plain = Profile(("allocate",), ((PluginChoice("gang"), PluginChoice("predicates"), PluginChoice("coscheduling")),))
    bound, _ = run(cluster(TWO_SPINES), gang("g", 8, must="RowLayer"), profile=plain)

    assert 8 == len(bound)
