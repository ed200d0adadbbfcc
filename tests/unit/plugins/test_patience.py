"""Patience: a wide place is declined where a closer one may be expected soon; nobody else waits for that."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.draw import World, draw, role
from tests.support.reservations import HOUR, MINUTE, NOW, in_namespace, job, running, stopped

from tierwise.api import codec
from tierwise.api.codec import Raw, part
from tierwise.api.core import format_time
from tierwise.api.ladder import LADDER
from tierwise.api.merge_patch import merged
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.framework.report import CycleReport
from tierwise.model.finished_run import FinishedRun
from tierwise.port import Objects
from tierwise.scheduler import cycle
from tierwise.sim.cluster.simulation import Simulation
from tierwise.snapshot.builder import build

RACKS = draw("s0[r0[n0 n1] r1[n2 n3] r2[n4 n5]]", node="gpu=8")
BUSY = [
    *running("short", "n0", ends_in=10 * MINUTE),
    *running("long", "n2", ends_in=9 * HOUR),
    *running("longer", "n4", ends_in=9 * HOUR),
]
"""A host of each rack is in use, of one of them for ten minutes: two hosts are in two racks now, and soon in one."""


def patient(**arguments: object) -> Profile:
    """The default profile with a tenth of the run as patience for each leaf."""
    first, second = DEFAULT.tiers
    others = tuple(choice for choice in second if choice.name != "patience")
    return replace(DEFAULT, tiers=(first, (*others, PluginChoice("patience", {"share": 0.1, **arguments}))))


def train(tasks: int = 2, *, lasts: str = "10h", **more: Any) -> list[Raw]:
    """A gang of whole hosts that asks to stand close together, and has waited for half an hour."""
    return job("train", tasks, lasts=lasts, **{"soft": True, "turn": 1800, **more})


def report(
    given: Profile,
    *parts: list[Raw],
    world: World = RACKS,
    now: float = NOW,
    history: tuple[FinishedRun, ...] = (),
) -> CycleReport:
    """One cycle."""
    every = [*world.manifests, *(raw for part in parts for raw in part)]
    snapshot = build(Objects.of((codec.decode(raw), raw) for raw in every), now, given)
    return cycle(replace(snapshot, history=history), given)


def started(found: CycleReport) -> set[str]:
    """Who was bound."""
    return {decision.job.key.partition("/")[2] for decision in found.decisions if decision.bound}


def test_a_wide_place_is_declined() -> None:
    """Two racks where one will do in ten minutes; the gang is told what it waits for and until when."""
    found = report(patient(), BUSY, train())
    reason = found.rejections["default/train"].reason
    end = NOW + 30 * MINUTE

    assert set() == started(found)
    assert "WaitsForCloserPlace" == reason.code
    text = "waits for a place in one hyperNode of tier 1 instead of 2, which is expected to be free by"
    assert f"{text} {format_time(NOW + 600)}; it waits until {format_time(end)} at most" == reason.text
    assert NOW + 600 == found.retry_after(NOW)


@pytest.mark.parametrize(
    ("profile", "asked"),
    [
        (patient(), train(lasts="1h30m")),
        (patient(), train(lasts="35m")),
        (patient(share=0), train()),
        (patient(time="35m"), train()),
        (patient(time="soon"), train()),
        (patient(stretch=2), train()),
        (patient(fromPods=3), train()),
        (patient(), train(soft=False)),
        (patient(), train(tasks=1)),
        (patient(), train(marks={LADDER: "any"})),
    ],
    ids=[
        "a leaf is worth less",
        "a short run",
        "no share",
        "the profile's cap",
        "no time",
        "wide enough",
        "too small to wait",
        "no topology",
        "close",
        "its own word",
    ],
)
def test_others_take_what_there_is(profile: Profile, asked: list[Raw]) -> None:
    """Where the closer place comes too late, or there is none, or nobody wants it: nobody waits."""
    found = report(profile, BUSY, asked)

    assert {"train"} == started(found)
    assert inf == found.retry_after(NOW)


def test_the_time_ends() -> None:
    """Half an hour later the gang takes what there is, though the short job has not ended."""
    late = [*running("short", "n0", ends_in=20 * MINUTE), *BUSY[len(running("short", "n0")) :]]

    assert set() == started(report(patient(), late, train(lasts="20h")))
    assert {"train"} == started(report(patient(), late, train(lasts="20h"), now=NOW + 30 * MINUTE))


def test_each_leaf_is_worth_as_much() -> None:
    """Three racks where one would do: for two of them it waits for a share of its run, for one of them for two."""
    world = draw("s0[r0[n0 n1 n2] r1[n3 n4 n5] r2[n6 n7 n8]]", node="gpu=8")
    rest = [*running("a", "n1 n2", ends_in=9 * HOUR), *running("c", "n7 n8", ends_in=9 * HOUR)]
    one = running("b", "n4", ends_in=9 * HOUR)
    soon, late = (running("x", "n5", ends_in=after * MINUTE) for after in (14, 16))
    both, later = (running("x", "n4 n5", ends_in=after * MINUTE) for after in (16, 31))
    asked = train(3, lasts="2h30m", turn=2700)

    assert set() == started(report(patient(), rest, one, soon, asked, world=world))
    assert {"train"} == started(report(patient(), rest, one, late, asked, world=world))
    assert set() == started(report(patient(), rest, both, asked, world=world))
    assert {"train"} == started(report(patient(), rest, later, asked, world=world))


def test_what_has_been_waited_for_room_does_not_count() -> None:
    """Who came 45 minutes ago waits for the ten minutes that are worth it, as who has just come; an hour in all."""
    for turn, expected in ((3590, set()), (900, set()), (300, {"train"})):
        assert expected == started(report(patient(), BUSY, train(lasts="2h", turn=turn)))


@pytest.mark.parametrize("marks", [{}, {LADDER: "1=10h"}], ids=["by ends", "its own ladder"])
def test_a_gang_of_which_some_stand_does_not_wait(marks: dict[str, str]) -> None:
    """What it lacks may be needed now, and where it stands is decided; as a whole it would wait."""
    assert set() == started(report(patient(), BUSY, train(2, marks=marks)))
    assert {"train"} == started(report(patient(), BUSY, train(3, on="n5", marks=marks)))


@pytest.mark.parametrize(
    ("namespace", "deadline", "trusted", "waits"),
    [("default", 0, False, True), ("other", 0, False, False), ("other", 4200, False, True), ("other", 0, True, True)],
)
def test_nobody_waits_on_the_word_of_another_namespace(
    namespace: str, deadline: int, trusted: bool, waits: bool
) -> None:
    """A stranger that states ten minutes makes no gang decline its place, unless a deadline or the profile backs it."""
    given = replace(patient(), action_arguments={"allocate": {"trustStatedDurations": trusted}})
    short = stopped(in_namespace(namespace, running("short", "n0", ends_in=10 * MINUTE)), deadline)
    rest = BUSY[len(short) :]

    assert waits == (set() == started(report(given, short, rest, train())))


@pytest.mark.parametrize(("ratio", "waits"), [(1.0, True), (9.0, False)])
def test_a_record_of_kept_words_brings_about_patience(ratio: float, waits: bool) -> None:
    """Runs of a stranger that ended as stated speak for the next one; if they took nine times as long, they do not."""
    stated = 4200.0
    history = tuple(FinishedRun(f"other/short-{i}", "", 1, ratio * stated, NOW - 60 * i, stated) for i in range(1, 7))
    short = in_namespace("other", running("short-9", "n0", ends_in=10 * MINUTE))

    assert waits == (set() == started(report(patient(), short, BUSY[len(short) :], train(), history=history)))


def down(world: World, *names: str) -> World:
    """The same cluster with some nodes that are not ready."""
    off: Raw = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    found = [merged(raw, off) if part(raw, "metadata")["name"] in names else raw for raw in world.manifests]
    return replace(world, manifests=tuple(found))


def test_nodes_that_are_not_ready_promise_nothing() -> None:
    """The rack that comes free is down: there is no closer place to wait for."""
    assert {"train"} == started(report(patient(), BUSY, train(), world=down(RACKS, "n0")))


def test_nodes_that_are_not_ready_are_no_excess() -> None:
    """With a node of each rack down no rack holds the gang: three racks are one and a half times the fewest."""
    world = draw("s0[r0[n0 n1 n2] r1[n3 n4 n5] r2[n6 n7 n8]]", node="gpu=8")
    rest = [*running("a", "n2", ends_in=9 * HOUR), *running("c", "n8", ends_in=9 * HOUR)]
    late = running("x", "n5", ends_in=16 * MINUTE)

    less = down(world, "n1", "n4", "n7")

    assert set() == started(report(patient(), rest, late, train(3), world=less))
    assert {"train"} == started(report(patient(stretch=1.5), rest, late, train(3), world=less))


def test_the_widest_shape_says_how_few_would_do() -> None:
    """Soon the loaders fit one rack; the workers, which are fewer, take two in any case, so the place is close."""
    world = draw("s0[r0[n0 n1] r1[n2 n3]]", node="gpu=8 cpu=4")
    busy = [
        *running("short", "n0", ends_in=10 * MINUTE, each="cpu=4"),
        *running("long", "n2", ends_in=9 * HOUR, each="cpu=4"),
    ]
    loaders, workers = role("loader", 4, each="cpu=2"), role("worker", 3, each="gpu=8")

    assert set() == started(report(patient(), busy, train(0, roles=(loaders,)), world=world))
    assert {"train"} == started(report(patient(), busy, train(0, roles=(loaders, workers)), world=world))


@pytest.mark.parametrize(("tasks", "expected"), [(3, set()), (1, {"small"})])
def test_who_comes_after_it_is_served_elsewhere(tasks: int, expected: set[str]) -> None:
    """Three hosts are free: two of them are kept for the one that waits, and the third is for others."""
    assert expected == started(report(patient(), BUSY, train(), job("small", tasks, turn=1900)))


def test_nobody_is_evicted_for_it() -> None:
    """It could have had a place."""
    evicting = replace(patient(), actions=("enqueue", "allocate", "gangpreempt"))
    found = report(evicting, BUSY, train(priority=10))

    assert set() == started(found)
    assert () == found.evictions


RUNS = tuple(FinishedRun(f"default/old-{i}", "default", 1, 3600.0 + 30 * i, NOW - i) for i in range(20))
"""Like jobs have run for an hour to an hour and ten minutes."""


def test_without_stated_ends_the_chance_is_weighed() -> None:
    """Who has run for an hour has most likely ended in ten minutes; who has just begun has not."""
    old = [raw for n in (0, 2, 4) for raw in running(f"old-{n}", f"n{n}", ago=HOUR)]
    new = [raw for n in (0, 2, 4) for raw in running(f"new-{n}", f"n{n}", ago=MINUTE)]
    fresh = job("train", 2, turn=3590, soft=True)

    assert set() == started(report(patient(share=0.05), old, fresh, history=RUNS))
    assert {"train"} == started(report(patient(share=0.05), new, fresh, history=RUNS))
    assert {"train"} == started(report(patient(share=0.05), old, fresh))


def test_the_time_ends_while_others_are_overdue() -> None:
    """Jobs beyond their deadline may end at any moment; from the moment that ends the time on nothing is expected."""
    stopped = {"activeDeadlineSeconds": 3600}
    late = [raw for n in (0, 2, 4) for raw in running(f"late-{n}", f"n{n}", ago=2 * HOUR, spec=stopped)]
    like = tuple([replace(run, seconds=HOUR) for run in RUNS])
    end = NOW - HOUR + 3000 + HOUR / 5

    def starts(now: float) -> bool:
        asked = job("train", 2, turn=3000, soft=True)
        return bool(started(report(patient(share=0.05), late, asked, history=like, now=now)))

    assert [False, True] == [starts(end - 1), starts(end)]


def test_a_life_goes_on_when_an_end_does_not_come() -> None:
    """Though nothing else happens then: the clock jumps there, and the gang does not wait until its time ends."""
    every = [*RACKS.manifests, *running("a", "n0", ends_in=2 * HOUR), *running("b", "n2", ends_in=8 * HOUR)]
    every += [*running("c", "n4", ends_in=8 * HOUR), *train(lasts="60h")]
    objects = Objects.of((codec.decode(raw), raw) for raw in every)
    life = Simulation(objects, patient(time="3h"), start=NOW)
    bound = [h.at for moment in life.run(86_400) for h in moment.entries if h.reason == "Placed"]

    assert [2 * HOUR] == bound


# Rings on uplinks.


ACROSS = running("across", "n0 n2", ends_in=9 * HOUR)
"""A gang over two racks: its ring is on the uplinks of both."""
REST = [*running("x", "n4", ends_in=9 * HOUR), *running("y", "n5", ends_in=9 * HOUR)]


def test_a_gang_waits_for_an_uplink_for_a_share_of_its_run() -> None:
    """It is told which uplinks are full, and until when it waits."""
    given = patient(share=0, rings=1)
    found = report(given, ACROSS, REST, train(lasts="10h"))
    reason = found.rejections["default/train"].reason
    end = NOW - 30 * MINUTE + 5 * HOUR

    assert set() == started(found)
    text = "waits as the uplinks of r0 and r1 would carry more rings than the 1 of the budget; it waits until"
    assert ("UplinkIsFull", f"{text} {format_time(end)} at most") == (reason.code, reason.text)
    assert {"train"} == started(report(given, ACROSS, REST, train(lasts="50m")))  # half of it is over
    assert {"train"} == started(report(given, ACROSS, REST, train(lasts="")))  # nobody knows how long it runs
    assert {"train"} == started(report(patient(share=0, rings=2), ACROSS, REST, train(lasts="10h")))


def test_gangs_of_one_cycle_share_the_budget() -> None:
    """Both need hosts of two racks. The first has started when the second is looked at."""
    world = draw("s0[r0[n0 n1 n2] r1[n3 n4 n5]]", node="gpu=8")
    first = train(tasks=4, lasts="10h")
    second = job("second", 4, lasts="10h", soft=True, turn=1900, each="gpu=2")
    busy = running("busy", "n2", each="gpu=4", ends_in=9 * HOUR), running("more", "n5", each="gpu=4", ends_in=9 * HOUR)

    both = [report(patient(share=0, rings=rings), first, second, *busy, world=world) for rings in (1, 2)]

    assert [{"train"}, {"train", "second"}] == [started(found) for found in both]
    assert "UplinkIsFull" == both[0].rejections["default/second"].reason.code
