"""Rows of a table looked up, and moved by Adam (reading 17), by the fastest backend."""

from __future__ import annotations

import torch
from torch import Tensor

from mcne.kernels.backend import compiled, in_blocks, on_gpu

NUMBERS_AT_ONCE = 1 << 18
"""On a CPU rows are updated a piece at a time, so that what is between two operations stays in cache."""


def take_rows(table: Tensor, rows: Tensor) -> Tensor:
    """The ``rows`` [r] of a ``table`` [n, d]: [r, d]. On a GPU rows below 0 are nobody's, and zeros."""
    if (there := on_gpu("triton.rows", table.device)) is not None:
        values: Tensor = there.gather(table, rows)
        return values
    return table.index_select(0, rows)


def adam_rows(
    table: Tensor,
    first: Tensor,
    second: Tensor,
    rows: Tensor,
    gradient: Tensor,
    *,
    steps: Tensor,
    learning_rate: float,
    betas: tuple[float, float],
    epsilon: float,
) -> None:
    """Move the distinct ``rows`` [r] of a ``table`` [n, d] and of its moments by their ``gradient`` [r, d], in place.

    ``steps`` [] counts this one too. On a GPU rows below 0 are nobody's.
    """
    if (there := on_gpu("triton.rows", table.device)) is not None:
        there.adam(
            *(table, first, second, rows, gradient),
            steps=steps,
            learning_rate=learning_rate,
            betas=betas,
            epsilon=epsilon,
        )
        return
    done = steps.double() if steps.is_cuda else int(steps)
    scale, rate = (1 - betas[1] ** done) ** 0.5, learning_rate / (1 - betas[0] ** done)
    if table.device.type == "cpu" and (module := compiled("numba.rows")) is not None:
        arrays = [each.numpy() for each in (table, first, second, rows, gradient.contiguous())]
        kind = arrays[0].dtype.type
        numbers = [kind(number) for number in (*betas, *(1 - beta for beta in betas), scale, rate, epsilon)]
        in_blocks(
            len(rows), lambda start, stop, _: module.adam(*arrays, *numbers, start, stop), numbers=gradient.numel()
        )
        return
    size = max(1, NUMBERS_AT_ONCE // gradient.shape[1]) if gradient.device.type == "cpu" else len(gradient)
    for some, values in zip(torch.split(rows, size), torch.split(gradient, size), strict=True):
        m = first.index_select(0, some).lerp_(values, 1 - betas[0])
        v = second.index_select(0, some).mul_(betas[1]).addcmul_(values, values, value=1 - betas[1])
        first.index_copy_(0, some, m)
        second.index_copy_(0, some, v)
        change = m.div_(v.sqrt_().div_(scale).add_(epsilon)).mul_(rate)
        table.index_add_(0, some, change, alpha=-1)
