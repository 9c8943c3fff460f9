"""Link prediction: which links to hold out, which pairs to compare them with, and how well scores separate the two.

Pairs are unordered, of two different users; in a directed graph two users are linked if either follows the other, as
similarities are symmetric. No user loses its last link to the held-out ones, and training and scoring use only the
remaining graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mcne.data.graph import Graph, offsets
from mcne.embeddings.ranking import inverse_norms
from mcne.errors import DataError, UsageError
from mcne.randomness import Stream

ROUNDS = 200  # times that pairs are drawn anew before a network counts as too dense
PAIRS_AT_ONCE = 1 << 14

Pairs = NDArray[np.int32]  # [n, 2], the lower row first
Scores = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The remaining graph, the held-out links, and as many pairs without a link, of each kind."""

    graph: Graph
    links: Pairs
    others: Mapping[str, Pairs]


def hold_out(graph: Graph, *, share: float, seed: int) -> HeldOut:
    """Hold out this share of the links, and draw as many pairs without a link.

    ``uniform`` pairs are any two users: most have few friends, so the degree alone tells much. Users of
    ``degree`` pairs are drawn from the ends of held-out links, so their degrees are distributed alike.
    """
    if not 0 < share < 1:
        raise UsageError(
            f"{share:g} is out of range", "share", "use a number above 0 and below 1, such as 0.1", value=share
        )
    pairs = graph.symmetric()
    sources = pairs.sources()
    once = sources < pairs.indices  # of the two directions of every link
    low, high = sources[once], pairs.indices[once]
    if not len(low):
        raise DataError(
            "the network has no links between users, so none can be held out", remedy="use a dataset with links"
        )
    order = Stream(seed, "structure", "links").permutation(len(low))
    out = _removable(low, high, order, wanted=max(1, round(share * len(low))), n_users=graph.n_users)
    if not out.any():
        raise DataError(
            "every link is the last one of a user, so none can be held out", remedy="use a dataset with more links"
        )
    links = np.stack([low[out], high[out]], axis=1)
    ends: dict[str, NDArray[Any]] = {"uniform": np.arange(graph.n_users), "degree": links.ravel()}
    drawn = {kind: _unlinked(pairs, len(links), of, Stream(seed, "structure", kind)) for kind, of in ends.items()}
    return HeldOut(_without(graph, links), links, drawn)


def told_apart(positive: Scores, negative: Scores) -> dict[str, float]:
    """The probability that a positive scores higher than a negative (``auc``), where ties count half.

    And the average precision (``ap``): the mean over positives of the precision among all that score at least as high.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    scores = np.concatenate([positive, negative])
    is_positive = np.arange(len(scores)) < len(positive)
    return {"auc": float(roc_auc_score(is_positive, scores)), "ap": float(average_precision_score(is_positive, scores))}


def inner_product_scores(vectors: NDArray[np.float32], mask: NDArray[np.bool_], pairs: Pairs) -> Scores:
    """``⟨u ⊙ m, v⟩`` of every pair."""
    masked = vectors * mask
    products = [np.zeros(0)]
    for some in _parts(pairs):
        one, other = (masked[some[:, end]].astype(np.float64) for end in (0, 1))
        products.append(np.einsum("nd,nd->n", one, other))
    return np.concatenate(products)


def cosine_scores(vectors: NDArray[np.float32], mask: NDArray[np.bool_], pairs: Pairs) -> Scores:
    """The cosine within the mask; 0 where a vector is zero."""
    scale = inverse_norms(vectors, mask).astype(np.float64)
    return inner_product_scores(vectors, mask, pairs) * scale[pairs[:, 0]] * scale[pairs[:, 1]]


HEURISTICS: Mapping[str, Callable[[Graph, Pairs], Scores]] = {
    "degree product": lambda graph, pairs: graph.degrees[pairs].prod(axis=1, dtype=np.float64),
    "common friends": lambda graph, pairs: _shared_neighbors(graph, pairs, np.ones(graph.n_users)),
    "Adamic–Adar": lambda graph, pairs: _shared_neighbors(graph, pairs, 1 / np.log(np.maximum(graph.degrees, 2))),
}
"""What needs no training: the product of both users' numbers of friends; the number of common friends; and these, each
counting 1 / log of how many friends it has (Adamic and Adar, 2003). All are of an undirected graph."""


def _removable(
    low: NDArray[np.int32], high: NDArray[np.int32], order: NDArray[np.int64], *, wanted: int, n_users: int
) -> NDArray[np.bool_]:
    """The first ``wanted`` links in this order whose users both keep another link, [links]."""
    left = (np.bincount(low, minlength=n_users) + np.bincount(high, minlength=n_users)).tolist()
    ends = list(zip(low.tolist(), high.tolist(), strict=True))
    out = np.zeros(len(ends), dtype=bool)
    for at in order.tolist():
        if not wanted:
            break
        one, other = ends[at]
        if left[one] > 1 and left[other] > 1:
            left[one] -= 1
            left[other] -= 1
            out[at] = True
            wanted -= 1
    return out


def _without(graph: Graph, links: Pairs) -> Graph:
    """The graph without these links, in whichever direction."""
    n = graph.n_users
    sources, targets = graph.sources(), graph.indices
    keys = np.minimum(sources, targets) * np.int64(n) + np.maximum(sources, targets)
    kept = ~np.isin(keys, links @ np.array([n, 1]))
    weights = None if graph.weights is None else graph.weights[kept]
    return Graph(offsets(np.bincount(sources[kept], minlength=n)), targets[kept], weights, graph.is_directed)


def _unlinked(graph: Graph, count: int, ends: NDArray[Any], stream: Stream) -> Pairs:
    """``count`` different pairs of two users each drawn from ``ends``, none of which is a link."""
    n = graph.n_users
    linked = graph.sources() * np.int64(n) + graph.indices
    chosen = np.zeros(0, dtype=np.int64)
    for _ in range(ROUNDS):
        drawn = np.sort(ends[stream.integers(len(ends), (2 * count, 2))], axis=1).astype(np.int64)
        keys = drawn[drawn[:, 0] != drawn[:, 1]] @ np.array([n, 1])
        keys = np.concatenate([chosen, keys[~np.isin(keys, linked)]])
        _, first = np.unique(keys, return_index=True)
        chosen = keys[np.sort(first)][:count]  # in the order drawn
        if len(chosen) == count:
            return np.stack([chosen // n, chosen % n], axis=1).astype(np.int32)
    raise DataError(
        f"found only {len(chosen):,} pairs without a link to compare with {count:,} held-out links: the network is too "
        "small or too dense",
        value=count,
        remedy="hold out a smaller share",
    )


def _parts(pairs: Pairs) -> Iterator[Pairs]:
    return (pairs[at : at + PAIRS_AT_ONCE] for at in range(0, len(pairs), PAIRS_AT_ONCE))


def _shared_neighbors(graph: Graph, pairs: Pairs, weight: NDArray[np.float64]) -> Scores:
    """The summed weights of the users linked to both ends; links to oneself make nobody a common friend."""
    sources = graph.sources()
    other = sources != graph.indices
    ends = (sources[other], graph.indices[other])
    from scipy import sparse  # takes longer to import than a wrong study takes to refuse

    links = sparse.coo_array((np.ones(len(ends[0])), ends), (graph.n_users, graph.n_users)).tocsr()
    weighted = links @ sparse.dia_array((weight[None, :], [0]), links.shape)
    sums = [np.zeros(0)]
    for some in _parts(pairs):
        sums.append(np.asarray((weighted[some[:, 0]] * links[some[:, 1]]).sum(axis=1)).ravel())
    return np.concatenate(sums)
