"""Small clusters in which a word of a workload decides, and those in which the program writes words of its own.

For `tests/support/field_pairs.py`; as in `tests/support/field_scenes.py` the subject is called v.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.support.field_scenes import (
    HOUR,
    RESERVING,
    Scene,
    on_job,
    on_pods,
    other,
    own,
    scene,
    scene_in,
    scene_of_one,
    tree,
)
from tests.support.languages import kueue_gang, pod, volcano_gang
from tests.support.queue_worlds import queue
from tests.support.workloads_of_v import PODS, WORKLOADS, workload

from tierwise.api.codec import Raw

__all__: list[str] = []


def local_queue(name: str) -> Raw:
    """A queue of Kueue's that is held."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": "default", "annotations": {"tierwise.io/hold": "until Monday"}},
        "spec": {"clusterQueue": "all"},
    }


@scene_in("")
def workload_without_room(way: str) -> Scene:
    """V is a workload of two pods, or two pods that something controls, and there is room for one."""
    return Scene([*tree({"r0": "n0"}, cpu=1), *_of_v(way)])


def _of_v(way: str) -> list[Raw]:
    """V as a workload, or the pods of one that is not there."""
    owner = {"apiVersion": "example.com/v1", "kind": "Trainer", "name": "v", "uid": "v", "controller": True}
    return (
        [workload(way)]
        if way
        else [pod(f"v-{i}", spec={"schedulerName": "volcano"}, ownerReferences=[owner]) for i in range(2)]
    )


@scene_in("")
def workload_beside_a_closed_queue(way: str) -> Scene:
    """V is a workload, or the pods of one; the queue of its name takes no jobs."""
    return Scene([*tree({"r0": "n0 n1"}), queue("v", open=False), *_of_v(way)])


@scene
def workload_over_two_racks(way: str) -> Scene:
    """V is a workload of two pods, and there is room for one in each of two racks."""
    near = {"volcano.sh/network-topology-highest-tier": "1", "scheduling.volcano.sh/group-min-member": "2"}
    return Scene([*tree({"r0": "n0", "r1": "n1"}, cpu=1), workload(way, annotations=near)])


@scene
def workload_anywhere(way: str) -> Scene:
    """The same, and v does not say how near its pods are to be."""
    least = {"scheduling.volcano.sh/group-min-member": "2"}
    return Scene([*tree({"r0": "n0", "r1": "n1"}, cpu=1), workload(way, annotations=least)])


@scene_in("")
def workload_beside_a_held_queue(way: str) -> Scene:
    """V is a workload, or a group of pods, that names no queue; Kueue's queue of its name is held.

    Where an operator makes the gang, there is room for a part of it.
    """
    pods = kueue_gang("v", 2)
    for raw in pods:
        raw["metadata"]["labels"].pop("kueue.x-k8s.io/queue-name")  # type: ignore[index]
    if way in _ELASTIC:
        return Scene([*tree({"r0": "n0"}, cpu=1), local_queue("v"), workload(way, in_parts=True)])
    return Scene([*tree({"r0": "n0 n1"}), local_queue("v"), *([workload(way)] if way else pods)])


@scene
def queued_job_without_room(way: str) -> Scene:
    """V is a workload of two pods in a queue of Kueue's, and there is room for one."""
    queued = workload(way)
    queued["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "a"}  # type: ignore[index]
    return Scene([*tree({"r0": "n0"}, cpu=1), queued])


_ELASTIC: Final = frozenset(WORKLOADS) - {"Job", "JobSet", "StatefulSet"}
"""Kinds that start in parts, where their operator is asked to, and as a whole in a queue of Kueue's."""


# -- what the program writes


@scene
def without_room(way: str) -> Scene:
    """V waits, and nothing has room for it."""
    return Scene([*tree({"r0": "n0"}, cpu=1), *other("u", 1, {0: "n0"}), *own(way)])


@scene_in("kubernetes")
def without_its_group(way: str) -> Scene:
    """The pods of v name a group that nobody has made."""
    return Scene([*tree({"r0": "n0"}), *(raw for raw in own(way) if raw["kind"] == "Pod")])


@scene
def patterned(way: str) -> Scene:
    """V says how its ranks talk to each other."""
    return Scene([*tree({"r0": "n0 n1"}, cpu=1), *_saying(way, "pattern", "dp=2")])


def _saying(way: str, word: str, value: str, on: Mapping[int, str] | None = None) -> list[Raw]:
    return on_job(own(way, on), way, "annotation", f"tierwise.io/{word}", value)


@scene
def near(way: str) -> Scene:
    """V needs one rack; one of Volcano's says so for a part of itself, too."""
    return Scene([*tree({"r0": "n0 n1", "r1": "n2 n3"}, cpu=1), *_near(way)])


@scene
def far(way: str) -> Scene:
    """The same, and nothing has room."""
    return Scene([*tree({"r0": "n0"}, cpu=1), *_near(way)])


def _near(way: str) -> list[Raw]:
    found = own(way)
    if way == "volcano":
        limit = {"mode": "hard", "highestTierAllowed": 1}
        policy = {"name": "all", "subGroupSize": 2, "networkTopology": limit}
        found[0]["spec"] |= {"networkTopology": limit, "subGroupPolicy": [policy]}  # type: ignore[operator]
    return found


@scene
def two_reservations(way: str) -> Scene:
    """V waits for one of two racks, which are free at the same time; a pod that runs for longer has room in both."""
    busy = [one for i in (0, 1) for one in other(f"a{i}", 2, {0: f"n{i}", 1: f"n{i}"}, expected_duration="2h")]
    asked = '[{"fabric": "ib", "tier": 1}]'
    mine = on_job(own(way, pods=3), way, "annotation", "tierwise.io/topology-constraints", asked)
    long = other("z", 1, expected_duration="9h", ago=HOUR - 1)
    world = tree({"r0": "n0", "r1": "n1"}, cpu=3)
    for raw in world[2:]:
        raw["metadata"]["labels"] = {"tierwise.io/fabric": "ib"}  # type: ignore[index]
    return Scene([*world, *busy, *mine, *long], RESERVING)


@scene
def ranked(way: str) -> Scene:
    """One pod of v runs and was told that it is the second of two; the other one waits."""
    found = on_pods(
        on_pods(_saying(way, "pattern", "ring", {1: "n1"}), "annotation", "tierwise.io/rank", "1"),
        "annotation",
        "tierwise.io/ranks",
        "2",
    )
    return Scene([*tree({"r0": "n0 n1"}, cpu=1), *found])


@scene_of_one
def volcano_job() -> Scene:
    """V is a Job of Volcano's with one partition."""
    task = {"name": "w", "replicas": 2, "template": PODS, "partitionPolicy": {"totalPartitions": 1, "partitionSize": 2}}
    return Scene([*tree({"r0": "n0 n1"}, cpu=1), _job(tasks=[task])])


def _job(**spec: object) -> Raw:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "v", "namespace": "default", "uid": "v"},
        "spec": {"minAvailable": 1, **spec},
    }


@scene_of_one
def lone_pod() -> Scene:
    """V-0 is a pod of no group."""
    return Scene([*tree({"r0": "n0"}), pod("v-0")])


@scene_of_one
def deserted() -> Scene:
    """V is a PodGroup without pods."""
    return Scene([*tree({"r0": "n0"}), volcano_gang("v", 1)[0]])
