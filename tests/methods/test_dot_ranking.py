"""What a GPU's kernels cannot hold is told."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from small_records import training_data

from mcne.kernels import backend
from mcne.methods import dot_ranking
from mcne.methods.dot_ranking import DotRanking


@pytest.mark.parametrize(("negatives", "is_told"), [(127, False), (128, True)])
def test_more_negatives_than_kernels_hold_are_told(
    negatives: int, is_told: bool, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """In rows of 100 numbers, which take 128."""
    kernels = SimpleNamespace(MOST_NUMBERS=1 << 14, block=lambda size: 1 << (size - 1).bit_length())
    kernels.fits = lambda n, width: kernels.block(1 + n) * kernels.block(width) <= kernels.MOST_NUMBERS
    monkeypatch.setattr(dot_ranking, "on_gpu", lambda name, device: kernels)
    monkeypatch.setattr(backend, "_warned", set())
    ranking = DotRanking(
        training_data(9),
        width=100,
        bias=True,
        negatives=negatives,
        batch_size=8,
        seed=0,
        device=torch.device("cuda", 0),
    )
    assert bool(ranking.joined) != is_told
    assert [str(each.message) for each in recwarn] == [
        "training on a GPU is slower, as its kernels do not hold 128 negatives in rows of 100 numbers and plain "
        "operations take their place; they hold at most 127 (settings negatives and width or widths)"
    ] * is_told
