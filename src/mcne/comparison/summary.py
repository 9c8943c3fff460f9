"""What a comparison has found: means and spreads over repetitions, tests against the reference, costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcne.comparison.cell import is_done, read_evaluation, read_result
from mcne.comparison.execution import Comparison
from mcne.comparison.plan import Candidate
from mcne.evaluation.protocol import ProtocolName
from mcne.evaluation.significance import Comparisons, averaged, compare

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
    tests: Mapping[tuple[str, str], Mapping[str, Comparisons]]  # (protocol, metric) -> rival of the reference

    @property
    def behaviors(self) -> list[str]:
        """The names of the behaviors."""
        return self.comparison.dataset.behavior_names


def summarize(comparison: Comparison) -> Summary:
    """From the finished cells; methods without any are left out."""
    rows = []
    chosen = comparison.choose()
    for method, candidate in chosen.items():
        cells = [comparison.cell(candidate, r, is_search=False) for r in range(comparison.plan.repetitions)]
        results = [read_result(comparison.directory(c)) for c in cells if is_done(comparison.directory(c))]
        if results:
            searched = comparison.plan.candidates[method]
            validation = comparison.validation(candidate) if len(searched) > 1 else results[0]["validation"]
            rows.append(Row(candidate, len(searched), validation, len(results), tuple(results)))
    return Summary(comparison, tuple(rows), _tests(comparison, rows))


def _tests(comparison: Comparison, rows: Sequence[Row]) -> dict[tuple[str, str], Mapping[str, Comparisons]]:
    """The reference against every method that has all repetitions."""
    whole = [row.candidate for row in rows if row.repetitions == comparison.plan.repetitions]
    reference = comparison.plan.reference
    if reference not in [candidate.method for candidate in whole] or len(whole) < 2:
        return {}
    found: dict[tuple[str, str], Mapping[str, Comparisons]] = {}
    for protocol in comparison.plan.protocols:
        evaluations = {candidate.method: _evaluations(comparison, candidate, protocol) for candidate in whole}
        for metric in TESTED:
            scores = {method: averaged(each, metric) for method, each in evaluations.items()}
            found[protocol, metric] = compare(scores.pop(reference), scores)
    return found


def _evaluations(comparison: Comparison, candidate: Candidate, protocol: ProtocolName) -> list[Any]:
    cells = [comparison.cell(candidate, r, is_search=False) for r in range(comparison.plan.repetitions)]
    return [read_evaluation(comparison.directory(cell), protocol, comparison.dataset) for cell in cells]
