"""HyperNodes and layers in one cluster: which of them a constraint is judged on, and what if it is missing."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.support.drawn_gang import gang as volcano_gang
from tests.support.koordinator import AWARE, cluster, gang, hypernode, run
from tests.support.quotas import koordinator, settle, worker

from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT, Profile

TREE = {"s0": {"b0": "n0 n2", "b1": "n1 n3"}}
RACKS = [hypernode("r0", 1, [("Node", "n0"), ("Node", "n1")]), hypernode("r1", 1, [("Node", "n2"), ("Node", "n3")])]
PLAIN = replace(AWARE, tiers=(tuple(p for p in AWARE.tiers[0] if p.name != "coscheduling"),))
PROFILES = pytest.mark.parametrize("profile", [DEFAULT, AWARE, PLAIN], ids=["default", "coscheduling", "plain"])


def misspelt(world: list[Raw]) -> list[Raw]:
    """The same cluster with a layer whose parent does not exist."""
    layer: Raw = {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "BlokLayer"}
    return [
        raw | {"spec": {"networkTopologySpec": [layer]}} if raw["kind"] == "ClusterNetworkTopology" else raw
        for raw in world
    ]


def without_layers(world: list[Raw]) -> list[Raw]:
    """The same cluster without its layers."""
    return [raw for raw in world if raw["kind"] != "ClusterNetworkTopology"]


@PROFILES
def test_each_gang_keeps_to_its_own_tree(profile: Profile) -> None:
    """Two pods in a block, which crosses the racks, and two in a rack, which crosses the blocks."""
    world = cluster(TREE, cpu=2)

    bound, _ = run(world, RACKS, gang("k", 4, must="BlockLayer"), profile=profile)
    assert {"n0", "n2"} == set(bound.values())
    bound, _ = run(world, RACKS, volcano_gang("v", tasks=4, within=1).manifests(), profile=profile)
    assert {"n0", "n1"} == set(bound.values())


@PROFILES
def test_a_gang_larger_than_its_tree_allows_waits(profile: Profile) -> None:
    """What a rack would hold is no help for a gang that must stay in a block, nor the other way round."""
    world = [*cluster({"s0": {"b0": "n0", "b1": "n1", "b2": "n2", "b3": "n3"}}), *RACKS]
    bound, why = run(world, gang("k", 2, must="BlockLayer"), profile=profile)
    assert ({}, {"CannotGather"}) == (bound, {text.split(":")[0] for text in why.values()})

    single = [hypernode(f"r{i}", 1, [("Node", f"n{i}")]) for i in range(4)]
    bound, _ = run(cluster(TREE), single, volcano_gang("v", tasks=2, within=1).manifests(), profile=profile)
    assert {} == bound


@PROFILES
@pytest.mark.parametrize("racks", [RACKS, []], ids=["hyperNodes", "layers alone"])
def test_a_broken_tree_keeps_its_gangs_waiting(racks: list[Raw], profile: Profile) -> None:
    """A misspelt layer lets nobody pass who must be gathered, and says so; others are not concerned."""
    world = misspelt(cluster(TREE))

    bound, why = run(world, racks, gang("k", 2, must="BlockLayer"), profile=profile)
    assert {} == bound
    assert all("BlokLayer" in text for text in why.values())
    assert 2 == len(run(world, racks, volcano_gang("v", tasks=2, within=1).manifests(), profile=profile)[0])


@PROFILES
@pytest.mark.parametrize("racks", [RACKS, []], ids=["hyperNodes", "no tree"])
def test_a_tree_that_does_not_exist_keeps_its_gangs_waiting(racks: list[Raw], profile: Profile) -> None:
    """Layers that nobody declared are not taken for no limit."""
    bound, why = run(without_layers(cluster(TREE)), racks, gang("k", 2, must="BlockLayer"), profile=profile)

    assert {} == bound
    assert {"k-0", "k-1"} == set(why)


def test_without_hypernodes_volcano_has_a_virtual_root() -> None:
    """A hard tier does not mean a layer: with layers alone it is as if there were no tree."""
    bound, _ = run(cluster(TREE), volcano_gang("v", tasks=4, within=1).manifests())

    assert 4 == len(bound)


@PROFILES
def test_the_rest_of_a_gang_joins_it_in_its_own_tree(profile: Profile) -> None:
    """A gang that stands in a block stays there, whatever racks there are."""
    world = cluster({"s0": {"b0": "n0 n2 n4", "b1": "n1 n3"}})

    bound, _ = run(world, RACKS, gang("k", 3, must="BlockLayer", running={0: "n2"}, phase="Scheduled"), profile=profile)

    assert {"n0", "n4"} == set(bound.values())


@pytest.mark.parametrize("racks", [RACKS, []], ids=["hyperNodes", "layers alone"])
def test_room_is_made_in_the_tree_of_the_gang(racks: list[Raw]) -> None:
    """The one pod goes whose node completes a block, not those that would empty a rack."""
    world = [_with_cards(raw) if raw["kind"] == "Node" else raw for raw in cluster(TREE)]
    group = gang("k", 2, must="BlockLayer")[0]
    pods = [worker(f"k-{i}", of="k", gpu=1, priority=100) for i in range(2)]
    others = [worker(f"low{i}", gpu=1, on=f"n{i}", priority=1) for i in range(3)]

    outcome = settle(world, racks, [group, *pods, *others], profile=koordinator(preempts=True))

    assert (["low1"], {"n1", "n3"}) == (outcome.evicted, set(outcome.bound.values()))


def _with_cards(node: Raw) -> Raw:
    return node | {"status": {"allocatable": {"cpu": "1", "pods": "110", "nvidia.com/gpu": "1"}}}
