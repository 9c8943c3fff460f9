"""A comparison of ways to bring a behavior: every cell once, chosen on validation, tables that say what was trained."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.errors import refused
from tests.extend.later_behavior import NEW, Whole, three_behaviors

from mcne.data.dataset import SocialDataset
from mcne.errors import ArtifactError, UsageError
from mcne.studies import transfer as module
from mcne.studies.transfer import TransferPlan, TransferStudy, Way, finished_rows, write

PLAN = """
title = "small"
behavior = "Travel"
repetitions = 2
[training]
epochs = 2
[base]
settings = { widths = [8, 5], neighbor_samples = [3], attention_width = 3, batch_size = 256, learning_rate = 0.05 }
[rows.transfer]
[rows.transfer.search]
l2 = [0.001, 0.1]
[rows.random]
control = "random-masks"
[rows.popularity]
method = "popularity"
[rows.together]
method = "bpr"
on = "all"
settings = { width = 4, epochs = 1 }
[paper]
transfer = [31.2, 27.5]
[expected]
transfer = [9.0, 7.5]
together = [80, 70]
"""


@pytest.fixture(scope="module")
def whole() -> Whole:
    return three_behaviors()


@pytest.fixture(scope="module")
def data(whole: Whole, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "data"
    whole[0].save(path)
    return path


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path / "plan.toml"


def run(plan: Path, data: Path, out: Path) -> tuple[TransferStudy, list[str]]:
    study = TransferStudy.open(TransferPlan.read(plan), data, out)
    messages: list[str] = []
    assert study.run(jobs=1, device="cpu", say=messages.append) == {}
    return study, messages


@pytest.fixture(scope="module")
def done(data: Path) -> Iterator[tuple[TransferStudy, list[str]]]:
    (data.parent / "plan.toml").write_text(PLAN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield run(data.parent / "plan.toml", data, data.parent / "out")


def test_everything_is_trained_once_and_told(
    done: tuple[TransferStudy, list[str]], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, messages = done
    assert [line for line in messages if "are done" in line] == [
        "bases: 0 of 2 cells are done",
        "first repetition: 0 of 5 cells are done",
        "chosen, all repetitions: 4 of 8 cells are done",
    ]
    rows = {row.name: row for row in finished_rows(study)}
    assert list(rows) == ["transfer", "random", "popularity", "together"]
    items = SocialDataset.load(data).behavior(NEW).n_items
    assert rows["transfer"].numbers() == (8 + 5 + 5 * items, 8 + 5)
    assert rows["random"].numbers() == (5 * items, 0)
    assert rows["popularity"].numbers() == (items, None)
    assert all(len(row.results) == 2 for row in rows.values())
    searched = [study.result(way, 0) for way in study.plan.ways["transfer"]]
    best = max(searched, key=lambda result: result["validation"] if result else 0)
    assert rows["transfer"].results[0] == best
    monkeypatch.setattr(module, "run_training", lambda *_, **__: pytest.fail("trained again"))
    kept = [path for path in study.out.rglob("*.json") if path.parent != study.out]
    before = {path: path.stat().st_mtime_ns for path in kept}
    run(data.parent / "plan.toml", data, study.out)
    assert len(before) > 10
    assert {path: path.stat().st_mtime_ns for path in kept} == before


def test_a_base_is_trained_only_for_what_is_still_to_be_brought_to_it(
    done: tuple[TransferStudy, list[str]], data: Path, tmp_path: Path
) -> None:
    """A study whose bases were thrown away, with one transfer to the second of them missing, and one of BPR."""
    out = shutil.copytree(done[0].out, tmp_path / "out")
    study = replace(done[0], out=out)
    shutil.rmtree(out / "bases")
    chosen = study.choose()
    for row in ("random", "together"):
        shutil.rmtree(study.directory(chosen[row], 1))
    assert study.run(jobs=1, device="cpu", say=lambda _: None) == {}
    assert [path.name for path in (out / "bases").iterdir()] == [study.base(1).name]
    assert all(study.result(way, r) is not None for way in chosen.values() for r in range(2))
    shutil.rmtree(out / "bases")
    shutil.rmtree(study.directory(chosen["together"], 1))
    assert study.run(jobs=1, device="cpu", say=lambda _: None) == {}
    assert not (out / "bases").exists()


def test_tables_equal_what_was_measured(done: tuple[TransferStudy, list[str]]) -> None:
    study, _ = done
    rows = finished_rows(study)
    page, _, table = (path.read_text() for path in write(study, rows=rows))
    content: dict[str, Any] = json.loads(table)
    for row, shown in zip(rows, content["rows"], strict=True):
        values = [result["test"]["recall@5"] for result in row.results]
        assert shown["metrics"]["recall@5"]["mean"] == pytest.approx(sum(values) / 2)
        assert [split["recall@5"] for split in shown["splits"]] == values
        assert f"| {row.name} | {shown['numbers_trained']:,} |" in page
        assert f"{100 * shown['metrics']['recall@5']['mean']:.1f} ± " in page
        ranked = [study.evaluation(row.candidate, r).mean(NEW, "recall@5") for r in range(2)]
        assert ranked == pytest.approx(values)
    assert set(content["tests"]["ndcg@5"]) == {"random", "popularity", "together"}
    assert "| 31.20 | 27.50 |" in page
    assert "transfer against the others" in page


def section_of(page: str, title: str) -> list[str]:
    """The lines of the table with a title."""
    _, section = page.split(f"### {title}\n")
    return [line for line in section.partition("### ")[0].splitlines() if line.startswith("|")]


def first_of(study: TransferStudy, way: Way) -> dict[str, Any]:
    """A finished cell of the first repetition."""
    result = study.result(way, 0)
    assert result is not None
    return result


def test_tables_tell_what_was_searched_and_chosen(done: tuple[TransferStudy, list[str]]) -> None:
    study, _ = done
    rows = finished_rows(study)
    page, html, table = (path.read_text() for path in write(study, rows=rows))
    header, _, *lines = section_of(page, "What was searched and chosen")
    assert header == "|  | searched | validation NDCG@5 | chosen | fixed | schedule |"
    l2 = rows[0].results[0]["cell"]["given"]["l2"]
    assert rows[0].results[0]["validation"] == max(first_of(study, way)["validation"] for way in rows[0].candidates)
    expected = {
        "transfer": ("2", f"l2={l2}", "control=none", "2 epochs, patience 10"),
        "random": ("1", "–", "control=random-masks", "2 epochs, patience 10"),
        "popularity": ("1", "–", "–", "no epochs"),
        "together": ("1", "–", "width=4", "1 epochs, patience 10"),
    }
    assert [row.name for row in rows] == list(expected)
    for line, row, (searched, *settings) in zip(lines, rows, expected.values(), strict=True):
        cells = [row.name, searched, f"{100 * row.results[0]['validation']:.2f}", *settings]
        assert line == f"| {' | '.join(cells)} |"
        assert f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>" in html
    by_name = {row["name"]: row for row in json.loads(table)["rows"]}
    assert {name: (row["searched"], row["chosen"], row["fixed"]) for name, row in by_name.items()} == {
        "transfer": (2, {"l2": l2}, {"control": "none"}),
        "random": (1, {}, {"control": "random-masks"}),
        "popularity": (1, {}, {}),
        "together": (1, {}, {"width": 4}),
    }
    assert [row["validation"] for row in by_name.values()] == [row.results[0]["validation"] for row in rows]
    assert {row["diverged"] for row in by_name.values()} == {0}


def test_a_search_that_diverged_and_a_first_split_that_is_missing_are_told(
    done: tuple[TransferStudy, list[str]], tmp_path: Path
) -> None:
    study = replace(done[0], out=shutil.copytree(done[0].out, tmp_path / "out"))
    chosen = study.choose()
    (other,) = (way for way in study.plan.ways["transfer"] if way != chosen["transfer"])
    diverged = first_of(study, other) | {"validation": None, "diverged": "not a number"}
    (study.directory(other, 0) / "cell.json").write_text(json.dumps(diverged))
    shutil.rmtree(study.directory(chosen["together"], 0))
    page = write(study, rows=finished_rows(study))[0].read_text()
    _, _, first, *_, last = section_of(page, "What was searched and chosen")
    assert first.startswith("| transfer | 2, 1 diverged | ")
    assert last.startswith("| together (1 of 2 splits) | 1 | – | – | width=4 |")


def test_what_the_plan_expects_stands_beside_what_was_found(done: tuple[TransferStudy, list[str]]) -> None:
    study, _ = done
    rows = finished_rows(study)
    page, _, table = (path.read_text() for path in write(study, rows=rows))
    header, _, *lines = section_of(page, "Beside the figures that the plan expects")
    assert header == "| row | expected R@5 | found | gap | expected N@5 | found | gap |"
    by_name = {row.name: row for row in rows}
    for line, (name, before) in zip(lines, [("transfer", (9.0, 7.5)), ("together", (80.0, 70.0))], strict=True):
        cells = line.strip("| ").split(" | ")
        assert cells[0] == name
        for at, (metric, value) in enumerate(zip(("recall@5", "ndcg@5"), before, strict=True)):
            now = by_name[name].metric(metric)
            assert now is not None
            mean = 100 * now["mean"]
            shown = f"{mean:.1f} ± {100 * now['sd']:.1f}" if now["sd"] is not None else ""
            assert cells[1 + 3 * at : 4 + 3 * at] == [f"{value:.1f}", shown, f"{mean - value:+.1f}"]
    assert json.loads(table)["expected"] == {"transfer": [9.0, 7.5], "together": [80.0, 70.0]}


def test_a_plan_that_expects_nothing_has_no_such_section(plan: Path, done: tuple[TransferStudy, list[str]]) -> None:
    study, _ = done
    plan.write_text(PLAN.partition("[expected]")[0])
    nothing = replace(study, plan=TransferPlan.read(plan))
    assert "plan expects" not in write(nothing, rows=finished_rows(nothing))[0].read_text()


def test_data_may_not_change_beneath_it(plan: Path, data: Path, tmp_path: Path, whole: Whole) -> None:
    TransferStudy.open(TransferPlan.read(plan), data, tmp_path / "out")
    other = SocialDataset("other", whole[0].users, whole[0].graph, whole[0].behaviors[1:])
    other.save(tmp_path / "other")
    with refused(ArtifactError, place="out", about="started"):
        TransferStudy.open(TransferPlan.read(plan), tmp_path / "other", tmp_path / "out")


def test_another_behavior_is_another_comparison(plan: Path, data: Path, tmp_path: Path, whole: Whole) -> None:
    TransferStudy.open(TransferPlan.read(plan), data, tmp_path / "out")
    other = next(name for name in whole[0].behavior_names if name != NEW)
    plan.write_text(PLAN.replace('"Travel"', f'"{other}"'))
    with refused(ArtifactError, place="out", about="behavior"):
        TransferStudy.open(TransferPlan.read(plan), data, tmp_path / "out")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('behavior = "Travel"', "", "behavior: is missing"),
        ("[rows.random]", "[rows.random]\ncontrl = 1", r"unknown key of rows.random 'contrl'; did you mean 'control'"),
        ('"random-masks"', '"random"', r"rows.random.control: unknown value 'random'; did you mean 'random-masks'"),
        ('"popularity"', '"populrity"', r"rows.popularity: unknown method 'populrity'; did you mean"),
        ('on = "all"', 'on = "old"', r"rows.together.on: unknown value 'old'"),
        ('method = "bpr"', 'method = "bpr"\ncontrol = "none"', "rows.together.control: only a transfer"),
        (
            "transfer = [31.2, 27.5]",
            "trnsfer = [31.2, 27.5]",
            "unknown row of paper 'trnsfer'; did you mean 'transfer'",
        ),
        ("together = [80, 70]", "togethr = [80, 70]", "unknown row of expected 'togethr'; did you mean 'together'"),
        ("[80, 70]", "[80]", r"expected.together: \(80.0,\) is out of range"),
        ("[80, 70]", "80", "expected.together: 80 is not "),
        ("l2 = [0.001, 0.1]", "widths = [[2]]", "rows.transfer: unknown setting 'widths'"),
        ("repetitions = 2", "repetitions = 2\nsearch = 1", "2 candidates"),
    ],
)
def test_mistakes_in_a_plan(old: str, new: str, message: str, plan: Path) -> None:
    assert old in PLAN
    plan.write_text(PLAN.replace(old, new))
    with pytest.raises(UsageError, match=message):
        TransferPlan.read(plan)


def test_a_behavior_that_the_data_lacks(plan: Path, data: Path, tmp_path: Path) -> None:
    plan.write_text(PLAN.replace('"Travel"', '"Travle"'))
    with refused(UsageError, value="Travle"):
        TransferStudy.open(TransferPlan.read(plan), data, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_plans_of_the_project_are_sound() -> None:
    paths = sorted((Path(__file__).parents[2] / "experiments" / "transfer").glob("*.toml"))
    assert [path.stem for path in paths] == ["ciao", "epinions"]
    for path in paths:
        made = TransferPlan.read(path)
        assert str(path.relative_to(path.parents[2])) in made.command
        assert {len(ways) for ways in made.ways.values()} == {1, 6}
        assert made.ways.keys() == made.expected.keys(), path
        assert {way.given["control"] for ways in made.ways.values() for way in ways if way.is_transfer} == {
            "none",
            "masks-only",
            "random-masks",
            "open-masks",
            "whole-vector",
        }
