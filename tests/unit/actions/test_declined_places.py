"""What a gang declines while it waits for a closer place stays its own against later jobs of its priority."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.draw import draw
from tests.support.drawn_gang import manifest
from tests.support.reservations import HOUR, MINUTE, NOW, in_namespace, job, profile, running, stopped

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.api.ladder import LADDER
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.framework.report import CycleReport
from tierwise.port import Objects
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build

RACKS = draw("s0[r0[n0 n1] r1[n2 n3]]", node="gpu=8 cpu=32")
BUSY = [*running("short", "n0", ends_in=10 * MINUTE), *running("long", "n2", ends_in=9 * HOUR)]
"""Two hosts are free, one in each rack; one rack is free as a whole in ten minutes."""


def _train(**more: Any) -> list[Raw]:
    """A gang of two hosts that waits for one rack."""
    return job("train", 2, lasts="10h", soft=True, turn=1800, **more)


def _report(*parts: list[Raw], given: Profile = DEFAULT, now: float = NOW) -> CycleReport:
    every = [*RACKS.manifests, *BUSY, *(raw for part in parts for raw in part)]
    return cycle(build(Objects.of((codec.decode(raw), raw) for raw in every), now, given), given)


def _started(*parts: list[Raw], given: Profile = DEFAULT, now: float = NOW) -> set[str]:
    return {d.job.key.partition("/")[2] for d in _report(*parts, given=given, now=now).decisions if d.bound}


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize(("priority", "started"), [(-1, False), (0, False), (1, True)])
def test_later_jobs_leave_it_what_it_has_declined(tasks: int, priority: int, started: bool) -> None:
    """Neither a pod alone nor a gang of the same or a lower priority takes it; a more important one does."""
    found = _started(_train(priority=0), job("x", tasks, turn=1900, priority=priority))

    assert started == ("x" in found)
    assert "train" not in found


@pytest.mark.parametrize(
    ("namespace", "lasts", "deadline", "started"),
    [
        ("default", "", 0, False),
        ("default", "9m", 0, True),
        ("default", "11m", 0, False),
        ("other", "9m", 0, False),
        ("other", "", 540, True),
    ],
)
def test_who_has_ended_by_then_may_use_it(namespace: str, lasts: str, deadline: int, started: bool) -> None:
    """A job that ends before the gang is looked at again takes nothing from it, as far as its word counts for it."""
    short = stopped(in_namespace(namespace, job("x", turn=1900, lasts=lasts)), deadline)

    assert started == ("x" in _started(_train(), short))


def test_who_leaves_it_hears_why() -> None:
    """The reason names the gang and the time, and to other namespaces no gang."""
    found = _report(_train(), in_namespace("other", job("x", turn=1900)))
    reason = found.rejections["other/x"].reason
    until = format_time(NOW + 10 * MINUTE)

    assert "PlaceIsKept" == reason.code
    assert f"the place that it could have is kept for default/train, which waits for a closer one until {until}" == (
        reason.text
    )
    assert [("default", "a gang of another namespace")] == [(name.namespace, name.instead) for name in reason.names]


def test_other_room_is_for_others() -> None:
    """What the gang has not declined is free."""
    found = _started(_train(), job("x", 1, each="gpu=8", turn=1900), job("y", 1, each="cpu=1", turn=1901))

    assert {"y"} == found


def test_the_place_is_there_when_the_closer_one_does_not_come() -> None:
    """The rack is not free in time: the gang takes what it had declined, before those who came later."""
    late = NOW + HOUR

    assert {"train"} == _started(_train(), job("x", turn=1900), given=DEFAULT, now=late)


def test_what_is_declined_is_charged_to_its_queue() -> None:
    """Its queue cannot use the same share of its capability twice."""
    queue = manifest("scheduling.volcano.sh/v1beta1", "Queue", {"name": "q"}, spec={"capability": {"cpu": "24"}})
    given = replace(DEFAULT, tiers=(*DEFAULT.tiers, (PluginChoice("capacity"),)))
    asked = _train(queue="q", each="gpu=8 cpu=10")
    small = job("x", 1, each="cpu=5", queue="q", turn=1900)

    assert set() == _started([queue], asked, small, given=given)
    assert {"x"} == _started([queue], small, given=given)


@pytest.mark.parametrize("action", ["gangpreempt", "preempt", "backfill"])
def test_later_actions_leave_it_alone(action: str) -> None:
    """Whom allocate refuses for it no action after it starts there, and nobody is evicted."""
    given = replace(DEFAULT, actions=("enqueue", "allocate", action))
    found = _report(_train(), job("x", turn=1900), given=given)

    assert () == found.decisions
    assert () == found.evictions


def test_it_stays_open_for_its_own_reservation() -> None:
    """With reservations the gang has one for the closer place, and keeps what it has declined until then."""
    found = _report(_train(), job("x", turn=1900), given=profile())

    assert ["r0"] == [one.domain for one in found.reservations]
    assert () == found.decisions


def test_what_a_ladder_declines_is_for_others() -> None:
    """A step may be as long as its writer likes, so nothing is kept by it."""
    laddered = job("train", 2, soft=True, turn=1800, marks={LADDER: "1=10h"})

    assert {"x"} == _started(laddered, job("x", 2, turn=1900))
