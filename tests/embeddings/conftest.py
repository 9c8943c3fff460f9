"""A network small enough to compute by hand, and random ones to compare with brute force."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mcne.data.graph import undirected
from mcne.data.ids import Ids
from mcne.embeddings import Attention, BehaviorSpace, ConditionalEmbeddings, Trunk

RandomEmbeddings = Callable[..., ConditionalEmbeddings]


def rows(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def real(values: Any) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def flags(values: Any) -> np.ndarray:
    return np.array(values, dtype=bool)


@pytest.fixture
def parts() -> dict[str, Any]:
    """Users 10, 20 and 30 are friends, 40 is alone and new; Books, and Travel with one item and a bias."""
    books = BehaviorSpace(
        "Books",
        flags([1, 1, 0]),
        Ids(["a", "b", "c"]),
        real([[1, 0, 5], [0, 1, 5], [1, 1, 0]]),
        rows(0, 1, 3, 3, 3),
        rows(0, 0, 1),
    )
    travel = BehaviorSpace(
        "Travel",
        flags([0, 1, 1]),
        Ids(["x"]),
        real([[1, 1, 1]]),
        rows(0, 1, 2, 2, 2),
        rows(0, 0),
        real([0.5]),
    )
    trunk = Trunk(
        (real([[1, 0], [0, 1], [1, 1], [0, 0]]),),
        (flags([[1, 0], [0, 1], [1, 1]]), flags([[1, 1, 0], [0, 1, 1], [1, 0, 0]])),
        (Attention(real([[1, 0, 0, 2]]), real([1])),),
        (real(np.ones((3, 4))),),
    )
    return {
        "users": Ids(np.array([10, 20, 30, 40])),
        "vectors": real([[1, 2, 0], [2, 1, 1], [0, 0, 3], [0, 0, 0]]),
        "spaces": (books, travel),
        "graph": undirected(4, rows(0, 0, 1), rows(1, 2, 2))[0],
        "trunk": trunk,
        "provenance": {"method": "mcne", "seed": 3},
    }


@pytest.fixture
def tiny(parts: dict[str, Any]) -> ConditionalEmbeddings:
    return ConditionalEmbeddings(**parts)


@pytest.fixture
def bias_alone(parts: dict[str, Any]) -> ConditionalEmbeddings:
    """Popularity: no dimensions, a bias per item; c and a are equally popular."""
    space = BehaviorSpace(
        "Books",
        flags([]),
        Ids(["a", "b", "c"]),
        real(np.zeros((3, 0))),
        rows(0, 1, 3, 3, 3),
        rows(0, 0, 1),
        real([2, 1, 2]),
    )
    popularity = {"vectors": real(np.zeros((4, 0))), "trunk": None, "provenance": {"method": "popularity"}}
    return ConditionalEmbeddings(**parts | {"spaces": (space,)} | popularity)


@pytest.fixture
def random_embeddings() -> RandomEmbeddings:
    """Two behaviors, the second added; whole-number vectors, so that many scores are equal, or real ones."""

    def make(
        seed: int, *, whole: bool = True, n_users: int = 40, n_items: int = 30, d: int = 6
    ) -> ConditionalEmbeddings:
        random = np.random.default_rng(seed)

        def draw(*shape: int) -> np.ndarray:
            return real(random.integers(-2, 3, shape)) if whole else real(random.normal(size=shape))

        def space(name: str, **own: Any) -> BehaviorSpace:
            touched = random.random((n_users, n_items)) < 0.3
            touched[0], touched[1] = True, False  # one user has seen everything, one nothing
            indptr = np.concatenate([[0], np.cumsum(touched.sum(axis=1))])
            seen = np.nonzero(touched)[1].astype(np.int32)
            items = Ids(np.sort(random.permutation(10 * n_items)[:n_items]))
            return BehaviorSpace(name, random.random(d) < 0.6, items, draw(n_items, d), indptr, seen, **own)

        pairs = random.integers(0, n_users, (2, 3 * n_users)).astype(np.int32)
        return ConditionalEmbeddings(
            Ids([f"u{k:03}" for k in range(n_users)]),
            draw(n_users, d),
            (space("first", item_bias=draw(n_items)), space("added", user_vectors=draw(n_users, d))),
            undirected(n_users, *pairs[:, pairs[0] != pairs[1]])[0],
            provenance={"method": "random"},
        )

    return make
