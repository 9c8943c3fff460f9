"""A whole run, selection on validation included, is the same whatever is in the test part."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.contract.cases import CASES
from tests.contract.suite import Network, network, with_parts
from tests.small_training import train_small

from mcne import training
from mcne.data.behavior import Behavior
from mcne.data.split import TEST, TRAIN, VALIDATION, supplied_split
from mcne.models.registry import METHODS

FIRST_CASES = {method: next(case for case in CASES.values() if case.method == method) for method in METHODS}


@cache
def networks() -> tuple[Network, Network]:
    """The same training and validation pairs over the same catalogs, and other test pairs."""
    dataset = network()[0]
    random = np.random.default_rng(3)
    known = []
    for each in dataset.behaviors:
        part = np.where(random.random(len(each)) < 0.8, TRAIN, VALIDATION).astype(np.uint8)
        known.append((each.user.astype(np.int64) * each.n_items + each.item, part))
    made = []
    for _ in range(2):
        behaviors, parts = [], []
        for each, (keys, part) in zip(dataset.behaviors, known, strict=True):
            test = np.setdiff1d(random.integers(0, dataset.n_users * each.n_items, 1500), keys)
            every = np.concatenate([keys, test])
            order = np.argsort(every)
            user, item = np.divmod(every[order], each.n_items)
            behaviors.append(Behavior(each.name, each.items, user.astype(np.int32), item.astype(np.int32)))
            parts.append(np.concatenate([part, np.full(len(test), TEST, np.uint8)])[order])
        changed = with_parts(dataset, behaviors=tuple(behaviors))
        made.append((changed, supplied_split(changed, parts, seed=0)))
    return made[0], made[1]


def trained(method: str, one: Network, path: Path, mode: training.Mode) -> tuple[bytes, list[bytes]]:
    """What a run recorded on its way, and all its scores."""
    dataset, split = one
    settings = {**FIRST_CASES[method].settings, "epochs": 3, "patience": 1}
    run = train_small(method, dataset, path, split=split, settings=settings, seed=1, mode=mode)
    recorded = b"".join(each.read_bytes() for each in sorted(path.rglob("metrics.jsonl")))
    scorer = run.scorer(dataset, split)
    users = np.arange(dataset.n_users)
    return recorded, [scorer.scores(k, users).tobytes() for k in range(len(dataset.behaviors))]


@pytest.mark.parametrize("method", METHODS)
def test_other_test_pairs_change_nothing(method: str, tmp_path: Path) -> None:
    one, other = networks()
    assert one[1].fingerprint != other[1].fingerprint
    outputs = [trained(method, each, tmp_path / str(at), "joint") for at, each in enumerate((one, other))]
    assert b"validation" in outputs[0][0]
    assert outputs[0] == outputs[1]


def test_nor_where_behaviors_are_trained_alone(tmp_path: Path) -> None:
    outputs = [trained("bpr", each, tmp_path / str(at), "separate") for at, each in enumerate(networks())]
    assert outputs[0] == outputs[1]


def test_other_validation_pairs_would_be_noticed(tmp_path: Path) -> None:
    """So the comparison above can fail: a run does look at validation."""
    dataset, split = networks()[0]
    moved = [np.where(part == VALIDATION, TEST, np.where(part == TEST, VALIDATION, part)) for part in split.parts]
    other = dataset, supplied_split(dataset, moved, seed=0)
    assert trained("bpr", (dataset, split), tmp_path / "0", "joint") != trained("bpr", other, tmp_path / "1", "joint")
