"""How the training went: losses and the validation metric over the epochs."""

from __future__ import annotations

from mcne.errors import UsageError
from mcne.plots.curves import Curves, draw_curves
from mcne.report.figures import Drawing, shown
from mcne.report.page import Section
from mcne.text import Html, Table, count_cell, joined, number_cell, percent_cell
from mcne.training import Run
from mcne.training.run import BEHAVIORS

ANCHOR, TITLE = "learning", "Learning curves"


def learning(run: Run) -> Section | None:
    """The curves of a run, or of the run of each behavior; None of a method that does not learn step by step."""
    parts = {run.spec.method: run} if run.spec.mode == "joint" else _parts(run)
    learned = {name: part for name, part in parts.items() if part.result["epochs"]}
    if not learned:
        return None
    try:
        curves = [Curves.of(name, each.records, best_epoch=each.result["best_epoch"]) for name, each in learned.items()]
    except UsageError as error:  # the records are gone
        return Section.lacking(ANCHOR, TITLE, f"No curves: {error}.")
    told = "; ".join(_told(each) for each in curves)
    drawing = Drawing("curves", "learning curves", told, lambda theme: draw_curves(curves, theme=theme))
    caption = "Mean loss of an epoch by behavior, and NDCG@5 on the validation part, which chose the epoch."
    rows = [row for each in curves for row in _rows(each, several=len(curves) > 1)]
    behaviors = list(dict.fromkeys(behavior for each in curves for behavior in each.losses))
    head = ["epoch", "number", "validation NDCG@5, %", *(f"loss on {behavior}" for behavior in behaviors)]
    made = Table(
        "First, best and last epoch", head, [[*row[:3], *(row[3].get(b, "–") for b in behaviors)] for row in rows]
    )
    return Section(ANCHOR, TITLE, joined([shown(drawing, caption), made.captioned()]), (drawing,))


def _parts(run: Run) -> dict[str, Run]:
    """The run of each behavior, by its name."""
    opened = [Run.open(path) for path in sorted((run.path / BEHAVIORS).iterdir(), key=lambda path: int(path.name))]
    names = [next(iter(part.records[-1].get("loss", {})), str(k)) for k, part in enumerate(opened) if part.records]
    return dict(zip(names, opened, strict=True))


def _told(curves: Curves) -> str:
    best = "" if curves.best is None else f", best in epoch {curves.best_epoch} with {100 * curves.best:.1f} percent"
    return f"{curves.name}: loss and validation NDCG@5 over {len(curves.epochs)} epochs{best}"


def _rows(curves: Curves, *, several: bool) -> list[tuple[str, Html, Html, dict[str, Html]]]:
    """Name, number, metric and losses of the epochs that matter."""
    validation = dict(curves.validation)
    rows = []
    for name, epoch in (("first", curves.epochs[0]), ("best", curves.best_epoch), ("last", curves.epochs[-1])):
        losses = {b: dict(points).get(epoch) for b, points in curves.losses.items()}
        cells = {b: number_cell(loss, ".4f") for b, loss in losses.items()}
        title = f"{name}, {curves.name}" if several else name
        rows.append((title, count_cell(epoch), percent_cell(validation.get(epoch), 2), cells))
    return rows
