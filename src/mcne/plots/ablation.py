"""The ablation figure: variants of a method side by side, with each difference from the full method and its p-value.

Everything comes from the files of ``mcne compare``: ``users.parquet`` gives means and paired tests, the same as in
the comparison's tables, and ``table.json`` the standard deviations over repetitions.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from mcne.errors import ArtifactError, UnknownError, UsageError
from mcne.evaluation.metrics import HEADLINE
from mcne.evaluation.significance import RESAMPLES, BehaviorScores, Comparison, UserScores, compare
from mcne.files import absent, checked_json
from mcne.plots.style import FAINT, INK, Theme, canvas, looks, shortened
from mcne.text import p_value

USERS, TABLES = "users.parquet", "table.json"
SAMPLED = "Against 100 random items of the behavior (the paper's protocol)"
SHORT = {"recall@5": "R@5", "ndcg@5": "N@5"}
MEAN = "mean over behaviors"
LEVEL = 0.05
AGAIN = "write it again with mcne compare … --table"
ROW_HEIGHT, PANEL_WIDTH, HEADROOM = 0.17, 2.2, 0.95  # inches
TITLE_LETTERS = 18

Styles = Mapping[str, dict[str, Any]]  # of the rows


@dataclass(frozen=True)
class Place:
    """One variant on a behavior, or on the mean over behaviors; percent and points."""

    mean: float
    sd: float | None  # over repetitions, as precise as the comparison's table
    test: Comparison | None  # the reference against it; none of the reference


@dataclass(frozen=True)
class Ablation:
    """The variants of one finished comparison."""

    name: str
    reference: str
    rows: tuple[str, ...]
    places: tuple[str, ...]  # behaviors, then the mean
    cells: Mapping[tuple[str, str, str], Place]  # (metric, row, place)
    rivals: int  # methods of the comparison that Holm's correction is over

    @classmethod
    def read(cls, directory: Path, rows: Sequence[str], *, reference: str, name: str = "") -> Ablation:
        """The rows of a comparison that have all their repetitions; ``name`` is shown in place of its directory's."""
        users = _read_users(directory)
        deviations = _deviations(checked_json(directory / TABLES, _deviations, step=AGAIN))
        methods = users["method"].unique().to_pylist()
        for row in rows:
            if row not in methods:
                remedy = "or finish its repetitions with mcne compare"
                raise UnknownError.of("row", row, methods, place=directory, remedy=remedy)
        scores = {metric: {row: user_scores(users, row, "sampled", metric) for row in methods} for metric in HEADLINE}
        behaviors = list(scores["ndcg@5"][methods[0]].behaviors)
        titles = (*behaviors, "mean")  # in the tables
        places = (*behaviors, MEAN)
        cells = {}
        for metric, each in scores.items():
            tests = compare(each[reference], {row: other for row, other in each.items() if row != reference})
            for row in rows:
                means = [float(one.weights @ one.scores) for one in each[row].behaviors.values()]
                means.append(sum(means) / len(means))
                both = [*tests[row].behaviors.values(), tests[row].overall] if row in tests else [None] * len(places)
                for place, title, mean, test in zip(places, titles, means, both, strict=True):
                    sd = deviations.get((row, f"{title} {SHORT[metric]}"))
                    cells[metric, row, place] = Place(100 * mean, sd, test)
        return cls(name or directory.resolve().name, reference, tuple(rows), places, cells, len(methods) - 1)

    def to_json(self) -> dict[str, Any]:
        """Every number of the figure; differences are those of the reference less the row, as fractions."""
        cells = [
            {"metric": metric, "row": row, "place": place, "mean": cell.mean, "sd": cell.sd}
            | {"test": None if cell.test is None else vars(cell.test)}
            for (metric, row, place), cell in self.cells.items()
        ]
        return {"name": self.name, "reference": self.reference, "rivals": self.rivals, "found": cells}


def check_rows(rows: Sequence[str], reference: str) -> None:
    """Refuse wrong rows before anything is read."""
    if len(set(rows)) < max(2, len(rows)):
        raise UsageError(
            "are not two different rows",
            f"--rows {','.join(rows)}",
            "name at least two, such as mcne-a,mcne",
            value=list(rows),
        )
    if reference not in rows:
        raise UnknownError.of("row", reference, rows, place="--reference")


def caption(ablations: Sequence[Ablation]) -> str:
    """What the figure shows, in a paragraph."""
    first = ablations[0]
    families = ", ".join(f"{each.rivals} ({each.name})" for each in ablations)
    others = [row for row in first.rows if row != first.reference]
    return (
        f"{', '.join(first.rows)} on {', '.join(each.name for each in ablations)}: Recall@5 and NDCG@5 on the test "
        "part (sampled protocol), means with one standard deviation over repetitions where there are several; and the "
        f"difference of {', '.join(others)} from {first.reference} in points, with the 95 % interval of a paired "
        f"bootstrap over users ({RESAMPLES:,} resamples). p is two-sided and corrected by Holm: for the mean over the "
        f"{families} other methods of the comparison, and for single behaviors over all those methods and behaviors; "
        f"* marks p < {LEVEL}."
    )


def lines(ablations: Sequence[Ablation]) -> Iterator[str]:
    """Every test in a line."""
    for each in ablations:
        for (metric, row, place), cell in each.cells.items():
            if (test := cell.test) is not None:
                by, low, high = (f"{-100 * value + 0.0:+.2f}" for value in (test.difference, test.high, test.low))
                what = f"{each.name}, {place} {HEADLINE[metric]}: {row} less {each.reference}"
                yield f"{what} {by} ({low} … {high}), p {chance(test)}"


def chance(test: Comparison) -> str:
    """The corrected p, marked if below the level; an upper bound if no resample was beyond zero."""
    is_significant = test.adjusted_p < LEVEL
    shown = p_value(test.adjusted_p, is_bound=test.is_bound, digits=4 if is_significant else 2)
    return f"{shown} *" if is_significant else shown


def draw(ablations: Sequence[Ablation], theme: Theme) -> Figure:
    """For each comparison a line of panels: values and differences of both metrics; inside ``styled(theme)``."""
    rows = ablations[0].rows
    heights = [HEADROOM + ROW_HEIGHT * (len(rows) + 1) * len(each.places) for each in ablations]
    figure = canvas(len(HEADLINE) * 2 * PANEL_WIDTH + 1.6, sum(heights) + 0.5)
    axes = figure.subplots(len(ablations), 2 * len(HEADLINE), squeeze=False, gridspec_kw={"height_ratios": heights})
    styles = looks(theme, rows)
    for each, panels in zip(ablations, axes, strict=True):
        for k, metric in enumerate(HEADLINE):
            _draw_values(panels[2 * k], each, metric, styles)
            _draw_differences(panels[2 * k + 1], each, metric, styles, theme)
        for panel in panels:
            _set_places(panel, each, theme, labeled=panel is panels[0])
        panels[0].set_ylabel(shortened(each.name), fontweight="bold")
    handles = [Line2D([], [], label=shortened(row), linestyle="none", **look) for row, look in styles.items()]
    note = f"values ± sd over repetitions; differences with 95 % intervals; * p < {LEVEL} after Holm’s correction"
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(rows), 4), title=note)
    return figure


def _draw_values(panel: Axes, each: Ablation, metric: str, styles: Styles) -> None:
    """Means with one standard deviation."""
    for row, look in styles.items():
        shown = [each.cells[metric, row, place] for place in each.places]
        bars = [place.sd or 0.0 for place in shown]
        means = [place.mean for place in shown]
        panel.errorbar(means, _heights(each, row), xerr=bars, linestyle="none", capsize=2, elinewidth=1, **look)
    panel.set_title(HEADLINE[metric])
    panel.set_xlabel("%")


def _draw_differences(panel: Axes, each: Ablation, metric: str, styles: Styles, theme: Theme) -> None:
    """Each difference from the reference, with its 95 % interval and p-value."""
    for row, look in styles.items():
        for height, place in zip(_heights(each, row), each.places, strict=True):
            test = each.cells[metric, row, place].test
            if test is None:
                continue
            middle, low, high = (-100 * value for value in (test.difference, test.high, test.low))
            bar = [[max(0.0, middle - low)], [max(0.0, high - middle)]]
            panel.errorbar([middle], [height], xerr=bar, linestyle="none", capsize=2, elinewidth=1, **look)
            across = panel.get_yaxis_transform()
            weight = "bold" if test.adjusted_p < LEVEL else "normal"
            panel.text(1.03, height, chance(test), transform=across, va="center", fontsize=7, fontweight=weight)
    panel.axvline(0, color=INK[theme], linewidth=1)
    panel.text(1.03, 1.01, "p", transform=panel.transAxes, fontsize=8, fontweight="bold")
    panel.set_title(textwrap.fill(f"difference from {shortened(each.reference)}", TITLE_LETTERS))
    panel.set_xlabel("points")


def _set_places(panel: Axes, each: Ablation, theme: Theme, *, labeled: bool) -> None:
    """Behaviors from top to bottom, the mean last, with lines between them."""
    spans = range(len(each.places))
    panel.set_yticks([at + 0.5 for at in spans], map(shortened, each.places) if labeled else [""] * len(each.places))
    panel.tick_params(axis="y", length=0)
    panel.set_ylim(len(each.places), 0)
    for at in spans:
        panel.axhline(at, color=FAINT[theme], alpha=0.4, linewidth=0.8)
    panel.xaxis.set_major_locator(MaxNLocator(4))
    panel.grid(True, axis="x")


def _heights(each: Ablation, row: str) -> list[float]:
    """Where a row stands within every place."""
    aside = (each.rows.index(row) + 1) / (len(each.rows) + 1)
    return [at + aside for at in range(len(each.places))]


def user_scores(users: pa.Table, method: str, protocol: str, metric: str) -> UserScores:
    """The scores of a method, from the rows of ``users.parquet``."""
    rows = users.filter(pc.field("method") == method)
    behaviors = {}
    for name in rows["behavior"].unique().to_pylist():
        own = rows.filter(pc.field("behavior") == name)
        behaviors[name] = BehaviorScores(*(own[key].to_numpy() for key in ("user", "weight", f"{protocol} {metric}")))
    return UserScores(("test", protocol, metric), behaviors)


def _read_users(directory: Path) -> pa.Table:
    path = directory / USERS
    if not path.is_file():
        remedy = f"run mcne compare --methods NAME,NAME --data DATA --out {directory}"
        raise absent(directory, USERS, "a finished comparison", remedy)
    try:
        return pq.read_table(
            path, columns=["method", "behavior", "user", "weight", *(f"sampled {m}" for m in HEADLINE)]
        )
    except (OSError, pa.ArrowException) as error:
        raise ArtifactError(f"is damaged, or has no results of the sampled protocol ({error})", path, AGAIN) from error


def _deviations(tables: Any) -> dict[tuple[str, str], float]:
    """By row and column title, the ± of the table of the sampled protocol, in percent."""
    (table,) = (table for table in tables if table["title"] == SAMPLED)
    cells = [(row[0], title, cell) for row in table["rows"] for title, cell in zip(table["header"], row, strict=True)]
    return {(name, title): float(cell.partition("±")[2]) for name, title, cell in cells if "±" in cell}
