"""What the training loop knows about a method, and what a method knows about the data: only the training part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mcne.data.behavior import Attribute, Pairs, merged
from mcne.data.dataset import SocialDataset
from mcne.data.graph import Graph
from mcne.data.split import TRAIN, Split
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.ranking import Scorer


@dataclass(frozen=True)
class TrainingData:
    """The graph, the training pairs and user attributes; validation and test are not visible to methods."""

    graph: Graph
    names: tuple[str, ...]
    n_items: tuple[int, ...]
    pairs: tuple[Pairs, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    weights: Mapping[int, NDArray[np.float32]] = field(default_factory=dict)  # of the pairs, by the behavior's place
    known: Mapping[int, Pairs] = field(default_factory=dict)  # by the behavior's place: no pairs, and no negatives
    item_attributes: Mapping[int, Mapping[str, Attribute]] = field(default_factory=dict)  # by the behavior's place

    @property
    def n_users(self) -> int:
        """Users of the network."""
        return self.graph.n_users

    @classmethod
    def of(cls, dataset: SocialDataset, split: Split) -> TrainingData:
        """The training part of a split."""
        parts = list(zip(dataset.behaviors, split.parts, strict=True))
        return cls(
            dataset.graph,
            tuple(dataset.behavior_names),
            tuple(behavior.n_items for behavior in dataset.behaviors),
            tuple(split.of(behavior, k, TRAIN) for k, behavior in enumerate(dataset.behaviors)),
            dataset.attributes,
            {k: each.weight[part == TRAIN] for k, (each, part) in enumerate(parts) if each.weight is not None},
            {k: each.known for k, each in enumerate(dataset.behaviors) if each.known is not None},
            {k: each.attributes for k, each in enumerate(dataset.behaviors) if each.attributes},
        )

    def seen(self, behavior: int) -> Pairs:
        """The training pairs of a behavior and its known pairs together: these are never drawn as negatives."""
        pairs = self.pairs[behavior]
        return merged(pairs, self.known[behavior])[:2] if behavior in self.known else pairs

    def relative_weights(self, behavior: int) -> NDArray[np.float32]:
        """The weights of a behavior's training pairs over their mean, so that all are 1 where they are equal."""
        weights = self.weights[behavior]
        mean = weights.sum(dtype=np.float64) / max(1, len(weights))
        return np.asarray(weights / mean, dtype=np.float32)


@dataclass(frozen=True)
class StepLoss:
    """The loss to minimize, and the ranking loss of each behavior for reports."""

    total: Tensor  # []
    per_behavior: Tensor  # [C], NaN-free unless the training diverged
    examples: int  # positive pairs


class Method(Protocol):
    """A way to score items for users, ready once constructed unless it is a :class:`Learner`."""

    def scorer(self) -> Scorer:
        """What the method knows, as a scorer."""

    def learned(self) -> dict[str, Tensor]:
        """Everything that scores depend on, detached from the graph of a step."""

    def load(self, learned: Mapping[str, Tensor]) -> None:
        """Load what was learned."""


@runtime_checkable
class Embedder(Method, Protocol):
    """A method whose scores are inner products of vectors, so it has embeddings."""

    def embeddings(self, dataset: SocialDataset, provenance: Mapping[str, Any]) -> ConditionalEmbeddings:
        """The embeddings that everything downstream reads."""


@runtime_checkable
class Learner(Method, Protocol):
    """A method that learns step by step.

    :meth:`prepare` is a pure function of epoch and step, so any number of workers can run
    ahead. ``learned`` and ``memory`` contain everything that a resumed training needs besides epoch and step.
    """

    @property
    def n_steps(self) -> int:
        """Steps of an epoch."""

    def prepare(self, epoch: int, step: int) -> Any:
        """The inputs of a step, or what the device needs to draw them."""

    def loss(self, batch: Any) -> StepLoss:
        """Forward."""

    def update(self, loss: StepLoss) -> None:
        """Backward and the optimizer's step."""

    def vitals(self) -> Mapping[str, float]:
        """Other numbers to record, such as the density of masks."""

    def memory(self) -> dict[str, Tensor]:
        """What a resumed training needs besides what was learned: the optimizer's moments and counts."""

    def load_memory(self, memory: Mapping[str, Tensor]) -> None:
        """Load what :meth:`memory` gave."""


@runtime_checkable
class Adaptive(Learner, Protocol):
    """A learner that adapts to the data, and to how well it does on the validation part; ``memory`` contains how."""

    @property
    def is_settled(self) -> bool:
        """Whether patience may end the training."""

    def choices(self) -> str:
        """What it chose by the data, for people; empty if nothing."""

    def validated(self, metric: float | None) -> str | None:
        """An evaluation gave this metric, or there is no validation part; returns what to report, if anything."""


@runtime_checkable
class Capturable(Learner, Protocol):
    """A learner whose steps can be captured once and replayed: see :mod:`mcne.training.gpu`."""

    @property
    def is_capturable(self) -> bool:
        """Whether :meth:`prepare` gives a tensor, and ``loss`` and ``update`` run the same operations for all tensors
        of one shape, wait for nothing, and change tensors in place alone."""
