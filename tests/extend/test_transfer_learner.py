"""The equations of transfer against loops, and what learns: masks and new items, nothing else (reading 15)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.extend.later_behavior import NEW, RandomBase, Whole

from mcne.embeddings import ConditionalEmbeddings
from mcne.embeddings.trunk import MessageKind
from mcne.extend.checks import TransferConfig
from mcne.extend.learner import Transfer
from mcne.extend.transfer import aligned
from mcne.models.contract import Learner, TrainingData
from mcne.models.neighborhoods import Batch

CPU = torch.device("cpu")


def made(base: ConditionalEmbeddings, whole: Whole, items: Any = None, **settings: Any) -> Transfer:
    config = TransferConfig(**{"neighbor_samples": (3, 2), "batch_size": 16, "negatives": 2, **settings})
    data = TrainingData.of(*aligned(base, *whole, behavior=NEW))
    assert base.trunk is not None
    return Transfer(base, base.trunk, data, config, items=items, seed=4, device=CPU)


def masks_of(learner: Transfer) -> list[np.ndarray]:
    return [(real.detach().numpy()[0] >= 0).astype(float) for real in learner.learned_masks().values()]


def naive_levels(base: ConditionalEmbeddings, masks: list[np.ndarray]) -> list[np.ndarray]:
    """Eq. 6 user by user and neighbor by neighbor, with the message ``u_j ⊙ m``."""
    trunk, graph = base.trunk, base.graph
    assert trunk is not None
    assert trunk.combine is not None
    levels = [trunk.levels[0].astype(float)]
    for k, weights in enumerate(trunk.combine):
        rows = []
        for user in range(base.n_users):
            heard = np.zeros(len(masks[k]))
            for neighbor in graph.neighbors(user).tolist():
                sender = user if trunk.message == "literal" else neighbor
                heard += graph.share(neighbor, user, weighted=trunk.weighted) * levels[k][sender] * masks[k]
            received = weights.astype(float) @ np.concatenate([heard, levels[k][user]])
            is_active = trunk.last_activation or k < len(trunk.combine) - 1
            rows.append(np.maximum(received, 0) if is_active else received)
        levels.append(np.array(rows))
    return levels


@pytest.mark.parametrize(
    ("message", "weighted", "last_activation"),
    [("neighbor", False, True), ("neighbor", True, False), ("literal", False, True)],
)
def test_every_user_hears_neighbors_under_the_new_mask(
    message: MessageKind, weighted: bool, last_activation: bool, random_base: RandomBase, whole: Whole
) -> None:
    base = random_base(message, weighted=weighted, last_activation=last_activation)
    learner = made(base, whole)
    expected = naive_levels(base, masks_of(learner))
    for computed, level in zip(learner.levels(), expected, strict=True):
        np.testing.assert_allclose(computed.numpy(), level, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("message", ["neighbor", "literal"])
def test_the_loss_of_a_step(message: MessageKind, random_base: RandomBase, whole: Whole) -> None:
    base = random_base(message, weighted=False, last_activation=True)
    learner = made(base, whole, l2=0.1)
    batch = learner.prepare(0, 0)
    assert isinstance(batch, Batch)
    trunk = base.trunk
    masks = masks_of(learner)
    assert trunk is not None
    assert trunk.combine is not None
    vectors = trunk.levels[0][batch.users.numpy()].astype(float)
    for k, (hop, weights) in enumerate(zip(batch.hops, trunk.combine, strict=True)):
        rows = []
        for receiver, senders, heard in zip(
            hop.receiver.tolist(), hop.sender.tolist(), hop.has_neighbors.tolist(), strict=True
        ):
            sent = [vectors[receiver if message == "literal" else sender] * masks[k] for sender in senders]
            message_heard = sum(sent) / len(sent) if heard else np.zeros(len(masks[k]))
            rows.append(np.maximum(weights @ np.concatenate([message_heard, vectors[receiver]]), 0))
        vectors = np.array(rows)
    users, items = vectors * masks[-1], learner.learned()["items.0"].numpy().astype(float)
    (triples,) = batch.triples  # type: ignore[misc] # on a CPU one for each behavior
    losses, squares = [], []
    for user, positive, negatives in zip(
        triples.user.tolist(), triples.positive.tolist(), triples.negative.tolist(), strict=True
    ):
        liked, others = items[triples.items[positive]], [items[triples.items[negative]] for negative in negatives]
        losses += [np.log1p(np.exp(users[user] @ (other - liked))) for other in others]
        squares.append(users[user] @ users[user] + liked @ liked + np.mean([other @ other for other in others]))
    loss = learner.loss(batch)
    assert float(loss.per_behavior) == pytest.approx(np.mean(losses), rel=1e-4)
    assert loss.total.item() == pytest.approx(np.mean(losses) + 0.1 * np.mean(squares), rel=1e-4)


def test_gradients_reach_masks_and_scored_items_and_nothing_else(base: ConditionalEmbeddings, whole: Whole) -> None:
    learner = made(base, whole)
    trunk = base.trunk
    assert trunk is not None
    before = [array.tobytes() for array in trunk.arrays().values()]
    learner.update(learner.loss(learner.prepare(0, 0)))
    assert all(real.grad is not None and real.grad.abs().sum() > 0 for real in learner.learned_masks().values())
    frozen = [layer.combine for layer in learner.network.message_layers()]
    assert all(not weights.requires_grad and weights.grad is None for weights in (*frozen, learner.users))
    assert [array.tobytes() for array in trunk.arrays().values()] == before
    for weights, kept in zip(frozen, trunk.combine or (), strict=True):
        assert weights.detach().numpy().tobytes() == kept.tobytes()
    assert learner.users.numpy().tobytes() == trunk.levels[0].tobytes()


def test_the_gradient_of_a_mask_is_that_of_its_binary_value(random_base: RandomBase, whole: Whole) -> None:
    learner = made(random_base("neighbor", weighted=False, last_activation=False), whole, l2=0.01)
    batch = learner.prepare(0, 0)
    torch.autograd.backward(learner.loss(batch).total)
    last = learner.learned_masks()["masks.2"]
    assert last.grad is not None
    binary = (last.detach() >= 0).float()
    step = 1e-2
    for at in range(3):
        totals = []
        for sign in (1, -1):
            moved = binary.clone()
            moved[0, at] += sign * step
            learner.network.masks[-1] = _Constant(moved)
            totals.append(learner.loss(batch).total.item())
        assert (totals[0] - totals[1]) / (2 * step) == pytest.approx(float(last.grad[0, at]), rel=0.05, abs=1e-4)


class _Constant(torch.nn.Module):
    def __init__(self, value: torch.Tensor) -> None:
        super().__init__()
        self.value = value

    def forward(self) -> torch.Tensor:
        return self.value


@pytest.mark.parametrize(
    ("control", "masks", "items"),
    [
        ("none", 8 + 6 + 5, True),
        ("masks-only", 8 + 6 + 5, False),
        ("random-masks", 0, True),
        ("open-masks", 0, True),
        ("whole-vector", 0, True),
    ],
)
def test_what_learns(control: str, masks: int, items: bool, base: ConditionalEmbeddings, whole: Whole) -> None:
    n_items = whole[0].behavior(NEW).n_items
    given = np.ones((n_items, base.width), dtype=np.float32) if control == "masks-only" else None
    learner = made(base, whole, given, control=control)
    assert isinstance(learner, Learner)
    learned = {name: value.detach().clone() for name, value in learner.learned().items()}
    assert sum(value.numel() for value in learned.values()) == masks + items * n_items * base.width
    for step in range(learner.n_steps):
        learner.update(learner.loss(learner.prepare(0, step)))
    moments = [value for name, value in learner.memory().items() if name.startswith("first") or "exp_avg" in name]
    assert sum(value.numel() for value in moments if value.dim()) >= masks + items * n_items * base.width
    assert all(not torch.equal(value, learned[name]) for name, value in learner.learned().items())


def test_what_is_kept_holds_no_step_alive(base: ConditionalEmbeddings, whole: Whole) -> None:
    """A copy of what requires a gradient is a part of a graph, and that keeps later steps from being captured."""
    learner = made(base, whole)
    learner.update(learner.loss(learner.prepare(0, 0)))
    assert not any(tensor.requires_grad for tensor in (learner.learned() | learner.memory()).values())


def test_random_masks_are_those_that_learning_starts_from(base: ConditionalEmbeddings, whole: Whole) -> None:
    fixed, learning = made(base, whole, control="random-masks"), made(base, whole)
    for ours, theirs in zip(fixed.network.binary_masks(), learning.network.binary_masks(), strict=True):
        assert torch.equal(ours, theirs)
        assert 0 < ours.mean() < 1
    assert made(base, whole, control="open-masks").vitals()["mask_density_0"] == 1


def test_the_whole_vector_is_the_output_of_the_trained_network(base: ConditionalEmbeddings, whole: Whole) -> None:
    learner = made(base, whole, control="whole-vector")
    (level,) = learner.levels()
    assert level.numpy().tobytes() == base.vectors.tobytes()
