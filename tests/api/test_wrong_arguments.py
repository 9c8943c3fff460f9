"""Arguments of the Python functions: NumPy's values are values; what is wrong is refused with place and remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from tests.errors import refused
from tests.small_training import sixty_users

import mcne
from mcne.data.dataset import SocialDataset
from mcne.data.split import random_split
from mcne.errors import UnknownError, UsageError


@pytest.fixture(scope="module")
def data() -> SocialDataset:
    return sixty_users()


# settings


def test_settings_of_numpy_are_plain_ones(data: SocialDataset) -> None:
    given: dict[str, Any] = {
        "widths": np.array([8, 8, 8]),
        "neighbor_samples": (np.int64(3), np.int32(3)),
        "epochs": np.int64(1),
        "l2": np.float64(0.5),
        "learning_rate": np.float32(0.25),
        "message": np.str_("neighbor"),
        "separate": np.False_,
        "batch_size": np.array(64),
        "attention_width": 4,
    }
    plain: dict[str, Any] = {
        "widths": (8, 8, 8),
        "neighbor_samples": (3, 3),
        "epochs": 1,
        "l2": 0.5,
        "learning_rate": 0.25,
        "batch_size": 64,
        "attention_width": 4,
    }
    model = mcne.MCNE(**given)
    assert repr(model) == repr(mcne.MCNE(**plain))
    assert model.get_params() == mcne.MCNE(**plain).get_params()
    assert repr(mcne.MCNE().set_params(**given)) == repr(model)
    assert clone(model).get_params() == model.get_params()
    assert model.fit(data, progress=False).fingerprint == mcne.MCNE(**plain).fit(data, progress=False).fingerprint
    by_hand = mcne.MCNE()
    by_hand.widths = np.array([4, 4])  # type: ignore[assignment] # as notebooks do
    assert repr(by_hand) == "MCNE(widths=(4, 4))"


def test_wrong_settings_of_numpy(data: SocialDataset) -> None:
    with refused(UsageError, place="setting epochs", value=1.5):
        mcne.BPR(epochs=np.float64(1.5)).fit(data)  # type: ignore[arg-type] # wrong on purpose
    with refused(UsageError, place="setting widths"):
        mcne.MCNE(widths=np.ones((2, 2))).fit(data)  # type: ignore[arg-type] # wrong on purpose


@pytest.mark.parametrize("separate", ["no", 1, None])
def test_separate_is_true_or_false(separate: Any, data: SocialDataset) -> None:
    with refused(UsageError, place="setting separate", value=separate):
        mcne.EASE(separate=separate).fit(data)
    with refused(UsageError, place="setting separate", value=separate):
        mcne.compare(data, [mcne.EASE(separate=separate)])


# splits and datasets


@pytest.mark.parametrize("seed", [None, "abc", 1.9])
@pytest.mark.parametrize("kind", ["random", "temporal", "last"])
def test_seeds_of_splits(seed: Any, kind: Any) -> None:
    timed = mcne.datasets.synthetic(users=500)
    with refused(UsageError, place="seed", value=seed):
        mcne.split(timed, kind, seed=seed)


@pytest.mark.parametrize(
    "ratios", [3, "abc", "70", (70, 10), (70, "10", 20), (70, None, 20), (-1, 1, 1), ([1], [2], [3])]
)
def test_ratios_of_splits(ratios: Any, data: SocialDataset) -> None:
    with refused(UsageError) as raised:
        mcne.split(data, ratios=ratios)
    assert raised.value.place.startswith("ratios")


def test_ratios_of_numpy(data: SocialDataset) -> None:
    wanted = random_split(data, seed=0, ratios=(80, 10, 10)).fingerprint
    assert mcne.split(data, seed=np.int64(0), ratios=np.array([80, 10, 10])).fingerprint == wanted  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("users", 500.0),
        ("users", "500"),
        ("seed", None),
        ("seed", "1"),
        ("behaviors", ["Books", "Movies"]),
        ("homophily", "high"),
        ("items_per_behavior", 400.5),
    ],
)
def test_settings_of_a_synthetic_network(name: str, value: Any) -> None:
    with refused(UsageError, place=name, value=value):
        mcne.datasets.synthetic(**{"users": 500, name: value})


def test_settings_of_a_synthetic_network_from_numpy() -> None:
    wanted = mcne.datasets.synthetic(users=500, seed=3, behaviors=2, links_per_user=4)
    users: Any = np.int64(500)
    made = mcne.datasets.synthetic(users=users, seed=np.int32(3), behaviors=np.int8(2), links_per_user=np.float32(4))  # type: ignore[arg-type]
    assert made.fingerprint == wanted.fingerprint


# ids


@pytest.mark.parametrize("method", ["popularity", "ease"])
@pytest.mark.parametrize("ids", [np.array([[1, 2], [3, 4]]), np.array(3), [[1, 2], [3, 4]], [[1, 2], [3]], [(1,)]])
def test_ids_that_are_no_list(ids: Any, method: str, data: SocialDataset) -> None:
    model = mcne.fit(method, data, progress=False)
    with refused(UsageError, place="user"):
        model.recommend(ids, "read")
    with refused(UsageError, place="item of behavior 'read'"):
        model.recommend(3, "read", exclude=ids)


def test_ids_that_are_lists(data: SocialDataset) -> None:
    model = mcne.Popularity().fit(data, progress=False)
    assert len(model.recommend(np.array([3, 4]), "read")) == 2
    assert model.recommend(np.int64(3), "read").ids == model.recommend(3, "read").ids  # type: ignore[call-overload]
    with refused(UnknownError, value=99):
        model.recommend([3, 99], "read")
