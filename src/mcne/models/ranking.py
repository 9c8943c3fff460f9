"""What methods that learn by ranking items share: item tables, triples, loss, scorer, artifact, and their part of the
training contract.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mcne.data.dataset import SocialDataset
from mcne.data.graph import offsets
from mcne.embeddings.artifact import BehaviorSpace, ConditionalEmbeddings
from mcne.embeddings.parts import Parts
from mcne.embeddings.ranking import DotScorer, Scorer
from mcne.embeddings.trunk import Trunk
from mcne.kernels.backend import MOST_NUMBERS, backend_for, block, fits_gpu, is_gpu, warn_once
from mcne.kernels.products import gated
from mcne.kernels.rows import Groups, group_places
from mcne.kernels.triples import AllTriples, rank, rank_all
from mcne.models.contract import StepLoss, TrainingData
from mcne.models.optimizer import RowAdam, adam_memory, load_adam
from mcne.models.tables import INIT_STD, copied, normal_table, take, to_device, to_device_at_once, to_numpy
from mcne.randomness import Stream
from mcne.sampling.neighbors import distinct
from mcne.sampling.triples import TripleSampler

GATHERED_AT_ONCE = 1 << 26
"""Numbers of item vectors that are gathered at a time on a device."""

Rows = Callable[[str, Tensor], Tensor]
"""Rows of a table by name, as :meth:`mcne.models.optimizer.RowAdam.rows` gives them."""


@dataclass(frozen=True)
class Triples:
    """The triples of one behavior in a step, on the device."""

    user: Tensor  # [b] rows of the step's distinct users
    items: Tensor  # [m] distinct items of the catalog
    positive: Tensor  # [b] rows of items
    negative: Tensor  # [b, N] rows of items
    weight: Tensor | None = None  # [b] in the loss


Ranked = tuple[Triples, ...] | AllTriples
"""The triples of a step, in the form that its device ranks them."""


class Config(Protocol):
    """The settings that every ranking method needs."""

    @property
    def negatives(self) -> int:
        """Negatives of each positive pair."""

    @property
    def batch_size(self) -> int:
        """Positive pairs of each behavior in a step."""

    @property
    def learning_rate(self) -> float:
        """Of Adam."""


class DotRanking:
    """The item side of ``⟨u|c, z⟩ + b``: a table per behavior, ``items.k``, and with ``bias`` another, ``bias.k``.

    Of settings with ``weighted_records`` on, every triple counts in the loss by the weight of its record over the mean
    weight of the behavior's training records.
    """

    def __init__(
        self, data: TrainingData, settings: Config, *, width: int, bias: bool, seed: int, device: torch.device
    ) -> None:
        self.data, self.width, self.bias, self.device = data, width, bias, device
        self.seed, self.negatives, self.batch_size = seed, settings.negatives, settings.batch_size
        longest = max((len(user) for user, _ in data.pairs), default=0)
        self.n_steps = -(-longest // self.batch_size)  # of an epoch (reading 10)
        is_weighted = getattr(settings, "weighted_records", False)
        self.weights = [data.relative_weights(k) for k in range(len(data.pairs))] if is_weighted else None
        self._made: TripleSampler | None = None
        self._making = Lock()

    @property
    def _sampler(self) -> TripleSampler:
        """The sampler of steps drawn on the host, made once by the first worker that asks."""
        data = self.data
        with self._making:
            self._made = self._made or TripleSampler(
                data.pairs,
                n_users=data.n_users,
                n_items=data.n_items,
                negatives=self.negatives,
                batch_size=self.batch_size,
                seed=self.seed,
                seen=[data.seen(k) for k in range(len(data.pairs))],
                weights=self.weights,
            )
        return self._made

    def tables(self) -> dict[str, Tensor]:
        """The initial item tables."""
        tables = {}
        for k, (name, size) in enumerate(zip(self.data.names, self.data.n_items, strict=True)):
            stream = Stream(self.seed, "initialize", "items", name)
            tables[f"items.{k}"] = normal_table(size, self.width, std=INIT_STD, stream=stream)
            if self.bias:
                tables[f"bias.{k}"] = torch.zeros(size, 1)
        return tables

    def draw(self, epoch: int, step: int) -> tuple[NDArray[np.int64], tuple[Triples, ...]]:
        """The distinct users of a step, increasing, and the triples of every behavior."""
        drawn = [self._sampler.draw(k, epoch, step) for k in range(len(self.data.names))]
        users, rows = distinct(self.data.n_users, *(triples.user for triples in drawn))
        parts = [
            array
            for user, each in zip(rows, drawn, strict=True)
            for array in (user, each.items, each.positive, each.negative)
        ]
        sent = to_device_at_once(parts, self.device)
        triples = []
        for k, each in enumerate(drawn):
            user, items, positive, negative = sent[4 * k : 4 * k + 4]
            weight = None if each.weight is None else to_device(each.weight, self.device)
            triples.append(Triples(user, items, positive, negative, weight))
        return users, tuple(triples)

    def draw_ranked(self, epoch: int, step: int) -> tuple[NDArray[np.int64], Ranked]:
        """The same for :meth:`loss`; on a GPU all behaviors at once."""
        if not self.joined:
            return self.draw(epoch, step)
        drawn = [self._sampler.draw(k, epoch, step) for k in range(len(self.data.names))]
        users, rows = distinct(self.data.n_users, *(triples.user for triples in drawn))
        catalog, first = (
            offsets(np.array(sizes)) for sizes in (self.data.n_items, [len(each.items) for each in drawn])
        )
        items = np.concatenate([catalog[k] + each.items for k, each in enumerate(drawn)])
        scored = [np.concatenate([each.positive[:, None], each.negative], axis=1) for each in drawn]
        user, item = np.concatenate(rows), np.concatenate([first[k] + each for k, each in enumerate(scored)])
        groups = (*group_places(user, len(users)), *group_places(item, len(items)))
        at, who, what, *sent = to_device_at_once((items, user, item, *groups), self.device)
        weights = [each.weight for each in drawn if each.weight is not None]
        weight = to_device(np.concatenate(weights), self.device) if weights else None
        return users, AllTriples(at, who, what, Groups(*sent[:3]), Groups(*sent[3:]), len(rows[0]), weight)

    @cached_property
    def joined(self) -> dict[str, list[str]]:
        """Which tables are one where all behaviors are ranked at once: on a GPU, if each has something to rank."""
        is_on_gpu = backend_for(self.device) == "triton"
        is_joined = is_on_gpu and fits_gpu(1 + self.negatives, self.width)
        if is_on_gpu and not is_joined:
            most = MOST_NUMBERS // block(self.width) - 1
            warn_once(
                "negatives",
                f"training on a GPU is slower, as its kernels do not hold {self.negatives:,} negatives in rows of "
                f"{self.width:,} numbers and plain operations take their place; they hold "
                f"{f'at most {most:,}' if most > 0 else 'none in such rows'} (settings negatives and width or widths)",
            )
        is_joined = is_joined and all(len(user) for user, _ in self.data.pairs)
        kinds = ("items", "bias") if self.bias else ("items",)
        return {kind: [f"{kind}.{k}" for k in range(len(self.data.names))] for kind in kinds} if is_joined else {}

    def loss(self, rows: Rows, triples: Ranked, users: Tensor, masks: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Eq. 7 of each behavior, [C], and the L2 of what was scored, averaged over behaviors, [] (reading 8).

        ``users`` [n, d] are vectors of the step's users, ``masks`` [C or more, d] what each behavior takes of them.
        """
        if isinstance(triples, AllTriples):
            bias = rows("bias", triples.items) if self.bias else None  # [m, 1]
            return rank_all(users, masks, rows("items", triples.items), bias, triples)
        ranking, decay = [], []
        for k, at in enumerate(triples):
            own = users if masks is None else gated(users, masks[k])  # u|c
            items = rows(f"items.{k}", at.items)  # [m, d]
            bias = rows(f"bias.{k}", at.items) if self.bias else None  # [m, 1]
            places = {"user": at.user, "positive": at.positive, "negative": at.negative}
            each, penalty = rank(own, items, bias, **places, weight=at.weight)
            ranking.append(each)
            decay.append(penalty)
        return torch.stack(ranking), torch.stack(decay).mean()

    def scorer(self, tables: Mapping[str, Tensor], vectors: Tensor, masks: NDArray[np.bool_] | None = None) -> Scorer:
        """The scores of all users by their ``vectors``; without ``masks`` [C, d] every behavior has all dimensions."""
        masks = np.ones((len(self.data.names), self.width), dtype=bool) if masks is None else masks  # [C, d]
        items, bias = self.items_and_bias(tables)
        if is_gpu(vectors.device):
            return DeviceScorer(vectors.detach(), to_device(masks, vectors.device), tuple(items), tuple(bias) or None)
        return DotScorer(to_numpy(vectors), masks, tuple(map(to_numpy, items)), tuple(map(to_numpy, bias)) or None)

    def embeddings(
        self,
        tables: Mapping[str, Tensor],
        vectors: Tensor,
        *,
        dataset: SocialDataset,
        provenance: Mapping[str, Any],
        masks: NDArray[np.bool_] | None = None,
        trunk: Trunk | None = None,
        parts: Parts | None = None,
    ) -> ConditionalEmbeddings:
        """The artifact of the same scores, which holds copies of all tables; without ``masks`` [C, d] behaviors have
        those of the trunk, or all dimensions.
        """
        if masks is None:
            masks = np.ones((len(self.data.names), self.width), dtype=bool) if trunk is None else trunk.masks[-1]
        items, bias = self.items_and_bias(tables)
        spaces = tuple(
            BehaviorSpace.of(
                behavior,
                dataset.n_users,
                mask=masks[k],
                item_vectors=to_numpy(copied(items[k])),
                item_bias=to_numpy(copied(bias[k])) if bias else None,
            )
            for k, behavior in enumerate(dataset.behaviors)
        )
        users = copied(vectors) if any(vectors is table for table in tables.values()) else vectors
        return ConditionalEmbeddings(
            dataset.users, to_numpy(users), spaces, dataset.graph, trunk, provenance, dataset.user_names, parts
        )

    def items_and_bias(self, tables: Mapping[str, Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Item vectors of all behaviors, C × [items, d], and biases, C × [items] or none."""
        behaviors = range(len(self.data.names))
        items = [tables[f"items.{k}"].detach() for k in behaviors]
        return items, [tables[f"bias.{k}"].detach()[:, 0] for k in behaviors] if self.bias else []


@dataclass(frozen=True, eq=False)
class DeviceScorer:
    """:class:`mcne.embeddings.ranking.DotScorer` on a device: only ids and scores travel."""

    vectors: Tensor  # [users, d]
    masks: Tensor  # [C, d]
    item_vectors: tuple[Tensor, ...]  # C × [items, d]
    item_bias: tuple[Tensor, ...] | None = None  # C × [items]

    @torch.no_grad()
    def scores(self, behavior: int, users: NDArray[Any], items: NDArray[Any] | None = None) -> NDArray[np.float32]:
        """[n, m] for ``items`` [n, m] of each user, [n, all items] without."""
        vectors = self.item_vectors[behavior]
        device = self.vectors.device
        own = take(self.vectors, to_device(users.astype(np.int64), device)) * self.masks[behavior]  # [n, d]
        bias = None if self.item_bias is None else self.item_bias[behavior]
        if items is None:
            scored = own @ vectors.T
            return to_numpy(scored if bias is None else scored + bias)
        rows = to_device(items, device).long()  # [n, m]
        at_once = max(1, GATHERED_AT_ONCE // max(1, rows.shape[1] * vectors.shape[1]))
        pieces = zip(torch.split(own, at_once), torch.split(rows, at_once), strict=True)
        scored = torch.cat([(take(vectors, some) * mine[:, None]).sum(-1) for mine, some in pieces])
        return to_numpy(scored if bias is None else scored + take(bias, rows))


def step_loss(ranking: Tensor, penalty: Tensor, triples: Ranked) -> StepLoss:
    """The mean over behaviors plus a penalty (Eq. 8)."""
    examples = len(triples.user) if isinstance(triples, AllTriples) else sum(len(each.user) for each in triples)
    return StepLoss(ranking.mean() + penalty, ranking.detach(), examples)


class StepLearner:
    """All of the contract but ``prepare``, ``loss`` and ``scorer``, of a method that learns ``tables``, or what learns
    in every step, such as a network, by ``adam``; or both.
    """

    items: DotRanking
    tables: RowAdam | None = None
    network: nn.Module | None = None
    adam: torch.optim.Adam | None = None

    @property
    def n_steps(self) -> int:
        """Steps of an epoch: as many as the longest behavior takes (reading 10)."""
        return self.items.n_steps

    def update(self, loss: StepLoss) -> None:
        """Descend."""
        if self.adam is not None:
            self.adam.zero_grad()
        torch.autograd.backward(loss.total)
        for optimizer in (self.adam, self.tables):
            if optimizer is not None:
                optimizer.step()

    def vitals(self) -> dict[str, float]:
        """Nothing besides the losses."""
        return {}

    def learned(self) -> dict[str, Tensor]:
        """The tables, and what learns in every step."""
        return ({} if self.tables is None else self.tables.tables) | self.dense()

    def memory(self) -> dict[str, Tensor]:
        """The moments of both optimizers."""
        of_rows = {} if self.tables is None else self.tables.memory()
        return of_rows | ({} if self.adam is None else adam_memory(self.adam))

    @torch.no_grad()
    def load(self, learned: Mapping[str, Tensor]) -> None:
        """Take over everything that was learned."""
        if self.tables is not None:
            self.tables.load_tables(learned)
        for name, value in self.dense().items():
            value.copy_(learned[name])

    def load_memory(self, memory: Mapping[str, Tensor]) -> None:
        """Take over the moments of both optimizers."""
        if self.tables is not None:
            self.tables.load_memory(memory)
        if self.adam is not None:
            load_adam(self.adam, memory)

    def dense(self) -> dict[str, Tensor]:
        """What learns in every step, and what goes with it: the state of the network."""
        state = {} if self.network is None else self.network.state_dict()
        return {f"network.{name}": value for name, value in state.items()}


class VectorLearner(StepLearner):
    """A method that learns a vector of ``widths[0]`` numbers for each user and one of ``widths[-1]`` for each item."""

    tables: RowAdam

    def __init__(
        self, data: TrainingData, config: Config, *, widths: Sequence[int], bias: bool, seed: int, device: torch.device
    ) -> None:
        self.data, self.config, self.device = data, config, device
        self.items = DotRanking(data, config, width=widths[-1], bias=bias, seed=seed, device=device)
        tables = self.user_tables(widths[0]) | self.items.tables()
        self.tables = RowAdam(tables, learning_rate=config.learning_rate, device=device, joined=self.items.joined)

    def user_tables(self, width: int) -> dict[str, Tensor]:
        """The vectors that users start from, [users, width]."""
        stream = Stream(self.items.seed, "initialize", "users")
        return {"users": normal_table(self.data.n_users, width, std=INIT_STD, stream=stream)}


class DotEmbedder:
    """A method that gives each user one vector for all behaviors and scores by inner products with the item tables."""

    items: DotRanking
    tables: RowAdam

    def vectors(self) -> Tensor:
        """All users, [users, d]: the table ``users``, unless a method computes them from more."""
        return self.tables.tables["users"]

    def item_tables_and_users(self) -> tuple[Mapping[str, Tensor], Tensor]:
        """What scores are products of."""
        return self.tables.tables, self.vectors()

    def scorer(self) -> Scorer:
        """Inner products, plus the bias."""
        return self.items.scorer(*self.item_tables_and_users())

    def embeddings(self, dataset: SocialDataset, provenance: Mapping[str, Any]) -> ConditionalEmbeddings:
        """The artifact: every behavior has all dimensions."""
        return self.items.embeddings(*self.item_tables_and_users(), dataset=dataset, provenance=provenance)
