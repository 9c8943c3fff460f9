"""What a step of MCNE-plus needs, drawn and numbered: triples, the records and friends of their users, and walks.

Users and the items of all behaviors are nodes of one space, users first and then behavior by behavior. A step looks up
and updates each distinct node once, whether it is ranked, a friend, or on a walk.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mcne.kernels.sums import Sums
from mcne.models.contract import TrainingData
from mcne.models.node_ranking import joint_graph
from mcne.models.ranking import DotRanking, Triples
from mcne.models.skip_gram import SkipGram
from mcne.models.tables import to_device
from mcne.randomness import Stream
from mcne.sampling.neighbors import Lists, Noise, distinct
from mcne.sampling.walks import WalkCorpus, Walker

if TYPE_CHECKING:
    from mcne.models.mcne_plus import ChosenConfig

WALKS_PER_NODE = 10
"""After which the same walks come again. Part of what a seed means."""


@dataclass(frozen=True)
class PlusTriples:
    """The triples of one behavior in a step."""

    user: Tensor  # [b] rows of the step's users
    positive: Tensor  # [b] rows of the behavior's nodes
    negative: Tensor  # [b, N]
    record: Tensor  # [b] the positive as a row of the step's records
    weight: Tensor | None  # [b] in the loss


@dataclass(frozen=True)
class WalkBatch:
    """A step's walks."""

    contexts: Tensor  # [c] distinct nodes of walks and noise
    center: Tensor  # [W, L] the walks as rows of the step's nodes
    context: Tensor  # [W, L] and as rows of contexts
    noise: Tensor  # [W, stretches, N] rows of contexts


@dataclass(frozen=True)
class PlusBatch:
    """A step's inputs."""

    nodes: Tensor  # [m] distinct: users, then the items of each behavior
    sizes: tuple[int, ...]  # how many of them are users, and items of each behavior
    items: tuple[Tensor, ...]  # of each behavior, those as rows of its catalog
    users: Tensor  # [n] users of the triples
    own: Tensor  # [n] them as rows of nodes
    triples: tuple[PlusTriples, ...]
    records: Tensor  # [r] distinct items that the users have
    had: Sums  # for each user, rows of records
    per_record: Tensor  # [n, 1] 1/√(n_i − 1)
    friends: Sums  # for each user, rows of nodes
    per_friend: Tensor  # [n, 1] one over the number of friends
    walks: WalkBatch | None


class PlusSteps:
    """Draws steps: a function of seed, epoch and step alone."""

    def __init__(
        self, data: TrainingData, settings: ChosenConfig, items: DotRanking, *, seed: int, device: torch.device
    ) -> None:
        self._items, self._seed, self._device = items, seed, device
        self.first = np.cumsum([0, data.n_users, *data.n_items])  # node of the first user, and of each first item
        nobody = Lists(np.zeros(data.n_users + 1, np.int64), np.zeros(0, np.int64))
        records = Lists.of_items(data.pairs, data.n_items, data.n_users)
        self.records = records if settings.history else nobody
        self.friends = Lists.of_friends(data.graph) if settings.friends else nobody
        graph = joint_graph(data, trust=True)
        self.skip_gram: SkipGram | None = None
        if settings.walks and graph.n_directions:
            self.skip_gram = SkipGram(
                settings.walk_length, settings.window, negatives=settings.walk_negatives, device=device
            )
            self._noise = Noise(graph)
            self._corpus = WalkCorpus(
                Walker(graph),
                np.flatnonzero(graph.degrees),
                walks_per_node=WALKS_PER_NODE,
                length=settings.walk_length,
                batch_size=settings.walk_batch,
                seed=seed,
            )

    def draw(self, epoch: int, step: int) -> PlusBatch:
        """A step's inputs, on the device."""
        n_users, n_nodes = int(self.first[1]), int(self.first[-1])
        users, drawn = self._items.draw(epoch, step)
        friends, had = self.friends.take(users), self.records.take(users)
        walks, noise = self._walks(epoch, step)
        items = [self.first[k + 1] + each.items.numpy() for k, each in enumerate(drawn)]
        nodes, (own, near, center, *rows) = distinct(n_nodes, users, friends.member, walks, *items)
        start = np.searchsorted(nodes, self.first)  # [C + 2] where users and the items of each behavior begin
        positives = [at[each.positive.numpy()] - n_users for at, each in zip(items, drawn, strict=True)]
        records, (member, *liked) = distinct(n_nodes - n_users, had.member, *positives)
        triples = tuple(
            self._triples(each, row - at, record)
            for each, row, at, record in zip(drawn, rows, start[1:], liked, strict=False)
        )
        device = self._device
        return PlusBatch(
            nodes=to_device(nodes, device),
            sizes=tuple(np.diff(start).tolist()),
            items=tuple(
                to_device(nodes[low:high] - first, device)
                for (low, high), first in zip(pairwise(start[1:]), self.first[1:], strict=False)
            ),
            users=to_device(users, device),
            own=to_device(own, device),
            triples=triples,
            records=to_device(records, device),
            had=Sums.of(had.first, member, len(records), device),
            per_record=one_over(np.sqrt(had.lengths - 1.0, where=had.lengths > 1, out=np.ones(len(users))), device),
            friends=Sums.of(friends.first, near, int(start[1]), device),
            per_friend=one_over(friends.lengths, device),
            walks=self._walk_batch(n_nodes, walks, center, noise),
        )

    def _triples(self, drawn: Triples, row: NDArray[np.int64], record: NDArray[np.int64]) -> PlusTriples:
        """The triples of a behavior, whose distinct items are these rows of its nodes."""
        device = self._device
        return PlusTriples(
            drawn.user.to(device),
            to_device(row[drawn.positive.numpy()], device),
            to_device(row[drawn.negative.numpy()], device),
            to_device(record, device),
            None if drawn.weight is None else drawn.weight.to(device),
        )

    def _walks(self, epoch: int, step: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The step's walks, [W, L], and their negatives, [W, stretches, N]; nodes."""
        if self.skip_gram is None:
            return np.zeros((0, 0), np.int64), np.zeros(0, np.int64)
        walks = self._corpus.batch(epoch * self._items.n_steps + step)
        stream = Stream(self._seed, "walk negatives", epoch, step)
        return walks, self._noise.draw((len(walks), *self.skip_gram.noise_shape), stream)

    def _walk_batch(
        self, n_nodes: int, walks: NDArray[Any], center: NDArray[np.int64], noise: NDArray[np.int64]
    ) -> WalkBatch | None:
        if self.skip_gram is None:
            return None
        contexts, (context, far) = distinct(n_nodes, walks, noise)
        return WalkBatch(*(to_device(each, self._device) for each in (contexts, center, context, far)))


def one_over(numbers: NDArray[Any], device: torch.device) -> Tensor:
    """1 over each of n numbers, [n, 1]; 1 of none."""
    shares = 1 / np.maximum(1.0, numbers)
    return to_device(shares[:, None], device).to(torch.get_default_dtype())
