"""GraphSage: the printed algorithm, user by user; only walks teach the network, only triples the items."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.errors import refused
from tests.models.communities import circle_auc, train, training_data
from tests.values import not_none
from torch.nn import functional

from mcne.embeddings.ranking import DotScorer
from mcne.errors import UsageError
from mcne.models.graphsage import GraphSage, GraphSageConfig, walk_loss

CPU = torch.device("cpu")
CONFIG = GraphSageConfig(
    widths=(8, 7, 6), neighbor_samples=(5, 4), walk_batch=32, network_negatives=2, batch_size=32, learning_rate=0.02
)


def make(config: GraphSageConfig = CONFIG, *, weighted: bool = False) -> GraphSage:
    return GraphSage(training_data(weighted=weighted), config, seed=5, device=CPU)


@pytest.mark.parametrize("weighted", [False, True])
def test_vectors_are_the_printed_algorithm_over_all_neighbors(weighted: bool) -> None:
    """Algorithm 1 of the paper, user by user; only the last level is divided by its norm."""
    method = make(replace(CONFIG, weighted_neighbors=weighted), weighted=weighted)
    train(method, 2)
    graph = method.data.graph
    level = list(method.tables.tables["users"])
    for k, layer in enumerate(method.network.message_layers()):
        above = []
        for user, own in enumerate(level):
            near = slice(graph.indptr[user], graph.indptr[user + 1])
            weights = [1.0] * (near.stop - near.start)
            if weighted:
                weights = not_none(graph.weights)[near].tolist()
            heard = sum((w * level[other] for w, other in zip(weights, graph.indices[near], strict=True)), 0 * own)
            received = layer.combine @ torch.cat([heard / max(sum(weights), 1e-9), own])
            above.append(received.relu() if k == 0 else received)
        level = above
    expected = torch.stack([vector / vector.norm() for vector in level]).detach()
    torch.testing.assert_close(method.vectors(), expected, rtol=1e-4, atol=1e-5)
    scorer = method.scorer()
    assert isinstance(scorer, DotScorer)
    torch.testing.assert_close(torch.from_numpy(scorer.vectors), expected, rtol=1e-4, atol=1e-5)


def test_the_loss_of_walks_pair_by_pair() -> None:
    random = np.random.default_rng(0)
    users = torch.tensor(random.normal(size=(9, 4)), requires_grad=True)
    walks = torch.tensor([[0, 1, 0, 2, 3], [4, 4, 4, 5, 4], [6, 7, 6, 7, 8], [2, 2, 2, 2, 2]])
    noise = torch.tensor([3, 3, 8])
    losses = []
    for start, *visited in walks.tolist():
        for other in visited:
            if other != start:
                far = sum(functional.softplus(users[start] @ users[n]) for n in noise.tolist())
                losses.append(functional.softplus(-users[start] @ users[other]) + far)
    expected, computed = torch.stack(losses).mean(), walk_loss(users, walks, noise)
    assert len(losses) == 7
    assert computed.item() == pytest.approx(expected.item())
    torch.testing.assert_close(*(torch.autograd.grad(loss, users)[0] for loss in (computed, expected)))


@pytest.mark.parametrize(("walks", "noise"), [((0, 5), 0), ((0, 5), 3), ((4, 1), 3), ((2, 3), 2)])
def test_no_pairs_no_loss(walks: tuple[int, int], noise: int) -> None:
    """Of no walks, of walks that go nowhere, and of walks that stay where they are."""
    users = torch.ones(3, 2, requires_grad=True)
    loss = walk_loss(users, torch.zeros(walks, dtype=torch.int64), torch.zeros(noise, dtype=torch.int64))
    assert loss.item() == 0
    assert not torch.autograd.grad(loss, users)[0].any()


def test_only_walks_teach_the_network_and_only_triples_the_items() -> None:
    """The network learns the same whatever the items are; the items do not hear of the walks."""
    one, other = make(), make()
    with torch.no_grad():
        for k in range(2):
            other.tables.tables[f"items.{k}"].mul_(50)
    for method in (one, other):
        train(method, 3)
    for name, value in one.learned().items():
        assert torch.equal(value, other.learned()[name]) == name.startswith(("users", "network"))
    batch = one.prepare(0, 0)
    still = replace(batch, walks=batch.walks[:0])
    one.network.zero_grad()
    torch.autograd.backward(one.loss(still).total)
    moved = {table for table, _, values in one.tables._touched if values.grad is not None}
    assert {"items.0", "items.1", "bias.0", "bias.1"} <= moved
    assert not any(parameter.grad is not None and parameter.grad.any() for parameter in one.network.parameters())


@pytest.mark.parametrize("weighted", [False, True])
def test_circles_of_friends_are_found(weighted: bool) -> None:
    method = make(replace(CONFIG, weighted_neighbors=weighted), weighted=weighted)
    before = circle_auc(method.vectors())
    train(method, 20)
    assert circle_auc(method.vectors()) > max(0.9, before + 0.15)


def test_widths_and_samples_must_fit() -> None:
    with refused(UsageError, place="setting widths", value=[8, 6]):
        GraphSageConfig(widths=(8, 6), neighbor_samples=(5, 4))
