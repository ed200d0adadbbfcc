"""`tierwise eta`: places in queues and expected starts, for people and programs."""

from __future__ import annotations

import pytest
from tests.support.commands import EXAMPLES, answer, run

from tierwise.cli.kubectl import plugin

EXAMPLE = ("eta", "-f", EXAMPLES / "18-expected-start", "--now", "2026-01-01T12:00:00Z")


def test_all_that_wait_are_listed_by_their_places() -> None:
    """Jobs that have ended or run are not among them."""
    found = answer(*EXAMPLE)

    assert [("ml/train-b", 1, 3, "expected"), ("ml/train-c", 2, 3, "expected"), ("ml/huge", 3, 3, "never")] == [
        (job["podGroup"], job["position"], job["of"], job["kind"]) for job in found["jobs"]
    ]
    assert {"history": 1} == found["endsFrom"]
    assert [] == found["jobs"][0]["nowIf"]


def test_a_start_has_ranges_and_what_it_follows() -> None:
    """The narrow range lies inside the wide one, and the job whose end is awaited is named with its own."""
    job = answer(*EXAMPLE, "ml/train-b")["jobs"][0]

    assert job["range90"][0] <= job["range50"][0] <= job["start"] <= job["range50"][1] <= job["range90"][1]
    assert ["ml/sweep-11"] == [awaited["podGroup"] for awaited in job["after"]]
    assert "10 runs of ml/sweep with 2 pods" == job["after"][0]["source"]
    assert "2 nodes of rack-7 were uncordoned" == job["nowIf"][0]


def test_the_same_seed_prints_the_same_bytes() -> None:
    """And another seed other ones."""
    first, again, other = (run(*EXAMPLE, "-o", "json", "--seed", seed).stdout for seed in (3, 3, 4))

    assert first == again
    assert first != other


def test_a_started_job_is_said_to_have_started() -> None:
    """It has no place in a queue any more."""
    assert "ml/sweep-11\n  starts  it has started" in run(*EXAMPLE, "ml/sweep-11").stdout


def test_nobody_waits() -> None:
    """A cluster in which everything runs needs no table."""
    assert "no job waits\n" == run("eta", "-f", EXAMPLES / "18-expected-start" / "cluster.yaml").stdout


def test_a_job_that_does_not_exist_is_bad_input() -> None:
    """One line names it."""
    result = run(*EXAMPLE, "ml/train-x")

    assert 2 == result.exit_code
    assert "PodGroup ml/train-x: there is no such job" in result.stderr


@pytest.mark.parametrize("words", [("--runs", "0"), ("--seed", "-1")])
def test_numbers_out_of_range_are_refused(words: tuple[str, str]) -> None:
    """A run is needed at least."""
    assert 2 == run(*EXAMPLE, *words).exit_code


def test_kubectl_has_the_verb() -> None:
    """The plugin of kubectl offers what looks at a cluster."""
    assert "eta" in plugin.list_commands(None)  # type: ignore[arg-type]
