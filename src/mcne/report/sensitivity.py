"""What settings change: the results of sweeps that belong to the same data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mcne.errors import UsageError
from mcne.plots.sweep import METRICS, caption, draw, read
from mcne.report.figures import Drawing, shown
from mcne.report.page import Section
from mcne.text import NO_VALUE, Html, Table, element, joined, number_cell, spread_cell


def sensitivity(sweeps: Sequence[Path], *, dataset: str) -> Section | None:
    """The given sweeps, each with its figure and its numbers; None without sweeps."""
    parts, drawings = [], []
    for at, path in enumerate(sweeps, start=1):
        found = read(path)
        if found["dataset"]["fingerprint"] != dataset:
            raise UsageError(
                f"{path}: a sweep on dataset {found['dataset']['fingerprint'][:12]}, but this is about {dataset[:12]}; "
                "give sweeps of the same dataset"
            )
        drawing = _drawing(found, at)
        drawings.append(drawing)
        parts += [element("h3", found["title"]), shown(drawing, caption(found))]
        parts += [_points(curve).captioned() for curve in found["curves"]]
    return Section("sensitivity", "Sensitivity", joined(parts), tuple(drawings)) if parts else None


def _drawing(found: Mapping[str, Any], at: int) -> Drawing:
    settings = ", ".join(curve["setting"] for curve in found["curves"])
    told = (
        f"Recall@5, NDCG@5 and seconds of an epoch over the values of {settings}; the numbers are in the tables below."
    )
    return Drawing(f"sensitivity-{at}", f"sensitivity to {settings}", told, lambda theme: draw(found, theme))


def _points(curve: Mapping[str, Any]) -> Table:
    rows = [
        [str(point["value"]), *(_spread(point["mean"][metric]) for metric in METRICS), _seconds(point["epoch_seconds"])]
        for point in curve["points"]
    ]
    head = [curve["setting"], *METRICS.values(), "seconds of an epoch"]
    return Table(f"{curve['setting']}: test part, mean over behaviors ± standard deviation, percent", head, rows)


def _spread(found: Mapping[str, float | None] | None) -> str:
    return NO_VALUE if found is None else spread_cell(found["mean"], found["sd"])


def _seconds(found: Mapping[str, float | None] | None) -> Html:
    mean = None if found is None else found["mean"]
    return number_cell(mean, ".2f")
