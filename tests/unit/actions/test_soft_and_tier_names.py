"""Soft constraints, tiers by name, and constraints that name no tier."""

from __future__ import annotations

import pytest
from tests.support.draw import (
    allocate,
    by_group,
    draw,
    gang,
    groups,
    placed,
    spots,
    why,
)
from tests.support.strategies import profile

from tierwise.config.profile import PluginChoice


def test_soft_takes_the_tightest_tier() -> None:
    """A soft gang goes to the rack that holds it."""
    outcome = allocate(draw("s0: r0[n0] r1[n1 n2]"), gang("train", tasks=2, each="cpu=8", soft=True))

    assert {"n1": 1, "n2": 1} == placed(outcome, "train")


def test_soft_widens_tier_by_tier() -> None:
    """A soft gang that fits no rack stays below one spine."""
    world = draw("z0: (s0: r0[n0 n1]) (s1: r1[n2 n3] r2[n4])")
    outcome = allocate(world, gang("train", tasks=3, each="cpu=8", soft=True))

    assert {"n2": 1, "n3": 1, "n4": 1} == placed(outcome, "train")


def test_soft_is_never_refused_for_topology() -> None:
    """A soft gang that needs the whole cluster gets it, nodes outside every domain included."""
    outcome = allocate(draw("r0[n0] r1[n1] n2"), gang("train", tasks=3, each="cpu=8", soft=True))

    assert {"n0": 1, "n1": 1, "n2": 1} == placed(outcome, "train")


def test_soft_sub_group_keeps_to_its_jobs_limit() -> None:
    """A soft sub-group may be as wide as its job, and no wider."""
    world = draw("z0: (s0: r0[n0] r1[n1]) (s1: r2[n2 n3])", running="n2:cpu=8")
    two = gang("train", each="cpu=8", within=2, groups=(groups(1, size=2, soft=True),))

    assert {"part-0": "n0 n1"} == by_group(allocate(world, two), "train")


@pytest.mark.parametrize("within", [1, "rack"])
def test_a_tier_by_number_or_name(within: int | str) -> None:
    """A tier may be given by its name."""
    world = draw("s0: r0[n0] r1[n1 n2]", tier_names={1: "rack", 2: "spine"})
    outcome = allocate(world, gang("train", tasks=2, each="cpu=8", within=within))

    assert {"n1": 1, "n2": 1} == placed(outcome, "train")


def test_a_tier_name_limits() -> None:
    """A gang too large for the named tier waits."""
    world = draw("s0: r0[n0] r1[n1 n2]", tier_names={1: "rack", 2: "spine"})
    outcome = allocate(world, gang("train", tasks=3, each="cpu=8", within="rack"))

    assert {} == placed(outcome, "train")


def test_unknown_tier_name_means_no_limit() -> None:
    """A name that no hyperNode carries does not confine the gang."""
    world = draw("r0[n0] r1[n1]", tier_names={1: "rack"})
    outcome = allocate(world, gang("train", tasks=2, each="cpu=8", within="rakc"))

    assert {"n0": 1, "n1": 1} == placed(outcome, "train")


def test_unknown_tier_name_is_refused_where_the_profile_says_so() -> None:
    """With `unknownTierName: reject` the gang waits, and the name is the reason."""
    strict = profile("gang", PluginChoice("network-topology-aware", {"unknownTierName": "reject"}))
    world = draw("r0[n0] r1[n1]", tier_names={1: "rack"})
    outcome = allocate(world, gang("train", tasks=1, within="rakc"), profile=strict)

    assert ({}, "UnknownTierName") == (placed(outcome, "train"), why(outcome, "train"))


def test_hard_without_a_tier_means_no_limit() -> None:
    """A hard constraint that names no tier confines nothing."""
    outcome = allocate(draw("r0[n0] r1[n1]"), gang("train", tasks=2, each="cpu=8", within=""))

    assert {"n0": 1, "n1": 1} == placed(outcome, "train")


def test_hard_without_a_tier_still_stays_close() -> None:
    """It is a topology all the same: its pods stand near each other."""
    world = draw("r0[n0] r1[n1 n2]", running="n0:cpu=4")
    outcome = allocate(world, gang("train", tasks=2, each="cpu=4", within="", on="n1"))

    assert "n1" == spots(outcome, "train")


def test_without_the_plugin_there_is_no_topology() -> None:
    """A profile without network-topology-aware ignores even hard limits."""
    outcome = allocate(draw("r0[n0] r1[n1]"), gang("train", tasks=2, each="cpu=8", within=1), profile=profile("gang"))

    assert {"n0": 1, "n1": 1} == placed(outcome, "train")
