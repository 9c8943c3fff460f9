"""Maps: measures by hand and against scikit-learn, planted structure found, the same bytes, and mistakes."""

from __future__ import annotations

import builtins
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import manifold
from tests.errors import refused

from mcne.analysis import maps
from mcne.analysis.maps import (
    ConditionalMap,
    Separation,
    aligned_to,
    conditional_map,
    kept_neighbors,
    nearest,
    random_masks,
    separation,
    trustworthiness,
    tsne,
)
from mcne.data.graph import undirected
from mcne.data.ids import Ids
from mcne.embeddings.artifact import BehaviorSpace, ConditionalEmbeddings
from mcne.errors import ArtifactError, UsageError


def embeddings(vectors: NDArray[Any], masks: list[list[int]], *, method: str = "mcne") -> ConditionalEmbeddings:
    """Users with these vectors, and behaviors without items."""
    nobody = np.zeros(0, dtype=np.int32)
    n = len(vectors)
    d = vectors.shape[1]
    spaces = tuple(
        BehaviorSpace(
            f"behavior {k}",
            np.array(mask, bool),
            Ids(np.array([1])),
            np.zeros((1, d), np.float32),
            np.zeros(n + 1, np.int64),
            nobody,
        )
        for k, mask in enumerate(masks)
    )
    users = Ids([f"user-{u:03d}" for u in range(n)])
    graph = undirected(n, nobody, nobody)[0]
    return ConditionalEmbeddings(users, vectors.astype(np.float32), spaces, graph, None, {"method": method})


def planted(n: int = 60) -> ConditionalEmbeddings:
    """The first half of the dimensions tells users apart by halves of the alphabet, the second by even and odd."""
    random = np.random.default_rng(1)
    vectors = random.normal(size=(n, 8)) + 4
    vectors[: n // 2, :4] += 8
    vectors[::2, 4:] += 8
    return embeddings(vectors, [[1] * 4 + [0] * 4, [0] * 4 + [1] * 4])


# measures


def test_the_nearest_by_a_naive_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.random.default_rng(0).normal(size=(50, 3))
    expected = []
    for i in range(50):
        others = [j for j in range(50) if j != i]
        expected.append(sorted(others, key=lambda j: math.dist(points[i], points[j]))[:4])
    assert nearest(points, 4).tolist() == expected
    monkeypatch.setattr("mcne.analysis.maps.BLOCK", 7)
    assert nearest(points, 4).tolist() == expected


@pytest.mark.parametrize("n", [20, 200])
def test_trustworthiness_is_that_of_scikit_learn(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(n)
    points, places = random.normal(size=(n, 6)), random.normal(size=(n, 2))
    places[:, 0] += points[:, 0]
    k = min(15, (n - 1) // 2)
    expected = manifold.trustworthiness(points, places, n_neighbors=k)
    assert 0 < expected < 1
    assert trustworthiness(points, places) == pytest.approx(expected, abs=1e-12)
    monkeypatch.setattr("mcne.analysis.maps.BLOCK", 33)
    assert trustworthiness(points, places) == pytest.approx(expected, abs=1e-12)
    assert trustworthiness(points[:, :2], 3 * points[:, :2]) == 1


def test_separation_by_hand() -> None:
    """Two groups of two points 1 apart, 10 from each other: each point's silhouette is (b − a) / b with a = 1."""
    line = np.array([[[0.0], [1.0]], [[10.0], [11.0]]])
    outer, inner = (10.5 - 1) / 10.5, (9.5 - 1) / 9.5
    assert separation(line, seed=0).silhouette == pytest.approx((outer + inner) / 2)
    assert separation(line, seed=0).same_group == 1.0
    mixed = np.array([[[0.0], [10.0]], [[1.0], [11.0]]])
    assert separation(mixed, seed=0).same_group == 0.0


def test_kept_neighbors() -> None:
    points = np.random.default_rng(0).normal(size=(100, 4))
    assert kept_neighbors(points, 2 * points) == 1.0
    assert kept_neighbors(points, np.random.default_rng(1).normal(size=(100, 4))) == pytest.approx(15 / 99, abs=0.05)


# t-SNE


def test_planted_groups_are_apart_in_a_map() -> None:
    vectors = np.random.default_rng(0).normal(size=(3, 40, 5)) * 0.3 + np.arange(3)[:, None, None] * 3
    places = tsne(vectors.reshape(120, 5), seed=0).reshape(3, 40, 2)
    assert separation(places, seed=0).same_group == 1.0
    assert np.array_equal(places.reshape(120, 2), tsne(vectors.reshape(120, 5), seed=0))


@pytest.mark.parametrize("vectors", [np.zeros((30, 4)), np.arange(30.0)[:, None], np.ones((30, 3))])
def test_vectors_that_a_map_can_make_little_of(vectors: NDArray[Any]) -> None:
    places = tsne(vectors, seed=0)
    assert places.shape == (30, 2)
    assert np.all(np.isfinite(places))


def test_a_turned_mirrored_and_smaller_map_is_laid_on_its_reference() -> None:
    reference = np.random.default_rng(0).normal(size=(30, 2)) + 5
    angle = 2.0
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]) * [1, -1]
    np.testing.assert_allclose(aligned_to(0.1 * reference @ turn - 3, reference), reference)


# maps


def test_random_masks_have_as_many_ones_in_use_and_differ() -> None:
    learned = np.arange(10) < np.array([0, 3, 10, 5])[:, None]
    used = np.array([[True] * 10] * 3 + [[True, False] * 5])
    masks = [random_masks(learned, used, seed=0, draw=draw) for draw in range(20)]
    assert all((mask & used).sum(axis=1).tolist() == [0, 3, 10, 3] for mask in masks)
    assert len({mask.tobytes() for mask in masks}) > 10
    assert np.array_equal(masks[4], random_masks(learned, used, seed=0, draw=4))
    each = np.mean(
        [mask[1] for mask in (random_masks(learned, used, seed=0, draw=draw) for draw in range(2000))], axis=0
    )
    np.testing.assert_allclose(each, 0.3, atol=0.05)
    nothing = random_masks(learned, np.zeros_like(used), seed=0, draw=0)
    assert np.array_equal(nothing, learned)


def test_dimensions_that_are_zero_for_all_do_not_thin_random_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks with one and two ones where something is, and many or none elsewhere: random ones show as many."""
    measured: list[np.ndarray] = []

    def measuring(points: np.ndarray, *, seed: int) -> Separation:
        measured.append(points)
        return separation(points, seed=seed)

    monkeypatch.setattr(maps, "separation", measuring)
    vectors = np.zeros((30, 40))
    vectors[:, :3] = np.random.default_rng(0).random((30, 3)) + 1
    masks = [[1, 0, 0] + [1] * 37, [0, 1, 1] + [0] * 37]
    conditional_map(embeddings(vectors, masks), n_users=20)
    shown = [np.count_nonzero(points, axis=2) for points in measured if points.shape[2] == 40]
    assert len(shown) == 1 + maps.RANDOM_DRAWS
    assert all(np.array_equal(counts, [[1] * 20, [2] * 20]) for counts in shown)


def test_a_map_of_all_conditional_vectors() -> None:
    drawn_map = conditional_map(planted(), n_users=40, seed=3)
    learned, random = drawn_map.panels
    assert (learned.name, random.name) == ("learned masks", "random masks")
    assert learned.groups == ("behavior 0", "behavior 1")
    assert learned.places.shape == (2, 40, 2)
    assert len(set(drawn_map.user_ids)) == 40
    assert drawn_map.perplexity == 26  # (80 - 1) // 3
    assert drawn_map.separation is not None
    assert drawn_map.separation.same_group > 0.9
    assert len(drawn_map.random_masks) == maps.RANDOM_DRAWS
    assert min(draw.same_group for draw in drawn_map.random_masks) < drawn_map.separation.same_group
    assert learned.trustworthiness > 0.85


def test_the_seed_decides_and_everything_comes_back(tmp_path: Path) -> None:
    first, again, other = (conditional_map(planted(30), n_users=20, seed=seed) for seed in (0, 0, 1))
    text = json.dumps(first.to_json(), allow_nan=False)
    assert text == json.dumps(again.to_json(), allow_nan=False)
    assert other.user_ids != first.user_ids
    (tmp_path / "map.json").write_text(text)
    back = ConditionalMap.read(tmp_path / "map.json")
    assert json.dumps(back.to_json()) == text
    assert "places" not in first.numbers()


def test_aligned_maps_follow_the_same_users(tmp_path: Path) -> None:
    """On the first behavior users are near their half of the alphabet, on the second near the even or the odd."""
    made = planted()
    aligned = conditional_map(made, seed=0, layout="aligned")
    assert [panel.name for panel in aligned.panels] == ["whole vector", "behavior 0", "behavior 1"]
    assert list(aligned.user_ids) == made.users[:]
    half, even = np.arange(60) < 30, np.arange(60) % 2 == 0
    for panel, kind, unlike in ((aligned.panels[1], half, even), (aligned.panels[2], even, half)):
        near = nearest(panel.places[0], 5)
        assert np.mean(kind[near] == kind[:, None]) > 0.95
        assert np.mean(unlike[near] == unlike[:, None]) < 0.7
        assert panel.kept_neighbors is not None
        assert 0 < panel.kept_neighbors < 1
    (tmp_path / "map.json").write_text(json.dumps(aligned.to_json()))
    back = ConditionalMap.read(tmp_path / "map.json")
    assert back.to_json() == aligned.to_json()


# mistakes


@pytest.mark.parametrize(
    ("n_users", "message"), [(61, "users: 61 .*10 to 60"), (9, "users: 9 .*10 to 60"), (0, "users: 0 ")]
)
def test_more_or_fewer_users_than_a_map_can_have(n_users: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        conditional_map(planted(), n_users=n_users)


def test_methods_without_masks_or_vectors_are_refused() -> None:
    same = embeddings(np.ones((20, 3)), [[1, 1, 1], [1, 1, 1]], method="bpr")
    with refused(UsageError, value="bpr"):
        conditional_map(same)
    with pytest.raises(UsageError, match="'popularity' has no vectors"):
        conditional_map(embeddings(np.ones((20, 0)), [[], []], method="popularity"))


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "openTSNE":
            raise ImportError
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=r"openTSNE.*pip install 'mcne\[maps\]'"):
        conditional_map(planted())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kind": "mcne map", "version": 99}', '{"kind": 1, "version": 1}'])
def test_files_that_are_no_maps(text: str, tmp_path: Path) -> None:
    (tmp_path / "here.json").write_text(text)
    with refused(ArtifactError, place="here.json", about="version"):
        ConditionalMap.read(tmp_path / "here.json")
