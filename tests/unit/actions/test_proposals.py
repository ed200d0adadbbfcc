"""What `propose` does with a gang, and what people hear of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support.commands import answer, manifests, run
from tests.support.draw import (
    Outcome,
    World,
    allocate,
    draw,
    gang,
    groups,
    placed,
    role,
)
from tests.support.strategies import proposing

from tierwise.config.profile import PluginChoice, Profile
from tierwise.framework.extension import Abstained, Proposal

RACKS = "s0[r0[n0..3] r1[n4..6] r2[n7..9] r3[n10..11]]"
CONFIG = """
actions: "allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: network-topology-aware
  - name: propose
    arguments:
      objective: {objective}
"""


def _racks(outcome: Outcome, name: str) -> dict[str, int]:
    """How many pods of a gang each rack was given."""
    topology, row = outcome.snapshot.topology, outcome.snapshot.nodes.row
    found: dict[str, int] = {}
    for node, number in placed(outcome, name).items():
        rack = topology.name[int(topology.leaf[row[node]])]
        found[rack] = found.get(rack, 0) + number
    return found


def _proposed(outcome: Outcome) -> Proposal | Abstained | None:
    return outcome.report.decisions[0].proposed


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        ("fewest-domains", {"r1": 3, "r2": 3}),  # two racks, and nothing left over in them
        ("least-damage", {"r0": 4, "r3": 2}),  # the queue holds gangs of three, whose two racks stay
    ],
)
def test_objectives_choose_racks(objective: str, expected: dict[str, int]) -> None:
    """Racks of 4, 3, 3 and 2 for a gang of six, while two gangs of three wait behind it."""
    world = draw(RACKS, node="gpu=1", queues="first second")
    first = gang("a", tasks=6, each="gpu=1", within=2, queue="first")
    later = [gang(name, tasks=3, each="gpu=1", within=1, created=1, queue="second") for name in "bc"]
    outcome = allocate(world, first, *later, profile=proposing(objective=objective))

    assert expected == _racks(outcome, "a")


@pytest.mark.parametrize(
    ("objective", "expected"), [("fewest-domains", {"r0": 4, "r1": 2}), ("pack", {"r1": 2, "r2": 2, "r3": 2})]
)
def test_packing_keeps_a_rack_whole(objective: str, expected: dict[str, int]) -> None:
    """One rack is empty, two have two nodes left and one has three: few racks, or the empty one kept for others."""
    busy = " ".join(f"n{i}:gpu=1" for i in (4, 5, 8, 9, 12))
    world = draw("s0[r0[n0..3] r1[n4..7] r2[n8..11] r3[n12..15]]", node="gpu=1", running=busy)
    outcome = allocate(world, gang("a", tasks=6, each="gpu=1", within=2), profile=proposing(objective=objective))

    assert expected == _racks(outcome, "a")


def test_sub_groups_are_divided() -> None:
    """Sub-groups of two in racks: the fewest racks that hold three of them."""
    world = draw("s0[r0[n0..1] r1[n2..5] r2[n6..7]]", node="gpu=1")
    train = gang("a", each="gpu=1", within=2, groups=(groups(3, size=2, within=1),))
    outcome = allocate(world, train, profile=proposing())
    said = _proposed(outcome)

    assert isinstance(said, Proposal)
    assert [1, 2] == said.counts.tolist()
    assert {"r0": 2, "r1": 4} == _racks(outcome, "a")


def test_pods_of_several_kinds_get_a_hypernode() -> None:
    """An estimate names the hyperNode, and the ordinary placing divides the pods."""
    world = draw("s0[r0[n0..1]] s1[r1[n2..3] r2[n4..5]]", node="gpu=4", running="n0:gpu=4")
    roles = (role("chief", 2, each="gpu=2"), role("worker", 3, each="gpu=4"))
    outcome = allocate(world, gang("a", within=3, roles=roles), profile=proposing())
    said = _proposed(outcome)

    assert isinstance(said, Proposal)
    assert "estimate" in said.why
    assert 5 == sum(placed(outcome, "a").values())


def test_beyond_its_bound_it_abstains() -> None:
    """Without cells least-damage says nothing, and the gang is placed as it would be without the plugin."""
    world, train = draw(RACKS, node="gpu=1"), gang("a", tasks=6, each="gpu=1", within=2)
    outcome = allocate(world, train, profile=proposing(objective="least-damage", cells=0))

    assert isinstance(_proposed(outcome), Abstained)
    assert placed(allocate(world, train), "a") == placed(outcome, "a")


def test_a_gang_that_stands_is_left_to_its_siblings() -> None:
    """A replacement returns to its gang, whatever a recommendation would say."""
    world = draw("s0[r0[n0..1] r1[n2..3]]", node="gpu=2")
    outcome = allocate(world, gang("a", tasks=2, each="gpu=1", within=2, on="n0 -"), profile=proposing())

    assert _proposed(outcome) is None
    assert {"n0": 1} == placed(outcome, "a")


@pytest.mark.parametrize(("sort", "first"), [(True, "large"), (False, "small")])
def test_larger_gangs_may_go_first(sort: bool, first: str) -> None:
    """Of equal priority the larger one is taken first where that is asked for; priority still counts before it."""
    world = draw("r0[n0..1]", node="gpu=2")
    small = gang("small", tasks=1, each="gpu=1", within=1)
    large = gang("large", tasks=4, each="gpu=1", within=1, created=1)
    outcome = allocate(world, small, large, profile=proposing(sortBySize=sort))

    assert [f"default/{first}"] == [d.job.key for d in outcome.report.decisions]
    important = allocate(world, replace(small, priority=10), large, profile=proposing(sortBySize=sort))
    assert ["default/small"] == [d.job.key for d in important.report.decisions]


def test_the_point_can_be_switched_off() -> None:
    """`enableHyperNodeProposal: false` leaves the search to itself."""
    profile = Profile(("allocate",), ((*proposing().tiers[1][:-1], _off()),))
    outcome = allocate(draw(RACKS, node="gpu=1"), gang("a", tasks=6, each="gpu=1", within=2), profile=profile)

    assert _proposed(outcome) is None


def _off() -> PluginChoice:
    return PluginChoice("propose", off=frozenset({"HyperNodeProposal"}))


def _files(tmp_path: Path, world: World, objective: str) -> list[object]:
    file = manifests(tmp_path, *world.manifests, *gang("a", tasks=6, each="gpu=1", within=2).manifests())
    (tmp_path / "conf").write_text(CONFIG.format(objective=objective), encoding="utf-8")
    return ["-f", file, "--config", tmp_path / "conf"]


def test_explain_tells_what_was_recommended(tmp_path: Path) -> None:
    """In words: who, where, how it is divided and why; and the same as JSON."""
    files = _files(tmp_path, draw(RACKS, node="gpu=1"), "fewest-domains")
    page = " ".join(run("explain", *files, "--job", "a").stdout.split())
    wire = answer("explain", *files, "--job", "a")["proposal"]

    assert "propose recommends s0: 3 pods each in r[1-2] (fewest-domains, exact; the only one that holds it)" in page
    assert {"r1": 3, "r2": 3} == wire["split"]
    assert "propose recommends s0" in run("schedule", *files).stdout
