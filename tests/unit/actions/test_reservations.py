"""Reservations: a gang that waits gets a place in the future, and jobs behind it leave it that."""

from __future__ import annotations

from math import inf

import pytest
from msgspec.structs import replace
from tests.support.draw import World, draw
from tests.support.reservations import BIG, BUSY, HOUR, MINUTE, NOW, TWO_RACKS, job, profile, running

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.api.errors import InputError
from tierwise.api.reservation import RESERVATION, ReservationRecord, spell_reservation
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.framework.report import CycleReport, Reservation
from tierwise.model.job import Verdict
from tierwise.port import Objects
from tierwise.scheduler import cycle
from tierwise.scheduler.cycle import check_profile
from tierwise.snapshot.builder import build
from tierwise.status.pod import more_nodes_help


def report(given: Profile, *parts: list[Raw], world: World = TWO_RACKS, now: float = NOW) -> CycleReport:
    """One cycle."""
    every = [*world.manifests, *(raw for part in parts for raw in part)]
    return cycle(build(Objects.of((codec.decode(raw), raw) for raw in every), now, given), given)


def started(found: CycleReport) -> set[str]:
    """Who was bound."""
    return {decision.job.key.partition("/")[2] for decision in found.decisions if decision.bound}


def reserved(found: CycleReport) -> dict[str, tuple[str, float]]:
    """Where and in how many seconds."""
    return {one.job.key.partition("/")[2]: (one.domain, one.start - NOW) for one in found.reservations}


def test_a_gang_is_given_the_first_rack_that_comes_free() -> None:
    """One node of each rack is taken: the rack whose job ends first is reserved from that moment on."""
    found = report(profile(), BUSY, BIG)
    (one,) = found.reservations

    assert {"big": ("r1", HOUR / 2)} == reserved(found)
    assert ("default/b",) == one.awaits
    assert one.text.startswith(f"reserved r1 from {format_time(NOW + HOUR / 2)}; default/b ends then (it states 1h30m)")
    assert [one.text] == [child.reason.text for child in found.rejections["default/big"].children]


def test_without_reservations_small_jobs_take_the_room() -> None:
    """That is how it is by default."""
    found = report(DEFAULT, BUSY, BIG, job("long", lasts="9h", turn=2), job("unknown", turn=3))

    assert {"long", "unknown"} == started(found)
    assert () == found.reservations


@pytest.mark.parametrize("mode", ["easy", "conservative"])
def test_who_ends_before_may_start(mode: str) -> None:
    """A job of twenty minutes may use the reserved rack, one that lasts until the moment itself, too."""
    soon = report(profile(mode), BUSY, BIG, job("x", lasts="20m", turn=2), job("y", lasts="30m", turn=3))

    assert {"x", "y"} == started(soon)
    assert {"big": ("r1", HOUR / 2)} == reserved(soon)


def test_who_lasts_longer_may_start_elsewhere_alone() -> None:
    """The other rack is free for it; the reserved one is not."""
    found = report(profile(), BUSY, BIG, job("x", lasts="9h", turn=2), job("y", lasts="9h", turn=3))

    assert {"x"} == started(found)
    assert ["n1"] == [found_at(found, "x")]
    assert "WouldDelayReservation" == found.rejections["default/y"].reason.code
    assert "it would still run then (it states 9h)" in found.rejections["default/y"].reason.text


def test_who_was_nominated_to_a_node_that_is_taken_may_not_delay_a_reservation() -> None:
    """A name of a node that it cannot have makes a job no different from others."""
    stale = [{**raw, "status": {"nominatedNodeName": "n0"}} for raw in job("y", lasts="9h", turn=3)]

    found = report(profile(), BUSY, BIG, job("x", lasts="9h", turn=2), stale)

    assert {"x"} == started(found)
    assert "WouldDelayReservation" == found.rejections["default/y"].reason.code


def found_at(found: CycleReport, name: str) -> str:
    """The node of a job of one pod."""
    (decision,) = (d for d in found.decisions if d.job.key == f"default/{name}")
    return ("n0", "n1", "n2", "n3")[int(decision.placed[0].rows[0])]


def test_an_unknown_duration_is_not_assumed_to_end() -> None:
    """A job that does not say how long it runs must leave the reserved rack alone."""
    found = report(profile(), BUSY, BIG, job("x", turn=2), job("y", turn=3))

    assert {"x"} == started(found)
    assert "n1" == found_at(found, "x")
    assert found.rejections["default/y"].reason.text.endswith("it is not known how long it runs")


def test_a_rack_with_room_to_spare_is_shared() -> None:
    """Where the reserved domain holds the gang and another job, the other one starts, whatever its duration."""
    world = draw("r0[n0 n1 n2]", node="gpu=8")
    found = report(profile(), running("a", "n0 n1", ends_in=HOUR), BIG, job("x", turn=2), world=world)

    assert {"x"} == started(found)
    assert {"big": ("r0", HOUR)} == reserved(found)


def test_parts_of_nodes_count() -> None:
    """A job beside another on one node is in the way where the gang needs all of it, and is not where it needs half."""
    world = draw("r0[n0 n1]", node="gpu=8")
    other = running("a", "n0 n1", ends_in=HOUR, each="gpu=6")
    whole = report(profile(), other, job("big", 2, turn=1), job("x", turn=2, each="gpu=1"), world=world)
    part = report(profile(), other, job("big", 2, turn=1, each="gpu=7"), job("x", turn=2, each="gpu=1"), world=world)

    assert set() == started(whole)
    assert {"x"} == started(part)


def test_what_ends_unknown_is_waited_for_without_a_time() -> None:
    """The gang has a domain without a moment, and it holds back no other job."""
    found = report(profile(), running("a", "n0"), running("b", "n2", ago=2 * HOUR), BIG, job("x", lasts="1m", turn=2))

    assert {"big": ("r1", inf)} == reserved(found)
    assert "it is not known how long it runs" in found.reservations[0].text
    assert found.reservations[0].text.endswith("its start is not known; it holds back no other job")
    assert {"x"} == started(found)


def test_an_overdue_job_is_waited_for() -> None:
    """It may end at any moment; the text does not change with the clock, so that it is written once."""
    late = running("a", "n0", ends_in=-MINUTE)
    big = job("big", 2, within=1, lasts="1h")
    found = [report(profile(), late, running("b", "n2"), big, now=NOW + s).reservations[0] for s in (0, 30)]
    (text,) = {one.text for one in found}

    assert "it begins as soon as default/a ends (it states 59m and is overdue since" in text
    assert [HOUR, HOUR + 30] == [one.end - NOW for one in found]


def test_a_job_that_is_held_back_is_no_matter_of_nodes() -> None:
    """An autoscaler must not buy nodes for it; for the gang that waits for room it may."""
    found = report(profile(), BUSY, BIG, job("x", turn=2), job("y", turn=3))
    held = found.rejections["default/y"]

    assert Verdict.NOT_NOW is held.verdict
    assert not more_nodes_help(held)
    assert more_nodes_help(found.rejections["default/big"])


@pytest.mark.parametrize(("most", "has"), [("16", {"big"}), ("8", set())])
def test_a_job_beyond_its_quota_has_none(most: str, has: set[str]) -> None:
    """No end of another job would let it start, so nobody need leave it nodes."""
    queue: Raw = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "small"},
        "spec": {"capability": {"nvidia.com/gpu": most}},
    }
    given = profile()
    given = replace(given, tiers=(*given.tiers, (PluginChoice("capacity"),)))
    found = report(given, BUSY, [queue], job("big", 2, within=1, queue="small"))

    assert "default/big" in found.rejections
    assert has == set(reserved(found))


def test_easy_reserves_for_the_first_and_conservative_for_all() -> None:
    """The second large gang has a reservation after the first in conservative mode alone."""
    second = job("next", 2, within=1, turn=2, lasts="1h")
    first = job("big", 2, within=1, turn=1, lasts="2h")

    assert {"big": ("r1", HOUR / 2)} == reserved(report(profile("easy"), BUSY, first, second))
    both = report(profile("conservative"), BUSY, first, second)
    assert {"big": ("r1", HOUR / 2), "next": ("r0", HOUR)} == reserved(both)
    bounded = report(profile("conservative", reservationDepth=1), BUSY, first, second)
    assert {"big"} == reserved(bounded).keys()


def test_conservative_stacks_reservations_in_one_domain() -> None:
    """With one rack the second gang follows the first, and a short job fills the gap before both."""
    world = draw("r0[n0 n1]", node="gpu=8")
    parts = (job("big", 2, turn=1, lasts="2h"), job("next", 2, turn=2, lasts="1h"), job("x", turn=3, lasts="10m"))
    found = report(profile("conservative"), running("a", "n0", ends_in=HOUR), *parts, world=world)

    assert {"big": ("r0", HOUR), "next": ("r0", 3 * HOUR)} == reserved(found)
    assert {"x"} == started(found)


def test_every_queue_has_its_first() -> None:
    """Two queues: the first waiting gang of each has a reservation, beside that of the other."""
    queues: list[Raw] = [
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": {}}
        for name in ("one", "two")
    ]
    mine = job("mine", 2, within=1, turn=1, lasts="2h", queue="one")
    theirs = job("theirs", 2, within=1, turn=2, lasts="2h", queue="two")
    found = report(profile(), queues, BUSY, mine, theirs, job("later", 2, within=1, turn=3, queue="two"))

    assert {"mine": ("r1", HOUR / 2), "theirs": ("r0", HOUR)} == reserved(found)


def test_a_reservation_stays_where_it_was() -> None:
    """Both racks come free at once: the one that was reserved before is reserved again, also after a restart."""
    at_once = [*running("a", "n0", ends_in=HOUR), *running("b", "n2", ends_in=HOUR)]
    for rack in ("r0", "r1"):
        kept = {RESERVATION: spell_reservation(ReservationRecord(rack, NOW + HOUR))}
        assert {"big": (rack, HOUR)} == reserved(report(profile(), at_once, job("big", 2, within=1, marks=kept)))


def test_a_reservation_moves_to_what_is_earlier() -> None:
    """A rack that comes free before the reserved one is taken instead; one that got later is said to have moved."""
    earlier = {RESERVATION: spell_reservation(ReservationRecord("r0", NOW + HOUR))}
    later = {RESERVATION: spell_reservation(ReservationRecord("r1", NOW + MINUTE))}
    moved = report(profile(), BUSY, job("big", 2, within=1, marks=later)).reservations[0]

    assert {"big": ("r1", HOUR / 2)} == reserved(report(profile(), BUSY, job("big", 2, within=1, marks=earlier)))
    assert moved.text.endswith(f"it was r1 from {format_time(NOW + MINUTE)} before")


def test_an_annotation_that_cannot_be_read_is_none() -> None:
    """It is tierwise's own, and made anew; a domain that is gone is none either."""
    for text in ("x", "[]", '{"domain": 3}', '{"domain": "r9", "from": "soon"}', '{"domain": "gone"}'):
        found = report(profile(), BUSY, job("big", 2, within=1, marks={RESERVATION: text}))
        assert {"big": ("r1", HOUR / 2)} == reserved(found)


def test_a_job_that_never_fits_has_none() -> None:
    """And does not keep the next one from having one."""
    found = report(profile(), BUSY, job("huge", 9, turn=0), BIG)

    assert {"big"} == reserved(found).keys()


def test_small_jobs_have_none() -> None:
    """By default a gang of two pods is the smallest that has one, and a profile may say otherwise."""
    full = [*running("a", "n0 n1", ends_in=HOUR), *running("b", "n2 n3", ends_in=HOUR)]

    assert {} == reserved(report(profile(), full, job("x", turn=1)))
    assert {"x"} == reserved(report(profile(reservationPods=1), full, job("x", turn=1))).keys()
    assert {} == reserved(report(profile(reservationPods=3), BUSY, BIG))


def test_a_gang_above_its_minimum_grows_beside_reservations() -> None:
    """The surplus of an elastic gang must not take what is reserved either, and is told why it waits."""
    elastic = job("elastic", 2, minimum=1, turn=2)
    found = report(profile(), BUSY, BIG, elastic)

    assert 1 == sum(decision.count() for decision in found.decisions)
    assert "WouldDelayReservation" == found.rejections["default/elastic"].reason.code


def test_a_ladder_counts_at_the_reserved_moment() -> None:
    """A gang that holds out for a rack does not reserve the whole cluster before its step is over."""
    ladder = {"tierwise.io/topology-ladder": "1=2h,any"}
    world = draw("s0[r0[n0 n1 n4] r1[n2 n3]]", node="gpu=8")
    both = running("a", "n0", ends_in=HOUR / 2), running("b", "n2", ends_in=HOUR / 4)
    found = report(profile(), *both, job("big", 3, marks=ladder), job("x", turn=2), world=world)

    assert "WaitsForCloserPlace" == found.rejections["default/big"].reason.code
    assert {"big": ("r0", HOUR / 2)} == reserved(found)
    assert {"x"} == started(found)


def test_the_end_of_a_step_is_a_moment() -> None:
    """A gang that holds out for a rack has what it declines now reserved from when its step is over, if nobody ends."""
    ladder = {"tierwise.io/topology-ladder": "1=2h,any"}
    world = draw("s0[r0[n0] r1[n1] r2[n2]]", node="gpu=8")
    found = report(
        profile(), running("a", "n1", ends_in=9 * HOUR), job("big", 2, marks=ladder), job("x", turn=2), world=world
    )
    (one,) = found.reservations
    over = one.job.created + 2 * HOUR

    assert "WaitsForCloserPlace" == found.rejections["default/big"].reason.code
    assert {"big": ("s0", over - NOW)} == reserved(found)
    assert one.text == f"reserved s0 from {format_time(over)}"
    assert "WouldDelayReservation" == found.rejections["default/x"].reason.code


def test_a_step_that_ends_too_late_holds_nobody_back() -> None:
    """A ladder of days keeps no nodes from others today, nor does one whose step the window does not reach."""
    world = draw("s0[r0[n0] r1[n1] r2[n2]]", node="gpu=8")
    long = running("a", "n1", ends_in=999 * HOUR)
    for window, steps in ("24h", "1=48h,any"), ("30m", "1=2h,any"):
        given = profile(reservationWindow=window, reservationAging="3h")
        big = job("big", 2, marks={"tierwise.io/topology-ladder": steps})
        found = report(given, long, big, job("x", turn=2), world=world)

        assert {"x"} == started(found)
        assert [False] == [one.holds for one in found.reservations]


def test_who_waits_for_a_job_that_is_overdue_ends_later_too() -> None:
    """By the end of the overdue job it would just be gone when the big gang begins; from now on it is not."""
    world = draw("s0[r0[n0 n1 n2]]", node="gpu=8")
    late, busy = running("late", "n1", ends_in=-MINUTE), running("busy", "n0", ends_in=HOUR / 2)
    own = job("own", lasts="30m30s", turn=2)
    given = profile("conservative", reservationPods=1)
    found = report(given, late, busy, job("big", 3, lasts="1h"), own, world=world)
    after = next(one for one in found.reservations if one.job.key == "default/own")

    assert {"big": ("r0", HOUR / 2), "own": (after.domain, 1.5 * HOUR)} == reserved(found)
    assert "WouldDelayReservation" == found.rejections["default/own"].reason.code
    assert "; default/busy must end before (it states 1h30m); " in after.text


def test_what_has_ended_by_then_is_not_expected_again() -> None:
    """A place on two racks is not declined for one rack that would need two ends of the same run."""
    rest = [*running("x", "n0", ends_in=9 * HOUR, each="gpu=4"), *running("y", "n1 n2 n3", ends_in=9 * HOUR)]
    late = running("a", "n0 n4", ends_in=-MINUTE, each="gpu=4")
    world = draw("s0[r0[n0 n1] r1[n2 n3 n4]]", node="gpu=8")
    more = running("z", "n4", ends_in=9 * HOUR, each="gpu=4")
    asked = job("big", 2, lasts="10h", turn=1800, each="gpu=4", soft=True)
    found = report(profile(), rest, late, more, asked, world=world)

    assert {"big": ("s0", -MINUTE)} == reserved(found)


def test_a_closer_place_that_is_waited_for_is_reserved() -> None:
    """A gang that declines three racks for two that are free in ten minutes reserves these, not what is idle now."""
    world = draw("s0[r0[n0 n1] r1[n2 n3] r2[n4 n5]]", node="gpu=8")
    rest = [*running("soon", "n0", ends_in=10 * MINUTE), *running("long", "n2 n4", ends_in=9 * HOUR)]
    found = report(profile(), rest, job("big", 3, lasts="10h", turn=1800, soft=True), world=world)
    (one,) = found.reservations
    ((_, rows, _),) = one.held

    assert "WaitsForCloserPlace" == found.rejections["default/big"].reason.code
    assert {"big": ("s0", 10 * MINUTE)} == reserved(found)
    assert [0, 1] == rows.tolist()[:2]


def test_a_place_that_would_be_declined_then_is_passed_over() -> None:
    """Two racks have room in five minutes, and one of them alone in ten: that one is reserved."""
    world = draw("s0[r0[n0 n1] r1[n2 n3]]", node="gpu=8")
    soon, sooner = running("soon", "n0", ends_in=10 * MINUTE), running("sooner", "n2", ends_in=5 * MINUTE)
    long = running("long", "n3", ends_in=9 * HOUR)
    found = report(profile(), soon, sooner, long, job("big", 2, lasts="10h", turn=1800, soft=True), world=world)

    assert {"big": ("r0", 10 * MINUTE)} == reserved(found)


def test_a_preemptor_needs_no_reservation() -> None:
    """A gang for which an action makes room is nominated, and the report has no reservation of it."""
    actions = ("enqueue", "allocate", "gangpreempt")
    given = replace(profile(), actions=actions, tiers=(*DEFAULT.tiers, (PluginChoice("conformance"),)))
    found = report(given, BUSY, job("big", 2, within=1, turn=1, priority=10))

    assert () == found.reservations
    assert found.evictions


def test_wrong_arguments_are_refused() -> None:
    """One line each, with the field."""
    for arguments, field in (
        ({"reservations": "sometimes"}, "reservations"),
        ({"reservationDepth": 0}, "reservationDepth"),
        ({"reservationPods": "many"}, "reservationPods"),
        ({"expectedDuration": "soon"}, "expectedDuration"),
        ({"expectedDuration.prod": "-1h"}, "expectedDuration.prod"),
        ({"runHistory": "a/b"}, "runHistory"),
        ({"reservationWindow": "soon"}, "reservationWindow"),
        ({"reservationAging": 3}, "reservationAging"),
        ({"reservationAgingLimit": "0s"}, "reservationAgingLimit"),
        ({"trustStatedDurations": "yes"}, "trustStatedDurations"),
    ):
        with pytest.raises(InputError, match=r"[a-z]") as caught:
            check_profile(replace(DEFAULT, action_arguments={"allocate": arguments}))
        assert f"configurations.allocate.{field}" == caught.value.field


def test_a_record_is_what_it_was() -> None:
    """What is annotated is read back."""
    one = Reservation(None, "r0", None, (), NOW, inf, (), (), (), "")  # type: ignore[arg-type]

    assert '{"domain": "r0", "from": "1970-01-12T13:46:40Z"}' == spell_reservation(one.record)
    assert '{"domain": "r0"}' == spell_reservation(replace(one, start=inf).record)
