"""How much of the catalog is recommended to anyone at all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mcne.data.dataset import SocialDataset
from mcne.data.split import Split
from mcne.embeddings.scorer import Scorer
from mcne.evaluation import protocol
from mcne.evaluation.protocol import CUTOFFS, Part, Task, catalog_scores, check_request
from mcne.randomness import Stream


def coverage(
    scorer: Scorer,
    dataset: SocialDataset,
    split: Split,
    *,
    part: Part = "test",
    seed: int = 0,
    cutoffs: Sequence[int] = CUTOFFS,
) -> dict[str, dict[str, float]]:
    """For each behavior ``{"coverage@5": …}``: the share of its items among the first 5 of any user's list.

    The lists are those of the ``full`` protocol: every item that the user has in no earlier part, best first, equal
    scores in an order of chance that ``seed`` decides. They are made for *all* users of the network, with or without
    items in ``part``: recommendations go to everyone. So a method that gives a user the same score for every item
    recommends at random, and covers much for that reason; read coverage beside Recall, never alone.
    """
    check_request(dataset, split, part=part, protocol="full", cutoffs=cutoffs)
    found = {}
    for k, behavior in enumerate(dataset.behaviors):
        places = _best_places(Task(scorer, behavior, k, split, part, "full"), dataset.n_users, max(cutoffs), seed=seed)
        found[behavior.name] = {f"coverage@{cutoff}": float(np.mean(places < cutoff)) for cutoff in cutoffs}
    return found


def _best_places(task: Task, n_users: int, length: int, *, seed: int) -> NDArray[np.int64]:
    """The best place of each item in anyone's list, ``length`` where it is in the first ``length`` of none."""
    n_items = task.behavior.n_items
    best = np.full(n_items, length, dtype=np.int64)
    size = max(1, protocol.FULL_AT_ONCE // n_items)
    last = min(length, n_items) - 1
    for start in range(0, n_users, size):
        users = np.arange(start, min(start + size, n_users), dtype=np.int32)
        low = -catalog_scores(task, users)  # [n, n_items], the best first, NaN for known items: these sort last
        worst = np.partition(low, last, axis=1)[:, last]
        worst = np.where(np.isnan(worst), np.inf, worst)  # fewer candidates than places: all are in the list
        for user, mine, bound in zip(users.tolist(), low, worst, strict=True):
            near = np.flatnonzero(mine <= bound)
            # one for each item, so that neither other users nor the length of lists decide its ties
            chance = Stream(seed, "coverage ties", task.part, task.behavior.name, user).bits(n_items)
            first = near[np.lexsort((chance[near], mine[near]))[:length]]
            best[first] = np.minimum(best[first], np.arange(len(first)))
    return best
