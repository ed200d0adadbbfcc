"""`tierwise submit`: its options, its endings, and that all kinds of output tell the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.commands import answer, manifests, run
from tests.support.lives import gang, machines

from tierwise.cli import submit
from tierwise.sim.cluster.simulation import Moment, Simulation


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Two nodes and a gang of a minute."""
    return manifests(tmp_path, *machines("n0", "n1"), *gang("a", 2, run_for="60s"))


def test_json_and_lines_tell_the_same(world: Path) -> None:
    """The timeline of the JSON is the lines of JSON, and both end with the same summary."""
    whole = answer("submit", "-f", world)
    lines = [json.loads(line) for line in run("submit", "-f", world, "-o", "jsonl").stdout.splitlines()]

    assert whole["timeline"] == lines[:-1]
    assert {key: value for key, value in whole.items() if key != "timeline"} == lines[-1]["summary"]
    assert (61, False, "Completed") == (whole["elapsed"], whole["unfinished"], whole["podGroups"]["default/a"]["phase"])
    assert {"Succeeded"} == {pod["phase"] for pod in whole["pods"].values()}


def test_incidents_by_option(world: Path) -> None:
    """A failure, a loss and a return are on the timeline at their times."""
    words = ("--fail", "a-0=7@5s", "--lose-node", "n1@10s", "--return-node", "n1@20s")
    told = {(e["at"], e["reason"]) for e in answer("submit", "-f", world, *words)["timeline"]}

    assert {(5, "Failed"), (10, "Lost"), (20, "Back")} <= told


def test_until_is_where_it_stops(world: Path) -> None:
    """The clock stands there, and people hear that more would happen."""
    result = run("submit", "-f", world, "--until", "30s")

    assert "1 job: 1 running after 30s" in result.stdout
    assert "more would happen" in result.stdout


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--fail", "a-0@5s"), "POD=EXIT@TIME"),
        (("--lose-node", "n0"), "NODE@TIME"),
        (("--lose-node", "n7@5s"), "Node n7"),
        (("--until", "soon"), "not a duration"),
        (("--speed", "0"), "0"),
        (("--speed", "5", "--instant"), "exclude"),
    ],
)
def test_odd_options_are_usage_errors(world: Path, words: tuple[str, ...], complaint: str) -> None:
    """Exit status 2, and what is wrong."""
    result = run("submit", "-f", world, *words)

    assert (2, True) == (result.exit_code, complaint in result.stderr)


def test_an_odd_annotation_is_bad_input(tmp_path: Path) -> None:
    """Object and field are named, and nothing is run."""
    result = run("submit", "-f", manifests(tmp_path, *machines("n0"), *gang("a", 1, run_for="long")))

    assert (2, "") == (result.exit_code, result.stdout)
    assert "Pod default/a-0: metadata.annotations.tierwise.io/run-for" in result.stderr


def test_ctrl_c_ends_with_a_summary(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has happened is summed up, and the exit status says that somebody had enough."""
    whole = Simulation.run

    def interrupted(self: Simulation, until: float) -> Iterator[Moment]:
        for number, moment in enumerate(whole(self, until)):
            if number == 2:
                raise KeyboardInterrupt
            yield moment

    monkeypatch.setattr(Simulation, "run", interrupted)
    result = run("submit", "-f", world)

    assert 130 == result.exit_code
    assert "1 job: 1 running after 1s" in result.stdout


def test_the_clock_goes_on_between_moments() -> None:
    """A frame is due every tenth of a second; without a pace there is none."""
    assert [0, 3, 6, 9] == list(submit.ticks(0, 10, 30))
    assert [] == list(submit.ticks(0, 10, None))


def test_a_job_alone_waits_for_nodes(tmp_path: Path) -> None:
    """Without a cluster nothing is placed, and the reason is told."""
    result = run("submit", "-f", manifests(tmp_path, *gang("a", 2)))

    assert (0, True) == (result.exit_code, "Waiting" in result.stdout)


@pytest.mark.parametrize("ends", [False, True])
def test_gangs_of_koordinator_are_counted(tmp_path: Path, *, ends: bool) -> None:
    """Gangs by annotation have no object that counts for them, so their pods do; those that have ended too."""
    gang = {"gang.scheduling.koordinator.sh/name": "g", "gang.scheduling.koordinator.sh/min-available": "2"}
    life = {"tierwise.io/run-for": "30s"} if ends else {}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"g-{i}", "annotations": {**gang, **life}},
            "spec": {"schedulerName": "koord-scheduler", "containers": [{"name": "c", "image": "x"}]},
        }
        for i in range(2)
    ]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"pods": "9"}}}

    jobs = answer("submit", "-f", manifests(tmp_path, node, *pods))["jobs"]

    expected = ("Completed", {"succeeded": 2}) if ends else ("Running", {"running": 2})
    assert expected == (jobs["default/g"]["phase"], jobs["default/g"]["pods"])
