"""When running jobs end: by their own word, their queue's, like jobs' history or a deadline, and unknown otherwise."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.draw import draw, gang

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.api.eviction_terms import EXPECTED_DURATION
from tierwise.config.profile import DEFAULT, Profile
from tierwise.model.expected_ends import EndSource, ExpectedEnd, ExpectedEnds
from tierwise.model.finished_run import FinishedRun
from tierwise.model.snapshot import Snapshot
from tierwise.port import Objects
from tierwise.snapshot.builder import build

NOW = 100_000.0
MINUTE, HOUR = 60.0, 3600.0
TWO = draw("s0[r0[n0 n1]]", node="gpu=8")


def run(name: str, *, ago: float, marks: dict[str, str] | None = None, deadline: int | None = None) -> list[Raw]:
    """A gang of two pods that has run for so many seconds."""
    raws = gang(name, tasks=2, each="gpu=4", on="n0 n1").manifests()
    for raw in raws:
        body: Any = raw
        if raw["kind"] == "Pod":
            body["status"] = {"phase": "Running", "startTime": format_time(NOW - ago)}
            if deadline is not None:
                body["spec"]["activeDeadlineSeconds"] = deadline
        else:
            body["metadata"]["annotations"] = dict(marks or {})
    return raws


def over(name: str, *, took: float, marks: dict[str, str] | None = None) -> list[Raw]:
    """A gang of two pods that has ended an hour ago."""
    raws = run(name, ago=took + HOUR, marks=marks)
    for raw in raws:
        body: Any = raw
        if raw["kind"] == "Pod":
            ended = {"terminated": {"exitCode": 0, "finishedAt": format_time(NOW - HOUR)}}
            body["status"] |= {"phase": "Succeeded", "containerStatuses": [{"name": "c", "state": ended}]}
    return raws


def seen(*raws: list[Raw], profile: Profile = DEFAULT, queue: Raw | None = None) -> Snapshot:
    """A snapshot of these gangs."""
    every = [*TWO.manifests, *([queue] if queue else []), *(raw for found in raws for raw in found)]
    return build(Objects.of((codec.decode(raw), raw) for raw in every), NOW, profile)


def end(snapshot: Snapshot, key: str) -> ExpectedEnd:
    """The expected end of a job."""
    return ExpectedEnds(snapshot).of(next(job for job in snapshot.jobs if job.key == f"default/{key}"))


def test_a_stated_duration_counts_from_the_start() -> None:
    """A job that states two hours and has run for one ends in an hour; how sure that is, nobody knows."""
    found = end(seen(run("train", ago=HOUR, marks={EXPECTED_DURATION: "2h"})), "train")

    assert (NOW + HOUR, NOW + HOUR, None) == (found.planned, found.median, found.most)
    assert "it states 2h" == found.text


def test_without_any_word_the_end_is_unknown() -> None:
    """Nothing is guessed."""
    found = end(seen(run("train", ago=HOUR)), "train")

    assert (EndSource.UNKNOWN, inf, None) == (found.source, found.planned, found.median)


def test_a_deadline_is_a_bound_and_no_estimate() -> None:
    """A job with a deadline alone has ended by then, and a median is not made up."""
    found = end(seen(run("train", ago=HOUR, deadline=7200)), "train")

    assert (EndSource.DEADLINE, NOW + HOUR, None) == (found.source, found.planned, found.median)


def test_the_last_deadline_of_its_pods_bounds_a_job() -> None:
    """A job runs until its last pod is stopped, whichever of them that is."""
    for place in (1, 2):
        raws: list[Any] = run("train", ago=HOUR, deadline=7200)
        raws[place]["spec"]["activeDeadlineSeconds"] = 10_800

        assert NOW + 2 * HOUR == end(seen(raws), "train").planned


def test_a_deadline_bounds_what_is_stated() -> None:
    """A job that states more than its deadline ends at the deadline."""
    found = end(seen(run("train", ago=HOUR, deadline=5400, marks={EXPECTED_DURATION: "9h"})), "train")

    assert NOW + HOUR / 2 == found.planned == found.median == found.latest


def test_a_queue_speaks_for_its_jobs() -> None:
    """The annotation of a queue counts before what the profile says for it, and a job's own word before both."""
    queue: Raw = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "default", "annotations": {EXPECTED_DURATION: "3h"}},
    }
    profile = replace(DEFAULT, action_arguments={"allocate": {"expectedDuration.default": "5h"}})
    stated = run("own", ago=HOUR, marks={EXPECTED_DURATION: "2h"})

    assert NOW + 4 * HOUR == end(seen(run("train", ago=HOUR), profile=profile), "train").planned
    assert NOW + 2 * HOUR == end(seen(run("train", ago=HOUR), profile=profile, queue=queue), "train").planned
    assert NOW + HOUR == end(seen(stated, profile=profile, queue=queue), "own").planned


def test_like_jobs_that_are_over_tell() -> None:
    """Runs of the same name but for their number are the history, and only those that lasted longer count."""
    snapshot = seen(run("train-9", ago=20 * MINUTE), *(over(f"train-{n}", took=n * 10 * MINUTE) for n in range(1, 8)))
    found = end(snapshot, "train-9")

    assert EndSource.HISTORY == found.source
    assert NOW - 20 * MINUTE + 50 * MINUTE == found.median == found.planned
    assert (NOW + 10 * MINUTE, NOW + 50 * MINUTE) == found.most
    assert "5 of 7 runs of default/train with 2 pods that ran for longer" == found.text


def test_a_kept_history_counts_like_objects() -> None:
    """Runs that are gone from the cluster are as good as those that are still there, and none counts twice."""
    gone = tuple(FinishedRun(f"default/train-{n}", "default", 2, HOUR, NOW - HOUR) for n in range(4))
    again = FinishedRun("default/train-9", "default", 2, HOUR, NOW - HOUR)
    four = replace(seen(run("train", ago=0.0)), history=gone)
    five = replace(seen(run("train", ago=0.0), over("train-9", took=HOUR)), history=(*gone, again))

    assert EndSource.UNKNOWN == end(four, "train").source
    assert "5 runs of default/train with 2 pods" == end(five, "train").text


@pytest.mark.parametrize(("pods", "like"), [(3, " with about 4 pods"), (4, " with about 4 pods"), (5, ""), (2, "")])
def test_jobs_of_about_one_size_reach_up_to_a_power_of_two(pods: int, like: str) -> None:
    """A job of four pods is like others of three and four, and less like those of two and five."""
    waiting = gang("next", tasks=4, each="gpu=4").manifests()
    history = tuple(FinishedRun(f"default/other{n}x", "default", pods, HOUR, NOW - HOUR) for n in range(5))
    snapshot = replace(seen(waiting), history=history)
    (job,) = snapshot.jobs

    assert f"5 runs of jobs of queue default{like}" == ExpectedEnds(snapshot).if_started(job, NOW).text


def test_an_overdue_job_says_so() -> None:
    """A job beyond its stated time may end at any moment; history says more where somebody lasted longer."""
    late = run("train-9", ago=HOUR, marks={EXPECTED_DURATION: "30m"})
    alone = end(seen(late), "train-9")
    known = end(seen(late, *(over(f"train-{n}", took=n * HOUR) for n in range(1, 6))), "train-9")

    assert (True, NOW - HOUR / 2, None) == (alone.overdue, alone.planned, alone.median)
    assert "it states 30m and is overdue since" in alone.text
    assert (True, NOW + 2.5 * HOUR) == (known.overdue, known.median)


def test_how_well_durations_were_stated_gives_the_ranges() -> None:
    """Where like jobs ran for twice what they had stated, so is this one expected to; plans keep to its word."""
    past = [over(f"train-{n}", took=2 * HOUR, marks={EXPECTED_DURATION: "1h"}) for n in range(5)]
    found = end(seen(run("train-9", ago=0.0, marks={EXPECTED_DURATION: "3h"}), *past), "train-9")

    assert (NOW + 3 * HOUR, NOW + 6 * HOUR) == (found.planned, found.median)
    assert (NOW + 6 * HOUR, NOW + 6 * HOUR) == found.most
    assert NOW + 6 * HOUR == found.safe


@pytest.mark.parametrize("runs", [20, 100])
def test_ranges_hold_the_stated_share_of_runs(runs: int) -> None:
    """Of evenly spread durations the inner half lies in one range, and nine of ten in the other."""
    history = tuple(FinishedRun("default/train", "default", 2, float(n), n) for n in range(1, runs + 1))
    found = end(replace(seen(run("train", ago=0.0)), history=history), "train")
    assert found.half is not None
    assert found.most is not None

    for (low, high), share in ((found.half, 0.5), (found.most, 0.9)):
        inside = sum(low <= NOW + n <= high for n in range(1, runs + 1))
        assert share <= inside / runs <= share + 0.1


def test_a_waiting_job_would_end_after_its_duration() -> None:
    """For one that does not run yet, the end counts from when it would start."""
    waiting = gang("next", tasks=2, each="gpu=4").manifests()
    body: Any = waiting[0]
    body["metadata"]["annotations"] = {EXPECTED_DURATION: "1h"}
    snapshot = seen(waiting)
    (job,) = (job for job in snapshot.jobs if job.key == "default/next")

    assert NOW + 3 * HOUR == ExpectedEnds(snapshot).if_started(job, NOW + 2 * HOUR).planned
    assert EndSource.UNKNOWN == ExpectedEnds(snapshot).of(job).source
