"""What a GPU's kernels cannot hold is told."""

from __future__ import annotations

import pytest
import torch
from tests.models.small_records import training_data

from mcne.kernels import backend
from mcne.models import dot_ranking
from mcne.models.dot_ranking import DotRanking

kernels = pytest.importorskip("mcne.kernels.triton.triples", reason="Triton is made for Linux alone")


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
    monkeypatch.setattr(dot_ranking, "on_gpu", lambda name, device: kernels)
    monkeypatch.setattr(backend, "_warned", set())
    sizes = {"width": width, "negatives": negatives, "batch_size": 8}
    ranking = DotRanking(training_data(9), **sizes, bias=True, seed=0, device=torch.device("cuda", 0))
    assert bool(ranking.joined) == (told is None)
    said = [str(each.message) for each in recwarn]
    assert said == ([] if told is None else [f"training on a GPU is slower, as its kernels {told}"])
