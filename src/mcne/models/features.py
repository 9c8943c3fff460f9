"""What attributes add to vectors: a learned vector for each of their features, of which those of a row are added up."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional

from mcne.data.behavior import Attribute
from mcne.embeddings.profile import Encoding
from mcne.models.tables import INIT_STD, normal_table
from mcne.randomness import Stream


class Features(nn.Module):
    """``Σ_f x_f w_f`` over the features of users, or of items, unknown values being features too."""

    index: Tensor  # [rows, p] features
    amount: Tensor  # [rows, p]

    def __init__(self, attributes: Mapping[str, Attribute], rows: int, width: int, *, stream: Stream) -> None:
        super().__init__()
        self.encoding = Encoding.of(attributes)
        weights = normal_table(self.encoding.size, width, std=INIT_STD, stream=stream)
        weights[self.encoding.unknown] = 0  # values that training never meets add nothing
        self.weights = nn.Parameter(weights)
        index, amount = map(torch.from_numpy, self.encoding.encode(attributes, rows))
        self.register_buffer("index", index, persistent=False)
        self.register_buffer("amount", amount, persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        """Of these rows, [n, d]."""
        return project(self.weights, self.index[rows], self.amount[rows])


def project(weights: Tensor, index: Tensor, amount: Tensor) -> Tensor:
    """``Σ_f x_f w_f`` of ``weights`` [F, d], the features [n, p] of n rows and their amounts, [n, d]; by a function
    whose gradient adds up in a fixed order.
    """
    if not index.numel():
        return weights.new_zeros(len(index), weights.shape[1])
    return functional.embedding_bag(index, weights, mode="sum", per_sample_weights=amount.to(weights.dtype))
