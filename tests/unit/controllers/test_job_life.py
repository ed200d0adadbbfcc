"""What a job remembers through its turns: a restart is over once it is over, and happens once."""

from __future__ import annotations

from tests.support.job_life import Simulation, policy
from tests.support.manifests import NOW, applied, job, names, part, partitions, task

from tierwise import controllers
from tierwise.api.codec import Raw
from tierwise.controllers.stamp import stamp


def _running(*tasks: Raw, policies: list[Raw], **fields: object) -> Simulation:
    batch = job("train", *tasks, policies=policies)
    batch["spec"] = part(batch, "spec") | fields
    life = Simulation(batch)
    life.run_all()
    return life


def test_lost_pod_restarts_its_part_once() -> None:
    """The pods of before are forgotten with their part, so that they are not missed a second time."""
    parts = partitions(2, 2, minPartitions=2)
    life = _running(task("w", 4, partitionPolicy=parts), policies=[policy("PodEvicted", "RestartPartition")])
    life.lose(("w", 3))
    for _ in range(3):
        life.settle()
    assert ("Pending", 1) == (life.phase, life.retries)

    life.run_all()
    assert ("Running", 1) == (life.phase, life.retries)
    life.lose(("w", 0))
    assert ("Pending", 2) == (life.phase, life.retries)


def test_seen_pods_of_a_restarted_part_are_forgotten_in_the_turn_itself() -> None:
    """What is written with the turn lists the pods of the other parts alone."""
    parts = partitions(2, 2)
    life = _running(task("w", 4, partitionPolicy=parts), policies=[policy("PodFailed", "RestartPartition")])
    memory = part(life.status, "controlledResources")
    assert "0-3 of 4" == memory["pods/w"]
    key = life.pod("w", 3)
    life.world = life.world.changed({key: (life.world.raw(key) or {}) | {"status": {"phase": "Failed"}}})
    [turn] = [e for e in controllers.run(life.world, NOW) if getattr(e, "status", {}).get("state")]

    assert "Restarting" == turn.status["state"]["phase"]  # type: ignore[union-attr,index]
    assert "0-1 of 4" == turn.status["controlledResources"]["pods/w"]  # type: ignore[union-attr,index]


def test_pod_that_was_away_is_not_waited_for_after_its_part_restarts() -> None:
    """A loss that a policy gave time to pass is over once the part of the pod begins anew."""
    policies = [policy("PodFailed", "RestartTask"), policy("PodEvicted", "TerminateJob", timeout="5m")]
    life = _running(task("w", 2), task("v", 1), policies=policies)
    life.lose(("w", 0))
    assert NOW + 300 == controllers.due(life.world)
    life.set("w", 1, "Failed")
    life.wait(299)
    assert ("Pending", 1, None) == (life.phase, life.retries, controllers.due(life.world))

    life.wait(1)
    assert "Pending" == life.phase


def test_part_is_restarted_again_with_the_whole_task() -> None:
    """A pod that was restarted by itself belongs to the past once its task is, and the other way round."""
    policies = [policy(3, "RestartPod"), policy(4, "RestartTask")]
    life = _running(task("w", 2), task("v", 1), policies=policies, maxRetry=9)
    for index, code, made in ((0, 3, ("1", "0", "0")), (1, 4, ("2", "2", "0")), (1, 3, ("2", "3", "0"))):
        life.set("w", index, "Failed", code=code)
        life.run_all()

        assert made == tuple(life.marks(name, i)[1] for name, i in (("w", 0), ("w", 1), ("v", 0)))


def test_loss_elsewhere_is_remembered_through_a_restart() -> None:
    """A part that begins anew forgets its own losses; a pod that is missed elsewhere still has its time."""
    parts = partitions(2, 2)
    policies = [policy("PodFailed", "RestartPartition"), policy("PodEvicted", "TerminateJob", timeout="5m")]
    life = _running(task("w", 4, partitionPolicy=parts), policies=policies)
    life.lose(("w", 0))
    life.set("w", 3, "Failed")
    life.wait(299)
    assert ("Pending", 1) == (life.phase, life.retries)

    life.wait(1)
    assert "Terminated" == life.phase


def test_end_counts_before_a_restart() -> None:
    """Of two policies that answer at the same moment, the one that ends the job has its way."""
    life = _running(
        task("a", 1, policies=[policy("PodFailed", "RestartTask")]),
        task("b", 1, policies=[policy("PodFailed", "AbortJob")]),
        policies=[],
    )
    for name in ("a", "b"):
        key = life.pod(name, 0)
        life.world = life.world.changed({key: (life.world.raw(key) or {}) | {"status": {"phase": "Failed"}}})
    life.settle()

    assert ("Aborted", 0) == (life.phase, life.retries)


def test_gang_that_starts_anew_waits_in_its_queue_anew() -> None:
    """As long as its old pod group is on its way out the job restarts, and only then it is Pending again."""
    life = _running(task("w", 2), policies=[policy("PodFailed", "RestartJob")])
    [group] = [key for key in life.world if key.kind == "PodGroup"]
    leaving = life.world.raw(group) or {}
    leaving = leaving | {"metadata": part(leaving, "metadata") | {"deletionTimestamp": stamp(NOW)}}
    key = life.pod("w", 0)
    life.world = life.world.changed({key: (life.world.raw(key) or {}) | {"status": {"phase": "Failed"}}})
    for _ in range(6):
        life.world = applied(life.world, controllers.run(life.world, NOW)).changed({group: leaving})
    assert ("Restarting", 1) == (life.phase, life.retries)

    life.world = life.world.changed({}, [group])
    life.settle()
    assert ("Pending", 1) == (life.phase, life.retries)


def test_job_fails_with_a_task_that_lacks_successes() -> None:
    """Enough pods succeeded in all, and too few of one task, whose minimum is its own."""
    life = _running(task("a", 2, minAvailable=2), task("b", 2, minAvailable=0), policies=[], minAvailable=2)
    for name, index, phase in (("a", 0, "Succeeded"), ("a", 1, "Failed"), ("b", 0, "Succeeded"), ("b", 1, "Succeeded")):
        life.set(name, index, phase)

    assert ("Failed", "TaskFailed") == (life.phase, life.state["reason"])


def test_event_of_any_kind_is_none_of_waiting() -> None:
    """A policy for all events does not end a job because its pods have not started yet."""
    life = Simulation(job("train", task("w", 2), policies=[policy("*", "TerminateJob")]))

    assert ("Pending", ["w-0", "w-1"]) == (life.phase, life.pods)


def test_conditions_are_bounded() -> None:
    """A job that goes through many phases keeps the last fifty."""
    life = _running(task("w", 1), policies=[policy("PodFailed", "RestartJob")], maxRetry=100)
    for _ in range(25):
        life.set("w", 0, "Failed")
        life.run_all()

    assert (50, "Running") == (len(life.conditions), life.conditions[-1])


def test_job_that_is_over_goes_at_the_end_of_its_time() -> None:
    """At that very second, which is when the loop wakes up for it, and not before."""
    life = _running(task("w", 1), policies=[], ttlSecondsAfterFinished=100)
    life.set("w", 0, "Succeeded")
    assert ("Completed", NOW + 100) == (life.phase, controllers.due(life.world))
    life.wait(99)
    assert "Completed" == life.phase
    life.wait(1)

    assert ([], []) == (names(life.world, "Job"), names(life.world, "Pod"))


def test_quiet_cluster_is_looked_at_when_a_time_is_over() -> None:
    """Nothing has changed since there was nothing to do, but the time of a policy has come."""
    life = Simulation(job("train", task("w", 1), policies=[policy("PodPending", "AbortJob", timeout="10m")]))
    life.settle()
    kept = controllers.Controllers()

    assert [] == kept.run(life.world, NOW)
    assert [] == kept.run(life.world, NOW + 599)
    assert stamp(NOW + 600) in str(kept.run(life.world, NOW + 600))
