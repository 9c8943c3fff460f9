"""``model.add_behavior``: a behavior from a table, earlier answers untouched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.errors import refused

import mcne
from mcne.data.dataset import SocialDataset
from mcne.errors import ArtifactError, DataError, UsageError

TINY: dict[str, Any] = {
    "widths": (8, 8),
    "neighbor_samples": (3,),
    "attention_width": 4,
    "batch_size": 64,
    "epochs": 2,
    "device": "cpu",
}


def records(n_users: int, *, seed: int) -> dict[str, list[int]]:
    chance = np.random.default_rng(seed)
    drawn = [(user, int(item)) for user in range(n_users) for item in chance.choice(30, 6, replace=False)]
    return dict(zip(("user_id", "item_id"), map(list, zip(*drawn, strict=True)), strict=True))


@pytest.fixture
def model() -> mcne.MCNE:
    parts = {name: records(60, seed=seed) for seed, name in enumerate(("read", "watch"))}
    behavior = [name for name, part in parts.items() for _ in part["user_id"]]
    columns = {key: [value for part in parts.values() for value in part[key]] for key in ("user_id", "item_id")}
    links = np.random.default_rng(9).integers(0, 60, (150, 2))
    links = links[links[:, 0] != links[:, 1]]
    data = SocialDataset.from_frames(
        pa.table(columns | {"behavior": behavior}), pa.table({"source_id": links[:, 0], "target_id": links[:, 1]})
    )
    return mcne.MCNE(**TINY).fit(data, progress=False)


def asked(model: mcne.MCNE) -> list[list[tuple[Any, float]]]:
    rankings = [*model.recommend([0, 5], "read"), *model.similar_users([0, 5], "watch"), *model.similar_users([0, 5])]
    return [list(ranking) for ranking in rankings]


def test_a_behavior_is_added_and_nothing_changes(model: mcne.MCNE) -> None:
    before = model.embeddings
    answers = asked(model)
    measured = model.evaluate().summary()["behaviors"]
    assert model.add_behavior("play", pa.table(records(50, seed=7)), progress=False) is model
    assert model.embeddings.behavior_names == ["read", "watch", "play"]
    assert asked(model) == answers
    for old, new in zip(before.spaces, model.embeddings.spaces, strict=False):
        assert (old.mask.tobytes(), old.item_vectors.tobytes()) == (new.mask.tobytes(), new.item_vectors.tobytes())
    assert before.vectors.tobytes() == model.embeddings.vectors.tobytes()
    assert len(model.recommend(3, "play", k=5)) == 5
    assert len(model.similar_users(55, "play", k=5)) == 5  # who has no record of it
    evaluated = model.evaluate().summary()["behaviors"]
    assert {name: evaluated[name] for name in measured} == measured
    assert evaluated["play"]["users"] > 0
    model.add_behavior("cook", pa.table(records(40, seed=8)), progress=False)
    assert model.embeddings.behavior_names[-2:] == ["play", "cook"]
    assert "play, cook" in repr(model)


def test_the_same_seed_gives_the_same_bytes_with_or_without_a_directory(model: mcne.MCNE, tmp_path: Path) -> None:
    again = mcne.MCNE(**TINY)
    again._fitted = model._fitted
    model.add_behavior("play", pa.table(records(50, seed=7)), progress=False, out=tmp_path / "run")
    again.add_behavior("play", pa.table(records(50, seed=7)), progress=False)
    assert model.embeddings.fingerprint == again.embeddings.fingerprint == mcne.load(tmp_path / "run").fingerprint


def test_a_saved_model_keeps_its_class_and_settings(model: mcne.MCNE, tmp_path: Path) -> None:
    model.add_behavior("play", pa.table(records(50, seed=7)), progress=False)
    model.save(tmp_path / "model")
    again = mcne.load(tmp_path / "model")
    assert isinstance(again, mcne.MCNE)
    assert again.get_params() == model.get_params() | {"device": "auto"}
    assert again.recommend(3, "play").ids == model.recommend(3, "play").ids
    again.save(tmp_path / "copy")
    assert type(mcne.load(tmp_path / "copy")) is mcne.MCNE
    (tmp_path / "copy" / "model.json").write_text('{"method": "mcnn"}')
    with refused(ArtifactError, place="model.json"):
        mcne.load(tmp_path / "copy")


def test_mistakes_leave_the_model_as_it_was(model: mcne.MCNE) -> None:
    before = model.embeddings
    table = pa.table(records(50, seed=7))
    for kind, message, name, given in (
        (UsageError, "behavior 'read' is already", "read", table),
        (UsageError, "name: '' ", "", table),
        (UsageError, "cannot all be 'play'", "play", table.append_column("behavior", pa.array(["x"] * 300))),
        (DataError, "play: none of its 50 users", "play", _moved(table, 1000)),
        (DataError, "play: .* of its 60 users, with 120 of its 360", "play", _moved(pa.table(records(60, seed=7)), 20)),
    ):
        with pytest.raises(kind, match=message):
            model.add_behavior(name, given, progress=False)
    assert model.embeddings is before
    with pytest.raises(UsageError, match="not trained yet"):
        mcne.MCNE().add_behavior("play", table)


def _moved(table: pa.Table, by: int) -> pa.Table:
    users = pa.array(np.asarray(table["user_id"]) + by)
    return table.set_column(0, "user_id", users)
