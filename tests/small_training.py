"""Small datasets, and methods trained on them within moments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from mcne import training
from mcne.data.dataset import SocialDataset
from mcne.data.split import DIRECTORY, Split, random_split
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.embeddings import ConditionalEmbeddings
from mcne.extend.transfer import transfer
from mcne.models.registry import entry
from mcne.models.settings import TrainingSettings
from mcne.training.journal import Reporter
from mcne.training.run import TRANSFER

SMALL: Mapping[str, Any] = {
    "widths": [8, 8, 8],
    "neighbor_samples": [3, 3],
    "attention_width": 4,
    "width": 8,
    "batch_size": 256,
    "epochs": 1,
}


ON_PLANTED: Mapping[str, Mapping[str, Any]] = {
    "popularity": {},
    "bpr": {"epochs": 100, "l2": 0.02},
    "mcne": {
        "epochs": 100,
        "widths": [64, 64],
        "attention_width": 16,
        "neighbor_samples": [5],
        "last_activation": False,
        "batch_size": 512,
        "learning_rate": 0.02,
        "l2": 0.03,
    },
}
"""Settings found by hand for planted networks of 2,000 users."""


def small_settings(method: str, **changes: Any) -> dict[str, Any]:
    """Settings that make a method small, of those that it has, and one epoch; ``changes`` come on top."""
    names = {field.name for kind in (entry(method).config, TrainingSettings) for field in fields(kind)}
    return {name: value for name, value in SMALL.items() if name in names} | changes


def sixty_users(**tables: Any) -> SocialDataset:
    """60 users with six items each in ``read`` and ``watch``; the last has no links. ``tables`` as ``users=…``."""
    random = np.random.default_rng(0)
    rows = [(user, item, name) for name in ("read", "watch") for user in range(60) for item in random.choice(30, 6)]
    links = [(user, int(other)) for user in range(59) for other in random.integers(0, 59, 3)]
    return SocialDataset.from_frames(
        pa.table(dict(zip(("user_id", "item_id", "behavior"), map(list, zip(*rows, strict=True)), strict=True))),
        pa.table(dict(zip(("source_id", "target_id"), map(list, zip(*links, strict=True)), strict=True))),
        name="small",
        **tables,
    )


def nearly_all_known(dataset: SocialDataset) -> tuple[SocialDataset, NDArray[np.int64]]:
    """The dataset with all items that users lack known to them but one, and that one, [behaviors, users]."""
    behaviors = []
    left = []
    for behavior in dataset.behaviors:
        lacks = np.ones((dataset.n_users, behavior.n_items), dtype=bool)
        lacks[behavior.user, behavior.item] = False
        left.append(lacks.argmax(axis=1))
        lacks[np.arange(dataset.n_users), left[-1]] = False
        user, item = (rows.astype(np.int32) for rows in np.nonzero(lacks))
        behaviors.append(replace(behavior, known_user=user, known_item=item))
    return replace(dataset, behaviors=tuple(behaviors)), np.array(left)


def small_network(**changes: Any) -> SocialDataset:
    """500 users with two planted behaviors; ``changes`` are settings of the network."""
    return generate(SyntheticConfig(**{"users": 500, "behaviors": 2} | changes))[0]


def saved(dataset: SocialDataset, path: Path) -> Split:
    """Save a dataset with the split ``random-0``, and return the split."""
    split = random_split(dataset, seed=0)
    dataset.save(path)
    split.save(path / DIRECTORY / "random-0")
    return split


def train_small(
    method: str,
    dataset: SocialDataset,
    path: Path,
    *,
    split: Split | None = None,
    settings: Mapping[str, Any] | None = None,
    seed: int = 0,
    mode: training.Mode = "joint",
    resume: bool = False,
    dataset_path: str = "../data",
    reporter: Reporter | None = None,
) -> training.Run:
    """Train a method on one CPU into ``path``, silently, and return the finished run.

    Without ``split`` the random one of seed 0 is used, and without ``settings`` those of :func:`small_settings`.
    ``dataset_path`` is where the run finds its dataset again, relative to itself.
    """
    return training.Training(
        method,
        dataset,
        random_split(dataset, seed=0) if split is None else split,
        settings=small_settings(method) if settings is None else settings,
        seed=seed,
        device=torch.device("cpu"),
        places={"dataset": dataset_path, "split": "random-0"},
        reporter=Reporter() if reporter is None else reporter,
        mode=mode,
    ).run(path, resume=resume)


def transfer_small(
    base: ConditionalEmbeddings,
    dataset: SocialDataset,
    split: Split,
    path: Path,
    *,
    behavior: str,
    settings: Mapping[str, Any],
    seed: int = 0,
    resume: bool = False,
    reporter: Reporter | None = None,
    reports_memory: bool = False,
    skip_unknown: bool = False,
) -> training.Run:
    """Bring a behavior to trained embeddings on one CPU, silently, and return the finished run."""
    added = training.Training(
        TRANSFER,
        dataset,
        split,
        settings=settings,
        seed=seed,
        device=torch.device("cpu"),
        places={"split": "random-0"},
        reporter=Reporter() if reporter is None else reporter,
        reports_memory=reports_memory,
    )
    return transfer(base, added, path, behavior=behavior, resume=resume, skip_unknown=skip_unknown)
