"""How well runs rank the test part: means, the intervals they lie in, and who is better than whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from mcne.data.dataset import SocialDataset
from mcne.data.negatives import COUNT
from mcne.data.split import Split
from mcne.errors import MCNEError
from mcne.evaluation.metrics import HEADLINE, TITLES
from mcne.evaluation.protocol import evaluate
from mcne.evaluation.significance import RESAMPLES, Comparison, Comparisons, UserScores, averaged, compare
from mcne.report.figures import draw_means
from mcne.report.page import Drawing, Part
from mcne.text import Table, count_cell, data_cell, interval_cell, joined, number_cell, p_value, paragraph, percent_cell
from mcne.training import SPEC, Run
from mcne.training.run import RESULT

MOST_OTHERS = 20  # runs that are evaluated beside the one of the page
MEAN, MEAN_OF_ALL = "mean", "mean of all behaviors"

Key = TypeVar("Key")


@dataclass(frozen=True)
class Quality:
    """What was measured of the run, which comes first, and of the finished runs beside it."""

    summaries: Mapping[str, Mapping[str, Any]]  # name -> what ``mcne evaluate --json`` prints
    means: Mapping[tuple[str, str], Comparisons]  # (metric, name) -> the mean, and the interval that it lies in
    tests: Mapping[str, Mapping[str, Comparisons]]  # metric -> other -> by how much the run is better
    remarks: tuple[str, ...]

    def cell(self, metric: str, name: str, behavior: str | None) -> tuple[float | None, str]:
        """The mean of one behavior or over all, and a cell of it with its interval, which takes users."""
        summary = self.summaries[name]
        mean = (summary["mean"] if behavior is None else summary["behaviors"][behavior])[metric]
        measured = self.means.get((metric, name))
        interval = measured and (measured.overall if behavior is None else measured.behaviors.get(behavior))
        return mean, interval_cell(mean, interval.low, interval.high) if interval else percent_cell(mean)


def measure(run: Run, dataset: SocialDataset, split: Split) -> Quality:
    """Evaluate the run and those beside it on the test part, against sampled items."""
    others, remarks = _others(run)
    methods = [each.spec.method for each in (run, *others)]
    evaluations = {}
    for method, each in zip(methods, (run, *others), strict=True):
        name = method if methods.count(method) == 1 else f"{method} in {each.path.resolve().name}"
        try:
            evaluations[name] = evaluate(each.scorer(dataset, split), dataset, split)
        except MCNEError as error:
            if each is run:
                raise
            remarks.append(f"{name} is left out: {error}")
    scores = {metric: {name: averaged([each], metric) for name, each in evaluations.items()} for metric in HEADLINE}
    means = intervals({(metric, name): one for metric, by_name in scores.items() for name, one in by_name.items()})
    tests = {}
    for metric, by_name in scores.items():
        (_, own), *rivals = by_name.items()
        tests[metric] = compare(own, dict(rivals)) if rivals and own.behaviors else {}
    return Quality({name: each.summary() for name, each in evaluations.items()}, means, tests, tuple(remarks))


def intervals(scores: Mapping[Key, UserScores]) -> dict[Key, Comparisons]:
    """The mean of each with its interval: by how much it is better than what never scores, in resamples shared by all.

    All must be of the same users, as metrics and protocols on one test part are.
    """
    subject = ("", "", "")  # one for all: nothing is compared here but each with nothing
    named = {str(at): UserScores(subject, each.behaviors) for at, each in enumerate(scores.values())}
    if not named or not named["0"].behaviors:
        return {}
    nothing = {name: replace(each, scores=np.zeros_like(each.scores)) for name, each in named["0"].behaviors.items()}
    comparisons = compare(UserScores(subject, nothing), named)

    def turned(one: Comparison) -> Comparison:
        """The same comparison from the other side."""
        return replace(one, difference=-one.difference, low=-one.high, high=-one.low)

    return {
        key: Comparisons(turned(each.overall), {name: turned(one) for name, one in each.behaviors.items()})
        for key, each in zip(scores, comparisons.values(), strict=True)
    }


def quality_parts(quality: Quality) -> list[Part]:
    """A figure, the means with their intervals, the tests, and every metric of the run itself."""
    run = next(iter(quality.summaries))
    parts: list[Part] = [
        f"On the test part, each user's held-out items are ranked together with {COUNT} random items of the behavior "
        "that the user lacks. Percent; below each mean the 95 % interval of a bootstrap over users, who are drawn with "
        f"all their behaviors ({RESAMPLES:,} resamples). A mean is over users, and over behaviors the mean of their "
        "means."
    ]
    if quality.means:
        rows = means_over_behaviors(quality.means)
        alt_text = "; ".join(
            f"{name}: " + ", ".join(f"{title} {100 * value.difference:.1f}" for title, value in values.items())
            for name, values in rows.items()
        )
        alt_text = f"Recall@5 and NDCG@5 of each method in percent, with intervals. {alt_text}."
        caption = "Test part, mean over behaviors; bars are 95 % intervals."
        draw = partial(draw_means, rows, "Quality on the test part")
        parts.append(Drawing("quality", "quality on the test part", alt_text, caption, draw))
    parts.append(tuple(_means(quality, metric) for metric in HEADLINE))
    if any(quality.tests.values()):
        parts += _tests(quality, run)
    else:
        parts.append("No other finished run of the same split is beside this one to compare it with.")
    return [*parts, *quality.remarks, _every_metric(quality.summaries[run], run)]


def means_over_behaviors(means: Mapping[tuple[str, str], Comparisons]) -> dict[str, dict[str, Comparison]]:
    """By the names of methods, then by the titles of metrics."""
    rows: dict[str, dict[str, Comparison]] = {}
    for (metric, name), each in means.items():
        rows.setdefault(name, {})[HEADLINE[metric]] = each.overall
    return rows


def mean_name(behaviors: Iterable[str]) -> str:
    """What the mean over behaviors is called beside their names."""
    return MEAN_OF_ALL if MEAN in behaviors else MEAN


def best_cells(columns: Sequence[Sequence[float]]) -> frozenset[tuple[int, int]]:
    """Rows and columns, the first of which is the name's, of the highest means; all that are as high, and above 0."""
    tops = ((max(column), at, column) for at, column in enumerate(columns, start=1))
    return frozenset((row, at) for top, at, column in tops if top > 0 for row, v in enumerate(column) if v == top)


def _others(run: Run) -> tuple[list[Run], list[str]]:
    """Finished runs in the same directory that were trained on the same split, and what is left out."""
    own = run.path.resolve()
    others, remarks = [], []
    for path in sorted(own.parent.iterdir()):
        if path != own and (path / SPEC).is_file() and (path / RESULT).is_file():
            try:
                other = Run.open(path)
            except MCNEError as error:
                remarks.append(f"A run beside this one is left out: {error}")
                continue
            if (other.spec.dataset, other.spec.split) == (run.spec.dataset, run.spec.split):
                others.append(other)
    if others[MOST_OTHERS:]:
        remarks.append(f"Of {len(others)} runs beside this one, the first {MOST_OTHERS} by name are shown.")
    return others[:MOST_OTHERS], remarks


def _means(quality: Quality, metric: str) -> Table:
    behaviors = list(next(iter(quality.summaries.values()))["behaviors"])
    places = [*behaviors, None]
    cells = {name: [quality.cell(metric, name, place) for place in places] for name in quality.summaries}
    rows = [[name, *(cell for _, cell in line)] for name, line in cells.items()]
    columns = [[mean or 0.0 for mean, _ in column] for column in zip(*cells.values(), strict=True)]
    best = best_cells(columns) if len(rows) > 1 else frozenset()
    head = ["method", *behaviors, mean_name(behaviors)]
    return Table(f"{HEADLINE[metric]} on the test part", head, rows, best=best)


def _tests(quality: Quality, run: str) -> list[Part]:
    """The table of the run against each other run, and how the tests were made."""
    rows = []
    for metric, comparisons in quality.tests.items():
        for other, tested in comparisons.items():
            test = tested.overall
            cells = [
                percent_cell(test.difference),
                joined([percent_cell(test.low), " … ", percent_cell(test.high)]),
                data_cell(p_value(test.adjusted_p, is_bound=test.is_bound), test.adjusted_p),
                number_cell(test.effect_size, "+.2f"),
                joined([percent_cell(test.better, 0), " / ", percent_cell(test.worse, 0)]),
            ]
            rows.append([other, HEADLINE[metric], *cells])
    head = ["against", "metric", "better by", "95 % interval", "p after Holm", "d", "users better / worse, %"]
    table = Table(f"{run} against the others, mean over behaviors", head, rows, text_columns=frozenset({0, 1}))
    note = (
        f"Paired bootstrap over users, {RESAMPLES:,} resamples; for each metric, Holm's correction is over the "
        f"{len(comparisons)} comparisons of this table. d is Cohen's, of the paired differences. One training of each: "
        "what another seed would change is not in the intervals."
    )
    return [table, paragraph(note, class_="soft")]


def _every_metric(summary: Mapping[str, Any], run: str) -> Table:
    cutoffs = [name.partition("@")[2] for name in summary["mean"] if name.startswith("recall@")]
    rows = []
    every = summary["behaviors"]
    for name, means in [*every.items(), (mean_name(every), summary["mean"])]:
        for cutoff in cutoffs:
            values = [percent_cell(means[f"{metric}@{cutoff}"], 2) for metric in TITLES]
            rows.append([name, count_cell(means["users"]) if "users" in means else "", f"@{cutoff}", *values])
    return Table(f"Every metric of {run}, test part", ["behavior", "users", "at", *TITLES.values()], rows)
