"""The factorization machine as printed: all features of a pair are listed and every two of them meet, in loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mcne.data.graph import undirected
from mcne.models.contract import TrainingData
from mcne.models.libfm import UserFeatures
from mcne.models.optimizer import RowAdam
from mcne.models.ranking import Triples

CPU = torch.device("cpu")
Tables = Mapping[str, Tensor]


def toy(n_users: int = 9) -> TrainingData:
    """Two behaviors; user 0 has every item of the second, user 3 is its own friend, the last two have no friends."""
    random = np.random.default_rng(4)
    pairs = []
    for n_items in (7, 3):
        touched = random.random((n_users, n_items)) < 0.4
        touched[0] = n_items == 3
        touched[-1] = False
        user, item = np.nonzero(touched)
        pairs.append((user.astype(np.int32), item.astype(np.int32)))
    source, target = random.integers(0, n_users - 2, (2, 12)).astype(np.int32)
    links = np.append(source, 3).astype(np.int32), np.append(target, 3).astype(np.int32)
    graph = undirected(n_users, *links)[0]
    assert 3 in graph.neighbors(3)
    assert graph.degrees.max() > 3
    return TrainingData(graph, ("Books", "Music"), (7, 3), (pairs[0], pairs[1]))


@dataclass(frozen=True)
class Feature:
    """Its value, its weight and its vector."""

    x: float
    w: Tensor  # []
    v: Tensor  # [k]


def features(data: TrainingData, tables: Tables, user: int, behavior: int, item: int) -> list[Feature]:
    """All features of a pair: the user's id, each friend of it, the item's id."""
    own, friends = tables["users"], tables["friends"]
    near = data.graph.neighbors(user).tolist()
    return [
        Feature(1.0, own[user][-1], own[user][:-1]),
        *(Feature(1 / len(near), friends[f][-1], friends[f][:-1]) for f in near),
        Feature(1.0, tables[f"bias.{behavior}"][item][0], tables[f"items.{behavior}"][item]),
    ]


def pooled(listed: list[Feature]) -> Tensor:
    """f_BI: the sum of ``x_f v_f ⊙ x_g v_g`` over every two features, [k]."""
    total = torch.zeros_like(listed[0].v)
    for at, one in enumerate(listed):
        for other in listed[at + 1 :]:
            total = total + one.x * one.v * other.x * other.v
    return total


def linear(tables: Tables, listed: list[Feature]) -> Tensor:
    """``w₀ + Σ x_f w_f``, []."""
    total = tables["constant"][0, 0]
    for feature in listed:
        total = total + feature.x * feature.w
    return total


def score(data: TrainingData, tables: Tables, user: int, behavior: int, item: int) -> Tensor:
    """``ŷ(x)`` of a factorization machine, []."""
    listed = features(data, tables, user, behavior, item)
    return linear(tables, listed) + pooled(listed).sum()


def drawn_pairs(users: Tensor, triples: Triples) -> list[list[tuple[int, int]]]:
    """For every triple its pairs of a user and an item, the positive first."""
    catalog = triples.items.tolist()
    rows = zip(triples.user.tolist(), triples.positive.tolist(), triples.negative.tolist(), strict=True)
    return [[(int(users[u]), catalog[i]) for i in (positive, *negatives)] for u, positive, negatives in rows]


def losses(scores: list[list[Tensor]], drawn: list[list[tuple[int, int]]]) -> Tensor:
    """The mean logistic loss of a behavior; a zero that is its own positive does not count, []."""
    terms = []
    for row, pairs in zip(scores, drawn, strict=True):
        terms.append(functional.softplus(-row[0]))
        terms += [functional.softplus(s) for s, pair in zip(row[1:], pairs[1:], strict=True) if pair != pairs[0]]
    return torch.stack(terms).mean()


def penalty(data: TrainingData, tables: Tables, behavior: int, drawn: list[list[tuple[int, int]]]) -> Tensor:
    """The mean over pairs of ``Σ x_f (‖v_f‖² + w_f²)``, []."""
    terms = [
        torch.stack([f.x * ((f.v**2).sum() + f.w**2) for f in features(data, tables, user, behavior, item)]).sum()
        for pairs in drawn
        for user, item in pairs
    ]
    return torch.stack(terms).mean()


def used_rows(features: UserFeatures, triples: tuple[Triples, ...]) -> dict[str, Tensor]:
    """The rows of each table that a step needs, in the order in which they are handed out."""
    used = {"users": features.users, "friends": features.friends, "constant": torch.tensor([0])}
    for k, each in enumerate(triples):
        used |= {f"items.{k}": each.items, f"bias.{k}": each.items}
    return used


def table_gradients(adam: RowAdam, used: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The gradients of the rows that were handed out, in tables of their own."""
    gradients = {name: torch.zeros_like(table) for name, table in adam.tables.items()}
    for (name, rows), leaf in zip(used.items(), adam.touched(), strict=True):
        assert leaf.grad is not None
        gradients[name][rows] = leaf.grad
    return gradients


def enlarge(tables: Tables) -> None:
    """Values large enough for every part to matter."""
    random = np.random.default_rng(9)
    for table in tables.values():
        table.copy_(torch.from_numpy(random.normal(0, 0.7, table.shape)))
