"""MCNE: multiple conditional network embedding, and its variants MCNE-A and MCNE-F."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mcne.data.dataset import SocialDataset
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.space import BehaviorSpace
from mcne.embeddings.trunk import Attention, Trunk
from mcne.evaluation.dot import DotScorer
from mcne.layers.losses import bpr_loss, parameter_l2, scored_l2
from mcne.layers.message import INIT_STD, Message
from mcne.layers.network import ConditionalNetwork, TensorHop
from mcne.layers.tensors import normal_table, to_device, to_numpy
from mcne.randomness import Stream
from mcne.sampling.neighbors import NeighborSampler
from mcne.sampling.triples import TripleSampler
from mcne.training.contract import StepLoss, TrainingData
from mcne.training.optimizer import RowAdam, adam_memory, load_adam


@dataclass(frozen=True)
class MCNEConfig:
    """Settings of the model: the paper's where it states them, and for the rest those of docs/paper-to-code.md."""

    widths: tuple[int, ...] = (256, 128, 100)
    neighbor_samples: tuple[int, ...] = (20, 20)
    attention_width: int = 64
    message: Message = "neighbor"
    last_activation: bool = True
    weighted_neighbors: bool = False
    negatives: int = 5
    batch_size: int = 128
    learning_rate: float = 0.003
    l2: float = 0.001
    l2_form: Literal["scored", "parameters"] = "scored"


@dataclass(frozen=True)
class Batch:
    """A step's inputs. Per behavior: rows of the last level, distinct items, and rows of those."""

    users: Tensor  # [n₀] users whose initial vectors are needed
    hops: tuple[TensorHop, ...]
    user: tuple[Tensor, ...]  # C × [b]
    items: tuple[Tensor, ...]  # C × [distinct]
    positive: tuple[Tensor, ...]  # C × [b]
    negative: tuple[Tensor, ...]  # C × [b, N]


class MCNE:
    """The paper's model behind the training contract."""

    attention = True
    learned_masks = True

    def __init__(self, data: TrainingData, config: MCNEConfig, *, seed: int, device: torch.device) -> None:
        self.data, self.config, self.device = data, config, device
        self._seed = seed
        self.network = ConditionalNetwork(
            len(data.names) + 1,
            config.widths,
            attention_width=config.attention_width,
            attention=self.attention,
            learned_masks=self.learned_masks,
            message=config.message,
            last_activation=config.last_activation,
            stream=Stream(seed, "initialize", "network"),
        ).to(device)
        tables = {
            "users": normal_table(
                data.n_users, config.widths[0], std=INIT_STD, stream=Stream(seed, "initialize", "users")
            )
        }
        for k, name in enumerate(data.names):
            tables[f"items.{k}"] = normal_table(
                data.n_items[k], config.widths[-1], std=INIT_STD, stream=Stream(seed, "initialize", "items", name)
            )
        self.tables = RowAdam({k: t.to(device) for k, t in tables.items()}, learning_rate=config.learning_rate)
        self._adam = torch.optim.Adam(self.network.parameters(), lr=config.learning_rate)
        self._flips = torch.zeros((), dtype=torch.int64, device=device)
        self._neighbors = NeighborSampler(data.graph, config.neighbor_samples, weighted=config.weighted_neighbors)
        self._triples = TripleSampler(
            data.pairs,
            n_users=data.n_users,
            n_items=data.n_items,
            negatives=config.negatives,
            batch_size=config.batch_size,
            seed=seed,
        )

    @property
    def n_steps(self) -> int:
        """Steps of an epoch: as long as the longest behavior takes (reading 10)."""
        return self._triples.n_steps

    def prepare(self, epoch: int, step: int) -> Batch:
        """Draw the triples of all behaviors and the neighborhood of their users."""
        drawn = [self._triples.draw(k, epoch, step) for k in range(len(self.data.names))]
        seeds = np.unique(np.concatenate([triples.user for triples in drawn]))
        around = self._neighbors.sample(seeds, seed=self._seed, epoch=epoch, step=step)
        return Batch(
            self._tensor(around.users),
            tuple(TensorHop(*map(self._tensor, (hop.receiver, hop.sender, hop.heard))) for hop in around.hops),
            tuple(self._tensor(np.searchsorted(seeds, triples.user)) for triples in drawn),
            tuple(self._tensor(triples.items) for triples in drawn),
            tuple(self._tensor(triples.positive) for triples in drawn),
            tuple(self._tensor(triples.negative) for triples in drawn),
        )

    def loss(self, batch: Batch) -> StepLoss:
        """Eq. 7–8: BPR per behavior, averaged over behaviors, plus L2 (reading 8)."""
        is_scored = self.config.l2_form == "scored"
        self.tables.forget()
        initial = self._rows("users", batch.users)
        last = self.network(initial, batch.hops)  # [n_K, d_K], before the last mask
        masks = self.network.masks[-1]()  # [B, d_K]
        ranking, decay = [], []
        for k in range(len(self.data.names)):
            items = self._rows(f"items.{k}", batch.items[k])
            user = last.index_select(0, batch.user[k]) * masks[k]  # u_i|c, [b, d_K]
            positive = items.index_select(0, batch.positive[k])  # z_p, [b, d_K]
            at = batch.negative[k]  # [b, N]
            negative = items.index_select(0, at.flatten()).view(*at.shape, items.shape[1])  # z_n
            scores = torch.bmm(negative, user[:, :, None])[:, :, 0]  # [b, N]
            ranking.append(bpr_loss((user * positive).sum(-1), scores))
            if is_scored:
                decay.append(scored_l2(user, positive, negative))
        per_behavior = torch.stack(ranking)
        penalty = torch.stack(decay).mean() if is_scored else parameter_l2(self._parameters())
        return StepLoss(per_behavior.mean() + self.config.l2 * penalty, per_behavior.detach(), self._examples(batch))

    def update(self, loss: StepLoss) -> None:
        """Descend, then bring the masks back into their range and count how many entries turned over."""
        before = self.network.binary_masks()
        self._adam.zero_grad()
        torch.autograd.backward(loss.total)
        self._adam.step()
        self.tables.step()
        self.network.clamp_masks()
        after = self.network.binary_masks()
        self._flips += sum((a != b).sum() for a, b in zip(before, after, strict=True))

    def vitals(self) -> dict[str, float]:
        """The density of the masks at each level, and how often an entry has turned over since the start."""
        density = {f"mask_density_{k}": float(mask.mean()) for k, mask in enumerate(self.network.binary_masks())}
        return density | {"mask_flips": float(self._flips)}

    def scorer(self) -> DotScorer:
        """Users by the last level under each behavior's mask, items by their tables."""
        masks = self.network.binary_masks()[-1][: len(self.data.names)]
        items = tuple(to_numpy(self.tables.tables[f"items.{k}"]) for k in range(len(self.data.names)))
        return DotScorer(to_numpy(self.levels()[-1]), to_numpy(masks), items)

    def embeddings(self, dataset: SocialDataset, provenance: Mapping[str, Any]) -> ConditionalEmbeddings:
        """The artifact, with the levels and the attention that explain a link."""
        *below, last = map(to_numpy, self.levels())
        masks = tuple(to_numpy(mask).astype(bool) for mask in self.network.binary_masks())
        layers = self.network.message_layers()
        attention = tuple(
            Attention(to_numpy(layer.project), to_numpy(layer.score))
            for layer in layers
            if layer.project is not None and layer.score is not None
        )
        spaces = tuple(
            BehaviorSpace.of(
                behavior, dataset.n_users, mask=masks[-1][k], item_vectors=to_numpy(self.tables.tables[f"items.{k}"])
            )
            for k, behavior in enumerate(dataset.behaviors)
        )
        trunk = Trunk(tuple(below), masks, attention or None, self.config.message)
        return ConditionalEmbeddings(dataset.users, last, spaces, dataset.graph, trunk, provenance)

    def levels(self) -> list[Tensor]:
        """Every level of all users, hearing all their neighbors (reading 11): K+1 × [users, d_k]."""
        graph = self.data.graph
        indptr, indices = (self._tensor(array.astype(np.int64)) for array in (graph.indptr, graph.indices))
        return self.network.infer(self.tables.tables["users"], indptr=indptr, indices=indices)

    def learned(self) -> dict[str, Tensor]:
        """The tables, the masks behind their thresholds, and the weights of the layers."""
        return dict(self.tables.tables) | {f"network.{k}": value for k, value in self.network.state_dict().items()}

    def memory(self) -> dict[str, Tensor]:
        """What both optimizers remember, and the count of flips."""
        return self.tables.memory() | adam_memory(self._adam) | {"flips": self._flips}

    def load(self, learned: Mapping[str, Tensor]) -> None:
        """Take over tables, masks and weights."""
        self.tables.load_tables(learned)
        self.network.load_state_dict({name: learned[f"network.{name}"] for name in self.network.state_dict()})

    def load_memory(self, memory: Mapping[str, Tensor]) -> None:
        """Take over what both optimizers remembered."""
        self.tables.load_memory(memory)
        load_adam(self._adam, memory)
        self._flips = memory["flips"].to(self.device).clone()

    def _rows(self, table: str, rows: Tensor) -> Tensor:
        """Rows of a table that learn in this step. Where L2 is on all parameters, all rows learn in every step."""
        if self.config.l2_form == "scored":
            return self.tables.rows(table, rows)
        return self.tables.rows(table, torch.arange(len(self.tables.tables[table]), device=self.device))[rows]

    def _parameters(self) -> list[Tensor]:
        return [*self.network.parameters(), *self.tables.touched()]

    def _examples(self, batch: Batch) -> int:
        return sum(len(user) for user in batch.user)

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return to_device(array, self.device)


class MCNEA(MCNE):
    """MCNE-A: no attention, all behaviors weigh the same along every link (reading 13)."""

    attention = False


class MCNEF(MCNE):
    """MCNE-F: disjoint fixed masks instead of learned ones, and no attention (reading 14)."""

    attention = False
    learned_masks = False
