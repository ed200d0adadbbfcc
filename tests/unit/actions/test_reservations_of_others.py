"""Whom a reservation holds back, for how long, and on whose word: other tenants have to live with it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.draw import World, draw
from tests.support.drawn_gang import manifest
from tests.support.reservations import HOUR, NOW, in_namespace, job, profile, running, stopped

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.config.profile import PluginChoice, Profile
from tierwise.framework.report import CycleReport
from tierwise.port import Objects
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build

ROW = draw("r0[n0 n1 n2 n3]", node="gpu=8")
BESIDE = draw("r0[n0 n1 n2 n3] r1[n4 n5]", node="gpu=8")
BUSY = running("a", "n0", ends_in=HOUR)
ALL = job("big", 4, turn=1)
"""It fits the empty cluster alone."""


def _queue(name: str, gpus: int = 0) -> Raw:
    spec: Raw = {"capability": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    return manifest("scheduling.volcano.sh/v1beta1", "Queue", {"name": name}, spec=spec)


def _report(given: Profile, *parts: list[Raw], world: World = ROW) -> CycleReport:
    every = [*world.manifests, *(raw for part in parts for raw in part)]
    return cycle(build(Objects.of((codec.decode(raw), raw) for raw in every), NOW, given), given)


def _started(given: Profile, *parts: list[Raw], world: World = ROW) -> set[str]:
    return {d.job.key for d in _report(given, *parts, world=world).decisions if d.bound}


ENDING = stopped(running("a", "n0", ends_in=HOUR), 7200)
"""The same with a deadline, which counts for every namespace."""


@pytest.mark.parametrize("mode", ["easy", "conservative"])
@pytest.mark.parametrize("priority", [-1, 0, 1])
def test_without_a_known_moment_nobody_is_held_back(mode: str, priority: int) -> None:
    """A gang that waits for somebody whose end is unknown keeps nothing from anybody, whatever the priority."""
    found = _started(profile(mode), running("a", "n0"), ALL, job("x", 3, turn=2, priority=priority))

    assert {"default/x"} == found


@pytest.mark.parametrize(("priority", "expected"), [(-1, False), (0, False), (1, True)])
def test_a_more_important_job_is_not_held_back(priority: int, expected: bool) -> None:
    """A reservation holds against jobs of the same or a lower priority, also where its queue is served first."""
    parts = ([_queue("a"), _queue("b")], BUSY, job("big", 4, turn=1, queue="a"))
    found = _started(profile(), *parts, job("x", 3, turn=2, queue="b", priority=priority))

    assert expected == ("default/x" in found)


def test_a_moment_too_far_ahead_holds_nobody_back() -> None:
    """Somebody who states a year keeps nobody waiting for a year."""
    far = running("a", "n0", ends_in=30 * HOUR)

    assert {"default/x"} == _started(profile(), far, ALL, job("x", turn=2))
    assert set() == _started(profile(reservationWindow="31h"), far, ALL, job("x", turn=2))


@pytest.mark.parametrize(("late", "expected"), [(0.05, False), (0.2, True)])
def test_an_end_that_was_promised_and_did_not_come_is_none(late: float, expected: bool) -> None:
    """A job that is somewhat late is waited for; one that has broken its word is like one that gave none."""
    overdue = running("a", "n0", ends_in=-late * HOUR, ago=(1 + late) * HOUR)

    assert expected == bool(_started(profile(), overdue, ALL, job("x", turn=2)))


@pytest.mark.parametrize(
    ("aging", "limit", "priority", "held"),
    [("30m", "1h", 0, True), ("2h", "1h", 0, False), ("30m", "10m", 0, False), ("30m", "1h", 1, False)],
)
def test_who_has_waited_long_may_be_given_room_without_a_moment(
    aging: str, limit: str, priority: int, held: bool
) -> None:
    """Where the profile says so: after a time, for a time, and against no higher priority; the gang waits an hour."""
    given = profile(reservationAging=aging, reservationAgingLimit=limit)
    parts = (running("a", "n0"), job("big", 4, turn=1, queue="a"), job("x", turn=2, queue="b", priority=priority))

    assert held == ("default/x" not in _started(given, [_queue("a"), _queue("b")], *parts))


def test_jobs_without_a_moment_take_no_turn_from_others() -> None:
    """The next gang of the queue has the reservation that the first one has no moment for."""
    world = draw("s0[r0[n0 n1] r1[n2 n3]]", node="gpu=8")
    parts = (running("a", "n0"), running("b", "n2", ends_in=HOUR), ALL, job("next", 2, within=1, turn=2))
    found = _report(profile(), *parts, world=world)

    assert {"default/big": False, "default/next": True} == {one.job.key: one.holds for one in found.reservations}


@pytest.mark.parametrize(("queue", "lasts", "expected"), [("q", "30m", True), ("q", "", False), ("", "", True)])
def test_a_reservation_is_charged_to_its_queue(queue: str, lasts: str, expected: bool) -> None:
    """What a queue has reserved its other jobs cannot use elsewhere beyond its capability, unless they end before."""
    parts = ([_queue("q", 40)], running("a", "n0", ends_in=HOUR, queue="q"), job("big", 4, turn=1, queue="q", within=1))
    found = _started(profile(), *parts, job("x", turn=2, lasts=lasts, queue=queue), world=BESIDE)

    assert expected == ("default/x" in found)


LATER = ["preempt", "gangpreempt", "reclaim", "gangreclaim", "podpreempt", "jobpreempt", "backfill"]


@pytest.mark.parametrize(("lasts", "expected"), [("30m", True), ("", False)])
@pytest.mark.parametrize("action", LATER)
def test_a_reservation_is_charged_to_its_queue_in_later_actions(action: str, lasts: str, expected: bool) -> None:
    """Whom allocate refuses as its queue has reserved the rest, no action after it starts."""
    parts = ([_queue("q", 40)], running("a", "n0", ends_in=HOUR, queue="q"), job("big", 4, turn=1, queue="q", within=1))
    chosen = replace(profile(), actions=("enqueue", "allocate", action))
    found = _started(chosen, *parts, job("x", turn=2, lasts=lasts, queue="q"), world=BESIDE)

    assert expected == ("default/x" in found)


@pytest.mark.parametrize("action", LATER)
def test_what_is_reserved_is_left_alone_by_later_actions(action: str) -> None:
    """Whom allocate holds back for a gang that waits, no action after it starts on what is free until then."""
    chosen = replace(profile(), actions=("enqueue", "allocate", action))

    assert set() == _started(chosen, BUSY, ALL, job("x", turn=2))


def _patient(raws: list[Raw]) -> list[Raw]:
    """The same with pods that must not cause evictions."""
    for raw in raws:
        body: Any = raw
        if raw["kind"] == "Pod":
            body["spec"]["preemptionPolicy"] = "Never"
    return raws


@pytest.mark.parametrize(("lasts", "expected"), [("30m", {"default/a-0"}), ("", set())])
@pytest.mark.parametrize("action", ["podpreempt", "jobpreempt"])
def test_what_is_reserved_is_left_alone_by_preemption_at_once(action: str, lasts: str, expected: set[str]) -> None:
    """Nobody goes for a gang that would take what is free until a reservation begins, unless it ends before that."""
    chosen = replace(profile(), actions=("enqueue", "allocate", action), immediate_preemption=True)
    busy, waits = running("a", "n0", ends_in=HOUR, priority=-1), _patient(job("big", 4, turn=1))
    found = _report(chosen, busy, waits, job("x", 4, turn=2, lasts=lasts))

    assert ["default/big"] == [one.job.key for one in found.reservations]
    assert expected == {eviction.task.key for eviction in found.evictions}


def _nominated(raws: list[Raw], node: str) -> list[Raw]:
    """The same with pods that a node is kept for."""
    for raw in raws:
        if raw["kind"] == "Pod":
            raw["status"] = {"phase": "Pending", "nominatedNodeName": node}
    return raws


@pytest.mark.parametrize("action", ["podpreempt", "jobpreempt"])
def test_what_preemption_at_once_makes_room_for_reserves_nothing(action: str) -> None:
    """Whose place is kept by a nomination needs no reservation, also where less important jobs were nominated."""
    chosen = replace(profile(), actions=("enqueue", "allocate", action), immediate_preemption=True)
    busy = [raw for number in range(3) for raw in running(f"a{number}", f"n{number}", ends_in=HOUR, priority=-2)]
    found = _report(chosen, busy, _nominated(job("low", priority=-1), "n3"), job("x", 3, turn=2))

    assert 3 == len(found.evictions)
    assert [] == [one.job.key for one in found.reservations if one.job.key == "default/x"]


@pytest.mark.parametrize(
    ("namespace", "deadline", "trusted", "expected"),
    [
        ("default", 0, False, True),
        ("other", 0, False, False),
        ("other", 1200, False, True),
        ("other", 7200, False, False),
        ("other", 0, True, True),
    ],
)
def test_the_word_of_a_job_counts_in_its_own_namespace(
    namespace: str, deadline: int, trusted: bool, expected: bool
) -> None:
    """Others rely on a deadline, so that nobody gets ahead by a short duration that is not kept."""
    short = stopped(in_namespace(namespace, job("x", turn=2, lasts="20m")), deadline)
    found = _report(profile(trustStatedDurations=trusted), ENDING, ALL, short)

    assert expected == any(d.bound for d in found.decisions)


def test_who_is_not_believed_hears_why() -> None:
    """The reason says what would help."""
    found = _report(profile(), ENDING, ALL, in_namespace("other", job("x", turn=2, lasts="20m")))

    text = found.rejections["other/x"].reason.text
    assert text.endswith("it states 20m, and no deadline ensures that")


def _ended(number: int, seconds: int) -> list[Raw]:
    """A job of the other namespace that has run for so long, having stated twenty minutes."""
    raws = in_namespace("other", job(f"x-{number}", lasts="20m", on="n1"))
    for raw in raws:
        if raw["kind"] == "Pod":
            end: Raw = {"finishedAt": format_time(NOW - 60)}
            state: Raw = {"name": "main", "state": {"terminated": end}}
            start = format_time(NOW - 60 - seconds)
            raw["status"] = {"phase": "Succeeded", "startTime": start, "containerStatuses": [state]}
    return raws


@pytest.mark.parametrize(
    ("lasted", "liar", "expected"), [(1200, False, True), (4800, False, False), (1200, True, False)]
)
def test_a_record_of_kept_words_counts_elsewhere_too(lasted: int, liar: bool, expected: bool) -> None:
    """Five runs that ended when they said speak for the next one, unless another job is breaking its word now."""
    history = [raw for i in range(5) for raw in _ended(i, lasted)]
    late = in_namespace("other", running("late", "n4 n5", ends_in=-HOUR, ago=2 * HOUR))
    beside = late if liar else running("beside", "n4 n5")
    big = job("big", 4, turn=1, within=1)
    found = _started(
        profile(), ENDING, big, history, beside, in_namespace("other", job("x-9", turn=2, lasts="20m")), world=BESIDE
    )

    assert expected == ("other/x-9" in found)


@pytest.mark.parametrize(("deserved", "expected"), [(16, []), (8, ["default/b-0"])])
def test_what_is_reserved_is_nothing_that_a_queue_could_lose(deserved: int, expected: list[str]) -> None:
    """A queue that runs no more than it deserves loses no pod for what is reserved for its waiting gang."""
    rich, poor = _queue("rich"), _queue("poor")
    rich["spec"], poor["spec"] = ({"deserved": {"nvidia.com/gpu": str(n)}} for n in (deserved, 8))
    tiers = profile().tiers
    given = replace(
        profile(), actions=("enqueue", "allocate", "gangreclaim"), tiers=(*tiers, (PluginChoice("capacity"),))
    )
    world = draw("r0[n0 n1] r1[n4] r2[n5] r3[n6]", node="gpu=8")
    runs = (running("a", "n0", ends_in=HOUR, queue="rich"), running("b", "n4", queue="rich"))
    big = job("big", 2, turn=1, queue="rich", within=1)
    pinned: Raw = {"nodeSelector": {"kubernetes.io/hostname": "n4"}}
    report = _report(given, [rich, poor], *runs, big, job("x", 1, turn=2, queue="poor", spec=pinned), world=world)

    assert expected == [eviction.task.key for eviction in report.evictions]


@pytest.mark.parametrize(
    ("whose", "deadline", "trusted", "namespace", "held"),
    [
        ("default", 0, False, "default", True),
        ("default", 0, False, "other", False),
        ("default", 7200, False, "other", True),
        ("default", 0, True, "other", True),
        ("other", 0, False, "default", False),
        ("other", 0, False, "other", False),
        ("other", 7200, False, "other", True),
    ],
)
def test_a_moment_holds_back_nobody_on_the_word_of_another_namespace(
    whose: str, deadline: int, trusted: bool, namespace: str, held: bool
) -> None:
    """A pod that states how long it runs keeps a cluster idle for its own namespace, and not for others."""
    busy = stopped(in_namespace(whose, running("a", "n0", ends_in=HOUR)), deadline)
    found = _report(profile(trustStatedDurations=trusted), busy, ALL, in_namespace(namespace, job("x", turn=2)))

    assert held == (not any(d.bound for d in found.decisions))


def test_a_moment_is_looked_for_where_it_counts() -> None:
    """A stranger says that it leaves a rack as early as a job with a deadline leaves another: that one is reserved."""
    world = draw("s0[r0[n0 n1] r1[n2 n3]]", node="gpu=8")
    early = in_namespace("other", running("a", "n0", ends_in=HOUR / 2))
    runs = early, stopped(running("b", "n2", ends_in=HOUR), 7200)
    found = _report(profile(), *runs, job("big", 2, within=1, turn=2), world=world)

    assert [("r1", NOW + HOUR, False)] == [(one.domain, one.start, one.bare) for one in found.reservations]


def test_who_rests_on_a_bare_word_takes_no_turn_of_another_namespace() -> None:
    """The first gang of the queue in another namespace has its reservation, for a moment that a deadline holds."""
    world = draw("s0[r0[n0 n1] r1[n2 n3]]", node="gpu=8")
    first = in_namespace("other", [*running("a", "n0", ends_in=HOUR), *job("first", 4, turn=1)])
    busy = stopped(running("b", "n2", ends_in=HOUR), 7200)
    found = _report(profile(), first, busy, job("next", 2, within=1, turn=2), job("x", 3, turn=3), world=world)

    assert {"other/first": True, "default/next": False} == {one.job.key: one.bare for one in found.reservations}


@pytest.mark.parametrize(("deadline", "expected"), [(0, True), (5400, False)])
def test_a_moment_after_a_bare_word_rests_on_it_too(deadline: int, expected: bool) -> None:
    """A job that is to start when one that waits has ended, by what that one states, binds its own namespace alone."""
    big = stopped(job("big", 4, turn=1, lasts="1h"), deadline)
    found = _report(profile("conservative"), ENDING, big, job("next", 4, turn=2))

    assert {"default/big": False, "default/next": expected} == {one.job.key: one.bare for one in found.reservations}


def test_nobody_plans_to_start_after_a_stranger_that_gives_no_bound() -> None:
    """After a reservation of another namespace nothing is reserved, unless a deadline says when that job has ended."""
    later = in_namespace("other", job("next", 4, turn=2))
    for deadline, expected in ((0, ["default/big"]), (5400, ["default/big", "other/next"])):
        found = _report(profile("conservative"), ENDING, stopped(job("big", 4, turn=1, lasts="1h"), deadline), later)

        assert expected == [one.job.key for one in found.reservations]
