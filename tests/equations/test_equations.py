"""Every equation of the paper: hand values, the naive model, and gradients by finite differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from math import log
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from scipy import stats
from tests.equations import naive
from tests.values import instances_of, not_none
from torch import Tensor
from torch.autograd import gradcheck
from torch.func import functional_call

from mcne.data.graph import Graph, undirected
from mcne.embeddings.trunk import MessageKind
from mcne.kernels.edges import TensorHop
from mcne.kernels.triples import bpr_loss, parameter_l2, scored_l2
from mcne.models import inference, tables
from mcne.models.bpr import BPR, BPRBatch, BPRConfig
from mcne.models.contract import TrainingData
from mcne.models.inference import Links, LinksTo
from mcne.models.mcne import (
    BinaryMask,
    ConditionalNetwork,
    MessageLayer,
    mean_message,
)
from mcne.models.mcne import (
    attention as attend,
)
from mcne.models.mcne_variants import disjoint_mask
from mcne.models.ranking import Triples
from mcne.models.tables import normal_table, to_device, to_numpy
from mcne.randomness import Stream

pytestmark = pytest.mark.usefixtures("double_precision")

KINDS: tuple[MessageKind, ...] = ("neighbor", "literal")
VARIANTS = {"mcne": (True, True), "mcne-a": (False, True), "mcne-f": (False, False)}  # attention, learned masks


def normal(seed: int, *shape: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def close(ours: Tensor | Sequence[Any], expected: Tensor | Sequence[Any]) -> None:
    torch.testing.assert_close(torch.as_tensor(ours), torch.as_tensor(expected), rtol=1e-11, atol=1e-12)


# --- Eq. 1–2: masks ---


def masks_of(network: ConditionalNetwork) -> list[BinaryMask]:
    return instances_of(BinaryMask, network.masks)


def mask_of(values: Sequence[Sequence[float]]) -> BinaryMask:
    mask = BinaryMask(len(values), len(values[0]), stream=Stream(0, "x"))
    with torch.no_grad():
        mask.real.copy_(torch.tensor(values))
    return mask


def test_threshold_by_hand() -> None:
    values = [[-0.2, 0.0, 0.3, -1e-300], [-0.0, 1e-300, -1.0, 1.0]]
    expected = [[0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 1.0]]  # 0 is on, also when it is negative
    assert mask_of(values)().tolist() == expected
    assert naive.binary_mask(torch.tensor(values)).tolist() == expected


def test_threshold_passes_the_gradient_of_the_binary_value_unchanged() -> None:
    values = [[-0.2, 0.0, 0.3, -1.0], [-3.0, 2.0, -1e-9, 1.0]]  # also beyond [−1, 1]
    mask = mask_of(values)
    upstream = normal(0, 2, 4)
    torch.autograd.backward((mask() * upstream).sum())
    assert torch.equal(not_none(mask.real.grad), upstream)
    real = torch.tensor(values, requires_grad=True)
    torch.autograd.backward((naive.binary_mask(real) * upstream).sum())
    assert torch.equal(not_none(real.grad), upstream)


def test_conditional_vectors_are_those_that_the_paper_prints() -> None:
    u = torch.tensor([0.1, 0.9, -0.5, 1.0])
    for mask, printed in [
        ([1, 0, 0, 1], [0.1, 0, 0, 1]),
        ([0, 1, 1, 0], [0, 0.9, -0.5, 0]),
        ([0, 1, 1, 1], [0, 0.9, -0.5, 1]),
    ]:
        assert naive.conditional(u, torch.tensor(mask)).tolist() == printed
        # the factored form never makes them: with a single behavior the message is the conditional vector itself
        weights, messages = torch.ones(1, 1, 1), u[None, None]
        assert mean_message(weights, messages, torch.tensor([mask])).tolist() == [printed]


def test_masks_start_uniform_between_minus_and_plus_one_half() -> None:
    real = BinaryMask(40, 500, stream=Stream(1, "masks")).real.detach()
    assert -0.5 <= real.min() < -0.4999
    assert 0.4999 < real.max() < 0.5
    assert stats.kstest(real.flatten().numpy() + 0.5, "uniform").pvalue > 1e-3
    assert torch.equal(real, BinaryMask(40, 500, stream=Stream(1, "masks")).real)
    assert not torch.equal(real, BinaryMask(40, 500, stream=Stream(2, "masks")).real)


@pytest.mark.parametrize(
    ("rows", "width", "boundaries"),
    [
        (4, 8, [0, 2, 4, 6, 8]),
        (4, 10, [0, 2, 5, 7, 10]),  # ⌊10/4⌋ = 2, ⌊20/4⌋ = 5, ⌊30/4⌋ = 7
        (3, 100, [0, 33, 66, 100]),
        (4, 3, [0, 0, 1, 2, 3]),  # fewer dimensions than behaviors: the first has none
        (1, 5, [0, 5]),
        (2, 0, [0, 0, 0]),
    ],
)
def test_fixed_masks_are_disjoint_blocks(rows: int, width: int, boundaries: list[int]) -> None:
    expected = [[float(boundaries[c] <= j < boundaries[c + 1]) for j in range(width)] for c in range(rows)]
    assert naive.fixed_mask(rows, width).tolist() == expected
    mask = disjoint_mask(rows, width)
    assert mask().tolist() == expected
    assert mask().sum(dim=0).tolist() == [1.0] * width  # every dimension belongs to one behavior
    assert list(mask.parameters()) == []
    assert "binary" in mask.state_dict()


# --- Eq. 3–6 by hand ---
#
# Two behaviors, m_1 = [1, 0] and m_2 = [0, 1]; u_0 = [1, 2], u_1 = [3, −1], u_2 = [2, −1], u_3 alone = [−1, 1].
# W_a [s, r] = [s_0 − 2 r_0, s_1 + r_1], h = [ln 3, ln 2].
#
#   1 → 0: c=1 [3 − 2, 0] scores ln 3;     c=2 [0, −1 + 2] scores ln 2;   a = [3/5, 2/5]; message [9/5, −2/5]
#   2 → 0: c=1 [2 − 2, 0] scores 0;        c=2 [0, −1 + 2] scores ln 2;   a = [1/3, 2/3]; message [2/3, −2/3]
#   0 → 1: c=1 [1 − 6 → 0, 0] scores 0;    c=2 [0, 2 − 1] scores ln 2;    a = [1/3, 2/3]; message [1/3, 4/3]
#   mean of what 0 hears from 1 and 2: [37/30, −8/15]
#
# Taken literally, 0 hears itself on its link to 1, and the attention reads [u_0, u_1]: the line 0 → 1 above.
# On its link to 2: c=1 [1 − 4 → 0, 0] scores 0; c=2 [0, 2 − 1] scores ln 2: the same weights and message [1/3, 4/3].
#
# W [x_0, x_1, u_0, u_1] = [x_0 + x_1 + u_0 + u_1, 5 x_1, u_0].

MASKS = [[1.0, 0.0], [0.0, 1.0]]
VECTORS = [[1.0, 2.0], [3.0, -1.0], [2.0, -1.0], [-1.0, 1.0]]
COMBINE = [[1.0, 1.0, 1.0, 1.0], [0.0, 5.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
PROJECT = [[1.0, 0.0, -2.0, 0.0], [0.0, 1.0, 0.0, 1.0]]
SCORE = [log(3), log(2)]
NEIGHBORS = [[1, 2], [0], [0], []]


def hand_network(*, attention: bool = True, message: MessageKind = "neighbor", last_activation: bool = False) -> Any:
    network = make_network(
        rows=2,
        widths=(2, 3),
        attention_width=2,
        attention=attention,
        message=message,
        last_activation=last_activation,
    )
    with torch.no_grad():
        masks_of(network)[0].real.copy_(torch.tensor(MASKS) - 0.5)
        layer = network.message_layers()[0]
        layer.combine.copy_(torch.tensor(COMBINE))
        if attention:
            not_none(layer.project).copy_(torch.tensor(PROJECT))
            not_none(layer.score).copy_(torch.tensor(SCORE))
    return network


def few_links(links: Links) -> LinksTo:
    """Links in double precision."""

    def links_to(start: int, stop: int) -> Links:
        first = links.first[start : stop + 1]
        own = slice(int(first[0]), int(first[-1]))
        return Links(first - own.start, links.sender[own], links.share[own])

    return links_to


def infer(network: ConditionalNetwork, vectors: Tensor, neighbors: Sequence[Sequence[int]]) -> list[Tensor]:
    first = torch.tensor([0, *accumulate(len(heard) for heard in neighbors)])
    sender = torch.tensor([j for heard in neighbors for j in heard], dtype=torch.int64)
    share = torch.tensor([1 / len(heard) for heard in neighbors for _ in heard], dtype=vectors.dtype)
    return inference.infer(network, vectors, few_links(Links(first, sender, share)))


def test_attention_by_hand() -> None:
    first, second = torch.tensor(VECTORS[1]), torch.tensor(VECTORS[0])
    model = naive.model_of(hand_network())
    close(torch.stack(model.attention(0, first, second)), [3 / 5, 2 / 5])
    close(torch.stack(model.attention(0, second, first)), [1 / 3, 2 / 3])
    project = torch.tensor(PROJECT)
    sent, received = (
        (u * torch.tensor(MASKS)) @ half.T for u, half in zip((first, second), project.chunk(2, 1), strict=True)
    )
    close(attend(sent, received, torch.tensor(SCORE)), [3 / 5, 2 / 5])


def test_message_by_hand() -> None:
    model = naive.model_of(hand_network())
    users = [torch.tensor(u) for u in VECTORS]
    close(model.send(0, users[1], users[0]), [9 / 5, -2 / 5])
    close(model.send(0, users[2], users[0]), [2 / 3, -2 / 3])
    weights, messages = torch.tensor([[[3 / 5, 2 / 5], [1 / 3, 2 / 3]]]), torch.tensor([VECTORS[1:3]])
    close(mean_message(weights, messages, torch.tensor(MASKS)), [[37 / 30, -8 / 15]])


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        # 0: [37/30 − 16/30 + 3, −8/3, 1]; 1 hears [1/3, 4/3]: [5/3 + 2, 20/3, 3];
        # 2 hears 0 by c=1 [1 − 4 → 0], c=2 [2 − 1]: [1/3, 4/3] as well: [5/3 + 1, 20/3, 2]; 3 hears nothing: [0, 0, −1]
        ({}, [[37 / 10, -8 / 3, 1], [11 / 3, 20 / 3, 3], [8 / 3, 20 / 3, 2], [0, 0, -1]]),
        ({"last_activation": True}, [[37 / 10, 0, 1], [11 / 3, 20 / 3, 3], [8 / 3, 20 / 3, 2], [0, 0, 0]]),
        # weights 1/2: 0 hears the mean of [3, −1]/2 and [2, −1]/2, [5/4, −1/2]; 1 and 2 hear [1/2, 1]
        ({"attention": False}, [[15 / 4, -5 / 2, 1], [7 / 2, 5, 3], [5 / 2, 5, 2], [0, 0, -1]]),
        # literal: 0 hears [1/3, 4/3]. 1 on its link to 0 reads the line 1 → 0: [9/5, −2/5]; 2: [2/3, −2/3]
        ({"message": "literal"}, [[14 / 3, 20 / 3, 1], [17 / 5, -2, 3], [1, -10 / 3, 2], [0, 0, -1]]),
        # literal, weights 1/2: everyone with neighbors hears its own half
        (
            {"message": "literal", "attention": False},
            [[9 / 2, 5, 1], [3, -5 / 2, 3], [3 / 2, -5 / 2, 2], [0, 0, -1]],
        ),
    ],
)
def test_receiving_by_hand(settings: dict[str, Any], expected: list[list[float]]) -> None:
    network = hand_network(**settings)
    vectors = torch.tensor(VECTORS)
    close(infer(network, vectors, NEIGHBORS)[1], expected)
    close(torch.stack(naive.model_of(network).levels(list(vectors), [naive.everyone(NEIGHBORS)])[1]), expected)
    hop = TensorHop(torch.tensor([3, 1, 0]), torch.tensor([[2, 0], [0, 0], [1, 2]]), torch.tensor([False, True, True]))
    close(network(vectors, [hop]), [expected[3], expected[1], expected[0]])


# --- factored = naive ---


def make_network(
    rows: int,
    widths: tuple[int, ...],
    *,
    attention_width: int = 3,
    attention: bool = True,
    learned_masks: bool = True,
    message: MessageKind = "neighbor",
    last_activation: bool = True,
    seed: int = 0,
) -> ConditionalNetwork:
    """A network whose weights are large enough for every part to matter."""
    stream = Stream(seed, "network")
    network = ConditionalNetwork(
        rows,
        widths,
        attention_width=attention_width if attention else 0,
        masks=partial(BinaryMask, stream=stream) if learned_masks else disjoint_mask,
        message=message,
        last_activation=last_activation,
        stream=stream,
    )
    with torch.no_grad():
        for layer in network.message_layers():
            for weight in layer.parameters():
                weight.mul_(80)  # from 0.01 to 0.8
    return network


def random_hops(seed: int, counts: Sequence[int], samples: Sequence[int]) -> list[TensorHop]:
    """Hops through levels of ``counts`` users; neighbors repeat, every third receiver has none."""
    random = np.random.default_rng(seed)
    hops = []
    for below, above, sample in zip(counts[:-1], counts[1:], samples, strict=True):
        receiver = np.sort(random.permutation(below)[:above])
        sender, heard = random.integers(0, below, (above, sample)), np.ones(above, dtype=bool)
        heard[random.permutation(above)[: above // 3]] = False
        hops.append(TensorHop(torch.from_numpy(receiver), torch.from_numpy(sender), torch.from_numpy(heard)))
    return hops


def assert_equal_with_gradients(ours: Tensor, expected: Tensor, leaves: Sequence[Tensor], *, seed: int = 9) -> None:
    """Equal values, and equal gradients of a random linear function of them, for every leaf."""
    close(ours, expected)
    upstream = normal(seed, *ours.shape)
    gradients = [torch.autograd.grad((x * upstream).sum(), leaves, materialize_grads=True) for x in (ours, expected)]
    for mine, naives in zip(*gradients, strict=True):
        close(mine, naives)


class Shape(NamedTuple):
    """The sizes of a network, and of the levels that a step goes through."""

    rows: int
    widths: tuple[int, ...]
    counts: tuple[int, ...]
    samples: tuple[int, ...]


SHAPES = {
    "two layers": Shape(rows=4, widths=(7, 5, 6), counts=(12, 6, 4), samples=(3, 4)),
    "one neighbor": Shape(rows=3, widths=(4, 3), counts=(6, 5), samples=(1,)),
    "one behavior": Shape(rows=2, widths=(5, 2, 3), counts=(8, 5, 3), samples=(2, 3)),
    "three layers": Shape(rows=3, widths=(3, 6, 4, 2), counts=(9, 7, 4, 2), samples=(2, 1, 3)),
    "more neighbors than users": Shape(rows=2, widths=(3, 4), counts=(2, 2), samples=(9,)),
    "narrow": Shape(rows=4, widths=(1, 2, 1), counts=(5, 4, 3), samples=(2, 2)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("message", KINDS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_factored_network_is_the_naive_one(shape: str, message: MessageKind, variant: str) -> None:
    settings = SHAPES[shape]
    attention, learned_masks = VARIANTS[variant]
    for seed in range(2):
        network = make_network(
            settings.rows,
            settings.widths,
            attention=attention,
            learned_masks=learned_masks,
            message=message,
            last_activation=bool(seed),
            seed=seed,
        )
        vectors = normal(seed, settings.counts[0], settings.widths[0]).requires_grad_()
        hops = random_hops(seed, settings.counts, settings.samples)
        expected = naive.model_of(network).levels(list(vectors), list(map(naive.hearings, hops)))[-1]
        leaves = [vectors, *network.parameters()]
        n_layers = len(settings.widths) - 1
        assert len(leaves) == 1 + learned_masks * (n_layers + 1) + n_layers * (3 if attention else 1)
        assert_equal_with_gradients(network(vectors, hops), torch.stack(expected), leaves)


def test_the_comparison_above_is_about_something() -> None:
    """Outputs are neither all zero nor all alike, and every parameter but the last masks moves them."""
    settings = SHAPES["two layers"]
    network = make_network(settings.rows, settings.widths)
    vectors = normal(0, settings.counts[0], settings.widths[0]).requires_grad_()
    out = network(vectors, random_hops(0, settings.counts, settings.samples))
    assert (out > 0.1).float().mean() > 0.2
    moving = [vectors, *(p for name, p in network.named_parameters() if name != "masks.2.real")]
    gradients = torch.autograd.grad(out.square().sum(), moving)
    assert len(gradients) == 1 + 2 + 6
    assert all(gradient.abs().max() > 1e-3 for gradient in gradients)


def test_isolated_users_are_their_own_vectors_alone() -> None:
    """Whatever stands where their neighbors would: no value, no gradient."""
    network = make_network(3, (4, 3))
    vectors = normal(1, 5, 4).requires_grad_()
    hop = TensorHop(torch.tensor([0, 2]), torch.tensor([[1, 3], [4, 4]]), torch.tensor([False, False]))
    out = network(vectors, [hop])
    W = network.message_layers()[0].combine
    close(out, torch.relu(vectors[[0, 2]] @ W[:, 4:].T))
    gradient = torch.autograd.grad(out.sum(), vectors)[0]
    assert gradient[[1, 3, 4]].abs().max() == 0
    assert gradient[[0, 2]].abs().max() > 0


def test_nobody_receives() -> None:
    network = make_network(3, (4, 3))
    vectors = normal(1, 5, 4).requires_grad_()
    hop = TensorHop(torch.zeros(0, dtype=torch.int64), torch.zeros(0, 2, dtype=torch.int64), torch.zeros(0) > 0)
    out = network(vectors, [hop])
    assert out.shape == (0, 3)
    out.sum().backward()
    assert vectors.grad is not None
    assert vectors.grad.abs().max() == 0


# --- all neighbors ---


def random_graph(seed: int, n_users: int, n_links: int) -> Graph:
    """Random links among all users but the last two, who have none; user 0 is linked to itself."""
    random = np.random.default_rng(seed)
    source, target = random.integers(0, n_users - 2, (2, n_links))
    return undirected(n_users, np.append(source, 0), np.append(target, 0))[0]


def neighbor_lists(graph: Graph) -> list[list[int]]:
    return [graph.neighbors(user).tolist() for user in range(graph.n_users)]


@pytest.mark.parametrize("edges_at_once", [1, 3, 10_000])
@pytest.mark.parametrize("message", KINDS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_inference_is_the_naive_model_over_all_neighbors(
    message: MessageKind, variant: str, edges_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcne.models.inference.LINKS_AT_ONCE", edges_at_once)
    monkeypatch.setattr("mcne.models.inference.USERS_AT_ONCE", edges_at_once)
    attention, learned_masks = VARIANTS[variant]
    network = make_network(3, (5, 4, 6), attention=attention, learned_masks=learned_masks, message=message)
    neighbors = neighbor_lists(random_graph(0, 12, 12))
    vectors = normal(2, 12, 5)
    assert {len(heard) for heard in neighbors} >= {0, 1, 2, 3}
    expected = naive.model_of(network).levels(list(vectors), [naive.everyone(neighbors)] * 2)
    levels = infer(network, vectors, neighbors)
    assert len(levels) == 3
    for ours, naives in zip(levels, expected, strict=True):
        close(ours, torch.stack(naives).detach())
        assert not ours.requires_grad


@pytest.mark.parametrize("message", KINDS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_sample_that_holds_every_neighbor_equally_often_is_inference(message: MessageKind, variant: str) -> None:
    attention, learned_masks = VARIANTS[variant]
    network = make_network(4, (5, 4, 3), attention=attention, learned_masks=learned_masks, message=message)
    neighbors = neighbor_lists(random_graph(3, 9, 10))
    vectors = normal(5, 9, 5)
    size = math.lcm(*(len(heard) for heard in neighbors if heard))
    sender = torch.tensor([heard * (size // len(heard)) if heard else [0] * size for heard in neighbors])
    hop = TensorHop(torch.arange(9), sender, torch.tensor([len(heard) > 0 for heard in neighbors]))
    close(network(vectors, [hop, hop]).detach(), infer(network, vectors, neighbors)[-1])


def test_inference_without_any_link() -> None:
    network = make_network(3, (4, 3))
    vectors = normal(1, 5, 4)
    close(infer(network, vectors, [[]] * 5)[1], torch.relu(vectors @ network.message_layers()[0].combine[:, 4:].T))


# --- variants and options ---


def test_without_attention_all_behaviors_weigh_the_same() -> None:
    """Reading 13: MCNE-A is MCNE whose attention scores are all equal; it has no attention parameters."""
    with_attention, without = make_network(4, (6, 5, 3)), make_network(4, (6, 5, 3), attention=False, seed=1)
    for layer, other in zip(with_attention.message_layers(), without.message_layers(), strict=True):
        assert [name for name, _ in other.named_parameters()] == ["combine"]
        with torch.no_grad():
            not_none(layer.score).zero_()
            other.combine.copy_(layer.combine)
    for mask, other_mask in zip(masks_of(with_attention), masks_of(without), strict=True):
        with torch.no_grad():
            other_mask.real.copy_(mask.real)
    vectors, hops = normal(0, 12, 6), random_hops(0, (12, 6, 4), (3, 4))
    close(with_attention(vectors, hops), without(vectors, hops))


def test_fixed_masks_without_attention_pass_the_mean_on_in_equal_parts() -> None:
    """Reading 14: in disjoint blocks every dimension belongs to one behavior, so a message is 1/B of the vector."""
    network = make_network(4, (6, 5), attention=False, learned_masks=False)
    assert [name for name, _ in network.named_parameters()] == ["layers.0.combine"]
    close(network.binary_masks()[0], naive.fixed_mask(4, 6))
    vectors = normal(0, 7, 6)
    sender = torch.tensor([[1, 2, 2], [6, 0, 5]])
    out = network(vectors, [TensorHop(torch.tensor([0, 3]), sender, torch.tensor([True, True]))])
    inputs = torch.cat([vectors[sender].mean(dim=1) / 4, vectors[[0, 3]]], dim=1)
    close(out, torch.relu(inputs @ network.message_layers()[0].combine.T))


def test_fixed_masks_without_attention_are_graphsage_with_the_mean_in_value_and_gradient() -> None:
    """Two layers, and users whom nobody is heard by: a mean of neighbors beside the own vector, B times smaller."""
    network = make_network(4, (6, 5, 3), attention=False, learned_masks=False)
    hops, initial = random_hops(0, (12, 6, 4), (3, 4)), normal(0, 12, 6).requires_grad_()
    combines = [layer.combine for layer in network.message_layers()]
    plain = initial
    for hop, combine in zip(hops, combines, strict=True):
        mean = plain[hop.sender].mean(dim=1) * hop.has_neighbors[:, None] / 4
        plain = torch.relu(torch.cat([mean, plain[hop.receiver]], dim=1) @ combine.T)
    out = network(initial, hops)
    weights = normal(1, *plain.shape)
    close(out, plain)
    assert out.max() > 0
    gradients, wanted = (torch.autograd.grad((each * weights).sum(), [initial, *combines]) for each in (out, plain))
    for mine, theirs in zip(gradients, wanted, strict=True):
        assert theirs.abs().max() > 0
        close(mine, theirs)


def test_the_literal_message_hears_neighbors_in_its_attention_alone() -> None:
    hop = TensorHop(torch.tensor([0, 1]), torch.tensor([[2, 3], [4, 2]]), torch.tensor([True, True]))
    cases: list[tuple[bool, MessageKind, bool]] = [
        (True, "neighbor", True),
        (True, "literal", True),
        (False, "neighbor", True),
        (False, "literal", False),
    ]
    for attention, message, moves in cases:
        network = make_network(3, (4, 5), attention=attention, message=message, last_activation=False)
        vectors = normal(3, 5, 4)
        changed = vectors.clone()
        changed[2:] += 1
        is_changed = not torch.equal(network(vectors, [hop]), network(changed, [hop]))
        assert is_changed == moves
    network = make_network(3, (4, 5), message="literal", last_activation=False)
    with torch.no_grad():
        not_none(network.message_layers()[0].project)[:, 4:] = 0  # the half that reads the neighbor
    assert torch.equal(network(vectors, [hop]), network(changed, [hop]))


def test_only_the_last_activation_can_be_switched_off() -> None:
    vectors, hops = normal(0, 12, 6), random_hops(0, (12, 6, 4), (3, 4))
    on, off = (make_network(3, (6, 5, 3), last_activation=last)(vectors, hops) for last in (True, False))
    assert off.min() < 0
    close(on, torch.relu(off))
    inner, last = infer(make_network(3, (6, 5, 3), last_activation=False), vectors, [[1, 2], [0], [0], *[[]] * 9])[1:]
    assert inner.min() == 0
    assert last.min() < 0


def test_the_row_of_other_behaviors_takes_part_in_messages() -> None:
    network = make_network(3, (6, 5, 4))
    vectors, hops = normal(0, 12, 6), random_hops(0, (12, 6, 4), (3, 4))
    torch.autograd.backward(network(vectors, hops).square().sum())
    for level in (0, 1):
        assert not_none(masks_of(network)[level].real.grad)[-1].abs().max() > 0
    before = network(vectors, hops)
    with torch.no_grad():
        masks_of(network)[1].real[-1] *= -1
    assert not torch.equal(network(vectors, hops), before)


def test_extreme_attention_scores_choose_one_behavior() -> None:
    sent, heard = torch.tensor([[[1e4], [-1e4], [0.0]]]), torch.zeros(1, 3, 1)
    assert attend(sent, heard, torch.tensor([1.0])).tolist() == [[1.0, 0.0, 0.0]]
    assert attend(sent, heard, torch.tensor([-1.0])).tolist() == [[0.0, 0.5, 0.5]]
    sent.requires_grad_()
    torch.autograd.backward(attend(sent, heard, torch.tensor([1e9])).sum())
    assert torch.isfinite(not_none(sent.grad)).all()


# --- gradients by finite differences ---


def leaf(seed: int, *shape: int) -> Tensor:
    return normal(seed, *shape).requires_grad_()


def test_gradients_of_attention() -> None:
    assert gradcheck(attend, (leaf(0, 3, 2, 4, 5), leaf(1, 3, 1, 4, 5), leaf(2, 5)))


def test_gradients_of_aggregation() -> None:
    assert gradcheck(mean_message, (leaf(0, 3, 2, 4), leaf(1, 3, 2, 5), leaf(2, 4, 5)))


@pytest.mark.parametrize("message", KINDS)
@pytest.mark.parametrize("attention", [True, False])
def test_gradients_of_a_message_layer(message: MessageKind, attention: bool) -> None:
    """Masks are leaves here: the layer is smooth in them, only the threshold is not."""
    layer = MessageLayer(4, 3, attention_width=2 if attention else 0, message=message, stream=Stream(0, "x"))
    names = [name for name, _ in layer.named_parameters()]
    hop = random_hops(1, (6, 4), (3,))[0]
    assert not hop.has_neighbors.all()

    def run(vectors: Tensor, masks: Tensor, *weights: Tensor) -> Tensor:
        received: Tensor = functional_call(layer, dict(zip(names, weights, strict=True)), (vectors, masks, hop))
        return received

    weights = [leaf(5 + k, *weight.shape) for k, weight in enumerate(layer.parameters())]
    assert gradcheck(run, (leaf(0, 6, 4), leaf(1, 3, 4), *weights))


def test_gradients_of_the_losses() -> None:
    assert gradcheck(bpr_loss, (leaf(0, 4), leaf(1, 4, 3)))
    assert gradcheck(scored_l2, (leaf(0, 4, 5), leaf(1, 4, 5), leaf(2, 4, 3, 5)))
    assert gradcheck(lambda *parameters: parameter_l2(list(parameters)), (leaf(0, 4, 5), leaf(1, 3), leaf(2)))


def test_gradients_of_the_whole_network() -> None:
    network = make_network(3, (4, 3, 2), last_activation=False)
    hops = random_hops(0, (6, 4, 2), (2, 2))
    weights = {name: p for name, p in network.named_parameters() if not name.startswith("masks")}

    def run(vectors: Tensor, *values: Tensor) -> Tensor:
        last: Tensor = functional_call(network, dict(zip(weights, values, strict=True)), (vectors, hops))
        return last

    assert gradcheck(run, (leaf(0, 6, 4), *(p.detach().clone().requires_grad_() for p in weights.values())))


@pytest.mark.parametrize("message", KINDS)
def test_the_gradient_of_a_real_mask_is_that_of_the_binary_one(message: MessageKind) -> None:
    network = make_network(3, (5, 4, 3), message=message)
    vectors, hops = normal(0, 9, 5), random_hops(0, (9, 5, 3), (2, 3))
    torch.autograd.backward(network(vectors, hops).square().sum())
    binary = tuple(mask.requires_grad_() for mask in network.binary_masks())
    model = replace(naive.model_of(network), masks=binary)
    last = torch.stack(model.levels(list(vectors), list(map(naive.hearings, hops)))[-1])
    gradients = torch.autograd.grad(last.square().sum(), binary[:2])
    for mask, gradient in zip(masks_of(network), gradients, strict=False):
        assert gradient.abs().max() > 0
        close(not_none(mask.real.grad), gradient)


# --- Eq. 7–8: losses ---


def test_bpr_loss_by_hand() -> None:
    # u = [1, 2] ⊙ [1, 0]; z_p = [ln 3, 9] scores ln 3; z_n = [0, 7] scores 0, z_n = [2 ln 3, 1] scores 2 ln 3:
    # −ln σ(ln 3) = ln(1 + 1/3) = ln 4/3, −ln σ(−ln 3) = ln 4, their mean ½ ln 16/3
    close(bpr_loss(torch.tensor([log(3)]), torch.tensor([[0.0, 2 * log(3)]])), torch.tensor(log(16 / 3) / 2))
    items = torch.tensor([[log(3), 9.0], [0.0, 7.0], [2 * log(3), 1.0]])
    user = naive.conditional(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0]))
    close(naive.ranking_loss([user], items, [(0, 0, 1), (0, 0, 2)]), torch.tensor(log(16 / 3) / 2))
    close(bpr_loss(torch.zeros(2), torch.zeros(2, 5)), torch.tensor(log(2)))
    # two triples of unequal loss weigh the same: ½ (ln 4/3 + ln 2)
    close(bpr_loss(torch.tensor([log(3), 0.0]), torch.zeros(2, 1)), torch.tensor((log(4 / 3) + log(2)) / 2))


def test_bpr_loss_falls_when_the_positive_rises() -> None:
    positive, negative = torch.zeros(2, requires_grad=True), torch.zeros(2, 3, requires_grad=True)
    torch.autograd.backward(bpr_loss(positive, negative))
    # d/ds softplus(n − p) at 0 is σ(0) = 1/2, of 6 triples each 1/12; a positive is in 3 of them
    close(not_none(positive.grad), [-0.25, -0.25])
    close(not_none(negative.grad), [[1 / 12] * 3] * 2)
    assert bpr_loss(torch.tensor([1.0]), torch.zeros(1, 1)) < bpr_loss(torch.tensor([0.0]), torch.zeros(1, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bpr_loss_of_extreme_scores(dtype: torch.dtype) -> None:
    high = torch.tensor([1e4], dtype=dtype, requires_grad=True)
    low = torch.tensor([[-1e4]], dtype=dtype, requires_grad=True)
    assert bpr_loss(high, low).item() == 0
    wrong = bpr_loss(low[0], high[None])
    assert wrong.item() == 2e4  # ln(1 + e^x) is x
    torch.autograd.backward(wrong)
    assert not_none(high.grad).item() == 1
    assert not_none(low.grad).item() == -1


def test_scored_l2_by_hand() -> None:
    user, positive = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[3.0, 0.0], [1.0, 1.0]])
    negative = torch.tensor([[[1.0, 1.0], [2.0, 0.0]], [[0.0, 0.0], [0.0, 4.0]]])
    # 1 + 9 + (2 + 4)/2 = 13 and 4 + 2 + (0 + 16)/2 = 14
    assert scored_l2(user, positive, negative).item() == 13.5
    items = torch.cat([positive, negative.flatten(0, 1)])
    assert naive.scored_l2(list(user), items, [(0, 0, 2), (0, 0, 3), (1, 1, 4), (1, 1, 5)]).item() == 13.5


def test_scored_l2_is_averaged_like_the_loss() -> None:
    user, positive, negative = leaf(0, 4, 3), leaf(1, 4, 3), leaf(2, 4, 5, 3)
    items = torch.cat([positive, negative.flatten(0, 1)])
    triples = [(b, b, 4 + 5 * b + n) for b in range(4) for n in range(5)]
    expected = naive.scored_l2(list(user), items, triples)
    assert_equal_with_gradients(scored_l2(user, positive, negative), expected, [user, positive, negative])
    scores = [(user * positive).sum(-1), torch.einsum("bd,bnd->bn", user, negative)]
    expected = naive.ranking_loss(list(user), items, triples)
    assert_equal_with_gradients(bpr_loss(*scores), expected, [user, positive, negative])


def test_parameter_l2_by_hand() -> None:
    assert parameter_l2([torch.tensor([[1.0, -2.0]]), torch.tensor([3.0]), torch.zeros(0, 4)]).item() == 14


def test_losses_of_no_triples_are_zero() -> None:
    """A behavior without training pairs has nothing to say, and must not silence the others."""
    users, items = torch.zeros(0, 4, requires_grad=True), torch.zeros(0, 3, 4, requires_grad=True)
    total = bpr_loss(users.sum(-1), items.sum(-1)) + scored_l2(users, users, items)
    assert total.item() == 0
    torch.autograd.backward(total)


def test_multi_task_loss_by_hand() -> None:
    losses = [torch.tensor(1.0), torch.tensor(2.0), torch.tensor(6.0)]
    assert naive.multi_task_loss(losses, torch.tensor(4.0), l2=0.5).item() == 5.0  # 9/3 + 0.5·4


# --- Eq. 7 for the single-vector baseline ---


def bpr(*, bias: bool, l2: float = 0.1) -> BPR:
    """Two behaviors of five and three items; the vectors of eight users are N(0, 0.8)."""
    random = np.random.default_rng(3)
    pairs = []
    for n_items in (5, 3):
        user, item = np.nonzero(random.random((8, n_items)) < 0.4)
        pairs.append((user.astype(np.int32), item.astype(np.int32)))
    data = TrainingData(random_graph(0, 8, 0), ("a", "b"), (5, 3), tuple(pairs))
    config = BPRConfig(width=4, bias=bias, negatives=3, batch_size=6, l2=l2)
    method = BPR(data, config, seed=0, device=torch.device("cpu"))
    for name, table in method.tables.tables.items():
        table.copy_(normal(len(name), *table.shape) * 0.8)
    return method


@pytest.mark.parametrize("bias", [True, False])
def test_the_baseline_ranks_by_inner_product_and_bias(bias: bool) -> None:
    """A bias is one more dimension, in which every user is 1; that 1 is not decayed."""
    method = bpr(bias=bias)
    batch = method.prepare(0, 1)
    assert isinstance(batch.triples, tuple)
    tables = {name: table.clone().requires_grad_() for name, table in method.tables.tables.items()}
    losses, penalties = [], []
    for k in range(2):
        users = [torch.cat([tables["users"][user], torch.ones(1)]) for user in batch.users.tolist()]
        column = tables[f"bias.{k}"] if bias else torch.zeros(len(tables[f"items.{k}"]), 1)
        items = torch.cat([tables[f"items.{k}"], column], dim=1)
        at = batch.triples[k].items.tolist()
        drawn = zip(
            *(getattr(batch.triples[k], name).tolist() for name in ("user", "positive", "negative")), strict=True
        )
        triples = [(i, at[p], at[n]) for i, p, negatives in drawn for n in negatives]
        losses.append(naive.ranking_loss(users, items, triples))
        penalties.append(naive.scored_l2(users, items, triples) - 1)
    expected = naive.multi_task_loss(losses, torch.stack(penalties).mean(), l2=0.1)
    loss = method.loss(batch)
    close(loss.total, expected)
    close(loss.per_behavior, torch.stack(losses).detach())
    torch.autograd.backward(loss.total)
    item_rows = [batch.triples[int(name[-1])].items for name in tables if name != "users"]
    gradients = torch.autograd.grad(expected, list(tables.values()))
    for rows, touched, gradient in zip([batch.users, *item_rows], method.tables.touched(), gradients, strict=True):
        ours = torch.zeros_like(gradient)
        ours[rows] = not_none(touched.grad)
        close(ours, gradient)


def test_the_baseline_by_hand() -> None:
    # u = [1, 2], z_p = [ln 2, 0] with bias ln 3/2 scores ln 3, z_n = 0 scores 0: ln 4/3; squares 5 + ln² 2 + ln² 3/2.
    # The other behavior has only zeros: ln 2, and 5. Without bias the first scores ln 2: ln 3/2 and 5 + ln² 2.
    for bias, first, squares in (
        (True, log(4 / 3), 5 + log(2) ** 2 + log(3 / 2) ** 2),
        (False, log(3 / 2), 5 + log(2) ** 2),
    ):
        method = bpr(bias=bias)
        for table in method.tables.tables.values():
            table.zero_()
        method.tables.tables["users"][6] = torch.tensor([1.0, 2.0, 0.0, 0.0])
        method.tables.tables["items.0"][4, 0] = log(2)
        if bias:
            method.tables.tables["bias.0"][4] = log(3 / 2)
        zero, pair = torch.tensor([0]), torch.tensor([1, 4])
        one = torch.tensor([1])
        triples = (Triples(zero, pair, one, zero[None]), Triples(zero, one, zero, zero[None]))
        batch = BPRBatch(torch.tensor([6]), triples)
        assert method.loss(batch).total.item() == pytest.approx((first + log(2)) / 2 + 0.1 * (squares + 5) / 2)


# --- initialization ---


def test_weights_start_normal_with_the_printed_spread() -> None:
    stream = Stream(4, "network")
    network = ConditionalNetwork(
        3,
        (40, 30, 20),
        attention_width=50,
        masks=partial(BinaryMask, stream=stream),
        message="neighbor",
        last_activation=True,
        stream=stream,
    )
    drawn = [weight.detach().numpy().ravel() for layer in network.layers for weight in layer.parameters()]
    assert [len(weights) for weights in drawn] == [2400, 4000, 50, 1200, 3000, 50]
    for weights in drawn:
        assert stats.kstest(weights / 0.01, "norm").pvalue > 1e-3
    together = np.concatenate(drawn)
    assert together.std() == pytest.approx(0.01, rel=0.02)  # of 10,700 numbers: three standard deviations
    assert len(np.unique(together)) == len(together)  # no two alike: nothing drawn twice
    first, _, last = masks_of(network)
    assert not torch.equal(first.real[:, :20], last.real)


@pytest.mark.parametrize(("at_once", "width"), [(64, 10), (1, 10), (1 << 22, 10), (65, 3)])
def test_tables_start_normal_in_every_piece(at_once: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "NUMBERS_AT_ONCE", at_once)
    table = normal_table(600, width, std=0.01, stream=Stream(2, "table"))
    assert torch.equal(table, normal_table(600, width, std=0.01, stream=Stream(2, "table")))
    values = table.numpy().ravel()
    assert stats.kstest(values / 0.01, "norm").pvalue > 1e-3
    assert values.std() == pytest.approx(0.01, rel=4 / np.sqrt(2 * len(values)))
    assert len(np.unique(values)) == len(values)


def test_tables_without_rows_or_width() -> None:
    assert normal_table(0, 5, std=1.0, stream=Stream(0, "x")).shape == (0, 5)
    assert normal_table(5, 0, std=1.0, stream=Stream(0, "x")).shape == (5, 0)


def test_arrays_there_and_back() -> None:
    array = np.arange(12, dtype=np.int32).reshape(3, 4)[:, ::-2]
    assert np.array_equal(to_numpy(to_device(array, torch.device("cpu"))), array)
