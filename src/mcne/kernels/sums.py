"""Sums of rows of a table, many at a time: of the items that each user has, of the friends that each user follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from mcne.kernels.rows import group_places

Array = NDArray[np.int64]


@dataclass(frozen=True)
class Sums:
    """Which of m rows each of n sums adds up: ``row[first[i]:first[i + 1]]``, and the same from the rows' end."""

    first: Tensor  # [n + 1]
    row: Tensor  # [E]
    first_of_row: Tensor  # [m + 1]
    sum_of_row: Tensor  # [E]

    @classmethod
    def of(cls, first: Array, row: Array, n_rows: int, device: torch.device) -> Sums:
        """The sums of these lists of rows below ``n_rows``."""
        order, start, _ = group_places(row, n_rows)
        owner = np.repeat(np.arange(len(first) - 1), np.diff(first))[order]
        arrays = first, row, np.append(start, len(row)), owner
        return cls(*(torch.from_numpy(np.ascontiguousarray(each, dtype=np.int64)).to(device) for each in arrays))


def add_up(table: Tensor, sums: Sums) -> Tensor:
    """The sums of rows of a ``table`` [m, d], [n, d], with the same bytes on any number of threads."""
    added: Tensor = _AddUp.apply(table, sums)  # type: ignore[no-untyped-call] # as PyTorch declares it
    return added


def add_up_lists(table: Tensor, first: Tensor, row: Tensor) -> Tensor:
    """:func:`add_up` without a gradient, for lists that are summed up once."""
    return functional.embedding_bag(row, table, first, mode="sum", include_last_offset=True)


class _AddUp(torch.autograd.Function):
    """The gradient of a row is the sum of the gradients of the sums that it is part of."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, sums: Sums) -> Tensor:
        ctx.sums = sums
        return add_up_lists(table, sums.first, sums.row)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return add_up_lists(gradients[0].contiguous(), ctx.sums.first_of_row, ctx.sums.sum_of_row), None
