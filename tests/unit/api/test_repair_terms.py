"""What a job wants when nodes are lost."""

from __future__ import annotations

import pytest

from tierwise.api.repair import OnNodeLoss, RepairTerms

ALL, REPLACE = OnNodeLoss.RESTART_ALL, OnNodeLoss.REPLACE


@pytest.mark.parametrize(
    ("terms", "usual", "wanted"),
    [
        (RepairTerms(on_node_loss=ALL), REPLACE, ALL),
        (RepairTerms(on_node_loss=REPLACE), ALL, REPLACE),
        (RepairTerms(), ALL, ALL),
        (RepairTerms(spares=1), ALL, ALL),
        (RepairTerms(spares=1), None, REPLACE),
        (RepairTerms(), None, None),
    ],
)
def test_the_word_of_a_job_counts_before_that_of_the_profile(
    terms: RepairTerms, usual: OnNodeLoss | None, wanted: OnNodeLoss | None
) -> None:
    """And where neither says anything, spares are there to be used."""
    assert wanted == terms.wish(usual)
