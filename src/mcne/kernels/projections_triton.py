"""The weights of the attention under every mask, for NVIDIA GPUs: small work, so that launches are what it costs.

Legend: B behaviors, T attention width, D width of the vectors.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from mcne.kernels.edges_triton import block

COLUMNS_AT_ONCE = 32
ROWS_AT_ONCE = 64


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
def _halves_of_project(
    masks,
    of_first,  # [B, T, D]
    of_second,  # [B, T, D]
    of_project,  # [T, 2D] out
    n_b: tl.constexpr,
    n_t: tl.constexpr,
    n_d: tl.constexpr,
    block_d: tl.constexpr,
):
    t, d = tl.program_id(0), tl.arange(0, block_d)
    is_d = d < n_d
    left, right = tl.zeros((block_d,), tl.float32), tl.zeros((block_d,), tl.float32)
    for c in range(n_b):
        mask = tl.load(masks + c * n_d + d, mask=is_d, other=0.0)
        left += mask * tl.load(of_first + (c * n_t + t) * n_d + d, mask=is_d, other=0.0)
        right += mask * tl.load(of_second + (c * n_t + t) * n_d + d, mask=is_d, other=0.0)
    tl.store(of_project + t * 2 * n_d + d, left, mask=is_d)
    tl.store(of_project + t * 2 * n_d + n_d + d, right, mask=is_d)


@triton.jit
def _halves_of_masks(
    project,
    of_first,
    of_second,
    of_masks,  # [B, D] out
    n_t: tl.constexpr,
    n_d: tl.constexpr,
    block_t: tl.constexpr,
    block_d: tl.constexpr,
):
    c, d = tl.program_id(0), tl.program_id(1) * block_d + tl.arange(0, block_d)
    t, is_d = tl.arange(0, block_t), d < n_d
    total = tl.zeros((block_d,), tl.float32)
    for some in range(0, n_t, block_t):
        row, both = some + t[:, None], ((some + t) < n_t)[:, None] & is_d[None, :]
        own, at = row * 2 * n_d + d[None, :], (c * n_t + row) * n_d + d[None, :]
        left = tl.load(project + own, mask=both, other=0.0) * tl.load(of_first + at, mask=both, other=0.0)
        right = tl.load(project + own + n_d, mask=both, other=0.0) * tl.load(of_second + at, mask=both, other=0.0)
        total += tl.sum(left + right, axis=0)
    tl.store(of_masks + c * n_d + d, total, mask=is_d)


class MaskedHalves(torch.autograd.Function):
    """:func:`mcne.kernels.projections.masked_halves` in single precision."""

    @staticmethod
    def forward(ctx: Any, project: Tensor, masks: Tensor) -> tuple[Tensor, Tensor]:
        """See the function."""
        project, masks = project.contiguous(), masks.contiguous()
        (n_b, n_d), n_t = masks.shape, len(project)
        first, second = (masks.new_empty(n_b * n_t, n_d) for _ in range(2))
        _halves[(n_b * n_t,)](project, masks, first, second, n_t, n_d, block(n_d))
        ctx.save_for_backward(project, masks)
        return first, second

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        """See the function."""
        project, masks = ctx.saved_tensors
        (n_b, n_d), n_t = masks.shape, len(project)
        first, second = (gradient.contiguous() for gradient in gradients)
        of_project, of_masks = torch.empty_like(project), torch.empty_like(masks)
        _halves_of_project[(n_t,)](masks, first, second, of_project, n_b, n_t, n_d, block(n_d))
        _halves_of_masks[(n_b, triton.cdiv(n_d, COLUMNS_AT_ONCE))](
            *(project, first, second, of_masks, n_t, n_d, min(block(n_t), ROWS_AT_ONCE), COLUMNS_AT_ONCE)
        )
        return of_project, of_masks
