"""NFM is LibFM where their definitions coincide, and PyTorch's own layers over naively pooled features elsewhere."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from tests.models import naive_fm as naive
from tests.models.naive_fm import CPU, toy
from tests.values import instances_of, not_none
from torch import Tensor, nn

from mcne.models import nfm
from mcne.models.libfm import FMBatch, LibFM, LibFMConfig
from mcne.models.nfm import NFM, NFMConfig, Normalization, PooledNetwork
from mcne.randomness import Stream

CONFIG = NFMConfig(
    width=4,
    layers=(5, 3),
    batch_norm=True,
    dropout=0.3,
    layer_dropout=0.2,
    negatives=2,
    batch_size=5,
    learning_rate=0.05,
    l2=0.03,
)
PLAIN = replace(CONFIG, layers=(), batch_norm=False, dropout=0.0)
VARIANTS = {
    "two layers": CONFIG,
    "one layer": replace(CONFIG, layers=(5,)),
    "no layers": replace(CONFIG, layers=()),
    "no normalization": replace(CONFIG, batch_norm=False),
    "no dropout": replace(CONFIG, dropout=0.0, layer_dropout=0.0),
}


def make(config: NFMConfig = CONFIG) -> NFM:
    """A method whose tables, network and statistics are large enough for every part to matter."""
    method = NFM(toy(), config, seed=0, device=CPU)
    naive.enlarge(method.tables.tables)
    random = np.random.default_rng(1)
    with torch.no_grad():
        for name, value in method.network.state_dict().items():
            drawn = torch.from_numpy(random.normal(0, 0.7, value.shape))
            value.copy_(drawn.abs() + 0.1 if "variance" in name else drawn)
    return method


class Reference(nn.Module):
    """φ and h of PyTorch's own layers."""

    def __init__(self, config: NFMConfig, network: PooledNetwork) -> None:
        super().__init__()
        widths = (config.width, *config.layers)
        self.shares = [config.dropout] + [config.layer_dropout] * len(config.layers)
        norms = [nn.BatchNorm1d(w, eps=nfm.EPSILON, momentum=nfm.MOMENTUM) for w in widths]
        linears = [nn.Linear(below, above) for below, above in pairwise(widths)]
        self.norms = nn.ModuleList(norms if config.batch_norm else [nn.Identity() for _ in widths])
        self.linears = nn.ModuleList(linears)
        self.h = nn.Parameter(network.last.detach().clone())
        with torch.no_grad():
            for linear, weight, bias in zip(linears, network.weights, network.biases, strict=True):
                linear.weight.copy_(weight)
                linear.bias.copy_(bias)
            for norm, ours in zip(norms, instances_of(Normalization, network.norms), strict=False):
                norm.weight.copy_(ours.scale)
                norm.bias.copy_(ours.shift)
                not_none(norm.running_mean).copy_(ours.mean)
                not_none(norm.running_var).copy_(ours.variance)

    def forward(self, x: Tensor, kept: tuple[Tensor | None, ...]) -> Tensor:
        x = self.norms[0](x)
        for k, linear in enumerate(self.linears):
            x = torch.relu(self.norms[k + 1](linear(self.drop(k, x, kept))))
        return self.drop(-1, x, kept) @ self.h

    def drop(self, at: int, x: Tensor, kept: tuple[Tensor | None, ...]) -> Tensor:
        mask = kept[at] if self.training else None
        return x if mask is None else torch.where(mask, x / (1 - self.shares[at]), 0.0)


def naive_loss(method: NFM, batch: FMBatch, tables: naive.Tables, reference: Reference) -> tuple[Tensor, Tensor]:
    """The loss to descend and the loss of each behavior, pair by pair up to the pooled features."""
    drawn = [naive.drawn_pairs(batch.features.users, triples) for triples in batch.triples]
    listed = [
        naive.features(method.data, tables, user, c, item)
        for c, rows in enumerate(drawn)
        for pairs in rows
        for user, item in pairs
    ]
    deep = reference(torch.stack([naive.pooled(each) for each in listed]), batch.kept)
    scores = iter([naive.linear(tables, each) + d for each, d in zip(listed, deep, strict=True)])
    fit = [naive.losses([[next(scores) for _ in pairs] for pairs in rows], rows) for rows in drawn]
    decay = [naive.penalty(method.data, tables, c, rows) for c, rows in enumerate(drawn)]
    total = (fit[0] + fit[1]) / 2 + method.config.l2 * (decay[0] + decay[1]) / 2
    return total, torch.stack(fit)


# --- LibFM ---


@pytest.mark.usefixtures("double_precision")
def test_without_layers_it_is_libfm() -> None:
    """He & Chua's NFM-0 with h = 1: the same loss, the same gradients, the same scores up to the user."""
    config = LibFMConfig(width=4, negatives=2, batch_size=5, learning_rate=0.05, l2=0.03)
    ours, theirs = NFM(toy(), PLAIN, seed=7, device=CPU), LibFM(toy(), config, seed=7, device=CPU)
    assert torch.equal(ours.network.last, torch.ones(4))
    for step in range(ours.n_steps):
        for method in (ours, theirs):
            naive.enlarge(method.tables.tables)
        batch, same = ours.prepare(0, step), theirs.prepare(0, step)
        assert batch.kept == (None,)
        losses = ours.loss(batch), theirs.loss(same)
        torch.testing.assert_close(losses[0].total, losses[1].total, rtol=1e-13, atol=0)
        used = naive.used_rows(batch.features, batch.triples)
        for loss in losses:
            torch.autograd.backward(loss.total)
        mine, libfm = (naive.table_gradients(method.tables, used) for method in (ours, theirs))
        for name, gradient in libfm.items():
            torch.testing.assert_close(mine[name], gradient, rtol=1e-10, atol=1e-13)
            assert gradient.abs().max() > 0
    for c in range(2):
        scores, libfm_scores = (method.scorer().scores(c, np.arange(9)) for method in (ours, theirs))
        relative, libfm_relative = (each - each[:, :1] for each in (scores, libfm_scores))
        np.testing.assert_allclose(relative, libfm_relative, rtol=2e-5, atol=2e-6)


# --- the loss ---


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_loss_and_its_gradient_are_those_of_plain_layers(variant: str) -> None:
    method = make(VARIANTS[variant])
    batch = method.prepare(1, 0)
    tables = {name: table.clone().requires_grad_() for name, table in method.tables.tables.items()}
    reference = Reference(method.config, method.network)
    expected, per_behavior = naive_loss(method, batch, tables, reference)
    loss = method.loss(batch)
    torch.testing.assert_close(loss.total, expected, rtol=1e-11, atol=0)
    torch.testing.assert_close(loss.per_behavior, per_behavior.detach(), rtol=1e-11, atol=0)
    naives = dict(zip(tables, torch.autograd.grad(expected, list(tables.values()), retain_graph=True), strict=True))
    torch.autograd.backward(loss.total)
    torch.autograd.backward(expected)
    ours = naive.table_gradients(method.tables, naive.used_rows(batch.features, batch.triples))
    for name, gradient in ours.items():
        torch.testing.assert_close(gradient, naives[name], rtol=1e-8, atol=1e-11)
        assert gradient.abs().max() > 0
    pairs: list[tuple[Tensor, Tensor]] = [(method.network.last, reference.h)]
    linears = instances_of(nn.Linear, reference.linears)
    for weight, bias, linear in zip(method.network.weights, method.network.biases, linears, strict=True):
        pairs += [(weight, linear.weight), (bias, linear.bias)]
    for norm, theirs in zip(instances_of(Normalization, method.network.norms), reference.norms, strict=False):
        assert isinstance(theirs, nn.BatchNorm1d)
        pairs += [(norm.scale, theirs.weight), (norm.shift, theirs.bias)]
    assert len(pairs) == len(list(method.network.parameters()))
    for mine, plain in pairs:
        torch.testing.assert_close(mine.grad, plain.grad, rtol=1e-8, atol=1e-11)


@pytest.mark.usefixtures("double_precision")
def test_running_statistics_move_with_the_update_and_not_before() -> None:
    method = make()
    batch = method.prepare(0, 1)
    reference = Reference(method.config, method.network)
    naive_loss(method, batch, method.tables.tables, reference)
    before = {name: value.clone() for name, value in method.network.named_buffers()}
    assert len(before) == 6
    loss = [method.loss(batch) for _ in range(3)][-1]
    assert all(torch.equal(value, before[name]) for name, value in method.network.named_buffers())
    method.update(loss)
    for norm, theirs in zip(method.network.norms, reference.norms, strict=True):
        torch.testing.assert_close(norm.mean, theirs.running_mean, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(norm.variance, theirs.running_var, rtol=1e-12, atol=1e-14)
        assert theirs.num_batches_tracked == 1


def test_running_statistics_are_learned_and_come_back() -> None:
    """Whoever takes over what was learned scores by the same statistics."""
    teacher, pupil = make(), NFM(toy(), CONFIG, seed=3, device=CPU)
    for step in range(4):
        teacher.update(teacher.loss(teacher.prepare(*divmod(step, teacher.n_steps))))
    learned = teacher.learned()
    assert sum("mean" in name or "variance" in name for name in learned) == 6
    pupil.load(learned)
    taught = teacher.scorer().scores(0, np.arange(9))
    assert np.array_equal(taught, pupil.scorer().scores(0, np.arange(9)))
    pupil.load(learned | {"network.norms.1.mean": learned["network.norms.1.mean"] + 1})
    assert not np.allclose(taught, pupil.scorer().scores(0, np.arange(9)))


# --- dropout ---


def test_dropout_is_of_its_step_and_has_its_share() -> None:
    network = PooledNetwork(NFMConfig(width=101, layers=(33,), dropout=0.5, layer_dropout=0.2), stream=Stream(0, "x"))
    first, again, other = (network.draw(1001, Stream(5, "dropout", 0, step)) for step in (0, 0, 1))
    for share, width, mask, same, another in zip((0.5, 0.2), (101, 33), first, again, other, strict=True):
        assert mask is not None
        assert mask.shape == (1001, width)
        assert np.array_equal(mask, not_none(same))
        assert not np.array_equal(mask, not_none(another))
        deviation = (share * (1 - share) / mask.size) ** 0.5
        assert abs(mask.mean() - (1 - share)) < 4 * deviation
        assert np.abs(np.corrcoef(mask[:-1].ravel(), mask[1:].ravel())[0, 1]) < 4 / mask.size**0.5
    assert not_none(next(network.draw(0, Stream(0, "y")))).shape == (0, 101)


# --- scores ---


@pytest.mark.parametrize("at_once", [(nfm.NUMBERS_AT_ONCE, nfm.ITEMS_AT_ONCE), (40, 4), (1, 1)], ids=str)
@pytest.mark.parametrize("variant", VARIANTS)
def test_scores_are_those_of_plain_layers(
    variant: str, at_once: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the running statistics, without dropout, in pieces of any size."""
    monkeypatch.setattr(nfm, "NUMBERS_AT_ONCE", at_once[0])
    monkeypatch.setattr(nfm, "ITEMS_AT_ONCE", at_once[1])
    method = make(VARIANTS[variant])
    reference = Reference(method.config, method.network).eval()
    tables = method.tables.tables
    users = np.array([8, 0, 3, 3, 5], dtype=np.int32)
    for c, n_items in enumerate(method.data.n_items):
        expected = np.empty((len(users), n_items))
        for row, user in enumerate(users.tolist()):
            for item in range(n_items):
                listed = naive.features(method.data, tables, user, c, item)
                deep = reference(naive.pooled(listed)[None], ())[0].detach()
                expected[row, item] = float(naive.linear(tables, listed) + deep)
        whole = method.scorer().scores(c, users)
        np.testing.assert_allclose(whole, expected, rtol=2e-5, atol=2e-5)
        items = np.random.default_rng(c).integers(0, n_items, (5, 11)).astype(np.int32)
        some = method.scorer().scores(c, users, items)
        np.testing.assert_allclose(some, np.take_along_axis(expected, items, axis=1), rtol=2e-5, atol=2e-5)
        assert (whole.dtype.name, some.dtype.name) == ("float32", "float32")


def test_a_pair_has_one_score_in_a_call() -> None:
    """Matrix products round by place: thousands of repetitions would find two places that differ."""
    method = make(NFMConfig(width=100))
    users, items = np.random.default_rng(0).integers(0, [[9], [7]], (2, 5000))
    scores = method.scorer().scores(0, users, np.repeat(items[:, None], 3, axis=1))
    for pair in np.unique(users * 7 + items):
        assert len(np.unique(scores[users * 7 + items == pair])) == 1
    whole = method.scorer().scores(0, users)
    for user in range(9):
        assert len(np.unique(whole[users == user], axis=0)) == 1
