"""Scores by inner product where the vectors are: what embedding methods hand to evaluation on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mcne.models.tensors import take, to_device, to_numpy

NUMBERS_AT_ONCE = 1 << 26
"""Of item vectors that are gathered."""


@dataclass(frozen=True, eq=False)
class DeviceScorer:
    """:class:`mcne.embeddings.scorer.DotScorer` on a device: only what is asked about and the scores travel."""

    vectors: Tensor  # [users, d]
    masks: Tensor  # [C, d]
    item_vectors: tuple[Tensor, ...]  # C × [items, d]
    item_bias: tuple[Tensor, ...] | None = None  # C × [items]

    @torch.no_grad()
    def scores(self, behavior: int, users: NDArray[Any], items: NDArray[Any] | None = None) -> NDArray[np.float32]:
        """[n, m] for ``items`` [n, m] of each user, [n, all items] without."""
        vectors, device = self.item_vectors[behavior], self.vectors.device
        own = take(self.vectors, to_device(users.astype(np.int64), device)) * self.masks[behavior]  # [n, d]
        bias = None if self.item_bias is None else self.item_bias[behavior]
        if items is None:
            scored = own @ vectors.T
            return to_numpy(scored if bias is None else scored + bias)
        rows = to_device(items, device).long()  # [n, m]
        at_once = max(1, NUMBERS_AT_ONCE // max(1, rows.shape[1] * vectors.shape[1]))
        pieces = zip(torch.split(own, at_once), torch.split(rows, at_once), strict=True)
        scored = torch.cat([(take(vectors, some) * mine[:, None]).sum(-1) for mine, some in pieces])
        return to_numpy(scored if bias is None else scored + take(bias, rows))
