"""Weights of links, users, networks and communities, by loops and by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations, pairwise
from math import log
from pathlib import Path

import numpy as np
import pytest
from tests.analysis.trunks import embeddings_of, random_embeddings, random_graph
from tests.errors import refused

from mcne.analysis import attention
from mcne.analysis.attention import (
    QUANTILES,
    communities,
    modularity,
    of_link,
    of_network,
    of_user,
    read_attention,
)
from mcne.analysis.masks import mask_numbers
from mcne.data.graph import Graph, directed, undirected
from mcne.embeddings import Attention, ConditionalEmbeddings, Trunk
from mcne.errors import DataError, UsageError


def cliques(*sizes: int, joined: bool = True) -> Graph:
    """Groups in which all are linked; the first users of neighboring groups are linked too."""
    starts = np.concatenate([[0], np.cumsum(sizes)])
    pairs = [pair for a, b in pairwise(starts) for pair in combinations(range(a, b), 2)]
    pairs += list(pairwise(starts[:-1])) if joined else []
    ends = np.array(pairs, dtype=np.int32).reshape(-1, 2)
    return undirected(int(starts[-1]), ends[:, 0], ends[:, 1])[0]


# communities


def test_cliques_are_communities_numbered_by_size() -> None:
    graph = cliques(5, 9, 7)
    label = communities(graph, seed=3)
    assert label.tolist() == [2] * 5 + [0] * 9 + [1] * 7


def test_modularity_by_hand() -> None:
    graph = cliques(3, 3)  # 7 links, of which 6 are within; each side has half of the ends
    label = communities(graph, seed=0)
    assert label.tolist() == [0, 0, 0, 1, 1, 1]
    assert modularity(graph, label) == pytest.approx(6 / 7 - 1 / 2)
    assert modularity(graph, np.zeros(6, dtype=int)) == pytest.approx(0)


@pytest.mark.parametrize("seed", range(5))
def test_no_single_user_could_move_for_the_better(seed: int) -> None:
    graph = random_graph(seed, n_users=30, n_links=70)
    label = communities(graph, seed=seed)
    best = modularity(graph, label)
    assert best > 0.15
    assert communities(graph, seed=seed).tolist() == label.tolist()
    degrees, last = graph.degrees, label.max() + 1
    assert len(set(label[degrees == 0])) == np.count_nonzero(degrees == 0)  # each on its own
    for user in np.flatnonzero(degrees):
        for other in range(last):
            moved = label.copy()
            moved[user] = other
            assert modularity(graph, moved) <= best + 0.02  # whole communities have moved since users did


def test_communities_of_nobody_and_of_no_links() -> None:
    nothing = np.zeros(0, dtype=np.int32)
    assert communities(undirected(0, nothing, nothing)[0], seed=0).tolist() == []
    empty = undirected(3, nothing, nothing)[0]
    assert communities(empty, seed=0).tolist() == [0, 1, 2]
    assert modularity(empty, np.arange(3)) == 0.0


# links and users


def test_a_link_has_both_messages_of_explain() -> None:
    made = random_embeddings(1)
    user, other = made.users[1], made.users[int(made.graph.neighbors(1)[-1])]
    link = of_link(made, user, other)
    assert link["messages"] == [message.to_json() for message in made.explain(user, other).messages]
    assert link["behaviors"] == ("Books", "Movies", "Travel", "other")
    data = json.loads(json.dumps(link))
    assert (data["of"], data["even"]) == ("link", 0.25)
    assert [message["receiver_id"] for message in data["messages"]] == [user, other]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_user_by_a_loop(weighted: bool) -> None:
    made = random_embeddings(2, weighted=weighted)
    trunk, graph, user = made.trunk, made.graph, 4
    assert trunk is not None
    near = [int(other) for other in graph.neighbors(user)]
    summary = of_user(made, made.users[user])
    assert (summary["user_id"], summary["links"]) == (made.users[user], len(near))
    heard = {
        other: [trunk.weights(layer, np.array([other]), np.array([user]))[0] for layer in (0, 1)] for other in near
    }
    shares = {other: graph.share(other, user, weighted=weighted) for other in near}
    means = [sum(shares[other] * heard[other][layer] for other in near) for layer in (0, 1)]
    np.testing.assert_allclose(summary["hears"], means)
    for layer in (0, 1):
        sent = [trunk.weights(layer, np.array([user]), np.array([other]))[0] for other in near]
        np.testing.assert_allclose(summary["sends"][layer], np.mean(sent, axis=0))
    distance = {o: np.mean([np.abs(heard[o][k] - means[k]).sum() / 2 for k in (0, 1)]) for o in near}
    ordered = sorted(near, key=lambda other: -distance[other])[: attention.N_UNUSUAL]
    assert [link["sender_id"] for link in summary["unusual"]] == [made.users[other] for other in ordered]
    np.testing.assert_allclose([link["distance"] for link in summary["unusual"]], [distance[o] for o in ordered])


# the network


def test_a_network_by_a_loop() -> None:
    made = random_embeddings(3, graph=cliques(8, 6, 5))
    trunk, graph = made.trunk, made.graph
    assert trunk is not None
    network = of_network(made, seed=0)
    assert [community["users"] for community in network["communities"]] == [8, 6, 5]
    assert [community["messages"] for community in network["communities"]] == [56, 30, 20]
    assert (network["messages"], network["between_messages"]) == (graph.n_directions, 4)
    group = np.repeat([0, 1, 2], [8, 6, 5])
    for layer in (0, 1):
        rows = {}
        for receiver, sender in zip(graph.sources(), graph.indices, strict=True):
            rows[int(receiver), int(sender)] = trunk.weights(layer, np.array([sender]), np.array([receiver]))[0]
        weights = np.array(list(rows.values()))
        entropies = [-sum(w * log(w) for w in row) / log(4) for row in weights]
        summary = network["layers"][layer]
        assert summary["entropy"] == pytest.approx(np.mean(entropies), rel=1e-5)
        np.testing.assert_allclose(summary["entropy_quantiles"], np.quantile(entropies, QUANTILES), rtol=1e-4)
        for row, spread in enumerate(summary["spread"]):
            np.testing.assert_allclose(spread["quantiles"], np.quantile(weights[:, row], QUANTILES), rtol=1e-4)
            assert spread["mean"] == pytest.approx(weights[:, row].mean(), rel=1e-5)
            assert spread["first"] == pytest.approx(
                np.mean(np.isclose(weights[:, row], weights.max(axis=1), rtol=1e-6))
            )
        between = np.mean([w for (r, s), w in rows.items() if group[r] != group[s]], axis=0)
        np.testing.assert_allclose(network["between"][layer], between, rtol=1e-4)
        for number, community in enumerate(network["communities"]):
            inner = np.mean([w for (r, s), w in rows.items() if group[r] == group[s] == number], axis=0)
            np.testing.assert_allclose(community["weights"][layer], inner, rtol=1e-4)
            effect = (inner - between) / weights.std(axis=0)
            np.testing.assert_allclose(community["effect"][layer], effect, rtol=1e-3, atol=1e-4)


def planted() -> ConditionalEmbeddings:
    """Two cliques: messages within the first are about Books, within the second about Movies; between them neither.

    A user has one of two dimensions, each in the mask of one behavior, and a behavior's score is what both have of it.
    """
    graph = cliques(7, 6)
    vectors = np.repeat(np.eye(2, dtype=np.float32), [7, 6], axis=0)
    masks = np.array([[1, 0], [0, 1], [0, 0]], dtype=bool)
    weigh = Attention(np.ones((1, 4), dtype=np.float32), np.full(1, 2, dtype=np.float32))
    trunk = Trunk((vectors,), (masks, masks), (weigh,), combine=(np.ones((2, 4), dtype=np.float32),))
    return embeddings_of(trunk, graph, np.random.default_rng(0))


def test_the_behavior_that_holds_a_community_together_is_found() -> None:
    network = of_network(planted(), seed=0)
    raised = np.exp([4.0, 0.0, 0.0])
    strong, weak = raised[0] / raised.sum(), raised[1] / raised.sum()
    first, second = network["communities"]
    np.testing.assert_allclose(first["weights"], [[strong, weak, weak]], rtol=1e-5)
    np.testing.assert_allclose(second["weights"], [[weak, strong, weak]], rtol=1e-5)
    assert first["effect"][0][0] > 1 > 0 > first["effect"][0][1]
    assert second["effect"][0][1] > 1 > 0 > second["effect"][0][0]


def test_even_weights_have_all_the_entropy_and_no_effect() -> None:
    network = of_network(random_embeddings(4, attention=False, graph=cliques(5, 4)), seed=0)
    for layer in network["layers"]:
        assert layer["entropy"] == pytest.approx(1)
        assert [each["mean"] for each in layer["spread"]] == pytest.approx([0.25] * 4)
        assert [each["first"] for each in layer["spread"]] == [1.0] * 4, "of none is there one that weighs more"
    assert [community["effect"] for community in network["communities"]] == [[[0.0] * 4] * 2] * 2


def test_one_behavior_alone_has_no_entropy() -> None:
    made = planted()
    assert made.trunk is not None
    loud = Attention(np.ones((1, 4), dtype=np.float32), np.full(1, 2000, dtype=np.float32))
    network = of_network(replace(made, trunk=replace(made.trunk, attention=(loud,))), seed=0)
    assert network["layers"][0]["entropy_quantiles"][2] == 0
    json.dumps(network, allow_nan=False)


def test_one_community_has_nothing_between() -> None:
    network = of_network(random_embeddings(5, graph=cliques(6)), seed=0)
    assert (network["between"], network["between_messages"], network["communities"][0]["effect"]) == ([], 0, [])
    json.dumps(network, allow_nan=False)


# mistakes


def test_files_of_version_0_1_call_messages_links(tmp_path: Path) -> None:
    network = of_network(random_embeddings(0, graph=random_graph(0, 30, 60)), seed=0) | {"faithfulness": {}}
    old = json.loads(json.dumps(network))
    for counts in (old, *old["communities"]):
        counts["links"] = counts.pop("messages")
    old["between_links"] = old.pop("between_messages")
    (tmp_path / "old.json").write_text(json.dumps(old))
    assert read_attention(tmp_path / "old.json") == json.loads(json.dumps(network))


def test_mistakes_are_told() -> None:
    made = random_embeddings(6)
    alone = made.users[11]
    with refused(UsageError, value="u0011"):
        of_link(made, made.users[1], alone)
    with pytest.raises(UsageError, match="not linked"):
        of_link(made, alone, made.users[1])
    with pytest.raises(UsageError, match="has no links"):
        of_user(made, alone)
    with pytest.raises(UsageError, match="unknown user"):
        of_user(made, "u9999")
    with pytest.raises(UsageError, match="'bpr' has no attention over behaviors"):
        of_user(replace(made, trunk=None, provenance={"method": "bpr"}), made.users[0])
    nothing = np.zeros(0, dtype=np.int32)
    with pytest.raises(DataError, match="no links"):
        of_network(random_embeddings(6, graph=undirected(4, nothing, nothing)[0]), seed=0)


def test_a_behavior_called_other_is_told_apart_from_the_rest() -> None:
    made = random_embeddings(0)
    named = replace(made, spaces=(*made.spaces[:2], replace(made.spaces[2], name="other")))
    rows = (*made.behavior_names[:2], "other", "other (of no behavior)")
    assert of_network(named, seed=0)["behaviors"] == rows
    assert mask_numbers(named).levels[0].names == rows
    user = named.graph.neighbors(1)[0]
    assert named.explain(named.users[1], named.users[int(user)]).attention_on == rows


def followed_by_hand() -> ConditionalEmbeddings:
    """0 follows 1 and 2, 1 follows 0, 3 follows 0; nobody follows 3, and 2 follows nobody."""
    graph, _ = directed(4, np.array([0, 0, 1, 3]), np.array([1, 2, 0, 0]))
    return random_embeddings(1, graph=graph)


def test_in_a_directed_network_a_user_hears_whom_it_follows_and_its_followers_hear_it() -> None:
    made = followed_by_hand()
    trunk = made.trunk
    assert trunk is not None
    summary = of_user(made, made.users[0])
    assert (summary["links"], summary["followers"]) == (2, 2)
    for layer in (0, 1):
        heard = [trunk.weights(layer, np.array([other]), np.array([0]))[0] for other in (1, 2)]
        sent = [trunk.weights(layer, np.array([0]), np.array([other]))[0] for other in (1, 3)]
        np.testing.assert_allclose(summary["hears"][layer], np.mean(heard, axis=0))
        np.testing.assert_allclose(summary["sends"][layer], np.mean(sent, axis=0))
    unheard = of_user(made, made.users[3])
    assert (unheard["links"], unheard["followers"], unheard["sends"]) == (1, 0, [])
    with refused(UsageError, value="u0002", about="follows nobody"):
        of_user(made, made.users[2])
    with refused(UsageError, value="u0001", about="not linked") as raised:
        of_link(made, made.users[2], made.users[1])
    assert raised.value.allowed == ("u0000",)


def test_a_directed_link_has_the_message_to_who_follows() -> None:
    made = followed_by_hand()
    one_way, both_ways = (of_link(made, made.users[0], made.users[other])["messages"] for other in (2, 1))
    assert [(each["sender_id"], each["receiver_id"]) for each in one_way] == [("u0002", "u0000")]
    assert [each["receiver_id"] for each in both_ways] == ["u0000", "u0001"]
    assert one_way[0]["share"] == 0.5


def test_communities_and_modularity_take_directed_links_as_pairs() -> None:
    whole = cliques(3, 3)
    once = whole.sources() < whole.indices
    graph, _ = directed(6, whole.sources()[once], whole.indices[once])
    assert communities(graph, seed=0).tolist() == [0, 0, 0, 1, 1, 1]
    network = of_network(random_embeddings(0, graph=graph), seed=0)
    assert network["modularity"] == pytest.approx(6 / 7 - 1 / 2)
    assert (network["messages"], network["between_messages"]) == (7, 1)
