"""``mcne.compare``: methods on the same splits with the same negatives, as a table."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, get_args

from mcne.api.methods import model_class
from mcne.api.model import Model, check_dataset, whole
from mcne.data.dataset import SocialDataset
from mcne.embeddings.answers import Frame
from mcne.errors import UsageError
from mcne.evaluation.protocol import CUTOFFS, ProtocolName
from mcne.studies.comparison import ComparedTable, Comparison, Plan
from mcne.studies.comparison_tables import Summary, summarize, tables, write
from mcne.studies.engine import DATA
from mcne.studies.plans import check_names

METRICS = ("recall", "ndcg", "hit_rate", "mrr")


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
                    for metric in (f"{name}@{cutoff}" for name in METRICS for cutoff in CUTOFFS):
                        spread = row.metric(protocol, behavior, metric)
                        if spread is not None:
                            cells = (row.name, protocol, behavior or "mean", metric, spread["mean"], spread["sd"])
                            for name, cell in zip(names, (*cells, len(row.results)), strict=True):
                                columns[name].append(cell)
        return columns

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
    training on stderr.

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
    if whole(seeds, place="seeds") < 1:
        raise UsageError(f"{seeds} is out of range", place="seeds", value=seeds, remedy="use 1 or more")
    protocols = (protocols,) if isinstance(protocols, str) else tuple(protocols)
    check_names("protocol", protocols, get_args(ProtocolName), place="protocols")
    say = partial(print, file=sys.stderr) if progress else _say_nothing
    with tempfile.TemporaryDirectory(prefix="mcne-") if out is None else nullcontext(str(out)) as directory:
        place = Path(directory)
        data.save(place / DATA)
        reference = "mcne" if "mcne" in rows else next(iter(rows))
        title = f"{', '.join(rows)} on {data.name}"
        plan = Plan(title, "mcne.compare", seeds, 1, reference, methods=rows, protocols=protocols)
        comparison = Comparison.open(plan.checked(), place / DATA, place)
        comparison.run(jobs=jobs, device=device, say=say)
        summary = summarize(comparison)
        write(summary, place)
        table = ComparisonTable(summary)
    print(table)
    return table


def _rows(methods: Sequence[str | Model] | Mapping[str, str | Model]) -> dict[str, ComparedTable]:
    """The rows of a plan by name; repeated methods are numbered."""
    if isinstance(methods, str) or not methods:
        raise UsageError(
            f"{methods!r} is not a list of names or models",
            place="methods",
            value=methods,
            remedy='for example, use ["popularity", "bpr"]',
        )
    if isinstance(methods, Mapping):
        return {name: _row(method) for name, method in methods.items()}
    rows: dict[str, ComparedTable] = {}
    for method in methods:
        row = _row(method)
        number = sum(each.method == row.method for each in rows.values()) + 1
        rows[row.method if number == 1 else f"{row.method} {number}"] = row
    return rows


def _row(method: str | Model) -> ComparedTable:
    if isinstance(method, str):
        return ComparedTable(model_class(method).method)
    if not isinstance(method, Model):
        raise UsageError(
            f"{method!r} is neither a name nor a model",
            place="methods",
            value=method,
            remedy='use names and models, such as "bpr" and mcne.BPR()',
        )
    name, given = method._method_settings()
    defaults = model_class(name)._defaults()
    changed = {key: value for key, value in given.items() if value != defaults[key]}
    return ComparedTable(name, changed, modes=(method._mode,))


def _say_nothing(_line: str) -> None:
    pass
