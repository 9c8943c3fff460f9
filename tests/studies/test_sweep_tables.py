"""A sweep on planted data: the same splits for every value, resumed training by training, and what it writes."""

from __future__ import annotations

import dataclasses
import json
import shutil
import statistics
from pathlib import Path
from typing import Any

import pytest

from mcne.errors import UsageError
from mcne.plots import sweep as figures
from mcne.studies.comparison import Comparison
from mcne.studies.sweep import Sweep, check_place, collect, is_shared, page, titles_of, write

SETTINGS = {"epochs": 1, "batch_size": 512}
SWEEP = Sweep("bpr", SETTINGS, {"width": (2, 4), "l2": (0.05, 0.2)}, 2, title="a | b", paper="it rises.")


def run(sweep: Sweep, data: Path, out: Path) -> tuple[Comparison, list[str]]:
    comparison = Comparison.open(sweep.plan(), data, out)
    messages: list[str] = []
    assert comparison.run(jobs=1, device="cpu", say=messages.append) == {}
    write(collect(sweep, comparison), out)
    return comparison, messages


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return run(SWEEP, data, tmp_path_factory.mktemp("finished") / "out")[0]


@pytest.fixture
def copied(finished: Comparison, tmp_path: Path) -> Path:
    shutil.copytree(finished.out, tmp_path / "out")
    return tmp_path / "out"


def cells(out: Path) -> dict[str, dict[str, Any]]:
    return {path.parent.name: json.loads(path.read_text()) for path in sorted(out.glob("cells/*/cell.json"))}


def test_the_file_says_what_the_cells_say(finished: Comparison) -> None:
    results = json.loads((finished.out / "sweep.json").read_text())
    all_cells = cells(finished.out)
    assert len(all_cells) == 8
    assert [curve["setting"] for curve in results["curves"]] == ["width", "l2"]
    for curve in results["curves"]:
        for point in curve["points"]:
            mine = [each for each in all_cells.values() if each["spec"]["config"][curve["setting"]] == point["value"]]
            if curve["setting"] == "l2":
                mine = [each for each in mine if each["spec"]["config"]["width"] not in (2, 4)]  # of the other curve
            assert sorted(point["cells"]) == sorted(each["cell"]["name"] for each in mine)
            assert (point["finished"], point["lacks"]) == (2, None)
            for name in results["behaviors"]:
                for metric in ("recall@5", "ndcg@5"):
                    values = [each["test"]["sampled"]["behaviors"][name][metric] for each in mine]
                    assert_spread(point["behaviors"][name][metric], values)
            assert_spread(point["mean"]["ndcg@5"], [each["test"]["sampled"]["mean"]["ndcg@5"] for each in mine])
            for cost in ("validation", "epoch_seconds", "train_seconds", "epochs", "parameters"):
                assert_spread(point[cost], [each[cost] for each in mine])
            assert 0 < point["epoch_seconds"]["mean"] < point["train_seconds"]["mean"]
            assert point["measured_on"] == ["cpu, one at a time"]
    assert figures.read(finished.out) == results


def assert_spread(spread: dict[str, float], values: list[float]) -> None:
    assert spread == pytest.approx({"mean": statistics.mean(values), "sd": statistics.stdev(values)})


def test_every_value_has_the_same_splits_and_seeds(finished: Comparison) -> None:
    seen = {(each["spec"]["split"], each["spec"]["seed"]) for each in cells(finished.out).values()}
    assert seen == {(finished.splits[0], 0), (finished.splits[1], 1)}


def test_a_wider_table_has_more_numbers(finished: Comparison) -> None:
    narrow, wide = json.loads((finished.out / "sweep.json").read_text())["curves"][0]["points"]
    assert narrow["parameters"]["mean"] < wide["parameters"]["mean"] < 2 * narrow["parameters"]["mean"]  # biases stay


def test_the_page_has_every_value(finished: Comparison) -> None:
    page = (finished.out / "sweep.md").read_text()
    results = json.loads((finished.out / "sweep.json").read_text())
    point = results["curves"][0]["points"][0]
    recall = point["mean"]["recall@5"]
    assert f"{100 * recall['mean']:.1f} ± {100 * recall['sd']:.1f}" in page
    assert "### width" in page
    assert "### l2" in page
    assert "The paper: it rises." in page
    assert page.count("**") == 4  # of each setting, the value that validation would choose
    for curve in results["curves"]:
        best = max(curve["points"], key=lambda each: each["validation"]["mean"])
        assert f"| **{best['value']}** |" in page


def test_a_page_of_single_trainings_speaks_of_no_deviation(finished: Comparison) -> None:
    results = json.loads((finished.out / "sweep.json").read_text())
    assert "2 repetitions, split random" in page(results)
    assert "mean ± standard deviation over repetitions, whose splits" in page(results)
    alone = page(results | {"repetitions": 1})
    assert "1 repetition, split random" in alone
    assert "percent, of single trainings, whose splits" in alone


def test_what_the_plan_expects_stands_beside_what_was_found(finished: Comparison) -> None:
    results = json.loads((finished.out / "sweep.json").read_text())
    assert "plan expects" not in page(results)
    expected = {"width=4": (9.0, 7.5), "l2=0.05": (80.0, 70.0)}
    expecting = collect(dataclasses.replace(SWEEP, expected=expected), finished)
    _, section = page(expecting).split("### Beside the figures that the plan expects\n\n")
    header, _, *lines = section.splitlines()
    assert header == "| row | expected R@5 | found | gap | expected N@5 | found | gap |"
    points = [results["curves"][0]["points"][1], results["curves"][1]["points"][0]]
    for line, point, (name, before) in zip(lines, points, expected.items(), strict=True):
        cells = line.strip("| ").split(" | ")
        assert cells[0] == name
        for at, (metric, value) in enumerate(zip(("recall@5", "ndcg@5"), before, strict=True)):
            mean, sd = (100 * point["mean"][metric][each] for each in ("mean", "sd"))
            assert cells[1 + 3 * at : 4 + 3 * at] == [f"{value:.1f}", f"{mean:.1f} ± {sd:.1f}", f"{mean - value:+.1f}"]


def test_what_is_expected_of_a_value_that_is_not_finished(copied: Path, data: Path) -> None:
    comparison = Comparison.open(SWEEP.plan(), data, copied)
    narrow = [name for name, each in cells(copied).items() if each["spec"]["config"]["width"] == 2]
    expecting = dataclasses.replace(SWEEP, expected={"width=2": (9.0, 7.5)})
    shutil.rmtree(copied / "cells" / narrow[0])
    assert "\n| width=2 (1 of 2 repetitions) | 9.0 | " in page(collect(expecting, comparison))
    shutil.rmtree(copied / "cells" / narrow[1])
    shown = page(collect(expecting, comparison))
    assert "\n| width=2 (0 of 2 repetitions) | 9.0 | – | – | 7.5 | – | – |\n" in shown


def test_only_what_is_missing_is_trained_again(copied: Path, data: Path) -> None:
    before = {name: (copied / "cells" / name / "cell.json").stat().st_mtime_ns for name in cells(copied)}
    was = json.loads((copied / "sweep.json").read_text())
    lost = sorted(before)[0]
    shutil.rmtree(copied / "cells" / lost)
    _, messages = run(SWEEP, data, copied)
    assert messages[0] == "repetitions: 7 of 8 cells are done"
    assert len(messages) == 2
    after = {name: (copied / "cells" / name / "cell.json").stat().st_mtime_ns for name in cells(copied)}
    assert {name for name in before if after[name] != before[name]} == {lost}
    assert untimed(json.loads((copied / "sweep.json").read_text())) == untimed(was)


def untimed(results: dict[str, Any]) -> dict[str, Any]:
    for curve in results["curves"]:
        for point in curve["points"]:
            del point["epoch_seconds"], point["train_seconds"]
    return results


def test_the_same_cells_give_the_same_bytes(copied: Path, data: Path) -> None:
    names = ("sweep.json", "sweep.md")
    before = [(copied / name).read_bytes() for name in names]
    run(SWEEP, data, copied)
    assert [(copied / name).read_bytes() for name in names] == before


def test_a_value_that_two_settings_share_is_trained_once(data: Path, tmp_path: Path) -> None:
    sweep = Sweep("bpr", {**SETTINGS, "width": 2, "l2": 0.05}, {"width": (2, 4), "l2": (0.05, 0.2)}, 1)
    comparison = Comparison.open(sweep.plan(), data, tmp_path / "out")
    names = titles_of(comparison)
    assert sorted(names.values()) == [
        "l2=0.2, repetition 0",
        "width=2 and l2=0.05, repetition 0",
        "width=4, repetition 0",
    ]
    assert len({cell.name for cell in comparison.final_cells()}) == 3


def test_what_is_not_finished_is_told(copied: Path, data: Path) -> None:
    comparison = Comparison.open(SWEEP.plan(), data, copied)
    for path in sorted((copied / "cells").iterdir()):
        if cells(copied)[path.name]["spec"]["config"]["width"] == 2:
            shutil.rmtree(path)
    results = collect(SWEEP, comparison)
    first, second = results["curves"][0]["points"]
    assert (first["finished"], first["lacks"]) == (0, "2 of 2 repetitions not finished")
    assert first["mean"] == {"recall@5": None, "ndcg@5": None}
    assert first["epoch_seconds"] is None
    assert (second["finished"], second["lacks"]) == (2, None)


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        (Sweep("bpr", SETTINGS, {"width": (2, 8)}, 2), "width without 4; l2 without 0.05, 0.2"),
        (Sweep("bpr", {"epochs": 2}, SWEEP.values, 2), r"contains another sweep \(settings\); choose another --out"),
        (Sweep("bpr", SETTINGS, SWEEP.values, 1), "fewer repetitions"),
    ],
)
def test_another_result_is_never_replaced(sweep: Sweep, message: str, finished: Comparison) -> None:
    with pytest.raises(UsageError, match=message):
        check_place(sweep, finished.out)


def test_more_values_and_repetitions_are_welcome(finished: Comparison, tmp_path: Path) -> None:
    more = Sweep("bpr", SETTINGS, {"width": (2, 3, 4), "l2": (0.05, 0.2), "negatives": (1, 2)}, 3)
    check_place(more, finished.out)
    check_place(more, tmp_path / "nothing there")


def test_epochs_of_values_that_ran_side_by_side_are_measured_one_at_a_time(copied: Path, data: Path) -> None:
    timing = SWEEP.timing()
    assert (timing.repetitions, timing.settings["epochs"], timing.values) == (1, 5, SWEEP.values)
    beside = Comparison.open(SWEEP.plan(), data, copied)
    assert not is_shared(beside)
    for path in copied.glob("cells/*/cell.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"jobs": 2, "epoch_seconds": 1e6}))
    assert is_shared(beside)
    alone, _ = run(timing, data, copied / "timing")
    (width, _), (before, _) = (collect(SWEEP, beside, each)["curves"] for each in (alone, None))
    seconds = {each["spec"]["config"]["width"]: each["epoch_seconds"] for each in cells(alone.out).values()}
    for point, as_before in zip(width["points"], before["points"], strict=True):
        assert as_before["epoch_seconds"]["mean"] == 1e6
        assert point["epoch_seconds"] == {"mean": seconds[point["value"]], "sd": None}
        assert point["measured_on"] == ["cpu, 2 side by side", "epochs on cpu, one at a time"]
        assert point["mean"] == as_before["mean"]


def test_an_epochs_sweep_is_timed_as_it_is() -> None:
    sweep = Sweep("bpr", {"batch_size": 512}, {"epochs": (1, 2)}, 2)
    assert sweep.timing() == dataclasses.replace(sweep, repetitions=1)
