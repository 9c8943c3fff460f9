"""Every method learns from and answers for a directed network; messages come from whom one follows, and nobody else."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest
import torch
from tests.contract.cases import CASES
from tests.contract.suite import Case, advance, network
from tests.equations import naive

from mcne.data.dataset import SocialDataset
from mcne.data.graph import directed
from mcne.data.split import random_split
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.scored import ScoredItems
from mcne.models.contract import Embedder, TrainingData
from mcne.models.mcne import MCNE

CASES_WITHOUT_DIRECTION = {"line of the first order", "mcne-plus of own vectors alone"}
WITHOUT_DIRECTION = {"popularity", "itemknn", "ease", "bpr", "lightgcn", "lightgcn-trust"}
"""Methods that learn nothing from links, or the same from a directed network as from the undirected one."""


@cache
def followed() -> SocialDataset:
    """Users who follow friends of higher ids: the last follow nobody, the first are followed by nobody."""
    dataset = network()[0]
    low, high = dataset.graph.sources(), dataset.graph.indices
    once = low < high
    graph, _ = directed(dataset.n_users, low[once], high[once])
    return dataclasses.replace(dataset, graph=graph)


@cache
def training_data() -> TrainingData:
    return TrainingData.of(followed(), random_split(followed(), seed=0))


def answering(case: Case, data: TrainingData, dataset: SocialDataset) -> ConditionalEmbeddings | ScoredItems:
    method = case.make(data)
    advance(method, 2)
    if isinstance(method, Embedder):
        return method.embeddings(dataset, {"method": case.method})
    return ScoredItems.of(method.scorer(), dataset, method=case.method)


def test_the_network_has_users_who_follow_nobody_and_users_who_are_followed_by_nobody() -> None:
    graph = followed().graph
    linked = graph.symmetric().degrees > 0
    assert np.any(linked & (graph.degrees == 0))
    assert np.any(linked & (np.bincount(graph.indices, minlength=graph.n_users) == 0))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_method_learns_and_recommends(case: Case) -> None:
    dataset = followed()
    model = answering(case, training_data(), dataset)
    assert model.graph.is_directed
    some = [dataset.users[row] for row in (0, 250, 499)]
    for behavior in dataset.behaviors:
        rankings = model.recommend(some, behavior.name, k=3)
        assert [len(ranking) for ranking in rankings] == [3, 3, 3]
        assert all(np.all(np.isfinite(ranking.scores)) for ranking in rankings)


@pytest.mark.parametrize("name", CASES)
def test_direction_matters_where_methods_learn_from_whom_one_follows(name: str) -> None:
    dataset = followed()
    undirected = dataclasses.replace(dataset, graph=dataset.graph.symmetric())
    scores = []
    for each in (dataset, undirected):
        data = dataclasses.replace(training_data(), graph=each.graph)
        rankings = answering(CASES[name], data, each).recommend(list(each.users), each.behavior_names[0], k=5)
        scores.append(np.concatenate([ranking.scores for ranking in rankings]))
    assert np.array_equal(scores[0], scores[1]) == (
        CASES[name].method in WITHOUT_DIRECTION or name in CASES_WITHOUT_DIRECTION
    )


@pytest.mark.parametrize("name", ["mcne", "mcne literal", "mcne of one layer"])
def test_messages_come_from_whom_one_follows_alone(name: str) -> None:
    data = training_data()
    method = CASES[name].make(data)
    assert isinstance(method, MCNE)
    advance(method, 2)
    follows: list[list[int]] = [[] for _ in range(data.n_users)]
    for follower, other in zip(data.graph.sources().tolist(), data.graph.indices.tolist(), strict=True):
        follows[follower].append(other)
    initial = method.tables.tables["users"]
    hearings = [naive.everyone(follows)] * len(method.network.message_layers())
    expected = naive.model_of(method.network).levels(list(initial), hearings)
    last = torch.stack(list(expected[-1])).detach().numpy()
    vectors = method.embeddings(followed(), {"method": "mcne"}).vectors
    np.testing.assert_allclose(vectors, last, rtol=1e-4, atol=1e-6)
