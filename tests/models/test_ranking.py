"""Scores computed on a device equal those that NumPy computes, and users learn what a GPU's kernels cannot hold."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.models.small_records import training_data

from mcne.embeddings.ranking import DotScorer
from mcne.kernels import backend
from mcne.models import ranking
from mcne.models.bpr import BPRConfig
from mcne.models.ranking import DeviceScorer, DotRanking

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SIZES = (7, 30)


def both(bias: bool) -> tuple[DotScorer, DeviceScorer]:
    random = np.random.default_rng(0)
    vectors, masks = random.normal(size=(11, 6)).astype(np.float32), random.random((2, 6)) < 0.5
    items = tuple(random.normal(size=(n, 6)).astype(np.float32) for n in SIZES)
    added = tuple(random.normal(size=n).astype(np.float32) for n in SIZES) if bias else None
    on_gpu = DeviceScorer(
        torch.from_numpy(vectors).to(DEVICE),
        torch.from_numpy(masks).to(DEVICE),
        tuple(torch.from_numpy(each).to(DEVICE) for each in items),
        None if added is None else tuple(torch.from_numpy(each).to(DEVICE) for each in added),
    )
    return DotScorer(vectors, masks, items, added), on_gpu


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("behavior", [0, 1])
@pytest.mark.parametrize("at_once", [1, 40, 1 << 26])
def test_scores(bias: bool, behavior: int, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "GATHERED_AT_ONCE", at_once)
    plain, on_gpu = both(bias)
    users = np.array([3, 3, 0, 10], dtype=np.int32)
    items = np.random.default_rng(1).integers(0, SIZES[behavior], (4, 5)).astype(np.int32)
    np.testing.assert_allclose(on_gpu.scores(behavior, users, items), plain.scores(behavior, users, items), atol=1e-5)
    np.testing.assert_allclose(on_gpu.scores(behavior, users), plain.scores(behavior, users), atol=1e-5)


def test_a_pair_has_one_score_wherever_it_stands() -> None:
    _, on_gpu = both(bias=True)
    users, items = np.array([2, 2], dtype=np.int32), np.array([[1, 5, 1, 1], [6, 1, 5, 1]], dtype=np.int32)
    scores = on_gpu.scores(0, users, items)
    assert len({*scores[items == 1].tolist()}) == 1
    assert scores[0, 1] == scores[1, 2]


def test_nobody_is_asked_about() -> None:
    _, on_gpu = both(bias=True)
    nobody = np.zeros(0, dtype=np.int32)
    assert on_gpu.scores(1, nobody, np.zeros((0, 3), dtype=np.int32)).shape == (0, 3)
    assert on_gpu.scores(1, nobody).shape == (0, SIZES[1])


@pytest.mark.parametrize(
    ("width", "negatives", "told"),
    [
        (100, 127, None),
        (
            100,
            128,
            "do not hold 128 negatives in rows of 100 numbers and plain operations take their place; they "
            "hold at most 127 (settings negatives and width or widths)",
        ),
        (
            8193,
            1,
            "do not hold 1 negatives in rows of 8,193 numbers and plain operations take their place; they hold "
            "none in such rows (settings negatives and width or widths)",
        ),
    ],
)
def test_more_negatives_than_kernels_hold_are_told(
    width: int, negatives: int, told: str | None, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    pytest.importorskip("mcne.kernels.triton.triples", reason="Triton is made for Linux alone")
    monkeypatch.setattr(ranking, "backend_for", lambda device: "triton")
    monkeypatch.setattr(backend, "_warned", set())
    config = BPRConfig(negatives=negatives, batch_size=8)
    items = DotRanking(training_data(9), config, width=width, bias=True, seed=0, device=torch.device("cuda", 0))
    assert bool(items.joined) == (told is None)
    messages = [str(each.message) for each in recwarn]
    assert messages == ([] if told is None else [f"training on a GPU is slower, as its kernels {told}"])
