"""Scores that cannot be compared are refused, however many rows they are for."""

from __future__ import annotations

import numpy as np
import pytest

from tierwise.framework.answers import AnswerError, scores_of


@pytest.mark.parametrize("rows", [3, 9_999, 10_001])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e9, -1e12])
def test_one_bad_score_is_enough(rows: int, bad: float) -> None:
    """Numbers of many rows are added up in another way than those of few."""
    scores = np.full(rows, 99.5)
    scores_of(scores, rows)
    scores[rows // 2] = bad

    with pytest.raises(AnswerError):
        scores_of(scores, rows)
