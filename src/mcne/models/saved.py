"""What methods without vectors save to answer from: its form, and how much it is, told before it is computed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.data.dataset import SocialDataset
from mcne.data.split import TRAIN, Split
from mcne.models.registry import METHODS

NUMBER = 4
STORED = 8
"""Bytes of a number of a full matrix, and of one of a sparse matrix with its place."""

OTHER = "train bpr, which saves a vector of each user and item"


@dataclass(frozen=True)
class Saved:
    """The form of what is saved, its bytes at most, and what to do where there is no room."""

    form: str
    size: int
    instead: str = OTHER


def saved(method: str, config: Any, dataset: SocialDataset, split: Split) -> Saved | None:
    """Of a method that has no vectors; none of others, a transfer among them, which is no method of the registry."""
    known = METHODS.get(method)
    return None if known is None or known.saved is None else known.saved(config, dataset, split)


def ease(config: Any, dataset: SocialDataset, split: Split) -> Saved:
    """A full matrix of the fewer of users and items, and records.

    It is twice as much where l2 is so small that the matrix needs double precision, which is not known before.
    """
    n_items = _n_items(dataset)
    side, size = ("items", n_items) if n_items <= dataset.n_users else ("users", dataset.n_users)
    records = 2 * len(_trained(dataset, split)[0])
    return Saved(f"a matrix of {side} by {side}", NUMBER * size**2 + STORED * records + _offsets(dataset))


def user_neighbors(config: Any, dataset: SocialDataset, split: Split) -> Saved:
    """Similarities of users, links and records."""
    user, item = _trained(dataset, split)
    kept = _most_neighbors(user, item, dataset.n_users, config.neighbors) + dataset.graph.n_directions
    return _neighborhood("users", STORED * (kept + len(user)) + _offsets(dataset))


def item_neighbors(config: Any, dataset: SocialDataset, split: Split) -> Saved:
    """Similarities of items, and records."""
    user, item = _trained(dataset, split)
    kept = _most_neighbors(item, user, _n_items(dataset), config.neighbors)
    return _neighborhood("items", STORED * (kept + len(user)) + _offsets(dataset))


def factors_with_network(config: Any, dataset: SocialDataset, split: Split) -> Saved:
    """The tables of a factorization machine, and a network."""
    tables = (2 * dataset.n_users + _n_items(dataset) + 1) * (config.width + 1)
    widths = (config.width, *config.layers, 1)
    network = sum((below + 1) * above for below, above in pairwise(widths))
    normalization = 4 * sum(widths) if config.batch_norm else 0
    form = "vectors of users, friends and items, and a network over them"
    return Saved(form, NUMBER * (tables + network + normalization))


def _neighborhood(side: str, size: int) -> Saved:
    return Saved(f"the similarities of {side} that are neighbors", size, f"set fewer neighbors, or {OTHER}")


def _n_items(dataset: SocialDataset) -> int:
    return sum(behavior.n_items for behavior in dataset.behaviors)


def _offsets(dataset: SocialDataset) -> int:
    """Bytes of where the rows of all sparse matrices begin, and of popularity."""
    n_items = _n_items(dataset)
    rows = max(dataset.n_users, n_items) + 1
    return NUMBER * ((2 * len(dataset.behaviors) + 1) * rows + n_items)


def _trained(dataset: SocialDataset, split: Split) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Users and items of all training pairs, the items of all behaviors counted through."""
    users, items = [], []
    first = 0
    for k, behavior in enumerate(dataset.behaviors):
        user, item = split.of(behavior, k, TRAIN)
        users.append(user.astype(np.int64))
        items.append(first + item.astype(np.int64))
        first += behavior.n_items
    return np.concatenate(users), np.concatenate(items)


def _most_neighbors(own: NDArray[np.int64], common: NDArray[np.int64], size: int, neighbors: int | None) -> int:
    """How many neighbors ``size`` rows have at most, which are alike by what they have in ``common``."""
    reached = np.bincount(own, np.bincount(common)[common], minlength=size)
    return int(np.minimum(reached, size if neighbors is None else neighbors).sum())
