"""What a simulated kubelet writes about a pod as time passes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.manifests import container, objects

from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.errors import InputError
from tierwise.port import PatchStatus, RecordEvent
from tierwise.sim.cluster.kubelet import PodSync, killed, sync_pod
from tierwise.sim.cluster.pod_behaviour import behaviour, check_habits

START = 1_760_000_000.0


def pod(status: Raw | None = None, policy: str = "Never", deleted: str = "", **marks: str) -> Pod:
    """A pod on a node; further words are annotations of the simulation."""
    annotations = {f"tierwise.io/{key.replace('_', '-')}": value for key, value in marks.items()}
    metadata: Raw = {"name": "p", "namespace": "default", "annotations": annotations}
    if deleted:
        metadata["deletionTimestamp"] = deleted
    spec: Raw = {"nodeName": "n0", "containers": [container("cpu=1")], "restartPolicy": policy}
    raw: Raw = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status or {}}
    return objects(raw).every(Pod)["default/p"]


def lived(start: Pod, now: float) -> tuple[Pod, PodSync]:
    """The pod after a kubelet has looked at it, and what it did."""
    done = sync_pod(start, now)
    return after(start, done.effects), done


def after(start: Pod, effects: Any) -> Pod:
    """The pod with what was written about it."""
    raw: Raw = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": start.metadata.annotations}}
    raw["spec"] = {"nodeName": "n0", "containers": [container("cpu=1")], "restartPolicy": start.spec.restart_policy}
    written = [effect.status for effect in effects if isinstance(effect, PatchStatus)]
    raw["status"] = written[-1] if written else {}
    return objects(raw).every(Pod)["default/p"]


def reasons(done: PodSync) -> list[str]:
    """What people are told."""
    return [effect.reason for effect in done.effects if isinstance(effect, RecordEvent)]


def test_a_pod_starts_runs_and_ends() -> None:
    """Pending with a start time, Running, and at its end Succeeded with the exit code of its container."""
    fresh, first = lived(pod(start_after="5s", run_for="60s"), START)
    assert ("Pending", START + 5) == (fresh.status.phase, first.wake)
    assert PodSync(wake=START + 5) == sync_pod(fresh, START + 4)

    up, second = lived(fresh, START + 5)
    assert ("Running", ["Started"], START + 65) == (up.status.phase, reasons(second), second.wake)
    assert up.status.container_statuses[0].ready

    over, third = lived(up, START + 65)
    ended = over.status.container_statuses[0].state.terminated
    assert ("Succeeded", ["Completed"]) == (over.status.phase, reasons(third))
    assert ended is not None
    assert (0, "Completed", "2025-10-09T08:54:25Z") == (ended.exit_code, ended.reason, ended.finished_at)
    assert PodSync() == sync_pod(over, START + 1000)


def test_a_pod_without_an_end_runs_on() -> None:
    """Nothing is going to happen to it on its own."""
    up, _ = lived(lived(pod(), START)[0], START + 1)

    assert PodSync() == sync_pod(up, START + 10**9)


def test_an_exit_code_fails_the_pod() -> None:
    """Failed, with the code where policies look for it."""
    up, _ = lived(lived(pod(run_for="10s", exit_code="3"), START)[0], START + 1)
    over, done = lived(up, START + 11)

    ended = over.status.container_statuses[0].state.terminated
    assert ended is not None
    assert ("Failed", 3, "Error", ["Failed"]) == (over.status.phase, ended.exit_code, ended.reason, reasons(done))


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [
        ("Never", 1, "Failed"),
        ("", 1, "Failed"),
        ("OnFailure", 1, "Running"),
        ("OnFailure", 0, "Succeeded"),
        ("Always", 0, "Running"),
    ],
)
def test_restart_policies(policy: str, code: int, phase: str) -> None:
    """Containers start again where the policy says so; a pod that names none ends for good."""
    up, _ = lived(lived(pod(policy=policy), START)[0], START + 1)

    assert phase == after(up, killed(up, START + 5, code)).status.phase


def test_restarts_back_off() -> None:
    """The first restart is at once, later ones wait longer and longer, up to five minutes."""
    current, _ = lived(lived(pod(policy="Always", run_for="1s"), START)[0], START + 1)
    now, pauses = START + 1, []
    for _ in range(8):
        current = after(current, killed(current, now, 1))
        waits = sync_pod(current, now).wake
        due = waits if not reasons(sync_pod(current, now)) else now
        assert due is not None
        pauses.append(due - now)
        current, now = lived(current, due)[0], due

    assert [0, 10, 20, 40, 80, 160, 300, 300] == pauses
    assert 8 == current.status.container_statuses[0].restart_count


def test_a_deleted_pod_stops_in_its_time() -> None:
    """After its own time to stop, and when its grace is over at the latest."""
    patient = pod({"phase": "Running"}, deleted="2025-10-09T08:53:50Z", stop_after="10s")
    stubborn = pod({"phase": "Running"}, deleted="2025-10-09T08:53:50Z", stop_after="1h")

    assert (PodSync(wake=START + 10), True) == (sync_pod(patient, START + 9), sync_pod(patient, START + 10).gone)
    assert (PodSync(wake=START + 30), True) == (sync_pod(stubborn, START + 29), sync_pod(stubborn, START + 30).gone)


def test_a_pod_that_runs_already_lives_from_now_on() -> None:
    """A manifest that says Running gets its containers, and its time is counted from the start of the run."""
    up, done = lived(pod({"phase": "Running"}, run_for="10s"), START)

    assert (START + 10, []) == (done.wake, reasons(done))
    assert PodSync(wake=START + 10) == sync_pod(up, START + 9)


@pytest.mark.parametrize(("told", "seconds"), [("500ms", 1), ("1s", 1), ("1500ms", 2), ("0s", 0)])
def test_parts_of_a_second_take_a_whole_one(told: str, seconds: int) -> None:
    """So that a pod that runs for less than a second is seen to run."""
    assert seconds == behaviour({"tierwise.io/run-for": told}).run


@pytest.mark.parametrize(
    ("key", "value"),
    [("run-for", "long"), ("run-for", "-1s"), ("exit-code", "256"), ("exit-code", "9" * 5000), ("stop-after", "")],
)
def test_odd_annotations_are_bad_input(key: str, value: str) -> None:
    """The field is named."""
    with pytest.raises(InputError, match=f"annotations.tierwise.io/{key}"):
        behaviour({f"tierwise.io/{key}": value})


def test_templates_are_read_before_the_run() -> None:
    """A mistake in a job's template is found at the start, and its place is named."""
    task = {"name": "w", "template": {"metadata": {"annotations": {"tierwise.io/run-for": "x"}}}}
    raw: Raw = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"tasks": [task]},
    }
    place = r"Job default/j: spec.tasks\[0\].template.metadata.annotations.tierwise.io/run-for"
    with pytest.raises(InputError, match=place):
        check_habits(objects(raw))
