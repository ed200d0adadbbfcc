"""What a workload says for its job, every word of it, reaches the group that is made for it, or its pods."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.koordinator import objects_of
from tests.unit.cli.test_wrong_content import SPECS

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.keys import PREFIX, known_keys
from tierwise.config.profile import DEFAULT
from tierwise.port import Objects
from tierwise.sim.cluster import rounds

WORDS = [key for key in known_keys() if key.name.startswith(PREFIX) and "user" in key.owner]
OF_JOBS = {key.name: key.example for key in WORDS if "job" in key.on.split(", ") and not key.name.endswith("*")}
OTHERS = {"volcano.sh/preemptable": "false"}
GROUPS = {"PodGroup", "PodGang"}
KUEUE: Raw = {"kueue.x-k8s.io/queue-name": "team"}
PLUGINS = "scheduler-plugins-scheduler"
SINGLE = {"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job", "CronJob", "JobSet"}
"""Kinds of which Volcano makes a group, by their pods' controller, and nobody else does."""
NODE: Raw = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"}, "status": {"allocatable": {"cpu": "9"}}}
CASES = [
    *((kind, "volcano", labels) for kind in SPECS for labels in ({}, KUEUE)),
    *((kind, PLUGINS, {}) for kind in SPECS if kind[1] not in SINGLE),
]


def _workload(kind: tuple[str, str], scheduler: str, labels: Raw, marks: dict[str, str]) -> Raw:
    group, name = kind
    version = codec.versions_of(group, name)[0]
    text = json.dumps(SPECS[kind]).replace('"containers"', f'"schedulerName": "{scheduler}", "containers"')
    return {
        "apiVersion": f"{group}/{version}".removeprefix("/"),
        "kind": name,
        "metadata": {"name": "x", "labels": labels, "annotations": marks},
        "spec": json.loads(text),
    }


def _end(raw: Raw) -> Objects:
    return rounds.schedule(objects_of([NODE, raw]), DEFAULT, now=0.0).cluster.read()


def _heard(end: Objects, words: set[str]) -> set[str]:
    """The words that a group says, or where there is none all pods."""
    meta = {str(key): (key.kind, (end.raw(key) or {}).get("metadata", {})) for key in end}
    groups = [part for kind, part in meta.values() if kind in GROUPS]
    speakers: list[Any] = groups or [part for kind, part in meta.values() if kind == "Pod"]
    assert speakers
    said = [{*speaker.get("labels", {}), *speaker.get("annotations", {})} for speaker in speakers]
    return words.intersection(*said)


@pytest.mark.parametrize(("kind", "scheduler", "labels"), CASES, ids=lambda value: "/".join(value))
def test_a_group_says_what_its_workload_says(kind: tuple[str, str], scheduler: str, labels: Raw) -> None:
    """Each word that users write for a job."""
    marks = OF_JOBS | OTHERS
    end = _end(_workload(kind, scheduler, labels, marks))

    assert set(marks) == _heard(end, set(marks))


def test_a_group_that_was_made_is_held_and_released_by_itself() -> None:
    """What a Deployment says is handed on once: who releases the group is not overruled."""
    world = _end(_workload(("apps", "Deployment"), "volcano", {}, {"tierwise.io/hold": "until Monday"}))
    (key,) = (key for key in world if key.kind == "PodGroup")
    raw: Any = json.loads(json.dumps(world.raw(key)))
    del raw["metadata"]["annotations"]["tierwise.io/hold"]
    end = rounds.schedule(world.changed({key: raw}), DEFAULT, now=0.0).cluster.read()

    assert "tierwise.io/hold" not in (end.raw(key) or {})["metadata"]["annotations"]  # type: ignore[index]
