"""A million users from generation to disk and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mcne.data.dataset import SocialDataset
from mcne.data.split import TEST, random_split
from mcne.data.synthetic import SyntheticConfig, generate


@pytest.mark.slow
def test_a_million_users_survive_the_disk_and_split(tmp_path: Path) -> None:
    dataset, planted = generate(SyntheticConfig(users=1_000_000, behaviors=2, records_per_user=2.0, seed=1))
    assert dataset.graph.n_directions > 19_000_000
    assert len(planted.tastes(0)) == 1_000_000
    saved = dataset.save(tmp_path / "large")
    loaded = SocialDataset.load(tmp_path / "large")
    assert saved == loaded.fingerprint == dataset.fingerprint
    assert np.array_equal(loaded.graph.indices, dataset.graph.indices)
    split = random_split(loaded, seed=0, ratios=(98, 1, 1))
    for k, behavior in enumerate(loaded.behaviors):
        drawn = split.negatives["test"]["uniform"][k]
        user, item = split.of(behavior, k, TEST)
        assert np.array_equal(drawn.users, np.unique(user))
        touched = behavior.user.astype(np.int64) * behavior.n_items + behavior.item
        negatives = drawn.users[:, None].astype(np.int64) * behavior.n_items + drawn.items
        assert not np.isin(negatives, touched).any()
        assert drawn.n_short == 0
        assert len(item) == pytest.approx(len(behavior) / 100, abs=1)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_million_users() -> None:
    config = SyntheticConfig(users=1_000_000, behaviors=2, records_per_user=1.0, seed=2)
    assert generate(config)[0].fingerprint == generate(config)[0].fingerprint
