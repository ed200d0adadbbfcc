"""Short names of jobs."""

from __future__ import annotations

import pytest
from tests.support.draw import draw, gang, objects_of

from tierwise.explain.naming import ObjectNames
from tierwise.snapshot.builder import build

FIRST, SECOND = "1e0f4a3c-0000-4000-8000-000000000001", "1e0f4a3c-0000-4000-8000-000000000002"


@pytest.mark.parametrize(
    ("groups", "names"),
    [
        ((f"train-{FIRST}", "other"), ["train", "other"]),
        (
            (f"train-{FIRST}", f"train-{SECOND}", "other"),
            [f"default/train-{FIRST}", f"default/train-{SECOND}", "other"],
        ),
    ],
)
def test_jobs_of_one_name_keep_what_tells_them_apart(groups: tuple[str, ...], names: list[str]) -> None:
    """And no job is called by more than that."""
    jobs = build(objects_of(draw("n0"), *(gang(name, tasks=1) for name in groups)), now=0.0).jobs

    assert sorted(names) == sorted(map(ObjectNames(jobs).of, jobs))
