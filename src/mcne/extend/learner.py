"""A new behavior on a trained network: only its masks and items are trained (reading 15).

On every link the message is the neighbor's vector under the new mask, ``u_j ⊙ m``, without attention; the weights
``W^{k+1}`` and the activations of Eq. 6 are those of the trained network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mcne.data.dataset import SocialDataset
from mcne.embeddings.artifact import BehaviorSpace, ConditionalEmbeddings
from mcne.embeddings.ranking import Scorer
from mcne.embeddings.trunk import Trunk
from mcne.extend.checks import TransferConfig
from mcne.kernels.rows import take_rows
from mcne.models.contract import StepLoss, TrainingData
from mcne.models.inference import graph_links, infer
from mcne.models.mcne import BinaryMask, ConditionalNetwork, Mask
from mcne.models.mcne_variants import open_mask, random_mask
from mcne.models.neighborhoods import Batch, NeighborhoodSteps
from mcne.models.optimizer import DenseAdam, RowAdam
from mcne.models.ranking import DotRanking, StepLearner, step_loss
from mcne.models.tables import copied, to_numpy
from mcne.randomness import Stream

ITEMS = "items.0"
"""The table of the new behavior's items, as :class:`DotRanking` names it."""


class Transfer(NeighborhoodSteps, StepLearner):
    """One behavior behind the training contract; ``items`` are its item vectors where only masks are to learn."""

    network: ConditionalNetwork
    adam: DenseAdam | None

    def __init__(
        self,
        base: ConditionalEmbeddings,
        trunk: Trunk,
        data: TrainingData,
        config: TransferConfig,
        *,
        items: NDArray[np.float32] | None,
        seed: int,
        device: torch.device,
    ) -> None:
        self.base = base
        self.config = config
        is_whole = config.control == "whole-vector"  # a network without layers
        initial = base.vectors if is_whole else trunk.levels[0]
        self.users = torch.tensor(np.ascontiguousarray(initial)).to(device)  # [users, d_0], frozen
        stream = Stream(seed, "initialize", "masks", *data.names)
        self.network = self._frozen_network(trunk, () if is_whole else trunk.combine, stream).to(device)
        self._links = graph_links(data.graph, weighted=trunk.weighted, device=device)
        self.items = DotRanking(data, config, width=base.width, bias=False, seed=seed, device=device)
        if items is None:
            own = self.items.tables()
            rate = config.learning_rate
            self.tables = RowAdam(own, learning_rate=rate, joined=self.items.joined, device=device)
            self.item_tables: Mapping[str, Tensor] = self.tables.tables
        else:
            self.item_tables = {ITEMS: torch.tensor(np.ascontiguousarray(items)).to(device)}
        masks = self.learned_masks().values()
        self.adam = DenseAdam(masks, learning_rate=config.learning_rate, bounded=masks) if masks else None
        widest = max(mask().shape[1] for mask in self.network.masks)
        samples = () if is_whole else config.neighbor_samples
        self.sample_neighborhoods(samples, weighted=trunk.weighted, widest=widest)

    def loss(self, batch: Batch | Tensor) -> StepLoss:
        """Eq. 7 of the new behavior, plus the L2 of what it scores (reading 8)."""
        if self.tables is not None:
            self.tables.forget()
        batch = self.drawn(batch)
        last = self.network(take_rows(self.users, batch.users), batch.hops)  # [n_K, d_K], before the last mask
        ranking, scored = self.items.loss(self._rows, batch.triples, last, self.network.masks[-1]())
        return step_loss(ranking, self.config.l2 * scored, batch.triples)

    def vitals(self) -> dict[str, float]:
        """The density of the mask at each level, and how often entries have flipped since the start."""
        density = {f"mask_density_{k}": float(mask.mean()) for k, mask in enumerate(self.network.binary_masks())}
        return density | {"mask_flips": 0.0 if self.adam is None else float(self.adam.turned)}

    def scorer(self) -> Scorer:
        """Users by their last level under the new mask, items by their table."""
        return self.items.scorer(self.item_tables, self.levels()[-1], self._masks()[-1])

    def levels(self) -> list[Tensor]:
        """Every level of all users on the new behavior, from messages of all their neighbors (reading 11)."""
        return infer(self.network, self.users, self._links)

    def embeddings(self, dataset: SocialDataset, provenance: Mapping[str, Any]) -> ConditionalEmbeddings:
        """The embeddings from before with the new behavior's space; the provenance lists its lower-level masks."""
        masks = self._masks()
        space = BehaviorSpace.of(
            dataset.behaviors[0],
            dataset.n_users,
            mask=masks[-1][0],
            item_vectors=to_numpy(copied(self.item_tables[ITEMS])),
            user_vectors=to_numpy(self.levels()[-1]).copy(),
        )
        digits = ["".join(map(str, mask[0].astype(int))) for mask in masks]
        own: dict[str, Any] = {"control": self.config.control, "masks": digits}
        if skipped := dataset.provenance.get("skipped"):
            own["skipped"] = skipped
        added = {**self.base.provenance.get("added", {}), space.name: own}
        return replace(self.base, spaces=(*self.base.spaces, space), provenance={**provenance, "added": added})

    def dense(self) -> dict[str, Tensor]:
        """The real values behind the masks that learn."""
        return {name: real.detach() for name, real in self.learned_masks().items()}

    def _frozen_network(
        self, trunk: Trunk, combine: tuple[NDArray[np.float32], ...], stream: Stream
    ) -> ConditionalNetwork:
        """The trained layers with one mask row at each level; only the masks can be trained."""
        masks: Callable[[int, int], Mask] = open_mask
        if self.config.control not in ("open-masks", "whole-vector"):
            masks = partial(random_mask if self.config.control == "random-masks" else BinaryMask, stream=stream)
        network = ConditionalNetwork(
            1,
            (self.users.shape[1], *map(len, combine)),
            masks=masks,
            message=trunk.message,
            last_activation=trunk.last_activation,
            stream=stream,
        )
        for layer, weights in zip(network.message_layers(), combine, strict=True):
            layer.combine.requires_grad_(False)
            layer.combine.copy_(torch.tensor(weights))
        return network

    def learned_masks(self) -> dict[str, torch.nn.Parameter]:
        """The real values behind the masks, where they learn, K+1 × [1, d_k]."""
        masks = enumerate(self.network.masks)
        return {f"masks.{k}": mask.real for k, mask in masks if isinstance(mask, BinaryMask)}

    def _masks(self) -> list[NDArray[np.bool_]]:
        """The binary masks of every level, K+1 × [1, d_k]."""
        return [to_numpy(mask).astype(bool) for mask in self.network.binary_masks()]

    def _rows(self, table: str, rows: Tensor) -> Tensor:
        """Rows of the item table, by its own name or as the only one of all behaviors."""
        return take_rows(self.item_tables[ITEMS], rows) if self.tables is None else self.tables.rows(table, rows)
