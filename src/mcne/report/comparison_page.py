"""The report of a comparison: methods with intervals under every protocol, and all its tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from mcne.data.dataset import SocialDataset
from mcne.errors import ArtifactError
from mcne.evaluation.metrics import HEADLINE
from mcne.evaluation.significance import RESAMPLES, Comparisons, UserScores
from mcne.files import checked_json, read_parquet
from mcne.plots.ablation import AGAIN, TABLES, USERS, Ablation, caption, draw, user_scores
from mcne.report.cards import data_card, named_values
from mcne.report.figures import draw_means, sensitivity
from mcne.report.page import Drawing, Part, Report, Section, facts
from mcne.report.quality import best_cells, intervals, mean_name, means_over_behaviors
from mcne.text import Table, bullet_list, count_cell, element, interval_cell, joined, paragraph

PAGE, DATA = "table.md", "data.json"
UNFINISHED = "Not finished"  # the table of methods that lack repetitions
VARIANTS = ("mcne-f", "mcne-a", "mcne")  # methods whose difference is the paper's ablation, the whole one last
PROTOCOLS = {"sampled": "Against 100 random items", "full": "Against all items", "popular": "Against 100 popular items"}
FINE = 0.1  # where no mean is above, one digit after the point would make many alike
LIMITS = (
    "Settings of every method were searched with the same budget on the validation part of the first split; the test "
    "part was scored once, with what was chosen.",
    "Intervals are over users, after their scores were averaged over repetitions; the ± of the tables is over "
    "repetitions. Neither tells of other networks.",
    "Ranks against sampled items are higher than against the whole catalog, and may order methods differently; look at "
    "every protocol.",
    "Offline figures tell how well held-out records are found, not what people would do with a recommendation.",
)

TEXTS = ("behavior", "metric", "measured on", "searched", "chosen", "fixed", "schedule", "lacks")  # columns of words

Key = tuple[str, str, str]  # protocol, metric, method


def report_of_comparison(path: Path, *, data: Path | None = None, sweeps: Sequence[Path] = ()) -> Report:
    """Everything that a comparison's directory tells; its dataset where that is given."""
    title, about = _introduction(path)
    tables = checked_json(path / TABLES, _check_tables, step=AGAIN)
    prints = checked_json(path / DATA, lambda prints: (prints["dataset"][:0], dict(prints.items())), step=AGAIN)
    hashes = {name: print_ for name, print_ in prints.items() if name != "kind"}
    means = intervals(_scores(path))
    unfinished = [row for table in tables if table["title"] == UNFINISHED for row in table["rows"]]
    lacks = "; ".join(f"{method}: {lacks}" for method, lacks in unfinished)
    if lacks:
        lacks = f"Not among the figures and intervals here, which need all repetitions: {lacks}."
        about.append(lacks)
    sections = [
        Section("glance", "At a glance", [facts(_glance(means)), *about], lacks),
        *_quality_sections(means),
        _ablation_section(path, {method for _, _, method in means}),
        Section("tables", "Tables", [part for table in tables for part in _table(table)]),
        _data_section(data, prints["dataset"]),
        sensitivity(sweeps, dataset=prints["dataset"]),
        Section("limits", "How to read this page", [bullet_list(LIMITS)]),
        Section("origin", "Fingerprints", [named_values("Fingerprints (sha256)", hashes)]),
    ]
    return Report(title, f"the comparison {path.resolve().name}", [each for each in sections if each is not None])


def _introduction(path: Path) -> tuple[str, list[str]]:
    """The title, and what is said before the first table."""
    try:
        title, *about = (path / PAGE).read_text(encoding="utf-8").partition("\n\n### ")[0].split("\n\n")
    except (OSError, ValueError) as error:
        raise ArtifactError(f"is missing or damaged ({error})", path / PAGE, AGAIN) from error
    return title.removeprefix("# "), about


def _check_tables(tables: Any) -> None:
    for table in tables:
        _ = table["title"], table["note"], [(row, column) for row, column in table["best"]]
        if any(len(row) != len(table["header"]) for row in table["rows"]):
            raise ValueError(f"a line of {table['title']!r} that is not as long as its head")


def _scores(path: Path) -> dict[Key, UserScores]:
    """The scores of every method under every protocol, as the comparison keeps them for its tests."""
    users = read_parquet(path / USERS, step=AGAIN)
    try:
        return {
            (protocol, metric, method): user_scores(users, method, protocol, metric)
            for method in (users["method"].unique().to_pylist() if users.num_rows else ())
            for protocol in PROTOCOLS
            for metric in HEADLINE
            if f"{protocol} {metric}" in users.column_names
        }
    except (KeyError, pa.ArrowException) as error:
        raise ArtifactError(f"is missing or damaged ({error})", path / USERS, AGAIN) from error


def _glance(means: dict[Key, Comparisons]) -> list[tuple[str, str]]:
    """The best method under every protocol."""
    n_methods = len({method for _, _, method in means})
    pairs: list[tuple[str, str]] = [("methods with all repetitions", count_cell(n_methods))]
    for protocol, title in PROTOCOLS.items():
        reached = {key[2]: one.overall for key, one in means.items() if key[:2] == (protocol, "ndcg@5")}
        if reached:
            best = max(reached, key=lambda method: reached[method].difference)
            one = reached[best]
            value = joined([best, element("br"), interval_cell(one.difference, one.low, one.high)])
            pairs.append((f"best NDCG@5, {title[0].lower()}{title[1:]}", value))
    return pairs


def _quality_sections(means: dict[Key, Comparisons]) -> list[Section]:
    sections = []
    for protocol, title in PROTOCOLS.items():
        mine = {key[1:]: one for key, one in means.items() if key[0] == protocol}
        if mine:
            rows = means_over_behaviors(mine)
            about = f"Recall@5 and NDCG@5 of {len(rows)} methods with intervals; the numbers are in the tables below."
            note = (
                "Means over behaviors in percent; bars, and figures below each mean, are 95 % intervals of a bootstrap "
                f"over users, who are drawn with all their behaviors ({RESAMPLES:,} resamples)."
            )
            drawing = Drawing(f"quality-{protocol}", title, about, note, partial(draw_means, rows, title))
            tables = tuple(_means(mine, metric, title) for metric in HEADLINE)
            sections.append(Section(protocol, title, [drawing, tables]))
    return sections


def _means(means: dict[tuple[str, str], Comparisons], metric: str, title: str) -> Table:
    mine = {method: one for (its, method), one in means.items() if its == metric}
    behaviors = list(next(iter(mine.values())).behaviors)
    cells = {name: [*(one.behaviors[each] for each in behaviors), one.overall] for name, one in mine.items()}
    digits = 1 if max(line[-1].difference for line in cells.values()) > FINE else 2
    rows = [
        [name, *(interval_cell(each.difference, each.low, each.high, digits=digits) for each in line)]
        for name, line in cells.items()
    ]
    best = best_cells([[line[at].difference for line in cells.values()] for at in range(len(behaviors) + 1)])
    head = ["method", *behaviors, mean_name(behaviors)]
    return Table(f"{HEADLINE[metric]} {title[0].lower()}{title[1:]}", head, rows, best=best)


def _ablation_section(path: Path, methods: set[str]) -> Section | None:
    """What attention and learned masks add, where the comparison has the variants without them."""
    if not methods.issuperset(VARIANTS):
        return None
    ablations = [Ablation.read(path, VARIANTS, reference=VARIANTS[-1])]
    alt_text = "Recall@5 and NDCG@5 of MCNE-F, MCNE-A and MCNE on every behavior, and their differences with intervals."
    drawing = Drawing("ablation", "ablation", alt_text, caption(ablations), partial(draw, ablations))
    return Section("ablation", "Ablation", [drawing])


def _table(table: dict[str, Any]) -> list[Part]:
    best = frozenset((row, column) for row, column in table["best"])
    texts = frozenset(at for at, head in enumerate(table["header"]) if at == 0 or head in TEXTS)
    content = Table(table["title"], table["header"], table["rows"], best=best, text_columns=texts)
    return [content, *([paragraph(table["note"], class_="soft")] if table["note"] else [])]


def _data_section(data: Path | None, fingerprint: str) -> Section:
    if data is None:
        return Section("data", "Data", lacks="A comparison does not keep where its dataset is: name it by --data.")
    dataset = SocialDataset.load(data)
    if dataset.fingerprint != fingerprint:
        raise ArtifactError(
            f"is dataset {dataset.fingerprint[:12]}, and the comparison was made on {fingerprint[:12]}",
            data,
            "give the dataset of the comparison, or omit --data",
            value=dataset.fingerprint,
            allowed=[fingerprint],
        )
    return Section("data", "Data", data_card(dataset, None))
