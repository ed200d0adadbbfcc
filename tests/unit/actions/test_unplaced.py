"""A gang with rules between pods that found no place is not searched for again until something changes that it read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.draw import draw, gang, objects_of

from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT
from tierwise.framework.report import CycleReport
from tierwise.model.job import Verdict
from tierwise.port import Key, Objects, key_of_raw
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import Reader

RACKS = "s0: r0[n0 n1] r1[n2 n3]"
TAKEN = "n0:cpu=1 n1:cpu=7 n2:cpu=7 n3:cpu=7"
"""Room for three pods on n0, and for none elsewhere."""
_HOST = "kubernetes.io/hostname"


def _pods(raws: list[Raw], app: str, *, away_from: str) -> list[Raw]:
    """Pods of an app that must not share a node with pods of another, which may be their own."""
    term = {"labelSelector": {"matchLabels": {"app": away_from}}, "topologyKey": _HOST}
    rules = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    return [_labelled(raw, app, rules) if raw["kind"] == "Pod" else raw for raw in raws]


def _labelled(raw: Raw, app: str, spec: dict[str, Any] | None = None) -> Raw:
    meta, own = raw["metadata"], raw["spec"]
    assert isinstance(meta, dict)
    assert isinstance(own, dict)
    return {**raw, "metadata": {**meta, "labels": {"app": app}}, "spec": own | (spec or {})}


def _train(name: str = "train", *, tasks: int = 2, away_from: str = "", each: str = "cpu=2") -> list[Raw]:
    return _pods(gang(name, tasks=tasks, each=each, within=1).manifests(), name, away_from=away_from or name)


def _put(objects: Objects, *raws: Raw) -> Objects:
    return objects.changed({key_of_raw(raw): raw for raw in raws})


def _running(objects: Objects, on: str = "") -> list[Raw]:
    """The pods that run on a node, or on any."""
    found: list[Raw] = []
    for key in objects.of_kind("", "Pod"):
        raw = objects.raw(Key("", "Pod", *key.split("/")))
        spec = raw["spec"] if raw is not None else {}
        assert isinstance(spec, dict)
        if raw is not None and (spec.get("nodeName") == on if on else "nodeName" in spec):
            found.append(dict(raw))
    return found


def _without(objects: Objects, node: str) -> Objects:
    """Without the pods that run on a node."""
    return objects.changed({}, [key_of_raw(raw) for raw in _running(objects, node)])


class _Cycles:
    """Cycles one after the other, each beside one that knows nothing of those before."""

    def __init__(self) -> None:
        self._reader, self._now = Reader(), 0.0

    def run(self, objects: Objects) -> CycleReport:
        self._now += 1
        snapshot = self._reader.read(objects, self._now)
        anew, kept = cycle(replace(snapshot, kept_verdicts=None), DEFAULT), cycle(snapshot, DEFAULT)
        assert list(anew.rejections.items()) == list(kept.rejections.items())
        assert len(anew.decisions) == len(kept.decisions)
        return kept


def test_the_next_cycle_does_not_search_for_it() -> None:
    """A pod has come to run besides: there is less room, and the figures of the refusal are those of now."""
    cycles = _Cycles()
    objects = _put(objects_of(draw(RACKS, node="cpu=8", running=TAKEN)), *_train())
    first = cycles.run(objects)
    more = [raw for raw in draw(RACKS, node="cpu=8", running=f"{TAKEN} n0:cpu=4").manifests if raw["kind"] == "Pod"][
        -1:
    ]
    second = cycles.run(_put(objects, *more))

    assert not first.decisions
    assert not second.decisions
    assert 0 < first.search_counts.trials > second.search_counts.trials


CHANGES: dict[str, tuple[list[Raw], Callable[[Objects], Objects]]] = {
    "a pod has ended": (_train(), lambda objects: _without(objects, "n1")),
    "it needs one pod less": (_train(), lambda objects: _put(objects, *_minimum(_train(), 1))),
    "pods whom it avoids have other labels": (
        _train(tasks=3, away_from="busy"),
        lambda objects: _put(objects, *(_labelled(raw, "quiet") for raw in _running(objects))),
    ),
}


def _minimum(raws: list[Raw], least: int) -> list[Raw]:
    """The podGroup of a gang that needs so many pods."""
    (group,) = (raw for raw in raws if raw["kind"] == "PodGroup")
    spec = group["spec"]
    assert isinstance(spec, dict)
    return [{**group, "spec": {**spec, "minMember": least}}]


@pytest.mark.parametrize("what", CHANGES)
def test_it_is_searched_for_when_what_the_search_read_has_changed(what: str) -> None:
    """It waits twice, and is placed once there is no reason left."""
    raws, change = CHANGES[what]
    cycles = _Cycles()
    objects = objects_of(draw(RACKS, node="cpu=8", running=TAKEN))
    objects = _put(objects, *(_labelled(raw, "busy") for raw in _running(objects)), *raws)

    assert [0, 0] == [len(cycles.run(objects).decisions) for _ in range(2)]
    assert 1 == len(cycles.run(change(objects)).decisions)


def test_gangs_with_the_same_rules_under_other_names_are_searched_for_once() -> None:
    """Each keeps its own pods apart by a label of its own, and all of them are told that none fits, ever."""
    objects = objects_of(draw(RACKS, node="cpu=8"))
    one = cycle(Reader().read(_put(objects, *_train("a", tasks=3)), 0.0), DEFAULT)
    names = [f"a{i}" for i in range(9)]
    many = cycle(Reader().read(_put(objects, *(raw for name in names for raw in _train(name, tasks=3))), 0.0), DEFAULT)

    assert [Verdict.NEVER] * 9 == [rejection.verdict for rejection in many.rejections.values()]
    assert 1 == len({rejection.reason.text for rejection in many.rejections.values()})
    assert one.search_counts.domains == many.search_counts.domains > 0


OTHERS: dict[str, tuple[list[Raw], list[Raw]]] = {
    "rules": (_train("a"), _train("b", away_from="ghost")),
    "amounts": (_train("a"), _train("b", each="cpu=1")),
    "nodes": (
        [
            _labelled(raw, "a", {"nodeSelector": {_HOST: "n1"}}) if raw["kind"] == "Pod" else raw
            for raw in _train("a", each="cpu=1")
        ],
        _train("b", each="cpu=1"),
    ),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_refusal_is_none_for_a_gang_that_differs(what: str) -> None:
    """The first gang finds no place, and the second does: its rules, its amounts or its nodes are others."""
    first, second = OTHERS[what]
    objects = objects_of(draw(RACKS, node="cpu=8", running=TAKEN))
    objects = _put(objects, *(_labelled(raw, "ghost") for raw in _running(objects)[-1:]), *first, *second)

    report = cycle(Reader().read(objects, 0.0), DEFAULT)

    assert ["default/a"] == list(report.rejections)
    assert ["default/b"] == [decision.job.key for decision in report.decisions]
