"""Adam on rows of a table (reading 17), by the fastest backend."""

from __future__ import annotations

import torch
from torch import Tensor

from mcne.kernels.backend import compiled, in_blocks

NUMBERS_AT_ONCE = 1 << 18
"""On a CPU rows are updated a piece at a time, so that what is between two operations stays in cache."""


def adam_rows(
    table: Tensor,
    first: Tensor,
    second: Tensor,
    rows: Tensor,
    gradient: Tensor,
    *,
    betas: tuple[float, float],
    scale: float | Tensor,
    rate: float | Tensor,
    epsilon: float,
) -> None:
    """Move the distinct ``rows`` [r] of a ``table`` [n, d] and of its moments by their ``gradient`` [r, d], in place.

    ``scale`` is √(1 − β₂ᵗ), ``rate`` the learning rate over 1 − β₁ᵗ.
    """
    if table.device.type == "cpu" and (module := compiled("rows_numba")) is not None:
        arrays = [each.numpy() for each in (table, first, second, rows, gradient.contiguous())]
        kind = arrays[0].dtype.type
        numbers = [kind(number) for number in (*betas, *(1 - beta for beta in betas), scale, rate, epsilon)]
        in_blocks(len(rows), lambda start, stop, _: module.adam(*arrays, *numbers, start, stop))
        return
    size = max(1, NUMBERS_AT_ONCE // gradient.shape[1]) if gradient.device.type == "cpu" else len(gradient)
    for some, values in zip(torch.split(rows, size), torch.split(gradient, size), strict=True):
        m = first.index_select(0, some).lerp_(values, 1 - betas[0])
        v = second.index_select(0, some).mul_(betas[1]).addcmul_(values, values, value=1 - betas[1])
        first.index_copy_(0, some, m)
        second.index_copy_(0, some, v)
        change = m.div_(v.sqrt_().div_(scale).add_(epsilon)).mul_(rate)
        table.index_add_(0, some, change, alpha=-1)
