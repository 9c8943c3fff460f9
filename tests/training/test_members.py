"""Members: several trainings that differ by their seeds, averaged in one artifact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.errors import refused
from tests.small_training import small_network, train_small
from tests.values import not_none

from mcne.data.dataset import SocialDataset
from mcne.data.split import Split, random_split
from mcne.errors import Interrupted, UsageError
from mcne.evaluation.protocol import evaluate
from mcne.report.figures import learning
from mcne.training.journal import RunJournal
from mcne.training.run import MEMBERS, Mode, Run

SMALL = {"width": 8, "epochs": 2}


@pytest.fixture(scope="module")
def network() -> tuple[SocialDataset, Split]:
    dataset = small_network()
    return dataset, random_split(dataset, seed=0)


def train(network: tuple[SocialDataset, Split], path: Path, method: str = "mcne-plus", **changes: object) -> Run:
    dataset, split = network
    return train_small(method, dataset, path, split=split, settings=SMALL | changes)


def test_scores_are_the_mean_of_the_members(network: tuple[SocialDataset, Split], tmp_path: Path) -> None:
    run = train(network, tmp_path / "three", members=3)
    members = [Run.open(tmp_path / "three" / MEMBERS / str(k)) for k in range(3)]
    assert len({member.fingerprint for member in members}) == len({member.spec.seed for member in members}) == 3
    users = np.arange(500)
    for k in range(2):
        scores = np.mean([member.embeddings.scores(k, users) for member in members], axis=0)
        np.testing.assert_allclose(run.embeddings.scores(k, users), scores, rtol=1e-4, atol=1e-6)
    assert run.embeddings.width == 24
    assert run.result["parameters"] == sum(member.result["parameters"] for member in members)
    validated = evaluate(run.embeddings, *network, part="validation").overall("ndcg@5")
    assert run.result["ndcg@5"] == pytest.approx(not_none(validated))


def test_the_first_member_is_the_run_without_others(network: tuple[SocialDataset, Split], tmp_path: Path) -> None:
    alone = train(network, tmp_path / "alone")
    train(network, tmp_path / "two", members=2)
    first = Run.open(tmp_path / "two" / MEMBERS / "0")
    assert first.spec.identity == alone.spec.identity
    assert first.fingerprint == alone.fingerprint
    assert "members" not in alone.spec.schedule


def test_an_interrupted_training_goes_on(
    network: tuple[SocialDataset, Split], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(network, tmp_path / "whole", "bpr", members=2)
    record, calls = RunJournal.record, iter(range(100))

    def stopped(self: RunJournal, *args: object, **options: object) -> None:
        record(self, *args, **options)  # type: ignore[arg-type] # as it was called
        if next(calls) == 2:  # in the second member
            raise Interrupted("stopped", remedy="--resume continues it", signal_number=2)

    with monkeypatch.context() as patch:
        patch.setattr(RunJournal, "record", stopped)
        with pytest.raises(Interrupted):
            train(network, tmp_path / "stopped", "bpr", members=2)
    resumed = train_small(
        "bpr", network[0], tmp_path / "stopped", split=network[1], settings=SMALL | {"members": 2}, resume=True
    )
    assert resumed.fingerprint == whole.fingerprint


def test_each_behavior_can_have_members(network: tuple[SocialDataset, Split], tmp_path: Path) -> None:
    dataset, split = network
    run = train_small("bpr", dataset, tmp_path / "run", split=split, settings=SMALL | {"members": 2}, mode="separate")
    assert run.embeddings.width == 2 * 2 * 8


@pytest.mark.parametrize("method", ["ease", "mcne", "soft-gate"])
def test_only_vectors_without_a_network_can_be_averaged(
    method: str, network: tuple[SocialDataset, Split], tmp_path: Path
) -> None:
    with refused(UsageError, place="setting members", value=2):
        train_small(method, network[0], tmp_path / "run", split=network[1], settings={"members": 2})


@pytest.mark.parametrize("mode", ["joint", "separate"])
def test_a_report_shows_the_curves_of_all(mode: Mode, network: tuple[SocialDataset, Split], tmp_path: Path) -> None:
    dataset, split = network
    run = train_small("bpr", dataset, tmp_path / "run", split=split, settings=SMALL | {"members": 2}, mode=mode)
    section = not_none(learning(run))
    assert len(section.parts) > 0
    assert not section.lacks
