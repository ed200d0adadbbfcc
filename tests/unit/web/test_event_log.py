"""What happened to which job: minutes, lives, and what is kept of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from tests.support.draw import draw, gang, objects_of
from tests.support.evict_world import profile_of

from tierwise.port import Create
from tierwise.runtime.journal import JournalWriter
from tierwise.runtime.loop import Loop
from tierwise.runtime.profile_run import LoopPass, Observer, SchedulerProfile
from tierwise.scheduler.guard import Crash
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import SCHEDULER_NAMES
from tierwise.web.event_log import EventLog, JobEvent
from tierwise.web.history import BoardHistory
from tierwise.web.journal import JournalRecording
from tierwise.web.live import LiveRuns
from tierwise.web.views import RunView


def _log(*entries: JobEvent, most_bytes: int = 1 << 20) -> EventLog:
    log = EventLog(most_bytes=most_bytes)
    log.add(entries)
    return log


def _started(now: float, job: str = "a/one", moment: int = 1) -> JobEvent:
    return JobEvent(now, moment, "started", job, 2)


def test_a_minute_has_everything_that_happened_in_it() -> None:
    """All entries from the first to the last second, evictions before the rest, whatever block they are packed in."""
    lost = JobEvent(61.0, 9, "evicted", "a/low", 4, "a/urgent", "preempt", "makes room")
    log = _log(*(_started(second / 10, f"a/{second}") for second in range(2000)), lost)
    found: Any = log.between(60, 119)

    assert ["evicted", "started", "shrunk", "waits", "ended"] == list(found)
    assert (591, 1182) == (found["started"]["count"], found["started"]["pods"])
    assert 200 == len(found["started"]["entries"])
    assert [("a/low", "a/urgent", 4)] == [(e["name"], e["by"]["name"], e["pods"]) for e in found["evicted"]["entries"]]


def test_two_moments_of_one_second_are_told_apart() -> None:
    """By their numbers: what is new in the second is not told of the first."""
    log = _log(_started(5.0, "a/one", 1), _started(5.0, "a/two", 2), _started(5.0, "a/three", 4))
    found: Any = [log.during(0, 1), log.during(1, 2), log.during(2, 4)]

    assert [["a/one"], ["a/two"], ["a/three"]] == [[e["name"] for e in one["started"]["entries"]] for one in found]


def test_what_is_a_day_old_goes_and_what_is_too_much() -> None:
    """Blocks go as a whole, the oldest first."""
    log = _log(*(_started(now * 100.0) for now in range(2048)))
    small = _log(*(_started(float(now), f"a/{now}") for now in range(4096)), most_bytes=6000)
    old: Any = log.between(0, 60000)
    kept: Any = small.between(0, 4096)

    assert 0 == old["started"]["count"]
    assert 0 < kept["started"]["count"] < 4096
    assert ["a/4095"] == [name for _, name, _, _ in _told(small.life("a/4095"))]


def _loop(cluster: EmbeddedCluster, observer: Observer) -> Loop:
    clock = itertools.count(1)
    profiles = [SchedulerProfile(SCHEDULER_NAMES, profile_of("gangpreempt"))]
    return Loop(cluster, profiles, clock=lambda: float(next(clock)), ticks=lambda: 0.0, observers=[observer])


def _urgent() -> list[Create]:
    manifests: Any = gang("urgent", tasks=2, each="gpu=4").manifests()
    for raw in manifests:
        if raw["kind"] == "Pod":
            raw["spec"]["priority"] = 100
    return [Create(raw) for raw in manifests]


def _preempted(observer: Observer, seen: Callable[[], None] = lambda: None) -> None:
    """A cluster full of one gang, which a more important one displaces."""
    cluster = EmbeddedCluster(objects_of(draw("r0[n0 n1]", node="gpu=4"), gang("low", tasks=2, each="gpu=4")))
    loop = _loop(cluster, observer)
    for effects in ((), (), _urgent(), (), (), (), ()):
        cluster.apply(effects)
        loop.run_once()
        cluster.advance_pods()
        seen()


def _told(life: Any) -> list[tuple[str, str, str, int]]:
    return [(e["kind"], e["name"], e.get("by", {"name": ""})["name"], e.get("pods", 0)) for e in life["entries"]]


def test_a_victim_names_its_preemptor_and_the_other_way_round() -> None:
    """Whoever looks at either later reads of the eviction: whose place it was, and whose it became."""
    history, runs = BoardHistory(), LiveRuns("here")

    def seen() -> None:
        show = runs.show()
        assert isinstance(show, RunView)
        history.saw(show)

    _preempted(runs, seen)
    lost = ("evicted", "low", "urgent", 2)

    assert [("started", "low", "", 2), lost] == [
        e for e in _told(history.log.life("default/low")) if e[0] in ("evicted", "started", "ended")
    ]
    assert [lost, ("started", "urgent", "", 2)] == [
        e for e in _told(history.log.life("default/urgent")) if e[0] in ("evicted", "started")
    ]


def test_what_nobody_looked_at_is_logged_all_the_same() -> None:
    """A history that sees the scheduler once, in the end, has every decision with its own time."""
    history, runs = BoardHistory(), LiveRuns("here")
    _preempted(runs)
    show = runs.show()
    assert isinstance(show, RunView)
    history.saw(show)
    found: Any = history.log.during(0, 1)

    assert [("low", "urgent")] == [(e["name"], e["by"]["name"]) for e in found["evicted"]["entries"]]
    assert ["low", "urgent"] == [e["name"] for e in found["started"]["entries"]]
    assert found["started"]["entries"][0]["now"] < found["evicted"]["entries"][0]["now"]


def test_a_journal_tells_both_sides_of_an_eviction(tmp_path: Path) -> None:
    """In one pass over it, of the minute and of either job; a victim whose pods are gone has not ended."""
    profile = profile_of("gangpreempt")
    writer = JournalWriter(tmp_path, 1 << 20, (SchedulerProfile(SCHEDULER_NAMES, profile),))

    class Written:
        def saw(self, iteration: LoopPass) -> None:
            writer.saw(replace(iteration, profile=profile))

        def crashed(self, crash: Crash) -> None:
            raise AssertionError(crash)

    _preempted(Written())
    writer.close()
    log = JournalRecording(tmp_path).log
    minute: Any = log.between(0, 59)
    lost = ("evicted", "default/low", "default/urgent", 2)

    assert [lost] == [e for e in _told(log.life("default/low")) if e[0] in ("evicted", "ended")]
    assert [lost, ("started", "default/urgent", "", 2)] == [
        e for e in _told(log.life("default/urgent")) if e[0] in ("evicted", "started")
    ]
    assert 2 == minute["evicted"]["pods"]
