"""The network in NumPy is the network (Eq. 3–6); what is left out is left out as by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from tests.analysis.trunks import random_embeddings, random_graph

from mcne.data.behavior import Behavior
from mcne.data.dataset import SocialDataset
from mcne.data.graph import Graph
from mcne.data.ids import Ids
from mcne.data.split import random_split
from mcne.embeddings import Attention, ConditionalEmbeddings, Trunk
from mcne.embeddings import trunk as trunk_module
from mcne.embeddings.trunk import MessageKind, Without, levels, link_weights, message_lengths
from mcne.models.contract import TrainingData
from mcne.models.mcne import MCNE, MCNEConfig
from mcne.models.mcne import attention as attend
from mcne.models.mcne_variants import MCNEA, MCNEF


def random_trunk(seed: int, message: MessageKind, *, size: float = 1.0) -> Trunk:
    """Five users, three behaviors and the rest, widths 7 → 4 → 3, attention width 6."""
    random = np.random.default_rng(seed)

    def draw(*shape: int) -> np.ndarray:
        return (size * random.normal(size=shape)).astype(np.float32)

    widths = (7, 4, 3)
    return Trunk(
        tuple(draw(5, width) for width in widths[:2]),
        tuple(random.random((4, width)) < 0.5 for width in widths),
        tuple(Attention(draw(6, 2 * width), draw(6)) for width in widths[:2]),
        tuple(np.ones((upper, 2 * lower), np.float32) for lower, upper in pairwise(widths)),
        message,
    )


def test_weights_by_hand(tiny: ConditionalEmbeddings) -> None:
    trunk = tiny.trunk
    assert trunk is not None
    raised = np.exp([1.0, 2.0, 3.0])
    np.testing.assert_allclose(
        trunk.weights(0, np.array([0, 1]), np.array([1, 0])), [raised / raised.sum(), [1 / 3] * 3]
    )
    literal = Trunk(trunk.levels, trunk.masks, trunk.attention, trunk.combine, "literal")
    np.testing.assert_allclose(literal.weights(0, np.array([1]), np.array([0])), [raised / raised.sum()])
    uniform = Trunk(trunk.levels, trunk.masks, None, trunk.combine)
    assert uniform.weights(0, np.array([0, 1]), np.array([1, 0])).tolist() == [[1 / 3] * 3] * 2


@pytest.mark.parametrize("message", ["neighbor", "literal"])
@pytest.mark.parametrize("layer", [0, 1])
def test_weights_are_those_of_the_kernel(message: MessageKind, layer: int) -> None:
    trunk = random_trunk(layer, message)
    sender, receiver = (ends.ravel() for ends in np.mgrid[:5, :5])
    attention, masks = trunk.attention, torch.from_numpy(trunk.masks[layer].astype(np.float32))
    assert attention is not None
    conditional = torch.tensor(trunk.levels[layer])[:, None, :] * masks  # [users, B, d]
    halves = torch.tensor(attention[layer].project).chunk(2, dim=1)
    first, second = (conditional @ half.T for half in halves)  # [users, B, t]
    near, far = (receiver, sender) if message == "literal" else (sender, receiver)
    expected = attend(first[near], second[far], torch.tensor(attention[layer].score))
    np.testing.assert_allclose(trunk.weights(layer, sender, receiver), expected.numpy(), rtol=1e-4, atol=1e-6)


def test_weights_are_those_of_a_loop() -> None:
    trunk = random_trunk(5, "neighbor")
    assert trunk.attention is not None
    project, score = trunk.attention[1].project.tolist(), trunk.attention[1].score.tolist()
    sent, heard = trunk.levels[1][3].tolist(), trunk.levels[1][2].tolist()
    raised = []
    for mask in trunk.masks[1].tolist():
        pair = [u if on else 0.0 for u, on in zip(sent + heard, mask + mask, strict=True)]
        hidden = [max(0.0, sum(w * u for w, u in zip(row, pair, strict=True))) for row in project]
        raised.append(math.exp(sum(h * x for h, x in zip(score, hidden, strict=True))))
    expected = [value / sum(raised) for value in raised]
    np.testing.assert_allclose(trunk.weights(1, np.array([3]), np.array([2]))[0], expected, rtol=1e-6)


def test_extreme_and_empty_input() -> None:
    weights = random_trunk(2, "neighbor", size=1e9).weights(0, np.arange(5), np.arange(5))
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert random_trunk(2, "neighbor").weights(0, np.zeros(0, int), np.zeros(0, int)).shape == (0, 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"masks": slice(0, 2)}, r"needs K\+1 levels of masks"),
        ({"attention": slice(0, 1)}, "attention at K layers or none"),
        ({"attention": slice(0, 0)}, "attention at K layers or none"),
        ({"attention": slice(None, None, -1)}, "attention of layer 0: its projection must take two vectors of level 0"),
        ({"levels": slice(None, None, -1)}, r"vectors of level 0: float32 \[any, 7\] expected, got float32 \[5, 4\]"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes: dict[str, slice], message: str) -> None:
    trunk = random_trunk(0, "neighbor")
    parts: dict[str, Any] = {name: getattr(trunk, name) for name in ("levels", "masks", "attention", "combine")}
    with pytest.raises(ValueError, match=message):
        Trunk(**parts | {name: parts[name][part] for name, part in changes.items()})


def test_masks_and_attention_are_checked() -> None:
    trunk = random_trunk(0, "neighbor")
    with pytest.raises(ValueError, match=r"masks of level 1: bool \[4, any\] expected, got bool \[3, 4\]"):
        Trunk(trunk.levels, (trunk.masks[0], trunk.masks[1][:3], trunk.masks[2]), None, trunk.combine)
    with pytest.raises(ValueError, match=r"attention projection: float32 \[2, any\] expected, got float32 \[3, 4\]"):
        Attention(np.zeros((3, 4), np.float32), np.zeros(2, np.float32))
    with pytest.raises(ValueError, match="attention score: not all values are finite"):
        Attention(np.zeros((1, 4), np.float32), np.array([np.nan], np.float32))


def test_weights_that_make_a_level_must_fit_it() -> None:
    trunk = random_trunk(0, "neighbor")
    with pytest.raises(ValueError, match="weights of layer 1"):
        replace(trunk, combine=(trunk.combine[0], trunk.combine[0]))


VARIANTS: list[dict[str, Any]] = [
    {},
    {"message": "literal"},
    {"weighted": True},
    {"last_activation": False},
    {"attention": False},
    {"attention": False, "message": "literal"},
]


@pytest.mark.parametrize("kind", [MCNE, MCNEA, MCNEF])
@pytest.mark.parametrize(
    "settings", [{}, {"message": "literal"}, {"weighted_neighbors": True}, {"last_activation": False}]
)
def test_levels_are_those_of_the_network(kind: type[MCNE], settings: dict[str, Any]) -> None:
    graph, n_users = random_graph(0), 12
    user = np.arange(n_users, dtype=np.int32)
    behaviors = tuple(Behavior(name, Ids(user), user, user) for name in ("Books", "Music", "Travel"))
    dataset = SocialDataset("small", Ids(user), graph, behaviors)
    config = MCNEConfig(widths=(6, 5, 8), neighbor_samples=(3, 2), attention_width=3, batch_size=6, **settings)
    data = TrainingData.of(dataset, random_split(dataset, seed=0))
    method = kind(data, config, seed=1, device=torch.device("cpu"))
    with torch.no_grad():
        for value in (*method.network.parameters(), *method.tables.tables.values()):
            value.mul_(60)  # drawn so small that attention would be even
    made = method.embeddings(dataset, {"method": "mcne"})
    assert made.trunk is not None
    computed = levels(made.trunk, graph)
    assert [each.dtype for each in computed] == [np.float32] * 3
    assert np.abs(made.vectors).max() > 0.1
    for level, expected in zip(computed, [*made.trunk.levels, made.vectors], strict=True):
        np.testing.assert_allclose(level, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("settings", VARIANTS)
@pytest.mark.parametrize("left_out", ["nothing", "behaviors", "messages", "both"])
def test_levels_are_those_of_a_loop(settings: dict[str, Any], left_out: str) -> None:
    made = random_embeddings(3, **settings)
    assert made.trunk is not None
    random = np.random.default_rng(5)
    shape = (2, made.graph.n_directions)
    behavior = random.integers(-1, 4, shape) if left_out in ("behaviors", "both") else None
    message = random.random(shape) < 0.3 if left_out in ("messages", "both") else None
    if message is not None:
        message[0, made.graph.sources() == 3] = True  # who hears nobody any more
    without = Without(behavior, message)
    computed = levels(made.trunk, made.graph, without=without)
    for level, expected in zip(computed, naive_levels(made.trunk, made.graph, without), strict=True):
        np.testing.assert_allclose(level, expected, rtol=1e-3, atol=1e-4)


def test_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = random_embeddings(4, weighted=True)
    assert made.trunk is not None
    whole = levels(made.trunk, made.graph)[-1], link_weights(made.trunk, made.graph, 1)
    monkeypatch.setattr(trunk_module, "LINKS_AT_ONCE", 3)
    np.testing.assert_allclose(levels(made.trunk, made.graph)[-1], whole[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(link_weights(made.trunk, made.graph, 1), whole[1])


@pytest.mark.parametrize("settings", VARIANTS)
@pytest.mark.parametrize("layer", [0, 1])
def test_weights_and_lengths_of_links(settings: dict[str, Any], layer: int) -> None:
    made = random_embeddings(6, **settings)
    trunk, graph = made.trunk, made.graph
    assert trunk is not None
    weights = trunk.weights(layer, graph.indices, graph.sources())
    np.testing.assert_allclose(link_weights(trunk, graph, layer), weights, rtol=1e-4, atol=1e-6)
    lengths = message_lengths(trunk, graph, layer)
    for link, (receiver, sender) in enumerate(zip(graph.sources(), graph.indices, strict=True)):
        sent = trunk.levels[layer][receiver if trunk.message == "literal" else sender]
        share = graph.share(int(sender), int(receiver), weighted=trunk.weighted)
        expected = np.linalg.norm(sum(w * sent * m for w, m in zip(weights[link], trunk.masks[layer], strict=True)))
        assert lengths[link] == pytest.approx(share * expected, rel=1e-4)


def test_without_a_behavior_that_is_everything_the_others_are_weighed_by_their_scores() -> None:
    made = random_embeddings(7)
    trunk, graph = made.trunk, made.graph
    assert trunk is not None
    assert trunk.attention is not None
    loud = tuple(Attention(each.project, each.score * 1000) for each in trunk.attention)
    sure = replace(trunk, attention=loud)
    assert np.median(link_weights(sure, graph, 0).max(axis=1)) == 1  # in single precision the others are nothing
    most = np.stack([link_weights(sure, graph, layer).argmax(axis=1) for layer in (0, 1)])
    level = levels(sure, graph, without=Without(behavior=most))[1]
    expected = naive_levels(sure, graph, Without(behavior=most))[1]
    np.testing.assert_allclose(level, expected, rtol=1e-3, atol=1e-4)
    assert not np.allclose(level, levels(sure, graph)[1])


def naive_levels(trunk: Trunk, graph: Graph, without: Without) -> list[np.ndarray]:
    """Eq. 3–6 user by user and link by link, in double precision."""
    vectors = [trunk.levels[0].astype(np.float64)]
    for layer, combine in enumerate(trunk.combine):
        below, rows = vectors[-1], []
        for receiver in range(graph.n_users):
            heard, total = np.zeros(below.shape[1]), 0.0
            for link in range(graph.indptr[receiver], graph.indptr[receiver + 1]):
                if without.message is not None and without.message[layer, link]:
                    continue
                sender = int(graph.indices[link])
                share = graph.share(sender, receiver, weighted=trunk.weighted)
                left = -1 if without.behavior is None else int(without.behavior[layer, link])
                heard += share * naive_message(trunk, layer, below[sender], below[receiver], left)
                total += share
            heard = heard / total if total else heard
            received = combine.astype(np.float64) @ np.concatenate([heard, below[receiver]])
            is_active = trunk.last_activation or layer + 1 < trunk.n_layers
            rows.append(np.maximum(received, 0) if is_active else received)
        vectors.append(np.stack(rows))
    return vectors


def naive_message(trunk: Trunk, layer: int, sender: np.ndarray, receiver: np.ndarray, left: int) -> np.ndarray:
    first, second = (receiver, sender) if trunk.message == "literal" else (sender, receiver)
    scores = {}
    for row, mask in enumerate(trunk.masks[layer]):
        scores[row] = 0.0
        if trunk.attention is not None:
            pair = np.concatenate([first * mask, second * mask])
            hidden = np.maximum(trunk.attention[layer].project.astype(np.float64) @ pair, 0)
            scores[row] = float(trunk.attention[layer].score.astype(np.float64) @ hidden)
    scores.pop(left, None)
    top = max(scores.values())
    raised = {row: np.exp(score - top) for row, score in scores.items()}
    message = np.zeros(len(first))
    for row in raised:
        message += raised[row] / sum(raised.values()) * first * trunk.masks[layer][row]
    return message
