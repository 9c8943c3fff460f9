"""Run the cells of a comparison that are not done yet: search on the first split, choose, then every repetition."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mcne.data.dataset import SocialDataset
from mcne.files import locked, read_json, write_json
from mcne.studies import kinds, merging
from mcne.studies.cell import RUN, is_done, read_result, run_cell
from mcne.studies.kinds import CELLS, WRITTEN_AGAIN, Kind
from mcne.studies.plan import Candidate, Cell, Plan
from mcne.studies.scheduling import Say, Work, do_missing, ending

CHOSEN, FAILED = "chosen.json", "failed.json"


@dataclass(frozen=True)
class Comparison:
    """A plan on a dataset, in a directory of its own; continued wherever it stands, by several processes at once."""

    plan: Plan
    data: Path
    out: Path
    dataset: SocialDataset
    splits: tuple[str, ...]  # fingerprints, by repetition

    @classmethod
    def open(cls, plan: Plan, data: Path, out: Path, *, kind: Kind = Kind.comparison) -> Comparison:
        """Begin or continue; data that has changed since, or does not fit the plan, is refused.

        So is a directory that holds anything else. A sweep is a comparison, too, but a directory is of one kind.
        """
        kinds.check_kind(out, kind)
        dataset = SocialDataset.load(data)
        splits = plan.splits(data, dataset)
        plan.check(dataset, splits[0])
        made = cls(plan, data, out, dataset, tuple(split.fingerprint for split in splits))
        prints = {plan.split_name(r): split for r, split in enumerate(made.splits)}
        kinds.begin(out, kind, {"dataset": dataset.fingerprint} | prints)
        (out / CELLS).mkdir(exist_ok=True)
        return made

    def directory(self, cell: Cell) -> Path:
        """Where a cell is kept."""
        return self.out / CELLS / cell.name

    def cell(self, candidate: Candidate, repetition: int, *, is_search: bool) -> Cell:
        """One training of this comparison."""
        protocols = () if is_search else self.plan.protocols
        return Cell(candidate, repetition, is_search, self.dataset.fingerprint, self.splits[repetition], protocols)

    def result(self, cell: Cell) -> dict[str, Any] | None:
        """What a cell found, once it is finished."""
        return read_result(self.directory(cell)) if is_done(self.directory(cell)) else None

    def searched(self, row: str) -> list[Cell]:
        """The candidates of a row on the first repetition; none of a row that has no choice."""
        candidates = self.plan.candidates[row]
        return [self.cell(each, 0, is_search=True) for each in candidates] if len(candidates) > 1 else []

    def repeated(self, candidate: Candidate) -> list[Cell]:
        """A candidate on every repetition."""
        return [self.cell(candidate, r, is_search=False) for r in range(self.plan.repetitions)]

    def choose(self) -> dict[str, Candidate]:
        """Of every row the candidate that was best on validation, once all are finished or have diverged.

        A row is left out while any of its candidates is missing: the others would have had the smaller search.
        """
        chosen = {}
        for row, candidates in self.plan.candidates.items():
            results = [self.result(cell) for cell in self.searched(row)]
            if not results:
                chosen[row] = candidates[0]
            elif None not in results:
                found = [(r["validation"], c) for r, c in zip(results, candidates, strict=True) if r is not None]
                reached = [(value, candidate) for value, candidate in found if value is not None]
                if reached:
                    chosen[row] = max(reached, key=lambda pair: pair[0])[1]
        return chosen

    def search_cells(self) -> list[Cell]:
        """What must be trained before anything can be chosen."""
        return [cell for row in self.plan.trained for cell in self.searched(row)]

    def final_cells(self) -> list[Cell]:
        """What was chosen, on every repetition; the first repetition of all comes first."""
        chosen = self.choose()
        cells = [self.repeated(chosen[row]) for row in self.plan.trained if row in chosen]
        return [cell for repetition in zip(*cells, strict=True) for cell in repetition]

    def merge(self, other: Path) -> int:
        """Take over the finished cells of the same comparison from another machine; returns how many."""
        return merging.merge(other, self.out)

    def run(self, *, jobs: int, device: str, say: Say) -> dict[str, str]:
        """Run what is missing; what failed is told, kept and returned by name, and tried again the next time."""
        failed = self._run(self.search_cells(), "search", jobs=jobs, device=device, say=say)
        chosen = self.choose()
        with locked(self.out, wait=True):
            write_json(self.out / CHOSEN, {row: asdict(candidate) for row, candidate in chosen.items()})
        for row in self.plan.trained:
            if row not in chosen:
                say(f"{row}: {self.unfinished(row, None, failed)}; its repetitions wait")
        failed |= self._run(self.final_cells(), "repetitions", jobs=jobs, device=device, say=say)
        with locked(self.out, wait=True):
            write_json(self.out / FAILED, self.failures() | failed)
        return failed

    def failures(self) -> dict[str, str]:
        """By name, the cells of the plan that failed when they were last tried and are not finished since."""
        path, chosen = self.out / FAILED, self.choose()
        kept = read_json(path, step=WRITTEN_AGAIN) if path.is_file() else {}
        cells = [cell for row in self.plan.candidates for cell in self.searched(row)]
        cells += [cell for candidate in chosen.values() for cell in self.repeated(candidate)]
        return {cell.name: str(kept[cell.name]) for cell in cells if cell.name in kept and self.result(cell) is None}

    def unfinished(self, row: str, chosen: Candidate | None, failures: Mapping[str, str]) -> str | None:
        """What a row lacks, in a line: of its repetitions, or of its search where nothing is chosen."""
        what, cells = ("repetitions", self.repeated(chosen)) if chosen else ("configurations", self.searched(row))
        results = {cell.name: self.result(cell) for cell in cells}
        missing = [name for name, result in results.items() if result is None]
        failed = [failures[name] for name in missing if name in failures]
        diverged = [result["diverged"] for result in results.values() if result and "diverged" in result]
        lacks = [f"{len(missing)} of {len(cells)} {what} not finished"] if missing else []
        lacks += [f"{len(failed)} failed ({failed[0]})"] if failed else []
        lacks += [f"{len(diverged)} of {len(cells)} {what} diverged ({diverged[0]})"] if diverged else []
        return ("" if chosen else "undecided: ") + ", ".join(lacks) if lacks else None

    def _run(self, cells: list[Cell], what: str, *, jobs: int, device: str, say: Say) -> dict[str, str]:
        """Run the cells that are not done; of the others, a run that a death has left is removed."""
        works = {self.directory(cell): self._work(cell) for cell in cells}  # two rows may have one in common
        for place in works:
            if is_done(place):
                shutil.rmtree(place / RUN, ignore_errors=True)
        return do_missing(works, what, jobs=jobs, device=device, say=say, about=_about)

    def _work(self, cell: Cell) -> Work:
        split_name = self.plan.split_name(cell.repetition)
        return partial(run_cell, cell, self.directory(cell), data=self.data, split_name=split_name)


def _about(result: Mapping[str, Any]) -> str:
    return f"{result['cell']['candidate']['mode']}, {ending(result)}"
