"""What methods without vectors save: no more than is told before, and refused where there is no room."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.errors import refused
from tests.small_training import saved as save_data
from tests.small_training import sixty_users, small_network, train_small

from mcne.data.dataset import SocialDataset
from mcne.data.split import random_split
from mcne.errors import DiskError
from mcne.models.registry import METHODS
from mcne.models.saved import saved
from mcne.report.cards import model_card
from mcne.text import human_bytes
from mcne.training.run import BEHAVIORS, LEARNED, RESULT, settings_of

NFM = {"width": 8, "epochs": 1}
CASES: list[tuple[str, Mapping[str, Any], str]] = [
    ("ease", {}, "a matrix of users by users"),
    ("userknn", {}, "the similarities of users that are neighbors"),
    ("userknn", {"neighbors": 3}, "the similarities of users that are neighbors"),
    ("itemknn", {}, "the similarities of items that are neighbors"),
    ("itemknn", {"neighbors": 3}, "the similarities of items that are neighbors"),
    ("nfm", {**NFM, "layers": [16, 4]}, "vectors of users, friends and items, and a network over them"),
    ("nfm", {**NFM, "batch_norm": True}, "vectors of users, friends and items, and a network over them"),
]


def arrays_of(path: Path) -> int:
    return sum(np.load(file, mmap_mode="r").nbytes for file in (path / LEARNED).glob("*.npy"))


@pytest.mark.parametrize(("method", "given", "form"), CASES)
def test_what_is_told_is_enough_and_not_much_more(
    method: str, given: Mapping[str, Any], form: str, tmp_path: Path
) -> None:
    dataset = small_network()
    config, _ = settings_of(method, given)
    told = saved(method, config, dataset, random_split(dataset, seed=0))
    assert told is not None
    assert told.form == form
    run = train_small(method, dataset, tmp_path / "run", settings=given)
    assert arrays_of(run.path) <= told.size <= 2 * arrays_of(run.path)


@pytest.mark.parametrize(("make", "side"), [(sixty_users, "items"), (small_network, "users")])
def test_a_matrix_is_of_the_fewer(make: Callable[[], SocialDataset], side: str) -> None:
    dataset = make()
    config, _ = settings_of("ease", {})
    told = saved("ease", config, dataset, random_split(dataset, seed=0))
    assert told is not None
    assert told.form == f"a matrix of {side} by {side}"
    fewer = min(dataset.n_users, sum(behavior.n_items for behavior in dataset.behaviors))
    assert 4 * fewer**2 < told.size < 8 * fewer**2


def test_every_method_without_vectors_tells_and_no_other() -> None:
    assert {name for name, each in METHODS.items() if each.saved} == {
        name for name, each in METHODS.items() if each.gives == "scores"
    }


@pytest.fixture
def dataset() -> SocialDataset:
    return sixty_users()


@pytest.mark.parametrize(
    ("method", "instead"), [("itemknn", "set fewer neighbors, or train bpr"), ("ease", "train bpr")]
)
def test_what_has_no_room_is_not_computed(
    method: str, instead: str, dataset: SocialDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, _ = settings_of(method, {})
    told = saved(method, config, dataset, random_split(dataset, seed=0))
    assert told is not None
    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=told.size - 1))
        with pytest.raises(DiskError, match=f"{method} saves {told.form}, up to {human_bytes(told.size)}") as raised:
            train_small(method, dataset, tmp_path / "run", settings={})
    assert (raised.value.place, raised.value.value) == (str(tmp_path / "run"), told.size)
    assert raised.value.remedy.startswith(f"free some space, choose another --out, or {instead}")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("mode", ["joint", "separate"])
def test_the_card_tells_form_and_size(mode: Any, dataset: SocialDataset, tmp_path: Path) -> None:
    save_data(dataset, tmp_path / "data")
    run = train_small("userknn", dataset, tmp_path / "run", settings={}, mode=mode)
    size = human_bytes(sum(file.stat().st_size for file in run.path.rglob("*.npy")))
    form = "the similarities of users that are neighbors"
    assert f"It answers from {form}, {size} on disk." in model_card(run, None, run.data())
    assert f"It answers from what it has learned, {size} on disk." in model_card(run, None, None)


def test_a_model_of_each_behavior_tells_their_forms(tmp_path: Path) -> None:
    """Behaviors differ in which of users and items are fewer."""
    dataset = with_few_items()
    run = train_small("ease", dataset, tmp_path / "runs" / "ease", mode="separate")
    card = model_card(run, None, (dataset, random_split(dataset, seed=0)))
    assert "It answers from a matrix of items by items and a matrix of users by users, " in card


def test_the_room_for_all_behaviors_is_known_before_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = with_few_items()
    split = random_split(dataset, seed=0)
    config, _ = settings_of("ease", {})
    parts = [saved("ease", config, one, split.only(k, one)) for k, one in enumerate(map(dataset.only, range(2)))]
    sizes = [part.size for part in parts if part is not None]
    usage = shutil.disk_usage(tmp_path)
    train = partial(train_small, "ease", dataset, tmp_path / "run", settings={}, mode="separate", resume=True)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=sum(sizes) - 1))
        with refused(DiskError, place="run", value=sum(sizes)):
            train()
        assert not (tmp_path / "run").exists()
    train()
    (tmp_path / "run" / RESULT).unlink()
    shutil.rmtree(tmp_path / "run" / BEHAVIORS / "1")
    with monkeypatch.context() as patch:  # what is finished is on the disk already
        patch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=sizes[1]))
        train()


def with_few_items() -> SocialDataset:
    """60 users with 30 items of a behavior, and 200 of another."""
    few = sixty_users()
    rows = {"user_id": [n % 60 for n in range(200)], "item_id": list(range(200)), "behavior": ["see"] * 200}
    many = SocialDataset.from_frames(pa.table(rows))
    return replace(few, behaviors=(few.behaviors[0], many.behaviors[0]))
