"""`tierwise drainable`: what drains break, move and cost, and which can go together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import answer, manifests, run
from tests.support.draw import World, draw, gang
from tests.support.drawn_gang import Gang
from tests.support.reservations import HOUR, NOW, running
from tests.support.windows import window

from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.api.merge_patch import merged

RACKS = "s0[r0[n0 n1] r1[n2 n3] r2[n4 n5]]"


def _file(folder: Path, world: World, *gangs: Gang) -> Path:
    return manifests(folder, *world.manifests, *(m for g in gangs for m in g.manifests()))


def _by_name(found: Any) -> dict[str, Any]:
    return {one["names"][0]: one for one in found["drains"]}


def test_the_cheapest_come_first(tmp_path: Path) -> None:
    """An empty rack, then one whose gang keeps its minimum, then one that breaks a gang, then one that has no place."""
    spare = gang("spare", tasks=2, minimum=1, each="gpu=8", on="n2 n0")
    whole = gang("whole", tasks=2, each="gpu=8", on="n4 n5")
    file = _file(tmp_path, draw(RACKS, node="gpu=8", cordoned="n1"), spare, whole)

    found = answer("drainable", "-f", file)

    assert ["r0", "r1", "r2"] == [one["names"][0] for one in found["drains"]]
    assert {"r0": 0, "r1": 0, "r2": 1} == {name: one["gangsBroken"] for name, one in _by_name(found).items()}
    assert ["default/whole"] == _by_name(found)["r2"]["waits"]


def test_what_can_go_together(tmp_path: Path) -> None:
    """Two racks whose gangs fit into the third; not two of which one gang would have no place."""
    small = [gang(f"g{i}", tasks=1, each="gpu=8", on=node) for i, node in enumerate(("n0", "n2", "n4"))]
    file = _file(tmp_path, draw(RACKS, node="gpu=8"), *small)

    one = answer("drainable", "-f", file, "--together", 1)["together"]
    two = answer("drainable", "-f", file, "--together", 2)["together"]

    assert (1, 2) == (len(one["names"]), one["nodes"])
    assert two is None
    assert "no 2 of them that were tried can go together" in run("drainable", "-f", file, "--together", 2).stdout


def test_a_gang_in_two_racks_breaks_once(tmp_path: Path) -> None:
    """Racks that share a gang are cheaper together than racks with a gang each."""
    wide = gang("wide", tasks=2, each="gpu=4", on="n0 n2")
    alone = gang("alone", tasks=2, each="gpu=4", on="n4 n5")
    file = _file(tmp_path, draw(RACKS, node="gpu=8"), wide, alone)

    found = answer("drainable", "-f", file, "--together", 2)["together"]

    assert ({"r0", "r1"}, 1, []) == (set(found["names"]), found["gangsBroken"], found["waits"])


def test_what_repair_evicts_anyway_costs_no_drain(tmp_path: Path) -> None:
    """Pods of a lost node go whether or not it is drained, if their job wants that."""
    lost: Raw = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    drawn = draw("r0[n0] r1[n1] r2[n2]", node="gpu=8")
    world = World(tuple(merged(raw, lost if raw["kind"] == "Node" else {}) for raw in drawn.manifests), drawn.drawing)
    wanting = gang("wanting", tasks=1, each="gpu=8", on="n0", owned=True, marks={"tierwise.io/on-node-loss": "replace"})
    other = gang("other", tasks=1, each="gpu=8", on="n1", owned=True)

    found = _by_name(answer("drainable", "-f", _file(tmp_path, world, wanting, other)))

    assert {"r0": 0, "r1": 1, "r2": 0} == {name: one["pods"] for name, one in found.items()}


def test_nodes_and_names(tmp_path: Path) -> None:
    """Nodes by themselves, some of them, and words that are neither tier nor name."""
    file = _file(tmp_path, draw(RACKS, node="gpu=8"), gang("g", tasks=1, each="gpu=8", on="n0"))

    assert ["n1", "n0"] == list(_by_name(answer("drainable", "-f", file, "--tier", "node", "n0", "n1")))
    assert "there is no node n9" in run("drainable", "-f", file, "--tier", "node", "n9").stderr
    assert "9 is none of the tiers" in run("drainable", "-f", file, "--tier", 9).stderr


@pytest.mark.parametrize("words", [("--tier", "node"), ()], ids=["nodes", "racks"])
def test_daemons_are_left_out_and_pods_without_an_owner_are_gone(tmp_path: Path, words: tuple[str, ...]) -> None:
    """As `kubectl drain` has it: the first stay, the second nothing starts again."""
    world = draw("r0[n0] r1[n1]", node="gpu=8", running="n0:gpu=1")
    found = _by_name(answer("drainable", "-f", _file(tmp_path, world), *words))

    busy = found.get("n0") or found["r0"]
    assert (1, 1, []) == (busy["pods"], len(busy["podsGone"]), busy["waits"])


def test_the_cheapest_time_is_when_what_is_known_to_end_has_ended(tmp_path: Path) -> None:
    """A gang that ends in an hour is waited for, and one whose end nobody knows is not: it loses more by then."""
    world = draw(RACKS, node="gpu=8")
    raws = [*world.manifests, *running("ends", "n0 n1", ends_in=HOUR), *running("runs-on", "n2 n3")]
    file = manifests(tmp_path, *raws, *running("both", "n4", ends_in=HOUR), *running("mine", "n5"))

    found = _by_name(answer("drainable", "-f", file, "--now", format_time(NOW)))

    at = format_time(NOW + HOUR)
    assert {"at": at, "pods": 0, "gangsBroken": 0, "hoursLost": 0.0, "window": None} == found["r0"]["cheapest"]
    assert found["r1"]["cheapest"] is None
    best = found["r2"]["cheapest"]
    assert (at, 1, 16.0) == (best["at"], best["pods"], best["hoursLost"])  # as many hours as now, and one pod less
    assert "cheapest" in run("drainable", "-f", file, "--now", format_time(NOW)).stdout


def test_windows_are_named_and_are_times_to_drain(tmp_path: Path) -> None:
    """Nothing is known of ends but by the window's begin; one that is open to a queue is named and not proposed."""
    begins = int(HOUR)
    late = [*window(begins=begins), *window("ours", begins=begins, domains=["r1"], queues=["default"])]
    world = draw(RACKS, node="gpu=8")
    raws = [
        *world.manifests,
        *late,
        *running("ends", "n0 n1", ends_in=HOUR / 2),
        *running("other", "n2", ends_in=HOUR / 2),
    ]
    found = _by_name(answer("drainable", "-f", manifests(tmp_path, *raws), "--now", format_time(NOW)))

    text = f"from {format_time(NOW + HOUR)} until {format_time(NOW + 2 * HOUR)}"
    assert [f"firmware {text}"] == found["r0"]["windows"]
    assert [f"ours {text}"] == found["r1"]["windows"]
    assert [] == found["r2"]["windows"]
    assert format_time(NOW + HOUR / 2) == found["r0"]["cheapest"]["at"]
    shown = run("drainable", "-f", manifests(tmp_path, *raws), "--now", format_time(NOW)).stdout
    assert f"r0: window firmware {text}" in shown
