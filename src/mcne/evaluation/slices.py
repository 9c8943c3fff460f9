"""The same evaluation on parts of what was scored: users without history, and cold, head and tail items.

A slice keeps some of the scored pairs and measures them at the places they had in the whole ranking. A user counts in a
slice of items if it has a scored item there; its Recall is the share of *those* items that are found, and NDCG's ideal
list starts with them. So even a perfect ranking is below 1 where the user's items outside the slice stand above them.

``cold_users`` and ``cold_items`` have no training record in the behavior at hand, ``warm_users`` have one at least.
``head_items`` are the 10 % most popular of the items with a training record, with all that tie with the last of them
(so a slice never depends on the order of rows; on Ciao and Epinions it holds 10 to 13 %), ``tail_items`` the others.
So the two slices of users, and the three of items, share out all scored pairs.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mcne.data.dataset import SocialDataset
from mcne.data.split import PARTS, TRAIN, Split
from mcne.errors import UsageError
from mcne.evaluation.protocol import Evaluation, measure

SLICES = ("cold_users", "warm_users", "cold_items", "head_items", "tail_items")
HEAD = 10  # the head is one item in so many


def sliced(evaluation: Evaluation, dataset: SocialDataset, split: Split) -> dict[str, Evaluation]:
    """Every slice of an evaluation on this split, by name, each as an evaluation of its own."""
    chosen: dict[str, dict[str, NDArray[np.bool_]]] = {name: {} for name in SLICES}
    for k, behavior in enumerate(dataset.behaviors):
        user, item = split.of(behavior, k, PARTS.index(evaluation.part))
        result = evaluation.behaviors[behavior.name]
        if not np.array_equal(np.repeat(result.users, result.counts), user) or not np.array_equal(result.items, item):
            raise UsageError(
                "the evaluation used another split",
                f"behavior {behavior.name!r}",
                "use the split of the evaluation",
                value=behavior.name,
            )
        users, items = slices_of(dataset, split, behavior=k)
        for name in SLICES:
            chosen[name][behavior.name] = users[name][user] if name in users else items[name][item]
    return {name: restricted(evaluation, pairs) for name, pairs in chosen.items()}


def restricted(evaluation: Evaluation, chosen: Mapping[str, NDArray[np.bool_]]) -> Evaluation:
    """The evaluation of some of the scored pairs: ``chosen`` says for each behavior which [t] are kept."""
    results = {}
    for name, result in evaluation.behaviors.items():
        keep = chosen[name]
        user = np.repeat(result.users, result.counts)[keep]
        results[name] = measure(user, result.items[keep], ranks=result.ranks[keep], cutoffs=evaluation.cutoffs)
    return Evaluation(evaluation.part, evaluation.protocol, evaluation.seed, evaluation.cutoffs, results)


def slices_of(
    dataset: SocialDataset, split: Split, *, behavior: int
) -> tuple[dict[str, NDArray[np.bool_]], dict[str, NDArray[np.bool_]]]:
    """Which users [n_users] are in each slice of users, and which items [n_items] in each of items, in one behavior."""
    catalog = dataset.behaviors[behavior]
    user, item = split.of(catalog, behavior, TRAIN)
    is_warm = np.bincount(user, minlength=dataset.n_users) > 0
    records = np.bincount(item, minlength=catalog.n_items)
    is_trained = records > 0
    most = -np.sort(-records[is_trained])
    last = -(-len(most) // HEAD) - 1  # the place of the last head item; −1 where nothing was trained on
    head = records >= most[last] if len(most) else is_trained
    users = {"cold_users": ~is_warm, "warm_users": is_warm}
    return users, {"cold_items": ~is_trained, "head_items": head, "tail_items": is_trained & ~head}
