"""Compiled functions compute what they say, with or without a place to keep them."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

from mcne.kernels.compilation import CLOCK, compiled


def total(values: np.ndarray) -> float:
    found = 0.0
    for value in values:
        found += value
    return found


def test_where_nothing_can_be_kept_it_is_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Dispatcher) -> None:
        raise RuntimeError("cannot cache function 'total': no locator available")

    monkeypatch.setattr(Dispatcher, "enable_caching", refuse)
    monkeypatch.setattr(CLOCK, "is_kept", True)
    assert compiled(total)(np.arange(5.0)) == 10
    assert not CLOCK.is_kept


def test_what_is_not_a_number_stays_none() -> None:
    assert np.isnan(compiled(total)(np.array([1.0, np.nan])))
