"""Sorting and adding up in arrays, against the plain way."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tierwise.model.arrays import order_by


@given(st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=1, max_size=12))
def test_keys_that_tell_nothing_apart_change_no_order(rows: list[tuple[int, int, int]]) -> None:
    """Some of the keys are often all the same; equal rows stay as they are."""
    assert sorted(range(len(rows)), key=rows.__getitem__) == order_by(*np.array(rows).T).tolist()
