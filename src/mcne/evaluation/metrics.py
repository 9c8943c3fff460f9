"""Metrics of ranked lists, from the places of each user's relevant items.

Every function takes ``ranks`` [t], the places (0 is the top) of the relevant items in their user's list, users one
after the other, and ``offsets`` [n + 1], where each user's items start: those of user ``i`` are
``ranks[offsets[i]:offsets[i + 1]]``, at least one, in any order. The result is one number per user, float64 [n].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ranks = NDArray[Any]
PerUser = NDArray[np.float64]


def recall(ranks: Ranks, offsets: Ranks, *, cutoff: int) -> PerUser:
    """The share of a user's items within the first ``cutoff`` places."""
    return _hits(ranks, offsets, cutoff) / np.diff(offsets)


def hit_rate(ranks: Ranks, offsets: Ranks, *, cutoff: int) -> PerUser:
    """1 where an item is within the first ``cutoff`` places, 0 where none is."""
    return (_hits(ranks, offsets, cutoff) > 0).astype(np.float64)


def mrr(ranks: Ranks, offsets: Ranks, *, cutoff: int) -> PerUser:
    """1 / (place of the first item, counted from 1), 0 where that lies beyond ``cutoff``."""
    first = np.full(len(offsets) - 1, cutoff, dtype=np.int64)
    np.minimum.at(first, _owner(offsets), ranks)
    return np.where(first < cutoff, 1.0 / (first + 1), 0.0)


def ndcg(ranks: Ranks, offsets: Ranks, *, cutoff: int) -> PerUser:
    """Binary gains discounted by 1 / log2(place + 1), over those of a list that starts with the user's items."""
    sizes = np.diff(offsets)
    return _gain(ranks, offsets, cutoff) / _ideal(cutoff)[np.minimum(sizes, cutoff)]


def hits_ideal_ndcg(ranks: Ranks, offsets: Ranks, *, cutoff: int) -> PerUser:
    """NDCG whose ideal list starts with the hits that were found, not with all items; 0 without a hit.

    Not the textbook NDCG: it measures how well the hits are ordered, not how many there are. The paper's main table
    seems to use it.
    """
    ideal = _ideal(cutoff)[_hits(ranks, offsets, cutoff)]
    return _gain(ranks, offsets, cutoff) / np.where(ideal > 0, ideal, 1.0)


def pooled_recall(ranks: Ranks, *, cutoff: int) -> float | None:
    """The share of all items of all users within the first ``cutoff`` places; None where there are no items."""
    return float(np.count_nonzero(ranks < cutoff) / len(ranks)) if len(ranks) else None


METRICS: Mapping[str, Callable[..., PerUser]] = {
    metric.__name__: metric for metric in (recall, ndcg, hit_rate, mrr, hits_ideal_ndcg)
}
TITLES: Mapping[str, str] = {
    "recall": "Recall",
    "ndcg": "NDCG",
    "hit_rate": "HitRate",
    "mrr": "MRR",
    "pooled_recall": "pooled Recall",
    "hits_ideal_ndcg": "hits-ideal NDCG",
}
"""How reports call each metric, in the order of their columns."""
FOR_COMPARISON = ("pooled_recall", "hits_ideal_ndcg")
"""Other readings of Recall and NDCG, which are there to compare with the paper's tables."""
USUAL = tuple(name for name in TITLES if name not in FOR_COMPARISON)
HEADLINE = {f"{name}@5": f"{TITLES[name]}@5" for name in ("recall", "ndcg")}
"""What the paper prints, and so do figures and the first tables."""


def _owner(offsets: Ranks) -> NDArray[np.int64]:
    """The user of each rank: [t]."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def _hits(ranks: Ranks, offsets: Ranks, cutoff: int) -> NDArray[np.int64]:
    """Items of each user within the first ``cutoff`` places: [n]."""
    return np.bincount(_owner(offsets)[ranks < cutoff], minlength=len(offsets) - 1)


def _gain(ranks: Ranks, offsets: Ranks, cutoff: int) -> PerUser:
    """Discounted gain of each user within the first ``cutoff`` places: [n]."""
    gains = np.where(ranks < cutoff, 1.0 / np.log2(ranks + 2.0), 0.0)
    return np.bincount(_owner(offsets), gains, minlength=len(offsets) - 1).astype(np.float64, copy=False)


def _ideal(cutoff: int) -> PerUser:
    """Discounted gain of a list that starts with 0, 1, …, ``cutoff`` items: [cutoff + 1]."""
    return np.concatenate([[0.0], np.cumsum(1.0 / np.log2(np.arange(cutoff) + 2.0))])
