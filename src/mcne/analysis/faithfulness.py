"""Does attention point at what matters? Remove what it points at, and compare with removing something random.

Three things are measured: user vectors, item scores, and the top items. The network is run again with the trained
parameters, and every layer drops a part of its messages:

- ``behaviors``: the behavior with the largest weight in each message. The others are weighted as if it did not exist (a
  softmax of their scores): otherwise messages would only get shorter, which would prove nothing.
- ``links``: a tenth of every receiver's messages, at least one but never all. Attention over behaviors does not rank
  links, but the weights shape the length of a link's message, which is what the link contributes. The links that
  contribute most are dropped, and the others share their part.

They are compared with the least attended ones, and with two kinds of random removal, drawn several times. ``random``
drops any behavior of each message, or as many links of the same receiver. Independent draws average out over a user's
links, and dropping one behavior everywhere does not: even misleading attention can beat them. So ``swapped`` drops what
attention points at after the behaviors of each layer are permuted at random: the same pattern with other behaviors.
For behaviors, this is the ratio to trust.

Where all behaviors weigh the same, only links are dropped. The result is the ratio of mean changes with a 95 % interval
from resampling users and draws. Above 1, attention points at what matters. Users are linked, so they are not
independent and the intervals are slightly too narrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.analysis.attention import in_deviations, trunk_of
from mcne.data.graph import Graph
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.trunk import Trunk, Without, levels, link_weights, message_lengths
from mcne.errors import UsageError
from mcne.randomness import Stream

LEFT_OUT = 0.1  # of a receiver's messages
N_USERS = 300  # whose items are scored
TOP = 10
RESAMPLES = 1000
RESAMPLES_AT_ONCE = 50
INTERVAL = (0.025, 0.975)

Array = NDArray[np.float64]
Real = NDArray[np.float32]
Changes = Mapping[str, Array]  # of vectors, scores and top items: a number for each user
Removals = tuple[Without, Without, Mapping[str, Callable[[Stream], Without]]]
"""The most and the least attended, and by its kind what chance leaves out."""


def faithfulness(embeddings: ConditionalEmbeddings, *, seed: int, draws: int) -> dict[str, Any]:
    """Drop behaviors, then links: the most attended, the least attended, and ``draws`` random choices.

    A finding is of one part left out, one kind of chance against it, and one thing looked at: mean changes, and the
    ratios of the most and the least attended to chance.
    """
    trunk = trunk_of(embeddings)
    graph = embeddings.graph
    if draws < 2:
        raise UsageError(
            "one draw has no spread" if draws == 1 else "no draws", "draws", "use 2 or more, such as 5", value=draws
        )
    observer = _Observer(embeddings, seed)
    parts = {} if trunk.attention is None else {"behaviors": _behaviors(trunk, graph)}
    parts["links"] = _links(trunk, graph)
    findings: list[dict[str, Any]] = []
    for part, (most, least, chances) in parts.items():
        ends = observer.changes(most), observer.changes(least)
        for chance, draw in chances.items():
            streams = [Stream(seed, "faithfulness", part, chance, number) for number in range(draws)]
            drawn = [observer.changes(draw(stream)) for stream in streams]
            findings += [{"part": part, "chance": chance} | each for each in _findings(*ends, drawn, seed)]
    return {
        "findings": findings,
        "draws": draws,
        "users_with_vectors": int(np.count_nonzero(observer.lengths)),
        "users_with_scores": len(observer.scored),
        "top": TOP,
        "seed": seed,
    }


def _behaviors(trunk: Trunk, graph: Graph) -> Removals:
    """A behavior of every message, by its weight."""
    weights = [link_weights(trunk, graph, layer) for layer in range(trunk.n_layers)]
    most, least = (np.stack([choose(each, axis=1) for each in weights]) for choose in (np.argmax, np.argmin))
    n_rows = trunk.n_behaviors + 1

    def swapped(stream: Stream) -> Without:
        return Without(behavior=np.stack([stream.permutation(n_rows)[each] for each in most]))

    def random(stream: Stream) -> Without:
        return Without(behavior=stream.integers(n_rows, most.shape))

    return Without(behavior=most), Without(behavior=least), {"swapped": swapped, "random": random}


def _links(trunk: Trunk, graph: Graph) -> Removals:
    """Some messages to every receiver, by their lengths."""
    lengths = np.stack([message_lengths(trunk, graph, layer) for layer in range(trunk.n_layers)])  # [K, links]

    def highest(order: NDArray[Any]) -> Without:
        return Without(message=np.stack([_highest(each, graph) for each in order]))

    return highest(lengths), highest(-lengths), {"random": lambda stream: highest(stream.uniform(lengths.shape))}


def _highest(order: NDArray[Any], graph: Graph) -> NDArray[np.bool_]:
    """A tenth of every receiver's links, at least one but never all: those highest in ``order``, [links]."""
    degrees = graph.degrees.astype(np.int64)
    count = np.minimum(np.maximum(1, np.round(LEFT_OUT * degrees)), np.maximum(degrees - 1, 0))
    receiver = graph.sources()
    ranked = np.lexsort((-order, receiver))  # by receiver, the highest first
    place = np.arange(graph.n_directions) - graph.indptr[:-1].astype(np.int64)[receiver]
    chosen = np.zeros(graph.n_directions, dtype=bool)
    chosen[ranked] = place < count[receiver]
    return chosen


class _Observer:
    """The vectors, scores and top items with nothing dropped, to compare with."""

    def __init__(self, embeddings: ConditionalEmbeddings, seed: int) -> None:
        self.embeddings = embeddings
        self.last = levels(trunk_of(embeddings), embeddings.graph)[-1]  # [users, d]
        self.lengths = np.linalg.norm(self.last.astype(np.float64), axis=1)
        candidates = np.flatnonzero((embeddings.graph.degrees > 1) & (self.lengths > 0))  # who can lose a link
        order = Stream(seed, "faithfulness", "users").permutation(len(candidates))
        self.scored = np.sort(candidates[order[:N_USERS]])  # users whose items are scored
        self.scores = list(_scores(embeddings, self.last[self.scored]))  # by behavior, [scored, items]
        self.top = list(map(_top, self.scores))

    def changes(self, without: Without) -> Changes:
        """How far each user's vector moves, relative to its length; for some users also how their items change.

        Scores: the mean difference, in standard deviations of the user's scores. Top items: the share replaced.
        """
        last = levels(trunk_of(self.embeddings), self.embeddings.graph, without=without)[-1]
        some = self.lengths > 0
        moved = np.linalg.norm((last - self.last)[some].astype(np.float64), axis=1) / self.lengths[some]
        now = list(_scores(self.embeddings, last[self.scored]))
        return {
            "vectors": moved,
            "scores": np.mean([_difference(*pair) for pair in zip(self.scores, now, strict=True)], axis=0),
            "top items": np.mean([_replaced(*pair) for pair in zip(self.top, map(_top, now), strict=True)], axis=0),
        }


def _scores(embeddings: ConditionalEmbeddings, vectors: Real) -> Iterator[Real]:
    """The scores of all items, [n, items], for every behavior whose user vectors come from the trunk."""
    for space in embeddings.spaces[: trunk_of(embeddings).n_behaviors]:
        scores = (vectors * space.mask) @ space.item_vectors.T
        yield scores if space.item_bias is None else scores + space.item_bias


def _difference(before: Real, after: Real) -> Array:
    """The mean difference of scores [n, m] in their standard deviations, by user; 0 where all scores are one."""
    mean = np.abs(after - before).mean(axis=1, dtype=np.float64)
    return in_deviations(mean, before.std(axis=1, dtype=np.float64))


def _top(scores: Real) -> NDArray[np.int64]:
    """The ``TOP`` best items of every user, or half the items where they are few, in no order."""
    k = max(1, min(TOP, scores.shape[1] // 2))
    return np.argpartition(-scores, k - 1, axis=1)[:, :k]


def _replaced(before: NDArray[np.int64], after: NDArray[np.int64]) -> Array:
    """The share of items [n, k] that are replaced, by user."""
    replaced: Array = 1.0 - (before[:, :, None] == after[:, None, :]).any(axis=2).mean(axis=1)
    return replaced


def _findings(most: Changes, least: Changes, drawn: Sequence[Changes], seed: int) -> Iterator[dict[str, Any]]:
    for measure in most:
        columns = np.stack([most[measure], least[measure], *(each[measure] for each in drawn)], axis=1)
        means = columns.mean(axis=0) if len(columns) else np.zeros(columns.shape[1])
        resampled = _resampled(columns, seed)
        yield {
            "measure": measure,
            "most": float(means[0]),
            "by_chance": float(means[2:].mean()),
            "least": float(means[1]),
            "ratio": _ratio(means, resampled, 0),
            "least_ratio": _ratio(means, resampled, 1),
        }


def _resampled(columns: Array, seed: int) -> Array:
    """The means of ``columns`` [users, 2 + draws] over resampled users; of the draws, which are resampled too, one
    mean: [resamples, 3]."""
    n_users, n_draws = len(columns), columns.shape[1] - 2
    stream = Stream(seed, "faithfulness", "resamples")
    means = [np.zeros((0, 3))]
    for _ in range(0, RESAMPLES if n_users else 0, RESAMPLES_AT_ONCE):
        times = _times(stream, n_users, RESAMPLES_AT_ONCE) @ columns / n_users
        chance = (times[:, 2:] * _times(stream, n_draws, RESAMPLES_AT_ONCE)).sum(axis=1) / n_draws
        means.append(np.column_stack([times[:, :2], chance]))
    return np.concatenate(means)


def _times(stream: Stream, n: int, resamples: int) -> Array:
    """How often each of n is in each resample, [resamples, n]."""
    cell = stream.integers(n, (resamples, n)) + n * np.arange(resamples)[:, None]
    return np.bincount(cell.ravel(), minlength=n * resamples).reshape(resamples, n).astype(np.float64)


def _ratio(means: Array, resampled: Array, column: int) -> dict[str, float | None]:
    """The ratio of a change to the random change, with its interval; None where the random change is zero."""
    chance = float(means[2:].mean())
    if not chance > 0 or not np.all(resampled[:, 2] > 0):
        return {"value": None, "low": None, "high": None}
    low, high = np.quantile(resampled[:, column] / resampled[:, 2], INTERVAL)
    return {"value": float(means[column]) / chance, "low": float(low), "high": float(high)}
