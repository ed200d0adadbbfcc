"""A running scheduler as a source: what its turns leave behind."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from tests.support.commands import run
from tests.support.draw import draw, gang, objects_of
from tests.support.ports import HOST, free_port

from tierwise.config.profile import DEFAULT
from tierwise.runtime.listener import listening
from tierwise.runtime.loop import Loop
from tierwise.runtime.metrics import registry
from tierwise.runtime.probes import probes
from tierwise.runtime.profile_run import SchedulerProfile
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.web.app import add_pages
from tierwise.web.live import LiveRuns
from tierwise.web.views import RunView

WORLD = objects_of(
    draw("r0[n0 n1]", node="gpu=4"),
    gang("fits", tasks=1, each="gpu=4", within=1),
    gang("waits", tasks=4, each="gpu=4", within=1),
)


def _loop(turns: LiveRuns) -> Loop:
    moments = iter(range(100))
    return Loop(
        EmbeddedCluster(WORLD),
        [SchedulerProfile(frozenset({"default-scheduler", ""}), DEFAULT)],
        clock=lambda: float(next(moments)),
        ticks=lambda: 0.0,
        observers=[turns],
    )


def _told(turns: LiveRuns) -> Any:
    show = turns.show()
    assert isinstance(show, RunView)
    return json.loads(show.board().body)


def test_before_the_first_turn_there_is_a_sentence() -> None:
    """A replica that does not lead has no cycle to show."""
    assert "no cycle has ended yet" in str(LiveRuns("here").show())


def test_the_last_turn_is_shown_and_earlier_decisions_are_remembered() -> None:
    """What was bound stands on the board at once; later turns that decide nothing do not push it out."""
    turns = LiveRuns("here")
    loop = _loop(turns)
    loop.run_once()
    immediate_preemption = _told(turns)
    for _ in range(4):
        loop.run_once()
    later = _told(turns)

    decided = [decision["job"] for cycle in later["cycles"] for decision in cycle["decisions"]]
    assert ("scheduler", 1, 4) == (
        immediate_preemption["mode"],
        immediate_preemption["jobs"]["podsRunning"],
        immediate_preemption["jobs"]["podsWaiting"],
    )
    assert ["default/fits"] == decided
    assert {"read", "build", "decide", "apply", "publish"} == set(later["cycles"][-1]["seconds"])


def test_questions_are_asked_for_the_profile_that_is_shown() -> None:
    """What they know of the cluster is what its cycles saw, with the names of the schedulers that it serves."""
    turns = LiveRuns("here")
    _loop(turns).run_once()
    show = turns.show()

    assert isinstance(show, RunView)
    assert show.basis is not None
    assert (DEFAULT, frozenset({"default-scheduler", ""})) == (show.basis.profile, show.basis.schedulers)


def test_pages_stand_beside_metrics_on_one_port() -> None:
    """The listener of a scheduler shows both, and the pages open with what its last cycle left."""
    turns, port = LiveRuns("here"), free_port()
    _loop(turns).run_once()
    app = probes(registry(), live=lambda: "", ready=lambda: "")
    add_pages(app, turns)

    with listening(app, HOST, port):
        bodies = [_get(port, path) for path in ("/", "/metrics", "/healthz", "/api/jobs/default/waits")]

    assert b"<!doctype html>" in bodies[0]
    assert b"tierwise" in bodies[1]
    assert b"ok\n" == bodies[2]
    assert "LargerThanAnyDomain" == json.loads(bodies[3])["why"]["reason"]


def _get(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://{HOST}:{port}{path}", timeout=60) as answer:
        found: bytes = answer.read()
        return found


def test_pages_need_a_port() -> None:
    """A scheduler that listens nowhere cannot show them."""
    result = run("run", "--pages")

    assert 2 == result.exit_code
    assert "--pages needs --listen" in result.stderr


def test_a_turn_in_which_nothing_happens_changes_no_byte() -> None:
    """So that pages which ask again are told that they have it all."""
    turns = LiveRuns("here")
    loop = _loop(turns)
    for _ in range(4):
        loop.run_once()
    settled = turns.show()
    loop.run_once()

    assert settled is turns.show()
