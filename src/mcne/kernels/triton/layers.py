"""A message layer with attention as a whole, and its parts for layers without, forward and backward, for NVIDIA GPUs.

Matrix products are left to PyTorch and edges to :mod:`mcne.kernels.triton.edges`. Gradients are written by hand, so
that kernels write where products read, and products add to existing sums: what is copied and added up between them
otherwise takes as long as the work itself. Nothing is added to by two programs.

Legend: m vectors of width D below, n receivers among them, S edges to each, B behaviors, T attention width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from mcne.kernels.backend import MOST_NUMBERS
from mcne.kernels.edges import TensorHop
from mcne.kernels.rows import Groups
from mcne.kernels.triton import edges as along_edges
from mcne.kernels.triton.edges import COLUMNS_AT_ONCE, NUMBERS_AT_ONCE
from mcne.kernels.triton.rows import block, gather

RECEIVERS_AT_ONCE, MASK_PIECES, SCORE_PIECES = 16, 132, 1024
"""The gradients of masks and scores are summed up over all receivers in so many pieces."""

NUMBERS_PER_WARP, PROJECTED_PER_WARP = 1024, 2048
"""Of a receiver's edges: with more, a program takes so many registers that few run at once."""

MASK_COLUMNS_AT_ONCE, WEIGHT_ROWS_AT_ONCE, PIECES_AT_ONCE = 16, 64, 128
"""Of the weights of the attention under every mask: small work, so that launches are what it costs."""


@dataclass(frozen=True)
class Edges:
    """What is sent along the edges of a layer, and to whom; rows of ``near`` and ``here`` may be apart."""

    vectors: Tensor  # [m, D]
    near: Tensor  # [m, B · T]
    here: Tensor  # [n, B · T]
    score: Tensor  # [T]
    masks: Tensor  # [B, D]
    sender: Tensor  # [n, S]
    has_neighbors: Tensor  # [n]

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """S, B, T and D."""
        return self.sender.shape[1], len(self.masks), len(self.score), self.masks.shape[1]

    def send(self, messages: Tensor) -> tuple[Tensor, Tensor]:
        """Write what receivers get, [n, D], whose rows may be apart; returns the weights of behaviors, [n, S, B], and
        the sums of what each behavior adds, [n, B, D]."""
        (n_s, n_b, _, n_d), n = self.sizes, len(self.here)
        weights, sums = self.vectors.new_empty(n, n_s, n_b), self.vectors.new_empty(n, n_b, n_d)
        along_edges.forward[(n,)](
            *(self.vectors, self.near, self.here, self.score, self.masks, self.sender, self.has_neighbors),
            *(messages, weights, sums, self.near.stride(0), self.here.stride(0), messages.stride(0)),
            *self.sizes,
        )
        return weights, sums

    def by_receiver(self, gradient: Tensor, weights: Tensor, of_here: Tensor) -> tuple[Tensor, Tensor]:
        """Write the gradient of ``here``, given that of messages [n, D], whose rows may be apart; returns those before
        the softmax [n, S, B], and of ``score`` [P, T], to be summed up."""
        (n_s, n_b, n_t, n_d), n = self.sizes, len(self.here)
        of_logits, of_score = torch.empty_like(weights), weights.new_empty(min(n, SCORE_PIECES), n_t)
        along_edges.backward_of_logits[(n,)](
            *(gradient, self.vectors, self.masks, self.sender, self.has_neighbors, weights, of_logits),
            *(gradient.stride(0), n_s, n_b, n_d),
            num_warps=min(8, max(1, block(n_s) * block(n_d) // NUMBERS_PER_WARP)),
        )
        along_edges.backward_by_receiver[(len(of_score),)](
            *(self.near, self.here, self.score, self.sender, self.has_neighbors, of_logits, of_here, of_score),
            *(n, self.near.stride(0), self.here.stride(0), n_s, n_b, n_t),
            num_warps=min(8, max(1, block(n_s) * block(n_t) // PROJECTED_PER_WARP)),
        )
        return of_logits, of_score

    def of_masks(self, gradient: Tensor, sums: Tensor) -> Tensor:
        """The gradient of ``masks`` [P, B, D], to be summed up."""
        (n_s, n_b, _, n_d), n = self.sizes, len(self.here)
        of_masks = sums.new_empty(min(triton.cdiv(n, RECEIVERS_AT_ONCE), MASK_PIECES), n_b, n_d)
        tall = max(1, min(RECEIVERS_AT_ONCE, MOST_NUMBERS // block(n_d)))
        along_edges.backward_of_masks[of_masks.shape[:2]](
            *(gradient, sums, self.has_neighbors, of_masks, n, gradient.stride(0), n_s, n_b, n_d, tall),
        )
        return of_masks

    def by_sender(
        self, gradient: Tensor, of_own: Tensor, groups: Groups, weights: Tensor, of_logits: Tensor, of_near: Tensor
    ) -> Tensor:
        """Write the gradient of ``near``; returns that of ``vectors``, given those of messages [n, D] and of what
        receivers are themselves [n, D], whose rows are equally far apart."""
        (n_s, n_b, n_t, n_d), of_vectors = self.sizes, torch.empty_like(self.vectors)
        columns, wide = min(block(n_d), COLUMNS_AT_ONCE), block(n_t)
        tall = [max(1, NUMBERS_AT_ONCE // each) for each in (max(columns, block(n_b)), wide)]
        along_edges.backward_by_sender[(len(self.vectors), triton.cdiv(n_d, columns) + n_b)](
            *(gradient, of_own, self.near, self.here, self.score, self.masks, groups.order, groups.start, groups.stop),
            *(weights, of_logits, of_vectors, of_near, self.sender.numel()),
            *(gradient.stride(0), self.near.stride(0), self.here.stride(0), n_s, n_b, n_t, n_d),
            *(tall[0], columns, tall[1]),
            num_warps=1,
        )
        return of_vectors


class MessageLayer(torch.autograd.Function):
    """:func:`mcne.kernels.edges.aggregate` in single precision, for a hop that is grouped by sender."""

    @staticmethod
    def forward(
        ctx: Any, vectors: Tensor, masks: Tensor, project: Tensor, score: Tensor, combine: Tensor, hop: TensorHop
    ) -> Tensor:
        """``vectors`` [m, D], ``masks`` [B, D], ``project`` [T, 2D], ``score`` [T], ``combine`` [O, 2D] → [n, O]."""
        vectors, masks, project, score, combine = (
            each.contiguous() for each in (vectors, masks, project, score, combine)
        )
        n_d = vectors.shape[1]
        weights = halves(project, masks)  # [2, B · T, D]
        joined = vectors.new_empty(len(hop.receiver), 2 * n_d)  # [h_N, u] of Eq. 6
        messages, own = joined.chunk(2, dim=1)
        gather(vectors, hop.receiver, into=own)
        if hop.is_of_all:
            near, here = (vectors @ weights.flatten(0, 1).T).chunk(2, dim=1)
        else:
            near, here = vectors @ weights[0].T, own @ weights[1].T
        edges = Edges(vectors, near, here, score, masks, hop.sender, hop.has_neighbors)
        kept = edges.send(messages)
        ctx.save_for_backward(project, combine, weights, joined, *kept, vectors, near, here, score, masks)
        ctx.hop = hop
        return joined @ combine.T

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """By receiver first and then by sender."""
        project, combine, weights, joined, shares, sums, vectors, near, here, score, masks = ctx.saved_tensors
        hop, n_d = ctx.hop, vectors.shape[1]
        gradient = gradients[0].contiguous()
        edges = Edges(vectors, near, here, score, masks, hop.sender, hop.has_neighbors)
        of_messages, of_own = (gradient @ combine).chunk(2, dim=1)
        if hop.is_of_all:  # as they were made: both halves of a row side by side
            of_both = project.new_empty(len(vectors), 2 * near.shape[1])
            of_near, of_here = of_both.chunk(2, dim=1)
        else:
            of_near, of_here = torch.empty_like(near), torch.empty_like(here)
        of_logits, of_scores = edges.by_receiver(of_messages, shares, of_here)
        of_weights = torch.empty_like(weights)
        if not hop.is_of_all:
            torch.mm(of_here.T, joined[:, n_d:], out=of_weights[1])
            of_own.addmm_(of_here, weights[1])
        of_vectors = edges.by_sender(of_messages, of_own, hop.by_sender, shares, of_logits, of_near)
        if hop.is_of_all:
            torch.mm(of_both.T, vectors, out=of_weights.flatten(0, 1))
            of_vectors.addmm_(of_both, weights.flatten(0, 1))
        else:
            torch.mm(of_near.T, vectors, out=of_weights[0])
            of_vectors.addmm_(of_near, weights[0])
        of_project, of_masks, of_score = of_halves(
            project, masks, of_weights[0], of_weights[1], of_scores, edges.of_masks(of_messages, sums)
        )
        return of_vectors, of_masks, of_project, of_score, gradient.T @ joined, None


@triton.jit
def _halves(project, masks, first, second, n_t: tl.constexpr, n_d: tl.constexpr):
    """Write both halves, each [B, T, D]."""
    row, d = tl.program_id(0), tl.arange(0, block(n_d))
    is_d = d < n_d
    at = row % n_t * 2 * n_d + d
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
    block_c: tl.constexpr,
    block_i: tl.constexpr,
):
    """The first programs take a row of the weights each, the next some columns of a mask, the last some scores."""
    n_columns: tl.constexpr = (n_d + block_c - 1) // block_c
    at = tl.program_id(0)
    if at < n_t:
        d = tl.arange(0, block(n_d))
        is_d = d < n_d
        left, right = tl.zeros((block(n_d),), tl.float32), tl.zeros((block(n_d),), tl.float32)
        for c in range(n_b):
            mask = tl.load(masks + c * n_d + d, mask=is_d, other=0.0)
            left += mask * tl.load(of_first + (c * n_t + at) * n_d + d, mask=is_d, other=0.0)
            right += mask * tl.load(of_second + (c * n_t + at) * n_d + d, mask=is_d, other=0.0)
        tl.store(of_project + at * 2 * n_d + d, left, mask=is_d)
        tl.store(of_project + at * 2 * n_d + n_d + d, right, mask=is_d)
    elif at < n_t + n_b * n_columns:
        row, column = (at - n_t) // n_columns, (at - n_t) % n_columns * block_c + tl.arange(0, block_c)
        t, i = tl.arange(0, block_t), tl.arange(0, block_i)
        is_column = column < n_d
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
        k, place = (at - n_t - n_b * n_columns) * block_c + tl.arange(0, block_c), tl.arange(0, block_i)
        is_k = k < n_t
        of_all = tl.zeros((block_c,), tl.float32)
        for some in range(0, n_scores, block_i):
            both = ((some + place) < n_scores)[:, None] & is_k[None, :]
            of_all += tl.sum(tl.load(scores + (some + place)[:, None] * n_t + k[None, :], mask=both, other=0.0), axis=0)
        tl.store(of_score + k, of_all, mask=is_k)


def halves(project: Tensor, masks: Tensor) -> Tensor:
    """``W diag m_c`` of both halves of ``project`` [T, 2D] and every mask of ``masks`` [B, D]: [2, B · T, D]."""
    (n_b, n_d), n_t = masks.shape, len(project)
    both = masks.new_empty(2, n_b * n_t, n_d)
    _halves[(n_b * n_t,)](project, masks, both[0], both[1], n_t, n_d)
    return both


def of_halves(
    project: Tensor, masks: Tensor, of_first: Tensor, of_second: Tensor, scores: Tensor, more_masks: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of ``project`` and of ``masks``, given those of both halves, and that of a score [T], which is the
    sum of ``scores`` [P, T]; to the masks the sum of ``more_masks`` [R, B, D] is added."""
    (n_b, n_d), n_t = masks.shape, len(project)
    of_project, of_masks, of_score = torch.empty_like(project), torch.empty_like(masks), project.new_empty(n_t)
    n_programs = n_t + n_b * triton.cdiv(n_d, MASK_COLUMNS_AT_ONCE) + triton.cdiv(n_t, MASK_COLUMNS_AT_ONCE)
    _of_halves[(n_programs,)](
        *(project, masks, of_first, of_second, scores, more_masks, of_project, of_masks, of_score),
        *(len(scores), len(more_masks), n_b, n_t, n_d),
        *(min(block(n_t), WEIGHT_ROWS_AT_ONCE), MASK_COLUMNS_AT_ONCE, PIECES_AT_ONCE),
    )
    return of_project, of_masks, of_score


class MaskedHalves(torch.autograd.Function):
    """:func:`mcne.kernels.edges.masked_halves` in single precision."""

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


@triton.jit
def _backward_to_receivers(gradient, order, start, stop, of_vectors, n_edges, n_d: tl.constexpr):
    """Write ``of_vectors`` [m, D], given the ``gradient`` of the receivers [n, D]."""
    j = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, block(n_d))
    last = tl.load(stop + j)
    place = tl.load(order + last - 1, mask=last > tl.load(start + j), other=-1).to(tl.int64) - n_edges
    # the receiver, or below 0
    own = tl.load(gradient + place * n_d + d, mask=d < n_d * (place >= 0).to(tl.int32), other=0.0)
    tl.store(of_vectors + j * n_d + d, own, mask=d < n_d)


class Receivers(torch.autograd.Function):
    """:func:`mcne.kernels.edges.receivers_of`, where the places after all edges are those of the receivers."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, receiver: Tensor, groups: Groups, n_edges: int) -> Tensor:
        """See the function."""
        ctx.groups, ctx.n_edges, ctx.shape = groups, n_edges, vectors.shape
        return vectors.index_select(0, receiver)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """See the function."""
        groups, (m, n_d) = ctx.groups, ctx.shape
        of_vectors = gradients[0].new_empty(m, n_d)
        _backward_to_receivers[(m,)](
            gradients[0].contiguous(), groups.order, groups.start, groups.stop, of_vectors, ctx.n_edges, n_d
        )
        return of_vectors, None, None, None


@triton.jit
def _mean(vectors, sender, has_neighbors, messages, n_s: tl.constexpr, n_d: tl.constexpr):
    """Write ``messages`` [n, D]: the mean of ``vectors`` [m, D] by ``sender`` [n, S], zeros where nobody is heard."""
    r = tl.program_id(0).to(tl.int64)
    s, d = tl.arange(0, block(n_s)), tl.arange(0, block(n_d))
    is_d, is_s = d < n_d, s < n_s
    total = tl.zeros((block(n_d),), tl.float32)
    if tl.load(has_neighbors + r):
        j = tl.load(sender + r * n_s + s, mask=is_s, other=0).to(tl.int64)
        sent = tl.load(vectors + j[:, None] * n_d + d[None, :], mask=is_s[:, None] & is_d[None, :], other=0.0)
        total = tl.sum(sent, axis=0)
    tl.store(messages + r * n_d + d, total / n_s, mask=is_d)


@triton.jit
def _mean_backward(
    gradient,  # [n, D]
    order,
    start,
    stop,
    of_vectors,  # [m, D] out
    n_edges,
    n_s: tl.constexpr,
    n_d: tl.constexpr,
    block_e: tl.constexpr,
    block_c: tl.constexpr,
):
    j = tl.program_id(0).to(tl.int64)
    e, d = tl.arange(0, block_e), tl.program_id(1) * block_c + tl.arange(0, block_c)
    is_d = d < n_d
    some, last = tl.load(start + j), tl.load(stop + j)
    total = tl.zeros((block_c,), tl.float32)
    while some < last:
        edge = tl.load(order + some + e, mask=some + e < last, other=n_edges).to(tl.int64)
        at = (edge // n_s)[:, None] * n_d + d[None, :]
        total += tl.sum(tl.load(gradient + at, mask=(edge < n_edges)[:, None] & is_d[None, :], other=0.0), axis=0)
        some += block_e
    tl.store(of_vectors + j * n_d + d, total / n_s, mask=is_d)


class Mean(torch.autograd.Function):
    """:func:`mcne.kernels.edges.mean_of_senders` in single precision, of edges that are grouped by sender."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, sender: Tensor, has_neighbors: Tensor, groups: Groups) -> Tensor:
        """See the function."""
        (n, n_s), n_d = sender.shape, vectors.shape[1]
        messages = vectors.new_empty(n, n_d)
        _mean[(n,)](vectors.contiguous(), sender, has_neighbors, messages, n_s, n_d)
        ctx.groups, ctx.shapes = groups, (len(vectors), n, n_s, n_d)
        return messages

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """See the function."""
        (m, n, n_s, n_d), groups = ctx.shapes, ctx.groups
        of_vectors = gradients[0].new_empty(m, n_d)
        columns = min(block(n_d), COLUMNS_AT_ONCE)
        _mean_backward[(m, triton.cdiv(n_d, columns))](
            *(gradients[0].contiguous(), groups.order, groups.start, groups.stop, of_vectors, n * n_s),
            *(n_s, n_d, max(1, NUMBERS_AT_ONCE // columns), columns),
            num_warps=1,
        )
        return of_vectors, None, None, None
