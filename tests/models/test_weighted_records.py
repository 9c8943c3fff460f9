"""Weights of records: where they are asked for, what they change, and what is said where there are none."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.models.small_records import dense, training_data, with_weights
from tests.small_training import saved, sixty_users, small_settings, train_small

import mcne
from mcne.api.model import Model
from mcne.data.dataset import SocialDataset
from mcne.data.split import TRAIN, random_split
from mcne.errors import UsageError
from mcne.kernels import backend
from mcne.kernels.triples import AllTriples
from mcne.models import ranking
from mcne.models.bpr import BPR, BPRConfig
from mcne.models.contract import TrainingData
from mcne.models.popularity import Popularity, PopularityConfig
from mcne.models.ranking import DotRanking
from mcne.models.registry import METHODS

CPU = torch.device("cpu")
GPU = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CONFIG = BPRConfig(width=6, negatives=3, batch_size=8, weighted_records=True)


def counts(data: TrainingData, *, weighted: bool) -> list[NDArray[np.float32]]:
    learned = Popularity(data, PopularityConfig(weighted), seed=0, device=CPU).learned()
    return [each.numpy() for each in learned.values()]


def rated(dataset: SocialDataset, *, of: tuple[str, ...] = ("read", "watch")) -> SocialDataset:
    """The dataset with a rating from 1 to 5 of every record."""
    random = np.random.default_rng(1)
    behaviors = tuple(
        dataclasses.replace(each, weight=random.integers(1, 6, len(each)).astype(np.float32))
        if each.name in of
        else each
        for each in dataset.behaviors
    )
    return dataclasses.replace(dataset, behaviors=behaviors)


def test_popularity_counts_a_record_as_often_as_it_weighs() -> None:
    data = with_weights(training_data(15))
    repeated = [[np.repeat(rows, data.weights[k].astype(int)) for rows in pair] for k, pair in enumerate(data.pairs)]
    several = dataclasses.replace(data, pairs=tuple((user, item) for user, item in repeated))
    for ours, theirs in zip(counts(data, weighted=True), counts(several, weighted=False), strict=True):
        assert ours.tobytes() == theirs.tobytes()
    ones = dataclasses.replace(data, weights={k: np.ones_like(each) for k, each in data.weights.items()})
    assert [each.tobytes() for each in counts(ones, weighted=True)] == [
        each.tobytes() for each in counts(data, weighted=False)
    ]


def test_a_split_gives_the_weights_of_its_training_part() -> None:
    dataset = rated(sixty_users(), of=("watch",))
    split = random_split(dataset, seed=0)
    data = TrainingData.of(dataset, split)
    assert list(data.weights) == [1]
    watch = dataset.behaviors[1]
    assert watch.weight is not None
    assert data.weights[1].tolist() == watch.weight[split.parts[1] == TRAIN].tolist()
    assert data.relative_weights(1).mean() == pytest.approx(1)
    empty = dataclasses.replace(data, weights={1: np.zeros(0, np.float32)})
    assert empty.relative_weights(1).tolist() == []


def ranked(device: torch.device = CPU) -> DotRanking:
    return DotRanking(with_weights(training_data(15)), CONFIG, width=6, bias=True, seed=0, device=device)


def relative(items: DotRanking) -> list[NDArray[np.float64]]:
    """Of each behavior the weight of every pair over the mean, [users, items]."""
    return np.split(dense(items.data, weighted=True), np.cumsum(items.data.n_items)[:-1], axis=1)


def test_every_triple_has_the_weight_of_its_record() -> None:
    items = ranked()
    expected = relative(items)
    for step in range(items.n_steps):
        users, triples = items.draw(0, step)
        for k, each in enumerate(triples):
            assert each.weight is not None
            assert len(each.weight) == len(each.user) > 0
            np.testing.assert_allclose(each.weight, expected[k][users[each.user], each.items[each.positive]], rtol=1e-6)


def test_all_behaviors_at_once_have_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    items = ranked()
    monkeypatch.setattr(ranking, "backend_for", lambda device: "triton")
    expected = np.concatenate(relative(items), axis=1)
    for step in range(items.n_steps):
        users, triples = items.draw_ranked(0, step)
        assert isinstance(triples, AllTriples)
        assert triples.weight is not None
        positive = triples.items[triples.item[:, 0]]
        np.testing.assert_allclose(triples.weight, expected[users[triples.user], positive], rtol=1e-6)


def test_so_do_triples_that_a_gpu_draws() -> None:
    module = pytest.importorskip("mcne.models.device_sampler", reason="Triton is made for Linux alone")
    items = ranked(GPU)
    expected = np.concatenate(relative(items), axis=1)
    sampler = module.DeviceSampler(items, [2], weighted=False)
    for step in range(items.n_steps):
        turn = torch.from_numpy(sampler.turn(0, step)).to(GPU)
        user, item = module.draws.triples(turn[:1], turn[1:], sampler.pairs, negatives=3)
        _, _, triples = sampler.draw(turn)
        wanted = expected[user.cpu(), item[:, 0].cpu()]
        np.testing.assert_allclose(triples.weight.cpu(), wanted, rtol=1e-6)


def test_a_weighted_loss_by_loops() -> None:
    data = with_weights(training_data(15))
    method = BPR(data, CONFIG, seed=0, device=CPU)
    tables = method.tables.tables
    batch = method.prepare(0, 0)
    losses = []
    weights = relative(method.items)
    assert isinstance(batch.triples, tuple)
    for k, each in enumerate(batch.triples):
        items, bias = tables[f"items.{k}"].numpy(), tables[f"bias.{k}"].numpy()[:, 0]
        terms = []
        for user, positive, negatives in zip(each.user, each.positive, each.negative, strict=True):
            who, liked = int(batch.users[user]), int(each.items[positive])
            for other in each.items[negatives].tolist():
                own = tables["users"][who].numpy()
                difference = own @ items[liked] + bias[liked] - own @ items[other] - bias[other]
                terms.append(weights[k][who, liked] * np.log1p(np.exp(-difference)))
        losses.append(np.mean(terms))
    loss = method.loss(batch)
    np.testing.assert_allclose(loss.per_behavior, losses, rtol=1e-5)
    plain = BPR(data, dataclasses.replace(CONFIG, weighted_records=False), seed=0, device=CPU)
    assert not np.allclose(plain.loss(plain.prepare(0, 0)).per_behavior, losses)


def test_equal_weights_learn_the_same() -> None:
    data = with_weights(training_data(15), all_as=2.3)
    methods = [BPR(data, dataclasses.replace(CONFIG, weighted_records=on), seed=0, device=CPU) for on in (True, False)]
    for method in methods:
        for step in range(method.n_steps):
            method.update(method.loss(method.prepare(0, step)))
    for ours, theirs in zip(*(method.learned().values() for method in methods), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_a_gpu_learns_what_the_cpu_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mcne.kernels.triton.triples", reason="Triton is made for Linux alone")
    data = with_weights(training_data(15))
    wanted = BPR(data, CONFIG, seed=0, device=CPU)
    loss = wanted.loss(wanted.prepare(0, 0))
    monkeypatch.setattr(backend, "is_gpu", lambda device: True)
    ours = BPR(data, CONFIG, seed=0, device=GPU)
    assert isinstance(ours.prepare(0, 0).triples, AllTriples)
    other = ours.loss(ours.prepare(0, 0))
    torch.testing.assert_close(other.per_behavior.cpu(), loss.per_behavior, rtol=1e-5, atol=1e-6)


WEIGHTED = [name for name, each in METHODS.items() if hasattr(each.config(), "weighted_records")]


def test_who_takes_weights() -> None:
    by_bpr = ["node2vec", "node2vec-b", "line", "line-b"]  # whose items it teaches
    assert ["mcne-plus", "popularity", "userknn", "itemknn", "ease", "bpr", "libfm", *by_bpr] == WEIGHTED


@pytest.mark.parametrize("method", WEIGHTED)
def test_ratings_change_what_is_learned(method: str, tmp_path: Path) -> None:
    dataset = rated(sixty_users())
    plain = train_small(method, dataset, tmp_path / "plain")
    settings = small_settings(method, weighted_records=True)
    weighted = train_small(method, dataset, tmp_path / "weighted", settings=settings)
    assert weighted.spec.config["weighted_records"]
    assert "weighted_records" not in plain.spec.config  # a run of before the setting is the same run
    assert plain.fingerprint != weighted.fingerprint
    again = train_small(method, dataset, tmp_path / "weighted", settings=settings, resume=True)
    assert again.spec == weighted.spec
    saved(dataset, tmp_path / "data")
    for run, is_on in ((plain, False), (weighted, True)):
        model = mcne.load(run.path)
        assert isinstance(model, Model)
        assert model.get_params()["weighted_records"] == is_on


@pytest.mark.parametrize("mode", ["joint", "separate"])
def test_without_weights_it_is_refused(mode: mcne.training.Mode, tmp_path: Path) -> None:
    dataset = rated(sixty_users(), of=("read",))
    with pytest.raises(UsageError, match="the records of watch have no weights") as raised:
        train_small("ease", dataset, tmp_path / "run", settings={"weighted_records": True}, mode=mode)
    assert (raised.value.place, raised.value.value) == ("setting weighted_records", True)
    assert "ratings or counts" in raised.value.remedy
    assert not (tmp_path / "run").exists()
