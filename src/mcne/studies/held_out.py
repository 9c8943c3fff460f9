"""Users held out of a dataset: what is left to train on, and what is later told and asked of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mcne.data.behavior import Attribute, Behavior
from mcne.data.dataset import SocialDataset
from mcne.data.split import TEST, TRAIN, Split, random_split, supplied_split
from mcne.errors import DataError
from mcne.randomness import Stream


@dataclass(frozen=True, eq=False)
class HeldOut:
    """A dataset without some of its users, and with those of them who can be asked about.

    Items that no kept user has are left out everywhere: nothing could be known of them. Who has no kept friend, no
    training or no test item among those that are left is held out as well, and not asked about.
    """

    kept: SocialDataset
    kept_split: Split  # random: what training sees
    whole: SocialDataset  # kept users and those asked about, over the same items
    split: Split  # of the whole; its test part is that of the users asked about
    random: Split  # of the whole; what training would have seen with them in it
    asked: NDArray[np.int64]  # [n] rows of the whole
    held_out: int


def hold_out(dataset: SocialDataset, *, share: float, seed: int) -> HeldOut:
    """Hold out a share of all users, by chance, of a random split with the same seed."""
    n_out = round(share * dataset.n_users)
    out = np.zeros(dataset.n_users, dtype=bool)
    out[Stream(seed, "held-out users").permutation(dataset.n_users)[:n_out]] = True
    parts = random_split(dataset, seed=seed).parts
    items = [np.bincount(b.item[~out[b.user]], minlength=b.n_items) > 0 for b in dataset.behaviors]
    asked = out & _can_be_asked(dataset, parts, out, items)
    if not asked.any():
        raise DataError(
            f"{dataset.name}: none of {n_out:,} users held out has a kept friend, a training item and a test item; "
            "hold out more users, or take a larger dataset"
        )
    kept, kept_parts = _restricted(dataset, parts, ~out, items)
    whole, whole_parts = _restricted(dataset, parts, ~out | asked, items)
    is_asked = asked[~out | asked]
    tested = [
        np.where((part == TEST) & ~is_asked[b.user], TRAIN, part).astype(np.uint8)
        for part, b in zip(whole_parts, whole.behaviors, strict=True)
    ]
    return HeldOut(
        kept,
        supplied_split(kept, kept_parts, seed=seed),
        whole,
        supplied_split(whole, tested, seed=seed),
        supplied_split(whole, whole_parts, seed=seed),
        np.flatnonzero(is_asked),
        n_out,
    )


def _can_be_asked(
    dataset: SocialDataset,
    parts: Sequence[NDArray[np.uint8]],
    out: NDArray[np.bool_],
    items: Sequence[NDArray[np.bool_]],
) -> NDArray[np.bool_]:
    """Who has a friend that is kept, and an item in training and one in test that are, [users]."""
    graph, n = dataset.graph, dataset.n_users
    befriended = np.bincount(graph.sources()[~out[graph.indices]], minlength=n) > 0
    told, tested = np.zeros((2, n), dtype=bool)
    for behavior, part, has in zip(dataset.behaviors, parts, items, strict=True):
        there = has[behavior.item]
        told[behavior.user[there & (part == TRAIN)]] = True
        tested[behavior.user[there & (part == TEST)]] = True
    able: NDArray[np.bool_] = befriended & told & tested
    return able


def _restricted(
    dataset: SocialDataset,
    parts: Sequence[NDArray[np.uint8]],
    users: NDArray[np.bool_],
    items: Sequence[NDArray[np.bool_]],
) -> tuple[SocialDataset, list[NDArray[np.uint8]]]:
    """The dataset of these users and items, and the parts of what is left of it."""
    rows = np.cumsum(users, dtype=np.int32) - np.int32(1)
    behaviors, left = [], []
    for behavior, part, has in zip(dataset.behaviors, parts, items, strict=True):
        mine = users[behavior.user] & has[behavior.item]
        if not mine.any():
            raise DataError(f"{behavior.name}: nobody is left who has any of it; hold out fewer users")
        item = np.cumsum(has, dtype=np.int32) - np.int32(1)
        times = None if behavior.timestamp is None else behavior.timestamp[mine]
        ids = behavior.items.subset(np.flatnonzero(has))
        behaviors.append(Behavior(behavior.name, ids, rows[behavior.user[mine]], item[behavior.item[mine]], times))
        left.append(part[mine])
    some = replace(
        dataset,
        users=dataset.users.subset(np.flatnonzero(users)),
        graph=dataset.graph.restrict(users),
        behaviors=tuple(behaviors),
        attributes={name: Attribute(a.values[users], a.categories) for name, a in dataset.attributes.items()},
        provenance={},
    )
    return some, left
