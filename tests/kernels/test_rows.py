"""Adam on rows: compiled it is what the operations of PyTorch give; what Adam is, test_optimizer.py holds both to."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mcne.kernels import backend
from mcne.kernels.rows import update_rows


def moved(dtype: torch.dtype, width: int) -> list[Tensor]:
    random = torch.Generator().manual_seed(width)
    table, first = (torch.randn(90, width, generator=random, dtype=dtype) for _ in range(2))
    second = torch.rand(90, width, generator=random, dtype=dtype)
    second[3] = 0
    rows = torch.randperm(90, generator=random)[:50]
    for _ in range(3):
        gradient = torch.randn(50, width, generator=random, dtype=dtype)
        update_rows(table, first, second, rows, gradient, steps=torch.tensor(3), learning_rate=0.02)
    return [table, first, second]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("width", [1, 7, 64])
def test_compiled_is_plain(dtype: torch.dtype, tolerance: float, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = moved(dtype, width)
    monkeypatch.setattr(backend, "ON_CPU", "torch")
    wanted = moved(dtype, width)
    for ours, theirs in zip(compiled, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def test_the_number_of_threads_changes_no_byte() -> None:
    before, outputs = torch.get_num_threads(), []
    try:
        for count in (1, 2, 5):
            torch.set_num_threads(count)
            outputs.append([each.numpy().tobytes() for each in moved(torch.float32, 17)])
    finally:
        torch.set_num_threads(before)
    assert outputs[0] == outputs[1] == outputs[2]
