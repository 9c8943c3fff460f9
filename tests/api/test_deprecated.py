"""What programs written for the previous release use: each gives what it gave, and old names warn."""

from __future__ import annotations

import dataclasses
import importlib
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.small_training import sixty_users, small_settings

import mcne
from mcne.api.deprecated import MOVED
from mcne.data.dataset import SocialDataset
from mcne.embeddings import ConditionalEmbeddings, Ranking
from mcne.embeddings.ranking import Ranking as RankingOfBefore

BEFORE = {
    "seed",
    "device",
    "epochs",
    "patience",
    "evaluate_every",
    "widths",
    "neighbor_samples",
    "attention_width",
    "message",
    "last_activation",
    "weighted_neighbors",
    "negatives",
    "batch_size",
    "learning_rate",
    "l2",
    "l2_form",
    "initial",
    "workers",
    "checkpoint_seconds",
    "keep_checkpoints",
    "tensorboard",
    "deterministic",
}
"""The settings that mcne.MCNE had."""


@pytest.fixture(scope="module")
def data() -> SocialDataset:
    return sixty_users()


@pytest.fixture(scope="module")
def run(data: SocialDataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was trained from Python."""
    out = tmp_path_factory.mktemp("python") / "run"
    mcne.MCNE(**small_settings("mcne"), device="cpu").fit(data, out=out, progress=False)
    return out


# names


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in MOVED.items() for name in names])
def test_names_that_moved(module: str, name: str) -> None:
    new = MOVED[module][name]
    with pytest.warns(
        DeprecationWarning, match=rf"{module}\.{name} will be removed in the next release; use {new}\.{name}"
    ):
        old = getattr(importlib.import_module(module), name)
    assert old is getattr(importlib.import_module(new), name)


def test_the_module_of_before(data: SocialDataset) -> None:
    with pytest.warns(DeprecationWarning, match="next release") as warned:
        from mcne.api import DATASET, MCNE, load
    assert warned[0].filename == __file__
    assert MCNE is mcne.MCNE
    assert load is mcne.load
    assert DATASET == "data"
    with pytest.raises(ImportError, match="MCNF"):
        from mcne.api import MCNF  # noqa: F401 # wrong on purpose


def test_names_of_the_package_need_no_warning() -> None:
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec("from mcne import *", names)
        from mcne.embeddings import Explanation
    assert {"MCNE", "ConditionalEmbeddings", "SocialDataset", "__version__", "load"} <= set(names)
    assert RankingOfBefore is Ranking
    assert Explanation.__name__ == "Explanation"


# settings


def test_mcne_as_a_dataclass() -> None:
    kind: Any = mcne.MCNE
    model = kind(l2=0.5)
    with pytest.warns(DeprecationWarning, match="MCNE as a dataclass will be removed .* use get_params and set_params"):
        assert {field.name for field in dataclasses.fields(kind)} > BEFORE
    with pytest.warns(DeprecationWarning, match="as a dataclass") as warned:
        changed = dataclasses.replace(model, seed=4)
    assert warned[0].filename == __file__
    assert changed.get_params() == model.get_params() | {"seed": 4}
    with pytest.warns(DeprecationWarning, match="as a dataclass"):
        assert dataclasses.asdict(model) == model.get_params()
    assert dataclasses.is_dataclass(model)  # which printers ask of everything, so it does not warn


def test_settings_and_their_defaults() -> None:
    model: Any = mcne.MCNE(epochs=3)
    assert set(model.get_params()) >= BEFORE
    assert (model.epochs, mcne.MCNE.epochs, mcne.MCNE.widths) == (3, 200, (256, 128, 100))
    model.epochs = 5
    assert pickle.loads(pickle.dumps(model)).get_params() == model.get_params()  # noqa: S301 # made here


# what a run gives


def test_a_run_offers_what_its_embeddings_did(data: SocialDataset, run: Path, tmp_path: Path) -> None:
    opened: Any = mcne.load(run)
    embeddings = ConditionalEmbeddings.load(run / "embeddings")
    assert opened.fingerprint == embeddings.fingerprint
    assert opened.provenance == embeddings.provenance
    assert (opened.n_users, opened.width, opened.method) == (60, 8, "mcne")
    assert opened.behavior_names == ["read", "watch"]
    assert opened.space("read").items == data.behaviors[0].items
    np.testing.assert_array_equal(opened.vectors, embeddings.vectors)
    np.testing.assert_array_equal(opened.vector(3, "read"), embeddings.vector(3, "read"))
    np.testing.assert_array_equal(opened.scores(0, np.array([3])), embeddings.scores(0, np.array([3])))
    assert [file.name for file in opened.export(tmp_path / "vectors", "npz")] == ["embeddings.npz"]
    assert opened.save(tmp_path / "saved") == embeddings.fingerprint


def test_what_it_saved_is_opened_by_the_class_of_before(run: Path, tmp_path: Path) -> None:
    opened: Any = mcne.load(run)
    opened.save(tmp_path / "saved")
    with pytest.warns(DeprecationWarning, match=r"use mcne.load\(path\).embeddings") as warned:
        again = ConditionalEmbeddings.load(tmp_path / "saved")
    assert warned[0].filename == __file__
    assert type(again) is ConditionalEmbeddings
    assert again.fingerprint == opened.fingerprint


def test_functions_that_take_embeddings_take_a_run(data: SocialDataset, run: Path) -> None:
    from mcne.data.split import random_split
    from mcne.evaluation.protocol import evaluate
    from mcne.extend import embed_users

    opened: Any = mcne.load(run)
    split = random_split(data, seed=0)
    assert evaluate(opened, data, split).summary() == evaluate(opened.embeddings, data, split).summary()
    links = {"source_id": [99], "target_id": [3]}
    one, other = (embed_users(each, links=links) for each in (opened, opened.embeddings))
    assert one.fingerprint == other.fingerprint


# answers


def test_answers_are_lists_of_rankings(run: Path) -> None:
    opened: Any = mcne.load(run)
    answers = opened.recommend([3, 4], "read", k=2, filter_seen=True)
    assert isinstance(answers, list)
    assert len(answers) == 2
    assert [len(ranking) for ranking in answers[:1] + answers[1:]] == [2, 2]
    ids, scores = zip(*answers[0], strict=True)
    assert ids == answers[0].ids
    assert list(scores) == answers[0].scores.tolist()
    assert pickle.loads(pickle.dumps(answers)).asked == (3, 4)  # noqa: S301 # made here
    assert list(Ranking(("a",), np.array([1], np.float32))) == [("a", 1.0)]
    assert opened.similar_users(user_ids=3, behavior="read", k=2, cosine=True).ids
    assert opened.similar_items(item_ids=3, behavior="read", k=2, cosine=True).ids
    assert opened.explain(user_id=3, other_id=4).to_json()["user_id"] == 3


@pytest.mark.parametrize(("before", "now"), [(1, "behavior"), (0, False), (None, False), ([3], "behavior")])
def test_filter_seen_as_anything_true_or_false(before: Any, now: Any, run: Path) -> None:
    opened: Any = mcne.load(run)
    with pytest.warns(DeprecationWarning, match='use "behavior", "all" or False') as warned:
        answer = opened.recommend(3, "read", k=30, filter_seen=before)
    assert warned[0].filename == __file__
    assert answer.ids == opened.recommend(3, "read", k=30, filter_seen=now).ids


@pytest.mark.parametrize(("before", "now"), [(True, "behavior"), (np.True_, "behavior"), (np.False_, False)])
def test_filter_seen_as_a_truth_value(before: Any, now: Any, run: Path) -> None:
    opened: Any = mcne.load(run)
    assert (
        opened.recommend(3, "read", k=30, filter_seen=before).ids
        == opened.recommend(3, "read", k=30, filter_seen=now).ids
    )
