"""Short names of jobs, and limits in words."""

from __future__ import annotations

import pytest
from tests.support.draw import draw, gang, objects_of

from tierwise.explain.naming import ObjectNames, limit_text
from tierwise.model.job import Constraint
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


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (Constraint(False, kind="fabric nvlink"), "soft, within one domain of fabric nvlink"),
        (
            Constraint(False, kind="fabric nvlink", preferred="block"),
            "soft, within one domain of fabric nvlink, preferably one block",
        ),
        (Constraint(True, 2, kind="fabric nvlink"), "hard, within one domain of tier 2 of fabric nvlink"),
        (Constraint(True, tier_name="feed", kind="fabric power", spread=2), "hard, in 2 feeds of fabric power or more"),
        (Constraint(False), "soft"),
    ],
)
def test_a_limit_in_words(constraint: Constraint, text: str) -> None:
    """A tier that a constraint does not name is not named."""
    topology = build(objects_of(draw("s0: r0[n0] r1[n1]")), now=0.0).topology

    assert text == limit_text(topology, constraint)
