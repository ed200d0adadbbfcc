"""What deserves attention: each kind where it is, and nothing where all is well."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.commands import ROOT, run
from tests.support.draw import draw, gang, objects_of

from tierwise.config.profile import DEFAULT
from tierwise.explain.attention import KINDS, Attention, Seen, attention, attention_wire
from tierwise.model.turns import Turns
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build

GOLDEN = ROOT / "tests" / "golden"
WORLD = objects_of(
    draw("r0[n0 n1] r1[n2 n3]", node="gpu=4"),
    gang("runs", tasks=2, each="gpu=4", on="n0 n1"),
    gang("waits", tasks=8, each="gpu=4"),
)


def _found(seen: Seen, now: float = 1000.0) -> Attention:
    return attention(build(WORLD, now), None, DEFAULT, seen)


def _told(found: Attention) -> list[tuple[str, str, str]]:
    return [(concern.code, concern.kind, concern.name) for concern in found.concerns]


def test_nothing_is_told_where_all_is_well() -> None:
    """Each kind is counted, as none."""
    found = _found(Seen())

    assert dict.fromkeys(KINDS, 0) == found.counts
    assert {"concerns": [], "counts": found.counts} == attention_wire(found)


def test_jobs_that_were_evicted_several_times_are_told() -> None:
    """From three times on, the most often first, and whether they wait; a job that is gone is none."""
    found = _found(Seen({"default/runs": 3, "default/waits": 7, "default/gone": 9}))

    assert [("EvictedOften", "Job", "default/waits"), ("EvictedOften", "Job", "default/runs")] == _told(found)
    assert ["was evicted 7 times, and waits", "was evicted 3 times, and runs again"] == [
        concern.text for concern in found.concerns
    ]
    assert [] == _told(_found(Seen({"default/runs": 2})))


def test_certificates_are_told_two_weeks_before_their_end() -> None:
    """One that has ended comes first."""
    day = 86400.0
    found = _found(Seen(certificates={"soon": 1000 + 13 * day, "over": 1000 - day, "later": 1000 + 15 * day}))

    assert [("CertificateEnds", "Certificate", "over"), ("CertificateEnds", "Certificate", "soon")] == _told(found)
    assert "ends in 13.0 days" in found.concerns[1].text


def test_slow_writes_and_searches_are_told_by_namespace() -> None:
    """Writes by what their connection says, searches by the accounts of the cycle."""
    snapshot = build(WORLD, 1000.0)
    report = replace(cycle(snapshot, DEFAULT), turns=Turns(cycles=9, late={"ml/a": 5, "ml/b": 7, "ops/c": 8}))

    found = attention(snapshot, report, DEFAULT, Seen(writes={"ops": (3, 12.0)}))

    assert ["ml", "ops", "ops"] == [concern.name for concern in found.concerns]
    assert [
        "2 jobs not looked at for up to 4 cycles",
        "1 job not looked at for up to 1 cycle",
        "3 writes without an answer, the oldest for 12 s",
    ] == [concern.text for concern in found.concerns]


def test_only_some_of_many_are_told_and_all_are_counted() -> None:
    """So that an answer has a bound."""
    writes = {f"ns-{number}": (1, float(number)) for number in range(40)}

    found = attention(build(WORLD, 1000.0), None, DEFAULT, Seen(writes=writes), limit=3)

    assert ["ns-39", "ns-38", "ns-37"] == [concern.name for concern in found.concerns]
    assert 40 == found.counts["SlowWrites"]


@pytest.mark.parametrize(("now", "overdue"), [("2026-01-01T09:59:00Z", []), ("2026-01-01T10:01:00Z", ["ml/late"])])
def test_a_job_is_overdue_after_its_latest_likely_start(now: str, overdue: list[str]) -> None:
    """Not after the middle of the forecast, beyond which half of all jobs wait; queues and racks are told beside."""
    config = ("--config", GOLDEN / "attention.conf")
    result = run("attention", "-f", GOLDEN / "attention.yaml", *config, "--now", now, "-o", "json")
    found: Any = json.loads(result.stdout)
    by_code: dict[str, list[str]] = {}
    for concern in found["concerns"]:
        by_code.setdefault(concern["code"], []).append(concern["name"])

    assert {"Overdue": overdue, "OverShare": ["research"], "BadNodes": ["rack-a"]} == {"Overdue": [], **by_code}


def test_the_exit_status_says_whether_there_is_something() -> None:
    """For those who ask from a script."""
    something = run("attention", "-f", GOLDEN / "attention.yaml", "-o", "name")
    nothing = run("attention", "-f", ROOT / "examples" / "01-llm-training")

    assert (1, 0) == (something.exit_code, nothing.exit_code)
    assert "hypernode/rack-a" in something.stdout.splitlines()
    assert "nothing deserves attention" in nothing.stdout
