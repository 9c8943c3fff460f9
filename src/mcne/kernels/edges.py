"""Send and receive along the edges of a step, by the fastest backend that is there."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mcne.kernels import reference
from mcne.kernels.backend import BLOCKS, compiled, in_blocks
from mcne.kernels.groups import Groups
from mcne.sampling.neighbors import Hop


@dataclass(frozen=True)
class TensorHop:
    """A layer's edges on the device: see :class:`mcne.sampling.neighbors.Hop`."""

    receiver: Tensor  # [n]
    sender: Tensor  # [n, S]
    heard: Tensor  # [n]
    by_sender: Groups | None = None  # only if drawn on a GPU: places of sender that are heard, then those of receiver
    is_of_all: bool = False  # whether the receivers are all of the level below, in its order

    @classmethod
    def of(cls, hop: Hop, device: torch.device) -> TensorHop:
        """A hop that was drawn on the host."""
        arrays = (hop.receiver, hop.sender, hop.heard)
        receiver, sender, heard = (torch.from_numpy(each).to(device, non_blocking=True) for each in arrays)
        return cls(receiver, sender, heard)


def receivers_of(vectors: Tensor, hop: TensorHop) -> Tensor:
    """The receivers of a hop among ``vectors`` [m, d], [n, d]; on a GPU, any for nobody."""
    if hop.by_sender is not None:
        from mcne.kernels.hops_triton import Receivers

        own: Tensor = Receivers.apply(vectors, hop.receiver, hop.by_sender, hop.sender.numel())  # type: ignore[no-untyped-call] # as PyTorch declares it
        return own
    return vectors.index_select(0, hop.receiver)


def send_and_receive(
    vectors: Tensor,
    near: Tensor,
    here: Tensor,
    score: Tensor,
    masks: Tensor,
    *,
    sender: Tensor,
    heard: Tensor,
) -> Tensor:
    """Eq. 3–5 and the mean of Eq. 6: what n receivers hear of S neighbors each, [n, d]; zeros where ``heard`` is false.

    ``vectors`` [m, d] are what is sent, ``near`` [m, B, t] and ``here`` [n, B, t] the projections of senders and
    receivers, ``score`` [t], ``masks`` [B, d], ``sender`` [n, S] rows of ``vectors``, ``heard`` [n].
    """
    if vectors.device.type == "cpu" and sender.numel() and (module := compiled("edges_numba")) is not None:
        messages: Tensor = _Compiled.apply(vectors, near, here, score, masks, sender, heard, module)  # type: ignore[no-untyped-call] # as PyTorch declares it
        return messages
    return reference.send_and_receive(vectors, near, here, score, masks, sender=sender, heard=heard)


def hear_on_gpu(
    vectors: Tensor, masks: Tensor, project: Tensor, score: Tensor, combine: Tensor, hop: TensorHop
) -> Tensor:
    """A layer with attention as a whole, of a hop that was drawn on a GPU: see :class:`mcne.layers.message`."""
    from mcne.kernels.layers_triton import MessageLayer

    received: Tensor = MessageLayer.apply(vectors, masks, project, score, combine, hop)  # type: ignore[no-untyped-call] # as PyTorch declares it
    return received


def mean_of(vectors: Tensor, sender: Tensor, heard: Tensor, by_sender: Groups | None = None) -> Tensor:
    """The mean of S neighbors' vectors, [n, d]: of ``vectors`` [m, d] the rows ``sender`` [n, S], any where ``heard``
    is false."""
    if by_sender is not None:
        from mcne.kernels.hops_triton import Mean

        mean: Tensor = Mean.apply(vectors, sender, heard, by_sender)  # type: ignore[no-untyped-call] # as PyTorch declares it
        return mean
    if vectors.device.type == "cpu":
        return functional.embedding_bag(sender, vectors, mode="mean")  # never gathers what it sums up
    return vectors.index_select(0, sender.flatten()).view(*sender.shape, vectors.shape[1]).mean(dim=1)


def hear_all(
    vectors: Tensor,
    near: Tensor,
    here: Tensor,
    score: Tensor,
    masks: Tensor,
    first: Tensor,
    sender: Tensor,
    share: Tensor,
    before: Tensor | None = None,
) -> Tensor:
    """What n receivers hear of all their neighbors, [n, d], as :func:`send_and_receive`; it has no gradient.

    Links are ordered by receiver: those of one begin at ``first`` [n + 1] and have a ``sender`` and a ``share`` [E].
    What they heard ``before`` [n, d] of other neighbors is added to in place, link by link: the bytes of all at once.
    """
    if vectors.device.type == "cpu" and (module := compiled("edges_numba")) is not None:
        arrays = [each.contiguous().numpy() for each in (vectors, near, here, score, masks, first, sender, share)]
        messages = np.zeros((len(here), vectors.shape[1]), arrays[0].dtype) if before is None else before.numpy()
        in_blocks(len(here), lambda start, stop, _: module.hear_all(*arrays, messages, start, stop))
        return torch.from_numpy(messages)
    return reference.hear_all(vectors, near, here, score, masks, first, sender, share, before)


def shared_sum(vectors: Tensor, first: Tensor, sender: Tensor, share: Tensor) -> Tensor:
    """The sum of all neighbors' vectors by their shares, [n, d]: zeros of none."""
    return functional.embedding_bag(sender, vectors, first[:-1], mode="sum", per_sample_weights=share.to(vectors.dtype))


class _Compiled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        vectors: Tensor,
        near: Tensor,
        here: Tensor,
        score: Tensor,
        masks: Tensor,
        sender: Tensor,
        heard: Tensor,
        module: ModuleType,
    ) -> Tensor:
        arrays = [each.detach().contiguous().numpy() for each in (vectors, near, here, score, masks, sender, heard)]
        (n, n_edges), (n_behaviors, depth), kind = arrays[5].shape, arrays[4].shape, arrays[0].dtype
        messages = np.empty((n, depth), kind)
        weights, sums = np.empty((n, n_edges, n_behaviors), kind), np.empty((n, n_behaviors, depth), kind)
        scale = kind.type(1 / n_edges)
        in_blocks(n, lambda start, stop, _: module.forward(*arrays, scale, messages, weights, sums, start, stop))
        ctx.module, ctx.arrays, ctx.scale, ctx.kept = module, arrays, scale, (weights, sums)
        return torch.from_numpy(messages)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gradient = gradients[0].contiguous().numpy()
        vectors, near, here, score, masks, sender, _ = ctx.arrays
        weights, sums = ctx.kept
        of_logits, of_here = np.empty_like(weights), np.empty_like(here)
        of_score = np.zeros((BLOCKS, *score.shape), score.dtype)
        of_masks = np.zeros((BLOCKS, *masks.shape), masks.dtype)

        def by_receiver(start: int, stop: int, block: int) -> None:
            ctx.module.backward_by_receiver(
                gradient,
                *ctx.arrays,
                ctx.scale,
                weights,
                sums,
                of_logits,
                of_here,
                of_score[block],
                of_masks[block],
                start,
                stop,
            )

        in_blocks(len(sender), by_receiver)
        first, edges = ctx.module.grouped(sender, len(vectors))
        of_vectors, of_near = np.empty_like(vectors), np.empty_like(near)
        shared = (gradient, near, here, score, masks, first, edges, ctx.scale, weights, of_logits, of_vectors, of_near)
        in_blocks(len(vectors), lambda start, stop, _: ctx.module.backward_by_sender(*shared, start, stop))
        found = (of_vectors, of_near, of_here, of_score.sum(axis=0), of_masks.sum(axis=0))
        return *(torch.from_numpy(each) for each in found), None, None, None
