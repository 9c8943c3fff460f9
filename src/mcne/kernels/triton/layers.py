"""A layer of message passing with attention as a whole, forward and backward, for NVIDIA GPUs.

Matrix products are left to PyTorch and edges to :mod:`mcne.kernels.triton.edges`. By hand, and not by PyTorch's own
gradients, so that kernels write where products read, and products add to what is there: what is copied and added up
between them otherwise takes as long as the work itself.

Legend: m vectors of width D below, n receivers among them, B behaviors, T attention width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor

from mcne.kernels.edges import TensorHop
from mcne.kernels.groups import Groups
from mcne.kernels.triton import edges as along_edges
from mcne.kernels.triton.edges import block
from mcne.kernels.triton.projections import halves, of_halves
from mcne.kernels.triton.rows import gather

RECEIVERS_AT_ONCE, MASK_PIECES, SCORE_PIECES = 16, 132, 1024
"""What masks and scores hear of all receivers is summed up in so many pieces."""


NUMBERS_PER_WARP, PROJECTED_PER_WARP = 1024, 2048
"""Of a receiver's edges: with more, a program takes so many registers that few run at once."""


@dataclass(frozen=True)
class Edges:
    """What is sent along the edges of a layer, and to whom; rows of ``near`` and ``here`` may be apart."""

    vectors: Tensor  # [m, D]
    near: Tensor  # [m, B · T]
    here: Tensor  # [n, B · T]
    score: Tensor  # [T]
    masks: Tensor  # [B, D]
    sender: Tensor  # [n, S]
    heard: Tensor  # [n]

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """S, B, T and D."""
        return self.sender.shape[1], len(self.masks), len(self.score), self.masks.shape[1]

    def send(self, messages: Tensor) -> tuple[Tensor, Tensor]:
        """Write what receivers hear, [n, D], whose rows may be apart; returns how they weigh behaviors, [n, S, B], and
        what they would hear of each, [n, B, D]."""
        (n_s, n_b, _, n_d), n = self.sizes, len(self.here)
        weights, sums = self.vectors.new_empty(n, n_s, n_b), self.vectors.new_empty(n, n_b, n_d)
        along_edges.forward[(n,)](
            *(self.vectors, self.near, self.here, self.score, self.masks, self.sender, self.heard),
            *(messages, weights, sums, self.near.stride(0), self.here.stride(0), messages.stride(0)),
            *(*self.sizes, *map(block, self.sizes)),
        )
        return weights, sums

    def by_receiver(self, gradient: Tensor, weights: Tensor, of_here: Tensor) -> tuple[Tensor, Tensor]:
        """Write the gradient of ``here``, given that of messages [n, D], whose rows may be apart; returns those before
        the softmax [n, S, B], and of ``score`` [P, T], to be summed up."""
        (n_s, n_b, n_t, n_d), n = self.sizes, len(self.here)
        of_logits, of_score = torch.empty_like(weights), weights.new_empty(min(n, SCORE_PIECES), n_t)
        along_edges.backward_of_logits[(n,)](
            *(gradient, self.vectors, self.masks, self.sender, self.heard, weights, of_logits),
            *(gradient.stride(0), n_s, n_b, n_d, block(n_s), block(n_b), block(n_d)),
            num_warps=min(8, max(1, block(n_s) * block(n_d) // NUMBERS_PER_WARP)),
        )
        along_edges.backward_by_receiver[(len(of_score),)](
            *(self.near, self.here, self.score, self.sender, self.heard, of_logits, of_here, of_score),
            *(n, self.near.stride(0), self.here.stride(0), n_s, n_b, n_t, block(n_s), block(n_t)),
            num_warps=min(8, max(1, block(n_s) * block(n_t) // PROJECTED_PER_WARP)),
        )
        return of_logits, of_score

    def of_masks(self, gradient: Tensor, sums: Tensor) -> Tensor:
        """The gradient of ``masks`` [P, B, D], to be summed up."""
        (n_s, n_b, _, n_d), n = self.sizes, len(self.here)
        of_masks = sums.new_empty(min(triton.cdiv(n, RECEIVERS_AT_ONCE), MASK_PIECES), n_b, n_d)
        tall = max(1, min(RECEIVERS_AT_ONCE, along_edges.MOST_NUMBERS // block(n_d)))
        along_edges.backward_of_masks[of_masks.shape[:2]](
            *(gradient, sums, self.heard, of_masks, n, gradient.stride(0), n_s, n_b, n_d),
            *(tall, block(n_d)),
        )
        return of_masks

    def by_sender(
        self, gradient: Tensor, of_own: Tensor, groups: Groups, weights: Tensor, of_logits: Tensor, of_near: Tensor
    ) -> Tensor:
        """Write the gradient of ``near``; returns that of ``vectors``, given those of messages [n, D] and of what
        receivers are themselves [n, D], whose rows are equally far apart."""
        (n_s, n_b, n_t, n_d), of_vectors = self.sizes, torch.empty_like(self.vectors)
        columns, wide = min(block(n_d), along_edges.COLUMNS_AT_ONCE), block(n_t)
        tall = [max(1, along_edges.NUMBERS_AT_ONCE // each) for each in (max(columns, block(n_b)), wide)]
        along_edges.backward_by_sender[(len(self.vectors), triton.cdiv(n_d, columns) + n_b)](
            *(gradient, of_own, self.near, self.here, self.score, self.masks, groups.order, groups.start, groups.stop),
            *(weights, of_logits, of_vectors, of_near, self.sender.numel()),
            *(gradient.stride(0), self.near.stride(0), self.here.stride(0), n_s, n_b, n_t, n_d),
            *(block(n_b), tall[0], columns, tall[1], wide),
            num_warps=1,
        )
        return of_vectors


class MessageLayer(torch.autograd.Function):
    """What :class:`mcne.models.message.MessageLayer` gives of neighbors' messages, in single precision, for a hop that
    is grouped by sender."""

    @staticmethod
    def forward(
        ctx: Any, vectors: Tensor, masks: Tensor, project: Tensor, score: Tensor, combine: Tensor, hop: TensorHop
    ) -> Tensor:
        """``vectors`` [m, D], ``masks`` [B, D], ``project`` [T, 2D], ``score`` [T], ``combine`` [O, 2D] → [n, O]."""
        vectors, masks, project, score, combine = (
            each.contiguous() for each in (vectors, masks, project, score, combine)
        )
        n_d, weights = vectors.shape[1], halves(project, masks)  # [2, B · T, D]
        joined = vectors.new_empty(len(hop.receiver), 2 * n_d)  # [h_N, u] of Eq. 6
        messages, own = joined.chunk(2, dim=1)
        gather(vectors, hop.receiver, into=own)
        if hop.is_of_all:
            near, here = (vectors @ weights.flatten(0, 1).T).chunk(2, dim=1)
        else:
            near, here = vectors @ weights[0].T, own @ weights[1].T
        edges = Edges(vectors, near, here, score, masks, hop.sender, hop.heard)
        kept = edges.send(messages)
        ctx.save_for_backward(project, combine, weights, joined, *kept, vectors, near, here, score, masks)
        ctx.hop = hop
        return joined @ combine.T

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """By receiver first and then by sender."""
        project, combine, weights, joined, shares, sums, vectors, near, here, score, masks = ctx.saved_tensors
        hop, gradient, n_d = ctx.hop, gradients[0].contiguous(), vectors.shape[1]
        edges = Edges(vectors, near, here, score, masks, hop.sender, hop.heard)
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
