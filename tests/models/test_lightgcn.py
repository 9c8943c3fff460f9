"""LightGCN: smoothing by hand and by naive loops, its gradient, and what it is without layers."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
import torch
from tests.models.small_records import six_users
from torch import Tensor

from mcne.data.graph import Graph, directed, undirected
from mcne.models.bpr import BPR, BPRConfig
from mcne.models.contract import TrainingData
from mcne.models.lightgcn import LightGCN, LightGCNConfig, LightGCNTrust, Smoothing
from mcne.models.node_ranking import joint_graph

CPU = torch.device("cpu")
CONFIG = LightGCNConfig(width=4, layers=3, negatives=2, batch_size=5, l2=0.03, learning_rate=0.05)


def training_data() -> TrainingData:
    """Six users, three and two items. User 5 is alone, user 4 has friends only; one item of each behavior is cold.

    Users 0 and 1 trust each other, 1 and 4, 3 and 4; user 2 trusts itself.
    """
    return six_users((0, 1), (1, 0), (1, 4), (4, 3), (2, 2))


def make(kind: type[LightGCN] = LightGCN, config: LightGCNConfig = CONFIG, *, seed: int = 0) -> LightGCN:
    """A method whose vectors and biases are large enough to matter."""
    method = kind(training_data(), config, seed=seed, device=CPU)
    with torch.no_grad():
        method.nodes.mul_(3)
        if method.bias is not None:
            method.bias.copy_(torch.randn(11, 1, generator=torch.Generator().manual_seed(seed)))
    return method


def links(graph: Graph) -> set[tuple[int, int]]:
    return set(zip(graph.sources().tolist(), graph.indices.tolist(), strict=True))


def naive_smoothing(nodes: Tensor, edges: set[tuple[int, int]], layers: int) -> Tensor:
    """Eq. 3–4, one link at a time."""
    degree = {node: sum(a == node for a, _ in edges) for node in range(len(nodes))}
    levels = [list(nodes)]
    for _ in range(layers):
        heard = [torch.zeros_like(vector) for vector in nodes]
        for a, b in sorted(edges):
            heard[a] = heard[a] + levels[-1][b] / sqrt(degree[a] * degree[b])
        levels.append(heard)
    return torch.stack([torch.stack(every).mean(dim=0) for every in zip(*levels, strict=True)])


# --- the graph ---


def test_the_graph_holds_the_training_pairs_and_with_trust_the_links_between_users() -> None:
    pairs = {(0, 6), (0, 7), (1, 7), (2, 6), (3, 7), (0, 10), (2, 10), (3, 10)}  # books from 6 on, music from 9 on
    trust = {(0, 1), (1, 4), (3, 4)}  # but not (2, 2)
    for with_trust, expected in ((False, pairs), (True, pairs | trust)):
        graph = joint_graph(training_data(), trust=with_trust)
        graph.validate()
        assert graph.n_users == 11
        assert links(graph) == expected | {(b, a) for a, b in expected}


def test_in_a_directed_network_users_are_linked_to_whom_they_trust_and_items_both_ways() -> None:
    trust = directed(6, np.array([0, 1, 1, 4, 2], np.int32), np.array([1, 0, 4, 3, 2], np.int32))[0]
    data = replace(training_data(), graph=trust)
    pairs = {(0, 6), (0, 7), (1, 7), (2, 6), (3, 7), (0, 10), (2, 10), (3, 10)}
    both_ways = pairs | {(b, a) for a, b in pairs}
    graph = joint_graph(data, trust=True)
    graph.validate()
    assert graph.is_directed
    assert links(graph) == both_ways | {(0, 1), (1, 0), (1, 4), (4, 3)}
    assert not joint_graph(data, trust=False).is_directed
    assert links(joint_graph(data, trust=False)) == both_ways


# --- smoothing ---


@pytest.mark.usefixtures("double_precision")
def test_smoothing_by_hand() -> None:
    """A path 0 – 1 – 2 and a lone node 3: degrees 1, 2, 1, 0."""
    graph = undirected(4, np.array([0, 1]), np.array([1, 2]))[0]
    vectors = torch.tensor([[1.0], [10.0], [100.0], [7.0]])
    one = Smoothing(graph, layers=1, device=CPU)(vectors)
    root = sqrt(2)
    expected = [(1 + 10 / root) / 2, (10 + 101 / root) / 2, (100 + 10 / root) / 2, 7 / 2]
    torch.testing.assert_close(one[:, 0], torch.tensor(expected), rtol=1e-14, atol=0)
    two = Smoothing(graph, layers=2, device=CPU)(vectors)
    second = [101 / 2, 10.0, 101 / 2, 0.0]
    expected = [(2 * a + b) / 3 for a, b in zip(expected, second, strict=True)]
    torch.testing.assert_close(two[:, 0], torch.tensor(expected), rtol=1e-14, atol=0)


@pytest.mark.usefixtures("double_precision")
def test_smoothing_and_its_gradient_are_those_of_naive_loops() -> None:
    random = torch.Generator().manual_seed(0)
    for trust in (False, True):
        graph = joint_graph(training_data(), trust=trust)
        for layers in range(5):
            vectors = torch.randn(11, 3, generator=random).requires_grad_()
            smoothing = Smoothing(graph, layers=layers, device=CPU)
            expected = naive_smoothing(vectors, links(graph), layers)
            torch.testing.assert_close(smoothing(vectors), expected, rtol=1e-13, atol=1e-13)
            weights = torch.randn(11, 3, generator=random)
            ours, theirs = (
                torch.autograd.grad((weights * out.tanh()).sum(), vectors)[0] for out in (smoothing(vectors), expected)
            )
            torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-13)


def test_a_graph_without_links_leaves_the_vectors_as_they_are_up_to_their_share() -> None:
    nobody = np.zeros(0, np.int32)
    vectors = torch.randn(3, 2)
    smoothed = Smoothing(undirected(3, nobody, nobody)[0], layers=3, device=CPU)(vectors)
    torch.testing.assert_close(smoothed, vectors / 4)


# --- the loss ---


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", [LightGCN, LightGCNTrust])
def test_the_loss_and_its_gradient_are_those_of_naive_loops(kind: type[LightGCN], bias: bool) -> None:
    method = make(kind, replace(CONFIG, bias=bias))
    batch = method.prepare(1, 0)
    first = (6, 9)
    nodes = method.nodes.detach().clone().requires_grad_()
    added = (torch.zeros(11) if method.bias is None else method.bias.detach()[:, 0]).clone().requires_grad_()
    smoothed = naive_smoothing(nodes, links(joint_graph(training_data(), trust=kind.trust)), 3)
    losses, penalties = [], []
    for k, each in enumerate(batch.triples):
        users, positives, negatives = (batch.nodes[rows].tolist() for rows in (each.user, each.positive, each.negative))
        loss, penalty = torch.zeros(()), torch.zeros(())
        assert len(users) == 5
        trained = set(zip(*(column.tolist() for column in training_data().pairs[k]), strict=True))
        for u, p, drawn in zip(users, positives, negatives, strict=True):
            assert (u, p - first[k]) in trained
            for n in drawn:
                assert first[k] <= n < first[k] + training_data().n_items[k]
                assert (u, n - first[k]) not in trained
                better = smoothed[u] @ smoothed[p] + added[p] - smoothed[u] @ smoothed[n] - added[n]
                loss = loss - torch.log(torch.sigmoid(better)) / 10
                squares = nodes[u].square().sum() + nodes[p].square().sum() + nodes[n].square().sum()
                penalty = penalty + (squares + added[p].square() + added[n].square()) / 10
        losses.append(loss)
        penalties.append(penalty)
    expected = torch.stack(losses).mean() + 0.03 * torch.stack(penalties).mean()
    ours = method.loss(batch)
    torch.testing.assert_close(ours.total, expected, rtol=1e-12, atol=0)
    torch.testing.assert_close(ours.per_behavior, torch.stack(losses).detach(), rtol=1e-12, atol=0)
    assert ours.examples == 10
    of_nodes, of_biases = torch.autograd.grad(expected, (nodes, added), retain_graph=True)
    torch.autograd.backward(ours.total)
    torch.testing.assert_close(method.nodes.grad, of_nodes, rtol=1e-10, atol=1e-13)
    if method.bias is not None:
        torch.testing.assert_close(method.bias.grad, of_biases[:, None], rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("bias", [False, True])
def test_scores_are_inner_products_of_smoothed_vectors_plus_the_bias(bias: bool) -> None:
    for kind in (LightGCN, LightGCNTrust):
        method = make(kind, replace(CONFIG, bias=bias))
        edges = links(joint_graph(training_data(), trust=kind.trust))
        smoothed = naive_smoothing(method.nodes.detach(), edges, 3).numpy()
        added = np.zeros(11) if method.bias is None else method.bias.detach()[:, 0].numpy()
        for k, first in enumerate((6, 9)):
            items = slice(first, first + training_data().n_items[k])
            expected = smoothed[:6] @ smoothed[items].T + added[items]
            np.testing.assert_allclose(method.scorer().scores(k, np.arange(6)), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bias", [False, True])
def test_without_layers_it_is_matrix_factorization(bias: bool) -> None:
    method = make(config=replace(CONFIG, layers=0, bias=bias))
    config = BPRConfig(width=4, bias=bias, negatives=2, batch_size=5, l2=0.03)
    plain = BPR(training_data(), config, seed=0, device=CPU)
    users, books, music = torch.split(method.nodes.detach(), [6, 3, 2])
    tables = {"users": users, "items.0": books, "items.1": music}
    if method.bias is not None:
        _, *tables_of_bias = torch.split(method.bias.detach(), [6, 3, 2])
        tables |= {f"bias.{k}": table for k, table in enumerate(tables_of_bias)}
    plain.load(tables)
    for step in range(3):
        ours = method.loss(method.prepare(step, 0))
        theirs = plain.loss(plain.prepare(step, 0))
        torch.testing.assert_close(ours.total, theirs.total, rtol=1e-6, atol=0)
    for k in range(2):
        scores, plain_scores = (each.scorer().scores(k, np.arange(6)) for each in (method, plain))
        np.testing.assert_array_equal(scores, plain_scores)


def test_every_node_that_walks_from_a_triple_reach_learns() -> None:
    method = make(LightGCNTrust, replace(CONFIG, l2=0.0))
    before = method.nodes.detach().clone()
    method.update(method.loss(method.prepare(0, 0)))
    moved = (method.nodes.detach() != before).any(dim=1).tolist()
    assert moved[:5] == [True] * 5  # user 4 has no records, but friends who have
    assert moved[6:8] == [True, True]
    assert not moved[5]  # nobody knows user 5


def test_initial_vectors_have_the_spread_of_glorot_and_bengio() -> None:
    n_users, n_items = 3000, (400, 600)
    nobody = np.zeros(0, np.int32)
    pairs = ((nobody, nobody), (nobody, nobody))
    data = TrainingData(undirected(n_users, nobody, nobody)[0], ("Books", "Music"), n_items, pairs)
    nodes = LightGCN(data, replace(CONFIG, width=50), seed=0, device=CPU).nodes.detach()
    for part, rows in ((nodes[:n_users], n_users), (nodes[n_users:], 1000)):
        assert len(part) == rows
        assert part.std().item() == pytest.approx((2 / (rows + 50)) ** 0.5, rel=0.02)
        assert abs(part.mean().item()) < 0.001
