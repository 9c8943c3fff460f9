"""LINE and LINE-B: the printed loss, link by link; at the ends of their settings they are each other and BPR."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Literal

import pytest
import torch
from tests.models.communities import ALONE, N_USERS, circle_auc, content, train, training_data
from tests.values import not_none
from torch.nn import functional

from mcne.models.bpr import BPR, BPRConfig
from mcne.models.line import LINE, LINEB, LINEBConfig, LINEConfig

CPU = torch.device("cpu")
CONFIG = LINEConfig(width=6, link_batch=150, batch_size=32, learning_rate=0.05, l2=0.01)
SHARED = ("width", "bias", "negatives", "batch_size", "learning_rate", "l2")
Order = Literal[1, 2]


def make(config: LINEConfig = CONFIG, *, weighted: bool = False) -> LINE:
    data = training_data(weighted=weighted)
    if isinstance(config, LINEBConfig):
        return LINEB(data, config, seed=5, device=CPU)
    return LINE(data, config, seed=5, device=CPU)


def with_ranking(config: LINEConfig, *, network_weight: float, beta: float) -> LINEBConfig:
    return LINEBConfig(**asdict(config), network_weight=network_weight, beta=beta)


@pytest.mark.parametrize("order", [1, 2])
def test_without_a_share_for_ranking_it_is_the_plain_method(order: Order) -> None:
    config = replace(CONFIG, order=order)
    plain, shared = make(config), make(with_ranking(config, network_weight=1.0, beta=0.0))
    for method in (plain, shared):
        train(method, 3)
    assert content(plain.learned()) == content(shared.learned())
    assert content(plain.memory()) == content(shared.memory())


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
def test_without_the_network_it_is_bpr(order: Order, bias: bool) -> None:
    config = replace(CONFIG, order=order, bias=bias)
    shared = make(with_ranking(config, network_weight=0.0, beta=1.0))
    bpr = BPR(training_data(), BPRConfig(**{name: getattr(config, name) for name in SHARED}), seed=5, device=CPU)
    for method in (shared, bpr):
        train(method, 3)
    assert content(bpr.learned()).items() <= content(shared.learned()).items()
    assert content(bpr.memory()).items() <= content(shared.memory()).items()
    assert set(shared.learned()) - set(bpr.learned()) == ({"contexts"} if order == 2 else set())


@pytest.mark.parametrize("order", [1, 2])
def test_a_step_is_the_loss_of_its_links_and_of_ranking(order: Order) -> None:
    method = make(with_ranking(replace(CONFIG, order=order), network_weight=0.3, beta=0.7))
    train(method, 2)
    ranking = make(with_ranking(replace(CONFIG, order=order), network_weight=0.0, beta=1.0))
    ranking.load(method.learned())
    batch = method.prepare(2, 1)
    context_users, source_rows, target_rows = batch.drawn
    users = method.tables.tables["users"].clone().requires_grad_()
    contexts = users if order == 1 else method.tables.tables["contexts"]
    heads = (batch.users if order == 1 else context_users)[target_rows]
    losses = []
    for source, (target, *noise) in zip(batch.users[source_rows].tolist(), heads.tolist(), strict=True):
        assert target in method.data.graph.neighbors(source)
        assert len(noise) == 5
        far = sum(functional.softplus(users[source] @ contexts[other]) for other in noise)
        losses.append(functional.softplus(-users[source] @ contexts[target]) + far)
    network = 0.3 * torch.stack(losses).mean()
    alone = ranking.loss(ranking.prepare(2, 1)).total
    loss = method.loss(batch).total
    assert loss.item() == pytest.approx((network + alone).item(), rel=1e-5)
    for each in (network, alone, loss):
        torch.autograd.backward(each)
    of_ranking, ours = (torch.zeros(N_USERS, 6) for _ in range(2))
    for owner, gradient in ((ranking, of_ranking), (method, ours)):
        ((_, rows, values),) = (each for each in owner.tables._touched if each[0] == "users")
        assert values.grad is not None
        gradient[rows] = values.grad
    torch.testing.assert_close(ours, not_none(users.grad) + 0.7 * of_ranking)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_circles_of_friends_are_found_and_who_has_none_stays_as_it_was(order: Order, weighted: bool) -> None:
    method = make(replace(CONFIG, order=order, weighted_neighbors=weighted), weighted=weighted)
    before = method.tables.tables["users"].clone()
    assert circle_auc(before) == pytest.approx(0.5, abs=0.05)
    train(method, 15)
    after = method.tables.tables["users"]
    assert circle_auc(after) > 0.9
    assert torch.equal(after[N_USERS - ALONE :], before[N_USERS - ALONE :])
