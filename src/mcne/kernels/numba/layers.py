"""A layer of message passing with attention as a whole, forward and backward, on the CPU.

Matrix products are left to :mod:`mcne.kernels.products` and edges to :mod:`mcne.kernels.numba.edges`. By hand, and not
by PyTorch's own gradients, so that kernels write where products read, and products add to what is there.

All that kernels write to comes from PyTorch, which begins it at a multiple of 64 bytes: where NumPy begins it, vectors
of a processor's full width lie across two lines of its cache.

Legend: m vectors of width d below, n receivers among them, S neighbors each, B behaviors, t attention width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mcne.kernels.backend import BLOCKS, in_blocks
from mcne.kernels.edges import TensorHop
from mcne.kernels.numba import edges as along_edges
from mcne.kernels.numba import projections
from mcne.kernels.numba.groups import grouped
from mcne.kernels.products import add_product, product, sum_rows


class MessageLayer(torch.autograd.Function):
    """What :class:`mcne.models.message.MessageLayer` gives of neighbors' messages."""

    @staticmethod
    def forward(
        ctx: Any, vectors: Tensor, masks: Tensor, project: Tensor, score: Tensor, combine: Tensor, hop: TensorHop
    ) -> Tensor:
        """``vectors`` [m, d], ``masks`` [B, d], ``project`` [t, 2d], ``score`` [t], ``combine`` [o, 2d] → [n, o]."""
        vectors, masks, project, score = (each.detach().contiguous() for each in (vectors, masks, project, score))
        (n, n_edges), (n_behaviors, depth), width = hop.sender.shape, masks.shape, len(score)
        halves = vectors.new_empty(2, n_behaviors, width, depth)
        projections.halves(project.numpy(), masks.numpy(), halves.numpy())
        halves = halves.flatten(1, 2)
        joined = vectors.new_empty(n, 2 * depth)  # [h_N, u] of Eq. 6
        own = torch.index_select(vectors, 0, hop.receiver, out=joined[:, depth:])
        near = product(vectors, halves[0].T).view(-1, n_behaviors, width)
        here = product(own, halves[1].T).view(-1, n_behaviors, width)
        weights = vectors.new_empty(n, n_edges, n_behaviors)
        receiver, sender, heard = (each.contiguous().numpy() for each in (hop.receiver, hop.sender, hop.heard))
        projected, sent = (near.numpy(), here.numpy(), score.numpy()), (vectors.numpy(), masks.numpy())
        shares, found = weights.numpy(), joined.numpy()
        scale = found.dtype.type(1 / n_edges)

        def by_receiver(start: int, stop: int, _: int) -> None:
            along_edges.attend(*projected, sender, heard, shares, start, stop)
            along_edges.send(*sent, sender, heard, shares, scale, found, start, stop)

        in_blocks(n, by_receiver)
        ctx.save_for_backward(vectors, masks, project, score, combine, halves, joined, near, here, weights)
        ctx.hop, ctx.scale = (receiver, sender, heard), scale
        return product(joined, combine.T)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """By receiver first and then by sender."""
        vectors, masks, project, score, combine, halves, joined, near, here, weights = ctx.saved_tensors
        (receiver, sender, heard), scale, gradient, depth = ctx.hop, ctx.scale, gradients[0], vectors.shape[1]
        of_joined, of_combine = product(gradient, combine), product(gradient.T, joined)
        of_logits, of_here, of_near, of_vectors = (torch.empty_like(each) for each in (weights, here, near, vectors))
        of_score, of_masks = score.new_zeros(BLOCKS, len(score)), masks.new_zeros(BLOCKS, *masks.shape)
        projected, sent = (
            (near.numpy(), here.numpy(), score.numpy()),
            (of_joined.numpy(), vectors.numpy(), masks.numpy()),
        )
        shares, logits, scores, mask_sums = (each.numpy() for each in (weights, of_logits, of_score, of_masks))
        to_here, to_near, to_vectors = of_here.numpy(), of_near.numpy(), of_vectors.numpy()

        def by_receiver(start: int, stop: int, block: int) -> None:
            along_edges.backward_of_logits(*sent, sender, heard, shares, scale, logits, start, stop)
            along_edges.backward_of_here(*projected, sender, heard, logits, to_here, scores[block], start, stop)

        def by_sender(start: int, stop: int, block: int) -> None:
            places = (*edges, *receivers)
            along_edges.backward_of_vectors(*sent, shares, scale, *places, to_vectors, mask_sums[block], start, stop)
            along_edges.backward_of_near(*projected, logits, *edges, to_near, start, stop)

        in_blocks(len(here), by_receiver)
        of_halves, of_own, flat = torch.empty_like(halves), of_joined[:, depth:], of_here.flatten(1)
        product(flat.T, joined[:, depth:], out=of_halves[1])
        add_product(of_own, flat, halves[1])
        edges, receivers = (grouped(each, len(vectors)) for each in (sender, receiver))
        in_blocks(len(vectors), by_sender)
        flat = of_near.flatten(1)
        product(flat.T, vectors, out=of_halves[0])
        add_product(of_vectors, flat, halves[0])
        of_project, of_all_masks = torch.zeros_like(project), sum_rows(of_masks)
        of_both = of_halves.view(2, len(masks), len(score), depth)
        given = project.numpy(), masks.numpy(), of_both.numpy()
        projections.of_halves(*given, of_project.numpy(), of_all_masks.numpy())
        return of_vectors, of_all_masks, of_project, sum_rows(of_score), of_combine, None
