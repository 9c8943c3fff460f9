"""The report of a run: its numbers are those of the run, its text is harmless, and what is missing is said."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from matplotlib.figure import Figure
from tests.errors import refused
from tests.plots.figure_parts import bars_of
from tests.report.report_reader import ReportReader, checked_page
from tests.report.report_runs import EVIL, SCRIPT, train

from mcne.analysis.maps import ConditionalMap, Panel, Separation
from mcne.analysis.masks import mask_numbers
from mcne.data.dataset import SocialDataset
from mcne.data.describe import describe, describe_split
from mcne.data.split import random_split
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.embeddings import ConditionalEmbeddings
from mcne.errors import ArtifactError, UsageError
from mcne.evaluation.metrics import HEADLINE, TITLES
from mcne.evaluation.protocol import evaluate
from mcne.evaluation.significance import BehaviorScores, UserScores, averaged, compare
from mcne.extend.transfer import transfer
from mcne.plots import style
from mcne.plots.style import Theme, canvas, colors, styled
from mcne.randomness import Stream
from mcne.report import figures, writing
from mcne.report import page as report_page
from mcne.report.cards import model_card
from mcne.report.page import Report
from mcne.report.quality import best_cells, intervals, mean_name, measure
from mcne.report.run_page import report_of_run
from mcne.studies.comparison import Comparison
from mcne.studies.engine import Kind
from mcne.studies.sweep import Sweep, collect, write
from mcne.training import Run, Training
from mcne.training.run import TRANSFER


@pytest.fixture(scope="session")
def made(plain: Path) -> Report:
    return report_of_run(Run.open(plain / "mcne"), with_map=False)


@pytest.fixture
def sketched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made, but not rendered, which takes longer than all else."""
    monkeypatch.setattr(report_page, "to_svg", lambda _figure: "<svg/>")


@pytest.fixture(scope="session")
def page(made: Report) -> ReportReader:
    return ReportReader(made.html())


def test_the_page_is_whole_harmless_and_accessible(made: Report) -> None:
    page = checked_page(made.html())
    titles = [text for tag, text in page.headings if tag == "h2"]
    assert titles == [
        "At a glance",
        "Data",
        "Learning curves",
        "Quality",
        "Masks",
        "Map of users",
        "Example answers",
        "Model card",
        "Settings",
        "Fingerprints and provenance",
    ]
    assert len(page.all_of("img")) == 2 * len(made.drawings) == 6


@pytest.mark.usefixtures("sketched")
def test_odd_names_and_a_map_leave_the_page_whole(evil: Path) -> None:
    mapped = report_of_run(Run.open(evil / "mcne"))
    assert "map" in [drawing.name for drawing in mapped.drawings]
    checked_page(mapped.html())


def test_masks_are_those_of_plot_masks_as_json(page: ReportReader, plain: Path) -> None:
    run = Run.open(plain / "mcne")
    told = mask_numbers(run.embeddings, run.records, best_epoch=run.result["best_epoch"]).to_json()
    ones = page.tables["Ones in a mask, percent"]
    for level in told["levels"]:
        column = ones.column(f"level {level['level']}, {level['width']} dimensions")
        assert {name: cell.numbers[0][0] for name, cell in column.items()} == level["density"]
    shared = page.tables["What two masks of the last level share, of the dimensions in use"]
    pairs = told["levels"][-1]["overlaps_in_use"]
    assert len(pairs) > 2
    for head, key in (
        ("shared", "shared"),
        ("by chance", "chance"),
        ("Jaccard", "jaccard"),
        ("p after Holm", "holm_p"),
    ):
        shown = {name: cell.numbers[0][0] for name, cell in shared.column(head).items()}
        assert shown == {f"{pair['first']} and {pair['second']}": pair[key] for pair in pairs}


def test_metrics_are_those_of_evaluate_as_json(page: ReportReader, plain: Path) -> None:
    """All digits are those of ``mcne evaluate --json``, and what is shown is them, rounded."""
    for name in ("mcne", "bpr", "popularity"):
        run = Run.open(plain / name)
        summary = json.loads(json.dumps(evaluate(run.embeddings, *run.data()).summary()))
        for metric, title in HEADLINE.items():
            for place, means in [*summary["behaviors"].items(), ("mean", summary["mean"])]:
                cell = page.tables[f"{title} on the test part"].column(place)[name]
                (mean, shown), (low, _), (high, _) = cell.numbers
                assert (mean, shown) == (means[metric], f"{100 * means[metric]:.1f}")
                assert low <= mean <= high


def test_tests_against_the_others_are_those_of_a_paired_bootstrap(page: ReportReader, plain: Path) -> None:
    opened = {name: Run.open(plain / name) for name in ("mcne", "bpr", "popularity")}
    evaluated = {name: evaluate(run.embeddings, *run.data()) for name, run in opened.items()}
    rows = page.tables["mcne against the others, mean over behaviors"].rows[1:]
    assert [(row[0].text, row[1].text) for row in rows] == [
        (other, title) for title in HEADLINE.values() for other in ("bpr", "popularity")
    ]
    for row, (metric, other) in zip(rows, [(m, o) for m in HEADLINE for o in ("bpr", "popularity")], strict=True):
        scores = {name: averaged([each], metric) for name, each in evaluated.items()}
        one = compare(scores["mcne"], {name: scores[name] for name in ("bpr", "popularity")})[other].overall
        told = [value for cell in row[2:] for value, _ in cell.numbers]
        assert told == [
            one.difference, one.low, one.high, one.adjusted_p, one.effect_size, one.better, one.worse,
        ]  # fmt: skip
        means = [evaluated[name].summary()["mean"][metric] for name in ("mcne", other)]
        assert one.difference == pytest.approx(means[0] - means[1], abs=1e-12)


@pytest.mark.usefixtures("sketched")
def test_a_sweep_is_shown_on_the_page_of_a_run(plain: Path, tmp_path: Path) -> None:
    network = plain.parent / "network"
    asked = Sweep.of_pairs("userknn", ["popularity_weight=0,0.5"], repetitions=1, split="random")
    comparison = Comparison.open(asked.plan(), network, tmp_path / "sweep", kind=Kind.sweep)
    comparison.run(jobs=1, device="cpu", say=lambda _line: None)
    numbers = collect(asked, comparison, None)
    write(numbers, tmp_path / "sweep")
    report = report_of_run(Run.open(plain / "mcne"), with_map=False, sweeps=[tmp_path / "sweep"])
    page = checked_page(report.html())
    table = page.tables["popularity_weight: test part, mean over behaviors ± standard deviation, percent"]
    written = json.loads((tmp_path / "sweep" / "sweep.json").read_text())["curves"][0]["points"]
    assert [row[0].text for row in table.rows[1:]] == [str(point["value"]) for point in written]
    assert written[0]["mean"] != written[1]["mean"]
    for row, point in zip(table.rows[1:], written, strict=True):
        assert [cell.numbers[0][0] for cell in row[1:3]] == [point["mean"][metric]["mean"] for metric in HEADLINE]
    assert "sensitivity-1" in [drawing.name for drawing in report.drawings]


def test_every_metric_of_the_run_is_there(page: ReportReader, plain: Path) -> None:
    run = Run.open(plain / "mcne")
    summary = evaluate(run.embeddings, *run.data()).summary()
    rows = page.tables["Every metric of mcne, test part"].rows[1:]
    shown = {(row[0].text, row[2].text): [cell.numbers[0] for cell in row[3:]] for row in rows}
    for place, means in [*summary["behaviors"].items(), ("mean", summary["mean"])]:
        for cutoff in (5, 10, 20):
            values = [means[f"{metric}@{cutoff}"] for metric in TITLES]
            assert shown[place, f"@{cutoff}"] == [(value, f"{100 * value:.2f}") for value in values]


def test_the_data_card_says_what_describe_finds(page: ReportReader, plain: Path) -> None:
    dataset, split = Run.open(plain / "mcne").data()
    for behavior in describe(dataset)["behaviors"]:
        table = page.tables["Behaviors"]
        for head, key in (("items", "items"), ("records", "interactions"), ("density, %", "density")):
            assert table.column(head)[behavior["name"]].numbers[0][0] == behavior[key]
        alike = behavior["likeness"]
        table = page.tables["How alike friends are: mean cosine of their items, and that of any two users"]
        for head, key in (("friends", "friends"), ("any two users", "chance"), ("times as alike", "ratio")):
            assert table.column(head)[behavior["name"]].numbers[0][0] == alike[key]
        assert table.column("times as alike")[behavior["name"]].text == f"{alike['ratio']:.2f}"
        for head in ("links", "compared"):
            assert table.column(head)[behavior["name"]].numbers == [(alike[head], f"{alike[head]:,}")]
    caption = next(caption for caption in page.tables if caption.startswith("Split random-0"))
    assert split.fingerprint[:12] in caption
    for behavior in describe_split(dataset, split)["behaviors"]:
        for part in ("train", "validation", "test"):
            assert page.tables[caption].column(part)[behavior["name"]].numbers == [
                (behavior[part], f"{behavior[part]:,}")
            ]


def test_curves_settings_and_fingerprints_are_the_runs_own(page: ReportReader, plain: Path) -> None:
    run = Run.open(plain / "mcne")
    best = run.records[run.result["best_epoch"] - 1]
    table = page.tables["First, best and last epoch"]
    assert table.column("number")["best"].numbers[0][0] == best["epoch"]
    assert table.column("validation NDCG@5, %")["best"].numbers[0][0] == best["validation"]["mean"]["ndcg@5"]
    assert table.column("loss on Books")["best"].numbers[0][0] == best["loss"]["Books"]
    settings = {
        name: json.loads(cell.text)
        for name, cell in page.tables["Settings, defaults included"].column("value").items()
        if name not in ("method", "mode", "message", "l2_form")
    }
    spec = run.spec
    assert settings == {"seed": 0} | {
        k: v for k, v in (dict(spec.schedule) | dict(spec.config)).items() if k not in ("message", "l2_form")
    }
    prints = [cell.text for cell in page.tables["Fingerprints (sha256)"].column("value").values()]
    assert prints == [spec.dataset, spec.split, run.embeddings.fingerprint, spec.identity]


def test_answers_are_those_of_the_artifact(page: ReportReader, plain: Path) -> None:
    embeddings = Run.open(plain / "mcne").embeddings
    user = next(int(text.split()[-1].strip("?")) for _, text in page.headings if text.startswith("What suits user"))
    rows = page.tables["Items with the highest scores that the user lacks"].rows
    for at, head in enumerate(cell.text for cell in rows[0]):
        if head.startswith("on "):
            best = embeddings.recommend(user, head.removeprefix("on "), k=5)
            assert [row[at].text for row in rows[1:]] == [str(item) for item in best.ids]
            assert [row[at + 1].numbers[0][0] for row in rows[1:]] == pytest.approx(best.scores.tolist())


@pytest.mark.usefixtures("sketched")
def test_names_that_are_markup_stay_text(evil: Path) -> None:
    text = report_of_run(Run.open(evil / "mcne"), with_map=False).html()
    page = checked_page(text)
    assert "<script" not in text
    assert "<img src=x" not in text
    assert set(page.tables["Behaviors"].column("items")) == set(EVIL)
    assert page.headings[0][1] == f"mcne on {SCRIPT} & co"


@pytest.mark.slow
def test_twelve_behaviors_fit(tmp_path: Path) -> None:
    dataset, _ = generate(SyntheticConfig(users=500, behaviors=12, items_per_behavior=150, seed=0))
    dataset.save(tmp_path / "network")
    given = {"widths": [8, 8], "neighbor_samples": [2], "attention_width": 4, "batch_size": 1024, "epochs": 1}
    run = train("mcne", tmp_path / "network", tmp_path / "runs" / "mcne", given)
    report = report_of_run(run)
    assert "map" in [drawing.name for drawing in report.drawings]
    checked_page(report.html())


def test_the_same_run_gives_the_same_bytes(made: Report, plain: Path) -> None:
    assert report_of_run(Run.open(plain / "mcne"), with_map=False).html() == made.html()


@pytest.mark.usefixtures("sketched")
def test_without_its_dataset_the_page_says_so_and_shows_the_rest(plain: Path, tmp_path: Path) -> None:
    shutil.copytree(plain / "mcne", tmp_path / "runs" / "mcne")
    report = report_of_run(Run.open(tmp_path / "runs" / "mcne"), with_map=False)
    page = checked_page(report.html())
    assert [section.title for section in report.sections if section.lacks] == ["Data", "Quality"]
    assert "put it back, or name its place by --data" in page.text
    assert "Ones in a mask, percent" in page.tables
    moved = report_of_run(Run.open(tmp_path / "runs" / "mcne"), with_map=False, data=plain.parent / "network")
    assert not [section for section in moved.sections if section.lacks]


def test_another_dataset_is_refused(plain: Path, evil: Path) -> None:
    with refused(ArtifactError, place="mcne", about="trained"):
        report_of_run(Run.open(plain / "mcne"), data=evil.parent / "network")


@pytest.mark.usefixtures("sketched")
def test_methods_without_masks_vectors_or_epochs_have_fewer_sections(plain: Path, tmp_path: Path) -> None:
    shutil.copytree(plain.parent / "network", tmp_path / "network")
    nfm = train("nfm", tmp_path / "network", tmp_path / "runs" / "nfm", {"epochs": 1, "width": 4})
    titles = {}
    for run in (nfm, Run.open(plain / "popularity"), Run.open(plain / "bpr")):
        page = checked_page(report_of_run(run).html())
        titles[run.spec.method] = [text for tag, text in page.headings if tag == "h2"]
    assert not {"Masks", "Map of users", "Example answers"} & set(titles["nfm"])
    assert not {"Masks", "Map of users", "Learning curves"} & set(titles["popularity"])
    assert {"Learning curves", "Example answers"} <= set(titles["bpr"])


@pytest.mark.usefixtures("sketched")
def test_a_run_of_each_behavior_shows_the_curves_of_all(plain: Path, tmp_path: Path) -> None:
    shutil.copytree(plain.parent / "network", tmp_path / "network")
    run = train("bpr", tmp_path / "network", tmp_path / "runs" / "bpr", {"epochs": 2, "width": 4}, "separate")
    page = checked_page(report_of_run(run).html())
    rows = page.tables["First, best and last epoch"].rows
    assert [cell.text for cell in rows[0][3:]] == ["loss on Books", "loss on Movies"]
    assert len(rows) == 7
    assert rows[1][3].numbers
    assert rows[1][4].text == "–"


def test_a_damaged_run_beside_is_left_out_and_said(plain: Path, tmp_path: Path) -> None:
    shutil.copytree(plain.parent, tmp_path / "all")
    runs = tmp_path / "all" / "runs"
    (runs / "popularity" / "run.json").write_text("{}")
    (runs / "bpr" / "embeddings" / "vectors.npy").write_bytes(b"nothing")
    quality = measure(Run.open(runs / "mcne"), *Run.open(runs / "mcne").data())
    assert list(quality.summaries) == ["mcne"]
    assert len(quality.remarks) == 2
    assert not any(quality.tests.values())


def test_runs_of_one_method_are_told_apart_by_their_directories(plain: Path, tmp_path: Path) -> None:
    shutil.copytree(plain.parent, tmp_path / "all")
    shutil.copytree(plain / "bpr", tmp_path / "all" / "runs" / "again")
    run = Run.open(tmp_path / "all" / "runs" / "bpr")
    assert list(measure(run, *run.data()).summaries) == ["bpr in bpr", "bpr in again", "mcne", "popularity"]


def test_a_behavior_called_mean_is_not_the_mean() -> None:
    assert mean_name(["Books", "Movies"]) == "mean"
    assert mean_name(["Books", "mean"]) == "mean of all behaviors"


def test_all_that_are_as_high_are_marked_and_nothing_at_zero() -> None:
    assert best_cells([[0.1, 0.3, 0.3], [0.0, 0.0, 0.0], [0.2, 0.1, 0.1]]) == {(1, 1), (2, 1), (0, 3)}


@pytest.mark.usefixtures("sketched")
def test_without_the_records_of_its_epochs_the_page_says_so(plain: Path, tmp_path: Path) -> None:
    shutil.copytree(plain / "bpr", tmp_path / "runs" / "bpr")
    (tmp_path / "runs" / "bpr" / "metrics.jsonl").unlink()
    report = report_of_run(Run.open(tmp_path / "runs" / "bpr"), data=plain.parent / "network")
    checked_page(report.html())
    assert [section.lacks for section in report.sections if section.lacks] == [
        "No curves: bpr: a run without a loss of any epoch, as of a method that does not learn step by step, has no "
        "curves; draw another run."
    ]


def test_a_result_without_its_metric_is_named(plain: Path, tmp_path: Path) -> None:
    shutil.copytree(plain / "bpr", tmp_path / "bpr")
    (tmp_path / "bpr" / "result.json").write_text('{"best_epoch": 1, "epochs": 1, "parameters": 1}')
    with refused(ArtifactError, place="result.json", about="damaged"):
        report_of_run(Run.open(tmp_path / "bpr"))


def test_the_card_says_what_was_added_later_and_what_was_not_validated(plain: Path, tmp_path: Path) -> None:
    shutil.copytree(plain / "mcne", tmp_path / "mcne")
    result = json.loads((tmp_path / "mcne" / "result.json").read_text())
    (tmp_path / "mcne" / "result.json").write_text(json.dumps(result | {"ndcg@5": None}))
    run = Run.open(tmp_path / "mcne")
    text = ReportReader(model_card(run, run.embeddings, None)).text
    assert "Nobody had validation records, so the last of 3 epochs was kept." in text
    assert "was the best by" not in text
    added = replace(run, spec=replace(run.spec, method=TRANSFER))
    text = ReportReader(model_card(added, run.embeddings, None)).text
    assert "a behavior that was added later" in text
    assert "alike on one behavior or on all" in text
    assert "compared with" not in text


def test_a_page_that_would_be_too_large_is_not_written(
    made: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "LARGEST", 1000)
    with refused(UsageError, place="report.html", about="at most 1,000 are allowed"):
        writing.write_page(made, tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def test_a_figure_of_many_marks_is_an_image_of_few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    places = Stream(0, "marks").normal((2, 3000))

    def draw(theme: Theme) -> Figure:
        figure = canvas(6, 4)
        figure.subplots().scatter(*places, color=colors(theme, 1)[0], alpha=0.6)
        return figure

    images = ReportReader(report_page.shown(report_page.Drawing("marks", "marks", "marks", "Marks.", draw))).all_of(
        "img"
    )
    assert [image["src"].partition(",")[0] for image in images] == ["data:image/png;base64"] * 2
    assert max(len(image["src"]) for image in images) < 120_000
    monkeypatch.setattr(report_page, "LARGEST_SVG", 10**9)
    vectors = ReportReader(report_page.shown(report_page.Drawing("marks", "marks", "marks", "Marks.", draw))).all_of(
        "img"
    )
    assert min(len(image["src"]) for image in vectors) > max(len(image["src"]) for image in images)


def test_a_caption_tells_of_letters_that_no_font_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(style, "FURTHER_FONTS", ())

    def draw(_theme: Theme) -> Figure:
        figure = canvas(3, 2)
        figure.suptitle("\u97f3")
        return figure

    text = ReportReader(report_page.shown(report_page.Drawing("d", "d", "d", "About it.", draw))).text
    assert text.startswith("About it. Boxes in the figure stand for letters that no font had")
    assert "\u97f3" in text


def test_an_interval_holds_the_middle_of_what_resampling_can_give() -> None:
    """Two users with 0 and 1: a resample is 0 or 1 with chance 1/4 each. Users who are alike leave no doubt."""
    unsure = BehaviorScores(np.array([0, 1], dtype=np.int32), np.full(2, 0.5), np.array([0.0, 1.0]))
    sure = replace(unsure, scores=np.full(2, 0.25))
    resampled = intervals(
        {"unsure": UserScores(("", "", ""), {"b": unsure}), "sure": UserScores(("", "", ""), {"b": sure})}
    )
    one, other = resampled["unsure"].overall, resampled["sure"].behaviors["b"]
    assert (one.difference, one.low, one.high) == (0.5, 0.0, 1.0)
    assert (other.difference, other.low, other.high) == (0.25, 0.25, 0.25)
    assert intervals({"none": UserScores(("", "", ""), {})}) == {}


def map_of(run: Run) -> ConditionalMap:
    """A map as ``mcne plot map`` makes it, of places that mean nothing."""
    names, ids = run.embeddings.behavior_names, run.embeddings.users.take(np.arange(12))
    places = Stream(0, "places").normal((len(names), len(ids), 2))
    panels = [
        Panel(f"{kind} masks", tuple(names), places, 0.9, Separation(at, 0.8))
        for kind, at in (("learned", 0.5), ("random", 0.4))
    ]
    draws = (Separation(0.2, 0.5), Separation(0.1, 0.6))
    return ConditionalMap(
        "together", "mcne", run.fingerprint, 0, 3.0, tuple(ids), tuple(panels), Separation(0.3, 0.7), draws
    )


@pytest.mark.usefixtures("sketched")
def test_the_masks_of_a_behavior_that_was_added_are_shown_at_every_level(plain: Path, tmp_path: Path) -> None:
    base = Run.open(plain / "mcne").embeddings
    users, items = (Stream(0, name).integers(n, 2000).tolist() for name, n in (("users", 500), ("items", 120)))
    records = pa.table({"user_id": [base.users[user] for user in users], "item_id": items})
    later = SocialDataset.from_frames(records, single_behavior="Sports")
    added = Training(
        TRANSFER,
        later,
        random_split(later, seed=0),
        settings={"epochs": 2, "learning_rate": 0.05},
        device=torch.device("cpu"),
        places={"split": "random-0"},
    )
    run = transfer(base, added, tmp_path / "later", behavior="Sports")
    report = report_of_run(run, with_map=False)
    page = checked_page(report.html())
    ones = [text.count("1") / len(text) for text in run.embeddings.provenance["added"]["Sports"]["masks"]]
    cells = [page.tables["Ones in a mask, percent"].column(f"level {k}, 8 dimensions")["Sports"] for k in (0, 1)]
    assert [cell.numbers[0][0] for cell in cells] == ones
    with styled("light"):
        figure = next(drawing for drawing in report.drawings if drawing.name == "masks").draw("light")
    _, lower, _, training = figure.subfigs
    assert [axes.get_title() for axes in lower.axes] == ["Added later: level 0"]
    flips = [record["mask_flips"] / 16 for record in run.records]
    heights = [bar.get_height() for bar in bars_of(training.axes[0])]
    assert flips[-1] > 0
    assert heights == pytest.approx([flips[0], flips[1] - flips[0]])


@pytest.mark.usefixtures("sketched")
def test_a_kept_map_is_drawn_and_one_of_other_vectors_refused(plain: Path, evil: Path, tmp_path: Path) -> None:
    run, other = Run.open(plain / "mcne"), Run.open(evil / "mcne")
    computed = map_of(run)
    (tmp_path / "map.json").write_text(json.dumps(computed.to_json()))
    report = report_of_run(run, kept_map=tmp_path / "map.json")
    page = checked_page(report.html())
    assert "map" in [drawing.name for drawing in report.drawings]
    numbers = page.tables["How far behaviors stand apart"].column("silhouette")
    assert [cell.numbers[0][0] for cell in numbers.values()] == [0.5, 0.4, 0.3, 0.1, 0.2]
    with refused(ArtifactError, place="map.json", about="vectors"):
        report_of_run(other, kept_map=tmp_path / "map.json")


@pytest.mark.parametrize(("points", "users"), [(50, 25), (10_000, 500), (4, 10)])
def test_a_map_made_for_a_report_has_so_many_points_over_all_behaviors(
    points: int, users: int, plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def made(embeddings: ConditionalEmbeddings, *, n_users: int) -> ConditionalMap:
        asked.append(n_users)
        raise UsageError("no map is needed here")

    monkeypatch.setattr(figures, "POINTS", points)
    monkeypatch.setattr(figures, "conditional_map", made)
    section = figures.user_map(Run.open(plain / "mcne").embeddings, None, is_wanted=True)
    assert (asked, section and section.lacks) == ([users], "No map: no map is needed here.")


def test_without_the_package_for_maps_the_section_says_how_to_get_it(
    plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openTSNE", None)
    section = figures.user_map(Run.open(plain / "mcne").embeddings, None, is_wanted=True)
    assert section is not None
    assert "pip install 'mcne[maps]'" in section.lacks
