"""UserKNN against loops over users, ItemKNN against loops over items, and both by hand."""

from __future__ import annotations

from dataclasses import replace
from math import log, sqrt

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.models.small_records import all_scores, dense, of_rows, training_data, with_weights

from mcne.data.graph import directed
from mcne.models.contract import TrainingData
from mcne.models.knn import ItemKNN, ItemKNNConfig, UserKNN, UserKNNConfig

CPU = torch.device("cpu")


def nearest(
    rows: NDArray[np.float64], weight: NDArray[np.float64], neighbors: int | None, *, shrinkage: float = 0.0
) -> list[dict[int, float]]:
    """For each row the nearest others, and their cosines under the weights of columns; row by row."""
    near = []
    for i, own in enumerate(rows * weight):
        cosines = {}
        for j, other in enumerate(rows * weight):
            if j != i and own @ other > 0:
                cosines[j] = own @ other / (np.linalg.norm(own) * np.linalg.norm(other) + shrinkage)
        ordered = sorted(cosines.items(), key=lambda each: (-np.float32(each[1]), each[0]))
        near.append(dict(ordered[:neighbors]))
    return near


def user_scores(data: TrainingData, config: UserKNNConfig) -> NDArray[np.float32]:
    return all_scores(UserKNN(data, config, seed=0, device=CPU).scorer(), data)


def naive_user_scores(data: TrainingData, config: UserKNNConfig) -> NDArray[np.float64]:
    """The formula, user by user."""
    x = dense(data, weighted=config.weighted_records)
    n_users = len(x)
    popularity = (x > 0).sum(axis=0)
    weight = np.log(1 + n_users / np.maximum(popularity, 1)) if config.idf else np.ones(x.shape[1])
    scores = np.zeros_like(x)
    for u, neighbors in enumerate(nearest(x, weight, config.neighbors)):
        for v, cosine in neighbors.items():
            scores[u] += cosine * x[v]
        for friend in data.graph.neighbors(u):
            if friend != u:
                scores[u] += config.trust_weight * x[friend]
        scores[u] += config.popularity_weight * np.log(1 + popularity)
    return scores


@pytest.mark.parametrize("neighbors", [None, 1, 3, 100])
@pytest.mark.parametrize("idf", [True, False])
@pytest.mark.parametrize(("trust", "popularity"), [(0.0, 0.0), (0.3, 0.0), (0.0, 0.7), (0.3, 0.7)])
def test_scores_are_those_of_loops_over_users(
    neighbors: int | None, idf: bool, trust: float, popularity: float
) -> None:
    data = training_data(15)
    config = UserKNNConfig(neighbors=neighbors, idf=idf, trust_weight=trust, popularity_weight=popularity)
    expected = naive_user_scores(data, config)
    assert len(np.unique(expected.round(6))) > 6
    np.testing.assert_allclose(user_scores(data, config), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("neighbors", [None, 2])
@pytest.mark.parametrize("idf", [True, False])
def test_weighted_scores_are_those_of_loops(neighbors: int | None, idf: bool) -> None:
    data = with_weights(training_data(15))
    of_users = UserKNNConfig(neighbors=neighbors, idf=idf, trust_weight=0.3, weighted_records=True)
    np.testing.assert_allclose(user_scores(data, of_users), naive_user_scores(data, of_users), rtol=1e-5, atol=1e-7)
    assert not np.allclose(user_scores(data, of_users), user_scores(data, replace(of_users, weighted_records=False)))
    of_items = ItemKNNConfig(neighbors=neighbors, idf=idf, shrinkage=2.5, weighted_records=True)
    np.testing.assert_allclose(item_scores(data, of_items), naive_item_scores(data, of_items), rtol=1e-5, atol=1e-7)
    assert not np.allclose(item_scores(data, of_items), item_scores(data, replace(of_items, weighted_records=False)))


def test_equal_weights_change_no_byte() -> None:
    data = with_weights(training_data(15), all_as=2.3)
    of_users, of_items = UserKNNConfig(weighted_records=True), ItemKNNConfig(weighted_records=True)
    assert user_scores(data, of_users).tobytes() == user_scores(data, UserKNNConfig()).tobytes()
    assert item_scores(data, of_items).tobytes() == item_scores(data, ItemKNNConfig()).tobytes()


def test_a_weighted_cosine_by_hand() -> None:
    """Of weights 2, 1, 1 and 4 the mean is 2: users 0 and 1 have (1, ½, 0) and (½, 0, 2)."""
    data = replace(of_rows([[0, 1], [0, 2]], 3), weights={0: np.array([2, 1, 1, 4], np.float32)})
    config = UserKNNConfig(idf=False, trust_weight=0, popularity_weight=0, weighted_records=True)
    cosine = 0.5 / sqrt(1.25 * 4.25)
    np.testing.assert_allclose(user_scores(data, config), [[cosine / 2, 0, 2 * cosine], [cosine, cosine / 2, 0]])


def test_a_cosine_of_users_by_hand() -> None:
    """Users 0 and 1 have items 0 and 1 in common, of two and three users; user 2 has item 1 alone."""
    data = of_rows([[0, 1, 2], [0, 1, 3], [1]], 4)
    plain = UserKNNConfig(idf=False, trust_weight=0, popularity_weight=0)
    assert user_scores(data, plain)[0, 3] == pytest.approx(2 / 3)
    assert user_scores(data, plain)[2, 0] == pytest.approx(2 / sqrt(3))  # 1/√3 from either
    a, b, c = log(1 + 3 / 2) ** 2, log(1 + 3 / 3) ** 2, log(1 + 3 / 1) ** 2  # squared weights of items 0, 1 and 2 or 3
    weighted = UserKNNConfig(idf=True, trust_weight=0, popularity_weight=0)
    assert user_scores(data, weighted)[0, 3] == pytest.approx((a + b) / (a + b + c))
    assert user_scores(data, weighted)[2, 3] == pytest.approx(sqrt(b / (a + b + c)))


def test_who_has_nothing_hears_friends_and_popularity() -> None:
    data = training_data(15)
    config = UserKNNConfig(trust_weight=0.3, popularity_weight=0.7)
    x = dense(data)
    friends = data.graph.neighbors(14)
    assert len(friends)
    assert not x[14].any()
    expected = 0.3 * x[friends].sum(axis=0) + 0.7 * np.log1p(x.sum(axis=0))
    np.testing.assert_allclose(user_scores(data, config)[14], expected, rtol=1e-6)


def test_behaviors_inform_each_other_about_users() -> None:
    """Users alike in one behavior alone are neighbors in the other."""
    data = training_data(15)
    (user, item), *rest = data.pairs
    alone = TrainingData(data.graph, data.names, data.n_items, ((user[:0], item[:0]), *rest))
    config = UserKNNConfig(trust_weight=0, popularity_weight=0)
    assert not np.allclose(user_scores(data, config)[:, 5:], user_scores(alone, config)[:, 5:])
    assert not user_scores(alone, config)[:, :5].any()


def item_scores(data: TrainingData, config: ItemKNNConfig) -> NDArray[np.float32]:
    return all_scores(ItemKNN(data, config, seed=0, device=CPU).scorer(), data)


def naive_item_scores(data: TrainingData, config: ItemKNNConfig) -> NDArray[np.float64]:
    """The formula, item by item."""
    x = dense(data, weighted=config.weighted_records)
    n_users, n_items = x.shape
    each = np.maximum((x > 0).sum(axis=1), 1)
    weight = np.log(1 + n_items / each) / np.log(1 + n_items) if config.idf else np.ones(n_users)
    scores = np.zeros_like(x)
    for i, neighbors in enumerate(nearest(x.T, weight, config.neighbors, shrinkage=config.shrinkage)):
        for j, cosine in neighbors.items():
            scores[:, i] += x[:, j] * cosine
        scores[:, i] += config.popularity_weight * np.log(1 + (x[:, i] > 0).sum())
    return scores


@pytest.mark.parametrize("neighbors", [None, 1, 3, 100])
@pytest.mark.parametrize("idf", [True, False])
@pytest.mark.parametrize(("shrinkage", "popularity"), [(0.0, 0.0), (2.5, 0.0), (0.0, 0.7), (2.5, 0.7)])
def test_scores_are_those_of_loops_over_items(
    neighbors: int | None, idf: bool, shrinkage: float, popularity: float
) -> None:
    data = training_data(15)
    config = ItemKNNConfig(neighbors=neighbors, idf=idf, shrinkage=shrinkage, popularity_weight=popularity)
    expected = naive_item_scores(data, config)
    assert len(np.unique(expected.round(6))) > 6
    np.testing.assert_allclose(item_scores(data, config), expected, rtol=1e-5, atol=1e-7)


def test_a_cosine_of_items_by_hand() -> None:
    """Items 0 and 1 have users 0 and 1 in common, of two and three users; user 2 has item 1 alone."""
    data = of_rows([[0, 1], [0, 1, 2], [1]], 3)
    plain = ItemKNNConfig(idf=False, shrinkage=0, popularity_weight=0)
    assert item_scores(data, plain)[2, 0] == pytest.approx(2 / sqrt(6))
    shrunk = ItemKNNConfig(idf=False, shrinkage=3, popularity_weight=0)
    assert item_scores(data, shrunk)[2, 0] == pytest.approx(2 / (sqrt(6) + 3))
    a, b, c = ((log(1 + 3 / n) / log(1 + 3)) ** 2 for n in (2, 3, 1))  # squared weights of the three users
    assert c == 1
    weighted = ItemKNNConfig(idf=True, shrinkage=3, popularity_weight=0)
    assert item_scores(data, weighted)[2, 0] == pytest.approx((a + b) / (sqrt((a + b) * (a + b + c)) + 3))


def test_neighbors_are_those_of_the_scored_item() -> None:
    """Item 2's only user also has item 0, whose nearest is item 1: item 2 still hears of item 0."""
    data = of_rows([[0, 1], [0, 1], [0, 1], [0, 2], [0]], 3)
    scores = item_scores(data, ItemKNNConfig(neighbors=1, idf=False, shrinkage=0, popularity_weight=0))
    assert scores[4].tolist() == pytest.approx([0, 3 / sqrt(15), 1 / sqrt(5)])


def test_behaviors_inform_each_other_about_items() -> None:
    data = training_data(15)
    config = ItemKNNConfig(popularity_weight=0)
    together = item_scores(data, config)[:, :5]
    first = replace(data, names=data.names[:1], n_items=data.n_items[:1], pairs=data.pairs[:1])
    apart = ItemKNN(first, config, seed=0, device=CPU).scorer().scores(0, np.arange(15))
    assert not np.allclose(together, apart)


def test_in_a_directed_network_friends_are_those_one_follows() -> None:
    """0 follows 1, who has item 1; 1 has nothing from 0."""
    data = replace(of_rows([[0], [1]], 2), graph=directed(2, np.array([0]), np.array([1]))[0])
    config = UserKNNConfig(trust_weight=0.5, popularity_weight=0.0)
    assert user_scores(data, config).tolist() == [[0.0, 0.5], [0.0, 0.0]]
