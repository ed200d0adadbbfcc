"""How ready jobs are once a cycle is over: what was bound counts, what is taken back does not."""

from __future__ import annotations

from tests.support.draw import Gang, allocate, draw, gang, role

from tierwise.framework.ledger import job_ready
from tierwise.scheduler.partial_gangs import tallies


def _whole(asked: Gang, back: str = "") -> bool:
    """Whether a gang has its minimums after a cycle in which these pods are taken back."""
    outcome = allocate(draw("r0[n0]"), asked)
    (job,) = outcome.snapshot.jobs
    ledger = tallies(outcome.snapshot, outcome.report, {f"default/{name}" for name in back.split()})
    return job_ready(ledger, job)


def test_a_gang_that_was_bound_is_whole() -> None:
    """Also where its roles have minimums of their own."""
    assert _whole(gang("g", tasks=2))
    assert _whole(gang("g", roles=(role("a", 1, minimum=1), role("b", 1, minimum=1))))


def test_a_gang_that_loses_a_role_is_not() -> None:
    """Two pods are enough for its minimum, but none of the two is of the role that it lacks."""
    roles = (role("a", 2, minimum=1), role("b", 1, minimum=1))

    assert _whole(gang("g", minimum=2, roles=roles, on="n0 n0 n0"), back="g-a-0")
    assert not _whole(gang("g", minimum=2, roles=roles, on="n0 n0 n0"), back="g-b-0")


def test_best_effort_pods_count_once() -> None:
    """They were counted before they were placed."""
    both = gang("g", minimum=2, roles=(role("a", 1, minimum=1), role("b", 1, "", minimum=1)))

    assert _whole(both)
    assert not _whole(gang("g", minimum=2, roles=both.roles, on="n0 n0"), back="g-b-0")


def test_best_effort_pod_that_was_bound_does_not_stand_for_another() -> None:
    """It came to its node in this cycle, and one that it needs beside it is taken back."""
    both = gang("g", minimum=2, roles=(role("a", 1), role("b", 1, "")), on="n0")

    assert _whole(both)
    assert not _whole(both, back="g-a-0")
