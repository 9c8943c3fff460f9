"""MCNE as the paper's complexity counts it: every sampled path on its own, conditional vectors formed per edge.

The rival of the factored form, with its parameters; O(M ∏ N) per step, and Adam over all rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mcne.kernels.triples import bpr_loss, scored_l2
from mcne.models.mcne import MCNE
from mcne.sampling.triples import TripleSampler


class LiteralStep:
    """One training step of two layers at a time."""

    def __init__(self, model: MCNE) -> None:
        data, config = model.data, model.config
        self.model = model
        self.graph = data.graph
        self.triples = TripleSampler(
            data.pairs,
            n_users=data.n_users,
            n_items=data.n_items,
            negatives=config.negatives,
            batch_size=config.batch_size,
            seed=0,
        )
        self.tables = {name: table.clone().requires_grad_() for name, table in model.tables.tables.items()}
        parameters = [*self.tables.values(), *model.network.parameters()]
        self.adam = torch.optim.Adam(parameters, lr=model.config.learning_rate)
        self.random = np.random.default_rng(0)

    def run(self, number: int) -> float:
        """Do a step by its number, and give its loss."""
        model = self.model
        epoch, step = divmod(number, self.triples.n_steps)
        last_masks = model.network.masks[-1]()
        losses = []
        for k in range(len(model.data.names)):
            drawn = self.triples.draw(k, epoch, step)
            user = self._user(drawn.user) * last_masks[k]
            items = self.tables[f"items.{k}"][torch.from_numpy(drawn.items)]
            positive, negative = items[torch.from_numpy(drawn.positive)], items[torch.from_numpy(drawn.negative)]
            scores = (user[:, None] * negative).sum(-1)
            losses.append(
                bpr_loss((user * positive).sum(-1), scores) + model.config.l2 * scored_l2(user, positive, negative)
            )
        loss = torch.stack(losses).mean()
        self.adam.zero_grad()
        torch.autograd.backward(loss)
        self.adam.step()
        with torch.no_grad():
            for real in model.network.bounded():
                real.clamp_(-1.0, 1.0)
        return float(loss.detach())

    def _user(self, users: NDArray[Any]) -> Tensor:
        """The last level of each user of the list, repeated users computed again."""
        first, second = self.model.config.neighbor_samples
        around, has_any = self._neighbors(users, second)
        around = np.concatenate([users[:, None], around], axis=1)  # [n, 1 + S]
        below, below_has_any = self._neighbors(around.ravel(), first)  # [n (1 + S), S]
        initial = self.tables["users"]
        own, sent = (initial[torch.from_numpy(rows)] for rows in (around.ravel(), below))
        middle = self._layer(0, own, sent, below_has_any).view(*around.shape, -1)  # [n, 1 + S, d_1]
        return self._layer(1, middle[:, 0], middle[:, 1:], has_any)

    def _layer(self, k: int, own: Tensor, sent: Tensor, has_any: NDArray[Any]) -> Tensor:
        """``own`` [m, d], ``sent`` [m, S, d], ``has_any`` [m] → [m, d']."""
        layer = self.model.network.message_layers()[k]
        masks = self.model.network.masks[k]()
        assert layer.project is not None
        assert layer.score is not None
        sender = sent[:, :, None, :] * masks  # [m, S, B, d]
        receiver = (own[:, None, None, :] * masks).expand_as(sender)
        weights = torch.softmax(
            torch.relu(torch.cat([sender, receiver], dim=-1) @ layer.project.T) @ layer.score, dim=-1
        )
        received = (weights[..., None] * sender).sum(dim=2).mean(dim=1) * torch.from_numpy(has_any)[:, None]
        return torch.relu(torch.cat([received, own], dim=1) @ layer.combine.T)

    def _neighbors(self, users: NDArray[Any], size: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Drawn ones [n, size], anybody for users without, and who has any [n]."""
        start, end = self.graph.indptr[users], self.graph.indptr[users + 1]
        at = start[:, None] + (self.random.random((len(users), size)) * (end - start)[:, None]).astype(np.int64)
        has_any = end > start
        return self.graph.indices[np.where(has_any[:, None], at, 0)].astype(np.int64), has_any
