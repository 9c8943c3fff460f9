"""The trained network for users who came after the training: all is fixed but the vectors they start from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mcne.embeddings.trunk import Trunk
from mcne.kernels.edges import masked_halves
from mcne.models.mcne import attention
from mcne.models.tables import take


@dataclass(frozen=True, eq=False)
class Friends:
    """Whom each of n new users is linked to; the shares of one user's friends add up to 1."""

    receiver: NDArray[np.int64]  # [E] new users, never decreasing
    sender: NDArray[np.int64]  # [E] rows of known users
    share: NDArray[np.float32]  # [E]

    def of(self, start: int, stop: int) -> Friends:
        """Those of the new users from ``start`` to ``stop``, who then count from 0."""
        low, high = np.searchsorted(self.receiver, (start, stop))
        return Friends(self.receiver[low:high] - start, self.sender[low:high], self.share[low:high])


@dataclass(frozen=True)
class _Layer:
    """One layer with what the friends send in it, [f, …] for f distinct friends."""

    masks: Tensor  # [B, d]
    combine: Tensor  # [d_out, 2 d]
    sent: Tensor  # [f, d]
    near: Tensor | None  # [f, B, t] the friends' half of the attention
    here: Tensor | None  # [B · t, d] the weights of the new users' half
    score: Tensor | None  # [t]


class FrozenNetwork:
    """Eq. 3–6 for new users: their friends' vectors stay what they are, so a friend is projected once for good."""

    def __init__(self, trunk: Trunk, friends: Friends) -> None:
        known, sender = np.unique(friends.sender, return_inverse=True)
        self._receiver, self._sender = torch.from_numpy(friends.receiver), torch.from_numpy(sender)
        self._share = torch.from_numpy(friends.share)[:, None]
        self._is_literal, self._last_activation = trunk.message == "literal", trunk.last_activation
        self._layers = [_layer(trunk, k, known) for k in range(trunk.n_layers)]

    def levels(self, initial: Tensor) -> list[Tensor]:
        """Every level of the new users, K+1 × [n, d_k], from the vectors that they start from [n, d₀]."""
        levels = [initial]
        for k, layer in enumerate(self._layers):
            own = levels[-1]
            gates = self._gates(layer, own)
            sent = take(own, self._receiver) if self._is_literal else take(layer.sent, self._sender)
            messages = sent * gates * self._share  # [E, d]
            mean = torch.zeros_like(own).index_add(0, self._receiver, messages)  # [n, d], 0 without friends
            received = torch.cat([mean, own], dim=1) @ layer.combine.T
            is_active = self._last_activation or k < len(self._layers) - 1
            levels.append(torch.relu(received) if is_active else received)
        return levels

    def _gates(self, layer: _Layer, own: Tensor) -> Tensor:
        """``Σ_c a_c m_c`` along every link, [E, d] or, where all behaviors weigh the same, [d]."""
        if layer.near is None or layer.here is None or layer.score is None:
            return layer.masks.mean(dim=0)
        here = (own @ layer.here.T).view(len(own), *layer.near.shape[1:])
        weights = attention(take(layer.near, self._sender), take(here, self._receiver), layer.score)
        return weights @ layer.masks


def _layer(trunk: Trunk, k: int, known: NDArray[np.int64]) -> _Layer:
    assert trunk.combine is not None
    masks, combine = _tensor(trunk.masks[k]), _tensor(trunk.combine[k])
    sent = _tensor(trunk.levels[k][known])
    if trunk.attention is None:
        return _Layer(masks, combine, sent, None, None, None)
    project, score = _tensor(trunk.attention[k].project), _tensor(trunk.attention[k].score)
    of_sender, of_receiver = masked_halves(project, masks)  # [B · t, d]
    of_near, of_here = (of_receiver, of_sender) if trunk.message == "literal" else (of_sender, of_receiver)
    near = (sent @ of_near.T).view(len(sent), len(masks), len(score))
    return _Layer(masks, combine, sent, near, of_here, score)


def _tensor(array: NDArray[np.generic]) -> Tensor:
    """A copy that PyTorch may hold: those of an artifact are read-only."""
    return torch.from_numpy(np.array(array, dtype=np.float32))
