"""A job that was refused for what it is itself is refused again without a look, until something of that changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.draw import Gang, Role, draw, gang, objects_of
from tests.support.strategies import profile

from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT, PluginChoice
from tierwise.framework.report import CycleReport, Decision
from tierwise.model.job import Job, Rejection
from tierwise.port import Objects, key_of_raw
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import Reader

RACKS = "s0: r0[n0 n1] r1[n2 n3]"
SOME = "n1:cpu=1 n1:cpu=1 n3:cpu=1 n3:cpu=1"
"""Pods that run."""
TRAIN = gang("train", tasks=2, each="cpu=6", within=1)
HUGE = gang("train", tasks=2, each="cpu=60", within=1)


def _edited(world: Gang, **spec: Any) -> list[Raw]:
    """The objects of a gang whose podGroup says something else."""
    return [_with(raw, spec) if raw["kind"] == "PodGroup" else raw for raw in world.manifests()]


def _with(raw: Raw, spec: dict[str, Any]) -> Raw:
    own = raw["spec"]
    assert isinstance(own, dict)
    return {**raw, "spec": own | spec}


def _put(objects: Objects, *raws: Raw) -> Objects:
    return objects.changed({key_of_raw(raw): raw for raw in raws})


def _one_more() -> list[Raw]:
    """A pod that has come to run besides."""
    return [raw for raw in draw(RACKS, running=f"{SOME} n0:cpu=1").manifests if raw["kind"] == "Pod"][-1:]


class _Cycles:
    """Cycles one after the other, and what jobs were refused with before anybody made a verdict of it."""

    def __init__(self) -> None:
        self._reader, self._now = Reader(), 0.0
        self.refused: list[Rejection] = []

    def run(self, objects: Objects) -> CycleReport:
        def watch(_: Job, told: Decision | Rejection) -> None:
            if isinstance(told, Rejection):
                self.refused.append(told)

        self.refused, self._now = [], self._now + 1
        return cycle(self._reader.read(objects, self._now), DEFAULT, watch=watch)


QUEUE: Raw = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "late"}, "spec": {}}
GATES: dict[str, tuple[list[Raw], Callable[[], list[Raw]]]] = {
    "its queue comes": (_edited(TRAIN, queue="late"), lambda: [QUEUE]),
    "it names another queue": (_edited(TRAIN, queue="late"), lambda: _edited(TRAIN, queue="default")),
    "its last pod comes": (_edited(gang("train", tasks=1, each="cpu=6"), minMember=2), lambda: _edited(TRAIN)),
    "it needs fewer pods": (_edited(TRAIN, minMember=3), lambda: _edited(TRAIN)),
}


@pytest.mark.parametrize("phase", ["Pending", "Inqueue"])
@pytest.mark.parametrize("what", GATES)
def test_a_gate_is_asked_again_when_what_it_reads_changes(what: str, phase: str) -> None:
    """The gang is refused twice with the very same words, and placed once there is no reason left."""
    raws, change = GATES[what]
    cycles = _Cycles()
    objects = _put(objects_of(draw(RACKS, running=SOME)), *({**raw, "status": {"phase": phase}} for raw in raws))
    first, before = cycles.run(objects), cycles.refused
    second, after = cycles.run(_put(objects, *_one_more())), cycles.refused
    third = cycles.run(_put(objects, *({**raw, "status": {"phase": phase}} for raw in change())))

    assert ["default/train"] == list(first.rejections) == list(second.rejections)
    assert first.rejections["default/train"] is second.rejections["default/train"]
    assert before[-1] is after[-1]
    assert {} == third.rejections


def test_what_keeps_a_gang_in_phase_pending_comes_before_what_a_gate_has_said() -> None:
    """It lacks a pod; then others have taken what it would need, and it is not let in any more."""
    lacking = _edited(TRAIN, minMember=3, minResources={"cpu": "12"})
    busy = "n0:cpu=8 n1:cpu=1 n2:cpu=8 n3:cpu=1"
    objects = _put(objects_of(draw(RACKS, running=busy)), *({**raw, "status": {"phase": "Pending"}} for raw in lacking))
    full = draw(RACKS, running=f"{busy} n1:cpu=7")
    by = profile("predicates", "gang", PluginChoice("overcommit", {"overcommit-factor": 1.0}))
    reader, told = Reader(by), []
    for now in (objects, _put(objects, *full.manifests)):
        anew = cycle(Reader(by).read(now, 0.0), by).rejections
        assert anew == cycle(reader.read(now, 0.0), by).rejections
        told.append(anew["default/train"].reason.code)

    assert ["NotEnoughTasks", "ClusterOvercommitted"] == told


def test_what_fits_on_no_empty_node_is_not_searched_for_again() -> None:
    """Not while other pods come and go; once a node is large enough it is."""
    cycles, large = _Cycles(), draw(RACKS, nodes={"n0": "cpu=200"})
    objects = objects_of(draw(RACKS, running=SOME), HUGE)
    first, before = cycles.run(objects), cycles.refused
    busy = _put(objects, *_one_more())
    second, after = cycles.run(busy), cycles.refused
    third = cycles.run(_put(busy, *(raw for raw in large.manifests if raw["kind"] == "Node")))

    assert before[0] is after[0]
    assert first.rejections["default/train"] is second.rejections["default/train"]
    assert {} == third.rejections


def test_what_would_fit_on_empty_nodes_is_searched_for_in_every_cycle() -> None:
    """Other pods may go at any time, and what they leave differs from cycle to cycle."""
    cycles = _Cycles()
    full = [draw(RACKS, running=f"n0:cpu=8 n1:cpu={cpu} n2:cpu=8 n3:cpu=8") for cpu in (8, 5, 1)]
    objects = objects_of(full[0], TRAIN)
    told = []
    for world in full:
        objects = _put(objects, *world.manifests)
        anew = cycle(Reader().read(objects, 0.0), DEFAULT)
        told.append((cycles.run(objects).rejections, anew.rejections))

    assert [anew for _, anew in told] == [kept for kept, _ in told]
    assert 3 == len({str(kept) for kept, _ in told})


def test_refusals_come_in_the_order_of_a_first_cycle() -> None:
    """A journal repeats each cycle alone, and compares bytes."""
    gangs = [
        *_edited(gang("a", tasks=2, each="cpu=60", within=1)),
        *_edited(gang("b", tasks=2, each="cpu=6"), queue="nowhere"),
        *_edited(gang("c", tasks=2, each="cpu=6"), minMember=3),
        *_edited(gang("d", tasks=2, each="cpu=70", within=1)),
    ]
    objects, cycles = _put(objects_of(draw(RACKS)), *gangs), _Cycles()
    first = cycles.run(objects)
    again = cycles.run(_put(objects, *_edited(gang("aa", tasks=2, each="cpu=80", within=1))))

    assert ["default/b", "default/c", "default/a", "default/d"] == list(first.rejections)
    assert ["default/b", "default/c", "default/a", "default/aa", "default/d"] == list(again.rejections)


_PAIRS = [Gang(name, within=1, roles=(Role("leader", 1, "cpu=4"), Role("worker", 1, "cpu=3"))) for name in "abc"]
_FULL = "n0:cpu=8 n1:cpu=8 n2:cpu=8 n3:cpu=8"
_CHANGES: dict[str, tuple[list[Raw], int]] = {
    "another pod comes to run": (_one_more(), 0),
    "room for one of them": (list(draw(RACKS, running="n0:cpu=1 n1:cpu=8 n2:cpu=8 n3:cpu=8").manifests), 1),
    "the second may stand further apart": (_edited(_PAIRS[1], networkTopology={"highestTierAllowed": 2}), 0),
    "the second has a pod that runs": (Gang("b", tasks=2, each="cpu=1", within=1, on="n0").manifests(), 0),
    "a node is larger": ([raw for raw in draw(RACKS, nodes={"n0": "cpu=16"}).manifests if raw["kind"] == "Node"], 1),
}


@pytest.mark.parametrize("what", _CHANGES)
def test_gangs_that_wait_as_some_of_a_kind_hear_what_a_first_cycle_tells(what: str) -> None:
    """Gangs of two roles are refused together for two cycles, and then something changes."""
    objects, cycles = objects_of(draw(RACKS, running=_FULL), *_PAIRS), _Cycles()
    raws, placed = _CHANGES[what]
    told = []
    for now in (objects, objects, _put(objects, *raws)):
        kept, anew = cycles.run(now), cycle(Reader().read(now, 0.0), DEFAULT)
        told.append((kept.rejections, [(one.job.key, one.bound) for one in kept.decisions]))
        assert (anew.rejections, [(one.job.key, one.bound) for one in anew.decisions]) == told[-1]

    assert [3, 3, 3 - placed] == [len(refused) for refused, _ in told]
