"""What methods without vectors save to answer from: its form, and how much it is, told before it is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.data.dataset import SocialDataset
from mcne.data.split import TRAIN, Split
from mcne.models.registry import entry

NUMBER, INDEX = 4, 4
"""Bytes of each."""


@dataclass(frozen=True)
class Saved:
    """The form of what is saved, its bytes at most, and what to do where there is no room."""

    form: str
    size: int
    instead: str = "train bpr, which saves a vector of each user and item"


def saved(method: str, config: Any, dataset: SocialDataset, split: Split) -> Saved | None:
    """Of a method that has no vectors; none of others."""
    told = entry(method).saved
    return None if told is None else told(config, dataset, split)


def ease(config: Any, dataset: SocialDataset, split: Split) -> Saved:
    """A full matrix of the fewer of users and items."""
    n_items = sum(behavior.n_items for behavior in dataset.behaviors)
    side, size = ("items", n_items) if n_items <= dataset.n_users else ("users", dataset.n_users)
    records = len(_trained(dataset, split)[0])
    return Saved(f"a matrix of {side} by {side}", NUMBER * size**2 + 2 * records * (NUMBER + INDEX))


def user_neighbors(config: Any, dataset: SocialDataset, split: Split) -> Saved:
    """Similarities of users, and links."""
    user, item = _trained(dataset, split)
    kept = _most_neighbors(user, item, dataset.n_users, config.neighbors) + dataset.graph.n_links
    return _neighborhood("users", kept + len(user))


def item_neighbors(config: Any, dataset: SocialDataset, split: Split) -> Saved:
    """Similarities of items."""
    user, item = _trained(dataset, split)
    n_items = sum(behavior.n_items for behavior in dataset.behaviors)
    kept = _most_neighbors(item, user, n_items, config.neighbors)
    return _neighborhood("items", kept + len(user))


def factors_with_network(config: Any, dataset: SocialDataset, split: Split) -> Saved:
    """The tables of a factorization machine, whose network is small beside them."""
    n_items = sum(behavior.n_items for behavior in dataset.behaviors)
    numbers = (2 * dataset.n_users + n_items) * (config.width + 1)
    widths = (config.width, *config.layers)
    network = sum((below + 1) * above for below, above in zip(widths, [*widths[1:], 1], strict=True))
    return Saved("vectors of users, friends and items, and a network over them", NUMBER * (numbers + network))


def _neighborhood(side: str, numbers: int) -> Saved:
    fewer = "set fewer neighbors, or train bpr, which saves a vector of each user and item"
    return Saved(f"how similar {side} are to their neighbors among {side}", numbers * (NUMBER + INDEX), fewer)


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
    """How many neighbors ``size`` rows have at most that are alike by what they have in ``common``."""
    through = np.bincount(common)[common]  # rows that each pair leads to
    reached = np.bincount(own, through, minlength=size)
    return int(np.minimum(reached, size if neighbors is None else neighbors).sum())
