"""Where a trained model stands: its validation metric beside what popularity and chance give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.data.dataset import SocialDataset
from mcne.data.split import TRAIN, Split
from mcne.embeddings.ranking import Scorer
from mcne.evaluation.protocol import DECIDING_METRIC, evaluate
from mcne.models.registry import DEFAULT
from mcne.training.run import Run


@dataclass(frozen=True)
class ByCounts:
    """The same scores for every user: how many training records an item has, or nothing."""

    counts: tuple[NDArray[np.float32], ...]  # C × [items]

    def scores(self, behavior: int, users: NDArray[Any], items: NDArray[Any] | None = None) -> NDArray[np.float32]:
        """[n, m] for ``items`` [n, m] of each user, [n, all items] without."""
        counts = self.counts[behavior]
        return np.broadcast_to(counts, (len(users), len(counts))) if items is None else counts[items]


def standing(run: Run, dataset: SocialDataset, split: Split) -> tuple[str, str]:
    """What popularity and chance give on the validation part, and what to try if the model is not above popularity.

    Both are empty without a validation part, and for popularity itself.
    """
    metric = run.result[DECIDING_METRIC]
    if metric is None or run.spec.method == "popularity":
        return "", ""
    counts = []
    for k, behavior in enumerate(dataset.behaviors):
        _, item = split.of(behavior, k, TRAIN)
        counts.append(np.bincount(item, minlength=behavior.n_items).astype(np.float32))
    popular = _validated(ByCounts(tuple(counts)), dataset, split)
    chance = _validated(ByCounts(tuple(np.zeros_like(each) for each in counts)), dataset, split)
    beside = f" (popularity {popular:.4f}, chance {chance:.4f})"
    if metric > popular:
        return beside, ""
    others = " or ".join(name for name in (DEFAULT, "bpr", "ease") if name != run.spec.method)
    longer = "give it more epochs and patience (--set epochs=400 --set patience=50), " if run.result["epochs"] else ""
    return beside, (
        f"{run.spec.method} is not above popularity here: {longer}try other settings (see mcne train --help), or train "
        f"{others}"
    )


def _validated(scorer: Scorer, dataset: SocialDataset, split: Split) -> float:
    metric = evaluate(scorer, dataset, split, part="validation", cutoffs=(5,)).overall(DECIDING_METRIC)
    return 0.0 if metric is None else metric
