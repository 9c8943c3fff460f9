"""Pairs that are known and no records are never negatives: where one item is left to draw, it is always drawn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.small_training import nearly_all_known, sixty_users, small_settings

from mcne.data.behavior import Attribute
from mcne.data.split import supplied_split
from mcne.models.bpr import BPRConfig
from mcne.models.contract import TrainingData
from mcne.models.ranking import DotRanking
from mcne.models.registry import METHODS, entry
from mcne.training.run import settings_of

CPU = torch.device("cpu")
Known = tuple[TrainingData, NDArray[np.int64]]


@pytest.fixture(scope="module")
def known() -> Known:
    """All records train, and one item of each behavior is left to draw for each user, [behaviors, users]."""
    data, left = nearly_all_known(sixty_users())
    everything = [np.zeros(len(behavior), np.uint8) for behavior in data.behaviors]
    ages = {"age": Attribute(np.arange(60.0))}
    return TrainingData.of(replace(data, attributes=ages), supplied_split(data, everything, seed=0)), left


@pytest.mark.parametrize("method", [name for name, each in METHODS.items() if each.memory is not None])
def test_every_method_draws_the_item_that_is_left(method: str, known: Known) -> None:
    data, left = known
    config, _ = settings_of(method, small_settings(method))
    items: DotRanking = entry(method).make(data, config, seed=0, device=CPU).items
    for step in range(items.n_steps):
        users, triples = items.draw(0, step)
        for k, each in enumerate(triples):
            negatives = each.items[each.negative].numpy()
            expected = np.broadcast_to(left[k][users[each.user]][:, None], negatives.shape)
            np.testing.assert_array_equal(negatives, expected)


@pytest.mark.parametrize("is_known", [True, False])
def test_so_does_a_gpu(is_known: bool, known: Known) -> None:
    draws = pytest.importorskip("mcne.models.device_sampler", reason="Triton is made for Linux alone")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data, left = known if is_known else (replace(known[0], known={}), known[1])
    items = DotRanking(data, BPRConfig(batch_size=100, negatives=3), width=4, bias=False, seed=0, device=device)
    sampler = draws.DeviceSampler(items, [2], weighted=False)
    for step in range(items.n_steps):
        turn = torch.from_numpy(sampler.turn(0, step)).to(device)
        who, what = draws.draws.triples(turn[:1], turn[1:], sampler.pairs, negatives=3)
        in_catalog = what.cpu().numpy().reshape(2, -1, 4) - np.array([0, 30])[:, None, None]
        for k, (user, item) in enumerate(zip(who.cpu().numpy().reshape(2, -1), in_catalog, strict=True)):
            own = set(zip(*(column.tolist() for column in data.pairs[k]), strict=True))
            assert set(zip(user.tolist(), item[:, 0].tolist(), strict=True)) <= own
            expected = np.broadcast_to(left[k][user][:, None], item[:, 1:].shape)
            assert np.array_equal(item[:, 1:], expected) == is_known


def test_seen_are_the_training_pairs_and_the_known_ones(known: Known) -> None:
    data, _ = known
    for k, (user, item) in enumerate(data.pairs):
        both = data.seen(k)
        keys = both[0].astype(np.int64) * 30 + both[1]
        assert len(keys) == 60 * 29
        assert np.all(np.diff(keys) > 0)
        assert np.isin(user * 30 + item, keys).all()
    without = replace(data, known={})
    assert without.seen(0) is without.pairs[0]
