"""What a workload says for its job, every word of it, reaches the group that is made for it, or its pods."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.koordinator import objects_of
from tests.unit.cli.test_wrong_content import SPECS

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.keys import known_keys
from tierwise.config.profile import DEFAULT
from tierwise.port import Objects
from tierwise.sim.cluster import rounds

WORDS = [key for key in known_keys() if "user" in key.owner and "job" in key.on.split(", ")]
MARKS: dict[str, Raw] = {
    form: {key.name: key.example for key in WORDS if form in key.form.split(", ") and not key.name.endswith("*")}
    for form in ("annotation", "label")
}
"""Each word that users write for a job, by the forms in which they may; a label on a HyperNode alone is none."""
GROUPS = {"PodGroup", "PodGang"}
KUEUE: Raw = {"kueue.x-k8s.io/queue-name": "team"}
PLUGINS = "scheduler-plugins-scheduler"
SINGLE = {"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job", "CronJob", "JobSet"}
SINGLE |= {"RoleBasedGroup", "RoleSet", "StormService"}  # these ask for a gang in fields that the drawn ones lack
"""Kinds of which Volcano makes a group, by their pods' controller, and nobody else does."""
ASKING = {"RoleBasedGroup", "StormService", "RoleSet", "InferenceService"}
"""Kinds whose operator makes a group only where they ask for one, or none at all."""
GANG: Raw = {"schedulingPolicy": {"gang": {}}}
"""What makes a gang of a workload that Kubernetes' controllers look after."""
NODE: Raw = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"}, "status": {"allocatable": {"cpu": "9"}}}
CASES = [
    *((kind, "volcano", labels) for kind in SPECS for labels in ({}, KUEUE)),
    *((kind, PLUGINS, {}) for kind in SPECS if kind[1] not in SINGLE | ASKING),
]
DECLARING = [("batch", "Job"), ("apps", "StatefulSet"), ("jobset.x-k8s.io", "JobSet")]
"""Kinds that may say in `spec.scheduling` that they are gangs."""


def _called(value: object) -> str:
    return "/".join(value) if isinstance(value, tuple | dict) else str(value)


def _workload(kind: tuple[str, str], scheduler: str, labels: Raw, form: str = "", marks: Raw | None = None) -> Raw:
    group, name = kind
    given: Raw = {"labels": labels, **({f"{form}s": {**(labels if form == "label" else {}), **marks}} if marks else {})}
    version = codec.versions_of(group, name)[0]
    text = json.dumps(SPECS[kind]).replace('"containers"', f'"schedulerName": "{scheduler}", "containers"')
    return {
        "apiVersion": f"{group}/{version}".removeprefix("/"),
        "kind": name,
        "metadata": {"name": "x", **given},
        "spec": json.loads(text),
    }


def _end(raw: Raw) -> Objects:
    return rounds.schedule(objects_of([NODE, raw]), DEFAULT, now=0.0).cluster.read()


def _heard(end: Objects, form: str, marks: Raw) -> Raw:
    """The words that a group says, or where there is none all pods."""
    meta = {str(key): (key.kind, (end.raw(key) or {}).get("metadata", {})) for key in end}
    groups = [part for kind, part in meta.values() if kind in GROUPS]
    speakers: list[Any] = groups or [part for kind, part in meta.values() if kind == "Pod"]
    assert speakers
    said = [speaker.get(f"{form}s", {}) for speaker in speakers]
    return {key: value for key, value in marks.items() if all(value == one.get(key) for one in said)}


@pytest.mark.parametrize("form", MARKS)
@pytest.mark.parametrize(("kind", "scheduler", "labels"), CASES, ids=_called)
def test_a_group_says_what_its_workload_says(kind: tuple[str, str], scheduler: str, labels: Raw, form: str) -> None:
    """Each word that users write for a job, as they write it."""
    marks = MARKS[form]
    assert marks
    end = _end(_workload(kind, scheduler, labels, form, marks))

    assert marks == _heard(end, form, marks)


@pytest.mark.parametrize("form", MARKS)
@pytest.mark.parametrize("kind", DECLARING, ids=_called)
def test_a_group_of_spec_scheduling_says_what_its_workload_says(kind: tuple[str, str], form: str) -> None:
    """The same where the workload itself says that it is a gang."""
    marks, raw = MARKS[form], _workload(kind, "default-scheduler", {}, form, MARKS[form])
    spec: Any = raw["spec"]
    spec["scheduling"] = GANG
    end = _end(raw)

    assert any(key.kind == "PodGroup" for key in end)
    assert marks == _heard(end, form, marks)


def test_a_group_that_was_made_is_held_and_released_by_itself() -> None:
    """What a Deployment says is handed on once: who releases the group is not overruled."""
    labels: Raw = {"quota.scheduling.koordinator.sh/can-preempible": "false"}
    held: Raw = {"tierwise.io/hold": "until Monday"}
    world = _end(_workload(("apps", "Deployment"), "volcano", labels, "annotation", held))
    (key,) = (key for key in world if key.kind == "PodGroup")
    raw: Any = json.loads(json.dumps(world.raw(key)))
    assert labels.items() <= raw["metadata"]["labels"].items()
    del raw["metadata"]["annotations"]["tierwise.io/hold"], raw["metadata"]["labels"][next(iter(labels))]
    end: Any = rounds.schedule(world.changed({key: raw}), DEFAULT, now=0.0).cluster.read().raw(key)

    assert "tierwise.io/hold" not in end["metadata"]["annotations"]
    assert not labels.keys() & end["metadata"].get("labels", {}).keys()
