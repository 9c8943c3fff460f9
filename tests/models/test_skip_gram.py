"""Skip-gram: the fast form is the double loop over pairs, in value and gradient."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.nn import functional

from mcne.models.skip_gram import SHARED_NEGATIVES, SkipGram, logistic_loss
from mcne.models.tables import partly_detached

pytestmark = pytest.mark.usefixtures("double_precision")

CPU = torch.device("cpu")


def naive(users: Tensor, contexts: Tensor, walks: list[list[int]], noise: list[list[list[int]]], window: int) -> Tensor:
    """The mean over all pairs of ``softplus(−⟨u, c⟩) + 3 · mean softplus(⟨u, n⟩)``, pair by pair."""
    losses = []
    for walk, groups in zip(walks, noise, strict=True):
        for i, center in enumerate(walk):
            for j, context in enumerate(walk):
                if i != j and abs(i - j) <= window:
                    negatives = groups[i // min(2 * window, len(walk))]
                    far = [functional.softplus(users[center] @ contexts[other]) for other in negatives]
                    losses.append(functional.softplus(-users[center] @ contexts[context]) + 3 * sum(far) / len(far))
    return torch.stack(losses).mean()


@pytest.mark.parametrize(("length", "window"), [(12, 3), (13, 2), (7, 10**9), (6, 3), (2, 1), (9, 1)])
def test_the_fast_form_is_the_double_loop(length: int, window: int) -> None:
    random = np.random.default_rng(length)
    skip_gram = SkipGram(length, window, negatives=3, device=CPU)
    walks = random.integers(0, 6, (4, length))  # users come again and again, in a walk and beside themselves
    noise = random.integers(0, 6, (4, *skip_gram.noise_shape))
    users, contexts = (torch.tensor(random.normal(size=(6, 3)), requires_grad=True) for _ in range(2))
    rows = random.permutation(6)  # the contexts stand in another order
    fast = skip_gram.loss(
        users, contexts, center=torch.tensor(walks), context=torch.tensor(rows[walks]), noise=torch.tensor(rows[noise])
    )
    slow = naive(users, contexts[rows], walks.tolist(), noise.tolist(), window)
    assert noise.shape[2] == SHARED_NEGATIVES
    assert skip_gram.pairs == sum(min(i, window) + min(length - 1 - i, window) for i in range(length))
    assert fast.item() == pytest.approx(slow.item(), rel=1e-12)
    for ours, theirs in zip(*(torch.autograd.grad(loss, (users, contexts)) for loss in (fast, slow)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("walks", "length"), [(0, 9), (3, 1), (0, 1)])
def test_no_pairs_no_loss(walks: int, length: int) -> None:
    skip_gram = SkipGram(length, 2, negatives=5, device=CPU)
    users, contexts = (torch.ones(2, 3, requires_grad=True) for _ in range(2))
    at, noise = (
        torch.zeros(walks, length, dtype=torch.int64),
        torch.zeros(walks, *skip_gram.noise_shape, dtype=torch.int64),
    )
    loss = skip_gram.loss(users, contexts, center=at, context=at, noise=noise)
    assert loss.item() == 0
    for gradient in torch.autograd.grad(loss, (users, contexts)):
        assert not gradient.any()


def test_the_logistic_loss_by_hand() -> None:
    vectors, contexts = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[3.0, -1.0], [0.0, 1.0], [5.0, 5.0]]])
    loss = logistic_loss(vectors, contexts, torch.tensor([[[2.0, -0.5, 0.0]]]))  # products 1, 2 and 15
    assert loss.item() == pytest.approx(2 * log(1 + exp(-1)) + 0.5 * log(1 + exp(2)))


def test_the_gradient_of_the_logistic_loss() -> None:
    random = np.random.default_rng(0)
    vectors, contexts = (
        torch.tensor(random.normal(size=shape), requires_grad=True) for shape in ((6, 2, 3), (6, 4, 3))
    )
    for groups in (1, 2, 6):  # weights that serve six, three and one of the groups
        weights = torch.tensor(random.normal(size=(groups, 2, 4)).round())
        assert gradcheck(lambda a, b, weights=weights: 1.7 * logistic_loss(a, b, weights), (vectors, contexts))
        products = torch.einsum("gbd,gkd->gbk", vectors, contexts) * weights.repeat(6 // groups, 1, 1).sign()
        expected = (functional.softplus(-products) * weights.repeat(6 // groups, 1, 1).abs()).sum()
        assert logistic_loss(vectors, contexts, weights).item() == pytest.approx(expected.item())


def test_far_products_stay_finite() -> None:
    torch.set_default_dtype(torch.float32)
    vectors = torch.tensor([[[1e4], [-1e4]]], requires_grad=True)
    loss = logistic_loss(vectors, torch.tensor([[[1e4]]]), torch.tensor([[[-1.0], [1.0]]]))
    assert loss.item() == pytest.approx(2e8)
    assert torch.autograd.grad(loss, vectors)[0].flatten().tolist() == [1e4, -1e4]


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_part_of_the_gradient_of_the_same_values(share: float) -> None:
    values = torch.tensor([0.1, -3.3, 1e-9], dtype=torch.float32, requires_grad=True)
    passed = partly_detached(values, share)
    assert passed.detach().numpy().tobytes() == values.detach().numpy().tobytes()
    assert passed.requires_grad == (share > 0)
    if share:
        (gradient,) = torch.autograd.grad((passed * torch.tensor([1.0, 2.0, 5.0])).sum(), values)
        assert gradient.tolist() == pytest.approx([share, 2 * share, 5 * share], rel=1e-6)
