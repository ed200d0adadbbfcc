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


_PIN = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]}
_APART = [{"topologyKey": "rack", "labelSelector": {"matchLabels": {"app": "a"}}}]
RULES: dict[str, dict[str, Any]] = {
    "none": {},
    "tolerations": {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
    "a selector": {"nodeSelector": {"rack": "r0"}},
    "a pin": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _PIN}}},
    "a pin, and apart from others": {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _PIN},
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _APART},
        }
    },
}
TOLD = {"tierwise.io/hypernode": "r0", "tierwise.io/topology": "r0", "tierwise.io/rank": "0", "tierwise.io/ranks": "3"}


@pytest.mark.parametrize("node", ["n2", "n9"], ids=["a node", "no node that exists"])
@pytest.mark.parametrize("pattern", ["", "ring"], ids=["without ranks", "with ranks"])
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_a_pod_that_is_bound_is_read_without_its_rules_about_nodes(
    rules: dict[str, Any], pattern: str, node: str
) -> None:
    """One pod of a gang after the other gets a node, and with it what it is told; then the watch shows it once more."""
    marks = {"tierwise.io/pattern": pattern} if pattern else {}
    objects = objects_of(draw("r0[n0 n1 n2]"), gang("train", tasks=3, marks=marks))
    for i in range(3):
        objects = changed(objects, f"train-{i}", {"spec": rules})
    reader = Reader()
    reader.read(objects, 0.0)
    for i in (1, 0, 2):
        told = {key: str(i) if key.endswith("/rank") else value for key, value in TOLD.items()}
        raw: Any = objects.raw(Key("", "Pod", "default", f"train-{i}"))
        annotations = {"annotations": {**raw["metadata"].get("annotations", {}), **told}}
        objects = changed(objects, f"train-{i}", {"spec": {"nodeName": node}, "metadata": annotations})
        kept, anew = reader.read(objects, 0.0), build(objects, 0.0)

        assert [] == differences(kept, anew)
        assert dict(kept.jobs[0].ranks) == dict(anew.jobs[0].ranks)
        shown = changed(objects, f"train-{i}", {"status": {"phase": "Running", "startTime": TIME}})
        assert [] == differences(reader.read(shown, 0.0), build(shown, 0.0))
        objects = shown


def test_pods_that_are_bound_share_a_shape() -> None:
    """Also where each was pinned to a node of its own, as those of a DaemonSet are."""
    objects = objects_of(draw("r0[n0 n1]"), gang("train", tasks=2))
    for i in range(2):
        objects = changed(objects, f"train-{i}", {"spec": {"nodeSelector": {"kubernetes.io/hostname": f"n{i}"}}})
    reader = Reader()
    (job,) = reader.read(objects, 0.0).jobs
    assert 2 == len({task.shape.number for task in job.tasks})
    for i in range(2):
        objects = changed(objects, f"train-{i}", {"spec": {"nodeName": f"n{i}"}})
    (job,) = reader.read(objects, 0.0).jobs

    assert 1 == len({task.shape.number for task in job.tasks})


def test_what_is_not_honoured_no_longer_matters_with_a_node() -> None:
    """Somebody else has placed the pod."""
    marks = {"scheduling.k8s.io/group-name": "train", "gpu-fraction": "0.5"}
    before = objects_of(draw("r0[n0 n1]"), gang("train", tasks=2))
    before = changed(before, "train-0", {"metadata": {"annotations": marks}})
    assert build(before, 0.0).jobs[0].unsupported

    assert not followed(before, changed(before, "train-0", {"spec": {"nodeName": "n0"}})).unsupported


def test_a_pod_that_waits_again_has_its_rules_about_nodes() -> None:
    """No API server takes a node from a pod, but a file may."""
    before = objects_of(draw("r0[n0 n1]"), gang("train", tasks=2, on="n0 n1"))
    before = changed(before, "train-0", {"spec": {"nodeName": "n0", **RULES["a selector"]}})
    waits = {"spec": {"nodeName": "", **RULES["a selector"]}, "status": {"phase": "Pending"}}

    assert {"rack": "r0"} == followed(before, changed(before, "train-0", waits)).tasks[0].shape.node_selector


def test_pods_are_bound_after_those_before_them_have_ended() -> None:
    """What pods with a node ask for is known again when nobody asked for it in between."""
    objects = objects_of(draw("r0[n0 n1 n2]"), gang("train", tasks=3))
    for i in range(3):
        objects = changed(objects, f"train-{i}", {"spec": RULES["tolerations"]})
    reader = Reader()
    reader.read(objects, 0.0)
    for i in range(2):
        for change in ({"spec": {"nodeName": f"n{i}"}}, None):
            key = Key("", "Pod", "default", f"train-{i}")
            objects = objects.changed({}, [key]) if change is None else changed(objects, f"train-{i}", change)

            assert [] == differences(reader.read(objects, 0.0), build(objects, 0.0))


def test_a_rank_that_is_told_later_counts() -> None:
    """What is read with a node is read again where it changes without one."""
    marks = {"tierwise.io/pattern": "ring"}
    before = objects_of(draw("r0[n0 n1 n2]"), gang("train", tasks=3, on="n0 n1 -", marks=marks))
    told = {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "train", "tierwise.io/rank": "2"}}}

    assert 2 == followed(before, changed(before, "train-0", told)).ranks["default/train-0"]


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


@pytest.mark.parametrize("pods", [2, 20])
def test_what_pods_of_several_shapes_hold_is_counted_by_node(pods: int) -> None:
    """Few are counted one by one and many together."""
    small = gang("small", tasks=pods, each="cpu=1", on="n0 " * pods)
    large = gang("large", tasks=pods, each="cpu=3", on="n1 " * pods)
    snapshot = build(objects_of(draw("r0[n0 n1]", node="cpu=100"), small, large), 0.0)
    assert snapshot.used is not None
    cpu = snapshot.used[snapshot.axis.index["cpu"]].tolist()

    assert {"n0": 1000 * pods, "n1": 3000 * pods} == dict(zip(snapshot.nodes.names, cpu, strict=True))
