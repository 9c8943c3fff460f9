"""Models kept on disk, by ``save`` or by ``out``, give back their class, settings and data; temporary ones clean up."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.errors import refused
from tests.small_training import saved, sixty_users, small_settings, train_small, transfer_small

import mcne
from mcne.api.methods import Extended
from mcne.data.dataset import SocialDataset
from mcne.data.split import random_split
from mcne.errors import MissingError
from mcne.models.registry import entry

TINY: dict[str, Any] = small_settings("mcne", device="cpu", widths=(8, 8, 8), neighbor_samples=(3, 3))


@pytest.fixture(scope="module")
def data() -> SocialDataset:
    return sixty_users(users=pa.table({"user_id": list(range(60)), "age": [float(user % 7) for user in range(60)]}))


def records(first: int) -> pa.Table:
    """40 records of the users 0 to 39, with items from ``first`` on."""
    return pa.table({"user_id": list(range(40)), "item_id": [first + user % 9 for user in range(40)]})


# data


@pytest.mark.parametrize("is_kept", [False, True])
def test_an_added_behavior_stands_beside_the_earlier_ones(is_kept: bool, data: SocialDataset, tmp_path: Path) -> None:
    model = mcne.MCNE(**TINY).fit(data, progress=False)
    place = tmp_path / "model"
    model.add_behavior("games", records(100), out=place if is_kept else None, progress=False)
    expected = model.evaluate().summary()
    assert list(expected["behaviors"]) == ["read", "watch", "games"]
    if not is_kept:
        model.save(place)
    opened: Any = mcne.load(place)
    assert opened.data()[0].behavior_names == ["read", "watch", "games"]
    assert opened.evaluate().summary() == expected
    opened.save(tmp_path / "again")
    again: Any = mcne.load(tmp_path / "again")
    assert again.evaluate().summary() == expected
    again.add_behavior("music", records(200), progress=False).save(tmp_path / "two")
    two: Any = mcne.load(tmp_path / "two")
    summary = two.evaluate().summary()["behaviors"]
    assert list(summary) == ["read", "watch", "games", "music"]
    assert {name: summary[name] for name in expected["behaviors"]} == expected["behaviors"]


def test_a_run_of_the_command_keeps_its_own_data_and_what_is_added(data: SocialDataset, tmp_path: Path) -> None:
    base = mcne.MCNE(**TINY).fit(data, progress=False)
    new = SocialDataset.from_frames(records(100), single_behavior="games")
    settings = {"epochs": 1, "batch_size": 64, "neighbor_samples": [3, 3]}
    split = random_split(new, seed=0)
    transfer_small(base.embeddings, new, split, tmp_path / "run", behavior="games", settings=settings)
    opened: Any = mcne.load(tmp_path / "run")
    assert type(opened) is Extended
    opened.add_behavior("music", records(200), progress=False).save(tmp_path / "two")
    two: Any = mcne.load(tmp_path / "two")
    assert type(two) is Extended
    assert list(two.evaluate().summary()["behaviors"]) == ["games", "music"]
    assert two.behavior_names == ["read", "watch", "games", "music"]


# class and settings


@pytest.mark.parametrize("initial", ["free", "attributes", "both"])
def test_what_is_kept_in_a_directory_keeps_its_class(initial: Any, data: SocialDataset, tmp_path: Path) -> None:
    model = mcne.MCNE(**TINY, initial=initial, l2=0.5).fit(data, out=tmp_path / "run", progress=False)
    opened = mcne.load(tmp_path / "run")
    assert type(opened) is mcne.MCNE
    assert opened.get_params() == model.get_params() | {"device": "auto"}
    model.add_behavior("games", records(100), out=tmp_path / "more", progress=False)
    more = mcne.load(tmp_path / "more")
    assert type(more) is mcne.MCNE
    assert more.get_params() == model.get_params() | {"device": "auto"}


def test_the_class_is_that_of_the_last_training(data: SocialDataset, tmp_path: Path) -> None:
    mcne.MCNE(**TINY, initial="both").fit(data, out=tmp_path / "run", progress=False)
    settings = TINY | {"initial": "both"}
    mcne.MCNEAttributes(**settings).fit(data, out=tmp_path / "run", resume=True, progress=False)
    assert type(mcne.load(tmp_path / "run")) is mcne.MCNEAttributes


def test_settings_are_those_of_the_training(data: SocialDataset, tmp_path: Path) -> None:
    model = mcne.MCNE(**TINY, initial="both").fit(data, progress=False)
    trained = model.get_params() | {"device": "auto"}
    model.set_params(l2=7.0, initial="free").save(tmp_path / "model")
    opened: Any = mcne.load(tmp_path / "model")
    assert opened.get_params() == trained
    opened.set_params(l2=8.0).add_behavior("games", records(100), progress=False).save(tmp_path / "more")
    more: Any = mcne.load(tmp_path / "more")
    assert more.get_params() == trained


def test_settings_that_a_run_does_not_hold_are_attributes_too(data: SocialDataset, tmp_path: Path) -> None:
    mcne.ItemKNN().fit(data, out=tmp_path / "run", progress=False)
    mcne.MCNE(**TINY).fit(data, progress=False).add_behavior("games", records(100), out=tmp_path / "e", progress=False)
    (tmp_path / "e" / "model.json").unlink()
    code = """if True:
        import sys, mcne
        model = mcne.load(sys.argv[1])
        assert "torch" not in sys.modules
        assert not hasattr(model, "_weighted_records") and "torch" not in sys.modules
        assert model.weighted_records is False and model.device == "auto"
        assert mcne.load(sys.argv[2]).separate is False
        assert not hasattr(model, "nothing")
    """
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "run", tmp_path / "e"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


# what is missing


def test_a_model_whose_dataset_moved_can_be_shown_and_saves_its_vectors(data: SocialDataset, tmp_path: Path) -> None:
    for method in ("bpr", "ease"):
        saved(data, tmp_path / "data")
        train_small(method, data, tmp_path / method)
        shutil.rmtree(tmp_path / "data")
        opened: Any = mcne.load(tmp_path / method)
        assert repr(opened).startswith(entry(method).class_name)
        with refused(MissingError, place=method) as raised:
            opened.save(tmp_path / "model")
        assert ("model.embeddings.save(path)" in raised.value.remedy) == (method == "bpr")
        assert not (tmp_path / "model").exists()
    opened = mcne.load(tmp_path / "bpr")
    parts = mcne.split(data)
    assert mcne.evaluate(opened, data, parts).summary() == mcne.evaluate(opened.embeddings, data, parts).summary()


# temporary runs


@pytest.mark.parametrize(("method", "separate"), [("ease", False), ("ease", True), ("bpr", False)])
def test_a_scorer_outlives_its_model(method: str, separate: bool, data: SocialDataset) -> None:
    model = mcne.fit(method, data, separate=separate, progress=False, **small_settings(method))
    path = model._trained.run.path
    expected = mcne.fit(method, data, separate=separate, progress=False, **small_settings(method)).scorer()
    users = np.arange(3)
    scorer = model.scorer()
    del model
    gc.collect()
    assert scorer.scores(1, users).tolist() == expected.scores(1, users).tolist()
    del scorer
    gc.collect()
    assert not path.exists()


def test_a_forked_child_leaves_the_run_of_its_parent(data: SocialDataset) -> None:
    code = """if True:
        import os, sys, mcne
        from tests.small_training import sixty_users
        model = mcne.EASE().fit(sixty_users(), progress=False)
        path = model._trained.run.path
        if not os.fork():
            sys.exit()
        os.wait()
        assert path.is_dir()
        model.recommend(3, "read")
        print(path)
    """
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert not Path(done.stdout.strip()).exists()
