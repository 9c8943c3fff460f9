"""``mcne.compare``: methods on the same splits with the same negatives, as a table."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

from mcne.api.fitted import run_directory
from mcne.api.methods import model_class
from mcne.api.model import Model, check_dataset, whole
from mcne.data.dataset import SocialDataset
from mcne.embeddings.answers import Frame
from mcne.errors import DataError, UsageError
from mcne.evaluation.metrics import USUAL
from mcne.evaluation.protocol import CUTOFFS, ProtocolName
from mcne.studies import engine
from mcne.studies.comparison import ComparedTable, Comparison, Plan
from mcne.studies.comparison_tables import Summary, summarize, tables, write
from mcne.studies.plans import check_names, is_distinct
from mcne.training import choose_device


class ComparisonTable(Frame):
    """The result of a comparison: prints as the tables of ``mcne compare``, and converts to a data frame."""

    def __init__(self, summary: Summary) -> None:
        self._summary = summary
        self._tables = tables(summary)

    def columns(self) -> dict[str, list[Any]]:
        """A row for every method, protocol, behavior (``"mean"`` for the mean over behaviors) and metric."""
        comparison = self._summary.comparison
        names = ("method", "protocol", "behavior", "metric", "mean", "sd", "seeds")
        columns: dict[str, list[Any]] = {name: [] for name in names}
        for row in self._summary.rows:
            for protocol in comparison.plan.protocols:
                for behavior in (*comparison.dataset.behavior_names, None):
                    for metric in (f"{name}@{cutoff}" for name in USUAL for cutoff in CUTOFFS):
                        spread = row.metric(protocol, behavior, metric)
                        if spread is not None:
                            cells = (row.name, protocol, behavior or "mean", metric, spread["mean"], spread["sd"])
                            for name, cell in zip(names, (*cells, len(row.results)), strict=True):
                                columns[name].append(cell)
        return columns

    def __repr__(self) -> str:
        plan = self._summary.comparison.plan
        rows = f"{len(self._summary.rows)} of {len(plan.methods)} rows"
        return f"ComparisonTable of {plan.title!r}: {rows}, {', '.join(plan.protocols)}"

    def __str__(self) -> str:
        return "\n\n".join("\n".join([table.title, *table.lines()]) for table in self._tables)

    def _repr_html_(self) -> str:
        return "".join(table.section() for table in self._tables)


def compare(
    data: SocialDataset,
    methods: Sequence[str | Model] | Mapping[str, str | Model],
    *,
    seeds: int = 3,
    protocols: ProtocolName | Sequence[ProtocolName] = "sampled",
    out: str | Path | None = None,
    jobs: int = 1,
    device: str = "auto",
    progress: bool = True,
) -> ComparisonTable:
    """Train and evaluate methods on ``seeds`` random splits of the data; print the table and return it.

    Methods are names, models with their own settings (``mcne.BPR(l2=0.1)``), or a mapping from row names to these.
    The models are not trained themselves; ``seeds`` and ``device`` replace their own.
    Differences are tested against ``mcne`` if it is a row, otherwise against the first row. With a directory ``out``
    all results are kept there, and the same call continues an interrupted comparison. ``progress`` reports every
    training on stderr. A row that failed is told with a warning. A script that uses several ``jobs`` must call this
    below ``if __name__ == "__main__":``, because their processes import the script.

    >>> import mcne
    >>> data = mcne.datasets.synthetic(users=500)
    >>> table = mcne.compare(data, ["popularity", mcne.EASE(l2=50.0)], seeds=2, progress=False)  # doctest: +ELLIPSIS
    Against 100 random items of the behavior (the paper's protocol)
    method ...
    >>> table.to_pandas().query("metric == 'ndcg@5' and behavior == 'mean'")["method"].tolist()
    ['popularity', 'ease']
    """
    check_dataset(data)
    rows = _rows(methods)
    seeds, jobs = whole(seeds, place="seeds"), whole(jobs, place="jobs")
    for name, number in (("seeds", seeds), ("jobs", jobs)):
        if number < 1:
            raise UsageError(f"{number} is out of range", name, "use 1 or more", value=number)
    protocols = _protocols(protocols)
    choose_device(device)
    reference = "mcne" if "mcne" in rows else next(iter(rows))
    title = f"{', '.join(rows)} on {data.name}"
    plan = Plan(title, "mcne.compare", seeds, 1, reference, methods=rows, protocols=protocols).checked()
    with run_directory(out, outlives=False) as place:
        engine.check_kind(place, engine.Kind.comparison)
        engine.check_prints(place, {"dataset": data.fingerprint})
        data.save(place / engine.DATA)
        comparison = Comparison.open(plan, place / engine.DATA, place)
        comparison.run(jobs=jobs, device=device, say=_sayer(comparison) if progress else _say_nothing)
        summary = summarize(comparison)
        unfinished = "; ".join(f"{row}: {lacks}" for row, lacks in summary.unfinished.items())
        if not summary.rows:
            remedy = "correct what the messages name, and compare again"
            raise DataError(f"no row has a result ({unfinished})", "mcne.compare", remedy)
        write(summary, place)
        table = ComparisonTable(summary)
    print(table)
    if unfinished:
        warnings.warn(f"not all rows are complete ({unfinished})", stacklevel=2)
    return table


def _rows(methods: Sequence[str | Model] | Mapping[str, str | Model]) -> dict[str, ComparedTable]:
    """The rows of a plan by name; repeated methods are numbered."""
    if isinstance(methods, Iterable) and not isinstance(methods, str) and not (listed := list(methods)):
        raise UsageError("the list is empty", "methods", 'for example, use ["popularity", "bpr"]', value=methods)
    if isinstance(methods, str) or not isinstance(methods, Iterable):
        raise UsageError(
            f"{methods!r} is not a list of names or models",
            "methods",
            'for example, use ["popularity", "bpr"]',
            value=methods,
        )
    if isinstance(methods, Mapping):
        for name in methods:
            if not isinstance(name, str) or not name:
                raise UsageError(f"{name!r} is not a name", "methods", "name rows by texts", value=name)
        return {name: _row(method) for name, method in methods.items()}
    rows: dict[str, ComparedTable] = {}
    for method in listed:
        row = _row(method)
        number = sum(each.method == row.method for each in rows.values()) + 1
        rows[row.method if number == 1 else f"{row.method} {number}"] = row
    return rows


def _protocols(given: ProtocolName | Sequence[ProtocolName]) -> tuple[ProtocolName, ...]:
    names: tuple[ProtocolName, ...] = (given,) if isinstance(given, str) else ()
    if not isinstance(given, str) and isinstance(given, Iterable):
        names = tuple(given)
    check_names("protocol", names, get_args(ProtocolName), place="protocols")
    if not is_distinct(names):
        raise UsageError(
            f"{given!r} is not a list of different protocols",
            "protocols",
            'for example, use ["sampled", "full"]',
            value=given,
        )
    return names


def _row(method: str | Model) -> ComparedTable:
    if isinstance(method, str):
        return ComparedTable(model_class(method).method)
    if not isinstance(method, Model):
        raise UsageError(
            f"{method!r} is neither a name nor a model",
            "methods",
            'use names and models, such as "bpr" and mcne.BPR()',
            value=method,
        )
    name, given = method._method_settings()
    defaults = model_class(name)._defaults()
    changed = {key: value for key, value in given.items() if value != defaults[key]}
    return ComparedTable(name, changed, modes=(method._mode,))


def _sayer(comparison: Comparison) -> engine.Say:
    """What shows the progress: lines on stderr, and in a notebook a bar of finished trainings."""
    from mcne.training.journal import NotebookReporter, is_notebook

    if not is_notebook():
        return partial(print, file=sys.stderr)
    cells = comparison.final_cells()
    bar = NotebookReporter("compare", epochs=len(cells))
    return lambda line: bar.move(sum(comparison.result(cell) is not None for cell in cells), line)


def _say_nothing(_line: str) -> None:
    pass
