"""Which jobs need no second look, because all that they need runs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.support.draw import Gang, draw, gang, objects_of, role

from tierwise.model.job import Job, Phase
from tierwise.snapshot.builder import build


def _job(asked: Gang, phase: Phase = Phase.RUNNING) -> Job:
    (job,) = build(objects_of(draw("r0[n0 n1]"), asked), 0.0).jobs
    return replace(job, phase=phase)


def test_a_gang_that_runs_is_settled() -> None:
    """All its pods have a node, and its phase says so."""
    assert _job(gang("g", tasks=2, on="n0 n1")).settled


@pytest.mark.parametrize("on", ["n0", "n0!", "n0 ~", "n0 -"])
def test_one_below_its_minimum_is_not(on: str) -> None:
    """Whether the rest is missing, on its way out, behind a gate or pending."""
    assert not _job(gang("g", minimum=2, tasks=len(on.split()), on=on)).settled


def test_one_of_which_more_is_pending_is_not() -> None:
    """Its minimum runs; what goes beyond it still wants a place, best-effort pods as well."""
    assert not _job(gang("g", minimum=1, tasks=2, on="n0 -")).settled
    assert not _job(gang("g", minimum=1, roles=(role("a", 1), role("b", 1, "")), on="n0 -")).settled


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.INQUEUE])
def test_one_that_was_never_seen_whole_is_not(phase: Phase) -> None:
    """Its phase is written after this cycle, which looks at it for that."""
    assert not _job(gang("g", tasks=2, on="n0 n1"), phase).settled
