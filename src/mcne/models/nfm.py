"""NFM: a neural network over the pooled interactions of a factorization machine (He & Chua, SIGIR 2017).

    ŷ(x) = w₀ + Σ_f w_f x_f + hᵀ φ(f_BI(x)),    f_BI(x) = Σ_{f<g} x_f v_f ⊙ x_g v_g = s_u ⊙ v_i + c_u

The features are LibFM's, and so are the pairs that it learns from (``libfm.py``). φ is batch normalization and
dropout, and then layers with ReLU, normalized and dropped out likewise. Without layers and normalization and with
h = 1 it is LibFM. The scores are no inner products: they are evaluated, and never served.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from mcne.kernels.products import weighed
from mcne.models.contract import StepLoss, TrainingData
from mcne.models.libfm import FactorizationMachine, FMBatch, Pairs, UserSums
from mcne.models.optimizer import DenseAdam
from mcne.models.settings import Amount, Count, Rate, Share
from mcne.models.tables import normal_table, to_device, to_numpy
from mcne.randomness import Stream

MOMENTUM, EPSILON = 0.1, 1e-3
"""How far a step moves the running statistics, and what keeps a variance from 0: as in the authors' program."""

NUMBERS_AT_ONCE, ITEMS_AT_ONCE = 1 << 25, 1 << 16
"""Of the first layer's output, and of a catalog."""


@dataclass(frozen=True)
class NFMConfig:
    """Settings; ``dropout`` is of the pooled interactions, ``layer_dropout`` of every layer behind them.

    Layers and dropout are those of the authors' program. It normalizes as well; here that is off, because it undoes
    L2: what the few records of a user or an item say is blown up to the size of what many say (on Ciao's validation
    part NDCG@5 stays below 20 % with it, and reaches 24 % without). The width is that of the paper's other methods.
    The rest is ours and chosen on the same part. ``l2`` is per pair, as for LibFM; the network is not decayed.
    """

    width: Count = 100
    layers: tuple[Count, ...] = (64,)
    batch_norm: bool = False
    dropout: Share = 0.5
    layer_dropout: Share = 0.2
    negatives: Count = 10
    batch_size: Count = 1024
    learning_rate: Rate = 0.001
    l2: Amount = 0.03


class Normalization(nn.Module):
    """Batch normalization whose running statistics move when :meth:`commit` says so: a loss alone changes nothing."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.shift = nn.Parameter(torch.zeros(width))
        self.mean: Tensor
        self.variance: Tensor
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))
        self._moved: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """``x`` [P, d] by its own statistics; two rows or more."""
        self._moved = mean, variance = self.mean.clone(), self.variance.clone()
        return functional.batch_norm(
            x, mean, variance, self.scale, self.shift, training=True, momentum=MOMENTUM, eps=EPSILON
        )

    def commit(self) -> None:
        """Move the running statistics toward those of the last forward pass."""
        if self._moved is not None:
            self.mean.copy_(self._moved[0])
            self.variance.copy_(self._moved[1])

    def affine(self) -> tuple[Tensor, Tensor]:
        """``a`` and ``b`` [d] such that ``a x + b`` normalizes by the running statistics."""
        a = self.scale * torch.rsqrt(self.variance + EPSILON)
        return a, self.shift - a * self.mean


class PooledNetwork(nn.Module):
    """``hᵀ φ(f_BI)``: from pooled interactions to a number."""

    def __init__(self, config: NFMConfig, *, stream: Stream) -> None:
        super().__init__()
        self._widths = widths = (config.width, *config.layers)
        self._dropout = (config.dropout, *(config.layer_dropout for _ in config.layers))
        self._norms = [Normalization(width) for width in widths if config.batch_norm]
        self.norms = nn.ModuleList(self._norms)
        self.weights = nn.ParameterList(_glorot(above, below, stream) for below, above in pairwise(widths))
        self.biases = nn.ParameterList(torch.zeros(width) for width in config.layers)
        self.last = nn.Parameter(_glorot(1, widths[-1], stream)[0] if config.layers else torch.ones(widths[-1]))  # h

    def forward(self, pooled: Tensor, kept: Sequence[Tensor | None]) -> Tensor:
        """In training: ``pooled`` [P, k] to [P], normalized by its own statistics, with what is ``kept`` of dropout."""
        x = pooled
        for k, (mask, share) in enumerate(zip(kept, self._dropout, strict=True)):
            if k:
                x = weighed(x, self.weights[k - 1], self.biases[k - 1])
            if self._norms:
                x = self._norms[k](x)
            if k:
                x = torch.relu(x)
            if mask is not None:
                x = x * (mask.to(x.dtype) / (1 - share))
        return x @ self.last

    def draw(self, pairs: int, stream: Stream) -> Iterator[NDArray[np.bool_] | None]:
        """What is kept in a step of so many pairs, [P, width] before the first layer and behind each.

        True but for the share of dropout, to 16 bits: four chances in every word.
        """
        for width, share in zip(self._widths, self._dropout, strict=True):
            if share:
                chances = stream.bits(-(-pairs * width // 4)).view(np.uint16)[: pairs * width]
                yield (chances >= round(share * (1 << 16))).reshape(pairs, width)
            else:
                yield None

    @torch.no_grad()
    def maps(self) -> list[tuple[Tensor, Tensor]]:
        """Beyond training: affine maps with ReLU between them, matrix and offset, the normalizations folded in."""
        hidden = []
        scale, shift = self._affine(0)
        for k, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True), start=1):
            outer, offset = self._affine(k)
            hidden.append((outer[:, None] * weight * scale, outer * (weight @ shift + bias) + offset))
            scale, shift = torch.ones_like(bias), torch.zeros_like(bias)
        return [*hidden, ((self.last * scale)[None], (self.last @ shift)[None])]

    def commit(self) -> None:
        """Move the running statistics toward those of the last forward pass."""
        for norm in self._norms:
            norm.commit()

    def _affine(self, at: int) -> tuple[Tensor, Tensor]:
        if self._norms:
            return self._norms[at].affine()
        ones = self.last.new_ones(self._widths[at])
        return ones, torch.zeros_like(ones)


def _glorot(above: int, below: int, stream: Stream) -> Tensor:
    """N(0, 2 / (above + below)), [above, below]."""
    return normal_table(above, below, std=sqrt(2 / (above + below)), stream=stream)


class NFM(FactorizationMachine):
    """Neural factorization machine, learned like LibFM."""

    config: NFMConfig
    network: PooledNetwork

    def __init__(self, data: TrainingData, config: NFMConfig, *, seed: int, device: torch.device) -> None:
        super().__init__(data, config, seed=seed, device=device)
        self.network = PooledNetwork(config, stream=Stream(seed, "initialize", "network")).to(device)
        self.adam = DenseAdam(self.network.parameters(), learning_rate=config.learning_rate)

    def prepare(self, epoch: int, step: int) -> FMBatch:
        """Draw also what dropout keeps of the pairs."""
        batch = super().prepare(epoch, step)
        n_pairs = sum(each.positive.numel() + each.negative.numel() for each in batch.triples)
        kept = self.network.draw(n_pairs, Stream(self.items.seed, "dropout", epoch, step))
        return replace(batch, kept=tuple(None if mask is None else to_device(mask, self.device) for mask in kept))

    def of_pairs(self, sums: UserSums, behaviors: Sequence[Pairs], batch: FMBatch) -> Iterator[Tensor]:
        """``hᵀ φ(s_u ⊙ v_i + c_u)``, of all behaviors at once."""
        pooled = []
        for pairs in behaviors:
            vectors, constant = (each.index_select(0, pairs.user)[:, None] for each in (sums.vectors, sums.pairs))
            pooled.append((vectors * pairs.vectors + constant).flatten(0, 1))  # [b (1+N), k]
        deep = self.network(torch.cat(pooled), batch.kept).split([each.item.numel() for each in behaviors])
        yield from (part.view(pairs.item.shape) for pairs, part in zip(behaviors, deep, strict=True))

    def update(self, loss: StepLoss) -> None:
        """Descend, and move the running statistics."""
        super().update(loss)
        self.network.commit()

    def scorer(self) -> NFMScorer:
        """Scores by the running statistics, with nothing dropped out."""
        sums = self.everyone(self.tables.tables)
        maps = self.network.maps()
        offsets = sums.pairs @ maps[0][0].T + maps[0][1]
        weights = self.tables.tables["constant"][0] + sums.weights
        return NFMScorer(maps, sums.vectors, offsets, weights, *self.items.items_and_bias(self.tables.tables))


@dataclass(frozen=True, eq=False)
class NFMScorer:
    """Scores on the device, a piece at a time.

    The first map ``(A, b)`` sees ``s_u ⊙ v_i + c_u``. ``A (s_u ⊙ v) = (A diag s_u) v`` makes a product with the item
    table out of a user's whole catalog, and ``A c_u + b`` is precomputed.
    """

    maps: list[tuple[Tensor, Tensor]]
    vectors: Tensor  # [users, k] s_u
    offsets: Tensor  # [users, J] A c_u + b
    weights: Tensor  # [users] w₀ + b_u
    item_vectors: list[Tensor]  # C × [items, k]
    item_weights: list[Tensor]  # C × [items]

    def scores(self, behavior: int, users: NDArray[Any], items: NDArray[Any] | None = None) -> NDArray[np.float32]:
        """[n, m] for ``items`` [n, m] of each user, [n, all items] without.

        The last bits of a matrix product depend on the place in it, so every pair is computed once and then copied.
        """
        if items is None:
            distinct, at = np.unique(users, return_inverse=True)
            return self._catalogs(behavior, distinct)[at]
        n_items = len(self.item_weights[behavior])
        distinct, at = np.unique(users.astype(np.int64)[:, None] * n_items + items, return_inverse=True)
        return self._pairs(behavior, *np.divmod(distinct, n_items))[at.reshape(items.shape)]

    @torch.no_grad()
    def _catalogs(self, behavior: int, users: NDArray[Any]) -> NDArray[np.float32]:
        """All items for distinct users, [n, n_items]."""
        matrix = self.maps[0][0]  # [J, k]
        weights = self.item_weights[behavior]  # [items]
        scores = np.empty((len(users), len(weights)), dtype=np.float32)
        step = max(1, NUMBERS_AT_ONCE // (len(matrix) * min(len(weights), ITEMS_AT_ONCE)))
        for start in range(0, len(users), step):
            some = slice(start, start + step)
            at = to_device(users[some].astype(np.int64), self.vectors.device)
            left = (self.vectors[at][:, None] * matrix).flatten(0, 1)  # [n·J, k] A diag s_u
            offsets, own = self.offsets[at].reshape(-1, 1), self.weights[at][:, None]
            for first in range(0, len(weights), ITEMS_AT_ONCE):
                piece = slice(first, first + ITEMS_AT_ONCE)
                hidden = torch.addmm(offsets, left, self.item_vectors[behavior][piece].T)
                deep = self._rest(hidden.view(len(at), len(matrix), -1))
                scores[some, piece] = to_numpy(deep + own + weights[piece])
        return scores

    @torch.no_grad()
    def _pairs(self, behavior: int, users: NDArray[np.int64], items: NDArray[np.int64]) -> NDArray[np.float32]:
        """Pairs of a user and an item, [n]."""
        matrix = self.maps[0][0]  # [J, k]
        scores = np.empty(len(users), dtype=np.float32)
        step = max(1, NUMBERS_AT_ONCE // sum(matrix.shape))
        for start in range(0, len(users), step):
            some = slice(start, start + step)
            user, item = (to_device(rows[some], self.vectors.device) for rows in (users, items))
            product = self.vectors[user] * self.item_vectors[behavior][item]  # [n, k]
            deep = self._rest((product @ matrix.T + self.offsets[user]).T)
            scores[some] = to_numpy(deep + self.weights[user] + self.item_weights[behavior][item])
        return scores

    def _rest(self, hidden: Tensor) -> Tensor:
        """The other maps after the first one's output, […, J, m] to […, m]."""
        for matrix, offset in self.maps[1:]:
            hidden = matrix @ hidden.relu_() + offset[:, None]
        return hidden[..., 0, :]
