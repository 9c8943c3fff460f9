"""MCNE-plus: one space, a binary mask per behavior, and users who are sums of what is known of them.

    u_i   = e_i + γ_h h_i + γ_f f_i + γ_a Σ_a w_a     own vector, history, friends, attributes
    h_i   = Σ_{t ∈ records of i} y_t / √n_i           of all behaviors; in training without the positive that is scored
    f_i   = mean of e_j over the friends j of i
    z_t   = e_t + γ_a Σ_a w_a                         own vector and attributes of an item
    s     = ⟨u_i ⊙ m_c, z_t⟩ + b_t                    the masks m_c are binary, as in Eq. 1–2
    loss  = mean_c (Eq. 7 + λ L2 of what is scored + λ_h ‖y_p‖²) + w · skip-gram over walks

The walks are on one graph of users, friends and the items of all behaviors; their centers are the ``e`` of users and
items. All of it is linear in what is known of a user: so a score is a sum over its reasons
(:mod:`mcne.embeddings.reasons`), and news about a user changes a vector without training.

Legend: C behaviors, d the width; in a step n users, m nodes, r distinct records, b triples of a behavior.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mcne.data.dataset import SocialDataset
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.parts import Parts, Records
from mcne.embeddings.profile import Profile
from mcne.embeddings.ranking import Scorer
from mcne.kernels.products import gated
from mcne.kernels.sums import add_up, add_up_lists
from mcne.kernels.triples import rank
from mcne.models.contract import StepLoss, TrainingData
from mcne.models.falling_l2 import FallingL2
from mcne.models.mcne import BinaryMask
from mcne.models.mcne_attributes import Features
from mcne.models.optimizer import DenseAdam, RowAdam
from mcne.models.plus_steps import PlusBatch, PlusSteps, one_over
from mcne.models.ranking import DotRanking, StepLearner
from mcne.models.settings import Amount, Count, Rate
from mcne.models.tables import INIT_STD, copied, new_table, normal_table, take, to_device, to_numpy
from mcne.randomness import Stream
from mcne.sampling.neighbors import Lists

WIDTHS = (256, 128, 64, 32, 16)
"""To choose from: the first whose tables fit in :data:`LARGEST_TABLES`."""

BATCHES, STEPS = (1024, 512, 256, 128, 64), 12
"""To choose from: the first that makes at least so many steps an epoch. L2 and patience count epochs."""

LARGEST_TABLES = 16 << 30
"""Bytes of all tables and their moments, so that 10,000,000 users fit a machine of 24 GiB."""

MASKS_SHARE = 0.1
"""Of the learning rate, for masks: closed too soon, dimensions are lost."""

USERS_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class MCNEPlusConfig:
    """Settings, all ours. A part whose weight is 0 is left out.

    What is None follows from the data. ``l2`` is found in training: it starts at 0.1 and falls whenever validation
    stops rising. ``width`` is 256, or less where the tables of so many users and items would take more than 16 GiB.
    ``batch_size`` is what makes 12 steps an epoch or more, from 64 to 1,024, and ``walk_batch`` a quarter of it.
    """

    width: Count | None = None
    masks: bool = True  # where there are two behaviors or more
    history: Amount = 0.5
    friends: Amount = 0.5
    attributes: Amount = 1.0
    walks: Amount = 0.2
    walk_length: Count = 20
    window: Count = 10
    walk_batch: Count | None = None
    walk_negatives: Count = 5
    negatives: Count = 20
    batch_size: Count | None = None
    learning_rate: Rate = 0.006
    l2: Amount | None = None
    history_l2: Amount = 0.1
    weighted_records: bool = False


@dataclass(frozen=True)
class ChosenConfig(MCNEPlusConfig):
    """Settings in which only the L2 may be open."""

    width: Count = WIDTHS[0]
    walk_batch: Count = BATCHES[0] // 4
    batch_size: Count = BATCHES[0]


def chosen(config: MCNEPlusConfig, *, users: int, items: int, longest: int) -> ChosenConfig:
    """The settings with everything chosen for so many users and items, and records of the ``longest`` behavior."""
    rows = (users + items) * (2 if config.walks else 1) + (items if config.history else 0)
    numbers = 3 * 4 * rows  # bytes of a dimension, both moments included
    width = next((width for width in WIDTHS if width * numbers <= LARGEST_TABLES), WIDTHS[-1])
    batch = config.batch_size or next((size for size in BATCHES if size * STEPS <= longest), BATCHES[-1])
    given = {each.name: getattr(config, each.name) for each in fields(config)}
    given |= {"width": config.width or width, "batch_size": batch, "walk_batch": config.walk_batch or -(-batch // 4)}
    return ChosenConfig(**given)


class MCNEPlus(StepLearner):
    """The model behind the training contract. Its tables: ``nodes`` e, ``history`` y, ``bias`` b, ``contexts``."""

    config: ChosenConfig
    tables: RowAdam
    adam: DenseAdam | None = None

    def __init__(self, data: TrainingData, config: MCNEPlusConfig, *, seed: int, device: torch.device) -> None:
        self.data, self.given, self.device, self.seed = data, config, device, seed
        n_items = sum(data.n_items)
        longest = max((len(user) for user, _ in data.pairs), default=0)
        self.config = config = chosen(config, users=data.n_users, items=n_items, longest=longest)
        width = config.width
        on_host = torch.device("cpu")  # drawn items become nodes on the host
        self.items = DotRanking(data, config, width=width, bias=True, seed=seed, device=on_host)
        self.steps = PlusSteps(data, config, self.items, seed=seed, device=device)
        self.l2 = FallingL2(config.l2, device)
        tables = {"nodes": self._drawn("nodes", data.n_users + n_items), "bias": torch.zeros(n_items, 1)}
        if config.history:
            tables["history"] = self._drawn("history", n_items)
        if self.steps.skip_gram is not None:
            tables["contexts"] = new_table(data.n_users + n_items, width, zero=True)  # as word2vec starts
        self.tables = RowAdam(tables, learning_rate=config.learning_rate, device=device)
        self.mask: BinaryMask | None = None
        if config.masks and len(data.names) > 1:
            self.mask = BinaryMask(len(data.names), width, stream=Stream(seed, "initialize", "masks"))
            self.mask.real.data.add_(0.5)  # U(0, 1): all are open at first
        self.features = self._features()
        self.network = nn.ModuleDict(self.features | ({} if self.mask is None else {"mask": self.mask})).to(device)
        bounded = [] if self.mask is None else [self.mask.real]
        if parameters := list(self.network.parameters()):
            self.adam = DenseAdam(
                parameters, learning_rate=config.learning_rate, bounded=bounded, bounded_share=MASKS_SHARE
            )

    def prepare(self, epoch: int, step: int) -> PlusBatch:
        """Draw triples and walks, and find the records and friends of the users."""
        return self.steps.draw(epoch, step)

    # --- the model ---

    def loss(self, batch: PlusBatch) -> StepLoss:
        """The loss of a step; see the top of this file."""
        self.tables.forget()
        nodes = self.tables.rows("nodes", batch.nodes)  # [m, d]
        users, *items = torch.split(nodes, list(batch.sizes))
        of_items = batch.nodes[batch.sizes[0] :] - self.data.n_users
        bias = torch.split(self.tables.rows("bias", of_items), list(batch.sizes[1:]))  # C × [items, 1]
        known = self._known(users, batch)  # [n, d]
        records = self.tables.rows("history", batch.records) if self.config.history else None  # [r, d] y
        history = None if records is None else add_up(records, batch.had)  # [n, d] Σ y
        masks = None if self.mask is None else self.mask()  # [C, d]
        ranking, decay = [], []
        for k, at in enumerate(batch.triples):
            own = known.index_select(0, at.user)  # [b, d]
            if records is not None and history is not None:
                liked = take(records, at.record)  # y_p, which is left out of the sum, and of n_i
                others = (history.index_select(0, at.user) - liked) * batch.per_record.index_select(0, at.user)
                own = own + self.config.history * others
                decay.append(self.config.history_l2 * liked.square().sum() / max(1, len(liked)))
            own = own if masks is None else gated(own, masks[k])  # u|c
            vectors = self._with_attributes(f"items {k}", items[k], batch.items[k])  # [items, d] z
            each = torch.arange(len(own), device=self.device)
            loss, squares = rank(
                own, vectors, bias[k], user=each, positive=at.positive, negative=at.negative, weight=at.weight
            )
            ranking.append(loss)
            decay.append(self.l2.value * squares)
        per_behavior = torch.stack(ranking)
        penalty = torch.stack(decay).sum() / len(ranking) + self._walked(nodes, batch)
        examples = sum(len(each.user) for each in batch.triples)
        return StepLoss(per_behavior.mean() + penalty, per_behavior.detach(), examples)

    def _known(self, users: Tensor, batch: PlusBatch) -> Tensor:
        """``e + γ_f f + γ_a Σ w`` of the step's users, [n, d]: the same in all triples; ``users`` [·, d] are nodes."""
        own = users.index_select(0, batch.own)
        if self.config.friends:
            own = own + self.config.friends * batch.per_friend * add_up(users, batch.friends)
        return self._with_attributes("users", own, batch.users)

    def _with_attributes(self, name: str, vectors: Tensor, rows: Tensor) -> Tensor:
        """Vectors [n, d] plus what the attributes of these users or items add, if there are any."""
        if name not in self.features:
            return vectors
        added: Tensor = self.features[name](rows)
        return vectors + self.config.attributes * added

    def _walked(self, nodes: Tensor, batch: PlusBatch) -> Tensor:
        """The weighed skip-gram loss of a step's walks, []."""
        walks, skip_gram = batch.walks, self.steps.skip_gram
        if walks is None or skip_gram is None:
            return nodes.new_zeros(())
        contexts = self.tables.rows("contexts", walks.contexts)
        loss = skip_gram.loss(nodes, contexts, center=walks.center, context=walks.context, noise=walks.noise)
        weighed: Tensor = self.config.walks * loss
        return weighed

    # --- how it learns ---

    @property
    def is_settled(self) -> bool:
        """Whether the L2 is."""
        return self.l2.is_settled

    def choices(self) -> str:
        """What was chosen by the data, and why; empty if all was given."""
        told = []
        if self.given.width is None:
            told.append(f"width {self.config.width} (tables up to {LARGEST_TABLES >> 30} GiB)")
        if self.given.batch_size is None:
            told.append(f"{self.config.batch_size} records of each behavior a step ({self.n_steps} steps an epoch)")
        if self.given.l2 is None:
            told.append(f"l2 from {self.l2.START} down (by validation; {self.l2.WITHOUT_VALIDATION} without)")
        return f"chosen by the data: {', '.join(told)}" if told else ""

    def validated(self, metric: float | None) -> str | None:
        """Lower the L2 when validation has stopped rising."""
        return self.l2.validated(metric)

    def vitals(self) -> dict[str, float]:
        """The L2, the density of the masks, and how often an entry has turned over since the start."""
        vitals = {} if self.l2.is_fixed else {"l2": float(self.l2.value)}
        if self.mask is None or self.adam is None:
            return vitals
        density = float(self.mask().detach().mean())
        return vitals | {"mask_density_0": density, "mask_flips": float(self.adam.turned)}

    def memory(self) -> dict[str, Tensor]:
        """The moments of both optimizers, and where the L2 stands."""
        return super().memory() | {"l2": self.l2.value, "l2_progress": self.l2.progress}

    def load_memory(self, memory: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`memory` gave."""
        super().load_memory(memory)
        self.l2.value.copy_(memory["l2"])
        self.l2.progress.copy_(memory["l2_progress"])

    # --- what it has learned ---

    @torch.no_grad()
    def vectors(self) -> Tensor:
        """All users, [users, d], some at a time."""
        own = self.tables.tables["nodes"][: self.data.n_users]
        vectors = new_table(*own.shape, like=own, lasts=False)
        for start in range(0, len(own), USERS_AT_ONCE):
            rows = np.arange(start, min(start + USERS_AT_ONCE, len(own)))
            piece = own[rows[0] : rows[-1] + 1].clone()
            if self.config.history:
                had = self.steps.records.take(rows)
                piece += self.config.history * one_over(np.sqrt(had.lengths), self.device) * self._sum("history", had)
            near = self.steps.friends.take(rows)
            piece += self.config.friends * one_over(near.lengths, self.device) * self._sum("nodes", near)
            vectors[rows[0] : rows[-1] + 1] = self._with_attributes("users", piece, to_device(rows, self.device))
        return vectors

    @torch.no_grad()
    def item_tables(self) -> dict[str, Tensor]:
        """The vectors and biases of every behavior's items, by the names that :class:`DotRanking` gives them."""
        _, *items = torch.split(self.tables.tables["nodes"], [self.data.n_users, *self.data.n_items])
        tables = {}
        for k, vectors in enumerate(items):
            tables[f"items.{k}"] = self._with_attributes(
                f"items {k}", vectors, torch.arange(len(vectors), device=self.device)
            )
        bias = torch.split(self.tables.tables["bias"], list(self.data.n_items))
        return tables | {f"bias.{k}": each for k, each in enumerate(bias)}

    def scorer(self) -> Scorer:
        """Users under each behavior's mask, items by their tables."""
        return self.items.scorer(self.item_tables(), self.vectors(), self._masks())

    def embeddings(self, dataset: SocialDataset, provenance: Mapping[str, Any]) -> ConditionalEmbeddings:
        """The artifact, with the parts that users' vectors are sums of."""
        own = to_numpy(copied(self.tables.tables["nodes"][: self.data.n_users]))
        profile = None
        if "users" in self.features:
            encoding = self.features["users"].encoding
            weights = to_numpy(self.config.attributes * self.features["users"].weights.detach())
            profile = Profile.of(encoding, weights, self.data.attributes)
        parts = Parts.of(
            own,
            tuple(self._records(dataset, k) for k in range(len(dataset.behaviors))),
            history=self.config.history,
            friends=self.config.friends,
            profile=profile,
            attributes=self.data.attributes,
        )
        tables, vectors, masks = self.item_tables(), self.vectors(), self._masks()
        return self.items.embeddings(tables, vectors, dataset=dataset, provenance=provenance, masks=masks, parts=parts)

    def _records(self, dataset: SocialDataset, k: int) -> Records:
        """What the records of a behavior add, and which of the seen items were in training."""
        behavior = dataset.behaviors[k]
        indptr, items, _ = behavior.seen(dataset.n_users)
        user, item = self.data.pairs[k]
        seen = np.repeat(np.arange(dataset.n_users), np.diff(indptr)) * np.int64(behavior.n_items) + items
        counted = np.isin(seen, user * np.int64(behavior.n_items) + item, assume_unique=True)
        if not self.config.history:
            return Records(np.zeros((behavior.n_items, 0), np.float32), counted)
        first = self.steps.first[k + 1 : k + 3] - self.data.n_users
        return Records(to_numpy(copied(self.tables.tables["history"][first[0] : first[1]])), counted)

    def _masks(self) -> NDArray[np.bool_] | None:
        return None if self.mask is None else to_numpy(self.mask()).astype(bool)

    def _sum(self, table: str, lists: Lists) -> Tensor:
        """The sums of lists of rows of a table, without a gradient, [n, d]."""
        first, member = (to_device(each, self.device) for each in (lists.first, lists.member))
        return add_up_lists(self.tables.tables[table], first, member)

    def _drawn(self, name: str, rows: int) -> Tensor:
        return normal_table(rows, self.items.width, std=INIT_STD, stream=Stream(self.seed, "initialize", name))

    def _features(self) -> dict[str, Features]:
        """What the attributes of users and of each behavior's items add, where there are any."""
        known = {"users": (self.data.attributes, self.data.n_users)}
        for k, attributes in self.data.item_attributes.items():
            known[f"items {k}"] = attributes, self.data.n_items[k]
        return {
            name: Features(
                attributes, rows, self.items.width, stream=Stream(self.seed, "initialize", "attributes", name)
            )
            for name, (attributes, rows) in known.items()
            if attributes and self.config.attributes
        }
