"""A message layer with attention (Eq. 3–6) forward and backward, compiled for the CPU.

Matrix products are left to :mod:`mcne.kernels.products`, which read what kernels write and add to existing sums. The
gradient takes two passes, by receiver and by sender, so that no two threads ever add to the same number; what all edges
add to (the gradients of ``score`` and ``masks``) is summed per block of rows. Every kernel computes the rows from
``start`` to ``stop``, and gathers rows of one table only, so that more of it stays in cache.

Edges are added four at a time, so that what they are added to is read and written a quarter as often; an edge that is
missing to the last four is the last once more, times 0. All that kernels write to comes from PyTorch, which aligns it
to 64 bytes: where NumPy begins it, vectors of a processor's full width lie across two lines of its cache.

Legend: m vectors of width d below, n receivers among them, S edges to each, B behaviors, t attention width. Kernels
take, alone or several as a tuple:

- ``vectors`` [m, d] and ``masks`` [B, d]; both halves of the attention, ``near`` [m, B, t] and ``here`` [n, B, t], and
  its ``score`` [t]
- ``sender`` [n, S] and ``has_neighbors`` [n]: receivers without any get zeros
- ``weights`` [n, S, B], a of Eq. 4; their ``logits`` before the softmax; ``joined`` [n, 2d], ``[h_N, u]`` of Eq. 6
- by sender: ``edges`` [n · S], and ``receivers`` [n] as places among these; those of one begin at ``first`` [m + 1]
- ``of_…``: the gradient of what it names, in the same shape
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mcne.kernels.backend import BLOCKS, in_blocks
from mcne.kernels.compilation import compiled
from mcne.kernels.edges import TensorHop
from mcne.kernels.numba.rows import grouped
from mcne.kernels.products import add_product, product, sum_rows

Array = NDArray[Any]
Arrays = tuple[Array, ...]


class MessageLayer(torch.autograd.Function):
    """:func:`mcne.kernels.edges.aggregate`."""

    @staticmethod
    def forward(
        ctx: Any, vectors: Tensor, masks: Tensor, project: Tensor, score: Tensor, combine: Tensor, hop: TensorHop
    ) -> Tensor:
        """``vectors`` [m, d], ``masks`` [B, d], ``project`` [t, 2d], ``score`` [t], ``combine`` [o, 2d] → [n, o]."""
        vectors, masks, project, score = (each.detach().contiguous() for each in (vectors, masks, project, score))
        (n, n_edges), (n_behaviors, depth), width = hop.sender.shape, masks.shape, len(score)
        halves = vectors.new_empty(2, n_behaviors, width, depth)  # see mcne.kernels.edges.masked_halves
        torch.mul(masks[:, None], project.view(width, 2, depth).transpose(0, 1)[:, None], out=halves)
        halves = halves.flatten(1, 2)
        joined = vectors.new_empty(n, 2 * depth)
        own = torch.index_select(vectors, 0, hop.receiver, out=joined[:, depth:])
        near = product(vectors, halves[0].T).view(-1, n_behaviors, width)
        here = product(own, halves[1].T).view(-1, n_behaviors, width)
        weights = vectors.new_empty(n, n_edges, n_behaviors)
        receiver, *hop_arrays = (each.contiguous().numpy() for each in (hop.receiver, hop.sender, hop.has_neighbors))
        links = tuple(hop_arrays)
        projected = (near.numpy(), here.numpy(), score.numpy())
        sent = (vectors.numpy(), masks.numpy())
        shares, messages = weights.numpy(), joined.numpy()

        def by_receiver(start: int, stop: int, _: int) -> None:
            attend(projected, links, shares, start, stop)
            send(sent, links, shares, messages, start, stop)

        in_blocks(n, by_receiver)
        ctx.save_for_backward(vectors, masks, project, score, combine, halves, joined, near, here, weights)
        ctx.receiver, ctx.links = receiver, links
        return product(joined, combine.T)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """By receiver first and then by sender."""
        vectors, masks, project, score, combine, halves, joined, near, here, weights = ctx.saved_tensors
        links, depth = ctx.links, vectors.shape[1]
        of_joined, of_combine = product(gradients[0], combine), product(gradients[0].T, joined)
        of_logits, of_here, of_near, of_vectors = (torch.empty_like(each) for each in (weights, here, near, vectors))
        of_score, of_masks = score.new_zeros(BLOCKS, len(score)), masks.new_zeros(BLOCKS, *masks.shape)
        projected = (near.numpy(), here.numpy(), score.numpy())
        sent = (of_joined.numpy(), vectors.numpy(), masks.numpy())
        shares, logits, scores, mask_sums = (each.numpy() for each in (weights, of_logits, of_score, of_masks))
        to_here, to_near, to_vectors = of_here.numpy(), of_near.numpy(), of_vectors.numpy()

        def by_receiver(start: int, stop: int, block: int) -> None:
            backward_of_logits(sent, links, shares, logits, start, stop)
            backward_of_here(projected, links, logits, to_here, scores[block], start, stop)

        def by_sender(start: int, stop: int, block: int) -> None:
            backward_of_vectors(sent, shares, edges, receivers, (to_vectors, mask_sums[block]), start, stop)
            backward_of_near(projected, logits, edges, to_near, start, stop)

        in_blocks(len(here), by_receiver)
        of_halves = torch.empty_like(halves)
        flat = of_here.flatten(1)
        product(flat.T, joined[:, depth:], out=of_halves[1])
        add_product(of_joined[:, depth:], flat, halves[1])
        edges, receivers = (grouped(each, len(vectors)) for each in (links[0], ctx.receiver))
        in_blocks(len(vectors), by_sender)
        flat = of_near.flatten(1)
        product(flat.T, vectors, out=of_halves[0])
        add_product(of_vectors, flat, halves[0])
        of_project = torch.zeros_like(project)
        of_all_masks = sum_rows(of_masks)
        of_both = of_halves.view(2, len(masks), len(score), depth)
        weights_and_gradients = (project, masks, of_both, of_project, of_all_masks)
        backward_of_halves(*(each.numpy() for each in weights_and_gradients))
        return of_vectors, of_all_masks, of_project, sum_rows(of_score), of_combine, None


@compiled
def backward_of_halves(project: Array, masks: Array, of_both: Array, of_project: Array, of_masks: Array) -> None:
    """Add to the gradients of ``project`` [t, 2d] and ``masks``, given that of both halves [2, B, t, d]."""
    n_behaviors, depth = masks.shape
    for h in range(2):
        for q in range(len(project)):
            row, of_row = project[q, h * depth : (h + 1) * depth], of_project[q, h * depth : (h + 1) * depth]
            for c in range(n_behaviors):
                mask, of_mask, gradient = masks[c], of_masks[c], of_both[h, c, q]
                for k in range(depth):
                    of_row[k] += mask[k] * gradient[k]
                    of_mask[k] += row[k] * gradient[k]


@compiled
def attend(projected: Arrays, links: Arrays, weights: Array, start: int, stop: int) -> None:
    """Eq. 4–5: write ``weights``."""
    (near, here, score), (sender, has_neighbors) = projected, links
    zero = near.dtype.type(0)  # a plain 0 would make double precision of what it is added to
    for r in range(start, stop):
        weights[r] = 0
        if has_neighbors[r]:
            for s in range(sender.shape[1]):
                theirs, weight = near[sender[r, s]], weights[r, s]
                for c in range(len(weight)):
                    their, own = theirs[c], here[r, c]
                    logit = zero
                    for q in range(len(own)):
                        logit += score[q] * max(their[q] + own[q], zero)
                    weight[c] = logit
            for s in range(sender.shape[1]):
                softmax(weights[r, s])


@compiled
def send(sent: Arrays, links: Arrays, weights: Array, joined: Array, start: int, stop: int) -> None:
    """Eq. 3 and the mean of Eq. 6: write what receivers get to the first half of ``joined``."""
    (vectors, masks), (sender, has_neighbors) = sent, links
    (n_behaviors, depth), n_edges = masks.shape, sender.shape[1]
    scale = vectors.dtype.type(1 / n_edges)
    totals = np.empty((n_behaviors, depth), vectors.dtype)  # Σ_s a_sc u_s
    for r in range(start, stop):
        message = joined[r, :depth]
        message[:] = 0
        if not has_neighbors[r]:
            continue
        totals[:] = 0
        for s in range(0, n_edges, 4):
            j = four(sender[r], s)
            x, y, z, w = vectors[j[0]], vectors[j[1]], vectors[j[2]], vectors[j[3]]
            for c in range(n_behaviors):
                a = four_at(weights[r, :, c], (s, s + 1, s + 2, s + 3), n_edges - s)
                total = totals[c]
                for k in range(depth):
                    total[k] += a[0] * x[k] + a[1] * y[k] + a[2] * z[k] + a[3] * w[k]
        for c in range(n_behaviors):
            total, mask = totals[c], masks[c]
            for k in range(depth):
                message[k] += scale * mask[k] * total[k]


@compiled
def aggregate_all(arrays: Arrays, messages: Array, start: int, stop: int) -> None:
    """The same of all neighbors, each by its share; nothing is kept. See :func:`mcne.kernels.edges.aggregate_all`.

    The weights of an edge are written out again: as a function that both call, the forward pass takes a seventh longer.
    """
    vectors, near, here, score, masks, first, sender, share = arrays
    (_, n_behaviors, width), depth = here.shape, vectors.shape[1]
    zero = vectors.dtype.type(0)
    weight = np.empty(n_behaviors, vectors.dtype)
    for r in range(start, stop):
        for at in range(first[r], first[r + 1]):
            theirs, sent, message = near[sender[at]], vectors[sender[at]], messages[r]
            for c in range(n_behaviors):
                their, own = theirs[c], here[r, c]
                logit = zero
                for q in range(width):
                    logit += score[q] * max(their[q] + own[q], zero)
                weight[c] = logit
            softmax(weight)
            for c in range(n_behaviors):
                part, mask = weight[c] * share[at], masks[c]
                for k in range(depth):
                    message[k] += part * mask[k] * sent[k]


@compiled
def softmax(values: Array) -> None:
    """In place, [B]."""
    top = values[0]
    total = values.dtype.type(0)
    for c in range(1, len(values)):
        top = max(top, values[c])
    for c in range(len(values)):
        values[c] = np.exp(values[c] - top)
        total += values[c]
    for c in range(len(values)):
        values[c] /= total


@compiled
def four(values: Array, s: int) -> Any:
    """Four numbers from ``s`` on, the last one again where there are fewer."""
    last = len(values) - 1
    return values[s], values[min(s + 1, last)], values[min(s + 2, last)], values[min(s + 3, last)]


@compiled
def four_at(values: Array, places: Any, n: int) -> Any:
    """Four numbers at ``places``, 0 after the first ``n``."""
    zero = values.dtype.type(0)
    second, third = values[places[1]] if n > 1 else zero, values[places[2]] if n > 2 else zero
    return values[places[0]], second, third, values[places[3]] if n > 3 else zero


@compiled
def backward_of_logits(sent: Arrays, links: Arrays, weights: Array, of_logits: Array, start: int, stop: int) -> None:
    """By receiver."""
    (of_joined, vectors, masks), (sender, has_neighbors) = sent, links
    (n_behaviors, depth), n_edges = masks.shape, sender.shape[1]
    zero = vectors.dtype.type(0)
    scale = vectors.dtype.type(1 / n_edges)
    masked = np.empty((n_behaviors, depth), vectors.dtype)
    of_weights = np.empty((n_edges + 3, n_behaviors), vectors.dtype)
    for r in range(start, stop):
        of_logits[r] = 0
        if not has_neighbors[r]:
            continue
        gradient = of_joined[r, :depth]
        for c in range(n_behaviors):
            row, mask = masked[c], masks[c]
            for k in range(depth):
                row[k] = scale * mask[k] * gradient[k]
        for s in range(0, n_edges, 4):
            j = four(sender[r], s)
            x, y, z, w = vectors[j[0]], vectors[j[1]], vectors[j[2]], vectors[j[3]]
            for c in range(n_behaviors):
                row = masked[c]
                first, second, third, fourth = zero, zero, zero, zero
                for k in range(depth):
                    first += row[k] * x[k]
                    second += row[k] * y[k]
                    third += row[k] * z[k]
                    fourth += row[k] * w[k]
                of_weights[s, c], of_weights[s + 1, c] = first, second
                of_weights[s + 2, c], of_weights[s + 3, c] = third, fourth
        for s in range(n_edges):
            of_weight, weight, of_logit = of_weights[s], weights[r, s], of_logits[r, s]
            mean = zero
            for c in range(n_behaviors):
                mean += of_weight[c] * weight[c]
            for c in range(n_behaviors):
                of_logit[c] = weight[c] * (of_weight[c] - mean)


@compiled
def backward_of_here(
    projected: Arrays, links: Arrays, of_logits: Array, of_here: Array, of_score: Array, start: int, stop: int
) -> None:
    """By receiver; ``of_score`` is added to."""
    (near, here, score), (sender, has_neighbors) = projected, links
    n_edges = sender.shape[1]
    zero = near.dtype.type(0)
    for r in range(start, stop):
        of_here[r] = 0
        if not has_neighbors[r]:
            continue
        for s in range(0, n_edges, 4):
            j = four(sender[r], s)
            for c in range(here.shape[1]):
                a = four_at(of_logits[r, :, c], (s, s + 1, s + 2, s + 3), n_edges - s)
                own, of_own = here[r, c], of_here[r, c]
                x, y, z, w = near[j[0], c], near[j[1], c], near[j[2], c], near[j[3], c]
                for q in range(len(own)):
                    first, second = max(x[q] + own[q], zero), max(y[q] + own[q], zero)
                    third, fourth = max(z[q] + own[q], zero), max(w[q] + own[q], zero)
                    of_score[q] += a[0] * first + a[1] * second + a[2] * third + a[3] * fourth
                    of_own[q] += (
                        (a[0] if first > 0 else zero)
                        + (a[1] if second > 0 else zero)
                        + (a[2] if third > 0 else zero)
                        + (a[3] if fourth > 0 else zero)
                    )
        of_here[r] *= score


@compiled
def backward_of_vectors(
    sent: Arrays, weights: Array, by_edge: Arrays, by_receiver: Arrays, out: Arrays, start: int, stop: int
) -> None:
    """By sender, who may also receive; of ``out``, ``of_vectors`` is written and ``of_masks`` added to."""
    (of_joined, vectors, masks), (of_vectors, of_masks) = sent, out
    (first, edges), (first_own, receivers) = by_edge, by_receiver
    (n_behaviors, depth), n_edges = masks.shape, weights.shape[1]
    scale = vectors.dtype.type(1 / n_edges)
    weight_of_edge = weights.reshape(-1, n_behaviors)
    totals = np.empty((n_behaviors, depth), vectors.dtype)
    for j in range(start, stop):
        totals[:] = 0  # Σ_r a_rc g_r
        own_edges = edges[first[j] : first[j + 1]]
        for i in range(0, len(own_edges), 4):
            e = four(own_edges, i)
            n_left = len(own_edges) - i
            x, y = of_joined[e[0] // n_edges, :depth], of_joined[e[1] // n_edges, :depth]
            z, w = of_joined[e[2] // n_edges, :depth], of_joined[e[3] // n_edges, :depth]
            for c in range(n_behaviors):
                a = four_at(weight_of_edge[:, c], e, n_left)
                total = totals[c]
                for k in range(depth):
                    total[k] += a[0] * x[k] + a[1] * y[k] + a[2] * z[k] + a[3] * w[k]
        of_vectors[j] = 0
        of_vector, vector = of_vectors[j], vectors[j]
        for i in range(first_own[j], first_own[j + 1]):
            of_own = of_joined[receivers[i], depth:]
            for k in range(depth):
                of_vector[k] += of_own[k]
        for c in range(n_behaviors):
            mask, of_mask, total = masks[c], of_masks[c], totals[c]
            for k in range(depth):
                of_vector[k] += scale * mask[k] * total[k]
            for k in range(depth):
                of_mask[k] += scale * vector[k] * total[k]


@compiled
def backward_of_near(
    projected: Arrays, of_logits: Array, by_edge: Arrays, of_near: Array, start: int, stop: int
) -> None:
    """By sender."""
    (near, here, score), (first, edges) = projected, by_edge
    _, n_edges, n_behaviors = of_logits.shape
    logit_of_edge = of_logits.reshape(-1, n_behaviors)
    zero = near.dtype.type(0)
    for j in range(start, stop):
        of_near[j] = 0
        own_edges = edges[first[j] : first[j + 1]]
        for i in range(0, len(own_edges), 4):
            e = four(own_edges, i)
            n_left = len(own_edges) - i
            x, y, z, w = here[e[0] // n_edges], here[e[1] // n_edges], here[e[2] // n_edges], here[e[3] // n_edges]
            for c in range(n_behaviors):
                a = four_at(logit_of_edge[:, c], e, n_left)
                own, of_own = near[j, c], of_near[j, c]
                h0, h1, h2, h3 = x[c], y[c], z[c], w[c]
                for q in range(len(own)):
                    first_two = (a[0] if own[q] + h0[q] > 0 else zero) + (a[1] if own[q] + h1[q] > 0 else zero)
                    last_two = (a[2] if own[q] + h2[q] > 0 else zero) + (a[3] if own[q] + h3[q] > 0 else zero)
                    of_own[q] += first_two + last_two
        of_near[j] *= score
