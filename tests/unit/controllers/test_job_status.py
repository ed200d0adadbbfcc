"""Where a batch job is in its life."""

import pytest
from tests.support.manifests import (
    STAMP,
    job,
    names,
    objects,
    part,
    pod_group,
    settled,
    status,
    task,
)

from tierwise.api.codec import Raw
from tierwise.port import Key, Objects, RecordEvent


def _job_with(phases: list[str], fields: Raw | None = None, before: str = "") -> Objects:
    """A settled job whose pods have reached these phases, "Leaving" for a running pod on its way out."""
    batch = job("train", task("w", len(phases)))
    batch["spec"] = part(batch, "spec") | (fields or {})
    world = settled(objects(batch, pod_group("train-u1")))
    puts: dict[Key, Raw] = {}
    for key in world:
        raw = world.raw(key) or {}
        if key.kind == "Pod":
            puts[key] = _reached(raw, phases[int(key.name.rpartition("-")[2])])
        elif key.kind == "Job" and before:
            puts[key] = {**raw, "status": {"state": {"phase": before}}}
    return settled(world.changed(puts))


def _reached(raw: Raw, phase: str) -> Raw:
    if phase != "Leaving":
        return {**raw, "status": {"phase": phase}}
    leaving = part(raw, "metadata") | {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    return {**raw, "metadata": leaving, "status": {"phase": "Running"}}


def _phase(world: Objects) -> object:
    state = status(world, "Job", "default/train")["state"]
    assert isinstance(state, dict)
    return state["phase"]


def test_counts_follow_the_pods() -> None:
    """Every pod counts once; one on its way out neither runs nor waits."""
    world = _job_with(["Pending", "Running", "Running", "Succeeded", "Failed", "Leaving"], {"minAvailable": 6})

    assert {
        "state": {"phase": "Pending", "lastTransitionTime": STAMP},
        "minAvailable": 6,
        "pending": 1,
        "running": 2,
        "succeeded": 1,
        "failed": 1,
        "terminating": 1,
        "unknown": 0,
        "version": 0,
        "retryCount": 0,
        "taskStatusCount": {"w": {"phase": {"Pending": 1, "Running": 2, "Succeeded": 1, "Failed": 1}}},
        "controlledResources": {"pods/w": "0-4 of 6"},
        "conditions": [{"status": "Pending", "lastTransitionTime": STAMP}],
    } == status(world, "Job", "default/train")


def test_the_last_conditions_are_kept() -> None:
    """A job that has turned ever so often tells where it came to last, in as many conditions as before."""
    world = _job_with(["Running"], before="Pending")
    [key] = [key for key in world if key.kind == "Job"]
    raw = world.raw(key) or {}
    told = [{"status": f"Before{i}", "lastTransitionTime": STAMP} for i in range(60)]
    turned = settled(world.changed({key: {**raw, "status": {"state": {"phase": "Pending"}, "conditions": told}}}))
    found = status(turned, "Job", "default/train")["conditions"]
    assert isinstance(found, list)

    assert 50 == len(found)
    assert ["Before59", "Running"] == [condition["status"] for condition in found[-2:]]


@pytest.mark.parametrize(
    ("phases", "fields", "expected"),
    [
        (["Pending", "Pending"], {}, "Pending"),
        (["Running", "Pending"], {}, "Pending"),
        (["Running", "Pending"], {"minAvailable": 1}, "Running"),
        (["Running", "Running"], {}, "Running"),
        (["Running", "Succeeded"], {}, "Running"),
        (["Succeeded", "Succeeded"], {}, "Completed"),
        (["Succeeded", "Failed"], {}, "Failed"),
        (["Succeeded", "Failed"], {"minAvailable": 1}, "Completed"),
        (["Failed", "Failed"], {"minAvailable": 1}, "Failed"),
        (["Succeeded", "Failed"], {"minAvailable": 1, "minSuccess": 2}, "Failed"),
    ],
)
def test_the_phase_follows_the_gang(phases: list[str], fields: Raw, expected: str) -> None:
    """A job runs once its minimum does, and ends with its last pod."""
    assert expected == _phase(_job_with(phases, fields))


@pytest.mark.parametrize(("minimum", "expected"), [(2, "Pending"), (1, "Running")])
def test_a_running_job_that_lost_its_minimum_waits_again(minimum: int, expected: str) -> None:
    """A job runs for as long as its minimum does; surplus pods may come and go."""
    assert expected == _phase(_job_with(["Running", "Pending"], {"minAvailable": minimum}, before="Running"))


def test_enough_successes_complete_a_job_and_end_its_other_pods() -> None:
    """Once the required number succeeded, whatever still runs is not needed."""
    world = _job_with(["Succeeded", "Running", "Failed"], {"minSuccess": 1})

    assert "Completed" == _phase(world)
    assert ["default/train-w-0", "default/train-w-2"] == names(world, "Pod")


@pytest.mark.parametrize(
    ("before", "after"), [("Aborting", "Aborted"), ("Terminating", "Terminated"), ("Completing", "Completed")]
)
def test_a_job_that_is_ending_ends_once_its_pods_are_gone(before: str, after: str) -> None:
    """Pods that ended stay to be looked at, and the job needs no pod group any more."""
    world = _job_with(["Running", "Succeeded"], before=before)

    assert after == _phase(world)
    assert ["default/train-w-1"] == names(world, "Pod")
    assert [] == names(world, "PodGroup")


def test_a_job_that_waits_tells_why() -> None:
    """What the scheduler says about the pod group stands in the job's own status until it is over."""
    unschedulable = {"type": "Unschedulable", "status": "True", "message": "2/2 tasks in gang unschedulable: no room"}
    group = pod_group("train-u1") | {"status": {"phase": "Inqueue", "conditions": [unschedulable]}}
    told: list[RecordEvent] = []
    waiting = settled(objects(job("train", task("w", 2)), group), told=told)
    [key] = [key for key in waiting if key.kind == "PodGroup"]
    over = settled(waiting.changed({key: pod_group("train-u1")}))

    expected = {"phase": "Pending", "reason": "PodGroupPending", "message": unschedulable["message"]}
    assert expected | {"lastTransitionTime": STAMP} == status(waiting, "Job", "default/train")["state"]
    assert [("Warning", "PodGroupPending")] == [(event.type, event.reason) for event in told]
    assert {"phase": "Pending", "lastTransitionTime": STAMP} == status(over, "Job", "default/train")["state"]
