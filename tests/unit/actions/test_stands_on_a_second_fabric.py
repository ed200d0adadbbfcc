"""What stands on a second fabric, or grows: where its rest goes, what is repaired, and what is reserved for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.draw import World, draw
from tests.support.koordinator import hypernode
from tests.support.reservations import HOUR, NOW, job, profile, running

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.merge_patch import merged
from tierwise.config.profile import DEFAULT, Profile
from tierwise.framework.report import CycleReport
from tierwise.port import Objects
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build

ISLANDS = {"v0": "n0 n1 n2", "v1": "n3 n6", "v2": "n4 n7", "v3": "n5 n8"}
WORLD = draw("s0[r0[n0 n1 n2] r1[n3 n4 n5] r2[n6 n7 n8]]", node="gpu=8")
NVLINK = {"tierwise.io/topology-constraints": json.dumps([{"fabric": "nvlink", "tier": 1, "mode": "hard"}])}
REPAIRED = {**NVLINK, "tierwise.io/on-node-loss": "replace"}
NOT_READY: Raw = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}


def _islands() -> list[Raw]:
    """A second fabric, most of whose domains cross the racks."""
    label: Raw = {"metadata": {"labels": {"tierwise.io/fabric": "nvlink"}}}
    return [merged(hypernode(name, 1, [("Node", n) for n in nodes.split()]), label) for name, nodes in ISLANDS.items()]


def _report(*parts: list[Raw], lost: str = "", given: Profile = DEFAULT, world: World = WORLD) -> CycleReport:
    nodes = [merged(raw, NOT_READY) if raw["metadata"]["name"] in lost.split() else raw for raw in world.manifests]  # type: ignore[index]
    every = [*nodes, *_islands(), *(raw for part in parts for raw in part)]
    return cycle(build(Objects.of((codec.decode(raw), raw) for raw in every), NOW, given), given)


def _gang(name: str, on: str, marks: dict[str, str], **settings: Any) -> list[Raw]:
    """A gang of whole nodes with an owner, of which some pods stand; `-` is one that waits."""
    return job(name, len(on.split()), on=on, marks=marks, owned=True, **settings)


def _placed(report: CycleReport) -> dict[str, str]:
    nodes = {}
    for decision in report.decisions:
        for placed in decision.placed:
            for task, row in zip(placed.tasks, placed.rows.tolist(), strict=True):
                nodes[task.key.partition("/")[2]] = f"n{row}"
    return nodes


def _gone(report: CycleReport) -> list[str]:
    return sorted(eviction.task.key.partition("/")[2] for eviction in report.evictions)


@pytest.mark.parametrize(("on", "expected"), [("n3 -", "n6"), ("n6 -", "n3"), ("n0 n2 -", "n1")])
def test_a_replacement_joins_the_island_and_not_the_rack(on: str, expected: str) -> None:
    """The other node of the island is in another rack, whose nodes are all free."""
    assert {f"train-{len(on.split()) - 1}": expected} == _placed(_report(_gang("train", on, NVLINK)))


def test_a_replacement_waits_while_its_island_is_full() -> None:
    """Room in the rack is no help, and nobody goes."""
    report = _report(_gang("train", "n3 -", NVLINK), running("busy", "n6"))

    assert ({}, []) == (_placed(report), _gone(report))


@pytest.mark.parametrize(("busy", "expected"), [("", True), ("n0", True), ("n0 n1 n4 n5", False)])
def test_a_gang_that_lost_a_node_moves_to_another_island(busy: str, expected: bool) -> None:
    """Its own island has no other node; it moves as a whole to one that has room, and stays where there is none."""
    others = [running(f"busy-{node}", node) for node in busy.split()]
    report = _report(_gang("train", "n3 -", REPAIRED), *others, lost="n6")

    assert ["train-0"] * expected == _gone(report)


def test_two_gangs_that_lost_nodes_do_not_move_to_one_island() -> None:
    """One island is left: the first moves there, and the second stays."""
    busy = running("busy", "n0 n1")
    report = _report(_gang("a", "n3 -", REPAIRED), _gang("b", "n4 -", REPAIRED), busy, lost="n6 n7")

    assert ["a-0"] == _gone(report)


def _reserved(report: CycleReport) -> dict[str, tuple[set[str], float]]:
    """By job: the nodes that it has reserved, and in how many seconds."""
    return {
        one.job.key.partition("/")[2]: (
            {f"n{row}" for _, rows, counts in one.held for row, number in zip(rows, counts, strict=True) if number},
            one.start - NOW,
        )
        for one in report.reservations
    }


@pytest.mark.parametrize(("on", "awaited", "other"), [("n3 -", "n6", "n4"), ("n6 -", "n3", "n7")])
def test_the_rest_of_a_gang_reserves_in_its_island(on: str, awaited: str, other: str) -> None:
    """What it waits for is the other node of its island, also where one of its rack comes free before."""
    rest = _gang("train", on, NVLINK, turn=1)
    later, sooner = running("later", awaited, ends_in=HOUR), running("sooner", other, ends_in=HOUR / 4)
    report = _report(rest, later, sooner, given=profile(reservationPods=1))

    assert {"train": ({awaited}, HOUR)} == _reserved(report)


@pytest.mark.parametrize("minimum", [2, 3])
def test_a_gang_that_grows_reserves_what_its_minimum_lacks(minimum: int) -> None:
    """Two of three stand: a minimum of three reserves the node beside them; one of two needs nothing, and its surplus
    leaves others alone.
    """
    grows = _gang("grows", "n0 n1 -", {}, minimum=minimum, within=1, turn=1)
    report = _report(grows, running("busy", "n2", ends_in=HOUR), given=profile(reservationPods=1))

    assert ({"grows": ({"n2"}, HOUR)} if minimum == 3 else {}) == _reserved(report)


def test_what_a_gang_that_grows_has_reserved_is_kept_from_others() -> None:
    """A job without an end does not take the node that comes free beside the gang; one that ends before may."""
    grows = _gang("grows", "n0 n1 -", {}, minimum=3, within=1, turn=1)
    taken = [running(f"busy-{i}", f"n{i}") for i in range(3, 9)]
    small = running("half", "n2", ends_in=HOUR, each="gpu=4")
    lasting, short = job("lasting", each="gpu=4", turn=2), job("short", each="gpu=4", turn=3, lasts="30m")
    report = _report(grows, small, *taken, lasting, short, given=profile(reservationPods=1))

    assert {"short-0": "n2"} == _placed(report)
