"""The weights of the attention under every mask, for NVIDIA GPUs: small work, so that launches are what it costs.

What is left to be summed up of pieces is summed up here as well.

Legend: B behaviors, T attention width, D width of the vectors.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from mcne.kernels.triton.edges import block

COLUMNS_AT_ONCE = 16
ROWS_AT_ONCE = 64
PIECES_AT_ONCE = 128


@triton.jit
def _halves(
    project,  # [T, 2D]
    masks,  # [B, D]
    first,  # [B, T, D] out
    second,  # [B, T, D] out
    n_t: tl.constexpr,
    n_d: tl.constexpr,
    block_d: tl.constexpr,
):
    row, d = tl.program_id(0), tl.arange(0, block_d)
    is_d, at = d < n_d, row % n_t * 2 * n_d + d
    mask = tl.load(masks + row // n_t * n_d + d, mask=is_d, other=0.0)
    tl.store(first + row * n_d + d, mask * tl.load(project + at, mask=is_d, other=0.0), mask=is_d)
    tl.store(second + row * n_d + d, mask * tl.load(project + at + n_d, mask=is_d, other=0.0), mask=is_d)


@triton.jit
def _of_halves(
    project,
    masks,
    of_first,  # [B, T, D]
    of_second,  # [B, T, D]
    scores,  # [P, T] to be summed up, if there are any
    more_masks,  # [R, B, D] to be summed up, if there are any
    of_project,  # [T, 2D] out
    of_masks,  # [B, D] out
    of_score,  # [T] out
    n_scores,  # P
    n_more,  # R
    n_b: tl.constexpr,
    n_t: tl.constexpr,
    n_d: tl.constexpr,
    block_t: tl.constexpr,
    block_d: tl.constexpr,
    block_c: tl.constexpr,
    block_i: tl.constexpr,
):
    """The first programs take a row of the weights each, the next some columns of a mask, the last some scores."""
    n_columns: tl.constexpr = (n_d + block_c - 1) // block_c
    at = tl.program_id(0)
    if at < n_t:
        d = tl.arange(0, block_d)
        is_d = d < n_d
        left, right = tl.zeros((block_d,), tl.float32), tl.zeros((block_d,), tl.float32)
        for c in range(n_b):
            mask = tl.load(masks + c * n_d + d, mask=is_d, other=0.0)
            left += mask * tl.load(of_first + (c * n_t + at) * n_d + d, mask=is_d, other=0.0)
            right += mask * tl.load(of_second + (c * n_t + at) * n_d + d, mask=is_d, other=0.0)
        tl.store(of_project + at * 2 * n_d + d, left, mask=is_d)
        tl.store(of_project + at * 2 * n_d + n_d + d, right, mask=is_d)
    elif at < n_t + n_b * n_columns:
        row, column = (at - n_t) // n_columns, (at - n_t) % n_columns * block_c + tl.arange(0, block_c)
        t, i, is_column = tl.arange(0, block_t), tl.arange(0, block_i), column < n_d
        total = tl.zeros((block_c,), tl.float32)
        for some in range(0, n_t, block_t):
            both = ((some + t) < n_t)[:, None] & is_column[None, :]
            of_row = (row * n_t + some + t)[:, None] * n_d + column[None, :]
            own = (some + t)[:, None] * 2 * n_d + column[None, :]
            one = tl.load(project + own, mask=both, other=0.0) * tl.load(of_first + of_row, mask=both, other=0.0)
            other = tl.load(project + own + n_d, mask=both, other=0.0)
            total += tl.sum(one + other * tl.load(of_second + of_row, mask=both, other=0.0), axis=0)
        for some in range(0, n_more, block_i):
            both = ((some + i) < n_more)[:, None] & is_column[None, :]
            piece = ((some + i)[:, None] * n_b + row) * n_d + column[None, :]
            total += tl.sum(tl.load(more_masks + piece, mask=both, other=0.0), axis=0)
        tl.store(of_masks + row * n_d + column, total, mask=is_column)
    else:
        k, of_all = (at - n_t - n_b * n_columns) * block_c + tl.arange(0, block_c), tl.zeros((block_c,), tl.float32)
        place, is_k = tl.arange(0, block_i), k < n_t
        for some in range(0, n_scores, block_i):
            both = ((some + place) < n_scores)[:, None] & is_k[None, :]
            of_all += tl.sum(tl.load(scores + (some + place)[:, None] * n_t + k[None, :], mask=both, other=0.0), axis=0)
        tl.store(of_score + k, of_all, mask=is_k)


def halves(project: Tensor, masks: Tensor) -> Tensor:
    """``W diag m_c`` of both halves of ``project`` [T, 2D] and every mask of ``masks`` [B, D]: [2, B · T, D]."""
    (n_b, n_d), n_t = masks.shape, len(project)
    both = masks.new_empty(2, n_b * n_t, n_d)
    _halves[(n_b * n_t,)](project, masks, both[0], both[1], n_t, n_d, block(n_d))
    return both


def of_halves(
    project: Tensor, masks: Tensor, of_first: Tensor, of_second: Tensor, scores: Tensor, more_masks: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of ``project`` and of ``masks``, given those of both halves, and that of a score [T], which is the
    sum of ``scores`` [P, T]; to the masks the sum of ``more_masks`` [R, B, D] is added."""
    (n_b, n_d), n_t = masks.shape, len(project)
    of_project, of_masks, of_score = torch.empty_like(project), torch.empty_like(masks), project.new_empty(n_t)
    n_programs = n_t + n_b * triton.cdiv(n_d, COLUMNS_AT_ONCE) + triton.cdiv(n_t, COLUMNS_AT_ONCE)
    _of_halves[(n_programs,)](
        *(project, masks, of_first, of_second, scores, more_masks, of_project, of_masks, of_score),
        *(len(scores), len(more_masks), n_b, n_t, n_d),
        *(min(block(n_t), ROWS_AT_ONCE), block(n_d), COLUMNS_AT_ONCE, PIECES_AT_ONCE),
    )
    return of_project, of_masks, of_score


class MaskedHalves(torch.autograd.Function):
    """:func:`mcne.kernels.projections.masked_halves` in single precision."""

    @staticmethod
    def forward(ctx: Any, project: Tensor, masks: Tensor) -> tuple[Tensor, Tensor]:
        """See the function."""
        project, masks = project.contiguous(), masks.contiguous()
        ctx.save_for_backward(project, masks)
        first, second = halves(project, masks)
        return first, second

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        """See the function."""
        project, masks = ctx.saved_tensors
        first, second = (gradient.contiguous() for gradient in gradients)
        nothing = masks.new_empty(0, len(project)), masks.new_empty(0, *masks.shape)
        of_project, of_masks, _ = of_halves(project, masks, first, second, *nothing)
        return of_project, of_masks
