"""Skip-gram with negative sampling over random walks (Mikolov et al., NIPS 2013), many pairs in one matrix product.

A walk is cut into stretches of 2w users. Every user of a stretch is a center, and its contexts are the at most w users
before and after it: they lie in a band of the products of the stretch with the stretch widened by w users on both
sides, which therefore gives two products for each one needed. Negatives are shared by the centers of a stretch.

:class:`NetworkTaught` is the base of Node2vec and LINE, whose user vectors are learned like this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from mcne.kernels.products import products
from mcne.models.bpr import BPRConfig
from mcne.models.contract import StepLoss, TrainingData
from mcne.models.ranking import DotEmbedder, Ranked, VectorLearner, step_loss
from mcne.models.tables import partly_detached, take, to_device

SHARED_NEGATIVES = 10
"""Negatives that all centers of a stretch share. Part of what a seed means."""


def logistic_loss(vectors: Tensor, contexts: Tensor, weights: Tensor) -> Tensor:
    """``Σ |w| softplus(−sign(w) ⟨v, c⟩)`` over all pairs of a group: w > 0 draws a pair together, w < 0 apart.

    ``vectors`` [g, b, d], ``contexts`` [g, k, d] and ``weights`` [h, b, k], which g/h times over serve all groups.
    """
    loss: Tensor = _Logistic.apply(vectors, contexts, weights)  # type: ignore[no-untyped-call] # as PyTorch declares it
    return loss


class _Logistic(torch.autograd.Function):
    """Keeps the derivative by the products instead of everything that leads to it: half the memory and time."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, contexts: Tensor, weights: Tensor) -> Tensor:
        times = len(vectors) // max(1, len(weights))
        logits = products(vectors, contexts.transpose(1, 2)).view(times, *weights.shape)  # [g/h, h, b, k]
        logits.mul_(-weights.sign())
        loss = (functional.softplus(logits) * weights.abs()).sum()
        slope = logits.sigmoid_().mul_(-weights)
        ctx.save_for_backward(vectors, contexts, slope.flatten(0, 1))
        return loss

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        vectors, contexts, slope = ctx.saved_tensors
        slope = slope * gradients[0]
        return products(slope, contexts), products(slope.transpose(1, 2), vectors), None


class SkipGram:
    """The loss of walks of one length: the mean over pairs of a center and a context at most ``window`` apart.

    Each pair counts ``softplus(−⟨u, c⟩)`` and ``negatives`` times the mean of ``softplus(⟨u, c⟩)`` over the negatives.

    Legend: W walks of L users, n stretches of b centers, k contexts and N shared negatives.
    """

    def __init__(self, length: int, window: int, *, negatives: int, device: torch.device) -> None:
        window = min(window, length)  # there is nothing beyond a walk
        size = min(2 * window, length)
        first = torch.arange(0, length, size)[:, None]
        centers = first + torch.arange(size)  # [n, b] places in a walk, the last ones maybe beyond its end
        contexts = first + torch.arange(-window, size + window)  # [n, k]
        apart = (centers[:, :, None] - contexts[:, None, :]).abs()
        inside = (centers < length)[:, :, None] & ((contexts >= 0) & (contexts < length))[:, None, :]
        near = ((apart > 0) & (apart <= window) & inside).to(torch.get_default_dtype())  # [n, b, k]
        noise = (near.sum(-1, keepdim=True) * (-negatives / SHARED_NEGATIVES)).expand(-1, -1, SHARED_NEGATIVES)
        self.pairs = int(near.sum())  # of a walk
        self.noise_shape = (len(first), SHARED_NEGATIVES)  # of the negatives of a walk
        self._centers = centers.clamp(max=length - 1).to(device)
        self._contexts = contexts.clamp(0, length - 1).to(device)
        self._weights = (torch.cat([near, noise], dim=2) / max(1, self.pairs)).to(device)  # [n, b, k + N]

    def loss(self, users: Tensor, contexts: Tensor, *, center: Tensor, context: Tensor, noise: Tensor) -> Tensor:
        """0 of no walks.

        ``center`` [W, L] are the walks as rows of ``users`` [·, d], ``context`` [W, L] as rows of ``contexts`` [·, d],
        which are also what ``noise`` [W, n, N] are rows of.
        """
        near = context.index_select(1, self._contexts.flatten()).view(len(context), *self._contexts.shape)  # [W, n, k]
        around = torch.cat([near, noise], dim=2).flatten(0, 1)  # [W n, k + N]
        middle = center.index_select(1, self._centers.flatten()).view(len(around), self._centers.shape[1])  # [W n, b]
        return logistic_loss(take(users, middle), take(contexts, around), self._weights) / max(1, len(center))


@dataclass(frozen=True)
class NetworkBatch:
    """A step's inputs."""

    users: Tensor  # [n] distinct: those of the triples and those drawn from the network
    ranked: Tensor  # [r] rows of users: those of the triples
    triples: Ranked  # of ranked
    drawn: Sequence[Tensor]  # from the network; without any only BPR learns


class NetworkTaught(VectorLearner, DotEmbedder):
    """User vectors learned from the network, and items learned by BPR over them.

    Both happen in every step, so that one loop, one early stopping and one way to resume serve all methods. With
    ``beta`` 0, BPR sees the user vectors detached, as if the items were learned after them. Otherwise both share the
    user vectors: the loss is ``network_weight · network + BPR``, and the gradient of BPR (and of its L2) that reaches
    the user vectors is scaled by ``beta``. With ``network_weight`` 0 and ``beta`` 1 it is BPR.
    """

    config: BPRConfig

    def __init__(self, data: TrainingData, config: BPRConfig, *, seed: int, device: torch.device) -> None:
        super().__init__(data, config, widths=(config.width,), bias=config.bias, seed=seed, device=device)
        self.network_weight: float = getattr(config, "network_weight", 1.0)
        self.beta: float = getattr(config, "beta", 0.0)

    def draw(self, ranked: NDArray[np.int64], epoch: int, step: int) -> list[NDArray[Any]]:
        """The distinct users drawn from the network and those ``ranked``, the rows of the latter, and what is drawn."""
        raise NotImplementedError

    def network_loss(self, users: Tensor, drawn: Sequence[Tensor]) -> Tensor:
        """The loss of the network for the vectors of a step's ``users`` [n, d]."""
        raise NotImplementedError

    def prepare(self, epoch: int, step: int) -> NetworkBatch:
        """Draw the triples of all behaviors, and from the network unless it has no weight."""
        ranked, triples = self.items.draw_ranked(epoch, step)
        arrays = self.draw(ranked, epoch, step) if self.network_weight else [ranked, np.arange(len(ranked))]
        users, rows, *drawn = (to_device(array, self.device) for array in arrays)
        return NetworkBatch(users, rows, triples, drawn)

    def loss(self, batch: NetworkBatch) -> StepLoss:
        """The loss of the network, and BPR, whose gradient reaches the user vectors scaled by ``beta``."""
        self.tables.forget()
        users = self.tables.rows("users", batch.users)
        ranked = partly_detached(users.index_select(0, batch.ranked), self.beta)
        ranking, scored = self.items.loss(self.tables.rows, batch.triples, ranked)
        penalty = self.config.l2 * scored
        if batch.drawn:
            penalty = penalty + self.network_weight * self.network_loss(users, batch.drawn)
        return step_loss(ranking, penalty, batch.triples)
