"""Which domain a gang goes to: the tightest tier that holds it, then the fullest domain, then the first by name."""

from __future__ import annotations

from tests.support.draw import (
    allocate,
    draw,
    gang,
    placed,
    spots,
    why,
)
from tests.support.strategies import profile

from tierwise.config.profile import PluginChoice


def test_tightest_rack_wins() -> None:
    """A gang that fits a rack does not spill to the spine."""
    world = draw("s0: r0[n0 n1] r1[n2 n3 n4]", node="gpu=4", running="n0:gpu=4")
    outcome = allocate(world, gang("train", tasks=2, each="gpu=4", within=2))

    assert {"n2": 1, "n3": 1} == placed(outcome, "train")


def test_next_tier_where_no_rack_holds_the_gang() -> None:
    """A gang that fits no rack takes the tightest spine that holds it."""
    world = draw("z0: (s0: r0[n0] r1[n1]) (s1: r2[n2 n3] r3[n4])")
    outcome = allocate(world, gang("train", tasks=3, each="cpu=8", within=3))

    assert {"n2": 1, "n3": 1, "n4": 1} == placed(outcome, "train")


def test_hard_limit_refuses_what_is_too_wide() -> None:
    """A gang that fits no domain within its tier waits as a whole."""
    world = draw("s0: r0[n0 n1] r1[n2 n3]")
    outcome = allocate(world, gang("train", tasks=3, each="cpu=8", within=1))

    assert ({}, "LargerThanAnyDomain") == (placed(outcome, "train"), why(outcome, "train"))


def test_no_domain_within_the_tier() -> None:
    """A limit below every tier is named as the cause."""
    outcome = allocate(draw("r0[n0]"), gang("train", tasks=1, within=0))

    assert ({}, "NoDomainWithinTier") == (placed(outcome, "train"), why(outcome, "train"))


def test_nodes_outside_every_domain_are_out_of_bounds() -> None:
    """A hard gang does not use nodes that stand in no domain, even where they are the only ones free."""
    outcome = allocate(draw("r0[n0] n1 n2"), gang("train", tasks=2, each="cpu=8", within=1))

    assert {} == placed(outcome, "train")


def test_virtual_root_as_limit() -> None:
    """A limit above every declared tier reaches the whole cluster, nodes outside every domain included."""
    outcome = allocate(draw("r0[n0] n1 n2"), gang("train", tasks=3, each="cpu=8", within=2))

    assert {"n0": 1, "n1": 1, "n2": 1} == placed(outcome, "train")


def test_fuller_rack_wins() -> None:
    """Of two racks that hold the gang the one that it would leave fuller is taken."""
    world = draw("r0[n0 n1] r1[n2 n3]", running="n2:cpu=4")
    outcome = allocate(world, gang("train", tasks=2, each="cpu=4", within=1))

    assert {"n2": 1, "n3": 1} == placed(outcome, "train")


def test_smaller_rack_wins() -> None:
    """Of two empty racks the smaller one is left fuller, and is taken."""
    outcome = allocate(draw("r0[n0 n1 n2] r1[n3 n4]"), gang("train", tasks=2, each="cpu=8", within=1))

    assert {"n3": 1, "n4": 1} == placed(outcome, "train")


def test_fullness_counts_listed_resources() -> None:
    """Resources other than cpu and memory count towards fullness once the profile lists them."""
    arguments = {"hypernode.binpack.resources": "nvidia.com/gpu"}
    listed = profile("gang", PluginChoice("network-topology-aware", arguments))
    world = draw("r0[n0 n1] r1[n2 n3]", node="gpu=8", running="n2:gpu=4")
    one = gang("train", tasks=1, each="gpu=1", within=1)

    assert "n0" == spots(allocate(world, one, profile=profile("gang", "network-topology-aware")), "train")
    assert "n2" == spots(allocate(world, one, profile=listed), "train")


def test_natural_order_of_domains_is_the_last_word() -> None:
    """Between equal racks r2 comes before r10."""
    outcome = allocate(draw("r10[n0] r2[n1]"), gang("train", tasks=1, within=1))

    assert "n1" == spots(outcome, "train")


def test_natural_order_of_nodes_is_the_last_word() -> None:
    """Between equal nodes n2 comes before n10."""
    outcome = allocate(draw("r0[n10 n2]"), gang("train", tasks=1))

    assert "n2" == spots(outcome, "train")


def test_fewest_racks() -> None:
    """Where several racks are needed, two that are used up are missed less than the largest and a part of another."""
    world = draw("s0: r0[n0 n1 n2] r1[n3 n4] r2[n5 n6 n7 n8]")
    outcome = allocate(world, gang("train", tasks=5, each="cpu=8", within=2))

    assert {"n0": 1, "n1": 1, "n2": 1, "n3": 1, "n4": 1} == placed(outcome, "train")


def test_mixed_depth() -> None:
    """Nodes that hang on a spine directly serve gangs that may span the spine, not those that need a rack."""
    world = draw("s0[r0[n0 n1] n2 n3]")

    assert {} == placed(allocate(world, gang("train", tasks=3, each="cpu=8", within=1)), "train")
    assert {"n0": 1, "n1": 1, "n2": 1} == placed(
        allocate(world, gang("train", tasks=3, each="cpu=8", within=2)), "train"
    )


def test_room_counts_every_resource() -> None:
    """A rack with enough of one resource and too little of another does not hold the gang."""
    world = draw("r0[n0] r1[n1]", nodes={"n0": "cpu=8 gpu=1", "n1": "cpu=8 gpu=2"})
    outcome = allocate(world, gang("train", tasks=2, each="cpu=1 gpu=1", within=1))

    assert {"n1": 2} == placed(outcome, "train")


def test_cordoned_nodes_do_not_count() -> None:
    """A rack is as large as its nodes that may be used."""
    world = draw("r0[n0 n1] r1[n2 n3]", cordoned="n1")
    outcome = allocate(world, gang("train", tasks=2, each="cpu=8", within=1))

    assert {"n2": 1, "n3": 1} == placed(outcome, "train")


def test_minimum_resources_keep_small_domains_out() -> None:
    """A domain without the pod group's minResources is not tried, though its pods would fit."""
    world = draw("s0: r0[n0] r1[n1 n2]")
    outcome = allocate(world, gang("train", tasks=1, each="cpu=8", within=1, least="cpu=10"))

    assert "n1" == spots(outcome, "train")


def test_what_does_not_fit_leaves_no_trace() -> None:
    """A gang that is refused takes nothing from the one after it."""
    world = draw("r0[n0 n1]")
    outcome = allocate(
        world,
        gang("first", tasks=3, each="cpu=8", within=1),
        gang("second", tasks=2, each="cpu=8", within=1, created=1),
    )

    assert ({}, {"n0": 1, "n1": 1}) == (placed(outcome, "first"), placed(outcome, "second"))


def test_a_gang_without_topology_packs_domains() -> None:
    """Pods that do not care go to the fuller rack, and leave the empty one to gangs that do."""
    world = draw("r0[n0 n1] r1[n2 n3]", node="cpu=8 mem=8", running="n3:cpu=4,mem=4")
    outcome = allocate(world, gang("web", tasks=1, each="cpu=8 mem=8"))

    assert "n2" == spots(outcome, "web")


def test_a_gang_without_topology_prefers_nodes_outside_domains() -> None:
    """Nodes in no domain are taken first by pods that do not care."""
    outcome = allocate(draw("r0[n0 n1] n2"), gang("web", tasks=1))

    assert "n2" == spots(outcome, "web")
