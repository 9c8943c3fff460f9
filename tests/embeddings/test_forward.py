"""The network without torch is the network; what is left out is left out as by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.analysis.trunks import random_embeddings, random_graph

from mcne.data.dataset import Behavior, SocialDataset
from mcne.data.graph import Graph
from mcne.data.ids import Ids
from mcne.data.split import random_split
from mcne.embeddings import Attention, Trunk, forward
from mcne.embeddings.forward import Without, levels, link_weights, message_lengths
from mcne.errors import UsageError
from mcne.models.contract import TrainingData
from mcne.models.mcne import MCNE, MCNEA, MCNEF, MCNEConfig

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
    found = levels(made.trunk, graph)
    assert [each.dtype for each in found] == [np.float32] * 3
    assert np.abs(made.vectors).max() > 0.1
    for level, expected in zip(found, [*made.trunk.levels, made.vectors], strict=True):
        np.testing.assert_allclose(level, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("settings", VARIANTS)
@pytest.mark.parametrize("left_out", ["nothing", "behaviors", "messages", "both"])
def test_levels_are_those_of_a_loop(settings: dict[str, Any], left_out: str) -> None:
    made = random_embeddings(3, **settings)
    assert made.trunk is not None
    random = np.random.default_rng(5)
    shape = (2, made.graph.n_links)
    behavior = random.integers(-1, 4, shape) if left_out in ("behaviors", "both") else None
    message = random.random(shape) < 0.3 if left_out in ("messages", "both") else None
    if message is not None:
        message[0, made.graph.sources() == 3] = True  # who hears nobody any more
    without = Without(behavior, message)
    found = levels(made.trunk, made.graph, without=without)
    for level, expected in zip(found, naive_levels(made.trunk, made.graph, without), strict=True):
        np.testing.assert_allclose(level, expected, rtol=1e-3, atol=1e-4)


def test_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = random_embeddings(4, weighted=True)
    assert made.trunk is not None
    whole = levels(made.trunk, made.graph)[-1], link_weights(made.trunk, made.graph, 1)
    monkeypatch.setattr(forward, "LINKS_AT_ONCE", 3)
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
    found = levels(sure, graph, without=Without(behavior=most))[1]
    expected = naive_levels(sure, graph, Without(behavior=most))[1]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    assert not np.allclose(found, levels(sure, graph)[1])


def test_trunks_of_before_weights_were_kept() -> None:
    made = random_embeddings(8)
    assert made.trunk is not None
    with pytest.raises(UsageError, match=r"keep no weights of their layers.*train again"):
        levels(replace(made.trunk, combine=None), made.graph)


def naive_levels(trunk: Trunk, graph: Graph, without: Without) -> list[np.ndarray]:
    """Eq. 3–6 user by user and link by link, in double precision."""
    assert trunk.combine is not None
    found = [trunk.levels[0].astype(np.float64)]
    for layer, combine in enumerate(trunk.combine):
        below, rows = found[-1], []
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
        found.append(np.stack(rows))
    return found


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
