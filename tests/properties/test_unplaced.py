"""What the book of refusals knows is what a search would find: cycles that begin with nothing decide and say the same.

Small clusters whose gangs carry rules between pods, most of them about labels of their own, so that unlike shapes have
the same rules. Between cycles pods come, end, move and change their labels, and gangs come and go.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace
from tests.properties.test_reader import manifest
from tests.support.depth import examples, seeds
from tests.support.sight import cycle, saw, sees

from tierwise.actions.batches import Batches
from tierwise.actions.diagnosis.rejection_cache import RejectionCache
from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT
from tierwise.framework.refusals import Page, Refusals
from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot
from tierwise.port import Objects, key_of_raw
from tierwise.snapshot.builder import Reader

_RACKS = {"r0": range(3), "r1": range(3, 6), "r2": range(6, 8)}
_HOST, _RACK = "kubernetes.io/hostname", "rack"
_SPREAD = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}


def _tree() -> list[Raw]:
    """Eight nodes in three racks."""
    made: list[Raw] = []
    for rack, numbers in _RACKS.items():
        for i in numbers:
            status = {"allocatable": {"cpu": "4", "pods": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}
            made.append(manifest("v1", "Node", f"n{i}", meta={"labels": {_HOST: f"n{i}", _RACK: rack}}, status=status))
        members = [{"type": "Node", "selector": {"exactMatch": {"name": f"n{i}"}}} for i in numbers]
        made.append(manifest("topology.volcano.sh/v1alpha1", "HyperNode", rack, spec={"tier": 1, "members": members}))
    return made


def _term(app: str, key: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def _rules(pick: Random, own: str) -> dict[str, Any]:
    """Rules of the pods of a gang, about themselves or about those that run."""
    key = pick.choice([_HOST, _HOST, _RACK])
    apart = [_term(own, key)], [_term(own, _HOST)], [_term("busy", key)], [_term(own, _HOST), _term("busy", key)]
    match pick.randrange(7):
        case 0:
            return {}
        case 1:
            return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_term("db", key)]}}}
        case 2:
            selector = {"matchLabels": {"app": own}}
            return {"topologySpreadConstraints": [{**_SPREAD, "topologyKey": key, "labelSelector": selector}]}
        case _:
            terms = pick.choice(apart)
            return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _pod(name: str, cpu: str, *, app: str, on: str = "", group: str = "", rules: dict[str, Any] | None = None) -> Raw:
    meta: dict[str, Any] = {"labels": {"app": app}, "creationTimestamp": "2026-01-01T00:00:00Z"}
    if group:
        meta["annotations"] = {"scheduling.k8s.io/group-name": group}
    spec: dict[str, Any] = {"schedulerName": "volcano", **(rules or {})}
    spec["containers"] = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    if on:
        spec["nodeName"] = on
    return manifest("v1", "Pod", name, "d", meta=meta, spec=spec, status={"phase": "Running" if on else "Pending"})


def _running(pick: Random) -> Raw:
    """A pod that runs, and that takes much room or hardly any."""
    app, on = pick.choice(["busy", "db", "web"]), f"n{pick.randrange(8)}"
    return _pod(f"p{pick.randrange(10)}", pick.choice(["100m", "100m", "3"]), app=app, on=on)


def _gang(pick: Random) -> list[Raw]:
    name, size = f"g{pick.randrange(8)}", pick.choice([3, 4, 4])
    own, cpu = pick.choice([name, name, name, "shared"]), pick.choice(["1", "3", "3"])
    spec: dict[str, Any] = {"minMember": size, "queue": "default"}
    if pick.random() < 0.7:
        spec["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
    rules = _rules(pick, own)
    made = [manifest("scheduling.volcano.sh/v1beta1", "PodGroup", name, "d", spec=spec, status={"phase": "Inqueue"})]
    made += [_pod(f"{name}-{i}", cpu, app=own, group=name, rules=rules) for i in range(size)]
    return made


def _histories(pick: Random, reader: Reader) -> Any:
    """What the cycles of a history see, one after the other."""
    objects = Objects().changed({key_of_raw(raw): raw for raw in _tree()})
    for step in range(6):
        puts = [_running(pick) for _ in range(4 if not step else pick.choice([0, 1, 1]))]
        puts += [raw for _ in range(8 if not step else pick.choice([0, 0, 1])) for raw in _gang(pick)]
        gone = [key for key in objects.of_kind("", "Pod") if key.startswith("d/p") and pick.random() < 0.15]
        keys = [key_of_raw(raw) for raw in puts]
        left = [key_of_raw(manifest("v1", "Pod", name.partition("/")[2], "d")) for name in gone]
        objects = objects.changed(dict(zip(keys, puts, strict=True)), [key for key in left if key not in keys])
        yield reader.read(objects, 100.0 * step)


def _told(report: CycleReport, *, in_full: bool) -> tuple[object, ...]:
    """What was decided, and who waits why; `in_full` with all figures and words."""
    decisions = [(d.job.key, d.bound, sorted((task.key, row) for task, row in d.places())) for d in report.decisions]
    if in_full:
        return decisions, list(report.rejections.items())
    waits = {key: (one.stage, one.reason.code, one.verdict) for key, one in report.rejections.items()}
    return decisions, waits


def _one_by_one(patched: pytest.MonkeyPatch) -> None:
    """Gangs are planned without those behind them: fewer searches would leave more of their budget."""
    patched.setattr(Batches, "_planned", lambda *_: None)


def _count(patched: pytest.MonkeyPatch, owner: type, method: str) -> list[Any]:
    """The answers of a method from now on that are neither None nor False, as they come."""
    answers: list[Any] = []
    original = getattr(owner, method)

    def counted(self: Any, *asked: Any) -> Any:
        answer = original(self, *asked)
        answers.extend([answer] if answer is not None and answer is not False else [])
        return answer

    patched.setattr(owner, method, counted)
    return answers


@sees(refusals=20, held=6)
@given(pick=seeds())
@examples(60, least=8)
def test_what_found_no_place_in_the_last_cycle_finds_none_now(pick: Random) -> None:
    """Every word and figure, with what the last cycle found out and without it."""
    with pytest.MonkeyPatch.context() as patched:
        _one_by_one(patched)
        held = _count(patched, Refusals, "is_unplaced")
        for snapshot in _histories(pick, Reader()):
            anew = _told(cycle(replace(snapshot, kept_verdicts=None), DEFAULT), in_full=True)
            assert anew == _told(cycle(snapshot, DEFAULT), in_full=True)
    saw(held=len(held))


@sees(refusals=20, spoken_for=3)
@given(pick=seeds())
@examples(60, least=8)
def test_what_is_refused_for_one_is_refused_for_its_like(pick: Random) -> None:
    """Whole histories with pages that forget everything at once, and with pages that remember."""
    for snapshot in _histories(pick, Reader()):
        with pytest.MonkeyPatch.context() as patched:
            _one_by_one(patched)
            spoken_for = _count(patched, RejectionCache, "lookup")
            remembering = _alone(snapshot)
            saw(spoken_for=len(spoken_for))
            patched.setattr(Page, "add", lambda *_: None)
            assert _alone(snapshot) == remembering


def _alone(snapshot: Snapshot) -> tuple[object, ...]:
    return _told(cycle(replace(snapshot, kept_verdicts=None), DEFAULT), in_full=False)
