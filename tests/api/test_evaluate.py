"""``mcne.evaluate`` on other data: behaviors are found by name; users and items must be those of the training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.errors import refused
from tests.small_training import sixty_users, small_settings

import mcne
from mcne.api.model import Model
from mcne.data.dataset import SocialDataset
from mcne.data.ids import Ids
from mcne.errors import UsageError


@pytest.fixture(scope="module")
def data() -> SocialDataset:
    return sixty_users()


@pytest.fixture(scope="module", params=["bpr", "ease", "separate ease", "embeddings"])
def model(request: pytest.FixtureRequest, data: SocialDataset) -> Any:
    method = "bpr" if request.param == "embeddings" else request.param.split()[-1]
    settings = small_settings(method) | {"separate": request.param.startswith("separate"), "device": "cpu"}
    trained = mcne.fit(method, data, progress=False, **settings)
    return trained.embeddings if request.param == "embeddings" else trained


def test_behaviors_in_another_order_and_alone(model: Any, data: SocialDataset) -> None:
    expected = mcne.evaluate(model, data, mcne.split(data, seed=1)).summary()["behaviors"]
    turned = replace(data, behaviors=data.behaviors[::-1])
    assert mcne.evaluate(model, turned, mcne.split(turned, seed=1)).summary()["behaviors"] == expected
    one = data.only(1)
    alone = mcne.evaluate(model, one, mcne.split(one, seed=1)).summary()["behaviors"]
    assert alone == {"watch": expected["watch"]}


def test_data_of_the_training_need_no_split(data: SocialDataset) -> None:
    model = mcne.BPR(**small_settings("bpr"), device="cpu").fit(data, progress=False)
    assert mcne.evaluate(model, data).summary() == model.evaluate().summary()
    with refused(UsageError, place="evaluate", about="split"):
        mcne.evaluate(model, data.only(1))


@pytest.mark.parametrize("what", ["users", "items", "behaviors"])
def test_other_users_items_and_behaviors_are_refused(what: str, model: Any, data: SocialDataset) -> None:
    read = data.behaviors[0]
    other = {
        "users": replace(data, users=Ids(np.arange(1, 61))),
        "items": replace(data, behaviors=(replace(read, items=Ids(np.arange(1, read.n_items + 1))),)),
        "behaviors": replace(data, behaviors=(replace(read, name="heard"),)),
    }[what]
    with refused(UsageError, place="data"):
        mcne.evaluate(model, other, mcne.split(other))


def test_what_is_no_dataset_or_split_is_refused(model: Any, data: SocialDataset) -> None:
    with refused(UsageError, place="data", value="int"):
        mcne.evaluate(model, 3)  # type: ignore[arg-type] # wrong on purpose
    with refused(UsageError, place="split", value="int"):
        mcne.evaluate(model, data, 3)  # type: ignore[arg-type] # wrong on purpose
    if isinstance(model, Model):
        with refused(UsageError, place="split", value="int"):
            mcne.evaluate(model, split=3)  # type: ignore[arg-type] # wrong on purpose
    for wrong in ("random", data):
        with refused(UsageError, place="split", value=type(wrong).__name__):
            mcne.BPR().fit(data, wrong)  # type: ignore[arg-type] # wrong on purpose


def test_any_other_scorer_is_asked_by_place(data: SocialDataset) -> None:
    class Constant:
        def scores(self, behavior: int, users: Any, items: Any = None) -> Any:
            return np.zeros((len(users), data.behaviors[behavior].n_items) if items is None else items.shape, "f4")

    assert mcne.evaluate(Constant(), data, mcne.split(data)).behaviors.keys() == {"read", "watch"}
