"""A comparison from its plan to its cells: continued, shared by processes, and refused when data has changed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.errors import refused
from tests.studies.small_plan import PLAN, opened, run

from mcne import __version__, training
from mcne.cli.studies import compare
from mcne.data.split import random_split
from mcne.errors import ArtifactError, DataError, DivergedError
from mcne.evaluation.protocol import evaluate
from mcne.files import locked
from mcne.studies import comparison as module
from mcne.studies.comparison import Cell, Comparison, read_evaluation, run_cell
from mcne.studies.comparison_tables import summarize, tables, write
from mcne.studies.engine import is_done, merge, read_result
from mcne.training import Training

DONE = ["search: 4 of 4 cells are done", "repetitions: 4 of 4 cells are done"]


def diverging(monkeypatch: pytest.MonkeyPatch, *where: tuple[str, int]) -> list[tuple[str, int]]:
    """Trainings of bpr in these modes and repetitions diverge; what is trained is noted in the list returned."""
    tried: list[tuple[str, int]] = []
    run = Training.run

    def other(self: Training, path: Path, *, resume: bool = False) -> training.Run:
        at = (self.mode, self.seed)
        if path.name == "run":  # not one of a behavior within it
            tried.append(at)
            if self.method == "bpr" and at in where:
                raise DivergedError("the loss of Books is not finite")
        return run(self, path, resume=resume)

    monkeypatch.setattr(Training, "run", other)
    return tried


def test_the_best_on_validation_is_chosen_and_then_fixed(finished: Comparison) -> None:
    searched = [(read_result(finished.directory(c))["validation"], c.candidate) for c in finished.search_cells()]
    assert len(searched) == 4
    best = max(searched, key=lambda pair: pair[0])[1]
    assert finished.choose()["bpr"] == best
    assert json.loads((finished.out / "chosen.json").read_text())["bpr"]["given"] == best.given
    assert len({value for value, _ in searched}) > 1
    finals = finished.final_cells()
    assert len(finals) == 4
    assert all(c.candidate == best for c in finals if c.candidate.method == "bpr")


def test_the_search_never_sees_the_test_part(finished: Comparison) -> None:
    for cell in finished.search_cells():
        result = read_result(finished.directory(cell))
        assert not {"test", "slices", "coverage"} & set(result)
        assert {path.name for path in finished.directory(cell).iterdir()} == {"cell.json"}


def test_a_cell_holds_what_its_run_evaluates_to(finished: Comparison, tmp_path: Path) -> None:
    cell = next(c for c in finished.final_cells() if c.candidate.method == "bpr" and c.repetition == 1)
    split = random_split(finished.dataset, seed=1)
    again = training.Training(
        "bpr",
        finished.dataset,
        split,
        settings=cell.candidate.given,
        seed=1,
        device=torch.device("cpu"),
        mode=cell.candidate.mode,
    ).run(tmp_path / "run")
    assert again.spec.identity == cell.spec.identity
    kept = read_result(finished.directory(cell))
    assert (kept["spec"], kept["version"], kept["jobs"]) == (vars(cell.spec), __version__, 1)
    assert kept["spec"]["config"]["learning_rate"] > 0  # which nobody gave
    for protocol in ("sampled", "full"):
        expected = evaluate(again.scorer(finished.dataset, split), finished.dataset, split, protocol=protocol)
        evaluation = read_evaluation(finished.directory(cell), protocol, finished.dataset.behavior_names)
        assert evaluation.summary() == expected.summary()
        assert kept["test"][protocol] == expected.summary()


def test_finished_cells_are_not_done_again(finished: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "run_cell", lambda *_, **__: pytest.fail("trained again"))
    assert run(finished) == ({}, DONE)


def test_a_protocol_that_is_added_is_evaluated(copied: Comparison, plan: Path, data: Path) -> None:
    plan.write_text(PLAN.replace('"full"', '"full", "popular"'))
    more = opened(plan, data, copied.out)
    assert run(more)[1][0] == DONE[0]
    assert "Against 100 items drawn by popularity" in [table.title for table in tables(summarize(more))]


def test_an_interrupted_comparison_goes_on(
    finished: Comparison, plan: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after the third cell; the rest is done by the same command, and everything is as without a stop."""
    done: list[str] = []

    def stopped(cell: Cell, *args: Any) -> dict[str, Any]:
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(cell.name)
        return run_cell(cell, *args)

    comparison = opened(plan, data, tmp_path / "out")
    monkeypatch.setattr(module, "run_cell", stopped)
    with pytest.raises(KeyboardInterrupt):
        run(comparison)
    monkeypatch.undo()
    failed, messages = run(opened(plan, data, tmp_path / "out"))
    assert failed == {}
    assert messages[0] == "search: 3 of 4 cells are done"
    for cell in finished.final_cells():
        ours, theirs = (read_result(each.directory(cell)) for each in (comparison, finished))
        assert ours["test"] == theirs["test"]


def test_processes_give_what_one_process_gives(finished: Comparison, plan: Path, data: Path, tmp_path: Path) -> None:
    comparison = opened(plan, data, tmp_path / "out", "popularity")
    assert run(comparison, jobs=2)[0] == {}
    for cell in comparison.final_cells():
        ours, theirs = (read_result(each.directory(cell)) for each in (comparison, finished))
        assert ours["test"] == theirs["test"]
        assert ours["jobs"] == 2


# choices


def test_a_search_with_a_failure_is_undecided(
    plan: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(cell: Cell, *args: Any) -> dict[str, Any]:
        if cell.candidate.mode == "joint" and cell.candidate.given.get("l2") == 0.02:
            raise DataError("no memory")
        return run_cell(cell, *args)

    monkeypatch.setattr(module, "run_cell", failing)
    comparison = opened(plan, data, tmp_path / "out")
    failed, messages = run(comparison)
    assert list(failed.values()) == ["no memory"]
    assert list(comparison.choose()) == ["popularity"]
    assert json.loads((tmp_path / "out" / "failed.json").read_text()) == failed
    lacks = "undecided: 1 of 4 configurations not finished, 1 failed (no memory)"
    assert f"bpr: {lacks}; its repetitions wait" in messages
    assert [row.name for row in summarize(comparison).rows] == ["popularity"]
    last = tables(summarize(comparison))[-1]
    assert (last.title, last.rows) == ("Not finished", (("bpr", lacks),))
    assert "tested against bpr, which is not finished" in last.note
    monkeypatch.undo()
    assert run(comparison)[0] == {}
    assert json.loads((tmp_path / "out" / "failed.json").read_text()) == {}
    assert summarize(comparison).unfinished == {}


def test_a_comparison_of_which_nothing_is_finished_says_what_failed(
    plan: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise DataError("no memory")

    monkeypatch.setattr(module, "run_cell", failing)
    with pytest.raises(
        DataError, match=r"trainings failed, the first: no memory; see .*failed\.json; run the same command"
    ):
        compare(plan=plan, data=data, out=tmp_path / "out", jobs=1)
    assert not (tmp_path / "out" / "table.md").exists()


def test_a_divergence_is_an_outcome_of_the_search(
    plan: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = diverging(monkeypatch, ("joint", 0))
    comparison = opened(plan, data, tmp_path / "out")
    failed, messages = run(comparison)
    assert failed == {}
    assert sum("joint, diverged: the loss of Books is not finite" in line for line in messages) == 2
    assert comparison.choose()["bpr"].mode == "separate"
    costs = next(table for table in tables(summarize(comparison)) if table.title == "Costs and choices")
    assert costs.rows[1][costs.header.index("searched")] == "4, 2 diverged"
    tried.clear()
    assert run(comparison) == ({}, DONE)
    assert tried == []


def test_a_method_that_always_diverges_is_told(
    plan: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    diverging(monkeypatch, ("joint", 0), ("separate", 0))
    comparison = opened(plan, data, tmp_path / "out")
    assert run(comparison)[0] == {}
    lacks = "undecided: 4 of 4 configurations diverged (the loss of Books is not finite)"
    assert summarize(comparison).unfinished == {"bpr": lacks}


def test_a_repetition_that_diverges_is_missing_in_its_row(
    plan: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    diverging(monkeypatch, ("joint", 1), ("separate", 1))
    comparison = opened(plan, data, tmp_path / "out")
    assert run(comparison)[0] == {}
    summary = summarize(comparison)
    assert [row.label for row in summary.rows] == ["popularity", "bpr (1 of 2 repetitions)"]
    assert summary.unfinished == {"bpr": "1 of 2 repetitions diverged (the loss of Books is not finite)"}
    assert summary.tests("sampled", "ndcg@5") == {}
    for table in tables(summary):
        if table.title not in ("Costs and choices", "Not finished") and not table.title.startswith("Beside"):
            assert {row[0] for row in table.rows} == {"popularity", "bpr (1 of 2 repetitions)"}
            assert {at for at, _ in table.best} == {0}


def test_only_limits_what_is_trained_and_nothing_else(
    finished: Comparison, plan: Path, data: Path, tmp_path: Path
) -> None:
    comparison = opened(plan, data, tmp_path / "out", "popularity")
    assert run(comparison)[1][0] == "repetitions: 0 of 2 cells are done"
    summary = summarize(comparison)
    assert [row.name for row in summary.rows] == ["popularity"]
    assert summary.unfinished == {"bpr": "undecided: 4 of 4 configurations not finished"}
    merge(finished.out, comparison.out)
    assert [row.name for row in summarize(comparison).rows] == ["popularity", "bpr"]
    run(comparison)
    assert set(json.loads((comparison.out / "chosen.json").read_text())) == {"popularity", "bpr"}


# several processes


def test_a_cell_that_another_process_trains_is_awaited(
    finished: Comparison, copied: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is neither trained here, nor failed; the tables have it."""
    cell = copied.search_cells()[0]
    shutil.rmtree(copied.directory(cell))
    begun = threading.Event()

    def elsewhere() -> None:
        with locked(copied.directory(cell)):
            begun.set()
            time.sleep(1.5)
            shutil.copy(finished.directory(cell) / "cell.json", copied.directory(cell))

    other = threading.Thread(target=elsewhere)
    other.start()
    begun.wait()
    monkeypatch.setattr(Training, "run", lambda *_, **__: pytest.fail("trained here"))
    failed, messages = run(copied)
    other.join()
    assert failed == {}
    assert messages[:2] == ["search: 3 of 4 cells are done", "another process has 1 cells under way; waiting for them"]
    assert summarize(copied).unfinished == {}


def test_a_cell_that_another_process_gives_up_is_trained_here(copied: Comparison) -> None:
    cell = copied.search_cells()[0]
    shutil.rmtree(copied.directory(cell))
    begun = threading.Event()

    def elsewhere() -> None:
        with locked(copied.directory(cell)):
            begun.set()
            time.sleep(1.5)

    other = threading.Thread(target=elsewhere)
    other.start()
    begun.wait()
    failed, messages = run(copied)
    other.join()
    assert failed == {}
    assert any(line.startswith(f"1/1 {cell.name}: ") for line in messages)


def test_a_cell_that_was_done_meanwhile_is_not_done_again(copied: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Training, "run", lambda *_, **__: pytest.fail("trained again"))
    cell = copied.search_cells()[0]
    copied.task(cell).run("cpu", threads=1)


def test_two_commands_in_one_place_share_the_work(plan: Path, data: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mcne", "compare", plan, "--data", data, "--out", tmp_path / "out"]
    both = [
        subprocess.Popen([*map(str, command), "--jobs", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=200) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    done = [match for out, _ in outputs for match in re.findall(r"^\d/\d (\S+): \w+, .*validation", out, re.MULTILINE)]
    assert len(set(done)) == 8
    comparison = opened(plan, data, tmp_path / "out")
    assert summarize(comparison).unfinished == {}
    assert "Not finished" not in (tmp_path / "out" / "table.md").read_text()
    assert not list((tmp_path / "out").rglob("*.partial"))


# what may be broken


def test_what_is_torn_is_named_with_the_next_step(copied: Comparison, plan: Path, data: Path) -> None:
    final, search = copied.directory(copied.final_cells()[0]), copied.directory(copied.search_cells()[0])
    for path, step in (
        (search / "cell.json", f"remove {search}, and the same command trains it again"),
        (final / "ranks.parquet", f"remove {final}, and the same command trains it again"),
        (copied.out / "failed.json", "remove it, and the same command writes it again"),
        (copied.out / "data.json", "remove it, and the command that made it writes it again"),
    ):
        for torn in (path.read_bytes()[:1], b"[]", None):
            whole = path.read_bytes()
            if torn is not None:
                path.write_bytes(torn)
            elif path.name == "ranks.parquet":
                path.unlink()
            else:
                continue
            with pytest.raises(ArtifactError, match=re.escape(f"{path}: ") + ".*damaged.*" + re.escape(step)):
                tables(summarize(opened(plan, data, copied.out)))
            path.write_bytes(whole)


def test_what_a_directory_was_begun_on_is_written_again(copied: Comparison, plan: Path, data: Path) -> None:
    before = json.loads((copied.out / "data.json").read_text())
    (copied.out / "data.json").unlink()
    assert run(opened(plan, data, copied.out)) == ({}, DONE)
    assert json.loads((copied.out / "data.json").read_text()) == before


def test_data_that_changes_under_way_is_refused_with_both_hashes(copied: Comparison) -> None:
    cell = Cell(copied.final_cells()[0].candidate, 0, True, copied.dataset.fingerprint, "0" * 64, ())
    with refused(ArtifactError, place="data", about="random"):
        copied.task(cell).run("cpu", threads=1)
    assert not copied.directory(cell).exists()


def test_a_run_that_a_death_has_left_is_removed(copied: Comparison) -> None:
    left = copied.directory(copied.search_cells()[0]) / "run"
    left.mkdir()
    run(copied)
    assert not left.exists()


def test_seconds_are_those_of_all_attempts(copied: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training goes on after two epochs that took 100 seconds, and a third whose line was torn."""
    cell = next(each for each in copied.search_cells() if each.candidate.mode == "separate")
    directory = copied.directory(cell)
    shutil.rmtree(directory)
    train = Training.run
    again = partial(copied.task(cell).run, "cpu", threads=1)

    def stopping(self: Training, path: Path, *, resume: bool = False) -> training.Run:
        finished = train(self, path, resume=resume)
        if path == directory / "run":  # not one of a behavior within it
            raise KeyboardInterrupt
        return finished

    monkeypatch.setattr(Training, "run", stopping)
    with pytest.raises(KeyboardInterrupt):
        again()
    monkeypatch.undo()
    times = sorted(directory.rglob("times.jsonl"))
    assert len(times) == 2
    assert not is_done(directory)
    times[0].write_text('{"epoch": 1, "seconds": 60.0}\n{"epoch": 2, "seconds": 40.0}\n{"epoch": 3, "sec')
    times[1].write_text('{"epoch": 1, "seconds": 11.0}\n')
    again()
    assert 111 <= read_result(directory)["train_seconds"] < 171
    assert read_result(directory)["epoch_seconds"] == 61  # the median of each behavior's epochs


def test_a_method_without_epochs_has_no_seconds_of_one(finished: Comparison) -> None:
    for cell in finished.final_cells():
        seconds = read_result(finished.directory(cell))["epoch_seconds"]
        assert seconds is None if cell.candidate.method == "popularity" else seconds > 0


def test_nothing_is_left_aside(copied: Comparison) -> None:
    write(summarize(copied), copied.out)
    assert not [path for path in copied.out.rglob("*") if path.name.startswith(".")]
