"""The artifact: checked, frozen, scored by hand, saved and read with NumPy alone."""

from __future__ import annotations

import dataclasses
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.errors import refused
from tests.values import not_none

from mcne.data.behavior import Behavior
from mcne.data.ids import Ids
from mcne.embeddings import BehaviorSpace, ConditionalEmbeddings, Trunk
from mcne.errors import ArtifactError, UsageError

NAN = np.float32("nan")


def diagonal(*values: float) -> np.ndarray:
    return np.diag(np.array(values, np.float32))


# --- scores and vectors ---


def test_scores_by_hand(tiny: ConditionalEmbeddings) -> None:
    everyone = np.arange(4)
    assert tiny.scores(0, everyone).tolist() == [[1, 2, 3], [2, 1, 3], [0, 0, 0], [0, 0, 0]]
    assert tiny.scores(1, everyone).tolist() == [[2.5], [2.5], [3.5], [0.5]]
    assert tiny.scores(0, np.array([1, 0]), np.array([[2, 0], [1, 1]])).tolist() == [[3, 2], [2, 2]]
    assert tiny.scores(1, np.array([2]), np.array([[0, 0]])).tolist() == [[3.5, 3.5]]
    assert tiny.scores(0, everyone).dtype == tiny.scores(0, everyone, np.zeros((4, 2), int)).dtype == np.float32


def test_scores_of_chosen_items_do_not_depend_on_the_chunk(random_embeddings: Any, monkeypatch: Any) -> None:
    embeddings = random_embeddings(0, whole=False)
    users, items = np.arange(40), np.random.default_rng(1).integers(0, 30, (40, 7))
    for behavior in (0, 1):
        at_once = embeddings.scores(behavior, users, items)
        monkeypatch.setattr("mcne.embeddings.ranking.AT_ONCE", 100)
        np.testing.assert_array_equal(at_once, embeddings.scores(behavior, users, items))
        everything = embeddings.scores(behavior, users)
        np.testing.assert_allclose(at_once, np.take_along_axis(everything, items, axis=1), rtol=1e-5, atol=1e-6)


def test_vectors_by_hand(tiny: ConditionalEmbeddings) -> None:
    assert tiny.user_vectors("Books").tolist() == [[1, 2, 0], [2, 1, 0], [0, 0, 0], [0, 0, 0]]
    assert tiny.user_vectors("Travel").tolist() == [[0, 2, 0], [0, 1, 1], [0, 0, 3], [0, 0, 0]]
    assert tiny.vector(20).tolist() == tiny.vector("20").tolist() == [2, 1, 1]
    assert tiny.vector(20, "Travel").tolist() == [0, 1, 1]
    assert (tiny.n_users, tiny.width, tiny.behavior_names, tiny.method) == (4, 3, ["Books", "Travel"], "mcne")


def test_an_added_behavior_has_its_own_users(tiny: ConditionalEmbeddings) -> None:
    own = np.arange(12, dtype=np.float32).reshape(4, 3)
    added = dataclasses.replace(tiny.spaces[1], name="Sports", user_vectors=own)
    embeddings = dataclasses.replace(tiny, spaces=(*tiny.spaces, added))
    assert embeddings.vector(20, "Sports").tolist() == [0, 4, 5]
    assert embeddings.scores(2, np.array([1])).tolist() == [[9.5]]
    assert embeddings.vector(20).tolist() == [2, 1, 1]
    assert embeddings.explain(10, 20).attention_on == ("Books", "Travel", "other")
    assert [on.behavior for on in embeddings.explain(10, 20).behaviors] == ["Books", "Travel", "Sports"]


def test_a_space_of_a_datasets_behavior() -> None:
    behavior = Behavior("view", Ids(["a", "b"]), np.array([0, 0, 2], np.int32), np.array([0, 1, 0], np.int32))
    vectors = np.ones((2, 1), np.float32)
    space = BehaviorSpace.of(behavior, 4, mask=np.array([True]), item_vectors=vectors, item_bias=vectors[:, 0])
    space.validate(4, 1)
    assert [space.seen(user).tolist() for user in range(4)] == [[0, 1], [], [0], []]
    assert (space.name, space.items) == ("view", behavior.items)
    assert space.item_bias == pytest.approx([1, 1])


def test_repr_names_method_and_behaviors(tiny: ConditionalEmbeddings) -> None:
    assert repr(tiny).splitlines() == [
        "ConditionalEmbeddings of 'mcne': 4 users × 3 dimensions",
        "  Books           3 items     2 dimensions",
        "  Travel          1 items     2 dimensions",
    ]


# --- validation ---


def test_everything_is_read_only(tiny: ConditionalEmbeddings) -> None:
    space = tiny.spaces[1]
    trunk = tiny.trunk
    assert trunk is not None
    assert trunk.attention is not None
    attention = trunk.attention[0]
    arrays = [tiny.vectors, space.mask, space.item_vectors, not_none(space.item_bias), space.seen_indptr]
    arrays += [space.seen_items, *trunk.levels, *trunk.masks, attention.project, attention.score]
    assert not any(array.flags.writeable for array in arrays)
    with pytest.raises(dataclasses.FrozenInstanceError):
        tiny.vectors = space.item_vectors  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vectors": np.zeros((4, 3))}, r"user vectors: float32 \[4, any\] expected, got float64 \[4, 3\]"),
        ({"vectors": np.zeros((3, 3), np.float32)}, r"user vectors: float32 \[4, any\] expected, got float32 \[3, 3\]"),
        ({"vectors": np.full((4, 3), NAN)}, "user vectors: not all values are finite"),
        (
            {"vectors": diagonal(0, np.inf, 0, 0)[:, :3]},
            "user vectors: not all values are finite",
        ),
        (
            {"vectors": diagonal(0, -np.inf, 0, 0)[:, :3]},
            "user vectors: not all values are finite",
        ),
        (
            {"vectors": np.zeros((4, 2), np.float32)},
            "behavior 'Books': a mask of 3 dimensions, the user vectors have 2",
        ),
        ({"spaces": ()}, "need at least one behavior"),
        ({"users": Ids(np.arange(3)), "vectors": np.zeros((3, 3), np.float32)}, "the graph has 4 rows for 3 users"),
        ({"provenance": {"loss": float("nan")}}, "provenance must be plain JSON"),
        ({"provenance": {"path": Path("/")}}, "provenance must be plain JSON"),
    ],
)
def test_what_does_not_fit_is_refused(parts: dict[str, Any], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ConditionalEmbeddings(**parts | changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "Travel"}, "distinct names"),
        ({"name": ""}, "distinct names"),
        ({"mask": np.ones(3, np.float32)}, r"'Books', mask: bool \[any\] expected, got float32"),
        ({"item_vectors": np.zeros((2, 3), np.float32)}, r"'Books', item vectors: float32 \[3, 3\] expected"),
        ({"item_vectors": np.full((3, 3), NAN)}, "'Books', item vectors: not all values are finite"),
        ({"item_bias": np.zeros(2, np.float32)}, r"'Books', item bias: float32 \[3\] expected"),
        ({"user_vectors": np.zeros((4, 2), np.float32)}, r"'Books', user vectors: float32 \[any, 3\] expected"),
        ({"user_vectors": np.zeros((3, 3), np.float32)}, "'Books': 3 user vectors of its own for 4 users"),
        ({"seen_items": np.array([0, 0, 1])}, r"'Books', seen items: int32 \[any\] expected, got int64"),
        ({"seen_items": np.array([0, 0, 3], np.int32)}, "'Books': seen items must be rows below 3"),
        ({"seen_items": np.array([0, 1, 0], np.int32)}, "'Books': the seen items of a user must be increasing"),
        ({"seen_indptr": np.array([0, 1, 3, 3], np.int32)}, "'Books': 5 integer offsets of seen items expected"),
        ({"seen_indptr": np.array([0, 1, 3, 3, 3], np.float32)}, "'Books': 5 integer offsets of seen items expected"),
        ({"seen_indptr": np.array([0, 1, 2, 2, 2], np.int32)}, "'Books': offsets of seen items must go from 0 to 3"),
        ({"seen_indptr": np.array([0, 2, 1, 3, 3], np.int32)}, "never decrease"),
        ({"mask": np.array([True, False, False])}, "the trunk's last masks must be those of its behaviors"),
    ],
)
def test_a_space_that_does_not_fit_is_refused(parts: dict[str, Any], changes: dict[str, Any], message: str) -> None:
    books, travel = parts["spaces"]
    with pytest.raises(ValueError, match=message):
        ConditionalEmbeddings(**parts | {"spaces": (dataclasses.replace(books, **changes), travel)})


def test_a_trunk_of_other_users_or_behaviors_is_refused(parts: dict[str, Any]) -> None:
    trunk, (books, travel) = parts["trunk"], parts["spaces"]
    fewer = Trunk((trunk.levels[0][:3],), trunk.masks, None, trunk.combine)
    with pytest.raises(ValueError, match="every level of the trunk must have a vector for each of 4 users"):
        ConditionalEmbeddings(**parts | {"trunk": fewer})
    third = dataclasses.replace(travel, name="Sports")
    with pytest.raises(ValueError, match="a behavior that the trunk does not know needs user vectors of its own"):
        ConditionalEmbeddings(**parts | {"spaces": (books, travel, third)})
    with pytest.raises(ValueError, match="the trunk's last masks must be those of its behaviors"):
        ConditionalEmbeddings(**parts | {"spaces": (books,)})


def test_the_provenance_is_a_copy(parts: dict[str, Any]) -> None:
    provenance: dict[str, Any] = {"config": {"widths": (2, 3)}}
    embeddings = ConditionalEmbeddings(**parts | {"provenance": provenance})
    provenance["config"]["widths"] = ()
    assert embeddings.provenance == {"config": {"widths": [2, 3]}}
    assert embeddings.method == "unknown"


# --- saving ---


def assert_same(one: ConditionalEmbeddings, two: ConditionalEmbeddings) -> None:
    assert one._meta() == two._meta()
    assert one.provenance == two.provenance
    ours, theirs = one._arrays(), two._arrays()
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], strict=True)


def variants(tiny: ConditionalEmbeddings, bias_alone: ConditionalEmbeddings) -> dict[str, ConditionalEmbeddings]:
    assert tiny.trunk is not None
    own = dataclasses.replace(tiny.spaces[1], name="Spörts / é", user_vectors=tiny.vectors + 1)
    return {
        "attention": tiny,
        "uniform": dataclasses.replace(tiny, trunk=dataclasses.replace(tiny.trunk, attention=None)),
        "literal": dataclasses.replace(tiny, trunk=dataclasses.replace(tiny.trunk, message="literal")),
        "no trunk": dataclasses.replace(tiny, trunk=None),
        "added": dataclasses.replace(tiny, spaces=(*tiny.spaces, own)),
        "weighted": dataclasses.replace(tiny, graph=dataclasses.replace(tiny.graph, weights=np.ones(6, np.float32))),
        "bias alone": bias_alone,
    }


def test_saved_and_loaded_it_is_the_same(
    tiny: ConditionalEmbeddings, bias_alone: ConditionalEmbeddings, tmp_path: Path
) -> None:
    fingerprints = set()
    for name, embeddings in variants(tiny, bias_alone).items():
        fingerprint = embeddings.save(tmp_path / name)
        loaded = ConditionalEmbeddings.load(tmp_path / name)
        assert_same(embeddings, loaded)
        assert fingerprint == embeddings.fingerprint == loaded.fingerprint
        assert not loaded.vectors.flags.owndata
        assert not loaded.vectors.flags.writeable
        fingerprints.add(fingerprint)
    assert len(fingerprints) == 7


def test_random_ones_survive_too(random_embeddings: Any, tmp_path: Path) -> None:
    embeddings = random_embeddings(4)
    embeddings.save(tmp_path / "random")
    assert_same(embeddings, ConditionalEmbeddings.load(tmp_path / "random", verify=False))


def test_saving_twice_gives_the_same_bytes(tiny: ConditionalEmbeddings, tmp_path: Path) -> None:
    tiny.save(tmp_path / "one")
    ConditionalEmbeddings.load(tmp_path / "one").save(tmp_path / "two")
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(files) == 24
    assert files == sorted(path.name for path in (tmp_path / "two").iterdir())
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_an_existing_one_is_not_replaced(tiny: ConditionalEmbeddings, tmp_path: Path) -> None:
    tiny.save(tmp_path / "kept")
    assert tiny.save(tmp_path / "kept") == tiny.fingerprint
    with refused(UsageError, place="kept", about="embeddings"):
        dataclasses.replace(tiny, trunk=None).save(tmp_path / "kept")
    assert_same(tiny, ConditionalEmbeddings.load(tmp_path / "kept"))


def test_a_flipped_byte_is_detected(tiny: ConditionalEmbeddings, tmp_path: Path) -> None:
    tiny.save(tmp_path / "e")
    path = tmp_path / "e" / "behavior.0.item_vectors.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with refused(ArtifactError, place="behavior.0.item_vectors.npy", about="match"):
        ConditionalEmbeddings.load(tmp_path / "e")


def test_numpy_alone_can_read_it(tiny: ConditionalEmbeddings, tmp_path: Path) -> None:
    tiny.save(tmp_path / "e")
    names = json.loads((tmp_path / "e" / "manifest.json").read_bytes())["meta"]["behaviors"]
    array = {path.stem: np.load(path, allow_pickle=False) for path in (tmp_path / "e").glob("*.npy")}
    user = array["users"].tolist().index(30)
    c = names.index("Travel")
    ends = array[f"behavior.{c}.items.offsets"]
    text = array[f"behavior.{c}.items.utf8"].tobytes()
    items = [text[start:end].decode() for start, end in itertools.pairwise(ends)]
    masked = array["vectors"][user] * array[f"behavior.{c}.mask"]
    score = masked @ array[f"behavior.{c}.item_vectors"][items.index("x")] + array[f"behavior.{c}.item_bias"][0]
    assert score == 3.5


def test_the_artifact_needs_no_torch() -> None:
    command = "import mcne.embeddings.export, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", command], check=False).returncode == 0
