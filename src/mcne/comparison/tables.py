"""The tables of a comparison, as Markdown and as one HTML file."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from mcne.comparison.summary import Spread, Summary
from mcne.evaluation.protocol import CUTOFFS
from mcne.evaluation.slices import SLICES

PROTOCOL_TITLES = {
    "sampled": "Against 100 random items of the behavior (the paper's protocol)",
    "full": "Against all items of the behavior",
    "popular": "Against 100 items drawn by popularity",
}
TWO = ("recall@5", "ndcg@5")
STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } td.best { font-weight: 700; background: var(--soft); }
"""


@dataclass(frozen=True)
class Table:
    """A table of text with a title and a note; ``best`` marks cells by row and column."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    best: frozenset[tuple[int, int]] = frozenset()

    def markdown(self) -> str:
        """As Markdown, the best cells bold."""
        lines = [f"### {self.title}", "", *([self.note, ""] if self.note else [])]
        lines += ["| " + " | ".join(self.header) + " |", "|" + "---|" * len(self.header)]
        for at, row in enumerate(self.rows):
            cells = (f"**{cell}**" if (at, column) in self.best else cell for column, cell in enumerate(row))
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines)

    def html(self) -> str:
        """As HTML, the best cells marked."""
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in self.header)
        body = "".join(f"<tr>{''.join(self._cell(at, row))}</tr>" for at, row in enumerate(self.rows))
        note = f"<p>{html.escape(self.note)}</p>" if self.note else ""
        table = f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        return f"<section><h2>{html.escape(self.title)}</h2>{note}{table}</section>"

    def _cell(self, at: int, row: tuple[str, ...]) -> list[str]:
        marks = [' class="best"' if (at, column) in self.best else "" for column in range(len(row))]
        return [f"<td{mark}>{html.escape(cell)}</td>" for mark, cell in zip(marks, row, strict=True)]


def tables(summary: Summary) -> list[Table]:
    """Every table that the finished cells allow."""
    plan = summary.comparison.plan
    made = []
    for protocol in plan.protocols:
        made.append(_quality(summary, protocol))
        if protocol == "sampled" and plan.paper:
            made.append(_beside_the_paper(summary))
        made += [_cutoffs(summary, protocol), _slices(summary, protocol), *_tests(summary, protocol)]
    return [*made, _costs(summary)]


def write(summary: Summary, out: Path) -> list[Path]:
    """``table.md``, ``table.html``, their cells as ``table.json``, and ``users.parquet`` behind the tests."""
    plan, comparison = summary.comparison.plan, summary.comparison
    made = tables(summary)
    data, splits = comparison.dataset, [print_[:12] for print_ in dict.fromkeys(comparison.splits)]
    about = [
        f"{data.name}: {data.n_users:,} users, {data.graph.n_links:,} links, dataset {data.fingerprint[:12]}; "
        f"{plan.repetitions} repetitions, split {plan.split} ({', '.join(splits)}).",
        f"Every method has a budget of {plan.search} configurations, chosen on the validation part of the first split; "
        "the test part is scored once, with what was chosen. Percent, mean ± standard deviation over repetitions.",
        f"Command: {plan.command}",
    ]
    markdown = "\n\n".join([f"# {plan.title}", *about, *(table.markdown() for table in made)]) + "\n"
    sections = "".join(f"<p>{html.escape(line)}</p>" for line in about) + "".join(table.html() for table in made)
    page = (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(plan.title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head>'
        f"<body><h1>{html.escape(plan.title)}</h1>{sections}</body></html>\n"
    )
    numbers = json.dumps([vars(table) | {"best": sorted(table.best)} for table in made], indent=1)
    written = []
    for name, text in (("table.md", markdown), ("table.html", page), ("table.json", numbers + "\n")):
        (out / name).write_text(text, encoding="utf-8")
        written.append(out / name)
    pq.write_table(summary.users(), out / "users.parquet", compression="zstd")
    return [*written, out / "users.parquet"]


def _quality(summary: Summary, protocol: str) -> Table:
    """Recall@5 and NDCG@5 of every behavior and on average."""
    places: list[str | None] = [*summary.behaviors, None]
    header = ["method", *(f"{place or 'mean'} {title}" for place in places for title in ("R@5", "N@5"))]
    rows = []
    for row in summary.rows:
        found = [row.metric(protocol, place, metric) for place in places for metric in TWO]
        rows.append((row.name, *map(_percent, found)))
    columns = [[row.metric(protocol, place, m) for row in summary.rows] for place in places for m in TWO]
    return Table(PROTOCOL_TITLES[protocol], tuple(header), tuple(rows), best=_best(columns))


def _beside_the_paper(summary: Summary) -> Table:
    """Ours under the two readings that come nearest to what the paper prints, and the gap."""
    header = ["method", *(f"{name}: ours, paper, gap" for name in summary.behaviors)]
    rows = []
    for row in summary.rows:
        printed = summary.comparison.plan.paper.get(row.name)
        if printed is None:
            continue
        cells = []
        for name in summary.behaviors:
            ours = [row.metric("sampled", name, metric) for metric in ("recall@5", "hits_ideal_ndcg@5")]
            cells.append(_gap(ours, printed.get(name)))
        rows.append((row.name, *cells))
    note = (
        "Recall@5 per user / NDCG@5 with the ideal built from the hits found, the pair nearest to the paper's numbers. "
        "Recall pooled over all test items is in the next table."
    )
    return Table("Beside the paper's numbers", tuple(header), tuple(rows), note=note)


def _gap(ours: Sequence[Spread | None], printed: tuple[float, float] | None) -> str:
    if printed is None or any(each is None for each in ours):
        return "–"
    values = [100 * each.mean for each in ours if each is not None]
    mine, theirs = " / ".join(f"{v:.1f}" for v in values), " / ".join(f"{v:.1f}" for v in printed)
    return f"{mine}, {theirs}, " + " / ".join(f"{v - p:+.1f}" for v, p in zip(values, printed, strict=True))


def _cutoffs(summary: Summary, protocol: str) -> Table:
    """Means over behaviors at every cutoff, and the pooled Recall."""
    metrics = [f"{name}@{cutoff}" for cutoff in CUTOFFS for name in ("recall", "ndcg", "hit_rate", "mrr")]
    metrics += [f"pooled_recall@{CUTOFFS[0]}"]
    header = ["method", *metrics] + ([f"coverage@{cutoff}" for cutoff in CUTOFFS] if protocol == "full" else [])
    rows, columns = [], [[row.metric(protocol, None, metric) for row in summary.rows] for metric in metrics]
    for at, row in enumerate(summary.rows):
        found = [column[at] for column in columns]
        found += [row.coverage(cutoff) for cutoff in CUTOFFS] if protocol == "full" else []
        rows.append((row.name, *map(_percent, found)))
    title = f"{PROTOCOL_TITLES[protocol]}: means over behaviors at 5, 10 and 20"
    return Table(title, tuple(header), tuple(rows), best=_best(columns))


def _slices(summary: Summary, protocol: str) -> Table:
    """Users without training record, cold, head and tail items."""
    header = ["method", *(f"{name.replace('_', ' ')} {title}" for name in SLICES for title in ("R@5", "N@5"))]
    columns = [[row.slice(protocol, name, metric) for row in summary.rows] for name in SLICES for metric in TWO]
    rows = [(row.name, *(_percent(column[at]) for column in columns)) for at, row in enumerate(summary.rows)]
    title = f"{PROTOCOL_TITLES[protocol]}: slices"
    return Table(title, tuple(header), tuple(rows), best=_best(columns))


def _tests(summary: Summary, protocol: str) -> list[Table]:
    """The reference against every other method."""
    reference = summary.comparison.plan.reference
    rows = []
    for metric in TWO:
        for rival, found in summary.tests(protocol, metric).items():
            test = found.overall
            effect = "–" if test.effect_size is None else f"{test.effect_size:+.2f}"
            interval = f"{100 * test.low:+.2f} … {100 * test.high:+.2f}"
            chance = f"{test.adjusted_p:.4f}"
            share = f"{100 * test.better:.0f} / {100 * test.worse:.0f}"
            rows.append((rival, metric, f"{100 * test.difference:+.2f}", interval, chance, effect, share))
    if not rows:
        return []
    header = ("rival", "metric", f"{reference} better by", "95 % interval", "p after Holm", "d", "users better / worse")
    note = "Paired bootstrap over users, scores averaged over repetitions; d is Cohen's, of the paired differences."
    return [Table(f"{PROTOCOL_TITLES[protocol]}: {reference} against the others", header, tuple(rows), note=note)]


def _costs(summary: Summary) -> Table:
    """Parameters, seconds, and what was searched and chosen."""
    header = ("method", "numbers learned", "train s", "evaluate s", "searched", "validation NDCG@5", "chosen")
    rows = []
    for row in summary.rows:
        candidates = summary.comparison.plan.candidates[row.name]
        common = dict(set.intersection(*(set(_hashable(c.given)) for c in candidates))) if candidates else {}
        parameters, train, evaluate = (row.cost(n) for n in ("parameters", "train_seconds", "evaluate_seconds"))
        rows.append(
            (
                row.name,
                "–" if parameters is None else f"{parameters.mean:,.0f}",
                "–" if train is None else f"{train.mean:.1f}",
                "–" if evaluate is None else f"{evaluate.mean:.1f}",
                str(row.candidates),
                "–" if row.validation is None else f"{100 * row.validation:.2f}",
                row.candidate.said(common),
            )
        )
    return Table("Costs and choices", header, tuple(rows))


def _hashable(given: Any) -> list[tuple[str, Any]]:
    return [(name, tuple(value) if isinstance(value, list) else value) for name, value in given.items()]


def _percent(spread: Spread | None) -> str:
    if spread is None:
        return "–"
    return f"{100 * spread.mean:.1f}" + ("" if spread.sd is None else f" ± {100 * spread.sd:.1f}")


def _best(columns: Sequence[Sequence[Spread | None]]) -> frozenset[tuple[int, int]]:
    """The row with the highest mean of each column; the first column of a table is the method's name."""
    marked = set()
    for at, column in enumerate(columns, start=1):
        means = [0.0 if spread is None else spread.mean for spread in column]
        if means and max(means) > 0:
            marked.add((means.index(max(means)), at))
    return frozenset(marked)
