"""Send and receive along the edges of a step, by the fastest backend that is there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mcne.kernels.backend import compiled, in_blocks, on_gpu
from mcne.kernels.groups import Groups
from mcne.kernels.plain import edges


@dataclass(frozen=True)
class TensorHop:
    """A layer's edges on the device: see :class:`mcne.sampling.neighbors.Hop`."""

    receiver: Tensor  # [n]
    sender: Tensor  # [n, S]
    heard: Tensor  # [n]
    by_sender: Groups | None = None  # only for kernels on a GPU: places of sender that are heard, then of receiver
    is_of_all: bool = False  # whether the receivers are all of the level below, in its order


def receivers_of(vectors: Tensor, hop: TensorHop) -> Tensor:
    """The receivers of a hop among ``vectors`` [m, d], [n, d]; on a GPU, any for nobody."""
    if hop.by_sender is not None:
        from mcne.kernels.triton.hops import Receivers

        own: Tensor = Receivers.apply(vectors, hop.receiver, hop.by_sender, hop.sender.numel())  # type: ignore[no-untyped-call] # as PyTorch declares it
        return own
    return vectors.index_select(0, hop.receiver)


def hear(
    vectors: Tensor, masks: Tensor, project: Tensor, score: Tensor, combine: Tensor, hop: TensorHop
) -> Tensor | None:
    """A layer with attention as a whole, by kernels: see :class:`mcne.models.message`. Nothing where there are none."""
    if hop.by_sender is not None:
        return hear_on_gpu(vectors, masks, project, score, combine, hop)
    if vectors.device.type == "cpu" and hop.sender.numel() and (module := compiled("numba.layers")) is not None:
        received: Tensor = module.MessageLayer.apply(vectors, masks, project, score, combine, hop)
        return received
    return None


def hear_on_gpu(
    vectors: Tensor, masks: Tensor, project: Tensor, score: Tensor, combine: Tensor, hop: TensorHop
) -> Tensor:
    """A layer with attention as a whole, on a GPU and of a hop that is grouped: see :class:`mcne.models.message`."""
    from mcne.kernels.triton.layers import MessageLayer

    received: Tensor = MessageLayer.apply(vectors, masks, project, score, combine, hop)  # type: ignore[no-untyped-call] # as PyTorch declares it
    return received


def mean_of(vectors: Tensor, sender: Tensor, heard: Tensor, by_sender: Groups | None = None) -> Tensor:
    """The mean of S neighbors' vectors, [n, d]: of ``vectors`` [m, d] the rows ``sender`` [n, S], any where ``heard``
    is false."""
    if by_sender is not None:
        from mcne.kernels.triton.hops import Mean

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
    """What n receivers hear of all their neighbors, [n, d], as :func:`mcne.kernels.plain.edges.send_and_receive`;
    it has no gradient.

    Links are ordered by receiver: those of one begin at ``first`` [n + 1] and have a ``sender`` and a ``share`` [E].
    What they heard ``before`` [n, d] of other neighbors is added to in place, link by link: the bytes of all at once,
    but on a GPU, which takes several links at a time.
    """
    if (there := on_gpu("triton.links", vectors.device)) is not None:
        heard = vectors.new_zeros(len(here), vectors.shape[1]) if before is None else before
        there.hear_all(vectors, near, here, score, masks, first, sender, share, heard)
        return heard
    if vectors.device.type == "cpu" and (module := compiled("numba.edges")) is not None:
        arrays = [each.contiguous().numpy() for each in (vectors, near, here, score, masks, first, sender, share)]
        messages = np.zeros((len(here), vectors.shape[1]), arrays[0].dtype) if before is None else before.numpy()
        in_blocks(len(here), lambda start, stop, _: module.hear_all(*arrays, messages, start, stop))
        return torch.from_numpy(messages)
    return edges.hear_all(vectors, near, here, score, masks, first, sender, share, before)


def shared_sum(vectors: Tensor, first: Tensor, sender: Tensor, share: Tensor) -> Tensor:
    """The sum of all neighbors' vectors by their shares, [n, d]: zeros of none."""
    return functional.embedding_bag(sender, vectors, first[:-1], mode="sum", per_sample_weights=share.to(vectors.dtype))
