"""Scores made on a device are those made of the same vectors with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mcne.embeddings.scorer import DotScorer
from mcne.models import device_scorer
from mcne.models.device_scorer import DeviceScorer

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SIZES = (7, 30)


def both(bias: bool) -> tuple[DotScorer, DeviceScorer]:
    random = np.random.default_rng(0)
    vectors, masks = random.normal(size=(11, 6)).astype(np.float32), random.random((2, 6)) < 0.5
    items = tuple(random.normal(size=(n, 6)).astype(np.float32) for n in SIZES)
    added = tuple(random.normal(size=n).astype(np.float32) for n in SIZES) if bias else None
    there = DeviceScorer(
        torch.from_numpy(vectors).to(DEVICE),
        torch.from_numpy(masks).to(DEVICE),
        tuple(torch.from_numpy(each).to(DEVICE) for each in items),
        None if added is None else tuple(torch.from_numpy(each).to(DEVICE) for each in added),
    )
    return DotScorer(vectors, masks, items, added), there


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("behavior", [0, 1])
@pytest.mark.parametrize("at_once", [1, 40, 1 << 26])
def test_scores(bias: bool, behavior: int, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_scorer, "NUMBERS_AT_ONCE", at_once)
    plain, there = both(bias)
    users = np.array([3, 3, 0, 10], dtype=np.int32)
    items = np.random.default_rng(1).integers(0, SIZES[behavior], (4, 5)).astype(np.int32)
    np.testing.assert_allclose(there.scores(behavior, users, items), plain.scores(behavior, users, items), atol=1e-5)
    np.testing.assert_allclose(there.scores(behavior, users), plain.scores(behavior, users), atol=1e-5)


def test_a_pair_has_one_score_wherever_it_stands() -> None:
    _, there = both(bias=True)
    users, items = np.array([2, 2], dtype=np.int32), np.array([[1, 5, 1, 1], [6, 1, 5, 1]], dtype=np.int32)
    scores = there.scores(0, users, items)
    assert len({*scores[items == 1].tolist()}) == 1
    assert scores[0, 1] == scores[1, 2]


def test_nobody_is_asked_about() -> None:
    _, there = both(bias=True)
    nobody = np.zeros(0, dtype=np.int32)
    assert there.scores(1, nobody, np.zeros((0, 3), dtype=np.int32)).shape == (0, 3)
    assert there.scores(1, nobody).shape == (0, SIZES[1])
