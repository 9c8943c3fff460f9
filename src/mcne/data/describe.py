"""What a dataset looks like, in numbers: sizes, distributions, overlaps, how alike friends are, and what is cold."""

from __future__ import annotations

from dataclasses import asdict
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from mcne.data.behavior import Behavior, likeness
from mcne.data.dataset import SocialDataset
from mcne.data.graph import Graph
from mcne.data.ids import Names
from mcne.data.split import PARTS, TEST, TRAIN, Split


def describe(dataset: SocialDataset) -> dict[str, Any]:
    """What a dataset looks like, as plain data."""
    active = np.stack([np.bincount(b.user, minlength=dataset.n_users) > 0 for b in dataset.behaviors])  # [C, users]
    graph = dataset.graph
    pairs = graph.symmetric()
    described: dict[str, Any] = {
        "name": dataset.name,
        "fingerprint": dataset.fingerprint,
        "users": dataset.n_users,
        "links": graph.n_links,
        "directions": graph.n_directions,
        "directed": graph.is_directed,
        "weighted": graph.weights is not None,
        "self_links": graph.n_self_links(),
        "users_without_links": int(np.count_nonzero(pairs.degrees == 0)),
        "users_without_records": int(np.count_nonzero(~active.any(axis=0))),
        "degree": distribution(graph.degrees),
        "behaviors": [_behavior(behavior, pairs) for behavior in dataset.behaviors],
        "overlap": _overlap(dataset, active),
        "attributes": list(dataset.attributes),
    }
    if dataset.user_names is not None:
        described["user_names"] = _count(dataset.user_names)
    if graph.is_directed:
        described["followers"] = _followers(graph)
    return described


def distribution(counts: NDArray[Any]) -> dict[str, Any]:
    """Summary and histogram of non-negative counts; the bins are 0, 1, 2–3, 4–7, …"""
    if not len(counts):
        return {"min": 0, "median": 0.0, "mean": 0.0, "max": 0, "top_tenth_share": 0.0, "histogram": []}
    bins = np.frexp(counts.astype(np.float64))[1]  # 0 → 0, 1 → 1, 2–3 → 2, 4–7 → 3
    sizes = np.bincount(bins)
    histogram = [
        {"from": 2 ** (k - 1) if k else 0, "to": 2**k - 1 if k else 0, "count": int(sizes[k])}
        for k in range(int(bins.min()), len(sizes))
    ]
    top = np.sort(counts)[::-1][: max(1, round(len(counts) / 10))]
    return {
        "min": int(counts.min()),
        "median": float(np.median(counts)),
        "mean": float(counts.mean()),
        "max": int(counts.max()),
        "top_tenth_share": float(top.sum() / max(1, counts.sum())),
        "histogram": histogram,
    }


def _followers(graph: Graph) -> dict[str, Any]:
    """By how many others each user is followed."""
    return distribution(np.bincount(graph.indices, minlength=graph.n_users))


def _behavior(behavior: Behavior, graph: Graph) -> dict[str, Any]:
    records = np.bincount(behavior.user, minlength=graph.n_users)
    popularity = behavior.popularity()
    alike = likeness(graph, behavior)
    return {
        "name": behavior.name,
        "items": behavior.n_items,
        "interactions": len(behavior),
        "users": int(np.count_nonzero(records)),
        "density": len(behavior) / (graph.n_users * behavior.n_items),
        "timestamps": behavior.timestamp is not None,
        "cold_user_share": float(np.mean(records == 0)),
        "single_record_item_share": float(np.mean(popularity == 1)),
        "records_per_user": distribution(records),
        "popularity": distribution(popularity),
        "likeness": asdict(alike) | {"ratio": alike.ratio, "ratio_error": alike.ratio_error},
    } | _optional(behavior)


def _optional(behavior: Behavior) -> dict[str, Any]:
    """What a behavior may have beside its records, as far as it does."""
    parts: dict[str, Any] = {}
    if (weight := behavior.weight) is not None:
        parts["ratings"] = {"min": float(weight.min()), "median": float(np.median(weight)), "max": float(weight.max())}
    if behavior.known_user is not None:
        parts["known_pairs"] = len(behavior.known_user)
    if behavior.names is not None:
        parts["item_names"] = _count(behavior.names)
    if behavior.attributes:
        parts["item_attributes"] = list(behavior.attributes)
    return parts


def _count(names: Names) -> int:
    """How many have a name."""
    return int(pc.sum(pc.not_equal(names.arrow(), "")).as_py() or 0)


def _overlap(dataset: SocialDataset, active: NDArray[np.bool_]) -> list[dict[str, Any]]:
    """For every two behaviors: users with both, and their share of the users with either."""
    pairs = []
    for (name, users), (other, others) in combinations(zip(dataset.behavior_names, active, strict=True), 2):
        both = int(np.count_nonzero(users & others))
        either = int(np.count_nonzero(users | others))
        pairs.append({"behaviors": [name, other], "users": both, "share": both / max(1, either)})
    return pairs


def describe_split(dataset: SocialDataset, split: Split) -> dict[str, Any]:
    """Sizes of the parts, and what of the test part has no training record."""
    behaviors = []
    for k, behavior in enumerate(dataset.behaviors):
        train_user, train_item = split.of(behavior, k, TRAIN)
        test_user, test_item = split.of(behavior, k, TEST)
        known_items = np.bincount(train_item, minlength=behavior.n_items) > 0
        known_users = np.bincount(train_user, minlength=dataset.n_users) > 0
        test_users = np.unique(test_user)
        sizes = {part: int(np.count_nonzero(split.parts[k] == p)) for p, part in enumerate(PARTS)}
        cold = {
            "test_users": len(test_users),
            "test_users_without_training": float(np.mean(~known_users[test_users])) if len(test_users) else 0.0,
            "test_on_untrained_items": float(np.mean(~known_items[test_item])) if len(test_item) else 0.0,
        }
        behaviors.append({"name": behavior.name} | sizes | cold)
    return {"fingerprint": split.fingerprint, "settings": dict(split.settings), "behaviors": behaviors}
