"""Expected starts: places in queues, ranges, what a start follows, and never, not allowed and unknown said as such."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.draw import draw, gang

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.api.errors import InputError
from tierwise.api.eviction_terms import EXPECTED_DURATION
from tierwise.config.profile import DEFAULT, Profile
from tierwise.config.volcano import read_volcano
from tierwise.explain.eta import Eta, EtaReport, StartKind, eta_text, etas_wire
from tierwise.plugins import PLUGINS
from tierwise.port import Objects
from tierwise.sim.forecast.eta import etas
from tierwise.sim.what_if.runs import prepared

NOW = 1_790_000_000.0
MINUTE, HOUR = 60.0, 3600.0
WORLD = draw("s0[r0[n0 n1] r1[n2 n3]]", node="gpu=8", cordoned="")


def job(
    name: str, *, on: str = "", ago: float = 60.0, states: str = "", tasks: int = 2, took: float = 0.0, **more: Any
) -> list[Raw]:
    """A gang that has run or waited for so long; one that `took` some time is over."""
    drawn: dict[str, Any] = {**more, **({"on": on} if on else {})}
    raws = gang(name, tasks=tasks, each="gpu=8", **drawn).manifests()
    for raw in raws:
        body: Any = raw
        body["metadata"]["creationTimestamp"] = format_time(NOW - ago)
        if raw["kind"] == "Pod" and on:
            body["status"] = {"phase": "Running", "startTime": format_time(NOW - ago)}
        if raw["kind"] == "Pod" and took:
            ended = {"terminated": {"exitCode": 0, "finishedAt": format_time(NOW - ago + took)}}
            body["status"] |= {"phase": "Succeeded", "containerStatuses": [{"name": "c", "state": ended}]}
        if raw["kind"] == "PodGroup" and states:
            body["metadata"].setdefault("annotations", {})[EXPECTED_DURATION] = states
    return raws


def asked(*jobs: list[Raw], names: tuple[str, ...] = (), profile: Profile = DEFAULT, **more: Any) -> EtaReport:
    """What is said of these gangs on four nodes in two racks."""
    raws = [*WORLD.manifests, *(raw for found in jobs for raw in found)]
    objects = Objects.of((codec.decode(raw), raw) for raw in raws)
    return etas(prepared(objects, profile, NOW), names=names, **more)


def one(report: EtaReport, name: str) -> Eta:
    """The answer about one gang."""
    return next(eta for eta in report.jobs if eta.job == f"default/{name}")


FULL = (job("a", on="n0 n1", ago=HOUR, states="2h"), job("b", on="n2 n3", ago=HOUR, states="90m"))


def test_the_start_is_the_end_of_what_it_waits_for() -> None:
    """Where all ends are stated, one run says it, and there is no range."""
    report = asked(*FULL, job("c", within=1))
    eta = one(report, "c")

    assert 1 == report.runs
    assert (StartKind.EXPECTED, NOW + 30 * MINUTE) == (eta.kind, eta.start)
    assert (None, None) == (eta.half, eta.most)
    assert ["b"] == [awaited.name for awaited in eta.after]
    assert "when b ends, 14:43" == eta_text(eta, NOW)


def test_a_start_follows_those_on_its_own_nodes() -> None:
    """Of two gangs that end in one moment, the one in whose rack it starts is named."""
    both = (job("a", on="n0 n1", ago=HOUR, states="2h"), job("b", on="n2 n3", ago=HOUR, states="2h"))
    eta = one(asked(*both, job("c", within=1)), "c")

    assert NOW + HOUR == eta.start
    assert ["a"] == [awaited.name for awaited in eta.after]


def test_places_are_those_of_the_cycle() -> None:
    """Higher priority first, then who came first; and each queue has places of its own."""
    report = asked(
        *FULL,
        job("late", ago=10),
        job("early", ago=30),
        job("important", ago=5, priority=9),
        job("elsewhere", ago=50, queue="other"),
    )

    assert [("important", 1, 3), ("early", 2, 3), ("late", 3, 3)] == [
        (eta.name, eta.position, eta.of) for eta in report.jobs if eta.queue == "default"
    ]
    assert (1, 1) == (one(report, "elsewhere").position, one(report, "elsewhere").of)


def test_who_fits_starts_now() -> None:
    """A gang that the next cycle starts needs no forecast."""
    eta = one(asked(FULL[0], job("c")), "c")

    assert (StartKind.NOW, NOW) == (eta.kind, eta.start)


def test_never_is_said_as_such() -> None:
    """More than the cluster has is not a matter of time."""
    eta = one(asked(*FULL, job("c", tasks=5)), "c")

    assert StartKind.NEVER is eta.kind
    assert eta.start is None
    assert eta_text(eta, NOW).startswith("never on this cluster: ")


def test_not_allowed_is_said_as_such() -> None:
    """A queue that does not exist keeps a gang out however long it waits."""
    eta = one(asked(*FULL, job("c", queue="missing")), "c")

    assert (StartKind.NOT_ALLOWED, "QueueNotFound") == (eta.kind, eta.reason)


def test_a_quota_that_comes_free_is_a_matter_of_time() -> None:
    """What a full quota holds back starts when a job of its queue ends, though nodes are free."""
    queue: Raw = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "small"},
        "spec": {"capability": {"nvidia.com/gpu": "16"}},
    }
    held = job("a", on="n0 n1", ago=HOUR, states="2h", queue="small")
    eta = one(asked(held, job("c", queue="small"), [queue]), "c")

    assert (StartKind.EXPECTED, NOW + HOUR) == (eta.kind, eta.start)
    assert ["a"] == [awaited.name for awaited in eta.after]


def test_unknown_is_said_with_its_reason() -> None:
    """A job of which nobody says when it ends is named."""
    report = asked(job("a", on="n0 n1"), FULL[1], job("c", tasks=4))
    eta = one(report, "c")

    assert (StartKind.UNKNOWN, "EndsUnknown") == (eta.kind, eta.reason)
    assert eta.message.startswith("it is not known when a ends; ")
    assert ("a",) == report.unknown


def test_history_gives_ranges() -> None:
    """Ends that are drawn from like jobs give a start between them, the narrow range inside the wide one."""
    past = [job(f"like-{n}", on="n0 n1", ago=4 * HOUR + 60 * n, took=(50 + 10 * n) * MINUTE) for n in range(8)]
    held = job("like-9", on="n0 n1", ago=20 * MINUTE)
    report = asked(*past, held, job("b", on="n2 n3", states="10h"), job("c", within=1))
    eta = one(report, "c")

    assert report.runs > 1
    assert {"history": 1, "stated": 1} == dict(report.sources)
    assert eta.half is not None
    assert eta.most is not None
    ordered = [eta.most[0], eta.half[0], eta.start or 0.0, eta.half[1] or 0.0, eta.most[1] or 0.0]
    assert sorted(ordered) == ordered
    assert NOW + 30 * MINUTE <= ordered[0] < ordered[-1] <= NOW + 100 * MINUTE * 1.02


def test_jobs_are_late_together() -> None:
    """The errors of eight runs, one after another, do not cancel out as those of independent runs would."""
    past = [
        job(f"like-{n}", on="n0 n1 n2 n3", tasks=4, ago=4 * HOUR + 60 * n, took=(50 + 10 * n) * MINUTE)
        for n in range(8)
    ]
    held = job("like-9", on="n0 n1 n2 n3", tasks=4, ago=MINUTE)
    line = [job(f"like-{n}", tasks=4, ago=50.0 - n) for n in range(10, 18)]
    eta = one(asked(*past, held, *line), "like-17")

    assert eta.start is not None
    assert eta.half is not None
    assert eta.half[1] is not None
    assert NOW + 8 * 70 * MINUTE < eta.start < NOW + 8 * 100 * MINUTE
    assert eta.half[1] - eta.half[0] > 150 * MINUTE  # 100 where the draws of jobs are independent


def test_equal_questions_have_equal_answers() -> None:
    """Draws follow from the seed and the names, whatever else there is."""
    past = [job(f"like-{n}", on="n0 n1", ago=4 * HOUR + 60 * n, took=(50 + 10 * n) * MINUTE) for n in range(8)]
    world = (*past, job("like-9", on="n0 n1", ago=20 * MINUTE), job("b", on="n2 n3", states="10h"), job("c", within=1))

    assert etas_wire(asked(*world)) == etas_wire(asked(*world))
    assert one(asked(*world, seed=2), "c") != one(asked(*world), "c")


def test_a_named_job_is_told_what_would_start_it_now() -> None:
    """The least changes are part of the answer; who has started needs none."""
    report = asked(*FULL, job("c", within=1), names=("c", "a"), alternatives=True)

    assert any(text.startswith("2 pods were evicted") for text in one(report, "c").now_if)
    assert (StartKind.STARTED, ()) == (one(report, "a").kind, one(report, "a").now_if)


def test_an_unknown_name_is_bad_input() -> None:
    """A job that does not exist is named."""
    with pytest.raises(InputError, match="there is no such job"):
        asked(*FULL, names=("nobody",))


def test_a_reservation_agrees_with_the_forecast() -> None:
    """Where the profile reserves, the gang starts at the moment that is reserved for it."""
    profile = read_volcano(
        {
            "actions": "enqueue, allocate, backfill",
            "configurations": [{"name": "allocate", "arguments": {"reservations": "easy"}}],
            "tiers": [{"plugins": [{"name": n} for n in ("priority", "gang", "predicates", "network-topology-aware")]}],
        },
        PLUGINS.offers,
    )
    report = asked(*FULL, job("big", tasks=4, ago=50), job("small", tasks=1, ago=40, states="3h"), profile=profile)

    assert NOW + HOUR == one(report, "big").start
