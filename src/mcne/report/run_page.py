"""The report of a run: what it is, what it learned from, how well it does, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mcne.data.dataset import SocialDataset
from mcne.data.split import Split
from mcne.report.answers import answers
from mcne.report.curves import learning
from mcne.report.data_card import data_card
from mcne.report.maps import user_map, without_map
from mcne.report.masks import masks
from mcne.report.model_card import model_card
from mcne.report.page import Report, Section, facts
from mcne.report.quality import METRICS, Quality, measure, shown_quality
from mcne.report.sensitivity import sensitivity
from mcne.report.settings import origin_of, settings_of
from mcne.text import Html, code, count_cell, interval_cell, percent_cell
from mcne.training import Run
from mcne.training.run import EMBEDDINGS

Data = tuple[SocialDataset, Split]


def report_of_run(
    run: Run,
    *,
    data: Path | None = None,
    sweeps: Sequence[Path] = (),
    with_map: bool = True,
    kept_map: Path | None = None,
) -> Report:
    """Every section that a run has; where its dataset is gone, those that need it say so.

    ``kept_map`` is what ``mcne plot map`` kept of a map of this run; without one, a small map is computed.
    """
    if data is not None:
        run = replace(run, places={**run.places, "dataset": str(data.absolute())})
    held = run.data() if data is not None else _data(run)
    quality = None if held is None else measure(run, *held)
    embeddings = run.embeddings if (run.path / EMBEDDINGS).exists() else None
    sections: list[Section | None] = [
        Section("glance", "At a glance", _glance(run, held, quality)),
        _data_section(run, held),
        learning(run),
        _quality_section(run, quality),
    ]
    if embeddings is not None:
        sections += [
            masks(embeddings, run.records, run.result["best_epoch"]),
            user_map(embeddings, kept_map) if with_map or embeddings.trunk is None else without_map(),
            Section("answers", "Example answers", answers(embeddings)),
        ]
    sections += [
        sensitivity(sweeps, dataset=run.spec.dataset),
        Section("card", "Model card", model_card(run, embeddings, held)),
        Section("settings", "Settings", settings_of(run)),
        Section("origin", "Fingerprints and provenance", origin_of(run, None if held is None else held[0])),
    ]
    title = run.spec.method + ("" if held is None else f" on {held[0].name}")
    about = f"A report of the run {run.path.resolve().name}. The page is one file: it needs no network and no script."
    return Report(title, about, tuple(section for section in sections if section is not None))


def _data(run: Run) -> Data | None:
    """What it was trained on; None where that is gone. A dataset that is there but another is an error."""
    return run.data() if (run.path / run.places["dataset"]).exists() else None


def _gone(run: Run) -> str:
    place = run.path / run.places["dataset"]
    return f"The dataset is no longer in {place}, so this cannot be shown; put it back, or name its place by --data."


def _data_section(run: Run, held: Data | None) -> Section:
    if held is None:
        return Section.lacking("data", "Data", _gone(run))
    return Section("data", "Data", data_card(*held, split_name=run.places["split"]))


def _quality_section(run: Run, quality: Quality | None) -> Section:
    if quality is None:
        return Section.lacking("quality", "Quality", _gone(run))
    return Section("quality", "Quality", *shown_quality(quality))


def _glance(run: Run, held: Data | None, quality: Quality | None) -> Html:
    """The figures that most people look for."""
    pairs: list[tuple[str, str]] = [("method", run.spec.method)]
    if quality is not None:
        name = next(iter(quality.summaries))
        for metric, title in METRICS.items():
            mean, found = quality.summaries[name]["mean"][metric], quality.measured(metric, name, None)
            shown = percent_cell(mean) if found is None else interval_cell(mean, found.low, found.high)
            pairs.append((f"{title} on test, percent", shown))
    if held is not None:
        pairs += [("users", count_cell(held[0].n_users)), ("behaviors", count_cell(len(held[0].behaviors)))]
    validation = run.result["ndcg@5"]
    pairs += [
        ("NDCG@5 on validation, percent", percent_cell(validation)),
        ("numbers learned", count_cell(run.result["parameters"])),
        ("seed", str(run.spec.seed)),
        ("fingerprint", code(run.fingerprint[:12])),
    ]
    return facts(pairs)
