"""Service levels: who has waited long goes first."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.support.draw import gang
from tests.support.points import takes
from tests.support.queue_worlds import hall_of

from tierwise.api import codec
from tierwise.api.duration import seconds
from tierwise.framework.extension import JobOrder
from tierwise.model.job import Job
from tierwise.plugins.sla import Sla
from tierwise.port import Objects
from tierwise.snapshot.builder import build


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1h2m3s", 3723.0),
        ("90s", 90.0),
        ("1.5h", 5400.0),
        ("5.m", 300.0),
        ("250ms", 0.25),
        ("1us", 1e-6),
        ("-3s", -3.0),
        ("0", 0.0),
        ("", None),
        ("5", None),
        ("1h 2m", None),
        ("soon", None),
    ],
)
def test_durations_are_read_as_go_does(text: str, expected: float | None) -> None:
    """Numbers with units in a row, and nothing else."""
    assert expected == seconds(text)


def order(argument: object, jobs: list[Job]) -> str:
    """The jobs, the first to be served first."""
    hall = hall_of("n0", now=100.0)
    plugin = Sla({"sla-waiting-time": argument}, hall.view)
    assert takes(plugin, JobOrder)
    return " ".join(job.key for job in sorted(jobs, key=lambda job: (*plugin.job_key(job), job.order)))


def jobs() -> list[Job]:
    """A job without a time of its own, one in a hurry, one that is older and patient."""
    hall = hall_of("n0", gang("plain", tasks=1))
    plain = hall.job("plain")
    return [
        replace(plain, key="plain", created=30.0),
        replace(plain, key="hasty", created=50.0, sla=10.0),
        replace(plain, key="patient", created=10.0, sla=3600.0),
    ]


def test_jobs_are_ordered_by_deadline() -> None:
    """A job's own time counts before the argument; without either it comes last."""
    assert "hasty patient plain" == order(None, jobs())
    assert "plain hasty patient" == order("15s", jobs())


@pytest.mark.parametrize("argument", ["nonsense", "-5s", "0s", 15])
def test_a_time_that_is_none_is_ignored(argument: object) -> None:
    """As Volcano does: what cannot be read leaves jobs without a time."""
    assert "hasty patient plain" == order(argument, jobs())


def test_a_job_is_due_once_its_deadline_has_passed() -> None:
    """At one hundred seconds: due since sixty, due in an hour, never due."""
    plugin = Sla({}, hall_of("n0", now=100.0).view)

    assert [False, True, False] == [plugin.must_enqueue(job) for job in jobs()]


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"sla-waiting-time": "1m"}, 60.0),
        ({"volcano.sh/sla-waiting-time": "2m", "sla-waiting-time": "1m"}, 120.0),
        ({"sla-waiting-time": "soon"}, None),
        ({"sla-waiting-time": "-1m"}, None),
        ({}, None),
    ],
)
def test_the_annotation_of_a_pod_group(annotations: dict[str, str], expected: float | None) -> None:
    """Under either name; what is no positive duration is no time."""
    raw: codec.Raw = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "annotations": annotations},
    }
    (job,) = build(Objects.of([(codec.decode(raw), raw)]), 0.0).jobs

    assert expected == job.sla
