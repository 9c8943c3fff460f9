"""Rows of a table looked up, updated by Adam (reading 17), and grouped by who refers to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mcne.kernels.backend import backend_for, in_blocks

BETAS = (0.9, 0.999)
EPSILON = 1e-8


@dataclass(frozen=True)
class Groups:
    """Places grouped by the row that they refer to, so that one program can sum up all of a row.

    The places of row j are ``order[start[j]:stop[j]]``, increasing.
    """

    order: Tensor  # [places, at least]
    start: Tensor  # [m]
    stop: Tensor  # [m]


def group_places(keys: NDArray[Any], n_keys: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The groups of ``keys`` below ``n_keys``, whose places are those of the flattened keys: order, start and stop."""
    from mcne.kernels.numba.rows import grouped

    first, order = grouped(keys, n_keys)
    return order, first[:-1], first[1:]


def take_rows(table: Tensor, rows: Tensor) -> Tensor:
    """The ``rows`` [r] of a ``table`` [n, d]: [r, d]. On a GPU rows below 0 are nobody's, and zeros."""
    if backend_for(table.device) == "triton":
        from mcne.kernels.triton.rows import gather

        return gather(table, rows)
    return table.index_select(0, rows)


def update_rows(
    table: Tensor, first: Tensor, second: Tensor, rows: Tensor, gradient: Tensor, *, steps: Tensor, learning_rate: float
) -> None:
    """Move the distinct ``rows`` [r] of a ``table`` [n, d] and of its moments by their ``gradient`` [r, d], in place.

    ``steps`` [] counts this one too. On a GPU rows below 0 are nobody's.
    """
    backend = backend_for(table.device)
    if backend == "triton":
        from mcne.kernels.triton import rows as on_gpu

        on_gpu.adam(table, first, second, rows, gradient, steps=steps, learning_rate=learning_rate)
        return
    done = steps.double() if steps.is_cuda else int(steps)
    keep, keep_second = BETAS
    scale, rate = (1 - keep_second**done) ** 0.5, learning_rate / (1 - keep**done)
    if backend == "numba":
        from mcne.kernels.numba.rows import adam

        arrays = [each.numpy() for each in (table, first, second, rows, gradient.contiguous())]
        kind = arrays[0].dtype.type
        numbers = tuple(kind(number) for number in (*BETAS, 1 - keep, 1 - keep_second, scale, rate, EPSILON))
        in_blocks(len(rows), lambda start, stop, _: adam(*arrays, numbers, start, stop), numbers=gradient.numel())
        return
    m = first.index_select(0, rows).lerp_(gradient, 1 - keep)
    v = second.index_select(0, rows).mul_(keep_second).addcmul_(gradient, gradient, value=1 - keep_second)
    first.index_copy_(0, rows, m)
    second.index_copy_(0, rows, v)
    change = m.div_(v.sqrt_().div_(scale).add_(EPSILON)).mul_(rate)
    table.index_add_(0, rows, change, alpha=-1)
