"""LibFM's fast score is the sum over every two features, in value and in gradient."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.models import naive_fm as naive
from tests.models.naive_fm import CPU, toy
from tests.models.small_records import with_weights
from torch.nn.functional import softplus

from mcne.data.graph import undirected
from mcne.models import libfm
from mcne.models.contract import TrainingData
from mcne.models.libfm import LibFM, LibFMConfig

CONFIG = LibFMConfig(width=4, negatives=2, batch_size=5, learning_rate=0.05, l2=0.03)


def make(config: LibFMConfig = CONFIG) -> LibFM:
    method = LibFM(toy(), config, seed=0, device=CPU)
    naive.enlarge(method.tables.tables)
    return method


@pytest.mark.usefixtures("double_precision")
def test_a_score_by_hand() -> None:
    """User 0 with friends 1 and 2, x = ½ each, and one item.

    Linear: ½ + 1 + ½·2 + ½·4 − 1 = 3.5. Pairs: user and friends ½·2 + ½·8 = 5, the friends 0, and with the item
    user 3, friends ½·2 + ½·4 = 3. Together 14.5. Against an item of zeros with weight 0: ½ + 1 + 3 + 5 = 9.5.
    """
    zeros, ends = np.zeros(2, np.int32), np.array([1, 2], np.int32)
    data = TrainingData(undirected(3, zeros, ends)[0], ("a",), (2,), ((zeros[:1], zeros[:1]),))
    method = LibFM(data, replace(CONFIG, width=2, negatives=1, l2=0.0), seed=0, device=CPU)
    tables = method.tables.tables
    tables["constant"][0, 0] = 0.5
    tables["users"][0] = torch.tensor([1.0, 2.0, 1.0])
    tables["friends"][1:] = torch.tensor([[2.0, 0.0, 2.0], [0.0, 4.0, 4.0]])
    tables["items.0"].copy_(torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
    tables["bias.0"].copy_(torch.tensor([[-1.0], [0.0]]))
    assert naive.score(data, tables, 0, 0, 0).item() == 14.5
    assert naive.score(data, tables, 0, 0, 1).item() == 9.5
    loss = method.loss(method.prepare(0, 0)).total.item()
    assert loss == pytest.approx((np.log1p(np.exp(-14.5)) + np.log1p(np.exp(9.5))) / 2, rel=1e-14)
    scores = method.scorer().scores(0, np.array([0]))[0]
    assert scores.tolist() == [5.0, 0.0]  # without what is the same for all items: 14.5 − 9.5


@pytest.mark.usefixtures("double_precision")
def test_records_count_by_their_weights() -> None:
    """Zeros count 1 each; of equal weights nothing changes."""
    config = replace(CONFIG, weighted_records=True)
    data = with_weights(toy())
    method = LibFM(data, config, seed=0, device=CPU)
    naive.enlarge(method.tables.tables)
    weight = [
        dict(zip(zip(*map(np.ndarray.tolist, data.pairs[k]), strict=True), data.weights[k], strict=True))
        for k in (0, 1)
    ]
    for step in range(method.n_steps):
        batch = method.prepare(1, step)
        for c, triples in enumerate(batch.triples):
            drawn = naive.drawn_pairs(batch.features.users, triples)
            terms = []
            for own, *others in drawn:
                scores = [
                    naive.score(method.data, method.tables.tables, user, c, item) for user, item in (own, *others)
                ]
                terms.append(weight[c][own] / data.weights[c].mean() * softplus(-scores[0]))
                terms += [softplus(each) for each, other in zip(scores[1:], others, strict=True) if other != own]
            torch.testing.assert_close(method.loss(batch).per_behavior[c], torch.stack(terms).mean(), rtol=1e-6, atol=0)
    equal = LibFM(with_weights(toy(), all_as=3.0), config, seed=0, device=CPU)
    naive.enlarge(equal.tables.tables)
    batch = equal.prepare(0, 0)
    assert torch.equal(equal.loss(batch).total, make().loss(make().prepare(0, 0)).total)


@pytest.mark.usefixtures("double_precision")
def test_the_loss_and_its_gradient_are_those_of_every_two_features() -> None:
    method = make()
    for step in range(method.n_steps):
        batch = method.prepare(1, step)
        tables = {name: table.clone().requires_grad_() for name, table in method.tables.tables.items()}
        fit, decay = [], []
        for c, triples in enumerate(batch.triples):
            drawn = naive.drawn_pairs(batch.features.users, triples)
            scores = [[naive.score(method.data, tables, user, c, item) for user, item in pairs] for pairs in drawn]
            fit.append(naive.losses(scores, drawn))
            decay.append(naive.penalty(method.data, tables, c, drawn))
        expected = (fit[0] + fit[1]) / 2 + 0.03 * (decay[0] + decay[1]) / 2
        loss = method.loss(batch)
        torch.testing.assert_close(loss.total, expected, rtol=1e-12, atol=0)
        torch.testing.assert_close(loss.per_behavior, torch.stack(fit).detach(), rtol=1e-12, atol=0)
        naives = dict(zip(tables, torch.autograd.grad(expected, list(tables.values())), strict=True))
        torch.autograd.backward(loss.total)
        ours = naive.table_gradients(method.tables, naive.used_rows(batch.features, batch.triples))
        assert len(ours) == 7
        for name, gradient in ours.items():
            torch.testing.assert_close(gradient, naives[name], rtol=1e-9, atol=1e-13)
            assert gradient.abs().max() > 0


def test_a_zero_that_is_the_positive_is_no_example() -> None:
    """User 0 has every item of the second behavior, so its zeros are its positives."""
    scores = torch.tensor([[1.0, 5.0, -2.0], [3.0, 7.0, 7.0]])
    item = torch.tensor([[4, 2, 3], [1, 1, 1]])
    expected = (np.log1p(np.exp(-1)) + np.log1p(np.exp(5)) + np.log1p(np.exp(-2)) + np.log1p(np.exp(-3))) / 4
    assert libfm.logistic_loss(scores, item).item() == pytest.approx(expected, rel=1e-6)
    assert libfm.logistic_loss(scores[:0], item[:0]).item() == 0
    far = libfm.logistic_loss(torch.tensor([[1e9, -1e9], [-1e9, 1e9]]), item[:, :2])
    assert far.item() == pytest.approx(1e9 / 3)  # the second zero is its positive
    batch = make().prepare(0, 0)
    own = batch.triples[1].user == batch.features.users.tolist().index(0)
    assert torch.all((batch.triples[1].negative == batch.triples[1].positive[:, None]).all(1) == own)
    assert own.any()


def test_all_friends_of_a_batch_are_its_features() -> None:
    method = make()
    for step in range(method.n_steps):
        batch = method.prepare(0, step)
        at = batch.features
        ends = [*at.start[1:].tolist(), len(at.friend)]
        for user, first, last in zip(at.users.tolist(), at.start.tolist(), ends, strict=True):
            assert at.friends[at.friend[first:last]].tolist() == method.data.graph.neighbors(user).tolist()


def test_a_step_reads_and_writes_the_rows_of_its_batch_alone() -> None:
    """All other rows are NaN: reading any of them would spread."""
    method = LibFM(toy(), replace(CONFIG, batch_size=1), seed=0, device=CPU)
    batch = next(batch for step in range(9) if len((batch := method.prepare(0, step)).features.friends))
    used = naive.used_rows(batch.features, batch.triples)
    others = 0
    for name, table in method.tables.tables.items():
        apart = torch.ones(len(table), dtype=torch.bool).index_fill(0, used[name], False)
        table[apart] = torch.nan
        others += int(apart.sum())
    assert others > 10
    before = {name: table.clone() for name, table in method.tables.tables.items()}
    method.update(method.loss(batch))
    for name, table in method.tables.tables.items():
        assert torch.isfinite(table[used[name]]).all()
        assert not torch.equal(table[used[name]], before[name][used[name]])
        apart = torch.ones(len(table), dtype=torch.bool).index_fill(0, used[name], False)
        assert torch.isnan(table[apart]).all()


@pytest.mark.usefixtures("double_precision")
def test_scores_are_those_of_every_two_features_up_to_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the size of the pieces in which users are summed up."""
    method = make()
    tables = method.tables.tables
    for at_once in (libfm.USERS_AT_ONCE, 4, 1):
        monkeypatch.setattr(libfm, "USERS_AT_ONCE", at_once)
        scorer = method.scorer()
        for c, n_items in enumerate(method.data.n_items):
            ours = scorer.scores(c, np.arange(9))
            naives = np.array(
                [[float(naive.score(method.data, tables, u, c, i)) for i in range(n_items)] for u in range(9)]
            )
            np.testing.assert_allclose(ours - ours[:, :1], naives - naives[:, :1], rtol=1e-10, atol=1e-10)
