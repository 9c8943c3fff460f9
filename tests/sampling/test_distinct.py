"""Distinct numbers: sorted or marked, they are the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcne.sampling.distinct import SPARSE, distinct


@given(st.lists(st.lists(st.integers(0, 19)), min_size=1, max_size=3))
def test_marking_equals_sorting(lists: list[list[int]]) -> None:
    drawn = [np.array(each, np.int64) for each in lists]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mcne.sampling.distinct.SPARSE", 20)
        marked = distinct(20, *drawn)
        patch.setattr("mcne.sampling.distinct.SPARSE", 0)
        in_order = distinct(20, *drawn)
    assert marked[0].tolist() == in_order[0].tolist() == sorted({number for each in lists for number in each})
    assert [rows.tolist() for rows in marked[1]] == [rows.tolist() for rows in in_order[1]]
    for each, rows in zip(lists, marked[1], strict=True):
        assert marked[0][rows].tolist() == each


def test_rows_have_the_shape_of_what_was_drawn() -> None:
    for size in (6, 20 * SPARSE):  # marked, sorted
        keys, (flat, square) = distinct(size, np.array([5, 0]), np.array([[5, 3], [3, 3]], np.int32))
        assert keys.tolist() == [0, 3, 5]
        assert (flat.tolist(), square.tolist()) == ([2, 0], [[2, 1], [1, 1]])
        assert {each.dtype for each in (keys, flat, square)} == {np.dtype(np.int64)}
