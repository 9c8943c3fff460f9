"""MCNE whose users start from their attributes, alone or beside a free vector (the paper's future work)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from mcne.data.behavior import Attribute
from mcne.data.dataset import SocialDataset
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.profile import Encoding, Profile
from mcne.models.contract import TrainingData
from mcne.models.mcne import MCNE, MCNEConfig
from mcne.models.optimizer import DenseAdam
from mcne.models.tables import INIT_STD, new_table, normal_table, to_device, to_numpy
from mcne.randomness import Stream

USERS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class MCNEAttributesConfig(MCNEConfig):
    """As MCNE's; ``initial`` says whether attributes stand alone or are added to a free vector of each user."""

    initial: Literal["both", "attributes"] = "both"


class MCNEAttributes(MCNE):
    """``u⁰_i = Σ_f x_if w_f (+ v_i)`` over the features of a user's attributes, unknown values being features too: so
    users who are unknown in training can start from their attributes.
    """

    may_draw_on_gpu = False  # such steps may have rows that are nobody's, who has no attributes to sum up
    config: MCNEAttributesConfig

    def __init__(self, data: TrainingData, config: MCNEAttributesConfig, *, seed: int, device: torch.device) -> None:
        self._encoding = Encoding.of(data.attributes)
        index, amount = self._encoding.encode(data.attributes, data.n_users)
        self._index, self._amount = to_device(index, device), to_device(amount, device)
        super().__init__(data, config, seed=seed, device=device)
        stream = Stream(seed, "initialize", "attributes")
        weights = normal_table(self._encoding.size, config.widths[0], std=INIT_STD, stream=stream)
        weights[self._encoding.unknown] = 0  # values that training never meets add nothing
        self.network.register_parameter("attributes", nn.Parameter(weights.to(device)))
        self.adam = DenseAdam(
            self.network.parameters(), learning_rate=config.learning_rate, bounded=self.network.bounded()
        )

    def user_tables(self, width: int) -> dict[str, Tensor]:
        """The free vectors, if users have any."""
        return super().user_tables(width) if self.config.initial == "both" else {}

    def initial(self, users: Tensor) -> Tensor:
        """The sum over attributes, plus the free vectors, which learn in this step."""
        projected = self._project(users)
        return projected + super().initial(users) if self.config.initial == "both" else projected

    @torch.no_grad()
    def all_initial(self, *, for_good: bool = False) -> Tensor:
        """The same for all users, some at a time; a new table, so it never changes."""
        weights = self.network.get_parameter("attributes")
        vectors = new_table(self.data.n_users, self.config.widths[0], like=weights, lasts=False)
        for rows in torch.split(torch.arange(len(vectors), device=self.device), USERS_AT_ONCE):
            vectors[rows] = self._project(rows)
        return vectors.add_(super().all_initial()) if self.config.initial == "both" else vectors

    def embeddings(self, dataset: SocialDataset, provenance: Mapping[str, Any]) -> ConditionalEmbeddings:
        """The artifact, with what new users start from."""
        artifact = super().embeddings(dataset, provenance)
        assert artifact.trunk is not None
        weights = to_numpy(self.network.get_parameter("attributes")).copy()
        profile = Profile.of(self._encoding, weights, self.data.attributes)
        return dataclasses.replace(artifact, trunk=dataclasses.replace(artifact.trunk, profile=profile))

    def _project(self, users: Tensor) -> Tensor:
        """``Σ_f x_if w_f``, [n, d₀], by a function whose gradient adds up in a fixed order."""
        return project(self.network.get_parameter("attributes"), self._index[users], self._amount[users])


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
