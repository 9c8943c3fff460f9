"""Exports read back as what they were."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.errors import refused

from mcne.data.ids import Ids
from mcne.embeddings import BehaviorSpace, ConditionalEmbeddings
from mcne.embeddings.export import file_names
from mcne.errors import DataError, UsageError


def names(files: list[Path]) -> list[str]:
    return [path.name for path in files]


def test_parquet_reads_back(random_embeddings: Any, tmp_path: Path) -> None:
    embeddings = random_embeddings(2, whole=False)
    files = embeddings.export(tmp_path / "new" / "out", "parquet")
    expected = ["items-added", "items-first", "masks", "users-added", "users"]
    assert names(files) == [f"{name}.parquet" for name in expected]
    table = {path.name: pq.read_table(path).to_pydict() for path in files}
    masks = table["masks.parquet"]
    assert masks["behavior"] == ["first", "added"]
    for k, space in enumerate(embeddings.spaces):
        users, items = table[masks["users_file"][k]], table[masks["items_file"][k]]
        assert users["user_id"] == embeddings.users[:]
        assert items["item_id"] == space.items[:]
        scores = (np.float32(users["vector"]) * masks["mask"][k]) @ np.float32(items["vector"]).T
        scores += np.float32(items.get("bias", np.zeros(len(space.items))))
        np.testing.assert_allclose(scores, embeddings.scores(k, np.arange(40)), rtol=1e-6, atol=1e-6)
    assert pq.read_schema(files[-1]).field("vector").type.value_type == "float"
    assert np.float32(table["users.parquet"]["vector"]).tolist() == embeddings.vectors.tolist()


def test_npz_reads_back_without_pickle(random_embeddings: Any, tmp_path: Path) -> None:
    embeddings = random_embeddings(3, whole=False)
    (path,) = embeddings.export(tmp_path / "out", "npz")
    assert path == tmp_path / "out" / "embeddings.npz"
    with np.load(path, allow_pickle=False) as arrays:
        assert {"behaviors", "masks", "user_ids", "user_vectors", "user_vectors_1", "item_bias_0"} < set(arrays)
        assert len(arrays) == 10
        assert arrays["user_ids"].tolist() == embeddings.users[:]
        assert arrays["item_ids_1"].dtype == np.int64
        assert arrays["behaviors"].tolist() == embeddings.behavior_names
        np.testing.assert_array_equal(arrays["user_vectors"], embeddings.vectors)
        for k, space in enumerate(embeddings.spaces):
            assert arrays[f"item_ids_{k}"].tolist() == space.items[:]
            np.testing.assert_array_equal(arrays["masks"][k], space.mask)
            np.testing.assert_array_equal(arrays[f"item_vectors_{k}"], space.item_vectors)
        np.testing.assert_array_equal(arrays["item_bias_0"], embeddings.spaces[0].item_bias)
        np.testing.assert_array_equal(arrays["user_vectors_1"], embeddings.spaces[1].user_vectors)


def read_word2vec(path: Path) -> tuple[list[str], np.ndarray]:
    """As gensim does: split on single spaces, after the white space at the end is gone."""
    head, *lines = path.read_text(encoding="utf-8").splitlines()
    rows = [line.rstrip().split(" ") for line in lines]
    assert head == f"{len(rows)} {len(rows[0]) - 1}"
    assert len({len(row) for row in rows}) == 1
    return [row[0] for row in rows], np.array([row[1:] for row in rows], dtype=np.float32)


def test_word2vec_reads_back(random_embeddings: Any, tmp_path: Path) -> None:
    embeddings = random_embeddings(5, whole=False)
    files = embeddings.export(tmp_path / "out", "word2vec")
    assert names(files) == ["items-added.txt", "items-first.txt", "users-added.txt", "users-first.txt", "users.txt"]
    for path in files:
        ids, vectors = read_word2vec(path)
        what, _, behavior = path.stem.partition("-")
        if what == "items":
            space = embeddings.space(behavior)
            assert ids == list(map(str, space.items))
            np.testing.assert_array_equal(vectors, space.item_vectors)
        else:
            assert ids == embeddings.users[:]
            expected = embeddings.user_vectors(behavior) if behavior else embeddings.vectors
            np.testing.assert_array_equal(vectors, expected)


def test_word2vec_keeps_extreme_numbers(parts: dict[str, Any], tmp_path: Path) -> None:
    vectors = np.array([[1e-45, -0.0, 3.4e38], [0.1, -1e-5, 1 / 3], [16777217, 5, 0], [1, 2, 3]], np.float32)
    ConditionalEmbeddings(**parts | {"vectors": vectors}).export(tmp_path / "out", "word2vec")
    np.testing.assert_array_equal(read_word2vec(tmp_path / "out" / "users.txt")[1], vectors)


def with_users(embeddings: ConditionalEmbeddings, *ids: str) -> ConditionalEmbeddings:
    return dataclasses.replace(embeddings, users=Ids(sorted(ids)))


@pytest.mark.parametrize("bad", ["a b", "a\tb", "a\nb", "a\u00a0b", 'a"b', ""])
def test_ids_that_word2vec_cannot_hold_are_refused(tiny: ConditionalEmbeddings, bad: str, tmp_path: Path) -> None:
    with refused(DataError, value=bad, about="1 such ids"):
        with_users(tiny, bad, "é", "y", "z").export(tmp_path / "out", "word2vec")
    assert list(tmp_path.iterdir()) == []
    for file_format in ("parquet", "npz"):
        with_users(tiny, bad, "é", "y", "z").export(tmp_path / file_format, file_format)
    with np.load(tmp_path / "npz" / "embeddings.npz", allow_pickle=False) as arrays:
        assert sorted(arrays["user_ids"].tolist()) == sorted([bad, "é", "y", "z"])


def test_ids_that_numpy_would_cut_are_refused(tiny: ConditionalEmbeddings, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="an id ends with a NUL character"):
        with_users(tiny, "a\0", "x", "y", "z").export(tmp_path / "out", "npz")
    assert list(tmp_path.iterdir()) == []


def test_bias_alone_goes_where_there_is_room_for_it(bias_alone: ConditionalEmbeddings, tmp_path: Path) -> None:
    bias_alone.export(tmp_path / "p", "parquet")
    assert pq.read_table(tmp_path / "p" / "items-Books.parquet").to_pydict() == {
        "item_id": ["a", "b", "c"],
        "vector": [[], [], []],
        "bias": [2, 1, 2],
    }
    bias_alone.export(tmp_path / "n", "npz")
    with np.load(tmp_path / "n" / "embeddings.npz", allow_pickle=False) as arrays:
        assert (arrays["user_vectors"].shape, arrays["item_bias_0"].tolist()) == ((4, 0), [2, 1, 2])
    with refused(UsageError, value="popularity"):
        bias_alone.export(tmp_path / "w", "word2vec")
    assert not (tmp_path / "w").exists()


def test_nothing_is_overwritten(tiny: ConditionalEmbeddings, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").write_text("mine")
    with refused(UsageError, place="out", about="replaced"):
        tiny.export(tmp_path / "out", "npz")
    assert (tmp_path / "out" / "precious").read_text() == "mine"
    with pytest.raises(UsageError, match=r"unknown format 'word2vek'; did you mean 'word2vec'"):
        tiny.export(tmp_path / "other", "word2vek")
    assert names(list(tmp_path.iterdir())) == ["out"]


def test_any_behavior_name_makes_a_file_name(tiny: ConditionalEmbeddings, tmp_path: Path) -> None:
    given = ["Food & Drink", "food_drink", "../etc/passwd", "Küche", "..", "x" * 400, "a/b", "a\\b", "FOOD/drink-2"]
    made = file_names(given)
    assert made[:5] == ["Food_Drink", "food_drink-2", ".._etc_passwd", "Küche", ".."]
    assert made[6:] == ["a_b", "a_b-2", "FOOD_drink-2-2"]
    assert len({name.casefold() for name in made}) == len(made)
    assert all(len(name) <= 60 and "/" not in name for name in made)
    spaces: list[BehaviorSpace] = [dataclasses.replace(tiny.spaces[0], name=name) for name in given]
    files = dataclasses.replace(tiny, trunk=None, spaces=tuple(spaces)).export(tmp_path / "out", "parquet")
    assert len(files) == len(given) + 2
    assert all(path.parent == tmp_path / "out" for path in files)


def test_exporting_twice_gives_the_same_bytes(tiny: ConditionalEmbeddings, tmp_path: Path) -> None:
    for file_format in ("parquet", "npz", "word2vec"):
        one, two = (tiny.export(tmp_path / f"{file_format}-{k}", file_format) for k in (1, 2))
        assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
