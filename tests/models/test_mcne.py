"""MCNE's loss is that of the naive model, step by step; what it hands on is what it scores with."""

from __future__ import annotations

from dataclasses import replace
from math import log
from typing import Any, Literal

import numpy as np
import pytest
import torch
from tests.equations import naive
from tests.errors import refused
from tests.models.mcne_parts import enlarge
from tests.values import instances_of, not_none
from torch import Tensor

from mcne.data.behavior import Behavior
from mcne.data.dataset import SocialDataset
from mcne.data.graph import undirected
from mcne.data.ids import Ids
from mcne.data.split import random_split
from mcne.embeddings.trunk import MessageKind
from mcne.errors import UsageError
from mcne.kernels.edges import TensorHop
from mcne.models.contract import TrainingData
from mcne.models.mcne import MCNE, BinaryMask, ConditionalNetwork, MCNEConfig
from mcne.models.mcne_variants import MCNEA, MCNEF
from mcne.models.neighborhoods import Batch
from mcne.models.ranking import Triples

CPU = torch.device("cpu")
CONFIG = MCNEConfig(
    widths=(5, 4, 6), neighbor_samples=(3, 2), attention_width=3, negatives=2, batch_size=6, l2=0.01, learning_rate=0.05
)
L2Form = Literal["scored", "parameters"]
VARIANTS = {"mcne": MCNE, "mcne-a": MCNEA, "mcne-f": MCNEF}


def dataset(n_users: int = 14) -> SocialDataset:
    """Three behaviors of unequal size; the last three users have no links, the last one no interactions either."""
    random = np.random.default_rng(0)
    behaviors = []
    for name, n_items, share in (("Books", 9, 0.4), ("Music", 5, 0.3), ("Travel", 3, 0.5)):
        touched = random.random((n_users, n_items)) < share
        touched[0], touched[-1] = True, False
        user, item = (rows.astype(np.int32) for rows in np.nonzero(touched))
        behaviors.append(Behavior(name, Ids(np.arange(n_items)), user, item))
    source, target = random.integers(0, n_users - 3, (2, 20)).astype(np.int32)
    graph = undirected(n_users, source, target)[0]
    return SocialDataset("toy", Ids(np.arange(n_users)), graph, tuple(behaviors))


def make(kind: type[MCNE] = MCNE, config: MCNEConfig = CONFIG, *, seed: int = 0) -> MCNE:
    """A method whose weights and vectors are large enough for every part to matter."""
    data = dataset()
    method = kind(TrainingData.of(data, random_split(data, seed=0)), config, seed=seed, device=CPU)
    enlarge(method, 80)
    return method


def batch_of(method: MCNE, epoch: int, step: int) -> Batch:
    """The inputs of a step, which the host draws."""
    batch = method.prepare(epoch, step)
    assert isinstance(batch, Batch)
    return batch


def triples_of(batch: Batch) -> tuple[Triples, ...]:
    """The triples of each behavior, which the host keeps apart."""
    assert isinstance(batch.triples, tuple)
    return batch.triples


def masks_of(network: ConditionalNetwork) -> list[BinaryMask]:
    return instances_of(BinaryMask, network.masks)


# --- the loss ---


def naive_loss(method: MCNE, batch: Batch, tables: dict[str, Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Eq. 7–8 of a batch, and the ranking loss of each behavior."""
    model = naive.model_of(method.network)
    initial = [tables["users"][user] for user in batch.users.tolist()]
    last = model.levels(initial, [naive.hearings(hop) for hop in batch.hops])[-1]
    losses, penalties = [], []
    for c in range(len(method.data.names)):
        conditional = [naive.conditional(u, model.masks[-1][c]) for u in last]
        drawn = triples_of(batch)[c]
        catalog = drawn.items.tolist()
        rows = zip(
            drawn.user.tolist(),
            drawn.positive.tolist(),
            drawn.negative.tolist(),
            strict=True,
        )
        triples = [(i, catalog[p], catalog[n]) for i, p, negatives in rows for n in negatives]
        losses.append(naive.ranking_loss(conditional, tables[f"items.{c}"], triples))
        penalties.append(naive.scored_l2(conditional, tables[f"items.{c}"], triples))
    if method.config.l2_form == "scored":
        penalty = torch.stack(penalties).sum() / len(penalties)
    else:
        everything = [*method.network.parameters(), *tables.values()]
        penalty = torch.stack([naive.squared(parameter) for parameter in everything]).sum()
    return naive.multi_task_loss(losses, penalty, l2=method.config.l2), losses


def table_gradients(method: MCNE, batch: Batch) -> dict[str, Tensor]:
    """The gradients of the rows that were handed out, in tables of their own."""
    gradients = {name: torch.zeros_like(table) for name, table in method.tables.tables.items()}
    handed_out = [batch.users, *(each.items for each in triples_of(batch))]
    for gradient, rows, leaf in zip(gradients.values(), handed_out, method.tables.touched(), strict=True):
        everyone = torch.arange(len(gradient))
        assert leaf.grad is not None
        gradient[rows if method.config.l2_form == "scored" else everyone] = leaf.grad
    return gradients


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("form", ["scored", "parameters"])
@pytest.mark.parametrize("message", ["neighbor", "literal"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_loss_is_that_of_the_naive_model(variant: str, message: MessageKind, form: L2Form) -> None:
    method = make(VARIANTS[variant], replace(CONFIG, message=message, l2_form=form))
    batch = batch_of(method, 1, 2)
    assert not all(hop.has_neighbors.all() for hop in batch.hops)
    tables = {name: table.clone().requires_grad_() for name, table in method.tables.tables.items()}
    expected, per_behavior = naive_loss(method, batch, tables)
    loss = method.loss(batch)
    torch.testing.assert_close(loss.total, expected, rtol=1e-11, atol=0)
    torch.testing.assert_close(loss.per_behavior, torch.stack(per_behavior).detach(), rtol=1e-11, atol=0)
    assert loss.examples == 18
    parameters = list(method.network.parameters())
    gradients = torch.autograd.grad(expected, [*parameters, *tables.values()], materialize_grads=True)
    torch.autograd.backward(loss.total)
    ours = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    ours += table_gradients(method, batch).values()
    assert len(ours) == {"mcne": 9, "mcne-a": 5, "mcne-f": 2}[variant] + 4
    for mine, naives in zip(ours, gradients, strict=True):
        torch.testing.assert_close(mine, naives, rtol=1e-9, atol=1e-12)
        assert mine.abs().max() > 0


@pytest.mark.usefixtures("double_precision")
def test_a_batch_is_of_the_training_pairs_and_their_neighbors() -> None:
    method = make()
    for step in range(method.n_steps):
        batch = batch_of(method, 0, step)
        users = batch.users
        for hop in batch.hops:
            for receiver, senders, heard in zip(users[hop.receiver], users[hop.sender], hop.has_neighbors, strict=True):
                neighbors = method.data.graph.neighbors(int(receiver)).tolist()
                assert bool(heard) == bool(neighbors)
                assert not heard or set(senders.tolist()) <= set(neighbors)
            users = users[hop.receiver]
        for c, (user, item) in enumerate(method.data.pairs):
            trained = set(zip(user.tolist(), item.tolist(), strict=True))
            everything = {u for u in range(14) if sum(u == v for v, _ in trained) == method.data.n_items[c]}
            drawn = triples_of(batch)[c]
            for u, p, negatives in zip(
                users[drawn.user].tolist(),
                drawn.items[drawn.positive].tolist(),
                drawn.items[drawn.negative].tolist(),
                strict=True,
            ):
                assert (u, p) in trained
                assert negatives == [p, p] if u in everything else not {(u, n) for n in negatives} & trained


@pytest.mark.usefixtures("double_precision")
def test_the_loss_by_hand() -> None:
    """One layer, one user without neighbors, two behaviors.

    u⁰ = [2, 1], W = [0 0 | 1 1; 0 0 | 1 −3; 0 0 | 0 2], so u = ReLU [3, −1, 2] = [3, 0, 2]; m_1 = [1, 1, 0] and
    m_2 = [0, 0, 1] give [3, 0, 0] and [0, 0, 2]. Behavior 1 scores 3·ln2/3 = ln 2 against 0: ln(1 + 1/2) = ln 3/2;
    behavior 2 scores 0 against 2·ln2/2 = ln 2: ln 3. Their mean is ½ ln 9/2.
    """
    nobody = np.zeros(0, np.int32)
    pair = (np.zeros(1, np.int32), np.zeros(1, np.int32))
    data = TrainingData(undirected(1, nobody, nobody)[0], ("a", "b"), (2, 2), (pair, pair))
    config = replace(CONFIG, widths=(2, 3), neighbor_samples=(1,), negatives=1, l2=0.5)
    forms: tuple[L2Form, ...] = ("scored", "parameters")
    for form in forms:
        method = MCNE(data, replace(config, l2_form=form), seed=0, device=CPU)
        layer = method.network.message_layers()[0]
        items = [[[log(2) / 3, 7.0, 7.0], [0.0, 1.0, 1.0]], [[1.0, 1.0, 0.0], [7.0, 7.0, log(2) / 2]]]
        with torch.no_grad():
            for parameter in method.network.parameters():
                parameter.zero_()
            layer.combine.copy_(torch.tensor([[0, 0, 1, 1], [0, 0, 1, -3], [0, 0, 0, 2]]))
            masks_of(method.network)[1].real.copy_(torch.tensor([[0.1, 0.0, -0.1], [-1.0, -0.5, 1.0], [0.0, 0.0, 0.0]]))
            method.tables.tables["users"].copy_(torch.tensor([[2.0, 1.0]]))
            for c in range(2):
                method.tables.tables[f"items.{c}"].copy_(torch.tensor(items[c]))
        rows, zero = torch.tensor([0, 1]), torch.tensor([0])
        hop = TensorHop(zero, torch.tensor([[0]]), torch.tensor([False]))
        triples = (Triples(zero, rows, zero, torch.tensor([[1]])),) * 2
        loss = method.loss(Batch(zero, (hop,), triples))
        assert loss.per_behavior.tolist() == pytest.approx([log(3 / 2), log(3)], rel=1e-14)
        squares = [[sum(x * x for x in z) for z in catalog] for catalog in items]
        if form == "scored":
            penalty = (9 + sum(squares[0]) + 4 + sum(squares[1])) / 2
        else:  # U⁰: 4 + 1; W: 1 + 1 + 1 + 9 + 4; the last masks: 0.02 + 2.25; attention and the first masks are 0
            penalty = 5 + 16 + 2.27 + sum(squares[0]) + sum(squares[1])
        assert loss.total.item() == pytest.approx(log(9 / 2) / 2 + 0.5 * penalty, rel=1e-13)


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("form", ["scored", "parameters"])
def test_asking_for_a_loss_twice_gives_it_twice(form: L2Form) -> None:
    method = make(config=replace(CONFIG, l2_form=form))
    first, second = (method.loss(method.prepare(0, 0)) for _ in range(2))
    assert first.total.item() == second.total.item()


@pytest.mark.usefixtures("double_precision")
def test_the_last_row_of_the_last_masks_is_not_in_the_loss() -> None:
    method = make()
    batch = method.prepare(0, 0)
    loss = method.loss(batch)
    torch.autograd.backward(loss.total)
    for level, mask in enumerate(masks_of(method.network)):
        gradient = not_none(mask.real.grad)
        assert torch.all(gradient[:-1].abs().max(dim=1).values > 0)
        assert (gradient[-1].abs().max() == 0) == (level == 2)
    before = loss.total.item()
    with torch.no_grad():
        masks_of(method.network)[2].real[-1] *= -1
    assert method.loss(batch).total.item() == before
    with torch.no_grad():
        masks_of(method.network)[2].real[0] *= -1
    assert method.loss(batch).total.item() != before


@pytest.mark.usefixtures("double_precision")
def test_a_behavior_without_training_pairs_leaves_the_others_alone() -> None:
    """It counts as a behavior of no loss: Eq. 8 divides by all."""
    data = TrainingData.of(dataset(), random_split(dataset(), seed=0))
    none = np.zeros(0, np.int32)
    alone = replace(data, names=data.names[:1], n_items=data.n_items[:1], pairs=data.pairs[:1])
    beside = replace(data, names=data.names[:2], n_items=data.n_items[:2], pairs=(data.pairs[0], (none, none)))
    losses = []
    for each in (alone, beside):
        method = MCNEA(each, replace(CONFIG, l2=0.0), seed=0, device=CPU)
        losses.append(method.loss(method.prepare(0, 0)))
        method.update(losses[-1])
        assert all(torch.isfinite(value).all() for value in method.learned().values())
    assert losses[1].per_behavior[1] == 0
    assert losses[1].total.item() == pytest.approx(losses[1].per_behavior[0].item() / 2)
    assert losses[0].examples == losses[1].examples == 6


# --- the update ---


def test_a_step_reads_and_writes_the_rows_of_its_batch_alone() -> None:
    """All other rows are NaN: reading any of them would spread."""
    method = make()
    batch = batch_of(method, 0, 0)
    rows = dict(zip(method.tables.tables, [batch.users, *(each.items for each in triples_of(batch))], strict=True))
    for name, table in method.tables.tables.items():
        kept = table[rows[name]].clone()
        table.fill_(torch.nan)
        table[rows[name]] = kept
    assert any(torch.isnan(table).any() for table in method.tables.tables.values())
    before = {name: table.clone() for name, table in method.tables.tables.items()}
    method.update(method.loss(batch))
    for name, table in method.tables.tables.items():
        mine = torch.zeros(len(table), dtype=torch.bool)
        mine[rows[name]] = True
        assert torch.isfinite(table[mine]).all()
        assert torch.isnan(table[~mine]).all()
        assert not torch.equal(table[mine], before[name][mine])
    assert all(torch.isfinite(parameter).all() for parameter in method.network.parameters())


@pytest.mark.usefixtures("double_precision")
def test_an_update_is_a_step_of_adam_on_everything() -> None:
    """All rows take part under ``parameters``, so one plain Adam over all of it must agree, clamp included."""
    method = make(config=replace(CONFIG, l2_form="parameters"))
    twin = make(config=replace(CONFIG, l2_form="parameters"))
    tables = {name: table.clone().requires_grad_() for name, table in twin.tables.tables.items()}
    adam = torch.optim.Adam([*twin.network.parameters(), *tables.values()], lr=CONFIG.learning_rate)
    for step in range(method.n_steps):
        batch = batch_of(method, 0, step)
        method.update(method.loss(batch))
        adam.zero_grad()
        torch.autograd.backward(naive_loss(twin, batch, tables)[0])
        adam.step()
        with torch.no_grad():
            for mask in masks_of(twin.network):
                mask.real.copy_(mask.real.clamp(-1, 1))
    assert method.n_steps > 2
    for mine, expected in zip(method.network.parameters(), twin.network.parameters(), strict=True):
        torch.testing.assert_close(mine, expected, rtol=1e-7, atol=1e-9)
    for name, table in tables.items():
        torch.testing.assert_close(method.tables.tables[name], table.detach(), rtol=1e-7, atol=1e-9)


def test_masks_stay_within_one_and_their_flips_are_counted() -> None:
    method = make(config=replace(CONFIG, learning_rate=0.3))
    masks = masks_of(method.network)
    flips = 0
    for step in range(method.n_steps):
        before = [mask.real.detach() >= 0 for mask in masks]
        method.update(method.loss(method.prepare(0, step)))
        after = [mask.real.detach() >= 0 for mask in masks]
        flips += sum(int((a != b).sum()) for a, b in zip(before, after, strict=True))
        assert all(mask.real.abs().max() <= 1 for mask in masks)
    vitals = method.vitals()
    assert flips > 0
    assert vitals["mask_flips"] == flips
    assert [vitals[f"mask_density_{k}"] for k in range(3)] == pytest.approx([float(m.float().mean()) for m in after])
    assert any(mask.real.abs().max() == 1 for mask in masks)


def test_learning_makes_the_loss_of_the_training_pairs_fall() -> None:
    method = make(config=replace(CONFIG, l2=0.0))
    epochs = []
    for epoch in range(15):
        total = 0.0
        for step in range(method.n_steps):
            loss = method.loss(method.prepare(epoch, step))
            method.update(loss)
            total += loss.total.item() / method.n_steps
        epochs.append(total)
    assert np.mean(epochs[-3:]) < 0.7 * epochs[0]


# --- what is handed on ---


def artifact(method: MCNE) -> Any:
    return method.embeddings(dataset(), {"method": "mcne"})


@pytest.mark.parametrize("message", ["neighbor", "literal"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_artifact_the_scorer_and_the_naive_model_agree(variant: str, message: MessageKind) -> None:
    method = make(VARIANTS[variant], replace(CONFIG, message=message))
    for step in range(3):
        method.update(method.loss(method.prepare(0, step)))
    neighbors = [method.data.graph.neighbors(user).tolist() for user in range(14)]
    model = naive.model_of(method.network)
    tables = method.tables.tables
    levels = model.levels(list(tables["users"]), [naive.everyone(neighbors)] * 2)
    embeddings = artifact(method)
    scorer = method.scorer()
    users, items = np.array([13, 0, 5, 0]), np.array([[0, 2], [1, 1], [2, 0], [1, 2]])
    for c, name in enumerate(method.data.names):
        conditional = torch.stack([naive.conditional(u, model.masks[-1][c]) for u in levels[-1]]).detach()
        expected = (conditional @ tables[f"items.{c}"].T).numpy()
        assert np.abs(expected).max() > 0.01
        np.testing.assert_allclose(embeddings.user_vectors(name), conditional.numpy(), rtol=1e-4, atol=1e-5)
        for scored in (embeddings, scorer):
            np.testing.assert_allclose(scored.scores(c, np.arange(14)), expected, rtol=1e-4, atol=1e-5)
            picked = np.take_along_axis(expected[users], items, axis=1)
            np.testing.assert_allclose(scored.scores(c, users, items), picked, rtol=1e-4, atol=1e-5)
        assert np.array_equal(embeddings.scores(c, users), scorer.scores(c, users))
    for level, expected_level in zip(embeddings.trunk.levels, levels, strict=False):
        np.testing.assert_allclose(level, torch.stack(expected_level).detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("message", ["neighbor", "literal"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_trunk_weighs_links_like_the_naive_model(variant: str, message: MessageKind) -> None:
    method = make(VARIANTS[variant], replace(CONFIG, message=message))
    trunk = artifact(method).trunk
    model = naive.model_of(method.network)
    receiver, sender = method.data.graph.sources(), method.data.graph.indices
    assert len(sender) > 20
    for layer, vectors in enumerate(method.levels()[:2]):
        expected = [
            torch.stack(model.attention(layer, vectors[j], vectors[i])).tolist()
            for i, j in zip(receiver.tolist(), sender.tolist(), strict=True)
        ]
        np.testing.assert_allclose(trunk.weights(layer, sender, receiver), expected, rtol=1e-4, atol=1e-6)
        if variant == "mcne":
            assert np.std(expected, axis=0).max() > 0.01  # links differ
    masks = [mask.numpy().astype(bool) for mask in method.network.binary_masks()]
    assert [m.tolist() for m in trunk.masks] == [m.tolist() for m in masks]
    assert trunk.message == message


def test_variants_have_the_parameters_that_their_readings_leave() -> None:
    names = {
        kind: {name.split(".")[-1] for name, _ in make(VARIANTS[kind]).network.named_parameters()} for kind in VARIANTS
    }
    assert names == {
        "mcne": {"real", "combine", "project", "score"},
        "mcne-a": {"real", "combine"},
        "mcne-f": {"combine"},
    }
    fixed = make(MCNEF).network.binary_masks()
    assert all(torch.equal(mask, naive.fixed_mask(*mask.shape)) for mask in fixed)
    assert [len(mask) for mask in fixed] == [4, 4, 4]


def test_the_number_of_layers_is_free() -> None:
    for widths, samples in (((4, 3), (2,)), ((4, 3, 5, 2), (2, 1, 3))):
        method = make(config=replace(CONFIG, widths=widths, neighbor_samples=samples))
        batch = batch_of(method, 0, 0)
        expected, _ = naive_loss(method, batch, method.tables.tables)
        loss = method.loss(batch)
        torch.testing.assert_close(loss.total, expected, rtol=1e-4, atol=1e-6)
        method.update(loss)
        assert artifact(method).trunk.n_layers == len(samples)


def test_starting_values_depend_on_the_seed_alone() -> None:
    def learned(seed: int) -> dict[str, Tensor]:
        return make(seed=seed).learned()

    first, again, other = learned(3), learned(3), learned(4)
    assert len(first) == 4 + 9
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first)


# --- link weights ---


@pytest.mark.usefixtures("double_precision")
def test_inference_weighs_links_as_sampling_does() -> None:
    """What all neighbors say, by their weights, is what very many draws in proportion to the weights say."""
    source, target = np.array([0, 0, 0], np.int32), np.array([1, 2, 3], np.int32)
    graph = undirected(4, source, target, np.array([1000.0, 1.0, 200.0], np.float32))[0]
    pair = (np.zeros(1, np.int32), np.zeros(1, np.int32))
    data = TrainingData(graph, ("a",), (2,), (pair,))
    for kind in (MCNE, MCNEA):
        for weighted in (True, False):
            config = replace(CONFIG, widths=(5, 4), neighbor_samples=(40_000,), weighted_neighbors=weighted)
            method = kind(data, config, seed=0, device=CPU)
            with torch.no_grad():
                for weight in method.network.message_layers()[0].parameters():
                    weight.mul_(80)
            method.tables.tables["users"].mul_(80)
            batch = batch_of(method, 0, 0)
            sampled = method.network(method.tables.tables["users"][batch.users], batch.hops)
            torch.testing.assert_close(sampled[0], method.levels()[-1][0], rtol=0.02, atol=0.01)
            shares = [graph.share(j, 0, weighted=weighted) for j in (1, 2, 3)]
            expected = [1000 / 1201, 1 / 1201, 200 / 1201] if weighted else [1 / 3] * 3
            assert shares == pytest.approx(expected)


def test_fixed_masks_leave_no_behavior_without_dimensions() -> None:
    data = dataset()
    config = replace(CONFIG, widths=(3, 4), neighbor_samples=(2,))
    training = TrainingData.of(data, random_split(data, seed=0))
    with refused(UsageError, place="setting widths", value=[3, 4]):
        MCNEF(training, config, seed=0, device=CPU)


def test_a_network_needs_a_layer() -> None:
    with refused(UsageError, place="setting widths", value=[8]):
        MCNEConfig(widths=(8,), neighbor_samples=())
