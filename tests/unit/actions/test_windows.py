"""Windows: nodes that are closed for a time, to jobs that would run into it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.draw import World
from tests.support.reservations import BUSY, HOUR, MINUTE, NOW, TWO_RACKS, job, profile, running
from tests.support.windows import window

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT, Profile
from tierwise.explain.message import message
from tierwise.explain.obstacles import obstacles_of
from tierwise.framework.report import CycleReport
from tierwise.port import Objects
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build

ALL: Any = {"domains": ["s0"]}


def report(*parts: list[Raw], given: Profile = DEFAULT, world: World = TWO_RACKS, now: float = NOW) -> CycleReport:
    """One cycle."""
    every = [*world.manifests, *(raw for part in parts for raw in part)]
    return cycle(build(Objects.of((codec.decode(raw), raw) for raw in every), now, given), given)


def places(found: CycleReport) -> dict[str, list[str]]:
    """On which nodes who was bound."""
    return {
        one.job.key.partition("/")[2]: sorted(f"n{row}" for _, row in one.places())
        for one in found.decisions
        if one.bound
    }


def test_a_job_that_would_run_into_a_window_starts_beside_it() -> None:
    """Rack r0 closes in an hour: a job of two hours goes to r1, one of half an hour may use r0."""
    found = report(window(), job("long", 2, lasts="2h", turn=1), job("short", 2, lasts="30m", turn=2))

    assert {"long": ["n2", "n3"], "short": ["n0", "n1"]} == places(found)


def test_who_has_no_room_beside_it_waits_and_is_told_why() -> None:
    """The message names the window; a cycle looks again when it ends, though nothing changes till then."""
    found = report(window(reason="new firmware", **ALL), job("long", 2, lasts="2h"))

    assert {} == places(found)
    assert (
        "0 of 2 pods fit (4 nodes will be closed by window firmware from "
        "1970-01-12T14:46:40Z on, before which it would not have ended (new firmware))"
    ) in message(found.rejections["default/long"])
    assert NOW + 2 * HOUR == found.retry_after(NOW)
    assert {"long": ["n0", "n1"]} == places(report(window(**ALL), job("long", 2, lasts="2h"), now=NOW + 2 * HOUR))


def test_in_a_window_nobody_starts_however_short() -> None:
    """What is closed is closed to jobs of a minute, too."""
    found = report(window(begins=-MINUTE, **ALL), job("short", lasts="1m"))

    assert {} == places(found)
    assert "4 nodes were closed by window firmware until 1970-01-12T14:45:40Z" in message(
        found.rejections["default/short"]
    )


@pytest.mark.parametrize(("policy", "starts"), [("Wait", False), ("Start", True), ("50m", True), ("2h", False)])
def test_jobs_without_a_known_end_follow_the_policy(policy: str, *, starts: bool) -> None:
    """Nothing says how long the job runs; the window does."""
    found = report(window(unknownEnds=policy, **ALL), job("unknown"))

    assert starts == ("unknown" in places(found))


def test_jobs_of_its_queues_may_run_in_it() -> None:
    """A window may be for a queue: its jobs start in it, and run into it."""
    queue: Any = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "tests"},
        "spec": {"weight": 1},
    }
    asked = [*job("own", lasts="9h", queue="tests", turn=1), *job("other", lasts="9h", turn=2)]

    before = report([queue], window(queues=["tests"], **ALL), asked)
    inside = report([queue], window(queues=["tests"], begins=-MINUTE, **ALL), asked)

    assert ["own"] == [*places(before)] == [*places(inside)]


def test_plain_pods_of_one_shape_are_told_apart_by_their_ends() -> None:
    """Pods alone that are alike but for how long they last: the second may not ride on the answer for the first."""
    asked = [*job("short", lasts="30m", turn=1), *job("long", lasts="3h", turn=2), *job("brief", lasts="20m", turn=3)]

    assert {"short", "brief"} == {*places(report(window(**ALL), asked))}


def test_a_margin_is_left_before_it() -> None:
    """Pods take a while to start: who would end on the last second does not start."""
    asked = job("close", lasts="59m")

    assert ["close"] == [*places(report(window(**ALL), asked))]
    assert [] == [*places(report(window(margin="5m", **ALL), asked))]


def test_a_deadline_is_an_end() -> None:
    """A job that says nothing, but is stopped before the window begins."""
    asked = job("bounded")
    for raw in asked:
        body: Any = raw
        if raw["kind"] == "Pod":
            body["spec"]["activeDeadlineSeconds"] = 600

    assert ["bounded"] == [*places(report(window(**ALL), asked))]


def test_windows_name_nodes_and_labels_too() -> None:
    """By name, and by labels of nodes."""
    found = report(window(nodes=["n0", "n1", "n2", "n9"]), job("long", lasts="2h"))

    assert {"long": ["n3"]} == places(found)


def test_a_reservation_lies_behind_the_window() -> None:
    """Both racks are needed, and one of them closes before the job would have ended: it is reserved from its end on."""
    found = report(BUSY, window(begins=2 * HOUR), job("all", 4, lasts="3h", turn=1), given=profile(window="9h"))

    (one,) = found.reservations
    assert NOW + 3 * HOUR == one.start


def test_a_reservation_lies_before_the_window_for_a_job_that_is_short() -> None:
    """It ends before: the window concerns it not."""
    found = report(BUSY, window(begins=2 * HOUR), job("all", 4, lasts="30m", turn=1), given=profile(window="9h"))

    (one,) = found.reservations
    assert NOW + HOUR == one.start


def test_a_gang_that_runs_does_not_grow_into_a_window() -> None:
    """Its pods end as their job does, in two hours."""
    base: Any = running("big", "n2", ends_in=2 * HOUR)
    grown: Any = job("big", 3, lasts="3h")
    pods = [raw for raw in grown if raw["kind"] == "Pod" and raw["metadata"]["name"] != base[-1]["metadata"]["name"]]
    for raw in base:
        body: Any = raw
        if raw["kind"] == "PodGroup":
            body["spec"]["minMember"] = 1
    found = report(base, pods, window())

    assert ["n3"] == [f"n{row}" for one in found.decisions for _, row in one.places()]


def test_what_a_window_names_and_is_not_there_is_told() -> None:
    """A domain that no tree has, and no node at all."""
    every = [*TWO_RACKS.manifests, *window(domains=["r7"]), *window("other", nodes=["n9"])]
    found = build(Objects.of((codec.decode(raw), raw) for raw in every), NOW).faults

    assert [("Window firmware", "WindowWithoutNodes"), ("Window other", "WindowWithoutNodes")] == [
        (fault.subject, fault.code) for fault in found
    ]


def owned(raws: list[Raw]) -> list[Raw]:
    """The same pods, which somebody would make again."""
    for raw in raws:
        body: Any = raw
        if raw["kind"] == "Pod":
            body["metadata"]["ownerReferences"] = [
                {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "x", "controller": True}
            ]
    return raws


def evicted(found: CycleReport) -> list[str]:
    """The pods that are evicted, and for what."""
    return sorted(f"{one.task.key.partition('/')[2]} {one.action}" for one in found.evictions)


def test_who_overruns_stays_or_is_evicted_as_the_window_says() -> None:
    """A gang that has stated less than it takes runs on when the window opens."""
    late = owned(running("late", "n0 n1", ends_in=-MINUTE))
    there = owned(running("there", "n2", ends_in=-MINUTE))

    assert [] == evicted(report(late, there, window(begins=-MINUTE)))
    assert ["late-0 window", "late-1 window"] == evicted(report(late, there, window(begins=-MINUTE, overrun="Evict")))
    assert [] == evicted(report(late, there, window(begins=MINUTE, overrun="Evict")))


def test_what_would_be_left_of_a_gang_goes_with_it() -> None:
    """Half a gang of two does nothing; jobs of the window's queues and pods that nobody makes again stay."""
    over = owned(running("over", "n0 n2", ends_in=-MINUTE))
    alone = running("alone", "n1", ends_in=-MINUTE)
    emptying: Any = {"begins": -MINUTE, "overrun": "Evict"}

    assert ["over-0 window", "over-1 window"] == evicted(report(over, alone, window(**emptying)))
    assert [] == evicted(report(over, alone, window(queues=["default"], **emptying)))


def test_a_cycle_is_due_when_a_window_that_evicts_begins() -> None:
    """Although nothing waits."""
    found = report(owned(running("late", "n0", ends_in=-MINUTE)), window(overrun="Evict"))

    assert NOW + HOUR == found.retry_after(NOW)


def test_explanations_say_that_it_would_start_without_the_window() -> None:
    """Of a job that has room beside nobody but the window; and nothing where it has none anyway."""
    objects = (window(**ALL), job("long", 2, lasts="2h"))
    every = [*TWO_RACKS.manifests, *(raw for part in objects for raw in part)]
    seen = build(Objects.of((codec.decode(raw), raw) for raw in every), NOW, DEFAULT)
    (waiting,) = seen.jobs

    assert ["without window firmware (from 1970-01-12T14:46:40Z until 1970-01-12T15:46:40Z) it fits"] == [
        obstacle.text() for obstacle in obstacles_of(seen, cycle(seen, DEFAULT), DEFAULT, waiting)
    ]


def test_a_window_closes_nothing_to_the_next_job_where_a_node_has_failed_one() -> None:
    """Rows that are left out first are opened again, and those of the window with them."""
    remembers = replace(DEFAULT, action_arguments={"allocate": {"failedStarts": "tierwise"}})
    line = json.dumps(["u", "default/long", "n2", NOW - 60, "OutOfcpu", False])
    metadata = {"name": "tierwise-failed-starts", "namespace": "tierwise"}
    record: Raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"starts": line}}
    jobs = (job("long", 1, lasts="2h", turn=1), job("short", 3, lasts="30m", turn=2))

    assert {"long": ["n3"], "short": ["n0", "n1", "n2"]} == places(report(window(), [record], *jobs, given=remembers))
