"""A small network of two circles of friends: who hears the network can tell them apart, who does not cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from mcne.data.graph import Graph, undirected
from mcne.models.contract import Learner, TrainingData

N_USERS = 60
ALONE = 3
"""The last three users have no friends."""


def graph(*, weighted: bool = False) -> Graph:
    """Friends are found within a circle, the even or the odd users, with a chance of 0.5, across with 0.02."""
    random = np.random.default_rng(0)
    one, other = np.triu_indices(N_USERS - ALONE, 1)
    linked = random.random(len(one)) < np.where((one - other) % 2 == 0, 0.5, 0.02)
    weights = random.uniform(0.5, 4, linked.sum()).astype(np.float32) if weighted else None
    return undirected(N_USERS, one[linked].astype(np.int32), other[linked].astype(np.int32), weights)[0]


def training_data(*, weighted: bool = False) -> TrainingData:
    """Two behaviors of unequal size whose records say nothing of the circles."""
    random = np.random.default_rng(1)
    pairs = []
    for n_items, share in ((11, 0.2), (7, 0.1)):
        user, item = np.nonzero(random.random((N_USERS, n_items)) < share)
        pairs.append((user.astype(np.int32), item.astype(np.int32)))
    return TrainingData(graph(weighted=weighted), ("Books", "Music"), (11, 7), tuple(pairs))


def train(method: Learner, epochs: int) -> None:
    for epoch in range(epochs):
        for step in range(method.n_steps):
            method.update(method.loss(method.prepare(epoch, step)))


def content(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    return {name: tensor.detach().numpy().tobytes() for name, tensor in tensors.items()}


def after_training(method: Learner) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a method has learned in three epochs, and what it remembers beside it."""
    train(method, 3)
    return content(method.learned()), content(method.memory())


def assert_finds_circles(method: Learner, users: Tensor, *, epochs: int, auc: float) -> None:
    """In so many epochs, and not before, in its table of users; those who have no friends stay as they were."""
    before = users.clone()
    assert circle_auc(before) == pytest.approx(0.5, abs=0.05)
    train(method, epochs)
    assert circle_auc(users) > auc
    assert torch.equal(users[N_USERS - ALONE :], before[N_USERS - ALONE :])


def circle_auc(vectors: Tensor) -> float:
    """How often two users of one circle are more alike, by cosine, than two of different circles."""
    known = vectors[: N_USERS - ALONE].numpy().astype(np.float64)
    known = known / np.linalg.norm(known, axis=1, keepdims=True)
    one, other = np.triu_indices(len(known), 1)
    alike, same = (known @ known.T)[one, other], (one - other) % 2 == 0
    return float(stats.mannwhitneyu(alike[same], alike[~same]).statistic / (same.sum() * (~same).sum()))
