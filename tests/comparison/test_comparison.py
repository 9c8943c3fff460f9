"""A comparison from its plan to its tables: continued, merged, and refused when data has changed."""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch

from mcne import runs
from mcne.cli.main import main
from mcne.comparison import execution
from mcne.comparison.cell import read_evaluation, read_result, run_cell
from mcne.comparison.execution import Comparison
from mcne.comparison.plan import Plan
from mcne.comparison.summary import Spread, summarize
from mcne.comparison.tables import write
from mcne.data.split import random_split
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.errors import ArtifactError, DivergedError, UsageError
from mcne.evaluation.protocol import evaluate
from mcne.training.journal import SilentReporter

PLAN = """
title = "Two methods"
repetitions = 2
search = 4
protocols = ["sampled", "full"]
reference = "bpr"
[training]
epochs = 2
[methods.popularity]
[methods.bpr]
modes = ["joint", "separate"]
settings = { width = 4, batch_size = 512 }
[methods.bpr.search]
l2 = [0.02, 0.1]
[paper.bpr]
Books = [10.0, 12.5]
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("network") / "data"
    generate(SyntheticConfig(users=500, behaviors=2, seed=0))[0].save(path)
    return path


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


def opened(plan: Path, data: Path, out: Path, *only: str) -> Comparison:
    return Comparison.open(Plan.read(plan, only=only), data, out)


def run(comparison: Comparison, *, jobs: int = 1) -> tuple[dict[str, str], list[str]]:
    said: list[str] = []
    return comparison.run(jobs=jobs, device="cpu", say=said.append), said


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    path = tmp_path_factory.mktemp("finished")
    (path / "plan.toml").write_text(PLAN)
    comparison = opened(path / "plan.toml", data, path / "out")
    assert run(comparison)[0] == {}
    return comparison


# plans


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("[methods.bpr]", "[methods.bprr]"), "unknown method 'bprr'; did you mean 'bpr'?"),
        (("l2 = [0.02, 0.1]", "l2s = [0.02, 0.1]"), "unknown setting 'l2s'; did you mean 'l2'?"),
        (("l2 = [0.02, 0.1]", "l2 = [0.02, -1.0]"), "setting l2: -1.0 is out of range"),
        (("search = 4", "search = 3"), "methods.bpr: 4 candidates, but every method has a budget of 3"),
        (("search = 4", "search = 0"), "search is 0; a whole number of 1 or more is needed"),
        (('"joint", "separate"', '"joint", "separated"'), "unknown mode 'separated'; did you mean 'separate'?"),
        (('"full"', '"ful"'), "unknown protocol 'ful'; did you mean 'full'?"),
        (("repetitions", "repetition"), "unknown key 'repetition'; did you mean 'repetitions'?"),
        (("settings =", "setting ="), "unknown key of methods.bpr 'setting'; did you mean 'settings'?"),
    ],
)
def test_a_wrong_plan_is_refused_before_anything_is_trained(change: tuple[str, str], says: str, plan: Path) -> None:
    plan.write_text(PLAN.replace(*change))
    with pytest.raises(UsageError, match=re.escape(says)):
        Plan.read(plan)


def test_a_plan_without_methods_is_refused(plan: Path) -> None:
    plan.write_text("repetitions = 1")
    with pytest.raises(UsageError, match="no methods; add a table such as"):
        Plan.read(plan)
    plan.write_text(PLAN)
    with pytest.raises(UsageError, match="unknown method 'mcn'"):
        Plan.read(plan, only=("mcn",))


def test_candidates_are_every_mode_with_every_combination(plan: Path) -> None:
    found = Plan.read(plan).candidates
    assert [(c.mode, c.given["l2"]) for c in found["bpr"]] == [
        ("joint", 0.02),
        ("joint", 0.1),
        ("separate", 0.02),
        ("separate", 0.1),
    ]
    assert all(c.given["epochs"] == 2 and c.given["width"] == 4 for c in found["bpr"])
    assert len(found["popularity"]) == 1


# execution


def test_the_best_on_validation_is_chosen_and_then_fixed(finished: Comparison) -> None:
    searched = [(read_result(finished.directory(c))["validation"], c.candidate) for c in finished.search_cells()]
    assert len(searched) == 4
    best = max(searched, key=lambda pair: pair[0])[1]
    assert finished.choose()["bpr"] == best
    assert len({value for value, _ in searched}) > 1
    finals = finished.final_cells()
    assert len(finals) == 4
    assert all(c.candidate == best for c in finals if c.candidate.method == "bpr")


def test_the_search_never_sees_the_test_part(finished: Comparison) -> None:
    for cell in finished.search_cells():
        found = read_result(finished.directory(cell))
        assert not {"test", "slices", "coverage"} & set(found)
        assert {path.name for path in finished.directory(cell).iterdir()} == {"cell.json"}


def test_a_cell_holds_what_its_run_evaluates_to(finished: Comparison, tmp_path: Path) -> None:
    cell = next(c for c in finished.final_cells() if c.candidate.method == "bpr" and c.repetition == 1)
    split = random_split(finished.dataset, seed=1)
    again = runs.train(
        "bpr",
        finished.dataset,
        split,
        tmp_path / "run",
        given=cell.candidate.given,
        seed=1,
        device=torch.device("cpu"),
        resume=False,
        places={},
        reporter=SilentReporter(),
        mode=cell.candidate.mode,
    )
    for protocol in ("sampled", "full"):
        expected = evaluate(again.scorer(finished.dataset, split), finished.dataset, split, protocol=protocol)
        kept = read_evaluation(finished.directory(cell), protocol, finished.dataset)
        assert kept.summary() == expected.summary()
        assert read_result(finished.directory(cell))["test"][protocol] == expected.summary()


def test_finished_cells_are_not_done_again(finished: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "run_cell", lambda *_, **__: pytest.fail("trained again"))
    failed, said = run(finished)
    assert failed == {}
    assert said == ["search: 4 of 4 cells are done", "repetitions: 4 of 4 cells are done"]


def test_an_interrupted_comparison_goes_on(
    finished: Comparison, plan: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after the third cell; the rest is done by the same command, and everything is as without a stop."""
    done: list[str] = []

    def stopped(cell: execution.Cell, *args: object, **kwargs: object) -> None:
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(cell.name)
        run_cell(cell, *args, **kwargs)  # type: ignore[arg-type]

    comparison = opened(plan, data, tmp_path / "out")
    monkeypatch.setattr(execution, "run_cell", stopped)
    with pytest.raises(KeyboardInterrupt):
        run(comparison)
    monkeypatch.undo()
    failed, said = run(opened(plan, data, tmp_path / "out"))
    assert failed == {}
    assert said[0] == "search: 3 of 4 cells are done"
    for cell in finished.final_cells():
        ours, theirs = (read_result(each.directory(cell)) for each in (comparison, finished))
        assert ours["test"] == theirs["test"]


def test_processes_give_what_one_process_gives(finished: Comparison, plan: Path, data: Path, tmp_path: Path) -> None:
    comparison = opened(plan, data, tmp_path / "out", "popularity")
    assert run(comparison, jobs=2)[0] == {}
    for cell in comparison.final_cells():
        assert read_result(comparison.directory(cell))["test"] == read_result(finished.directory(cell))["test"]


def test_a_cell_that_fails_leaves_the_others(
    plan: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(cell: execution.Cell, *args: object, **kwargs: object) -> None:
        if cell.candidate.method == "bpr" and cell.candidate.mode == "joint":
            raise DivergedError("the loss is not finite")
        run_cell(cell, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(execution, "run_cell", failing)
    comparison = opened(plan, data, tmp_path / "out")
    failed, _ = run(comparison)
    assert list(failed.values()) == ["the loss is not finite"] * 2
    assert comparison.choose()["bpr"].mode == "separate"
    assert json.loads((tmp_path / "out" / "failed.json").read_text()) == failed


def test_cells_of_another_machine_are_taken_over(finished: Comparison, plan: Path, data: Path, tmp_path: Path) -> None:
    comparison = opened(plan, data, tmp_path / "out")
    assert comparison.merge(finished.out) == 8
    assert comparison.merge(finished.out) == 0
    assert run(comparison)[1] == ["search: 4 of 4 cells are done", "repetitions: 4 of 4 cells are done"]


def test_other_data_is_refused_with_both_hashes(finished: Comparison, plan: Path, data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(data, other)
    shutil.rmtree(other / "splits" / "random-1")
    random_split(finished.dataset, seed=7).save(other / "splits" / "random-1")
    now = random_split(finished.dataset, seed=7).fingerprint
    with pytest.raises(
        ArtifactError, match=f"random-1 there {finished.splits[1][:12]}, here {now[:12]}.*in another directory"
    ):
        opened(plan, other, finished.out)
    comparison = opened(plan, other, tmp_path / "out")
    with pytest.raises(ArtifactError, match="a comparison on other data"):
        comparison.merge(finished.out)


# tables


def test_means_and_spreads_are_those_of_the_repetitions(finished: Comparison) -> None:
    row = next(row for row in summarize(finished).rows if row.candidate.method == "bpr")
    values = [result["test"]["sampled"]["behaviors"]["Books"]["recall@5"] for result in row.results]
    found = row.metric("sampled", "Books", "recall@5")
    assert found is not None
    assert (found.mean, found.sd) == pytest.approx((np.mean(values), np.std(values, ddof=1)))
    assert Spread.of([None, 0.5]) == Spread(0.5, None)
    assert Spread.of([]) is None


def test_tables_say_what_the_cells_hold(finished: Comparison, tmp_path: Path) -> None:
    summary = summarize(finished)
    paths = write(summary, tmp_path)
    markdown, page, numbers = (path.read_text() for path in paths[:3])
    bpr = next(row for row in summary.rows if row.candidate.method == "bpr")
    recall, ndcg = (bpr.metric("sampled", "Books", metric) for metric in ("recall@5", "hits_ideal_ndcg@5"))
    assert recall is not None
    assert ndcg is not None
    shown = f"{100 * recall.mean:.1f} ± {100 * recall.sd:.1f}"  # type: ignore[operator]
    assert shown in markdown
    assert shown in page
    gap = f"{100 * recall.mean - 10:+.1f} / {100 * ndcg.mean - 12.5:+.1f}"
    assert f"10.0 / 12.5, {gap}" in markdown
    assert "bpr against the others" in markdown
    titles = [table["title"] for table in json.loads(numbers)]
    assert len(titles) == len(set(titles)) == 10
    assert page.count("<section>") == 10
    assert "http" not in page
    users = pq.read_table(paths[3])
    assert set(users["method"].to_pylist()) == {"popularity", "bpr"}
    mine = users.filter((pc.field("method") == "bpr") & (pc.field("behavior") == "Books"))
    weights, scores = (mine[name].to_numpy() for name in ("weight", "sampled recall@5"))
    assert weights @ scores == pytest.approx(recall.mean)


@pytest.fixture
def own_signals() -> Iterator[None]:
    """The command line takes over signals, which belong to the other tests afterwards."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("own_signals")
def test_the_command(
    plan: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(*args: object) -> int:
        monkeypatch.setattr("sys.argv", ["mcne", "compare", *map(str, args)])
        with pytest.raises(SystemExit) as left:
            main()
        return int(left.value.code or 0)

    args = (plan, "--data", data, "--out", tmp_path / "out", "--only", "popularity", "--jobs", 1)
    assert call(*args, "--table") == 4
    assert "no method is finished yet" in capsys.readouterr().err
    assert call(*args) == 0
    said = capsys.readouterr().out
    assert "popularity: 1 of at most 4 configurations" in said
    assert "table.md" in said
    assert call(*args, "--table") == 0
