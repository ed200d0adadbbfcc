"""Controllers that remember ask for what controllers without a memory ask for, whatever happens in between."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.job_life import command, policy
from tests.support.manifests import NOW, job, node, objects, pod, pod_group, task

from tierwise.api.codec import Raw
from tierwise.controllers import Controllers, due, run
from tierwise.port import Key, Objects, key_of_raw
from tierwise.sim.cluster.store import EmbeddedCluster

GANG: Raw = {
    "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
    "kind": "PodGroup",
    "metadata": {"name": "gang", "namespace": "default"},
    "spec": {"minMember": 1},
}
QUOTA: Raw = {
    "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
    "kind": "ElasticQuota",
    "metadata": {"name": "team", "namespace": "default"},
    "spec": {"min": {"cpu": "1"}, "max": {"cpu": "4"}},
}


def _owner(annotations: dict[str, str], kind: str = "Owner") -> Raw:
    meta = {"name": "web", "namespace": "default", "uid": "web", "annotations": annotations}
    return {"apiVersion": "example.com/v1", "kind": kind, "metadata": meta}


def _class(value: int) -> Raw:
    meta = {"name": "high"}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value}


def _jobs() -> list[Raw]:
    patient = policy("PodPending", "RestartJob", timeout="1m")
    high = task("b", 2)
    high["template"] = {"spec": {**high["template"]["spec"], "priorityClassName": "high"}}  # type: ignore[index]
    return [
        job("train", task("w", 2), policies=[patient], ttlSecondsAfterFinished=30, plugins={"svc": []}),
        job("train-w", task("x", 1), high, minAvailable=1, metadata={"uid": "u2"}),
        job("big", task("w", 1, policies=[policy("PodFailed", "RestartPod")]), metadata={"uid": "u3"}),
    ]


def _pods() -> list[Raw]:
    """Pods that no job has made: of an owner, of a gang, alone, and in the way of a job."""
    owned, ganged, alone, taken = (pod(name, schedulerName="volcano") for name in ("web-0", "g-0", "p", "train-w-0"))
    reference = {"apiVersion": "example.com/v1", "kind": "Owner", "name": "web", "uid": "web", "controller": True}
    owned["metadata"]["ownerReferences"] = [reference]  # type: ignore[index]
    ganged["metadata"]["labels"] = {"pod-group.scheduling.sigs.k8s.io": "gang"}  # type: ignore[index]
    claimed: Raw = {**pod("train-w-x-0", schedulerName="volcano")}
    claimed["metadata"] |= {"labels": {"volcano.sh/job-name": "train"}}  # type: ignore[operator]
    return [owned, ganged, alone, taken, claimed]


POOL: list[Raw] = [
    *_jobs(),
    *_pods(),
    GANG,
    QUOTA,
    node("n0"),
    _owner({}),
    _owner({"scheduling.k8s.io/group-name": "chosen"}),
    _owner({"scheduling.volcano.sh/group-min-member": "3"}),
    _class(1),
    _class(-1),
    pod_group("chosen", minMember=1),
    command("stop", "AbortJob"),
    command("go", "ResumeJob"),
]
PHASES = ("Pending", "Running", "Succeeded", "Failed")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "delete", "phase", "phase", "queue", "apply", "apply", "apply", "wait"]),
        st.integers(0, 63),
    ),
    max_size=30,
)


@given(STEPS)
def test_memory_never_shows(steps: list[tuple[str, int]]) -> None:
    """After any changes, applied or lost effects and passing time, both ask for the same, and name the same time."""
    kept, world, now = Controllers(), objects(), NOW
    for what, which in steps:
        if what == "wait":
            now += (1.0, 30.0, 61.0)[which % 3]
        else:
            world = _after(world, what, which, now)

        asked = kept.run(world, now)

        assert run(world, now) == asked
        assert due(world) == kept.due(world)


def _after(world: Objects, what: str, which: int, now: float) -> Objects:
    present = list(world)
    if what == "put":
        raw = POOL[which % len(POOL)]
        return world.changed({key_of_raw(raw): raw})
    if what == "delete" and present:
        return world.changed({}, [present[which % len(present)]])
    if what == "phase":
        return _in_phase(world, [key for key in present if key.kind == "Pod"], PHASES[which % 4], which // 4)
    if what == "queue":
        return _in_phase(world, [key for key in present if key.kind == "PodGroup"], "Inqueue", which)
    if what == "apply":
        cluster = EmbeddedCluster(world, clock=now if which % 2 else None)
        asked = run(world, now)
        cluster.apply(asked if which % 5 else asked[which % 7 :])  # some are lost
        return cluster.read()
    return world


def _in_phase(world: Objects, keys: list[Key], phase: str, which: int) -> Objects:
    if not keys:
        return world
    key = keys[which % len(keys)]
    raw: dict[str, Any] = dict(world.raw(key) or {})
    return world.changed({key: {**raw, "status": {**raw.get("status", {}), "phase": phase}}})


@pytest.mark.parametrize("second", [_owner({"scheduling.volcano.sh/group-min-member": "3"}), None])
def test_an_owner_that_changes_is_noticed(second: Raw | None) -> None:
    """A group follows from what its pods' owner says, whether the owner comes, changes or goes."""
    owned, kept = _pods()[0], Controllers()
    cluster = EmbeddedCluster(objects(owned, *([] if second else [_owner({"volcano.sh/preemptable": "true"})])))
    while asked := kept.run(cluster.read(), NOW):
        cluster.apply(asked)
    key = key_of_raw(_owner({}))
    changed = cluster.read().changed({key: second} if second else {}, [] if second else [key])

    asked = kept.run(changed, NOW)

    assert asked
    assert run(changed, NOW) == asked
