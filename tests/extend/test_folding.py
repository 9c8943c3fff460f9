"""A history is folded in by the loss of a naive loop, and by nothing of anybody else's."""

from __future__ import annotations

import dataclasses
from math import exp, log

import numpy as np
import pytest
import torch
from tests.extend.small_network import embeddings

from mcne.embeddings import ConditionalEmbeddings
from mcne.extend import new_users
from mcne.extend.new_users import Friends, FrozenNetwork, fold_in
from mcne.extend.tables import Pairs

NOBODY = Friends(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))


def pairs(*given: tuple[int, int]) -> Pairs:
    user, item = np.array(given, dtype=np.int64).reshape(-1, 2).T
    return user, item


HISTORY = [pairs((0, 1), (0, 2), (2, 8)), pairs((0, 0), (2, 3), (2, 4))]
"""Of three users, the second of whom has none."""


def network(made: ConditionalEmbeddings) -> FrozenNetwork:
    assert made.trunk is not None
    return FrozenNetwork(made.trunk, NOBODY)


def start() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32))


def naive_loss(made: ConditionalEmbeddings, last: np.ndarray, history: list[Pairs]) -> list[float]:
    """Per user the mean over its records of the mean over items that it has not."""
    losses: list[list[float]] = [[] for _ in last]
    for space, (users, items) in zip(made.spaces, history, strict=True):
        for user, item in zip(users.tolist(), items.tolist(), strict=True):
            own = set(items[users == user].tolist())
            bias = np.zeros(len(space.items)) if space.item_bias is None else space.item_bias
            scores = (space.item_vectors * space.mask) @ last[user] + bias
            ranked = [log(1 + exp(scores[n] - scores[item])) for n in range(len(space.items)) if n not in own]
            losses[user].append(sum(ranked) / len(ranked))
    return [sum(each) / len(each) if each else 0.0 for each in losses]


@pytest.mark.parametrize("bias", [False, True])
def test_the_loss_is_that_of_a_naive_loop(bias: bool) -> None:
    made = embeddings()
    if bias:
        spaces = tuple(
            dataclasses.replace(s, item_bias=np.linspace(-1, 1, len(s.items)).astype(np.float32)) for s in made.spaces
        )
        made = dataclasses.replace(made, spaces=spaces)
    last = network(made).levels(start())[-1]
    counts = np.bincount(np.concatenate([user for user, _ in HISTORY]), minlength=3)
    losses = [
        float(new_users._ranking_loss(last, new_users._records(space, *own, counts)))
        for space, own in zip(made.spaces, HISTORY, strict=True)
    ]
    expected = naive_loss(made, last.numpy(), HISTORY)
    assert expected[1] == 0 < min(expected[0], expected[2])
    assert sum(losses) == pytest.approx(sum(expected), rel=1e-5)


def test_own_items_rank_better_and_nobody_else_moves() -> None:
    made = embeddings()
    folded = fold_in(network(made), start(), made.spaces, HISTORY, spread=0.5)
    before, after = (naive_loss(made, network(made).levels(at)[-1].numpy(), HISTORY) for at in (start(), folded))
    assert after[0] < 0.9 * before[0]
    assert after[2] < 0.9 * before[2]
    assert torch.equal(folded[1], start()[1])


def test_a_user_depends_on_no_other() -> None:
    made = embeddings()
    together = fold_in(network(made), start(), made.spaces, HISTORY, spread=0.5)
    alone = fold_in(
        network(made), start()[2:], made.spaces, [(user[user == 2] - 2, item[user == 2]) for user, item in HISTORY],
        spread=0.5,
    )  # fmt: skip
    torch.testing.assert_close(alone[0], together[2], rtol=1e-4, atol=1e-5)


def test_without_a_history_nothing_moves() -> None:
    made = embeddings()
    nothing = [pairs(), pairs()]
    assert torch.equal(fold_in(network(made), start(), made.spaces, nothing, spread=0.5), start())


def test_who_has_every_item_stays_finite() -> None:
    """There is nothing to rank them against."""
    made = embeddings()
    every = [pairs(*((0, item) for item in range(len(space.items)))) for space in made.spaces]
    folded = fold_in(network(made), start(), made.spaces, every, spread=0.5)
    assert torch.equal(folded, start())


def test_the_pull_keeps_a_vector_near_its_start() -> None:
    """By no more than some spreads: with a spread of nothing it cannot move at all."""
    made = embeddings()
    still = fold_in(network(made), start(), made.spaces, HISTORY, spread=0.0)
    assert torch.equal(still, start())
