"""Notice before eviction: victims are told, go together when their time is over, and stay where they are not needed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.plugins.test_eviction_cost import MINUTE, NOW, TWO, costed, running, urgent

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import Pod, format_time
from tierwise.config.profile import DEFAULT, Profile
from tierwise.explain.wire import notices_wire
from tierwise.framework.report import CycleReport
from tierwise.port import Effect, Evict, Nominate, Objects, PatchStatus, RecordEvent
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import effects
from tierwise.sim.cluster.simulation import Simulation
from tierwise.snapshot.builder import build

NOTICE = {"tierwise.io/eviction-notice": "2m"}


def low(since: float | None = None, *, marks: dict[str, str] = NOTICE, **settings: Any) -> list[Raw]:
    """A gang on both nodes that wants notice, and has it since so many seconds."""
    raws = running("low", settings.pop("on", "n0 n1"), ago=10 * MINUTE, marks=marks, **settings)
    for raw in raws:
        if raw["kind"] == "Pod" and since is not None:
            told = format_time(NOW - since)
            status: Any = raw["status"]
            status["conditions"] = [{"type": "EvictionNotice", "status": "True", "lastTransitionTime": told}]
    return raws


def _objects(*raws: list[Raw]) -> Objects:
    every = [*TWO.manifests, *(raw for found in raws for raw in found)]
    return Objects.of((codec.decode(raw), raw) for raw in every)


def decide(*raws: list[Raw], profile: Profile | None = None) -> tuple[CycleReport, list[Effect]]:
    """One cycle and its effects."""
    profile = profile or costed()
    snapshot = build(_objects(*raws), NOW, profile)
    report = cycle(snapshot, profile)
    return report, effects(snapshot, report)


def _conditions(asked: list[Effect]) -> list[tuple[str, str, str]]:
    found: list[Any] = [(e.key.name, e.status["conditions"]) for e in asked if isinstance(e, PatchStatus)]
    return [(name, condition["status"], condition["reason"]) for name, (condition,) in found]


def test_victims_are_told_first() -> None:
    """Each gets a condition and an event, nothing is evicted or kept, and the job waits until their time is over."""
    report, asked = decide(low(), urgent(tasks=2))

    assert [("low-0", "True", "ToBeEvicted"), ("low-1", "True", "ToBeEvicted")] == _conditions(asked)
    assert 2 == sum(isinstance(effect, RecordEvent) for effect in asked)
    assert not [effect for effect in asked if isinstance(effect, Evict | Nominate)]
    reason = report.rejections["default/urgent"].reason
    assert "AwaitsNotice" == reason.code
    assert f"2 pods have notice until {format_time(NOW + 120)}" in reason.text
    assert NOW + 120 == report.retry_after(NOW)


def test_they_are_told_once() -> None:
    """A minute later nothing is written, and a minute is left."""
    report, asked = decide(low(60), urgent(tasks=2))

    assert [] == asked
    assert NOW + 60 == report.retry_after(NOW)


def test_they_go_when_their_time_is_over() -> None:
    """Evicted and nominated in one cycle, as without notice."""
    _, asked = decide(low(120), urgent(tasks=2))

    assert [("Evict", 2), ("Nominate", 2)] == [
        (kind.__name__, sum(isinstance(effect, kind) for effect in asked)) for kind in (Evict, Nominate)
    ]


def test_a_notice_of_the_future_is_given_anew() -> None:
    """A clock that was an hour ahead and has been set back keeps nobody waiting for longer than the notice."""
    report, asked = decide(low(-3600), urgent(tasks=2))

    assert [("low-0", "True", "ToBeEvicted"), ("low-1", "True", "ToBeEvicted")] == _conditions(asked)
    assert NOW + 120 == report.retry_after(NOW)


def test_notice_is_withdrawn() -> None:
    """Who is not needed any more hears of it."""
    _, asked = decide(low(60))

    assert [("low-0", "False", "Withdrawn"), ("low-1", "False", "Withdrawn")] == _conditions(asked)


def test_victims_of_one_plan_go_together() -> None:
    """A gang that wants no notice stays as long as the one beside it that has time."""
    one, other = low(on="n0"), running("other", "n1", ago=10 * MINUTE)
    report, asked = decide(one, other, urgent(tasks=2))

    assert [("low-0", "True", "ToBeEvicted")] == _conditions(asked)
    assert () == report.evictions


@pytest.mark.parametrize(
    ("profile", "marks"),
    [(costed(maxNotice="0s"), NOTICE), (costed(), {}), (replace(costed(), tiers=DEFAULT.tiers), NOTICE)],
    ids=["no notice allowed", "none asked for", "no plugin"],
)
def test_others_go_at_once(profile: Profile, marks: dict[str, str]) -> None:
    """The profile says how much notice there is at most."""
    report, _ = decide(low(marks=marks), urgent(tasks=2), profile=profile)

    assert 2 == len(report.evictions)


def test_a_life_with_notice() -> None:
    """On the clock: told at once, evicted after two minutes, and other conditions of the pod are kept."""
    raws = low()
    for raw in raws:
        if raw["kind"] == "Pod":
            status: Any = raw["status"]
            status["conditions"] = [{"type": "Ready", "status": "True"}]
    life = Simulation(_objects(raws, urgent(tasks=2)), costed(), start=NOW)
    evicted = []
    for moment in life.run(600):
        pods = moment.objects.every(Pod)
        if moment.at == 0:
            assert {"Ready", "EvictionNotice"} <= {c.type for c in pods["default/low-0"].status.conditions}
        evicted += [moment.at for entry in moment.entries if entry.reason == "Evicted"]

    assert [120.0] == sorted(set(evicted))


# -- notice that was given is kept


def _pair(now: float, told: dict[str, float | None], **settings: Any) -> list[Raw]:
    """Two gangs that save their work every two minutes, one a minute after the other; who has notice since when."""
    raws: list[Raw] = []
    for i, name in enumerate(("one", "two")):
        saved = format_time(now - (now - NOW - i * MINUTE) % (2 * MINUTE))
        marks = {**NOTICE, "tierwise.io/checkpointed-at": saved}
        for raw in running(name, f"n{i}", ago=2 * 60 * MINUTE, marks=marks, **settings):
            since = told.get(name)
            if raw["kind"] == "Pod" and since is not None:
                condition = {"type": "EvictionNotice", "status": "True", "lastTransitionTime": format_time(since)}
                raw["status"] = {**raw["status"], "conditions": [condition]}  # type: ignore[dict-item]
            raws.append(raw)
    return raws


@pytest.mark.parametrize(
    ("action", "minimum"),
    [("gangpreempt", 1), ("gangpreempt", 0), ("preempt", 0), ("jobpreempt", 0), ("podpreempt", 0)],
)
def test_jobs_that_save_in_turn_do_not_keep_an_urgent_one_out(action: str, minimum: int) -> None:
    """Who was told first goes when his time is over, though the other one would lose less by then."""
    told: dict[str, float | None] = {"one": None, "two": None}
    profile = costed(action)
    gone: dict[float, list[str]] = {}
    for minute in range(8):
        now = NOW + minute * MINUTE
        snapshot = build(_objects(_pair(now, told, minimum=minimum), urgent()), now, profile)
        report = cycle(snapshot, profile)
        if report.evictions:
            gone[float(minute)] = [eviction.job.key for eviction in report.evictions]
            break
        noticed = {notice.job.key.removeprefix("default/") for notice in report.notices}
        told = {name: (told[name] or now) if name in noticed else None for name in told}

    assert [2.0] == [*gone]


@pytest.mark.parametrize("action", ["gangpreempt", "preempt", "jobpreempt", "podpreempt"])
def test_who_has_notice_goes_before_whoever_would_be_first_without(action: str) -> None:
    """A cycle that would choose the one keeps to the other one, who was told a minute ago."""
    chosen = []
    for told in ({}, {"two": NOW}):
        raws = _pair(NOW + MINUTE, dict(told), minimum=0)
        snapshot = build(_objects(raws, urgent()), NOW + MINUTE, costed(action))
        chosen += [notice.job.key for notice in cycle(snapshot, costed(action)).notices]

    assert ["default/one", "default/two"] == chosen


def test_a_notice_is_kept_beside_victims_who_want_none() -> None:
    """A plan of somebody with notice and somebody without stays the same while the time runs."""
    other = running("other", "n1", ago=10 * MINUTE)
    report, _ = decide(low(60, on="n0"), other, urgent(tasks=2))

    assert ["default/low-0"] == [notice.task.key for notice in report.notices]


def test_a_notice_is_given_up_where_it_does_not_help() -> None:
    """Where those who were told are not enough any more, others are told."""
    report, asked = decide(low(60, on="n0"), running("other", "n1", ago=10 * MINUTE, marks=NOTICE), urgent(tasks=2))

    assert {"default/low-0", "default/other-0"} == {notice.task.key for notice in report.notices}
    assert [("other-0", "True", "ToBeEvicted")] == _conditions(asked)


def test_a_plan_under_notice_is_not_declined_later() -> None:
    """What was weighed when notice was given is not weighed again while the work goes on."""
    profile = costed(horizon="1m")
    fresh = low(marks={**NOTICE, "tierwise.io/checkpointed-at": format_time(NOW - 600)})
    report, _ = decide(fresh, urgent(tasks=2), profile=profile)
    later, _ = decide(low(120), urgent(tasks=2), profile=profile)

    assert ((), 2) == (report.notices, len(later.evictions))


def test_notices_are_for_programs_too() -> None:
    """Who, of which group, for whom, until when and why."""
    report, _ = decide(low(), urgent(tasks=2))
    listed: Any = notices_wire(report)["notices"]

    assert {
        "pod": "default/low-0",
        "podGroup": "default/low",
        "by": "default/urgent",
        "until": format_time(NOW + 120),
        "reason": "to make room for default/urgent: it is more important",
    } == listed[0]
