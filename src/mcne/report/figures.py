"""Sections that show figures: learning curves, masks, a map of users, sweeps; and the chart of means and intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from mcne.analysis.maps import FEWEST, ConditionalMap, Separation, conditional_map
from mcne.analysis.masks import mask_numbers
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.errors import ArtifactError, UsageError
from mcne.evaluation.metrics import HEADLINE
from mcne.evaluation.significance import Comparison
from mcne.plots import sweep
from mcne.plots.curves import Curves, draw_curves
from mcne.plots.maps import draw_map
from mcne.plots.masks import draw_masks
from mcne.plots.style import Theme, canvas, looks, shortened
from mcne.report.page import Drawing, Part, Section
from mcne.text import NO_VALUE, Table, count_cell, element, number_cell, percent, percent_cell, spread_cell
from mcne.training import Run

POINTS = 480
"""Points of a map that is computed for a report, over all behaviors: it takes seconds, while the 1,000 users of ``mcne
plot map`` take a minute."""


def draw_means(rows: Mapping[str, Mapping[str, Comparison]], title: str, theme: Theme) -> Figure:
    """A row for each name, a color and marker for each metric, with intervals; in percent.

    Each mean is a comparison with what never scores.
    """
    metrics = next(iter(rows.values()))
    figure = canvas(6.6, 1.0 + 0.3 * max(2, len(rows)))
    axes = figure.subplots()
    for k, (metric, look) in enumerate(looks(theme, list(metrics)).items()):
        values = [each[metric] for each in rows.values()]
        heights = [row + 0.3 * (k - (len(metrics) - 1) / 2) for row in range(len(rows))]
        means = [100 * value.difference for value in values]
        sides = [[100 * (v.difference - v.low) for v in values], [100 * (v.high - v.difference) for v in values]]
        axes.errorbar(means, heights, xerr=sides, linestyle="none", label=metric, elinewidth=1.2, **look)
    axes.set_yticks(range(len(rows)), labels=[shortened(name) for name in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("percent")
    axes.set_title(title, loc="left")
    axes.grid(axis="x")
    figure.legend(loc="outside upper right", ncols=len(metrics))
    return figure


# Learning curves


def _trained_alone(run: Run, name: str) -> dict[str, Run]:
    """The run, or those that it is made of, by names for people."""
    if not run.spec.parts:
        return {name: run}
    paths = sorted((run.path / run.spec.parts).iterdir(), key=lambda path: int(path.name))
    runs: dict[str, Run] = {}
    for k, path in enumerate(paths):
        part = Run.open(path)
        own = f"member {k + 1}"
        if run.spec.mode == "separate":
            losses = part.records[-1].get("loss", {}) if part.records else {}
            own = next(iter(losses), f"behavior {k + 1}")
        own = own if name == run.spec.method else f"{name}, {own}"
        runs |= _trained_alone(part, own)
    return runs


def learning(run: Run) -> Section | None:
    """The curves of a run, or of each behavior's run; None for a method that does not learn step by step."""
    place = ("learning", "Learning curves")
    runs = _trained_alone(run, run.spec.method)
    learned = {name: each for name, each in runs.items() if each.result["epochs"]}
    if not learned:
        return None
    try:
        curves = [Curves.of(name, each.records, best_epoch=each.result["best_epoch"]) for name, each in learned.items()]
    except UsageError as error:  # the records are gone
        return Section(*place, lacks=f"No curves: {error}.")
    alt_text = "; ".join(
        f"{each.name}: loss and validation NDCG@5 over {len(each.epochs)} epochs"
        + ("" if each.best is None else f", best in epoch {each.best_epoch} with {percent(each.best)} percent")
        for each in curves
    )
    caption = "Mean loss of an epoch by behavior, and NDCG@5 on the validation part, which chose the epoch."
    drawing = Drawing("curves", "learning curves", alt_text, caption, lambda theme: draw_curves(curves, theme=theme))
    return Section(*place, [drawing, _epochs_that_matter(curves)])


def _epochs_that_matter(every: Sequence[Curves]) -> Table:
    """Number, metric and losses of the first, best and last epoch of each run."""
    behaviors = list(dict.fromkeys(behavior for curves in every for behavior in curves.losses))
    rows = []
    for curves in every:
        validation = dict(curves.validation)
        losses = {behavior: dict(points) for behavior, points in curves.losses.items()}
        for name, epoch in (("first", curves.epochs[0]), ("best", curves.best_epoch), ("last", curves.epochs[-1])):
            title = f"{name}, {curves.name}" if len(every) > 1 else name
            cells = [number_cell(losses.get(behavior, {}).get(epoch), ".4f") for behavior in behaviors]
            rows.append([title, count_cell(epoch), percent_cell(validation.get(epoch), 2), *cells])
    head = ["epoch", "number", "validation NDCG@5, %", *(f"loss on {behavior}" for behavior in behaviors)]
    return Table("First, best and last epoch", head, rows)


# Masks


def masks(
    embeddings: ConditionalEmbeddings, records: Sequence[Mapping[str, Any]], best_epoch: int | None
) -> Section | None:
    """Masks of every level, how much they share, and how they were learned; None for a method without masks."""
    if not embeddings.has_masks:
        return None
    numbers = mask_numbers(embeddings, records, best_epoch=best_epoch)
    last = numbers.levels[-1]
    ones = ", ".join(f"{name} {share:.0%}" for name, share in last.density.items())
    alt_text = f"Masks of the last level, {last.width} dimensions; ones: {ones}."
    caption = "Colored: the mask is one. Below: the share of ones, what masks share, how they were learned."
    parts: list[Part] = [
        "A behavior's mask picks the dimensions of a user's vector that count on it. Masks that share more dimensions "
        "than random masks with as many ones belong to behaviors that the model found alike; p tells how likely chance "
        "alone would make such a difference.",
        Drawing("masks", "masks", alt_text, caption, lambda theme: draw_masks(numbers, theme=theme)),
    ]
    head = ["mask", *(f"level {level.level}, {level.width} dimensions" for level in numbers.levels)]
    rows = [[name, *(percent_cell(level.density.get(name)) for level in numbers.levels)] for name in last.names]
    parts.append(Table("Ones in a mask, percent", head, rows))
    if last.overlaps_in_use:
        head = ["masks", "shared", "by chance", "Jaccard", "p after Holm"]
        digits = {"shared": ",", "chance": ".1f", "jaccard": ".2f", "holm_p": ".3f"}
        rows = []
        for pair in last.overlaps_in_use:
            cells = [number_cell(getattr(pair, name), form) for name, form in digits.items()]
            rows.append([f"{pair.first} and {pair.second}", *cells])
        title = "What two masks of the last level share, of the dimensions in use"
        parts.append(Table(title, head, rows).folded())
    return Section("masks", "Masks", parts)


# Map of users


def user_map(embeddings: ConditionalEmbeddings, path: Path | None, *, is_wanted: bool) -> Section | None:
    """A map kept by ``mcne plot map``, or a smaller one; None for a method whose vectors ignore the behavior."""
    place = ("map", "Map of users")
    if not embeddings.has_masks and path is None:
        return None
    if not is_wanted:
        left_out = "Left out, for it takes longest to compute: mcne report without --no-map draws it, and so does "
        return Section(*place, [f"{left_out}mcne plot map."])
    try:
        n_users = min(embeddings.n_users, max(FEWEST, POINTS // len(embeddings.spaces)))
        drawn = ConditionalMap.read(path) if path else conditional_map(embeddings, n_users=n_users)
    except UsageError as error:  # such as: openTSNE is not installed
        return Section(*place, lacks=f"No map: {error}.")
    if drawn.fingerprint != embeddings.fingerprint:
        raise ArtifactError(
            f"is a map of other vectors ({drawn.fingerprint[:12]}; the run has {embeddings.fingerprint[:12]})",
            path,
            "give the map of this run",
            value=drawn.fingerprint,
            allowed=[embeddings.fingerprint],
        )
    users = f"{len(drawn.user_ids):,}"
    alt_text = f"{users} users by t-SNE in {len(drawn.panels)} panels; the numbers are in the table below."
    caption = f"{users} random users, seed {drawn.seed}, perplexity {drawn.perplexity:g}."
    drawing = Drawing("map", "map of users", alt_text, caption, lambda theme: draw_map(drawn, theme=theme))
    about = (
        "Places come from t-SNE, which keeps neighbors together and says nothing by distances between groups. Random "
        "masks with as many ones in use are the control: what they separate, too, is no finding."
        if drawn.layout == "together"
        else "Places come from t-SNE, a map per behavior, turned to lie on the first; users keep their color."
    )
    return Section(*place, [about, drawing, _separations(drawn)])


def _separations(drawn: ConditionalMap) -> Table:
    rows: list[list[str]] = []
    for panel in drawn.panels:
        trust = number_cell(panel.trustworthiness, ".3f")
        rows.append([f"map, {panel.name}", *_separation_cells(panel.separation), trust])
    if drawn.separation is not None:
        rows.append(["vectors, learned masks", *_separation_cells(drawn.separation), ""])
        for name, pick in (("lowest", min), ("highest", max)):
            silhouette = pick(each.silhouette for each in drawn.random_masks)
            same_group = pick(each.same_group for each in drawn.random_masks)
            title = f"vectors, random masks, {name} of {len(drawn.random_masks)} draws"
            rows.append([title, *_separation_cells(Separation(silhouette, same_group)), ""])
    head = ["of", "nearest of the same behavior, %", "silhouette", "trustworthiness"]
    return Table("How far behaviors stand apart", head, rows)


def _separation_cells(separation: Separation | None) -> list[str]:
    if separation is None:
        return [NO_VALUE, NO_VALUE]
    return [percent_cell(separation.same_group), number_cell(separation.silhouette, ".3f")]


# Sweeps


def sensitivity(sweeps: Sequence[Path], *, dataset: str) -> Section | None:
    """The results of sweeps on this dataset, each with its figure and its numbers; None without sweeps."""
    parts: list[Part] = []
    for at, path in enumerate(sweeps, start=1):
        result = sweep.read(path)
        if result["dataset"]["fingerprint"] != dataset:
            raise UsageError(
                f"is a sweep on dataset {result['dataset']['fingerprint'][:12]}, not on {dataset[:12]}",
                path,
                "give sweeps on the same dataset",
                value=result["dataset"]["fingerprint"],
                allowed=[dataset],
            )
        settings = ", ".join(curve["setting"] for curve in result["curves"])
        alt_text = f"Recall@5, NDCG@5 and seconds of an epoch over the values of {settings}"
        alt_text += "; the numbers are in the tables below."
        draw = partial(sweep.draw, result)
        title = f"sensitivity to {settings}"
        drawing = Drawing(f"sensitivity-{at}", title, alt_text, sweep.caption(result), draw)
        parts += [element("h3", result["title"]), drawing, *map(_points, result["curves"])]
    return Section("sensitivity", "Sensitivity", parts) if parts else None


def _points(curve: Mapping[str, Any]) -> Table:
    rows = []
    for point in curve["points"]:
        spreads = [point["mean"][metric] or {"mean": None, "sd": None} for metric in HEADLINE]
        quality = [spread_cell(spread["mean"], spread["sd"]) for spread in spreads]
        seconds = point["epoch_seconds"]
        rows.append([str(point["value"]), *quality, number_cell(seconds and seconds["mean"], ".2f")])
    head = [curve["setting"], *HEADLINE.values(), "seconds of an epoch"]
    return Table(f"{curve['setting']}: test part, mean over behaviors ± standard deviation, percent", head, rows)
