"""Recordings in the page: journals and simulated traces, moment by moment, without anything kept for it."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.commands import run
from tests.support.depth import examples
from tests.support.draw import draw, gang, objects_of
from tests.support.ports import HOST, free_port

from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT
from tierwise.explain.board import Board
from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot
from tierwise.port import Delete, Objects, key_of_raw
from tierwise.runtime.journal import Journal, JournalCursor, JournalWriter
from tierwise.runtime.listener import listening
from tierwise.runtime.profile_run import LoopPass, SchedulerProfile
from tierwise.sim.cluster.agenda import Incident as SimIncident
from tierwise.sim.cluster.agenda import NodeBack, NodeLost
from tierwise.sim.cluster.simulation import Simulation
from tierwise.snapshot.builder import SCHEDULER_NAMES
from tierwise.web.app import pages
from tierwise.web.event_log import DAY
from tierwise.web.journal import JournalRecording
from tierwise.web.recording import Recording, thinned
from tierwise_lab.replay.engine.contenders import BUILT_IN
from tierwise_lab.replay.engine.engine import Engine
from tierwise_lab.replay.engine.rules import Rules
from tierwise_lab.replay.recording import ReplayRecording
from tierwise_lab.replay.traces.fabric import GPU
from tierwise_lab.replay.traces.synthetic import synthetic_fabric, synthetic_trace


def _job(number: int, seconds: int) -> Raw:
    """Two pods of a whole node each, in one rack, for a time."""
    gpus = {"limits": {GPU: "4"}, "requests": {GPU: "4"}}
    pod: Raw = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "any", "resources": gpus}]}
    template: Raw = {"metadata": {"annotations": {"tierwise.io/run-for": f"{seconds}s"}}, "spec": pod}
    spec: Raw = {"minAvailable": 2, "tasks": [{"name": "w", "replicas": 2, "template": template}]}
    spec["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
    meta: Raw = {"name": f"job-{number}", "namespace": "default"}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec}


def _life(objects: Objects, writer: JournalWriter, *incidents: SimIncident) -> Simulation:
    """A cluster that is recorded."""

    def observe(snapshot: Snapshot, report: CycleReport, seen: Objects) -> None:
        writer.saw(LoopPass(snapshot, report, (), DEFAULT, objects=seen))

    return Simulation(objects, DEFAULT, start=1_000_000, incidents=incidents, observe=observe)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal in several segments: jobs that end one after the other, one that waits for room, and a lost node."""
    folder: Path = tmp_path_factory.mktemp("journal")
    jobs = [_job(number, seconds) for number, seconds in enumerate((60, 90, 120))]
    world = objects_of(draw("s0: r0[n0 n1] r1[n2 n3]", node="gpu=4"))
    writer = JournalWriter(folder, 24_000, (SchedulerProfile(SCHEDULER_NAMES, DEFAULT),))
    for _ in _life(world.changed({key_of_raw(raw): raw for raw in jobs}), writer, NodeLost(70, "n3")).run(400):
        pass
    writer.close()
    return folder


def _board(recording: Recording, number: int) -> Any:
    view = recording.view(number)
    assert view is not None
    return json.loads(view.board().body)


def _used(board: Any) -> int:
    account = board["account"][board["resources"][0]]
    return cast("int", account["gangs"] + account["single"] + account["others"])


def test_figures_of_a_journal_are_those_of_its_boards(folder: Path) -> None:
    """Counted in one pass, without a cycle, as the board of each moment counts them."""
    recording = JournalRecording(folder)
    moments = recording.moments()

    assert len(moments) == recording.count() > 4
    for moment in moments:
        board = _board(recording, cast("int", moment["id"]))
        tree = board["fabrics"][0]
        expected = (_used(board), tree["nodes"][0], tree["shut"][0], board["now"], board["jobs"]["waiting"])
        actual = (moment["used"], moment["nodes"], moment["shut"], moment["now"], moment["waiting"])
        if moment is not moments[0]:  # before its first cycle a job has no podGroup, and waits for nothing yet
            assert expected == actual
        assert board["mode"] == "recording"


def test_a_moment_has_everything(folder: Path) -> None:
    """The story of a job, nodes, a command that explains the same, and what changed since the moment before."""
    recording = JournalRecording(folder)
    waiting = next(moment for moment in recording.moments() if moment["waiting"])
    view = recording.view(cast("int", waiting["id"]))
    assert view is not None
    story = view.answer(Board.job, "default/job-2")
    assert story is not None
    board = json.loads(view.board().body)
    result = run("explain", *board["options"].split(), "--job", "default/job-2")
    numbers = [cast("int", moment["id"]) for moment in recording.moments()]
    since: Any = recording.log.during(numbers[0], numbers[-1])

    assert json.loads(story.body)["why"]["tried"]
    assert view.answer(Board.node, "n0") is not None
    assert 0 == result.exit_code
    assert "job-2" in result.stdout
    assert since["started"]["count"] > 0
    assert recording.view(10**6) is None


@examples(8)
@given(data=st.data())
def test_a_cursor_reads_what_a_fresh_look_reads(folder: Path, data: st.DataObject) -> None:
    """In whatever order cycles are asked for, across segments."""
    journal = Journal(folder)
    cursor = JournalCursor(journal)
    numbers = [found.number for found in journal.cycles()]
    for number in data.draw(st.lists(st.sampled_from(numbers), min_size=1, max_size=4)):
        one, other = cursor.cycle(number), journal.cycle(number)
        assert (other.now, other.decided, list(other.objects)) == (one.now, one.decided, list(one.objects))
        assert all(other.objects.record(key) == one.objects.record(key) for key in other.objects)


def test_a_journal_that_grows_has_new_moments(tmp_path: Path) -> None:
    """A recording is followed while somebody writes it; the last moment is shown."""
    objects = objects_of(draw("r0[n0]", node="gpu=4"), gang("a", tasks=1, each="gpu=4"))
    writer = JournalWriter(tmp_path, 1 << 20, (SchedulerProfile(SCHEDULER_NAMES, DEFAULT),))
    life = _life(objects, writer)
    life.advance(1_000_000)
    now = 0.0
    recording = JournalRecording(tmp_path, ticks=lambda: now)
    history = recording
    first, before = history.show(), recording.count()
    life.cluster.apply([Delete(key) for key in life.cluster.read() if key.kind == "Pod"])
    life.advance(1_000_009)
    unseen, now = history.show(), 100.0
    second = history.show()
    writer.close()

    assert first is unseen  # a folder is looked at now and then
    assert second is not first
    assert before + 1 == recording.count()
    assert 1_000_009.0 == recording.moments()[-1]["now"]


def test_thinned_moments_count_what_happened_in_both() -> None:
    """No eviction is lost where two moments become one, and the last moment stays."""
    moments: list[Any] = [{"id": n, "placed": n % 3, "evicted": n % 2} for n in range(1, 24)]
    few: list[Any] = thinned(moments, 5)

    assert len(few) <= 5
    assert few[-1]["id"] == 23
    for name in ("placed", "evicted"):
        assert sum(m[name] for m in moments) == sum(m[name] for m in few)


@examples(3)
@given(seed=st.integers(0, 99), failing=st.booleans(), profile=st.sampled_from(["default", "random"]))
def test_a_replay_is_put_together_as_it_was(seed: int, failing: bool, profile: str) -> None:
    """Who runs where, who waits and which hosts are down at any moment: as the engine had it then."""
    fabric = synthetic_fabric("synthetic:spines=1,leaves=2,hosts=2", 4)
    trace = synthetic_trace("synthetic:jobs=9,gap=30,mean=900,largest=16", seed)
    failures = [NodeLost(200.0 + 50 * row, fabric.nodes.names[row]) for row in range(4)]
    back = [NodeBack(900.0, fabric.nodes.names[row]) for row in range(4)]
    rules = Rules(incidents=(*failures, *back) if failing else ())
    contender = BUILT_IN[profile](seed)
    engine = Engine(fabric, trace, contender, rules)
    log = engine.record()
    seen = {}
    for state in engine.run():
        held = sum(int(trace.gpus[job]) for job in state.running)
        seen[len(log)] = (held, len(state.waiting), len(state.down), len(state.running))
    recording = ReplayRecording(fabric, trace, contender, rules, log)

    known = [m for m in recording.moments() if recording.events_up_to(cast("int", m["id"])) in seen]
    for place, moment in enumerate(known):
        number = cast("int", moment["id"])
        expected = seen[recording.events_up_to(number)]
        assert expected[:3] == (moment["used"], moment["waiting"], moment["shut"])
        if place % 3 == 0:
            board = _board(recording, number)
            tree, jobs = board["fabrics"][0], board["jobs"]
            assert expected == (_used(board), jobs["waiting"], tree["shut"][0], jobs["running"])
    assert known


def test_a_recording_of_several_days_tells_of_the_first() -> None:
    """What happened is kept however long it lasted, beyond the day that a page keeps of a live cluster."""
    fabric = synthetic_fabric("synthetic:spines=1,leaves=2,hosts=2", 4)
    trace = synthetic_trace("synthetic:jobs=500,gap=600,mean=900,largest=4", 1)
    engine = Engine(fabric, trace, BUILT_IN["default"](1), Rules())
    log = engine.record()
    for _ in engine.run():
        pass
    recording = ReplayRecording(fabric, trace, BUILT_IN["default"](1), Rules(), log)
    days = [(0.0, DAY - 1), (DAY, 2 * DAY)]
    told: Any = [recording.log.between(*day) for day in days]
    starts = [sum(e.kind == "started" and first <= e.time <= last for e in log) for first, last in days]

    assert log[-1].time > 2 * DAY
    assert all(starts)
    assert starts == [day["started"]["count"] for day in told]
    assert ["waits", "started", "ended"] == [
        e["kind"] for e in cast("Any", recording.log.life("replay/job-0"))["entries"]
    ]


def test_questions_are_about_the_moment_shown(folder: Path) -> None:
    """What a change would have done at a past moment, and the least that would have started a job then."""
    history = JournalRecording(folder)
    waiting = next(moment for moment in JournalRecording(folder).moments() if moment["waiting"])
    port = free_port()

    def ask(path: str) -> Any:
        with urllib.request.urlopen(f"http://{HOST}:{port}/api/{path}", timeout=60) as answer:
            return json.load(answer)

    with listening(pages(history, recordings={"": history}), HOST, port):
        then = ask(f"what-if?at={waiting['id']}&if=add-domains%3D1%3Dr0")
        end = ask("what-if?if=add-domains%3D1%3Dr0")
        least = ask(f"least/default/job-2?at={waiting['id']}")

    assert "starts" in [job["effect"] for job in then["jobs"]]
    assert [] == end["jobs"]
    assert least["ways"]
