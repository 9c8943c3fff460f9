"""PinSage: convolutions and losses by naive loops and by hand, and mini-batches that equal the whole graph."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from typing import Literal

import numpy as np
import pytest
import torch
from tests.errors import refused
from tests.models.small_records import six_users
from tests.values import not_none
from torch import Tensor

from mcne.errors import UsageError
from mcne.models.contract import TrainingData
from mcne.models.node_ranking import joint_graph
from mcne.models.pinsage import Convolve, PinSage, PinSageConfig, PinSageNetwork, VisitHop, margin_loss
from mcne.randomness import Stream
from mcne.sampling.walks import most_visited

CPU = torch.device("cpu")
CONFIG = PinSageConfig(
    widths=(8, 7, 6), neighbors=3, walks=20, walk_length=3, negatives=2, batch_size=4, learning_rate=0.05, l2=0.02
)


def training_data() -> TrainingData:
    """Six users, three and two items. User 5 is alone, user 4 has friends only; one item of each behavior is cold."""
    return six_users((0, 1), (1, 4), (4, 3))


def make(config: PinSageConfig = CONFIG, *, seed: int = 0) -> PinSage:
    """A method whose biases matter, and whose vectors are large beside them."""
    method = PinSage(training_data(), config, seed=seed, device=CPU)
    method.tables.tables["nodes"].mul_(10)
    if config.bias:
        method.tables.tables["bias"].copy_(torch.linspace(-0.2, 0.3, 11)[:, None])
    with torch.no_grad():
        for name, weight in method.network.named_parameters():
            if name.endswith("bias"):
                weight.copy_(torch.linspace(-0.3, 0.4, len(weight)))
    return method


def naive_convolve(layer: Convolve, vectors: Tensor, near: list[list[tuple[int, float]]]) -> Tensor:
    """Algorithm 1, one neighbor at a time."""
    given = []
    for own, neighbors in zip(vectors, near, strict=True):
        heard = torch.zeros_like(own)
        for v, share in neighbors:
            heard = heard + share * torch.relu(layer.near.weight @ vectors[v] + layer.near.bias)
        new = torch.relu(layer.combine.weight @ torch.cat([own, heard]) + layer.combine.bias)
        given.append(new / new.norm() if new.norm() > 0 else new)
    return torch.stack(given)


def naive_network(network: PinSageNetwork, vectors: Tensor, near: list[list[tuple[int, float]]]) -> Tensor:
    """Algorithm 2 for all nodes."""
    for layer in network.layers:
        assert isinstance(layer, Convolve)
        vectors = naive_convolve(layer, vectors, near)
    rows = [network.output.weight @ torch.relu(network.hidden.weight @ h + network.hidden.bias) for h in vectors]
    return torch.stack(rows)


def neighbors() -> list[list[tuple[int, float]]]:
    """The neighbors that :func:`make` draws."""
    graph = joint_graph(training_data(), trust=True)
    visited = most_visited(graph, size=3, walks=20, length=3, restart=0.5, seed=0)
    pairs = [
        zip(nodes, shares, strict=True) for nodes, shares in zip(visited.node.tolist(), visited.share, strict=True)
    ]
    return [[(v, float(share)) for v, share in each if share] for each in pairs]


# --- the network ---


def test_a_convolution_by_hand() -> None:
    """Two neighbors of shares ¾ and ¼; Q doubles, q adds 1, W sums own and heard and subtracts, w is 0."""
    layer = Convolve(1, 2, stream=Stream(0))
    with torch.no_grad():
        layer.near.weight.fill_(2.0)
        layer.near.bias.fill_(1.0)
        layer.combine.weight.copy_(torch.tensor([[1.0, 1.0], [-1.0, 2.0]]))
    vectors = torch.tensor([[3.0], [1.0], [-4.0]])
    hop = VisitHop(torch.tensor([0]), torch.tensor([[1, 2]]), torch.tensor([[0.75, 0.25]]))
    heard = 0.75 * 3 + 0.25 * 0  # ReLU(2 · 1 + 1) and ReLU(2 · −4 + 1)
    new = torch.tensor([[3 + heard, -3 + 2 * heard]])
    torch.testing.assert_close(layer(vectors, hop), new / new.norm())


def test_a_vector_that_is_rectified_to_nothing_stays_finite_with_its_gradient() -> None:
    layer = Convolve(2, 2, stream=Stream(0))
    with torch.no_grad():
        layer.combine.weight.fill_(-1.0)
    vectors = torch.ones(1, 2, requires_grad=True)
    given = layer(vectors, VisitHop(torch.tensor([0]), torch.tensor([[0]]), torch.zeros(1, 1)))
    given.sum().backward()
    assert given.tolist() == [[0.0, 0.0]]
    assert vectors.grad is not None
    assert vectors.grad.tolist() == [[0.0, 0.0]]


@pytest.mark.usefixtures("double_precision")
def test_all_nodes_are_those_of_naive_loops() -> None:
    method = make()
    near = neighbors()
    assert [len(each) for each in near].count(0) == 3  # user 5 and two cold items
    assert max(len(each) for each in near) == 3
    expected = naive_network(method.network, method.tables.tables["nodes"], near).detach()
    torch.testing.assert_close(method.vectors(), expected, rtol=1e-10, atol=1e-12)
    assert expected.abs().max() > 0.1
    for k, first in enumerate((6, 9)):
        scores = method.scorer().scores(k, np.arange(6))
        items = expected[first : first + training_data().n_items[k]]
        np.testing.assert_allclose(scores, (expected[:6] @ items.T).numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("loss", ["margin", "bpr"])
def test_the_loss_and_its_gradient_are_those_of_naive_loops_over_the_whole_graph(
    loss: Literal["margin", "bpr"], bias: bool
) -> None:
    method = make(replace(CONFIG, loss=loss, margin=0.05, bias=bias))
    batch = method.prepare(1, 0)
    assert len(batch.nodes) < 11  # a part of the graph
    nodes = method.tables.tables["nodes"].clone().requires_grad_()
    given = naive_network(method.network, nodes, neighbors())
    added = method.tables.tables["bias"].clone() if bias else torch.zeros(11, 1)
    added.requires_grad_()
    losses, penalties, hinges = [], [], []
    seeds = batch.nodes
    for hop in batch.hops:
        seeds = seeds[hop.receiver]
    for each in batch.triples:
        ranking, penalty = torch.zeros(()), torch.zeros(())
        of_triples = (seeds[at].tolist() for at in (each.user, each.positive, each.negative))
        for u, p, drawn in zip(*of_triples, strict=True):
            for n in drawn:
                difference = given[u] @ given[p] + added[p, 0] - given[u] @ given[n] - added[n, 0]
                hinge = torch.clamp(0.05 - difference, min=0)
                hinges.append(hinge.item())
                ranking = ranking + (hinge if loss == "margin" else -torch.log(torch.sigmoid(difference))) / 8
                penalty = penalty + (given[u].square() + given[p].square() + given[n].square()).sum() / 8
                penalty = penalty + (added[p, 0].square() + added[n, 0].square()) / 8
        losses.append(ranking)
        penalties.append(penalty)
    assert 0 < sum(hinge > 0 for hinge in hinges) < len(hinges)
    expected = torch.stack(losses).mean() + 0.02 * torch.stack(penalties).mean()
    ours = method.loss(batch)
    torch.testing.assert_close(ours.total, expected, rtol=1e-10, atol=0)
    torch.testing.assert_close(ours.per_behavior, torch.stack(losses).detach(), rtol=1e-10, atol=0)
    assert ours.examples == 8
    parameters = list(method.network.parameters())
    tables = [nodes, added] if bias else [nodes]
    gradients = torch.autograd.grad(expected, [*parameters, *tables])
    torch.autograd.backward(ours.total)
    computed = [each.grad for each in parameters]
    for table, rows, touched in zip(tables, (batch.nodes, seeds), method.tables.touched(), strict=False):
        computed.append(torch.zeros_like(table).index_add(0, rows, not_none(touched.grad)))
    for mine, naive in zip(computed, gradients, strict=True):
        torch.testing.assert_close(mine, naive, rtol=1e-8, atol=1e-12)
        assert naive.abs().max() > 0


@pytest.mark.usefixtures("double_precision")
def test_the_bias_of_an_item_is_added_to_its_scores() -> None:
    with_bias, without = make(replace(CONFIG, bias=True)), make()
    for k, first in enumerate((6, 9)):
        added = with_bias.tables.tables["bias"][first : first + training_data().n_items[k], 0].numpy()
        scores = with_bias.scorer().scores(k, np.arange(6)) - without.scorer().scores(k, np.arange(6))
        np.testing.assert_allclose(scores, np.tile(added, (6, 1)), atol=1e-6)


def test_a_step_moves_only_the_nodes_around_its_triples() -> None:
    method = make(replace(CONFIG, batch_size=1, negatives=1, neighbors=1, widths=(8, 6)))
    before = method.tables.tables["nodes"].clone()
    batch = method.prepare(0, 0)
    method.update(method.loss(batch))
    moved = torch.nonzero((method.tables.tables["nodes"] != before).any(dim=1))[:, 0].tolist()
    assert 0 < len(batch.nodes) < 11
    assert set(moved) <= set(batch.nodes.tolist())


# --- losses and settings ---


def test_margin_loss_by_hand() -> None:
    positive = torch.tensor([1.0, -2.0])
    negative = torch.tensor([[0.5, 0.9], [-5.0, 0.0]])
    expected = (0 + 0.2 + 0 + 2.3) / 4  # 0.5 − 1 + 0.3 < 0, 0.9 − 1 + 0.3, −5 + 2 + 0.3 < 0, 0 + 2 + 0.3
    assert margin_loss(positive, negative, margin=0.3).item() == pytest.approx(expected)
    huge = torch.tensor([1e9])
    assert margin_loss(huge, -huge[:, None], margin=1.0).item() == 0
    assert margin_loss(-huge, huge[:, None], margin=1.0).item() == pytest.approx(2e9)
    assert margin_loss(torch.zeros(0), torch.zeros(0, 3), margin=1.0).item() == 0


def test_both_losses_of_the_same_scores() -> None:
    margin, bpr = (make(replace(CONFIG, loss=loss, l2=0.0)) for loss in ("margin", "bpr"))
    vectors = margin.vectors()
    batch = margin.prepare(0, 0)
    seeds = batch.nodes
    for hop in batch.hops:
        seeds = seeds[hop.receiver]
    for each, hinge, logistic in zip(
        batch.triples, margin.loss(batch).per_behavior, bpr.loss(batch).per_behavior, strict=True
    ):
        users, positives, negatives = (vectors[seeds[at]] for at in (each.user, each.positive, each.negative))
        differences = ((users * positives).sum(-1)[:, None] - (users[:, None] * negatives).sum(-1)).flatten().tolist()
        assert hinge.item() == pytest.approx(sum(max(0, 1 - d) for d in differences) / len(differences), rel=1e-5)
        assert logistic.item() == pytest.approx(sum(log(1 + exp(-d)) for d in differences) / len(differences), rel=1e-5)


def test_a_network_needs_a_layer() -> None:
    with refused(UsageError, place="setting widths", value=[8]):
        PinSageConfig(widths=(8,))
