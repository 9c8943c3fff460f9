"""Node2vec and Node2vec-B: at the ends of their settings they are each other and BPR; between them they add up."""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from tests.errors import refused
from tests.models.communities import ALONE, N_USERS, circle_auc, content, train, training_data
from torch import Tensor

from mcne.errors import UsageError
from mcne.models.bpr import BPR, BPRConfig
from mcne.models.node2vec import Node2vec, Node2vecB, Node2vecBConfig, Node2vecConfig
from mcne.models.settings import parse
from mcne.models.skip_gram import NetworkBatch

CPU = torch.device("cpu")
CONFIG = Node2vecConfig(
    width=6, walks_per_node=2, walk_length=9, window=2, walk_batch=16, batch_size=32, learning_rate=0.05, l2=0.01
)
SHARED = ("width", "bias", "negatives", "batch_size", "learning_rate", "l2")


def make(config: Node2vecConfig = CONFIG, *, weighted: bool = False) -> Node2vec:
    data = training_data(weighted=weighted)
    if isinstance(config, Node2vecBConfig):
        return Node2vecB(data, config, seed=5, device=CPU)
    return Node2vec(data, config, seed=5, device=CPU)


def with_ranking(config: Node2vecConfig, *, network_weight: float, beta: float) -> Node2vecBConfig:
    return Node2vecBConfig(**asdict(config), network_weight=network_weight, beta=beta)


@pytest.mark.parametrize("bias", [True, False])
def test_without_a_share_for_ranking_it_is_the_plain_method(bias: bool) -> None:
    config = replace(CONFIG, bias=bias, p=0.5, q=2.0)
    plain, shared = make(config), make(with_ranking(config, network_weight=1.0, beta=0.0))
    for method in (plain, shared):
        train(method, 3)
    assert content(plain.learned()) == content(shared.learned())
    assert content(plain.memory()) == content(shared.memory())


@pytest.mark.parametrize("bias", [True, False])
def test_without_the_network_it_is_bpr(bias: bool) -> None:
    config = replace(CONFIG, bias=bias)
    shared = make(with_ranking(config, network_weight=0.0, beta=1.0))
    bpr = BPR(training_data(), BPRConfig(**{name: getattr(config, name) for name in SHARED}), seed=5, device=CPU)
    for method in (shared, bpr):
        train(method, 3)
    assert content(bpr.learned()).items() <= content(shared.learned()).items()
    assert content(bpr.memory()).items() <= content(shared.memory()).items()
    assert set(shared.learned()) - set(bpr.learned()) == {"contexts"}
    assert not shared.learned()["contexts"].any()


def gradients(method: Node2vec, batch: NetworkBatch) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss, and by table the gradient of its rows in the step, all other rows 0."""
    loss = method.loss(batch).total
    torch.autograd.backward(loss)
    by_table = {name: torch.zeros_like(table) for name, table in method.tables.tables.items()}
    for table, rows, values in method.tables._touched:
        if values.grad is not None:
            by_table[table][rows] += values.grad
    method.tables.forget()
    return loss.detach(), by_table


def test_network_and_ranking_add_up_as_their_settings_say() -> None:
    both = make(with_ranking(CONFIG, network_weight=0.3, beta=0.7))
    train(both, 2)
    plain, ranking = make(), make(with_ranking(CONFIG, network_weight=0.0, beta=1.0))
    for method in (plain, ranking):
        method.load(both.learned())
    total, by_both = gradients(both, both.prepare(2, 1))
    with_network, by_network = gradients(plain, plain.prepare(2, 1))
    alone, by_ranking = gradients(ranking, ranking.prepare(2, 1))
    assert total.item() == pytest.approx((0.3 * (with_network - alone) + alone).item(), rel=1e-5)
    torch.testing.assert_close(by_both["users"], 0.3 * by_network["users"] + 0.7 * by_ranking["users"])
    torch.testing.assert_close(by_both["contexts"], 0.3 * by_network["contexts"])
    assert by_network["users"].abs().max() > 1e-4 < by_ranking["users"].abs().max()
    for table in ("items.0", "items.1", "bias.0", "bias.1"):
        torch.testing.assert_close(by_both[table], by_ranking[table])
        torch.testing.assert_close(by_both[table], by_network[table])


def test_a_step_is_the_double_loop_over_its_walks() -> None:
    method = make()
    train(method, 2)
    ranking = make(with_ranking(CONFIG, network_weight=0.0, beta=1.0))
    ranking.load(method.learned())
    batch = method.prepare(2, 0)
    context_users, center_rows, context_rows, noise_rows = batch.drawn
    users, contexts = method.tables.tables["users"][batch.users], method.tables.tables["contexts"][context_users]
    walks = zip(*(rows.tolist() for rows in (center_rows, context_rows, noise_rows)), strict=True)
    losses = []
    for center, context, noise in walks:
        for i in range(9):
            for j in {*range(max(0, i - 2), min(9, i + 3))} - {i}:
                far = torch.nn.functional.softplus(contexts[noise[i // 4]] @ users[center[i]]).mean()
                near = torch.nn.functional.softplus(-contexts[context[j]] @ users[center[i]])
                losses.append(near + 5 * far)
    alone = ranking.loss(ranking.prepare(2, 0)).total.item()
    assert len(losses) == 16 * (2 * 2 + 2 * 3 + 5 * 4)
    assert method.loss(batch).total.item() == pytest.approx(alone + torch.stack(losses).mean().item(), rel=1e-5)
    walked = batch.users[center_rows].numpy()
    assert np.array_equal(walked, context_users[context_rows].numpy())
    graph = method.data.graph
    assert all(target in graph.neighbors(here) for walk in walked for here, target in pairwise(walk))


@pytest.mark.parametrize("weighted", [False, True])
def test_circles_of_friends_are_found_and_who_has_none_stays_as_it_was(weighted: bool) -> None:
    method = make(replace(CONFIG, weighted_neighbors=weighted), weighted=weighted)
    before = method.tables.tables["users"].clone()
    assert circle_auc(before) == pytest.approx(0.5, abs=0.05)
    train(method, 10)
    after = method.tables.tables["users"]
    assert circle_auc(after) > 0.95
    assert torch.equal(after[N_USERS - ALONE :], before[N_USERS - ALONE :])


def test_a_q_that_would_refuse_nearly_all_candidates_is_refused() -> None:
    with refused(UsageError, place="setting q", value=0.001):
        parse([Node2vecConfig], {"q": 0.001})
