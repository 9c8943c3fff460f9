"""A transfer tells the memory that it needs, and does not begin where there is less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.extend.later_behavior import NEW, Whole, files_of
from tests.small_training import transfer_small

from mcne import training
from mcne.embeddings import ConditionalEmbeddings
from mcne.errors import UsageError
from mcne.extend.checks import settings_of
from mcne.extend.transfer import aligned
from mcne.models import tables
from mcne.models.memory import Estimate, TrainingSize, estimate_transfer
from mcne.training import resources
from mcne.training.journal import Reporter


class Noted(Reporter):
    """Remembers what was said of memory."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        if line.startswith("memory: "):
            self.lines.append(line)


def bring(base: ConditionalEmbeddings, whole: Whole, path: Path, reporter: Reporter, **given: Any) -> training.Run:
    settings = {"epochs": 1, **given}
    return transfer_small(
        base, *whole, path, behavior=NEW, settings=settings, seed=2, reporter=reporter, reports_memory=True
    )


def needed(
    base: ConditionalEmbeddings, whole: Whole, *, samples: tuple[int, ...], widths: tuple[int, ...], **given: Any
) -> Estimate:
    config, settings = settings_of(base, given)
    own = aligned(base, *whole, behavior=NEW)
    return estimate_transfer(TrainingSize(config, settings, *own, is_on_gpu=False), widths, samples, weighted=False)


@pytest.mark.parametrize(("control", "trainings"), [("none", 1), ("masks-only", 2), ("whole-vector", 1)])
def test_every_training_tells_its_memory(
    control: str, trainings: int, base: ConditionalEmbeddings, whole: Whole, tmp_path: Path
) -> None:
    noted = Noted()
    bring(base, whole, tmp_path / "run", noted, control=control)
    assert len(noted.lines) == trainings
    assert "tables and their moments" in noted.lines[0]


def test_the_vectors_of_users_and_the_new_items_are_counted(base: ConditionalEmbeddings, whole: Whole) -> None:
    estimated = needed(base, whole, samples=(3, 2), widths=(8, 6, 5))
    items = whole[0].behavior(NEW).n_items
    assert (estimated.held, estimated.levels) == (4 * 500 * 8, 4 * 500 * (6 + 5))
    assert estimated.tables == 3 * estimated.best == 3 * 4 * items * 5
    at_once = needed(base, whole, samples=(), widths=(5,))
    assert (at_once.held, at_once.levels) == (4 * 500 * 5, 0)
    assert at_once.step < estimated.step < needed(base, whole, samples=(9, 9), widths=(8, 6, 5)).step
    assert estimated.step < needed(base, whole, samples=(3, 2), widths=(8, 6, 5), batch_size=500).step


def test_what_cannot_fit_is_refused_before_anything_is_made(
    base: ConditionalEmbeddings, whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "available_memory", lambda: 3 << 20)
    match = r"mcne-transfer needs about .* 3\.0 MiB .*reduce batch_size or neighbor_samples,"
    with pytest.raises(UsageError, match=match):
        bring(base, whole, tmp_path / "deep" / "run", Reporter())
    assert not (tmp_path / "deep").exists()


def test_the_same_bytes_with_tables_in_files(
    base: ConditionalEmbeddings, whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = bring(base, whole, tmp_path / "plain", Reporter())
    monkeypatch.setattr(Estimate, "memory_beside_files", 0)
    monkeypatch.setattr(resources, "available_memory", lambda: 1)
    monkeypatch.setattr(tables, "LARGE", 1)
    noted = Noted()
    filed = bring(base, whole, tmp_path / "filed", noted)
    assert "tables are in files" in noted.lines[0]
    assert files_of(filed.path / "embeddings") == files_of(plain.path / "embeddings")
