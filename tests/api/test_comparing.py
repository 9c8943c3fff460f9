"""``mcne.compare``: names and models, one table, and a directory in which it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.errors import refused
from tests.small_training import sixty_users, small_settings

import mcne
from mcne.api.model import Model
from mcne.data.dataset import SocialDataset
from mcne.errors import UnknownError, UsageError


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
