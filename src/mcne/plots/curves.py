"""Learning curves: the loss of each behavior and the validation metric over the epochs of one or several runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from mcne.errors import ArtifactError, UsageError
from mcne.evaluation.protocol import DECIDING_METRIC
from mcne.plots.style import INK, MARKERS, Theme, canvas, looks, panels, shortened

COLUMNS = 4
METRIC = "Validation NDCG@5"

Points = tuple[tuple[int, float], ...]  # epoch and value


@dataclass(frozen=True)
class Curves:
    """The course of a training, from the records of its run."""

    name: str
    losses: Mapping[str, Points]  # by behavior
    validation: Points
    best_epoch: int

    @classmethod
    def of(cls, name: str, records: Sequence[Mapping[str, Any]], *, best_epoch: int) -> Curves:
        """The curves from the records of a training, at least one epoch; values that are not numbers are skipped."""
        try:
            epochs = [record for record in records if record["epoch"]]
            behaviors = dict.fromkeys(behavior for record in epochs for behavior in record["loss"])
            losses = {each: _points((r["epoch"], r["loss"].get(each)) for r in epochs) for each in behaviors}
            means = [(r["epoch"], r.get("validation", {}).get("mean", {})) for r in epochs]
            measured = _points((epoch, mean.get(DECIDING_METRIC)) for epoch, mean in means)
        except (KeyError, TypeError, AttributeError) as error:
            raise ArtifactError(f"the records of its epochs are damaged ({error!r})", name, "train again") from error
        if not any(losses.values()):
            raise UsageError(
                "a run without a loss of any epoch, as of a method that does not learn step by step, has no curves",
                name,
                "draw another run",
            )
        return cls(name, losses, measured, best_epoch)

    @property
    def epochs(self) -> list[int]:
        """The behaviors with a loss."""
        return sorted({epoch for points in self.losses.values() for epoch, _ in points})

    @property
    def best(self) -> float | None:
        """The metric in the best epoch, where it was measured."""
        return dict(self.validation).get(self.best_epoch)


def draw_curves(curves: Sequence[Curves], *, theme: Theme) -> Figure:
    """Of one run a line per behavior; of several a panel per behavior with a line per run."""
    return _draw_one(curves[0], theme) if len(curves) == 1 else _draw_several(curves, theme)


def _points(values: Iterable[tuple[int, float | None]]) -> Points:
    return tuple((epoch, value) for epoch, value in values if value is not None and math.isfinite(value))


def _draw_one(run: Curves, theme: Theme) -> Figure:
    figure = canvas(9.0, max(3.2, 0.6 + 0.24 * len(run.losses)))
    figure.suptitle(shortened(run.name, 60))
    loss, metric = figure.subplots(1, 2)
    for behavior, look in looks(theme, list(run.losses)).items():
        _line(loss, run.losses[behavior], label=shortened(behavior), **look)
    _finish(loss, "Training loss")
    _validation(metric, run, label=run.name, color=INK[theme], marker=MARKERS[0])
    _finish(metric, METRIC)
    if run.best is not None:
        metric.set_xlabel(f"epoch; ring: the best, {run.best:.4f} in epoch {run.best_epoch}")
    loss.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _draw_several(curves: Sequence[Curves], theme: Theme) -> Figure:
    behaviors = list(dict.fromkeys(behavior for run in curves for behavior in run.losses))
    columns = min(COLUMNS, len(behaviors) + 1)
    rows = math.ceil((len(behaviors) + 1) / columns)
    figure = canvas(2.8 * columns, 2.5 * rows + 0.3 * len(curves))
    metric, *losses = panels(figure, len(behaviors) + 1, columns)
    for run, look in zip(curves, looks(theme, range(len(curves))).values(), strict=True):
        best = "" if run.best is None else f": best {run.best:.4f} in epoch {run.best_epoch}"
        _validation(metric, run, label=shortened(run.name, 40) + best, **look)
        for axes, behavior in zip(losses, behaviors, strict=True):
            _line(axes, run.losses.get(behavior, ()), label=run.name, **look)
    _finish(metric, METRIC)
    for axes, behavior in zip(losses, behaviors, strict=True):
        _finish(axes, f"Loss: {shortened(behavior, 20)}")
    figure.legend(*metric.get_legend_handles_labels(), loc="outside lower left", ncols=1)
    return figure


def _line(axes: Axes, points: Points, **look: Any) -> None:
    """Of many points only some have a marker."""
    epochs, values = zip(*points, strict=True) if points else ((), ())
    axes.plot(epochs, values, markevery=max(1, len(points) // 8), **look)


def _validation(axes: Axes, run: Curves, **look: Any) -> None:
    """The metric, with a ring around the best epoch."""
    _line(axes, run.validation, **look)
    if run.best is not None:
        axes.plot([run.best_epoch], [run.best], marker="o", markersize=11, color="none", markeredgecolor=look["color"])


def _finish(axes: Axes, title: str) -> None:
    axes.set_title(title)
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.ticklabel_format(axis="y", useOffset=False)
    axes.grid(axis="y")
