"""Notice before eviction: victims are told, go together when their time is over, and stay where they are not needed."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.plugins.test_eviction_cost import MINUTE, NOW, TWO, costed, running, urgent

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.meta import format_time
from tierwise.config.profile import DEFAULT, Profile
from tierwise.framework.report import CycleReport
from tierwise.port import Effect, Evict, Nominate, Objects, PatchStatus, RecordEvent
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import effects
from tierwise.sim.simulation import Simulation
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
    assert NOW + 120 == report.retry_at


def test_they_are_told_once() -> None:
    """A minute later nothing is written, and a minute is left."""
    report, asked = decide(low(60), urgent(tasks=2))

    assert [] == asked
    assert NOW + 60 == report.retry_at


def test_they_go_when_their_time_is_over() -> None:
    """Evicted and nominated in one cycle, as without notice."""
    _, asked = decide(low(120), urgent(tasks=2))

    assert [("Evict", 2), ("Nominate", 2)] == [
        (kind.__name__, sum(isinstance(effect, kind) for effect in asked)) for kind in (Evict, Nominate)
    ]


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
