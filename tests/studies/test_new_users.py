"""``mcne compare-new-users``: new users are served better than by popularity, and a trial that was stopped goes on."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.errors import refused
from tests.small_training import ON_PLANTED, small_network
from typer.testing import CliRunner

from mcne.cli.main import app
from mcne.data.behavior import Attribute
from mcne.data.dataset import SocialDataset
from mcne.data.ids import Ids
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.errors import ArtifactError, DivergedError, UsageError
from mcne.evaluation.protocol import evaluate
from mcne.studies.new_users import SUMMARY, Trial, _popularity, hold_out, summarize
from mcne.training import Run, Training
from mcne.training.journal import Reporter

SMALL = {"widths": [8, 6], "neighbor_samples": [3], "attention_width": 4, "epochs": 1, "batch_size": 512}


def silent(_: str) -> AbstractContextManager[Reporter]:
    return nullcontext(Reporter())


@pytest.fixture(scope="module")
def data() -> SocialDataset:
    return small_network()


@pytest.fixture(scope="module")
def done(data: SocialDataset, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("trial") / "out"
    trial = Trial("mcne", SMALL, in_training=True)
    return out, trial.run(data, out, seeds=2, device="cpu", reporting=silent, say=print)


def test_every_way_is_measured(done: tuple[Path, dict[str, Any]]) -> None:
    out, summary = done
    assert list(summary["mean"]) == ["popularity", "in training", "friends", "history", "friends and history"]
    assert json.loads((out / SUMMARY).read_text()) == summary
    for seed in summary["seeds"]:
        assert seed["users"]["held_out"] == 50
        assert seed["users"]["kept"] == 450
        users = [way["behaviors"]["Books"]["users"] for way in seed["ways"].values()]
        assert len(set(users)) == 1
    first, second = (seed["ways"]["history"]["mean"]["ndcg@5"] for seed in summary["seeds"])
    told = summary["mean"]["history"]["ndcg@5"]
    assert told["mean"] == pytest.approx((first + second) / 2)
    assert told["sd"] == pytest.approx(abs(first - second) / 2**0.5)


def test_one_seed_has_no_deviation(done: tuple[Path, dict[str, Any]]) -> None:
    assert summarize(done[1]["seeds"][:1])["friends"]["recall@5"]["sd"] is None


def test_its_runs_are_runs(done: tuple[Path, dict[str, Any]]) -> None:
    run = Run.open(done[0] / "seed-0" / "kept" / "run")
    dataset, split = run.data()
    assert evaluate(run.embeddings, dataset, split).overall("ndcg@5") is not None


def test_popularity_counts_kept_training_records_alone(data: SocialDataset) -> None:
    held = hold_out(data, share=0.1, seed=0)
    scores = _popularity(held).scores(0, held.asked)
    behavior, part = held.kept.behaviors[0], held.kept_split.parts[0]
    assert np.array_equal(scores[0], np.bincount(behavior.item[part == 0], minlength=behavior.n_items))
    assert np.array_equal(scores[0], scores[-1])


def test_it_goes_on_where_it_was(data: SocialDataset, done: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """One seed first, then both; a result that is lost is made again from its run."""
    trial = Trial("mcne", SMALL, in_training=True)
    trial.run(data, tmp_path / "out", seeds=1, device="cpu", reporting=silent, say=print)
    (tmp_path / "out" / "seed-0" / "result.json").unlink()
    again = trial.run(data, tmp_path / "out", seeds=2, device="cpu", reporting=silent, say=print)
    assert again == done[1]


def test_another_trial_is_refused(data: SocialDataset, done: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    out = done[0]
    before = (out / SUMMARY).read_bytes()
    with refused(ArtifactError, place="out", value="share, in_training"):
        Trial("mcne", SMALL, share=0.2).run(data, out, seeds=1, device="cpu", reporting=silent, say=print)
    assert (out / SUMMARY).read_bytes() == before
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(UsageError, match=r"is not a study of new users \(letter\); choose"):
        Trial("mcne", SMALL).run(data, tmp_path, seeds=1, device="cpu", reporting=silent, say=print)


def test_a_failed_seed_is_raised_as_it_is(data: SocialDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def diverge(*_: object, **__: object) -> None:
        raise DivergedError("the loss is not finite")

    monkeypatch.setattr(Training, "run", diverge)
    with pytest.raises(DivergedError, match="the loss is not finite"):
        Trial("mcne", SMALL).run(data, tmp_path / "out", seeds=1, device="cpu", reporting=silent, say=print)
    assert not (tmp_path / "out" / SUMMARY).exists()


def test_what_cannot_be_tried_is_refused_at_once(data: SocialDataset, tmp_path: Path) -> None:
    with refused(UsageError, value="bpr"):
        Trial("bpr", {})
    with refused(UsageError, place="share", value=1.0):
        Trial("mcne", {}, share=1.0)
    with pytest.raises(UsageError, match="mcne-attributes needs user attributes"):
        Trial("mcne-attributes", {}).run(data, tmp_path / "out", seeds=1, device="cpu", reporting=silent, say=print)
    assert not list(tmp_path.iterdir())


def test_the_command_prints_a_table_or_json(data: SocialDataset, tmp_path: Path) -> None:
    cities = Attribute(np.arange(500, dtype=np.int32) % 5, Ids(list("abcde")))
    replace(data, attributes={"city": cities}).save(tmp_path / "data")
    settings = [f"--set={name}={value}" for name, value in SMALL.items()]
    where = ["--data", str(tmp_path / "data"), "--out", str(tmp_path / "out"), "--seeds", "1", "--device", "cpu"]
    command = ["compare-new-users", "--method", "mcne-attributes", *where, *settings]
    first = CliRunner().invoke(app, command)
    assert first.exit_code == 0, first.output
    assert "epoch 1/1" in first.stderr
    lines = [line.split("  ")[0] for line in first.stdout.splitlines()[-6:]]
    assert lines == ["popularity", "friends", "history", "friends and history", "attributes", "all three"]
    again = CliRunner().invoke(app, [*command, "--json"])
    assert json.loads(again.stdout) == json.loads((tmp_path / "out" / SUMMARY).read_text())
    mean = json.loads(again.stdout)["mean"]["all three"]["ndcg@5"]["mean"]
    assert f"{100 * mean:.2f}" in first.stdout


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_new_users_are_served_better_than_by_popularity(seed: int, tmp_path: Path) -> None:
    """From friends and history by far; from either alone too."""
    dataset, _ = generate(SyntheticConfig(users=1000, seed=seed))
    trial = Trial("mcne", ON_PLANTED["mcne"])
    means = trial.run(dataset, tmp_path / "out", seeds=1, device="cpu", reporting=silent, say=print)["mean"]
    ndcg = {way: means[way]["ndcg@5"]["mean"] for way in means}
    assert ndcg["friends and history"] >= 1.5 * ndcg["popularity"]
    assert ndcg["history"] > ndcg["popularity"]
    assert ndcg["friends"] > ndcg["popularity"]


@pytest.mark.slow
@pytest.mark.parametrize("initial", ["both", "attributes"])
def test_attributes_serve_users_of_whom_nothing_else_is_told(initial: str, tmp_path: Path) -> None:
    """By far better than popularity does; all that is told together does better than friends or attributes alone."""
    dataset, _ = generate(SyntheticConfig(users=1000, attributes=96))
    trial = Trial("mcne-attributes", {**ON_PLANTED["mcne"], "epochs": 40, "initial": initial})
    means = trial.run(dataset, tmp_path / "out", seeds=1, device="cpu", reporting=silent, say=print)["mean"]
    ndcg = {way: means[way]["ndcg@5"]["mean"] for way in means}
    assert ndcg["attributes"] >= 1.5 * ndcg["popularity"]
    assert ndcg["all three"] > max(ndcg["friends"], ndcg["attributes"])
