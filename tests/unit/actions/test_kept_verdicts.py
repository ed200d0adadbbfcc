"""What a cycle found out about gangs that never fit serves the next one, and equal gangs alike."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.draw import Gang, World, draw, gang, groups, objects_of, role

from tierwise.config.profile import DEFAULT
from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot
from tierwise.port import Objects, key_of_raw
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import Reader

RACKS = "s0: r0[n0 n1] r1[n2 n3]"
TRAIN = gang("train", tasks=4, each="cpu=6", within=1)
PARTS = groups(2, size=3, within=1)


def _kinds(*gangs: Gang) -> int:
    """How many things a cycle over these gangs keeps."""
    snapshot = Reader().read(objects_of(draw(RACKS), *gangs), 0.0)
    cycle(snapshot, DEFAULT)
    return len(_kept(snapshot))


def _kept(snapshot: Snapshot) -> list[object]:
    assert snapshot.kept_verdicts is not None
    return list(snapshot.kept_verdicts.last[0].values())


def _twice(first: Objects, second: Objects) -> tuple[CycleReport, bool]:
    """The report of the second cycle, and whether all that was kept by the first is still there."""
    reader = Reader()
    before = reader.read(first, 0.0)
    cycle(before, DEFAULT)
    kept = _kept(before)
    after = reader.read(second, 1.0)
    report = cycle(after, DEFAULT)
    return report, bool(kept) and list(map(id, kept)) == list(map(id, _kept(after)))


def _after(first: World, second: World) -> tuple[str, bool]:
    """What a gang of four nodes within a rack is told on the second cluster, read behind the first."""
    were, are = ({key_of_raw(raw): raw for raw in world.manifests} for world in (first, second))
    objects = objects_of(first, TRAIN)
    puts = {key: raw for key, raw in are.items() if were.get(key) != raw}
    report, kept = _twice(objects, objects.changed(puts, [key for key in were if key not in are]))
    return report.rejections["default/train"].verdict.value, kept


@pytest.mark.parametrize(
    ("second", "told"),
    [
        (draw(RACKS), ("never", True)),
        (draw(RACKS, running="n0:cpu=8"), ("never", True)),
        (draw(RACKS, queues="other"), ("never", False)),
        (draw("s0: r0[n0 n1 n4 n5] r1[n2 n3]", running="n4:cpu=8"), ("not-now", False)),
        (draw("s0: r0[n0 n1 n2 n3]", running="n0:cpu=8"), ("not-now", False)),
        (draw(RACKS, nodes={"n0": "cpu=24"}, running="n0:cpu=8"), ("not-now", False)),
        (draw(RACKS, cordoned="n0"), ("never", False)),
    ],
    ids=["same", "a pod runs", "a queue", "a node comes", "a node moves", "a node grows", "a node is cordoned"],
)
def test_a_verdict_is_kept_until_what_it_reads_changes(second: World, told: tuple[str, bool]) -> None:
    """Other pods change nothing about it; nodes, trees and queues do."""
    assert told == _after(draw(RACKS), second)


@pytest.mark.parametrize(
    "kind",
    [
        {"tasks": 5, "each": "cpu=8"},
        {"roles": (role("ps", 1, "cpu=9"), role("worker", 2, "cpu=8"))},
        {"each": "cpu=8", "within": 2, "groups": (PARTS,)},
    ],
    ids=["one role", "two roles", "sub-groups"],
)
def test_equal_gangs_share_what_is_found_out(kind: dict[str, object]) -> None:
    """Ten gangs of a kind keep no more than one of them."""
    one, *others = (gang(f"train{i}", **kind) for i in range(10))  # type: ignore[arg-type]

    assert 0 < _kinds(one) == _kinds(one, *others)


def test_each_gang_hears_of_its_own_sub_groups() -> None:
    """What was found out with one gang names the parts of the other when that is told of it."""
    gangs = [gang(name, each="cpu=8", within=2, groups=(PARTS,)) for name in ("a", "b")]
    report = cycle(Reader().read(objects_of(draw(RACKS), *gangs), 0.0), DEFAULT)
    told = {key: [child.subject.split("/")[:2] for child in said.children] for key, said in report.rejections.items()}

    assert {"default/a": [["default", "a"]], "default/b": [["default", "b"]]} == told


def test_a_job_that_is_what_it_was_is_told_what_it_was() -> None:
    """Another gang comes, and all are numbered anew: whoever was told something sees at once that it is the same."""
    reader, also = Reader(), [gang(name, tasks=4, each="cpu=9") for name in ("b", "a")]
    objects = objects_of(draw(RACKS), TRAIN, also[0])
    first = cycle(reader.read(objects, 0.0), DEFAULT).rejections
    coming = also[1].manifests()
    objects = objects.changed({key_of_raw(raw): raw for raw in coming}, [])
    second = cycle(reader.read(objects, 1.0), DEFAULT).rejections

    assert {"default/b": True, "default/train": True} == {key: second[key] is said for key, said in first.items()}
    assert "default/a" in second


def test_a_job_that_is_rejected_for_something_else_is_told_so() -> None:
    """The gang is the same, and so are the nodes: what it is refused for now are other figures."""
    small = gang("small", tasks=2, each="cpu=6", within=1)
    reader = Reader()
    worlds = [draw(RACKS, running=f"n0:cpu={cpu} n1:cpu=8 n2:cpu=8 n3:cpu=8") for cpu in (4, 5)]
    objects = objects_of(worlds[0], small)
    first = cycle(reader.read(objects, 0.0), DEFAULT).rejections["default/small"]
    objects = objects.changed({key_of_raw(raw): raw for raw in worlds[1].manifests}, [])
    second = cycle(reader.read(objects, 1.0), DEFAULT)
    anew = cycle(Reader().read(objects, 1.0), DEFAULT)

    assert ("not-now", anew.rejections) == (first.verdict.value, second.rejections)


@pytest.mark.parametrize(("phase", "same"), [("Inqueue", True), ("Unknown", False)])
def test_a_status_that_we_wrote_is_no_news_about_its_job(phase: str, same: bool) -> None:
    """The server numbers every write: conditions change nothing about a gang, and its phase does."""
    reader, objects = Reader(), objects_of(draw(RACKS), TRAIN)
    group: dict[str, Any] = next(raw for raw in TRAIN.manifests() if raw["kind"] == "PodGroup")
    before, after = (
        {**group, "metadata": {**group["metadata"], "resourceVersion": version}, "status": {"phase": found, **more}}
        for version, found, more in (("7", "Inqueue", {}), ("8", phase, {"conditions": [{"type": "Unschedulable"}]}))
    )
    told = []
    for number, raw in enumerate((before, after)):
        objects = objects.changed({key_of_raw(raw): raw}, [])
        told.append(cycle(reader.read(objects, float(number)), DEFAULT).rejections["default/train"])

    assert same is (told[0] is told[1])
