"""The order of random keys: compiled it is that of a stable sort."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcne.randomness import Stream
from mcne.sampling.order_numba import order
from mcne.sampling.positives import Positives

LARGEST = 2**64 - 1


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 63, 64, 65, 1000, 100_000])
def test_random_keys(size: int) -> None:
    keys = Stream(size, "keys").bits(size)
    found = order(keys)
    assert found.dtype == np.int64
    assert np.array_equal(found, np.argsort(keys, kind="stable"))


@given(st.lists(st.sampled_from([0, 1, 2**32, 2**63 - 1, 2**63, LARGEST - 1, LARGEST])))
def test_equal_and_extreme_keys(listed: list[int]) -> None:
    keys = np.array(listed, np.uint64)
    assert order(keys).tolist() == np.argsort(keys, kind="stable").tolist()


def test_without_numba_the_shuffles_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = Positives([5000], batch_size=5000, seed=1).rows(0, 0, 0)
    monkeypatch.setitem(sys.modules, "mcne.sampling.order_numba", None)
    plain = Positives([5000], batch_size=5000, seed=1).rows(0, 0, 0)
    assert np.array_equal(compiled, plain)
    assert compiled.tolist() == Stream(1, "positives", 0, 0, 0).permutation(5000).tolist()
