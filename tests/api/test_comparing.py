"""``mcne.compare``: names and models, one table, and a directory in which it goes on."""

from __future__ import annotations

import shutil
import signal
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.errors import refused
from tests.small_training import sixty_users, small_settings

import mcne
from mcne.api.model import Model
from mcne.data.dataset import SocialDataset
from mcne.errors import ArtifactError, DataError, Interrupted, UnknownError, UsageError
from mcne.training.journal import RunJournal


@pytest.fixture(scope="module")
def data() -> SocialDataset:
    return sixty_users()


def test_names_and_models_in_one_table(data: SocialDataset, capsys: pytest.CaptureFixture[str]) -> None:
    small = small_settings("bpr")
    methods: list[str | Model] = ["popularity", mcne.BPR(**small), mcne.BPR(**small, bias=False)]
    table = mcne.compare(data, methods, seeds=2, protocols=["sampled", "full"], device="cpu", progress=False)
    shown = capsys.readouterr()
    assert shown.out.rstrip() == str(table)
    assert shown.err == ""
    assert "popularity against the others" in shown.out
    frame = table.to_pandas()
    assert frame["method"].unique().tolist() == ["popularity", "bpr", "bpr 2"]
    assert frame["seeds"].unique().tolist() == [2]
    parts = [mcne.split(data, seed=seed) for seed in (0, 1)]
    expected = [mcne.Popularity().fit(data, part, progress=False).evaluate("full").overall("ndcg@5") for part in parts]
    chosen = frame.query("method == 'popularity' and protocol == 'full' and behavior == 'mean' and metric == 'ndcg@5'")
    assert chosen["mean"].tolist() == pytest.approx([sum(filter(None, expected)) / 2])
    assert table._repr_html_().count("<table>") == len(table._tables)


def test_rows_with_names_of_their_own(data: SocialDataset, capsys: pytest.CaptureFixture[str]) -> None:
    rows: dict[str, str | Model] = {"plain": "popularity", "neighbors": mcne.ItemKNN(neighbors=5)}
    table = mcne.compare(data, rows, seeds=1, device="cpu")
    assert table.to_pandas()["method"].unique().tolist() == ["plain", "neighbors"]
    assert "2/2 itemknn-r0-" in capsys.readouterr().err


def test_a_directory_keeps_what_is_done(data: SocialDataset, tmp_path: Path) -> None:
    out = tmp_path / "comparison"
    mcne.compare(data, ["popularity"], seeds=1, out=out, device="cpu", progress=False)
    (cell,) = (out / "cells").iterdir()
    before = (cell / "cell.json").stat().st_mtime_ns
    mcne.compare(data, ["popularity", "ease"], seeds=1, out=out, device="cpu", progress=False)
    assert (cell / "cell.json").stat().st_mtime_ns == before
    assert len(list((out / "cells").iterdir())) == 2
    assert (out / "table.html").is_file()


def test_one_protocol_and_rows_by_iteration(data: SocialDataset) -> None:
    table = mcne.compare(data, ["popularity"], seeds=1, protocols="full", device="cpu", progress=False)
    first = next(iter(table))
    assert (first["method"], first["protocol"], first["metric"]) == ("popularity", "full", "recall@5")
    assert len(list(table)) == len(table.to_pandas())


def test_what_cannot_be_compared(data: SocialDataset) -> None:
    with refused(UsageError, place="methods", value="bpr"):
        mcne.compare(data, "bpr")
    with refused(UsageError, place="methods", value=mcne.BPR):
        mcne.compare(data, [mcne.BPR])  # type: ignore[list-item] # a class in place of a model
    with refused(UsageError, place="data", value="list"):
        mcne.compare([], ["bpr"])  # type: ignore[arg-type] # wrong on purpose
    for seeds in (0, -1):
        with refused(UsageError, place="seeds", value=seeds):
            mcne.compare(data, ["popularity"], seeds=seeds)
    with refused(UsageError, place="seeds", value="3"):
        mcne.compare(data, ["popularity"], seeds="3")  # type: ignore[arg-type] # wrong on purpose
    with refused(UnknownError, place="protocols", value="ful"):
        mcne.compare(data, ["popularity"], protocols=["ful"])  # type: ignore[list-item] # wrong on purpose
    with pytest.raises(UsageError, match="unknown method 'bprr'; did you mean 'bpr'"):
        mcne.compare(data, ["bprr"])


def test_what_cannot_be_compared_with_these_arguments(data: SocialDataset) -> None:
    compare: Any = partial(mcne.compare, data, progress=False, device="cpu")
    model = mcne.BPR()
    with refused(UsageError, place="methods", value=model):
        compare(model)
    for wrong in (3, None):
        with refused(UsageError, place="methods", about=repr(wrong)):
            compare(wrong)
    with refused(UsageError, place="methods", value=1):
        compare({1: "popularity"})
    for protocols in ([], ["full", "full"], 3):
        with refused(UsageError, place="protocols", value=protocols):
            compare(["popularity"], protocols=protocols)
    for jobs in (0, "2", None):
        with refused(UsageError, place="jobs", value=jobs):
            compare(["popularity"], jobs=jobs)


@pytest.mark.parametrize("device", ["gpu", "cuda"])
def test_the_device_is_checked_before_anything_is_written(device: str, data: SocialDataset, tmp_path: Path) -> None:
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with refused(UsageError, value=device):
        mcne.compare(data, ["popularity"], device=device, out=tmp_path / "out", progress=False)
    assert not (tmp_path / "out").exists()


def test_nothing_is_written_into_another_directory(data: SocialDataset, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "notes.txt").write_text("mine")
    with refused(UsageError, place="taken"):
        mcne.compare(data, ["popularity"], out=taken, device="cpu", progress=False)
    assert [each.name for each in taken.iterdir()] == ["notes.txt"]
    other = tmp_path / "other"
    compare = partial(mcne.compare, seeds=1, out=other, device="cpu", progress=False)
    compare(data, ["popularity"])
    shutil.rmtree(other / "data")
    with refused(ArtifactError, place="other"):
        compare(data.only(0), ["popularity"])
    assert not (other / "data").exists()


def test_failures_are_told(data: SocialDataset, capsys: pytest.CaptureFixture[str]) -> None:
    compare: Any = partial(mcne.compare, data, seeds=1, device="cpu", progress=False)
    failing = mcne.EASE(l2=1e-30)
    with refused(DataError, place="compare", about="ease: 1 of 1 repetitions not finished, 1 failed (setting l2"):
        compare([failing])
    with pytest.warns(UserWarning, match="ease: 1 of 1 repetitions not finished, 1 failed") as warned:
        table = compare(["popularity", failing])
    assert warned[0].filename == __file__
    assert table.to_pandas()["method"].unique().tolist() == ["popularity"]
    assert repr(table) == "ComparisonTable of 'popularity, ease on small': 1 of 2 rows, sampled"
    assert capsys.readouterr().out.rstrip() == str(table)


@pytest.mark.usefixtures("restored_threads")
def test_the_threads_of_the_process_stay(data: SocialDataset) -> None:
    torch.set_num_threads(1)
    mcne.compare(data, ["popularity"], seeds=1, device="cpu", progress=False)
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize("is_kept", [False, True])
def test_ctrl_c(is_kept: bool, data: SocialDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = RunJournal.record

    def record(self: RunJournal, *args: Any, **kwargs: Any) -> None:
        keep(self, *args, **kwargs)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(RunJournal, "record", record)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    out = tmp_path / "out" if is_kept else None
    with pytest.raises(Interrupted if is_kept else KeyboardInterrupt):
        mcne.compare(data, [mcne.BPR(**small_settings("bpr"))], seeds=1, out=out, device="cpu", progress=False)
    signal.signal(signal.SIGINT, before)
    assert not list((tmp_path / "temporary").iterdir())
