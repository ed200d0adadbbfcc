"""Pods that come to another node or state: what is kept of their gang is what reading everything anew tells."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.draw import draw, gang, objects_of
from tests.support.drawn_gang import Gang, Groups, Role

from tierwise.model.job import Job
from tierwise.port import Key, Objects
from tierwise.snapshot.builder import Reader, build
from tierwise.snapshot.consistency import differences

TIME = "2026-01-01T00:00:00Z"
LEAVING = {"metadata": {"deletionTimestamp": TIME}}
ENDED = {"status": {"phase": "Failed", "containerStatuses": [{"name": "c", "state": {"terminated": {}}}]}}
NOTICED = {"conditions": [{"type": "EvictionNotice", "status": "True", "lastTransitionTime": TIME}]}
OWNED = {"metadata": {"ownerReferences": [{"kind": "Job", "name": "j", "uid": "u", "controller": True}]}}
CHANGES = {
    "starts": {"status": {"startTime": TIME}},
    "ends": ENDED,
    "leaves": LEAVING,
    "is given notice": {"status": NOTICED},
    "is bound elsewhere": {"spec": {"nodeName": "n1"}},
    "is bound to a node that is not there": {"spec": {"nodeName": "n9"}},
    "waits again": {"spec": {"nodeName": ""}, "status": {"phase": "Pending"}},
    "is owned by somebody": OWNED,
    "is told something that nobody reads": {"status": {"message": "well"}},
}


def changed(objects: Objects, pod: str, change: dict[str, Any]) -> Objects:
    """The objects with some fields of a pod written anew."""
    key = Key("", "Pod", "default", pod)
    raw: Any = objects.raw(key)
    parts = {name: {**raw.get(name, {}), **fields} for name, fields in change.items()}
    return objects.changed({key: {**raw, **parts}})


def followed(before: Objects, after: Objects) -> Job:
    """The job of one gang as a reader keeps it, which is what reading anew tells."""
    reader = Reader()
    reader.read(before, 0.0)
    kept = reader.read(after, 0.0)

    assert [] == differences(kept, build(after, 0.0))
    (job,) = kept.jobs
    return job


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize(
    ("drawn", "pod"),
    [
        (gang("train", tasks=4, on="n0 n0 n1 -"), "train-1"),
        (
            gang("train", roles=(Role("w", 3, minimum=2), Role("ps", 1, each="")), on="n0 n0 n1 -"),
            "train-w-1",
        ),
        (gang("train", tasks=1, groups=(Groups(count=2, size=2, name="s"),), on="n0 n0 n1 -"), "train-s-0-1"),
    ],
    ids=["plain", "roles", "groups"],
)
def test_what_is_kept_is_what_reading_anew_tells(drawn: Gang, pod: str, change: dict[str, Any]) -> None:
    """Whatever becomes of one pod of a gang, while another waits."""
    before = objects_of(draw("r0[n0 n1 n2]"), drawn)

    followed(before, changed(before, pod, change))


def test_nothing_is_made_anew_for_what_nobody_reads() -> None:
    """A message in the status of a pod leaves its job the same object."""
    before = objects_of(draw("r0[n0 n1]"), gang("train", tasks=2, on="n0 n1"))
    reader = Reader()
    kept = reader.read(before, 0.0).jobs

    assert kept[0] is reader.read(changed(before, "train-1", {"status": {"message": "well"}}), 0.0).jobs[0]


def test_ranks_follow_who_runs() -> None:
    """The rank of a pod that is leaving is free for its replacement."""
    told = {f"train-{i}": {"tierwise.io/rank": str(i), "tierwise.io/ranks": "3"} for i in range(2)}
    marks = {"tierwise.io/pattern": "ring"}
    before = objects_of(draw("r0[n0 n1 n2]"), gang("train", tasks=3, on="n0 n1 -", marks=marks, told=told))

    assert 2 == followed(before, before).ranks["default/train-2"]
    assert 1 == followed(before, changed(before, "train-1", LEAVING)).ranks["default/train-2"]
