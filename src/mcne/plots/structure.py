"""How well vectors predict held-out links, compared with scores that need no training."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from mcne.files import absent, checked_json
from mcne.plots.style import FAINT, INK, MARKERS, Theme, canvas, colors, shortened

RESULT = "structure.json"
TITLES = {"uniform": "Against any two users", "degree": "Against users of the same degrees"}


def read(directory: Path) -> dict[str, Any]:
    """The results of ``mcne structure`` in a directory."""
    path = directory / RESULT
    if not path.is_file():
        remedy = f"run mcne structure --data DATA --out {directory}"
        raise absent(directory, RESULT, "a finished structure study", remedy)
    step = "remove it, and the same mcne structure writes it again"
    result: dict[str, Any] = checked_json(path, _check, step=step)
    return result


def _check(result: Any) -> None:
    for row in result["rows"]:
        _ = row["method"], row["behavior"], row["similarity"], [row[kind]["auc"]["mean"] for kind in TITLES]
    _ = result["dataset"]["name"], result["repetitions"], result["links"], sum(result["held_out_links"])
    _ = result["lacking"]


def draw_structure(result: Mapping[str, Any], *, theme: Theme) -> Figure:
    """A line per method and vector, a panel per kind of pairs; inside ``styled(theme)``."""
    lines = list(dict.fromkeys((row["method"], row["behavior"]) for row in result["rows"]))
    figure = canvas(9.0, 1.7 + 0.24 * len(lines))
    panels = figure.subplots(1, len(TITLES), sharey=True)
    for panel, (kind, title) in zip(panels, TITLES.items(), strict=True):
        _draw(panel, result, lines, kind, theme)
        panel.set_title(title)
    names = [method if behavior is None else f"{method}, {shortened(behavior)}" for method, behavior in lines]
    panels[0].set_yticks(range(len(lines)), names)
    panels[0].set_ylim(len(lines) - 0.5, -0.5)
    handles, labels = panels[0].get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    figure.legend(unique.values(), unique.keys(), loc="outside lower center", ncols=len(unique))
    times = result["repetitions"]
    fewer = "at most " if result["lacking"] else ""
    over = f", mean ± standard deviation of {fewer}{times}" if times > 1 else ""
    name = shortened(result["dataset"]["name"], 30)
    share = mean(result["held_out_links"]) / result["links"]
    figure.suptitle(f"{name}: AUC on {100 * share:.2g}% of the links, held out{over}", fontsize=10)
    return figure


def _draw(panel: Axes, result: Mapping[str, Any], lines: list[tuple[str, str | None]], kind: str, theme: Theme) -> None:
    first, second = colors(theme, 2)
    looks = {
        None: ("needs no training", FAINT[theme], MARKERS[3], 0.0),
        "inner product": ("inner product", first, MARKERS[0], -0.14),
        "cosine": ("cosine", second, MARKERS[1], 0.14),
    }
    lowest = 0.45  # below chance, at least
    for row in result["rows"]:
        label, color, marker, aside = looks[row["similarity"]]
        place = lines.index((row["method"], row["behavior"])) + aside
        middle, spread = row[kind]["auc"]["mean"], row[kind]["auc"]["sd"] or 0
        panel.errorbar(middle, place, xerr=spread, fmt=marker, color=color, markersize=5, capsize=2, label=label)
        lowest = min(lowest, middle - spread - 0.02)
    panel.axvline(0.5, color=INK[theme], linestyle="--", linewidth=1)
    panel.set_xlim(lowest, 1.0)
    panel.xaxis.set_major_formatter(PercentFormatter(1.0))
    panel.set_xlabel("AUC; dashed: chance")
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="x")
    several = {method for method, behavior in lines if behavior is not None}
    for at in range(1, len(lines)):
        before, after = lines[at - 1][0], lines[at][0]
        if before != after and {before, after} & several:
            panel.axhline(at - 0.5, color=FAINT[theme], linewidth=0.6)
