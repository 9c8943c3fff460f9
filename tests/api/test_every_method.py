"""The class of every method: trained, asked, saved and opened again; settings as scikit-learn has them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone
from tests.errors import refused
from tests.small_training import sixty_users, small_settings

import mcne
from mcne.api.methods import model_class
from mcne.api.model import Model
from mcne.data.dataset import SocialDataset
from mcne.embeddings import ConditionalEmbeddings
from mcne.errors import UnavailableError, UsageError
from mcne.models.registry import METHODS, class_names


@pytest.fixture(scope="module")
def data() -> SocialDataset:
    return sixty_users(users=pa.table({"user_id": list(range(60)), "age": [float(user % 7) for user in range(60)]}))


@pytest.fixture(scope="module", params=METHODS)
def model(request: pytest.FixtureRequest, data: SocialDataset) -> Model:
    settings = small_settings(request.param)
    return mcne.fit(request.param, data, progress=False, device="cpu", **settings)


def test_every_method_has_a_class() -> None:
    assert len(class_names()) == len(METHODS)
    for name, method in class_names().items():
        kind = getattr(mcne, name)
        assert kind is model_class(method)
        assert METHODS[method].summary in str(kind.__doc__)
        assert kind().method == method


def test_what_is_recommended_is_new_to_the_user(model: Model, data: SocialDataset) -> None:
    read = data.behavior("read")
    answers = model.recommend([3, 4], "read", k=30)
    for user, ranking in zip((3, 4), answers, strict=True):
        seen = set(read.items.take(read.item[read.user == user]))
        assert len(ranking) == read.n_items - len(seen)
        assert not seen & set(ranking.ids)
        assert sorted(ranking.scores, reverse=True) == list(ranking.scores)
    assert answers[0].ids == model.recommend(3, "read", k=30).ids


def test_a_saved_model_answers_as_before(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    opened = mcne.load(tmp_path / "model")
    assert type(opened) is type(model)
    assert isinstance(opened, Model)
    for behavior in ("read", "watch"):
        before, now = (each.recommend([3, 4], behavior, k=5) for each in (model, opened))
        assert [each.ids for each in now] == [each.ids for each in before]
        assert [each.scores.tolist() for each in now] == [each.scores.tolist() for each in before]
    assert opened.evaluate().summary() == model.evaluate().summary()


def test_users_are_compared_where_there_are_vectors(model: Model) -> None:
    if METHODS[model.method].gives != "vectors":
        with pytest.raises(UsageError, match="has no vectors, so") as raised:
            model.similar_users(3)
        assert raised.value.value == model.method
        assert raised.value.remedy
        with pytest.raises(UsageError, match="has no vectors, so"):
            model.similar_items(3, "read")
    else:
        assert len(model.similar_users(3, "read", k=4)) == 4
        assert len(model.similar_items(3, "read", k=4)) == 4


def test_a_model_has_every_attribute_of_its_vectors(model: Model, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    public = [name for name in dir(ConditionalEmbeddings) if not name.startswith("_")]
    public += [field.name for field in dataclasses.fields(ConditionalEmbeddings)]
    opened: Any = mcne.load(tmp_path / "model")
    for each in (model, opened):
        if METHODS[model.method].gives == "scores":
            assert not hasattr(each, "embeddings")
            assert not hasattr(each, "user_vectors")
            for name in ("embeddings", "user_vectors", "vectors"):
                with refused(UnavailableError, value=model.method, about="recommend"):
                    getattr(each, name)
            assert each.n_users == 60
            assert {"users", "spaces", "behavior_names", "recommend", "fingerprint"} <= set(dir(each))
            assert "user_vectors" not in dir(each)
            continue
        embeddings = each.embeddings
        assert set(public) <= set(dir(each))
        for name in set(public) - {"save"}:  # of the model, with everything to train it again
            own, theirs = getattr(each, name), getattr(embeddings, name)
            assert own is theirs or own == theirs or callable(own), name
        np.testing.assert_array_equal(each.user_vectors("read"), embeddings.user_vectors("read"))
        np.testing.assert_array_equal(each.vector(3, "watch"), embeddings.vector(3, "watch"))


def test_before_it_is_trained_a_model_has_none_of_them() -> None:
    for name in ("embeddings", "user_vectors", "users", "fingerprint"):
        assert not hasattr(mcne.BPR(), name)
        with pytest.raises(UsageError, match="this BPR is not trained yet"):
            getattr(mcne.BPR(), name)
    with pytest.raises(AttributeError, match="'BPR' object has no attribute 'user_vector'"):
        _ = mcne.BPR().user_vector  # wrong on purpose
    assert "user_vectors" not in dir(mcne.BPR())


def test_settings_as_scikit_learn_has_them(model: Model) -> None:
    copied: Any = clone(model)
    assert copied.get_params() == model.get_params()
    with pytest.raises(UsageError, match="not trained yet"):
        copied.recommend(3, "read")
    assert copied.set_params(seed=5).seed == 5
    with refused(UsageError, value="sed"):
        copied.set_params(sed=5)


def test_a_model_for_each_behavior(data: SocialDataset, tmp_path: Path) -> None:
    for method in ("ease", "bpr"):
        model = mcne.fit(method, data, separate=True, progress=False, **small_settings(method))
        model.save(tmp_path / method)
        opened = mcne.load(tmp_path / method)
        assert isinstance(opened, Model)
        assert opened.separate
        assert opened.recommend(3, "watch").ids == model.recommend(3, "watch").ids
