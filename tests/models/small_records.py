"""A small network for methods in closed form, and its records as one dense matrix."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.data.graph import undirected
from mcne.embeddings.ranking import Scorer
from mcne.models.contract import TrainingData


def training_data(n_users: int, n_items: tuple[int, ...] = (5, 4, 3), *, share: float = 0.4) -> TrainingData:
    """Random records and links; the last user has no records, the last item of each behavior no user.

    User 0 is linked to itself.
    """
    random = np.random.default_rng(1)
    pairs = []
    for n in n_items:
        has = random.random((n_users, n)) < share
        has[-1] = has[:, -1] = False
        user, item = np.nonzero(has)
        pairs.append((user.astype(np.int32), item.astype(np.int32)))
    source, target = random.integers(0, n_users, (2, 2 * n_users))
    graph = undirected(n_users, np.append(source, 0), np.append(target, 0))[0]
    assert graph.n_self_links() > 0
    return TrainingData(graph, tuple(f"behavior {k}" for k in range(len(n_items))), n_items, tuple(pairs))


def six_users(*links: tuple[int, int]) -> TrainingData:
    """Six users, three and two items; users 4 and 5 have no records, and one item of each behavior is cold."""
    source, target = np.array(links, np.int32).T
    books = np.array([0, 0, 1, 2, 3], np.int32), np.array([0, 1, 1, 0, 1], np.int32)
    music = np.array([0, 2, 3], np.int32), np.array([1, 1, 1], np.int32)
    return TrainingData(undirected(6, source, target)[0], ("Books", "Music"), (3, 2), (books, music))


def of_rows(rows: list[list[int]], n_items: int) -> TrainingData:
    """One behavior: the items of each user, and no links."""
    user = np.repeat(np.arange(len(rows)), [len(row) for row in rows]).astype(np.int32)
    nobody = np.zeros(0, dtype=np.int32)
    graph = undirected(len(rows), nobody, nobody)[0]
    return TrainingData(graph, ("Only",), (n_items,), ((user, np.concatenate(rows).astype(np.int32)),))


def dense(data: TrainingData, *, weighted: bool = False) -> NDArray[np.float64]:
    """1 where a user has an item, or its weight over the mean of the behavior, [users, all items]."""
    x = np.zeros((data.n_users, sum(data.n_items)))
    for k, ((user, item), first) in enumerate(zip(data.pairs, np.cumsum([0, *data.n_items[:-1]]), strict=True)):
        x[user, first + item] = data.weights[k] / data.weights[k].mean() if weighted else 1
    return x


def with_weights(data: TrainingData, *, all_as: float | None = None) -> TrainingData:
    """The same records with weights from 1 to 5, or with one weight, which is another in every behavior."""
    random = np.random.default_rng(2)
    drawn = [random.integers(1, 6, len(user)).astype(np.float32) for user, _ in data.pairs]
    equal = [np.full(len(user), (all_as or 0) + k, np.float32) for k, (user, _) in enumerate(data.pairs)]
    return replace(data, weights=dict(enumerate(drawn if all_as is None else equal)))


def all_scores(scorer: Scorer, data: TrainingData) -> NDArray[Any]:
    """The scores of all users for the items of all behaviors, [users, all items]."""
    users = np.arange(data.n_users)
    return np.concatenate([scorer.scores(k, users) for k in range(len(data.names))], axis=1)
