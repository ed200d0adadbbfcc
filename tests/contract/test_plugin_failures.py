"""The live loop with a plugin of another package that fails at one point after the other: it goes on, and tells."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from tests.support.commands import ROOT
from tests.support.faulty import NONSENSE

from tierwise.framework.declaration import METHODS

ASKED_ELSEWHERE = {
    *("entitled", "figures"),  # by those who look at queues or at one pod
    "protects_up_to",  # where budgets or marks protect pods from evictions
    *("gather_options", "room_ahead"),  # for jobs that are gathered, or have domains to choose from
    *("score_leaves", "score_rows"),  # for jobs that scores alone find no place for
    *("order_free", "ties"),  # for pods that wait among each other
}

ANSWERS = [f"{method}={answer}" for method, answers in NONSENSE.items() for answer in answers]


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What became of three passes of the loop, for each method that may fail."""
    site = tmp_path_factory.mktemp("site")
    info = site / "faulty_plugins-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty-plugins\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[tierwise.plugins]\nfaulty = tests.support.faulty:Faulty\n")
    path = os.pathsep.join(map(str, (site, ROOT, ROOT / "src")))
    done = subprocess.run(
        [sys.executable, "-m", "tests.contract.failing_loop", *sorted(METHODS), *ANSWERS],
        env={**os.environ, "PYTHONPATH": path},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("method", sorted(METHODS))
def test_the_loop_goes_on_and_tells(method: str, lives: dict[str, Any]) -> None:
    """Every pass is made, nothing is set aside for it, the failure is an event once, and counted each time."""
    lived = lives[method]

    assert 3 == lived["passes"]
    assert 0 == lived["crashes"]
    if method in ASKED_ELSEWHERE:
        assert (0, []) == (lived["counted"], lived["events"])
    else:
        assert [f"PluginFailed: plugin faulty failed in {method}: RuntimeError: out of order"] == lived["events"]
        assert lived["counted"] >= 1


@pytest.mark.parametrize("asked", ANSWERS)
def test_the_loop_goes_on_whatever_a_plugin_answers(asked: str, lives: dict[str, Any]) -> None:
    """Not a number, endless, too many, of another type, a million letters: plugin and method are named, in short."""
    lived = lives[asked]

    assert (3, 0) == (lived["passes"], lived["crashes"])
    assert lived["events"]
    for told in lived["events"]:
        assert told.startswith(f"PluginFailed: plugin faulty failed in {asked.partition('=')[0]}: ")
        assert len(told) < 400


def test_pods_are_bound_where_a_failure_costs_nothing(lives: dict[str, Any]) -> None:
    """A plugin that only loses its say keeps nobody from being served."""
    whole = lives["figures"]["bound"]

    for method in ("job_key", "queue_key", "sub_job_key", "task_key", "propose", "complaints", "debts", "must_enqueue"):
        assert whole == lives[method]["bound"], method
