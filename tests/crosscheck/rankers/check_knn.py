"""UserKNN and ItemKNN against RecBole's, and against cornac's where the definitions can be made to meet.

RecBole's ``ItemKNN`` (``knn_method`` ``item`` or ``user``) has our form: the scored side's nearest, a sum that is not
divided, ``⟨a, b⟩ / (‖a‖ ‖b‖ + shrinkage + 1e-6)``. It has no weights by frequency. Compared on ml-100k: scores of all
users for all items, with all neighbors and with 20, without shrinkage and (items) with 5; ``idf``, trust and
popularity are off. Of neighbors that are equally similar RecBole takes any, so that a user or item whose 20th and 21st
differ by less than 1e-5 is left out.

cornac's KNN is made for ratings, and on records it is another method, in four ways:

* its cosine is over the coordinates that both have, so it is 1 for any two users with an item in common (checked);
* it divides by the sum of similarities, over the neighbors that have the item, so that every score is 1 (checked);
* oneself is a neighbor;
* ``weighting="idf"`` takes ``√log(N / n_j)`` for item j, in ItemKNN too, where it cancels. Ours is
  ``log(1 + N / n_j)`` for UserKNN and ``log(1 + |I| / n_u)`` of the *user* for ItemKNN.

Yet where no entry is 0 its cosine is the cosine. So cornac gets our weighted matrix as ratings, with 1e-12 in place of
each 0, and its answers are multiplied by the divisor and freed of oneself and of the weight of what is scored. What is
left is our score with ``idf``: compared with all neighbors and with 20 (21 of cornac's, oneself among them), for 100
users. Items without any record are left out of the data: with 1e-12 throughout they would be alike.

Tolerance 1e-4 of the largest score, all in single precision at the end. As a control, 19 neighbors in place of 20
must be told apart.

Last result, with RecBole 1.2.1 and cornac 3.0.1: largest difference 7.3e-7, control 4.7e-2 or more. Agreed.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
from scipy import sparse
from shared import CPU, Case, case, for_cornac, largest_difference, movies, of_cornac, of_recbole

from mcne.models.closed_form import inverse_frequency
from mcne.models.contract import TrainingData
from mcne.models.knn import ItemKNN, ItemKNNConfig, UserKNN, UserKNNConfig

TOLERANCE = 1e-4
NEAR = 1e-5
NEIGHBORS = 20
NOTHING = 1e-12


def compare() -> bool:
    dataset = movies()
    split = case(dataset, seed=0)
    pairs = [*against_recbole(split), *against_cornac(split.data)]
    worst, least = max(pairs, key=lambda each: each[0])[0], min(pairs, key=lambda each: each[1])[1]
    degenerate = cornac_on_records(split.data)
    print(f"  largest {worst:.1e}, tolerance {TOLERANCE:g}, control {least:.1e} or more")
    return worst <= TOLERANCE < least and degenerate


def ours(data: TrainingData, side: str, neighbors: int | None, *, idf: bool, shrinkage: float = 0.0) -> np.ndarray:
    users = np.arange(data.n_users)
    if side == "user":
        config = UserKNNConfig(neighbors=neighbors, idf=idf, trust_weight=0.0, popularity_weight=0.0)
        return UserKNN(data, config, seed=0, device=CPU).scorer().scores(0, users)
    config = ItemKNNConfig(neighbors=neighbors, idf=idf, shrinkage=shrinkage, popularity_weight=0.0)
    return ItemKNN(data, config, seed=0, device=CPU).scorer().scores(0, users)


def matrix(data: TrainingData) -> Any:
    (user, item), n_items = data.pairs[0], data.n_items[0]
    return sparse.csr_array((np.ones(len(user)), (user, item)), shape=(data.n_users, n_items))


def clear(vectors: np.ndarray, neighbors: int | None, shrinkage: float = 0.0) -> np.ndarray:
    """Which rows have a last neighbor that is clearly nearer than the next one."""
    if neighbors is None:
        return np.ones(len(vectors), dtype=bool)
    norms = np.linalg.norm(vectors, axis=1)
    similar = vectors @ vectors.T / np.maximum(np.outer(norms, norms) + shrinkage, 1e-30)
    np.fill_diagonal(similar, 0)
    ordered = -np.sort(-similar, axis=1)
    last, beyond = ordered[:, neighbors - 1], ordered[:, neighbors]
    return (last - beyond > NEAR) | (last == 0)


def against_recbole(split: Case) -> list[tuple[float, float]]:
    data = split.data
    pairs = []
    x = matrix(data).toarray()
    print("  RecBole 1.2.1: largest difference of a score, of the largest, and of the control; who is compared")
    for side, neighbors, shrinkage in (
        ("user", None, 0.0),
        ("user", NEIGHBORS, 0.0),
        ("item", None, 0.0),
        ("item", None, 5.0),
        ("item", NEIGHBORS, 0.0),
        ("item", NEIGHBORS, 5.0),
    ):
        settings = {"model": "ItemKNN", "k": neighbors or 10**6, "shrink": shrinkage, "knn_method": side, "epochs": 1}
        theirs, _ = of_recbole(split, settings)
        compared = clear(x if side == "user" else x.T, neighbors, shrinkage)
        rows = (compared, slice(None)) if side == "user" else (slice(None), compared)
        mine, wrong = (
            largest_difference(ours(data, side, k, idf=False, shrinkage=shrinkage)[rows], theirs[rows])
            for k in (neighbors, (neighbors or NEIGHBORS) - 1)
        )
        pairs.append((mine, wrong))
        label = f"{side}s, {neighbors or 'all'} neighbors, shrinkage {shrinkage:g}"
        print(f"  {label:38} {mine:.1e}   {wrong:.1e}   {compared.sum()} of {len(compared)} {side}s", flush=True)
    return pairs


def against_cornac(data: TrainingData) -> list[tuple[float, float]]:
    from cornac.models import ItemKNN as TheirItemKNN
    from cornac.models import UserKNN as TheirUserKNN

    data = with_records(data)
    x = matrix(data).toarray()
    some = np.random.default_rng(0).permutation(data.n_users)[:100]
    print(f"  cornac {version('cornac')}, nothing left 0: the same")
    pairs = []
    for side, theirs in (("user", TheirUserKNN), ("item", TheirItemKNN)):
        if side == "user":
            weights = inverse_frequency(x.sum(axis=0), data.n_users)[None, :]  # [1, items]
        else:
            weights = inverse_frequency(x.sum(axis=1), data.n_items[0])[:, None]  # [users, 1]
        filled = np.where(x > 0, weights, NOTHING)
        vectors = x * weights if side == "user" else (x * weights).T
        for neighbors in (None, NEIGHBORS):
            model = theirs(k=len(vectors) if neighbors is None else neighbors + 1, num_threads=1, verbose=False)
            model.fit(dense_for_cornac(filled))
            answers = undivided(model, filled, side, some, neighbors) / np.broadcast_to(weights, x.shape)[some]
            compared = clear(vectors, neighbors)
            keep = compared[some] if side == "user" else compared
            rows = (keep, slice(None)) if side == "user" else (slice(None), keep)
            mine, wrong = (
                largest_difference(ours(data, side, k, idf=True)[some][rows], answers[rows])
                for k in (neighbors, (neighbors or NEIGHBORS) - 1)
            )
            pairs.append((mine, wrong))
            label = f"{side}s, {neighbors or 'all'} neighbors, idf"
            print(f"  {label:38} {mine:.1e}   {wrong:.1e}   {keep.sum()} of {len(keep)} {side}s", flush=True)
    return pairs


def undivided(model: Any, filled: np.ndarray, side: str, users: np.ndarray, neighbors: int | None) -> np.ndarray:
    """cornac's scores times their divisors, less one's own part: [n, items]."""
    similar = model.sim_mat.toarray()
    k = len(similar) if neighbors is None else neighbors + 1
    divisor = -np.sort(-similar, axis=1)[:, :k].sum(axis=1) + 1e-8
    own = np.diagonal(similar)
    if side == "user":
        return of_cornac(model, users) * divisor[users, None] - own[users, None] * filled[users]
    return of_cornac(model, users) * divisor - own * filled[users]


def dense_for_cornac(filled: np.ndarray) -> Any:
    """Every entry a rating. Told that all are equal, cornac does not center them, as it would not center records."""
    from cornac.data import Dataset

    user, item = np.indices(filled.shape).reshape(2, -1)
    names = ({row: row for row in range(n)} for n in filled.shape)
    made = Dataset(*filled.shape, *names, (user, item, filled.ravel()))
    made.min_rating = made.max_rating
    return made


def with_records(data: TrainingData) -> TrainingData:
    """The same training pairs over the items that have any."""
    ((user, item),) = data.pairs
    kept, item = np.unique(item, return_inverse=True)
    return replace(data, n_items=(len(kept),), pairs=((user, item.astype(np.int32)),))


def cornac_on_records(data: TrainingData) -> bool:
    """Whether cornac's own KNN on records is as said above: similarities of 1, scores of 0 and 1."""
    from cornac.models import UserKNN as TheirUserKNN

    model = TheirUserKNN(k=NEIGHBORS, weighting="idf", num_threads=1, verbose=False).fit(for_cornac(data))
    similar, scores = model.sim_mat.data, of_cornac(model, np.arange(20))
    ones = np.isclose(similar, 1), np.isclose(scores, 1) | np.isclose(scores, 0)
    print(
        f"  cornac on records, idf: similarities of 1 {np.mean(ones[0]):.1%}, scores of 0 or 1 {np.mean(ones[1]):.1%}"
    )
    return bool(np.all(ones[0]) and np.all(ones[1]))
