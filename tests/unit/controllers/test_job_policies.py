"""What life-cycle policies do to a job."""

import pytest
from tests.support.job_life import Simulation, policy
from tests.support.manifests import (
    NOW,
    job,
    names,
    part,
    partitions,
    task,
)

from tierwise import controllers
from tierwise.api.codec import Raw


def _running(*tasks: Raw, policies: list[Raw], **fields: int) -> Simulation:
    batch = job("train", *tasks, policies=policies)
    batch["spec"] = part(batch, "spec") | fields
    life = Simulation(batch)
    life.run_all()
    return life


def test_a_failed_pod_restarts_the_job() -> None:
    """All pods are made anew, marked with the next version and retry, behind a new pod group."""
    life = _running(task("w", 2), policies=[policy("PodFailed", "RestartJob")])
    assert "Running" == life.phase
    life.set("w", 0, "Failed", code=3)

    assert ("Pending", 1, ["w-0", "w-1"]) == (life.phase, life.retries, life.pods)
    assert ("1", "1") == life.marks("w", 0) == life.marks("w", 1)
    assert ["Pending", "Running", "Restarting", "Pending"] == life.conditions


def test_a_policy_may_name_nothing_but_an_exit_code() -> None:
    """It answers pods that end with it, and no others."""
    life = _running(task("w", 2), policies=[{"exitCode": 3, "action": "RestartJob"}])
    retries = []
    for index, code in enumerate((4, 3)):
        life.set("w", index, "Failed", code=code)
        retries.append(life.retries)

    assert [0, 1] == retries


def test_without_a_policy_a_failed_pod_stays() -> None:
    """A pod that failed is there to be looked at until its job is over."""
    life = _running(task("w", 2, minAvailable=1), policies=[], minAvailable=1)
    life.set("w", 0, "Failed")

    assert ("Running", 0, 1) == (life.phase, life.retries, life.status["failed"])


def test_a_failed_partition_restarts_alone() -> None:
    """The other partitions keep their pods, and the pod group stays."""
    parts = partitions(2, 2, minPartitions=2)
    life = _running(task("w", 4, partitionPolicy=parts), policies=[policy("PodFailed", "RestartPartition")])
    life.set("w", 3, "Failed")

    assert [("0", "0"), ("0", "0"), ("0", "1"), ("0", "1")] == [life.marks("w", i) for i in range(4)]
    assert (1, 2, 2) == (life.retries, life.status["running"], life.status["pending"])
    life.run_all()
    assert "Running" == life.phase


def test_partitions_follow_from_indexes_not_from_labels() -> None:
    """A pod that lost its label is restarted with its partition all the same."""
    life = _running(task("w", 4, partitionPolicy=partitions(2, 2)), policies=[policy("PodFailed", "RestartPartition")])
    raw = life.world.raw(life.pod("w", 2)) or {}
    labels = {"labels": {"volcano.sh/job-name": "train"}}
    life.world = life.world.changed({life.pod("w", 2): raw | {"metadata": part(raw, "metadata") | labels}})
    life.set("w", 3, "Failed")

    assert [("0", "0"), ("0", "0"), ("0", "1"), ("0", "1")] == [life.marks("w", i) for i in range(4)]


def test_partitions_that_fail_together_cost_one_retry() -> None:
    """One turn restarts all that has to be restarted."""
    life = _running(task("w", 4, partitionPolicy=partitions(2, 2)), policies=[policy("PodEvicted", "RestartPartition")])
    life.lose(("w", 0), ("w", 2))

    assert (1, [("0", "1")] * 4) == (life.retries, [life.marks("w", i) for i in range(4)])


@pytest.mark.parametrize(
    ("action", "renewed"), [("RestartPod", ["a-1"]), ("RestartTask", ["a-0", "a-1"]), ("RestartPartition", [])]
)
def test_parts_of_a_job_restart(action: str, renewed: list[str]) -> None:
    """A pod, or its task; a partition only where there are partitions."""
    life = _running(task("a", 2), task("b", 1), policies=[policy("PodFailed", action)])
    life.set("a", 1, "Failed")

    made = {f"{name}-{i}": life.marks(name, i)[1] for name, i in (("a", 0), ("a", 1), ("b", 0))}
    assert renewed == [name for name, retry in made.items() if retry == "1"]
    assert int(bool(renewed)) == life.retries


@pytest.mark.parametrize(
    ("action", "ending", "phase"),
    [
        ("AbortJob", "Aborting", "Aborted"),
        ("TerminateJob", "Terminating", "Terminated"),
        ("CompleteJob", "Completing", "Completed"),
    ],
)
def test_a_job_ends_by_policy(action: str, ending: str, phase: str) -> None:
    """Pods that ended are kept, those that wait or run are not, and the reason is told."""
    life = _running(task("w", 3), policies=[policy("PodFailed", action)])
    life.set("w", 1, "Failed", code=9)

    assert (phase, ["w-1"], []) == (life.phase, life.pods, names(life.world, "PodGroup"))
    assert ["Pending", "Running", ending, phase] == life.conditions
    assert f"pod train-w-1 failed with exit code 9: {action}" == life.told[-1].message.partition(": ")[2]


def test_a_task_speaks_before_its_job_and_an_exit_code_before_an_event() -> None:
    """The nearest and most particular word counts."""
    of_task = [policy("PodFailed", "RestartTask"), policy(7, "CompleteJob")]
    for code, expected in ((7, "Completed"), (8, "Pending")):
        life = _running(task("w", 2, policies=of_task), policies=[policy("*", "TerminateJob")])
        life.set("w", 0, "Failed", code=code)
        assert expected == life.phase
    other = _running(task("w", 1, policies=of_task), task("v", 1), policies=[policy("*", "TerminateJob")])
    other.set("v", 0, "Failed")
    assert "Terminated" == other.phase


@pytest.mark.parametrize(("most", "times"), [(1, "1 time"), (2, "2 times")])
def test_retries_run_out(most: int, times: str) -> None:
    """The last restart that maxRetry allows fails the job, and what failed stays to be looked at."""
    life = _running(task("w", 2), policies=[policy("PodFailed", "RestartJob")], maxRetry=most)
    for _ in range(most):
        life.set("w", 0, "Failed")
        life.run_all()

    assert ("Failed", most, ["w-0"]) == (life.phase, life.retries, life.pods)
    assert f"restarted {times}, maxRetry is {most}" == life.state["message"]


def test_an_evicted_pod_is_missed_once() -> None:
    """A pod that was seen and is gone was evicted; one that was never seen is only made."""
    life = _running(task("w", 2), policies=[policy("PodEvicted", "RestartJob")])
    life.lose(("w", 1))
    assert ("Pending", 1) == (life.phase, life.retries)
    life.run_all()
    assert ("Running", 1) == (life.phase, life.retries)


def test_what_the_controller_deletes_is_not_evicted() -> None:
    """Scaling down is no eviction."""
    life = _running(task("w", 3), policies=[policy("PodEvicted", "RestartJob")])
    life.change(tasks=[task("w", 2)])

    assert (0, ["w-0", "w-1"]) == (life.retries, life.pods)


def test_scaling_is_an_event() -> None:
    """A job that must start anew when its size changes says so."""
    life = _running(task("w", 2), policies=[policy("JobUpdated", "RestartJob")])
    life.change(tasks=[task("w", 3)])

    assert (1, ["w-0", "w-1", "w-2"]) == (life.retries, life.pods)
    assert {("1", "1")} == {life.marks("w", i) for i in range(3)}


def test_scaling_is_an_event_though_the_minimum_stays() -> None:
    """More replicas of a task are a change of the job, whatever it needs at least."""
    batch = job("train", task("w", 2), policies=[policy("JobUpdated", "RestartJob")])
    batch["spec"] = part(batch, "spec") | {"minAvailable": 1}
    life = Simulation(batch)
    life.run_all()
    life.change(tasks=[task("w", 3)])

    assert (1, ["w-0", "w-1", "w-2"]) == (life.retries, life.pods)


def test_a_completed_task_completes_the_job() -> None:
    """What TaskCompleted is for: the workers are done, so the servers may go."""
    life = _running(task("ps", 1), task("w", 2, policies=[policy("TaskCompleted", "CompleteJob")]), policies=[])
    life.set("w", 0, "Succeeded")
    assert "Running" == life.phase
    life.set("w", 1, "Succeeded")

    assert ("Completed", ["w-0", "w-1"]) == (life.phase, life.pods)


def test_containers_that_restart_too_often_fail_their_task() -> None:
    """MaxRetry of a task counts what the kubelet restarted."""
    life = _running(task("w", 2, maxRetry=3), policies=[policy("TaskFailed", "TerminateJob")])
    life.set("w", 0, "Running", containerStatuses=[{"name": "main", "restartCount": 3}])
    before = life.phase
    life.set("w", 1, "Running", containerStatuses=[{"name": "main", "restartCount": 1}])

    assert ("Running", "Terminated") == (before, life.phase)


def test_an_unknown_pod_group_is_an_event() -> None:
    """Some of the gang runs, and the rest cannot be placed."""
    life = _running(task("w", 2), policies=[policy("Unknown", "AbortJob")])
    [key] = [key for key in life.world if key.kind == "PodGroup"]
    life.world = life.world.changed({key: (life.world.raw(key) or {}) | {"status": {"phase": "Unknown"}}})
    life.settle()

    assert "Aborted" == life.phase


def test_a_pod_may_wait_for_so_long() -> None:
    """PodPending acts once the time is over, and the controller says when that will be."""
    life = Simulation(job("train", task("w", 1), policies=[policy("PodPending", "AbortJob", timeout="10m")]))
    assert ("Pending", NOW + 600) == (life.phase, controllers.due(life.world))
    life.wait(599)
    assert "Pending" == life.phase
    life.wait(1)

    assert ("Aborted", None) == (life.phase, controllers.due(life.world))


def test_an_evicted_pod_may_be_away_for_so_long() -> None:
    """With a timeout, only a pod that does not run again in time counts."""
    patient = [policy("PodEvicted", "TerminateJob", timeout="5m")]
    back, away = _running(task("w", 2), policies=patient), _running(task("w", 2), policies=patient)
    for life in (back, away):
        life.lose(("w", 0))
        assert NOW + 300 == controllers.due(life.world)
    back.run_all()
    for life in (back, away):
        life.wait(300)

    assert ("Running", "Terminated") == (back.phase, away.phase)
    assert None is controllers.due(back.world)
