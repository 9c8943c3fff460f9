"""The ways to rank: against 100 uniform or popular negatives of the split, or against the whole catalog.

The place of an item is the number of candidates that score higher, plus a random place within its group of equal
scores; items of a user that are equal get different places. So a constant scorer gets what chance gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mcne.data.behavior import Behavior
from mcne.data.dataset import SocialDataset
from mcne.data.graph import offsets, run_starts
from mcne.data.negatives import COUNT
from mcne.data.split import PARTS, Split
from mcne.embeddings.answers import Frame
from mcne.embeddings.ranking import SAMPLED_AT_ONCE, Scorer
from mcne.errors import UnknownError, UsageError
from mcne.evaluation.metrics import METRICS, pooled_recall
from mcne.randomness import Stream

Part = Literal["validation", "test"]
ProtocolName = Literal["sampled", "popular", "full"]

CUTOFFS = (5, 10, 20)
DECIDING_METRIC = "ndcg@5"  # on the validation part, averaged over behaviors, it chooses epochs and settings
NEGATIVES = {"sampled": "uniform", "popular": "popular"}  # protocol -> the kind kept with the split
FULL_AT_ONCE = 1 << 22  # few enough to stay in cache, enough for a fast product


@dataclass(frozen=True, eq=False)
class BehaviorEvaluation:
    """The users with items in the scored part of one behavior, and how well each is served."""

    users: NDArray[np.int32]  # [n] rows, increasing
    counts: NDArray[np.int64]  # [n] items scored, one at least
    items: NDArray[np.int32]  # [t] the items scored, users one after the other
    ranks: NDArray[np.int64]  # [t] their places; from the largest cutoff on only known to lie beyond it
    metrics: Mapping[str, NDArray[np.float64]]  # "recall@5" -> [n]
    pooled: Mapping[str, float | None]  # "pooled_recall@5" -> over all items of all users; None without users

    def mean(self, metric: str) -> float | None:
        """The mean over users (pooled metrics are one number anyway); None without users."""
        if metric in self.pooled:
            return self.pooled[metric]
        if metric not in self.metrics:
            raise UnknownError.of("metric", metric, [*self.metrics, *self.pooled])
        return float(self.metrics[metric].mean()) if len(self.users) else None


@dataclass(frozen=True, eq=False)
class Evaluation(Frame):
    """One scorer on one part of one split under one protocol: per-user metrics of every behavior.

    A behavior without users in that part has empty arrays, its means are None and no mean over behaviors counts it;
    where no behavior has users those are None too. Nothing is ever NaN.

    As a data frame it has a line for each behavior and one for the mean over them.
    """

    part: Part
    protocol: ProtocolName
    seed: int
    cutoffs: tuple[int, ...]
    behaviors: Mapping[str, BehaviorEvaluation]

    def mean(self, behavior: str, metric: str) -> float | None:
        """The mean of one metric, such as ``"ndcg@5"``, over the users of one behavior."""
        if behavior not in self.behaviors:
            raise UnknownError.of("behavior", behavior, self.behaviors)
        return self.behaviors[behavior].mean(metric)

    def overall(self, metric: str) -> float | None:
        """The mean over behaviors of their means over users: every behavior counts the same."""
        means = [mean for result in self.behaviors.values() if (mean := result.mean(metric)) is not None]
        return sum(means) / len(means) if means else None

    def columns(self) -> dict[str, list[Any]]:
        """``behavior``, ``users`` with items in the part, and every metric; the last line is the mean."""
        counts = [len(result.users) for result in self.behaviors.values()]
        columns: dict[str, list[Any]] = {"behavior": [*self.behaviors, "mean"], "users": [*counts, None]}
        for metric in self._metric_names():
            columns[metric] = [*(result.mean(metric) for result in self.behaviors.values()), self.overall(metric)]
        return columns

    def _metric_names(self) -> list[str]:
        return list(dict.fromkeys(name for r in self.behaviors.values() for name in (*r.metrics, *r.pooled)))

    def summary(self) -> dict[str, Any]:
        """All means as plain values, ready for JSON."""
        names = self._metric_names()
        return {
            "part": self.part,
            "protocol": self.protocol,
            "seed": self.seed,
            "behaviors": {
                behavior: {"users": len(result.users), "scored_items": int(result.counts.sum())}
                | {name: result.mean(name) for name in names}
                for behavior, result in self.behaviors.items()
            },
            "mean": {name: self.overall(name) for name in names},
        }


def evaluate(
    scorer: Scorer,
    dataset: SocialDataset,
    split: Split,
    *,
    part: Part = "test",
    protocol: ProtocolName = "sampled",
    seed: int = 0,
    cutoffs: Sequence[int] = CUTOFFS,
) -> Evaluation:
    """Rank every user's items of ``part`` and measure their places.

    ``sampled`` and ``popular`` rank them with the user's negatives of the split; ``full`` with every item of the
    behavior that the user has in no earlier part (in validation, test items are candidates like any other) and does not
    know without having it. ``seed`` decides only ties. A NaN score is refused with ``ValueError``.
    """
    check_request(dataset, split, part=part, protocol=protocol, cutoffs=cutoffs)
    results = {}
    for k, behavior in enumerate(dataset.behaviors):
        task = Task(scorer, behavior, k, split, part, protocol)
        user, item = split.of(behavior, k, PARTS.index(part))
        above, equal = _compare(task, user, item, last=max(cutoffs))
        ties = Stream(seed, "ties", part, protocol, behavior.name)
        ranks = above + _places_in_ties(user, above, equal=equal, stream=ties)
        results[behavior.name] = measure(user, item, ranks=ranks, cutoffs=cutoffs)
    return Evaluation(part, protocol, seed, tuple(cutoffs), results)


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

    The lists are those of the ``full`` protocol, equal scores in an order of chance that ``seed`` decides, for *all*
    users of the network. A method that gives a user the same score for every item recommends at random, and covers
    much for that reason; read coverage together with Recall.
    """
    check_request(dataset, split, part=part, protocol="full", cutoffs=cutoffs)
    result = {}
    for k, behavior in enumerate(dataset.behaviors):
        places = _best_places(Task(scorer, behavior, k, split, part, "full"), dataset.n_users, max(cutoffs), seed=seed)
        result[behavior.name] = {f"coverage@{cutoff}": float(np.mean(places < cutoff)) for cutoff in cutoffs}
    return result


def check_request(dataset: SocialDataset, split: Split, *, part: str, protocol: str, cutoffs: Sequence[int]) -> None:
    """Refuse a part, protocol or cutoff that does not exist, and a split of another dataset."""
    if part not in PARTS[1:]:
        raise UnknownError.of("part", part, PARTS[1:])
    if protocol not in (*NEGATIVES, "full"):
        raise UnknownError.of("protocol", protocol, (*NEGATIVES, "full"))
    if not cutoffs or any(cutoff < 1 for cutoff in cutoffs):
        raise UsageError(
            f"{tuple(cutoffs)} are not whole numbers of at least 1",
            "cutoffs",
            "use numbers such as 5, 10, 20",
            value=tuple(cutoffs),
        )
    if split.dataset_fingerprint != dataset.fingerprint:
        raise UsageError(
            f"the split belongs to dataset {split.dataset_fingerprint[:12]}, not to this one "
            f"({dataset.fingerprint[:12]})",
            "split",
            "evaluate with a split of this dataset",
            value=split.dataset_fingerprint,
            allowed=[dataset.fingerprint],
        )


@dataclass(frozen=True, eq=False)
class Task:
    """What is ranked in one behavior."""

    scorer: Scorer
    behavior: Behavior
    k: int
    split: Split
    part: Part
    protocol: ProtocolName


def measure(
    user: NDArray[np.int32], item: NDArray[np.int32], *, ranks: NDArray[np.int64], cutoffs: Sequence[int]
) -> BehaviorEvaluation:
    """Every metric at every cutoff, from the scored pairs [t] (users never decreasing) and the items' places [t]."""
    users, counts = np.unique(user, return_counts=True)
    starts = offsets(counts)
    metrics = {f"{name}@{k}": metric(ranks, starts, cutoff=k) for name, metric in METRICS.items() for k in cutoffs}
    pooled = {f"pooled_recall@{k}": pooled_recall(ranks, cutoff=k) for k in cutoffs}
    return BehaviorEvaluation(users, counts, item, ranks, metrics, pooled)


def _compare(
    task: Task, user: NDArray[np.int32], item: NDArray[np.int32], *, last: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many candidates score above each scored item, and how many equally (itself included): [t] and [t].

    Equal ones are counted only where fewer than ``last`` are above: other items are beyond every cutoff, tied or not.
    """
    above, equal = np.ones((2, len(item)), dtype=np.int64)
    users, counts = np.unique(user, return_counts=True)
    starts = offsets(counts)
    order = np.argsort(-counts, kind="stable")  # users with the most items first
    is_full = task.protocol == "full"
    done = 0
    while done < len(order):
        most = int(counts[order[done]])  # items of a user in this chunk
        width = task.behavior.n_items if is_full else COUNT + most
        rows = order[done : done + max(1, (FULL_AT_ONCE if is_full else SAMPLED_AT_ONCE) // width)]
        done += len(rows)
        place = np.arange(most)  # [m]
        inside = place < counts[rows, None]  # [n, m]
        pair = np.where(inside, starts[rows, None] + place, 0)
        own = np.where(inside, item[pair], -1)
        if is_full:
            scores = catalog_scores(task, users[rows])
            column = own
        else:
            kept = task.split.negatives[task.part][NEGATIVES[task.protocol]][task.k]
            items = np.concatenate([own, kept.items[rows]], axis=1)  # [n, m + COUNT], −1 where either list is shorter
            scores = _scores(task, users[rows], np.maximum(items, 0))
            scores[items < 0] = np.nan
            column = np.broadcast_to(place, own.shape)
        for j in place.tolist():
            n = np.count_nonzero(inside[:, j])  # users with more than j items come first
            mine = scores[np.arange(n), column[:n, j], None]
            higher = _count(scores[:n] > mine)
            near = np.flatnonzero(higher < last)
            above[pair[:n, j]] = higher
            equal[pair[near, j]] = _count(scores[near] == mine[near])
    return above, equal


def _count(true: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many of each row are true: [n]. By bits, at half the time of ``count_nonzero(true, axis=1)``."""
    return np.asarray(np.bitwise_count(np.packbits(true, axis=1)).sum(axis=1, dtype=np.int64))


def catalog_scores(task: Task, users: NDArray[np.int32]) -> NDArray[np.float32]:
    """Scores of all items [n, n_items], NaN for those that the user has in an earlier part, or knows anyway."""
    scores = _scores(task, users, None)
    item = task.behavior.item
    part = task.split.parts[task.k]
    first, last = (np.searchsorted(task.behavior.user, users, side=side).tolist() for side in ("left", "right"))
    for row, (a, b) in enumerate(zip(first, last, strict=True)):
        scores[row, item[a:b][part[a:b] < PARTS.index(task.part)]] = np.nan
    if task.behavior.known is not None:
        known_user, known_item = task.behavior.known
        first, last = (np.searchsorted(known_user, users, side=side).tolist() for side in ("left", "right"))
        for row, (a, b) in enumerate(zip(first, last, strict=True)):
            scores[row, known_item[a:b]] = np.nan
    return scores


def _scores(task: Task, users: NDArray[np.int32], items: NDArray[np.int32] | None) -> NDArray[np.float32]:
    """A copy of the scorer's answer, in which NaN may then mean "no candidate": it compares with nothing."""
    scores = np.array(task.scorer.scores(task.k, users, items), dtype=np.float32)
    expected = (len(users), task.behavior.n_items) if items is None else items.shape
    if scores.shape != expected:
        raise ValueError(f"behavior {task.behavior.name!r}: scores of shape {scores.shape}, expected {expected}")
    wrong = np.isnan(scores)
    if np.any(wrong):
        user = int(users[wrong.any(axis=1)].min())
        raise ValueError(f"behavior {task.behavior.name!r}, user row {user}: a score is NaN; did the method diverge?")
    return scores


def _places_in_ties(
    user: NDArray[np.int32], above: NDArray[np.int64], *, equal: NDArray[np.int64], stream: Stream
) -> NDArray[np.int64]:
    """A random place of each item within its group of equal scores, no two alike in a group: [t].

    Items of a user are in one group exactly where equally many candidates are above them. Each group is shuffled as
    far as its scored items: step ``j`` of Fisher and Yates swaps place ``j`` with a random one from ``j`` on.
    """
    places = np.zeros(len(user), dtype=np.int64)
    chance = stream.uniform(len(user))  # one for each item, so that no item's ties change another's place
    tied = np.flatnonzero(equal > 1)
    tied = tied[np.lexsort((above[tied], user[tied]))]
    index = np.arange(len(tied))
    new = run_starts(user[tied]) | run_starts(above[tied])
    step = index - np.maximum.accumulate(np.where(new, index, 0))  # 0, 1, … within each group
    chosen = step + (chance[tied] * (equal[tied] - step)).astype(np.int64)
    moved: dict[int, int] = {}
    for target, j, other in zip(tied.tolist(), step.tolist(), chosen.tolist(), strict=True):
        if j == 0:
            moved = {}
        places[target] = moved.get(other, other)
        moved[other] = moved.get(j, j)
    return places


def _best_places(task: Task, n_users: int, length: int, *, seed: int) -> NDArray[np.int64]:
    """The best place of each item in anyone's list, ``length`` where it is in the first ``length`` of none."""
    n_items = task.behavior.n_items
    best = np.full(n_items, length, dtype=np.int64)
    size = max(1, FULL_AT_ONCE // n_items)
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
