"""What users ask of a job by commands, and jobs that go away by themselves."""

import pytest
from tests.support.job_life import Simulation, command, policy
from tests.support.manifests import (
    NOW,
    applied,
    job,
    names,
    part,
    task,
)

from tierwise import controllers
from tierwise.port import Delete, Key


def _life(**fields: object) -> Simulation:
    life = Simulation(job("train", task("w", 2), metadata={"creationTimestamp": "2025-10-09T08:51:00Z"}))
    life.run_all()
    if fields:
        life.change(**fields)
    return life


def test_a_job_is_aborted_and_resumed() -> None:
    """Aborting frees everything, resuming starts a new version that waits for its queue like any other."""
    life = _life()
    life.send(command("stop", "AbortJob"))
    aborted = life.phase, life.pods, names(life.world, "PodGroup"), names(life.world, "Command")
    life.send(command("go", "ResumeJob"))

    assert ("Aborted", [], [], []) == aborted
    assert ("Pending", 1, 2, ["w-0", "w-1"]) == (life.phase, life.retries, life.status["version"], life.pods)
    assert {"pods/w": "0-1 of 2"} == life.status["controlledResources"]


@pytest.mark.parametrize(
    ("action", "phase"),
    [("TerminateJob", "Terminated"), ("CompleteJob", "Completed"), ("RestartJob", "Pending"), ("ResumeJob", "Running")],
)
def test_commands_have_the_names_of_actions(action: str, phase: str) -> None:
    """A command that means nothing in this phase is taken away without effect."""
    life = _life()
    life.send(command("c", action))

    assert (phase, []) == (life.phase, names(life.world, "Command"))


def test_a_command_is_carried_out_once() -> None:
    """A deletion that is lost does not lead to a second restart."""
    life = _life()
    key = Key("bus.volcano.sh", "Command", "default", "again")
    life.world = life.world.changed({key: command("again", "RestartJob")})
    for _ in range(6):
        effects = controllers.run(life.world, NOW)
        life.world = applied(life.world, [e for e in effects if not isinstance(e, Delete) or e.key.kind != "Command"])
    life.settle()

    assert (1, []) == (life.retries, names(life.world, "Command"))


def test_commands_for_others_are_left_alone() -> None:
    """A job listens to its own commands only."""
    life = _life()
    life.send(command("stop", "AbortJob", job="other"))

    assert ("Running", ["default/stop"]) == (life.phase, names(life.world, "Command"))


def test_a_restart_can_be_aborted() -> None:
    """Volcano forgets an AbortJob that comes while a job restarts; here it counts."""
    life = _life()
    raw = life.world.raw(life.pod("w", 0)) or {}
    leaving = part(raw, "metadata") | {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    life.world = life.world.changed({life.pod("w", 0): {**raw, "metadata": leaving}})
    life.send(command("again", "RestartJob"))
    restarting = life.phase
    life.send(command("stop", "AbortJob"))

    assert ("Restarting", "Aborting") == (restarting, life.phase)


def test_a_job_that_is_over_goes_away_with_all_it_made() -> None:
    """TtlSecondsAfterFinished counts from the end; the controller says when it will have something to do."""
    life = Simulation(job("train", task("w", 1), ttlSecondsAfterFinished=60, plugins={"svc": []}))
    life.run_all()
    life.wait(10)
    life.set("w", 0, "Succeeded")
    life.wait(59)
    before = life.phase, controllers.due(life.world)
    life.wait(1)

    assert ("Completed", NOW + 70) == before
    assert [] == list(life.world)


def test_an_aborted_job_is_not_over() -> None:
    """It can be resumed, so it stays."""
    life = _life(ttlSecondsAfterFinished=1, policies=[policy("PodFailed", "AbortJob")])
    life.set("w", 0, "Failed")
    life.wait(1000)

    assert "Aborted" == life.phase


def test_the_status_tells_how_long_it_took() -> None:
    """From the job's creation to its end, as Go spells durations."""
    life = _life()
    life.wait(3600)
    life.send(command("stop", "TerminateJob"))

    assert "1h2m20s" == life.status["runningDuration"]


def test_second_command_of_a_name_is_another() -> None:
    """Its uid tells it from the one that was carried out, though nobody has seen that one go."""
    life = _life()
    key = Key("bus.volcano.sh", "Command", "default", "again")
    for uid in ("u1", "u2"):
        raw = command("again", "RestartJob")
        life.world = life.world.changed({key: raw | {"metadata": part(raw, "metadata") | {"uid": uid}}})
        for _ in range(6):
            asked = [e for e in controllers.run(life.world, NOW) if getattr(e, "key", None) != key]
            life.world = applied(life.world, asked)

    assert 2 == life.retries
