"""MCNE-plus: its vectors and its loss are those of plain loops, and its L2 falls when validation stops rising."""

from __future__ import annotations

import dataclasses
from functools import cache
from math import log1p, sqrt
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.contract.suite import attributes
from tests.models.test_skip_gram import naive as naive_skip_gram
from tests.small_training import small_network
from tests.values import not_none

from mcne.data.behavior import Attribute
from mcne.data.dataset import SocialDataset
from mcne.data.ids import Ids
from mcne.data.split import Split, random_split
from mcne.models.contract import TrainingData
from mcne.models.falling_l2 import FallingL2
from mcne.models.mcne_plus import WIDTHS, MCNEPlus, MCNEPlusConfig, chosen

CPU = torch.device("cpu")
SMALL: dict[str, Any] = {
    "width": 6,
    "walk_length": 7,
    "window": 3,
    "walk_batch": 5,
    "walk_negatives": 3,
    "negatives": 2,
    "batch_size": 16,
    "learning_rate": 0.05,
    "l2": 0.03,
}
Vector = NDArray[np.float64]


@cache
def network() -> tuple[SocialDataset, Split]:
    """500 users with attributes, and a genre of every item of the first behavior."""
    dataset = small_network()
    first, *others = dataset.behaviors
    genre = np.random.default_rng(1).integers(-1, 3, first.n_items).astype(np.int32)
    first = dataclasses.replace(first, attributes={"genre": Attribute(genre, Ids(["a", "b", "c"]))})
    dataset = dataclasses.replace(dataset, attributes=attributes(500), behaviors=(first, *others))
    return dataset, random_split(dataset, seed=0)


def made(steps: int = 3, **changes: Any) -> MCNEPlus:
    """A small model after a few steps, so that nothing is near 0 any more."""
    data = TrainingData.of(*network())
    model = MCNEPlus(data, MCNEPlusConfig(**SMALL | changes), seed=1, device=CPU)
    for step in range(steps):
        model.update(model.loss(model.prepare(0, step)))
    return model


class Naive:
    """The equations at the top of the module, user by user and item by item."""

    def __init__(self, model: MCNEPlus) -> None:
        self.model, self.data, self.config = model, model.data, model.config
        self.tables = {name: table.double().numpy() for name, table in model.tables.tables.items()}
        self.tables.setdefault("history", np.zeros((sum(self.data.n_items), SMALL["width"])))
        self.had: list[list[tuple[int, int]]] = [[] for _ in range(self.data.n_users)]
        for k, (users, items) in enumerate(self.data.pairs):
            for user, item in zip(users.tolist(), items.tolist(), strict=True):
                self.had[user].append((k, item))

    def node(self, behavior: int, item: int) -> int:
        return self.data.n_users + sum(self.data.n_items[:behavior]) + item

    def of_attributes(self, name: str, known: Any, row: int, *, unknown: str = "") -> Vector:
        total = np.zeros(SMALL["width"])
        if unknown:
            values = known[unknown].values.copy()
            values[row] = np.nan if known[unknown].categories is None else -1
            known = {**known, unknown: Attribute(values, known[unknown].categories)}
        if name in self.model.features:
            weights = self.model.features[name].weights.detach().double().numpy()
            index, amount = self.model.features[name].encoding.encode(known, len(next(iter(known.values())).values))
            for feature, times in zip(index[row], amount[row], strict=True):
                total += times * weights[feature]
        weighed: Vector = self.config.attributes * total
        return weighed

    def user(self, user: int, *, without: tuple[int, int] | None = None, unknown: str = "") -> Vector:
        total = self.tables["nodes"][user].copy()
        had = [each for each in self.had[user] if each != without]
        for k, item in had:
            total += (
                self.config.history * self.tables["history"][self.node(k, item) - self.data.n_users] / sqrt(len(had))
            )
        friends = self.data.graph.neighbors(user)
        for friend in friends:
            total += self.config.friends * self.tables["nodes"][friend] / len(friends)
        summed: Vector = total + self.of_attributes("users", self.data.attributes, user, unknown=unknown)
        return summed

    def item(self, behavior: int, item: int) -> Vector:
        own: Vector = self.tables["nodes"][self.node(behavior, item)]
        return own + self.of_attributes(f"items {behavior}", self.data.item_attributes.get(behavior), item)

    def mask(self, behavior: int) -> Vector:
        if self.model.mask is None:
            return np.ones(SMALL["width"])
        return (self.model.mask.real[behavior] >= 0).double().numpy()

    def bias(self, behavior: int, item: int) -> float:
        return float(self.tables["bias"][self.node(behavior, item) - self.data.n_users, 0])

    def ranking(self, behavior: int, user: int, positive: int, negatives: list[int]) -> tuple[float, float]:
        """Eq. 7 of one triple, the positive left out of the history, and its L2."""
        own = self.user(user, without=(behavior, positive)) * self.mask(behavior)
        squares = own @ own + self.item(behavior, positive) @ self.item(behavior, positive)
        squares += self.bias(behavior, positive) ** 2
        loss = 0.0
        for negative in negatives:
            difference = own @ (self.item(behavior, positive) - self.item(behavior, negative))
            difference += self.bias(behavior, positive) - self.bias(behavior, negative)
            loss += log1p(np.exp(-difference)) / len(negatives)
            theirs = self.item(behavior, negative)
            squares += (theirs @ theirs + self.bias(behavior, negative) ** 2) / len(negatives)
        record = self.tables["history"][self.node(behavior, positive) - self.data.n_users]
        return loss, float((self.config.l2 or 0) * squares + self.config.history_l2 * (record @ record))


def test_vectors_and_scores_are_those_of_the_loops() -> None:
    model = made()
    naive = Naive(model)
    vectors = model.vectors().numpy()
    for user in range(0, 500, 7):
        np.testing.assert_allclose(vectors[user], naive.user(user), rtol=1e-4, atol=1e-6)
    scores = model.scorer().scores(0, np.arange(5))
    for user in range(5):
        for item in range(0, model.data.n_items[0], 11):
            own = naive.user(user) * naive.mask(0)
            assert scores[user, item] == pytest.approx(
                own @ naive.item(0, item) + naive.bias(0, item), rel=1e-4, abs=1e-6
            )


@pytest.mark.parametrize(
    "changes", [{}, {"masks": False}, {"history": 0.0}, {"friends": 0.0}, {"attributes": 0.0}, {"walks": 0.0}]
)
def test_the_loss_is_that_of_the_loops(changes: dict[str, Any]) -> None:
    model = made(**changes)
    naive = Naive(model)
    batch = model.prepare(0, 5)
    total = model.loss(batch)
    users, drawn = model.items.draw(0, 5)
    expected = []
    for k, triples in enumerate(drawn):
        items = triples.items.numpy()
        each = [
            naive.ranking(k, int(users[user]), int(items[positive]), items[negatives].tolist())
            for user, positive, negatives in zip(triples.user, triples.positive, triples.negative.numpy(), strict=True)
        ]
        ranking, penalty = np.mean(each, axis=0)
        assert total.per_behavior[k].item() == pytest.approx(ranking, rel=1e-5)
        expected.append(ranking + penalty)
    walked = 0.0
    if batch.walks is not None:
        nodes, contexts = (torch.from_numpy(naive.tables[name]) for name in ("nodes", "contexts"))
        walks, noise = batch.nodes[batch.walks.center], batch.walks.contexts[batch.walks.noise]
        walked = model.config.walks * float(naive_skip_gram(nodes, contexts, walks.tolist(), noise.tolist(), 3))
    assert total.total.item() == pytest.approx(np.mean(expected) + walked, rel=1e-5)


def test_a_positive_that_is_the_only_record_leaves_no_history() -> None:
    model = made()
    naive = Naive(model)
    checked = 0
    for step in range(model.n_steps):
        batch = model.prepare(0, step)
        single = [at for at, user in enumerate(batch.users.tolist()) if len(naive.had[user]) == 1]
        for at in single:
            user = int(batch.users[at])
            assert batch.per_record[at].item() == 1  # of a sum that is zero without the positive
            assert not np.allclose(naive.user(user, without=naive.had[user][0]), naive.user(user))
            checked += 1
    assert checked


def test_masks_are_open_at_first_and_learn() -> None:
    assert torch.all(not_none(made(0).mask)() == 1)
    model = made(20, learning_rate=0.03)
    density = model.vitals()["mask_density_0"]
    assert 0 < density < 1


def test_with_one_behavior_there_is_no_mask() -> None:
    dataset, split = network()
    one = dataset.only(0)
    model = MCNEPlus(TrainingData.of(one, split.only(0, one)), MCNEPlusConfig(**SMALL), seed=1, device=CPU)
    assert model.mask is None
    assert "mask_density_0" not in model.vitals()


# the L2 that is found in training


def test_a_fixed_l2_stays() -> None:
    l2 = FallingL2(0.05, CPU)
    assert [l2.validated(0.1) for _ in range(9)] == [None] * 9
    assert l2.is_settled
    assert float(l2.value) == pytest.approx(0.05)


def test_l2_falls_when_validation_stops_rising() -> None:
    l2 = FallingL2(None, CPU)
    assert float(l2.value) == pytest.approx(FallingL2.START)
    metrics = (0.1, 0.11, 0.12)
    assert [l2.validated(metric) for metric in metrics] == [None] * 3
    told = [l2.validated(0.12) for _ in range(2 * FallingL2.WAIT)]
    assert [at for at, line in enumerate(told, start=1) if line] == [FallingL2.WAIT, 2 * FallingL2.WAIT]
    assert float(l2.value) == pytest.approx(FallingL2.START * FallingL2.FACTOR**2)
    settled = []
    for metric in [*[0.11] * ((FallingL2.FALLS - 1) * FallingL2.WAIT), 0.13]:
        settled.append(l2.is_settled)
        l2.validated(metric)
    assert settled == [False] * (len(settled) - 1) + [True]
    settled.append(l2.is_settled)
    assert not settled[-1]  # after a rise
    assert float(l2.value) == pytest.approx(FallingL2.START * FallingL2.FACTOR**FallingL2.FALLS)


def test_any_rise_starts_the_wait_again() -> None:
    l2 = FallingL2(None, CPU)
    for k in range(4 * FallingL2.WAIT):
        assert l2.validated(0.1 + 0.001 * (k // FallingL2.WAIT)) is None
    assert float(l2.value) == pytest.approx(FallingL2.START)


def test_without_validation_l2_is_a_moderate_one() -> None:
    l2 = FallingL2(None, CPU)
    l2.validated(None)
    assert float(l2.value) == pytest.approx(FallingL2.WITHOUT_VALIDATION)


def test_where_the_l2_stands_is_part_of_what_is_kept() -> None:
    model, other = made(l2=None), made(l2=None)
    for metric in (0.2, *[0.1] * (FallingL2.WAIT + 1)):
        model.validated(metric)
    other.load_memory(model.memory())
    assert float(other.l2.value) == float(model.l2.value) < FallingL2.START
    lines = [[each.validated(0.1) for _ in range(2 * FallingL2.WAIT)] for each in (model, other)]
    assert lines[0] == lines[1]
    assert [line is not None for line in lines[0]].index(True) == FallingL2.WAIT - 2  # one was waited before


# the width


@pytest.mark.parametrize(
    ("users", "items", "width"), [(4_000, 30_000, 256), (1_000_000, 500_000, 256), (10_000_000, 5_000_000, 32)]
)
def test_the_width_fits_the_tables(users: int, items: int, width: int) -> None:
    assert chosen(MCNEPlusConfig(), users=users, items=items, longest=0).width == width
    assert chosen(MCNEPlusConfig(width=7), users=users, items=items, longest=0).width == 7
    assert chosen(MCNEPlusConfig(walks=0.0, history=0.0), users=users, items=items, longest=0).width >= width
    assert chosen(MCNEPlusConfig(), users=10**12, items=1, longest=0).width == WIDTHS[-1]


@pytest.mark.parametrize(
    ("longest", "batch"),
    [(0, 64), (500, 64), (1_535, 64), (1_536, 128), (12_287, 512), (12_288, 1024), (10**9, 1024)],
)
def test_an_epoch_has_twelve_steps_or_more(longest: int, batch: int) -> None:
    by_data = chosen(MCNEPlusConfig(), users=1_000, items=1_000, longest=longest)
    assert (by_data.batch_size, by_data.walk_batch) == (batch, batch // 4)
    given = chosen(MCNEPlusConfig(batch_size=10, walk_batch=7), users=1_000, items=1_000, longest=longest)
    assert (given.batch_size, given.walk_batch) == (10, 7)
    assert chosen(MCNEPlusConfig(batch_size=10), users=1_000, items=1_000, longest=longest).walk_batch == 3
