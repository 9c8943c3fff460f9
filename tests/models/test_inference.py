"""All users hear all their neighbors some at a time, which must be as if at once."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from mcne.data.graph import Graph, undirected
from mcne.embeddings.trunk import MessageKind
from mcne.kernels.edges import aggregate_all
from mcne.models import inference
from mcne.models.inference import Links, graph_links
from mcne.models.mcne import BinaryMask, ConditionalNetwork
from mcne.randomness import Stream

CPU = torch.device("cpu")
USERS = 90


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Weighted, with users without neighbors."""
    random = np.random.default_rng(0)
    source, target = random.integers(0, USERS - 5, (2, 400))
    return undirected(USERS, source, target, random.uniform(0.1, 3, 400).astype(np.float32))[0]


def levels(graph: Graph, *, attention: bool, kind: MessageKind, weighted: bool) -> list[Tensor]:
    stream = Stream(3, "network")
    network = ConditionalNetwork(
        3,
        (8, 6, 5),
        attention_width=4 if attention else 0,
        masks=partial(BinaryMask, stream=stream),
        message=kind,
        last_activation=False,
        stream=stream,
    )
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(30)
    vectors = torch.from_numpy(stream.normal((USERS, 8)).astype(np.float32))
    return inference.infer(network, vectors, graph_links(graph, weighted=weighted, device=CPU))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["neighbor", "literal"])
@pytest.mark.parametrize("attention", [True, False])
@pytest.mark.parametrize("users_at_once", [1, 7, 40])
def test_pieces_change_nothing(
    users_at_once: int,
    attention: bool,
    kind: MessageKind,
    weighted: bool,
    graph: Graph,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = levels(graph, attention=attention, kind=kind, weighted=weighted)
    monkeypatch.setattr(inference, "USERS_AT_ONCE", users_at_once)
    monkeypatch.setattr(inference, "NUMBERS_AT_ONCE", 1)
    pieces = levels(graph, attention=attention, kind=kind, weighted=weighted)
    assert [level.shape for level in pieces] == [(USERS, 8), (USERS, 6), (USERS, 5)]
    for whole, piecewise in zip(plain, pieces, strict=True):
        torch.testing.assert_close(piecewise, whole, rtol=1e-5, atol=1e-5)  # products of few rows round differently
    assert plain[-1].abs().max() > 0.1


@pytest.mark.parametrize("size", [1, 13, 50])
def test_some_senders_after_the_other_give_the_bytes_of_all(size: int, graph: Graph) -> None:
    random = torch.Generator().manual_seed(0)
    vectors, near, here = (torch.randn(USERS, *shape, generator=random) for shape in ((8,), (3, 4), (3, 4)))
    score, masks = torch.randn(4, generator=random), torch.rand(3, 8, generator=random)
    links = graph_links(graph, weighted=True, device=CPU)(0, USERS)
    whole, pieces = torch.zeros(2, USERS, 8)
    aggregate_all(vectors, near, here, score, masks, (links.first, links.sender, links.share), whole)
    for start in range(0, USERS, size):
        stop = min(start + size, USERS)
        some = links.sent_by(start, stop)
        along = (some.first, some.sender, some.share)
        aggregate_all(vectors[start:stop], near[start:stop], here, score, masks, along, pieces)
    assert torch.equal(pieces, whole)


@pytest.mark.parametrize("weighted", [False, True])
def test_links_made_in_pieces_are_those_of_the_graph(weighted: bool, graph: Graph) -> None:
    shares = graph.shares(weighted=weighted).astype(np.float32)
    indptr, indices = (torch.from_numpy(each.astype(np.int64)) for each in (graph.indptr, graph.indices))
    made = graph_links(graph, weighted=weighted, device=CPU)
    for start, stop in ((0, USERS), (0, 1), (17, 60), (80, USERS), (0, USERS)):
        own = slice(graph.indptr[start], graph.indptr[stop])
        first = indptr[start : stop + 1] - indptr[start]
        wanted, links = Links(first, indices[own], torch.from_numpy(shares[own])), made(start, stop)
        assert all(torch.equal(getattr(wanted, name), getattr(links, name)) for name in ("first", "sender", "share"))
