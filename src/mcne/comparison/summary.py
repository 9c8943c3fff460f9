"""What a comparison has found: means and spreads over repetitions, tests against the reference, costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mcne.comparison.cell import is_done, read_evaluation, read_result
from mcne.comparison.execution import Comparison
from mcne.comparison.plan import Candidate
from mcne.evaluation.protocol import Evaluation, ProtocolName
from mcne.evaluation.significance import Comparisons, UserScores, averaged, compare

TESTED = ("recall@5", "ndcg@5")


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over repetitions."""

    mean: float
    sd: float | None  # None of a single repetition

    @classmethod
    def of(cls, values: Sequence[float | None]) -> Spread | None:
        """Of what is there; None of nothing."""
        held = [value for value in values if value is not None]
        return cls(float(np.mean(held)), float(np.std(held, ddof=1)) if len(held) > 1 else None) if held else None


@dataclass(frozen=True)
class Row:
    """A method: what was chosen for it, what it costs and how it does."""

    name: str
    candidate: Candidate
    candidates: int  # searched
    validation: float | None  # of the chosen one, in the search
    repetitions: int  # finished
    results: tuple[Mapping[str, Any], ...]  # of the finished cells

    def metric(self, protocol: str, behavior: str | None, metric: str) -> Spread | None:
        """A metric of a behavior, or its mean over behaviors."""
        tests = [result["test"][protocol] for result in self.results]
        return Spread.of(
            [(test["mean"] if behavior is None else test["behaviors"][behavior])[metric] for test in tests]
        )

    def slice(self, protocol: str, name: str, metric: str) -> Spread | None:
        """A metric of a slice, averaged over behaviors."""
        return Spread.of([result["slices"][protocol][name][metric] for result in self.results])

    def coverage(self, cutoff: int) -> Spread | None:
        """How much of a catalog is recommended to anyone, averaged over behaviors."""
        found = [result["coverage"] for result in self.results if result["coverage"] is not None]
        return Spread.of([float(np.mean([each[f"coverage@{cutoff}"] for each in one.values()])) for one in found])

    def cost(self, name: str) -> Spread | None:
        """``parameters``, ``train_seconds`` or ``evaluate_seconds``."""
        return Spread.of([result[name] for result in self.results])


@dataclass(frozen=True)
class Summary:
    """Everything the tables say."""

    comparison: Comparison
    rows: tuple[Row, ...]  # in the order of the plan
    scores: Mapping[tuple[str, str], Mapping[str, UserScores]]  # (protocol, metric) -> method with all repetitions

    def tests(self, protocol: str, metric: str) -> dict[str, Comparisons]:
        """The reference against every other method that has all repetitions."""
        scores = dict(self.scores[protocol, metric])
        reference = scores.pop(self.comparison.plan.reference, None)
        return {} if reference is None or not scores else compare(reference, scores)

    def users(self) -> pa.Table:
        """Every metric that is tested, by method, behavior and user, averaged over repetitions."""
        parts = []
        for method in next(iter(self.scores.values()), {}):
            for behavior in self.behaviors:
                mine = {key: scores[method].behaviors.get(behavior) for key, scores in self.scores.items()}
                held = {key: found for key, found in mine.items() if found is not None}
                if held:
                    first = next(iter(held.values()))
                    names = {"method": [method] * len(first.users), "behavior": [behavior] * len(first.users)}
                    columns = {f"{protocol} {metric}": each.scores for (protocol, metric), each in held.items()}
                    parts.append(pa.table({**names, "user": first.users, "weight": first.weights} | columns))
        return pa.concat_tables(parts) if parts else pa.table({})

    @property
    def behaviors(self) -> list[str]:
        """The names of the behaviors."""
        return self.comparison.dataset.behavior_names


def summarize(comparison: Comparison) -> Summary:
    """From the finished cells; methods without any are left out."""
    rows = []
    chosen = comparison.choose()
    for name, candidate in chosen.items():
        cells = [comparison.cell(candidate, r, is_search=False) for r in range(comparison.plan.repetitions)]
        results = [read_result(comparison.directory(c)) for c in cells if is_done(comparison.directory(c))]
        if results:
            searched = comparison.plan.candidates[name]
            validation = comparison.validation(candidate) if len(searched) > 1 else results[0]["validation"]
            rows.append(Row(name, candidate, len(searched), validation, len(results), tuple(results)))
    return Summary(comparison, tuple(rows), _scores(comparison, rows))


def _scores(comparison: Comparison, rows: Sequence[Row]) -> dict[tuple[str, str], dict[str, UserScores]]:
    """What is tested, of every method that has all repetitions."""
    whole = [row for row in rows if row.repetitions == comparison.plan.repetitions]
    found: dict[tuple[str, str], dict[str, UserScores]] = {}
    for protocol in comparison.plan.protocols:
        evaluations = {row.name: _evaluations(comparison, row.candidate, protocol) for row in whole}
        for metric in TESTED:
            found[protocol, metric] = {method: averaged(each, metric) for method, each in evaluations.items()}
    return found


def _evaluations(comparison: Comparison, candidate: Candidate, protocol: ProtocolName) -> list[Evaluation]:
    cells = [comparison.cell(candidate, r, is_search=False) for r in range(comparison.plan.repetitions)]
    return [read_evaluation(comparison.directory(cell), protocol, comparison.dataset) for cell in cells]
