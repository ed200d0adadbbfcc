"""`schedule` and `submit` stop where a cluster goes in circles, say so, and name the jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.commands import answer, manifests, run
from tests.support.manifests import job, node, queue, task

TAKING_TURNS = """
actions: "enqueue, allocate, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: conformance}]
- plugins: [{name: predicates}, {name: nodeorder}]
"""
"""No plugin says what a queue deserves, so two queues reclaim the same node from each other for ever."""


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, ...]:
    """A node for one pod, a job of one pod in each of two queues, and the profile."""
    jobs = [
        job(f"j{name}", task("w", 1), metadata={"uid": name}, minAvailable=1, queue=name, schedulerName="tierwise")
        for name in "ab"
    ]
    config = tmp_path / "scheduler.conf"
    config.write_text(TAKING_TURNS)
    file = manifests(tmp_path, node("n0", "cpu=1 pods=10"), queue("a", weight=1), queue("b", weight=1), *jobs)
    return "-f", str(file), "--config", str(config)


@pytest.mark.parametrize("verb", ["schedule", "submit"])
def test_circles_are_told(verb: str, files: tuple[str, ...]) -> None:
    """In the headline, and with the names of both jobs."""
    shown = run(verb, *files, width=160).stdout

    assert "stopped, because the cluster goes in circles" in shown
    assert "default/ja-a, default/jb-b" in shown
    assert "a pod was bound and evicted 10 times" in " ".join(shown.split())


@pytest.mark.parametrize("verb", ["schedule", "submit"])
def test_programs_are_told_of_circles(verb: str, files: tuple[str, ...]) -> None:
    """As a problem with a code of its own."""
    (problem,) = answer(verb, *files)["problems"]

    assert ("default/ja-a, default/jb-b", "GoesInCircles") == (problem["object"], problem["code"])


def test_what_would_start_a_job_counts_each_pod_once(files: tuple[str, ...]) -> None:
    """Though the scheduler evicts it again and again for the other one, which is told."""
    told = answer("what-if", *files, "--start", "default/ja-a")["scheduler"]

    assert ["default/jb-w-0"] == told["pods"]
    assert "evicts 1 pod for it" in told["text"]
    assert "as it goes in circles" in told["text"]


def test_what_comes_to_rest_is_no_circle(files: tuple[str, ...]) -> None:
    """Nor is a run of so many cycles that was asked for, while it is short."""
    quiet = files[:2]

    assert [] == answer("schedule", *quiet)["problems"]
    assert [] == answer("submit", *quiet)["problems"]
    assert [] == answer("schedule", *files, "--cycles", 4)["problems"]
