"""Sorting and adding up in arrays, against the plain way."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tierwise.model.arrays import begins, order_by, ordinals


@given(st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=1, max_size=12))
def test_keys_that_tell_nothing_apart_change_no_order(rows: list[tuple[int, int, int]]) -> None:
    """Some of the keys are often all the same; equal rows stay as they are."""
    assert sorted(range(len(rows)), key=rows.__getitem__) == order_by(*np.array(rows).T).tolist()


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=12))
def test_a_run_begins_where_some_column_differs_from_the_entry_before(rows: list[tuple[int, bool]]) -> None:
    """The first entry begins one as well, and of nothing nothing does."""
    columns = np.array([a for a, _ in rows], dtype=np.int64), np.array([b for _, b in rows], dtype=bool)
    assert [i == 0 or rows[i - 1] != row for i, row in enumerate(rows)] == begins(*columns).tolist()


@given(st.lists(st.integers(-1, 3), max_size=12))
def test_ordinals_count_the_like_before(groups: list[int]) -> None:
    """The first of a group is number 0."""
    expected = [groups[:i].count(group) for i, group in enumerate(groups)]
    assert expected == ordinals(np.array(groups, dtype=np.int64)).tolist()
