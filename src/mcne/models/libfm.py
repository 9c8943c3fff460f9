"""LibFM: a factorization machine over user, friends and item (Rendle, ICDM 2010; ACM TIST 2012).

    ŷ(x) = w₀ + Σ_f w_f x_f + Σ_{f<g} ⟨v_f, v_g⟩ x_f x_g

The features of a pair are the user's id (1), its friends or whom it follows (1/degree each) and the item's id (1).
Every feature has a vector ``v`` and a weight ``w``. Only one of them is the item's, so all others can be summed up per
user:

    s_u = Σ x_f v_f,    c_u = ½ (s_u² − Σ x_f² v_f²),    b_u = Σ x_f w_f,    f of the user's features

The pooled interactions of all features of a pair, ``Σ_{f<g} x_f v_f ⊙ x_g v_g``, are then ``s_u ⊙ v_i + c_u``, and for
one user the score is ``⟨s_u, v_i⟩ + w_i`` plus what is the same for all items: an inner product with a bias, which can
be served. What is the same for all items still has to be learned, since every pair is learned by itself: is it a
training record, or one of the zeros drawn for it? NFM shares all of this but the last layer.

With ``weighted_records`` the loss of a record u, i is ``w_ui / w̄ · (−ln σ(ŷ))``, w̄ being the mean weight of the
behavior's training records; the zeros drawn for it count 1 each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from mcne.data.graph import offsets
from mcne.models.contract import StepLoss, TrainingData
from mcne.models.optimizer import RowAdam
from mcne.models.ranking import DotEmbedder, DotRanking, Rows, StepLearner, Triples, step_loss
from mcne.models.settings import Amount, Count, Rate
from mcne.models.tables import INIT_STD, normal_table, take, to_device
from mcne.randomness import Stream
from mcne.sampling.neighbors import distinct

if TYPE_CHECKING:
    from mcne.models.nfm import NFMConfig

USERS_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class LibFMConfig:
    """Settings; ``l2`` is per pair, on all its features, each as much as its value.

    A pair is a record or none, so the loss is the logistic one that libFM has for classes. The width is that of the
    paper's other methods. The rest is ours and chosen on Ciao's validation part, as libFM leaves it to the data;
    ``negatives`` are the zeros drawn for each record.
    """

    width: Count = 100
    negatives: Count = 10
    batch_size: Count = 1024
    learning_rate: Rate = 0.003
    l2: Amount = 0.02
    weighted_records: bool = False


@dataclass(frozen=True)
class UserFeatures:
    """Which features some users have, on the device."""

    users: Tensor  # [n] distinct
    friends: Tensor  # [f] distinct users who are a friend of any of them
    friend: Tensor  # [e] rows of friends, one user's after the other's
    start: Tensor  # [n] where each user's begin
    degree: Tensor  # [n, 1]


@dataclass(frozen=True)
class UserSums:
    """What the features of each user add up to."""

    vectors: Tensor  # [n, k] s_u
    pairs: Tensor  # [n, k] c_u
    weights: Tensor  # [n] b_u
    squares: Tensor  # [n] Σ x_f (‖v_f‖² + w_f²): what L2 decays


@dataclass(frozen=True)
class Pairs:
    """The scored pairs of one behavior in a step: each positive, and then the zeros drawn for it."""

    user: Tensor  # [b] rows of the step's users
    item: Tensor  # [b, 1+N] rows of the step's items
    vectors: Tensor  # [b, 1+N, k] v_i
    weights: Tensor  # [b, 1+N] w_i
    record_weight: Tensor | None  # [b] of the positive in the loss


def logistic_loss(scores: Tensor, item: Tensor, weight: Tensor | None = None) -> Tensor:
    """The mean of ``−ln σ(s)`` over positives and ``−ln σ(−s)`` over zeros, 0 of none.

    ``scores`` and ``item`` [b, 1+N], the positive first, which counts by its ``weight`` [b]. A zero that is the
    positive itself, drawn for a user who has every item, is no example; it still counts where pairs are decayed or
    normalized.
    """
    real = (item[:, 1:] != item[:, :1]).to(scores.dtype)
    positive = functional.softplus(-scores[:, 0])
    positive = positive if weight is None else positive * weight
    losses = positive.sum() + (functional.softplus(scores[:, 1:]) * real).sum()
    return losses / (len(scores) + real.sum()).clamp(min=1)


def pair_l2(sums: UserSums, pairs: Pairs) -> Tensor:
    """The mean over pairs of ``Σ x_f (‖v_f‖² + w_f²)`` over all features, the item's among them; 0 of none."""
    items = pairs.vectors.square().sum(-1) + pairs.weights.square()  # [b, 1+N]
    each = sums.squares.index_select(0, pairs.user) + items.mean(-1)
    return each.sum() / max(1, len(each))


@dataclass(frozen=True)
class FMBatch:
    """A step's inputs."""

    features: UserFeatures  # of the distinct users
    triples: tuple[Triples, ...]
    kept: tuple[Tensor | None, ...] = ()  # of NFM: [P, width] of each dropout


class FactorizationMachine(StepLearner):
    """Logistic regression on records and drawn zeros: tables of users, friends and items with weights, and w₀."""

    config: LibFMConfig | NFMConfig
    tables: RowAdam

    def __init__(self, data: TrainingData, config: LibFMConfig | NFMConfig, *, seed: int, device: torch.device) -> None:
        self.data, self.config, self.device = data, config, device
        self.items = DotRanking(data, config, width=config.width, bias=True, seed=seed, device=device)
        tables = {}
        for name in ("users", "friends"):
            stream = Stream(seed, "initialize", name)
            vectors = normal_table(data.n_users, config.width, std=INIT_STD, stream=stream)
            tables[name] = torch.cat([vectors, torch.zeros(len(vectors), 1)], dim=1)  # [users, k+1], weights last
        tables |= self.items.tables() | {"constant": torch.zeros(1, 1)}
        self.tables = RowAdam(tables, learning_rate=config.learning_rate, device=device)
        self._first_row = torch.zeros(1, dtype=torch.int64, device=device)

    def features(self, users: NDArray[Any]) -> UserFeatures:
        """The features of distinct ``users``, with all their friends."""
        first, last = (self.data.graph.indptr[users + end].astype(np.int64) for end in (0, 1))
        degree = last - first
        start = offsets(degree).astype(np.int64)
        at = np.arange(start[-1]) + np.repeat(first - start[:-1], degree)
        friends, (friend,) = distinct(self.data.graph.n_users, self.data.graph.indices[at])
        arrays = (users, friends, friend, start[:-1], degree[:, None])
        return UserFeatures(*(to_device(array, self.device) for array in arrays))

    def sums(self, rows: Rows, features: UserFeatures) -> UserSums:
        """The sums of users, from the rows of both tables that they need."""
        own = rows("users", features.users)  # [n, k+1]
        friends = rows("friends", features.friends)  # [f, k+1]
        both = torch.cat([friends, friends.square()], dim=1)
        means = functional.embedding_bag(features.friend, both, features.start, mode="mean")  # 0 without friends
        near, near_squares = means.chunk(2, dim=1)  # [n, k+1] Σ x_f v_f and Σ x_f v_f² over friends
        total = own + near
        own_squares = own.square()
        squares = own_squares + near_squares / features.degree.clamp(min=1)  # Σ x_f² v_f²
        pairs = (total.square() - squares)[:, :-1] / 2
        return UserSums(total[:, :-1], pairs, total[:, -1], (own_squares + near_squares).sum(-1))

    @torch.no_grad()
    def everyone(self, tables: Mapping[str, Tensor]) -> UserSums:
        """The sums of all users, a piece at a time."""
        n_users = self.data.graph.n_users
        pieces = []
        for start in range(0, n_users, USERS_AT_ONCE):
            features = self.features(np.arange(start, min(start + USERS_AT_ONCE, n_users)))
            pieces.append(self.sums(lambda name, rows: tables[name].index_select(0, rows), features))
        return UserSums(*(torch.cat(column) for column in zip(*(vars(each).values() for each in pieces), strict=True)))

    def prepare(self, epoch: int, step: int) -> FMBatch:
        """Draw the pairs of all behaviors, and look up the friends of their users."""
        users, triples = self.items.draw(epoch, step)
        return FMBatch(self.features(users), triples)

    def loss(self, batch: FMBatch) -> StepLoss:
        """Logistic loss per behavior, averaged over behaviors, plus L2 on the features of the pairs."""
        self.tables.forget()
        sums = self.sums(self.tables.rows, batch.features)
        alone = self.of_users(sums)  # [n]
        behaviors = []
        for k, at in enumerate(batch.triples):
            item = torch.cat([at.positive[:, None], at.negative], dim=1)  # [b, 1+N]
            vectors = self.tables.rows(f"items.{k}", at.items)  # [m, k]
            weights = self.tables.rows(f"bias.{k}", at.items)  # [m, 1]
            behaviors.append(Pairs(at.user, item, take(vectors, item), take(weights, item)[:, :, 0], at.weight))
        fit, decay = [], []
        for pairs, together in zip(behaviors, self.of_pairs(sums, behaviors, batch), strict=True):
            scores = together + pairs.weights + alone.index_select(0, pairs.user)[:, None]
            fit.append(logistic_loss(scores, pairs.item, pairs.record_weight))
            decay.append(pair_l2(sums, pairs))
        return step_loss(torch.stack(fit), self.config.l2 * torch.stack(decay).mean(), batch.triples)

    def of_users(self, sums: UserSums) -> Tensor:
        """What is the same for all items, [n]: w₀, which learns in this step, and b_u."""
        return self.tables.rows("constant", self._first_row)[0] + sums.weights

    def of_pairs(self, sums: UserSums, behaviors: Sequence[Pairs], batch: FMBatch) -> Iterator[Tensor]:
        """What a user and an item make together, C × [b, 1+N]."""
        raise NotImplementedError


class LibFM(FactorizationMachine, DotEmbedder):
    """Factorization machine learned by logistic regression on records and drawn zeros."""

    def of_users(self, sums: UserSums) -> Tensor:
        """w₀ + b_u and the sum of c_u."""
        return super().of_users(sums) + sums.pairs.sum(-1)

    def of_pairs(self, sums: UserSums, behaviors: Sequence[Pairs], batch: FMBatch) -> Iterator[Tensor]:
        """``⟨s_u, v_i⟩``."""
        for pairs in behaviors:
            user = sums.vectors.index_select(0, pairs.user)  # [b, k]
            yield torch.bmm(pairs.vectors, user[:, :, None])[:, :, 0]

    def vectors(self) -> Tensor:
        """All users, each the sum of its features; the weight of an item is its bias."""
        return self.everyone(self.tables.tables).vectors
