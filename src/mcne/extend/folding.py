"""Fold a history in: move the vectors that new users start from until their own items rank well, all else fixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from mcne.embeddings.artifact import BehaviorSpace
from mcne.extend.network import FrozenNetwork
from mcne.models.tables import take
from mcne.randomness import Stream

STEPS, LEARNING_RATE = 60, 0.1
PULL = 0.1
"""How strongly a vector is held where it started, in spreads of the known users' initial vectors."""
NEGATIVES = 300
"""Items of a behavior that histories are ranked against: the same for all users, so none depends on another."""
SEED = 0

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True)
class _Told:
    """The history of new users in one behavior."""

    user: Tensor  # [h]
    positive: Tensor  # [h, d] items under the behavior's mask
    negative: Tensor  # [N, d] the same of those ranked against
    bias: Tensor  # [h, N] how much more bias these have
    share: Tensor  # [h, N] of each pair in the loss of its user; 0 where the item is the user's own


def fold_in(
    network: FrozenNetwork, start: Tensor, spaces: Sequence[BehaviorSpace], history: Sequence[Pairs], *, spread: float
) -> Tensor:
    """Initial vectors [n, d₀] that rank the ``history`` of n new users well, each near its ``start``.

    Per user the mean BPR loss (Eq. 7) of all its records plus ``PULL`` times the mean square of what it moved, in
    spreads, by a fixed number of Adam's steps. Whoever has no history stays at the start.
    """
    counts = sum(np.bincount(user, minlength=len(start)) for user, _ in history)
    told = [_told(space, *pairs, np.asarray(counts)) for space, pairs in zip(spaces, history, strict=True)]
    moved = torch.zeros_like(start, requires_grad=True)
    adam = torch.optim.Adam([moved], lr=LEARNING_RATE)
    for _ in range(STEPS if np.any(counts) else 0):
        last = network.levels(start + spread * moved)[-1]
        loss = torch.stack([_ranking_loss(last, each) for each in told]).sum() + PULL * moved.square().mean(1).sum()
        adam.zero_grad()
        torch.autograd.backward(loss)
        adam.step()
    return start + spread * moved.detach()


def _told(space: BehaviorSpace, user: NDArray[np.int64], item: NDArray[np.int64], counts: NDArray[np.int64]) -> _Told:
    drawn = Stream(SEED, "fold-in", space.name).permutation(len(space.items))[:NEGATIVES]
    own = np.zeros((len(counts), len(drawn)), dtype=bool)
    column = np.full(len(space.items), -1)
    column[drawn] = np.arange(len(drawn))
    there = column[item] >= 0
    own[user[there], column[item[there]]] = True
    ranked = ~own[user]  # [h, N]
    weights = np.maximum(1, ranked.sum(axis=1)) * counts[user]
    bias = np.zeros(len(space.items), np.float32) if space.item_bias is None else space.item_bias
    vectors = space.item_vectors * space.mask
    arrays = (user, vectors[item], vectors[drawn], bias[drawn] - bias[item][:, None], ranked / weights[:, None])
    users, *numbers = map(torch.from_numpy, arrays)
    return _Told(users, *(each.to(torch.float32) for each in numbers))


def _ranking_loss(last: Tensor, told: _Told) -> Tensor:
    """The sum over users of their mean of ``−ln σ(s_p − s_n)``, of one behavior's records."""
    positive = (take(last, told.user) * told.positive).sum(dim=1)  # [h]
    negative = take(last @ told.negative.T, told.user) + told.bias  # [h, N]
    return (functional.softplus(negative - positive[:, None]) * told.share).sum()
