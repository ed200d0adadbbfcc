"""What a report asks of the cluster, and what is left of it once binds have failed."""

from __future__ import annotations

from tests.contract.manifests import node, pod, pod_group
from tests.support.draw import draw, gang, objects_of

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT
from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot
from tierwise.port import HYPERNODE_ANNOTATION, PATH_ANNOTATION, Bind, Effect, Nominate, Objects, Outcome
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import amended, effects
from tierwise.snapshot.builder import build


def _decided(objects: Objects) -> tuple[Snapshot, CycleReport, list[Effect]]:
    snapshot = build(objects, now=0.0)
    report = cycle(snapshot, DEFAULT)
    return snapshot, report, effects(snapshot, report)


def _objects(*manifests: Raw) -> Objects:
    return Objects.of((codec.decode(m), m) for m in manifests)


def _gang(*, nominated: str = "", size: int = 2) -> list[Raw]:
    return [pod_group("g", size), *(pod(f"p{i}", cpu="4", group="g", nominated=nominated) for i in range(size))]


def test_pods_are_told_their_way_from_the_outside_in() -> None:
    """The name of the innermost domain, and the path that leads to it."""
    objects = objects_of(draw("s0: r0[n0] r1[n1]", node="gpu=4"), gang("train", tasks=1, each="gpu=4"))
    [bind] = [effect for effect in _decided(objects)[2] if isinstance(effect, Bind)]

    rack = {"n0": "r0", "n1": "r1"}[bind.node]
    assert {HYPERNODE_ANNOTATION: rack, PATH_ANNOTATION: f"s0/{rack}"} == dict(bind.annotations)


def test_room_that_is_of_no_use_is_given_back() -> None:
    """A gang that was nominated and finds no place any more loses its nominations."""
    _, report, asked = _decided(_objects(node("n0", cpu="4"), *_gang(nominated="n0")))

    assert "default/g" in report.rejections
    assert [("p0", ""), ("p1", "")] == [(e.pod.name, e.node) for e in asked if isinstance(e, Nominate)]


def test_room_of_pods_whose_group_is_gone_is_given_back() -> None:
    """Others may be bound where they were nominated, so their nominations do not stay; pods without one are left."""
    _, *pods = _gang(nominated="n0")
    other = pod("other", cpu="6", group="")
    _, _, asked = _decided(_objects(node("n0"), *pods, pod("p2", group="g"), other))

    assert [("p0", ""), ("p1", "")] == [(e.pod.name, e.node) for e in asked if isinstance(e, Nominate)]


def test_room_that_is_being_freed_is_kept() -> None:
    """A gang whose surplus finds no place keeps what it was nominated for, and nothing is taken back in one breath."""
    leaving = pod("leaving", cpu="8", on="n0")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    leaving["status"] = {"phase": "Running"}
    _, *pods = _gang(nominated="n0", size=3)
    _, report, asked = _decided(_objects(node("n0"), leaving, pod_group("g", 2), *pods))

    assert "default/g" in report.rejections
    nominated = [(e.pod.name, e.node) for e in asked if isinstance(e, Nominate)]
    assert [("p2", "")] == nominated  # the others are nominated there already


def test_failure_itself_is_told_and_not_what_was_withheld_for_it() -> None:
    """People hear which bind failed and why, wherever it stands among those that were not sent."""
    _, report, asked = _decided(_objects(node("n0"), *_gang()))
    binds = [effect for effect in asked if isinstance(effect, Bind)]
    withheld = Outcome(binds[0], ok=False, error="withheld, because its gang would not be whole: p1", withheld=True)
    failed = Outcome(binds[1], ok=False, error="exceeded quota")

    for outcomes in ([withheld, failed], [failed, withheld]):
        left = amended(report, outcomes)
        text = "2 of 2 pods could not be bound: default/p1: exceeded quota"
        assert ((), text) == (left.decisions, left.rejections["default/g"].reason.text)
