"""What a comparison has found: means and spreads over repetitions, tests against the reference, costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mcne.evaluation.protocol import Evaluation, ProtocolName
from mcne.evaluation.significance import Comparisons, UserScores, averaged, compare
from mcne.studies.cell import read_evaluation
from mcne.studies.execution import Comparison
from mcne.studies.plan import Candidate

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
    diverged: int  # … of them
    validation: float | None  # of the chosen one, in the search
    planned: int  # repetitions
    results: tuple[Mapping[str, Any], ...]  # of the finished ones

    @property
    def is_whole(self) -> bool:
        """Whether every repetition is finished."""
        return len(self.results) == self.planned

    @property
    def label(self) -> str:
        """The name, and with repetitions missing how many there are."""
        return self.name if self.is_whole else f"{self.name} ({len(self.results)} of {self.planned} repetitions)"

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
    unfinished: Mapping[str, str]  # what rows lack, in the tables or not
    scores: Mapping[tuple[str, str], Mapping[str, UserScores]]  # (protocol, metric) -> method with all repetitions

    def tests(self, protocol: str, metric: str) -> dict[str, Comparisons]:
        """The reference against every other method that has all repetitions."""
        scores = dict(self.scores[protocol, metric])
        reference = scores.pop(self.comparison.plan.reference, None)
        if reference is None or not scores or not reference.behaviors:  # the last: no user has a test item
            return {}
        return compare(reference, scores)

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
    """From the finished cells of the whole plan; methods without any are told as unfinished."""
    rows, unfinished = [], {}
    chosen, failures = comparison.choose(), comparison.failures()
    for name in comparison.plan.candidates:
        candidate = chosen.get(name)
        lacks = comparison.unfinished(name, candidate, failures)
        if lacks is not None:
            unfinished[name] = lacks
        row = None if candidate is None else _row(comparison, name, candidate)
        if row is not None:
            rows.append(row)
    return Summary(comparison, tuple(rows), unfinished, _scores(comparison, rows))


def _row(comparison: Comparison, name: str, candidate: Candidate) -> Row | None:
    """A row with what is finished; None where nothing is."""
    found = [comparison.result(cell) for cell in comparison.repeated(candidate)]
    results = tuple(result for result in found if result is not None and "diverged" not in result)
    if not results:
        return None
    candidates = comparison.plan.candidates[name]
    searched = [comparison.result(cell) for cell in comparison.searched(name)]
    best = (searched[candidates.index(candidate)] if searched else None) or results[0]
    diverged = sum(result is not None and "diverged" in result for result in searched)
    return Row(name, candidate, len(candidates), diverged, best["validation"], comparison.plan.repetitions, results)


def _scores(comparison: Comparison, rows: Sequence[Row]) -> dict[tuple[str, str], dict[str, UserScores]]:
    """What is tested, of every method that has all repetitions."""
    found: dict[tuple[str, str], dict[str, UserScores]] = {}
    for protocol in comparison.plan.protocols:
        evaluations = {row.name: _evaluations(comparison, row.candidate, protocol) for row in rows if row.is_whole}
        for metric in TESTED:
            found[protocol, metric] = {method: averaged(each, metric) for method, each in evaluations.items()}
    return found


def _evaluations(comparison: Comparison, candidate: Candidate, protocol: ProtocolName) -> list[Evaluation]:
    directories = [comparison.directory(cell) for cell in comparison.repeated(candidate)]
    return [read_evaluation(directory, protocol, comparison.dataset) for directory in directories]
