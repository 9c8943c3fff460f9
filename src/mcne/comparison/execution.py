"""Run the cells of a comparison that are not done yet: search on the first split, choose, then every repetition."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

from mcne.comparison.cell import is_done, read_result, run_cell
from mcne.comparison.plan import Candidate, Cell, Plan
from mcne.data.dataset import SocialDataset
from mcne.errors import ArtifactError, DataError, Interrupted, MCNEError

CELLS, PRINTS, CHOSEN, FAILED = "cells", "data.json", "chosen.json", "failed.json"


@dataclass(frozen=True)
class Comparison:
    """A plan on a dataset, in a directory of its own; continued wherever it stands."""

    plan: Plan
    data: Path
    out: Path
    dataset: SocialDataset
    splits: tuple[str, ...]  # fingerprints, by repetition

    @classmethod
    def open(cls, plan: Plan, data: Path, out: Path) -> Comparison:
        """Begin or continue; data that has changed since is refused."""
        dataset = SocialDataset.load(data)
        made = cls(plan, data, out, dataset, tuple(split.fingerprint for split in plan.splits(data, dataset)))
        made._check_prints()
        return made

    def directory(self, cell: Cell) -> Path:
        """Where a cell is kept."""
        return self.out / CELLS / cell.name

    def cell(self, candidate: Candidate, repetition: int, *, is_search: bool) -> Cell:
        """One training of this comparison."""
        return Cell(candidate, repetition, is_search, self.dataset.fingerprint, self.splits[repetition])

    def search_cells(self) -> list[Cell]:
        """The candidates of every method that has more than one, on the first repetition."""
        several = [each for each in self.plan.candidates.values() if len(each) > 1]
        return [self.cell(candidate, 0, is_search=True) for each in several for candidate in each]

    def choose(self) -> dict[str, Candidate]:
        """Of every method the candidate that was best on validation; of those whose search has failed none."""
        chosen = {}
        for method, candidates in self.plan.candidates.items():
            if len(candidates) == 1:
                chosen[method] = candidates[0]
                continue
            found = [(self.validation(candidate), candidate) for candidate in candidates]
            done = [(metric, candidate) for metric, candidate in found if metric is not None]
            if done:
                chosen[method] = max(done, key=lambda pair: pair[0])[1]
        return chosen

    def final_cells(self) -> list[Cell]:
        """What was chosen, on every repetition."""
        chosen = self.choose().values()
        repetitions = range(self.plan.repetitions)
        return [self.cell(candidate, r, is_search=False) for r in repetitions for candidate in chosen]

    def merge(self, other: Path) -> int:
        """Take over the finished cells of the same comparison from another machine; returns how many."""
        if not (other / PRINTS).is_file():
            raise DataError(f"{other}: no {PRINTS}, so this is no comparison")
        theirs, ours = (json.loads((place / PRINTS).read_text()) for place in (other, self.out))
        if theirs != ours:
            raise ArtifactError(f"{other}: a comparison on other data ({_differing(theirs, ours)})")
        taken = 0
        for directory in sorted((other / CELLS).iterdir()):
            here = self.out / CELLS / directory.name
            if is_done(directory) and not is_done(here):
                shutil.rmtree(here, ignore_errors=True)
                aside = here.with_name(f".{here.name}.partial")
                shutil.copytree(directory, aside, dirs_exist_ok=True)
                aside.rename(here)
                taken += 1
        return taken

    def run(self, *, jobs: int, device: str, say: Callable[[str], None]) -> dict[str, str]:
        """Run what is missing; what failed is told, kept and returned by name, and tried again the next time."""
        failed = self._run(self.search_cells(), "search", jobs=jobs, device=device, say=say)
        chosen = self.choose()
        said = {method: vars(candidate) for method, candidate in chosen.items()}
        (self.out / CHOSEN).write_text(json.dumps(said, indent=1) + "\n")
        failed |= self._run(self.final_cells(), "repetitions", jobs=jobs, device=device, say=say)
        (self.out / FAILED).write_text(json.dumps(failed, indent=1) + "\n")
        return failed

    def _run(
        self, cells: Iterable[Cell], what: str, *, jobs: int, device: str, say: Callable[[str], None]
    ) -> dict[str, str]:
        everything = list({cell.name: cell for cell in cells}.values())  # two rows may have one in common
        missing = [cell for cell in everything if not is_done(self.directory(cell))]
        say(f"{what}: {len(everything) - len(missing)} of {len(everything)} cells are done")
        if not missing:
            return {}
        failed: dict[str, str] = {}
        for at, (cell, error) in enumerate(self._outcomes(missing, jobs=jobs, device=device), start=1):
            if error is None:
                say(f"{at}/{len(missing)} {_told(cell, read_result(self.directory(cell)))}")
            else:
                failed[cell.name] = str(error)
                say(f"{at}/{len(missing)} {cell.name}: failed: {error}")
        return failed

    def _outcomes(self, cells: list[Cell], *, jobs: int, device: str) -> Iterator[tuple[Cell, MCNEError | None]]:
        """Run cells, as many processes as jobs, and tell each as it ends; one job needs no other process."""
        threads = max(1, (os.cpu_count() or 1) // jobs)
        if jobs == 1:
            for cell in cells:
                yield cell, _outcome(partial(self._work(cell), device=device, threads=threads))
            return
        with ProcessPoolExecutor(min(jobs, len(cells)), mp_context=get_context("spawn")) as pool:
            waiting = {pool.submit(self._work(cell), device=device, threads=threads): cell for cell in cells}
            try:
                for future in as_completed(waiting):
                    yield waiting[future], _outcome(future.result)
            except BrokenProcessPool as error:
                raise DataError(
                    f"{self.out}: a training was killed, perhaps for want of memory; the same command goes on where it "
                    "was, and --jobs with a lower number needs less"
                ) from error
            except BaseException:  # asked to stop: trainings under way then keep a checkpoint
                pool.shutdown(wait=False, cancel_futures=True)
                for process in active_children():
                    process.terminate()
                raise

    def _work(self, cell: Cell) -> Callable[..., None]:
        return partial(
            run_cell,
            cell,
            self.directory(cell),
            data=self.data,
            split_name=self.plan.split_name(cell.repetition),
            protocols=self.plan.protocols,
        )

    def validation(self, candidate: Candidate) -> float | None:
        """What a candidate reached in the search, if it was finished."""
        directory = self.directory(self.cell(candidate, 0, is_search=True))
        return read_result(directory)["validation"] if is_done(directory) else None

    def _check_prints(self) -> None:
        """The hashes of dataset and splits, kept at the beginning and compared ever after."""
        now = {"dataset": self.dataset.fingerprint}
        now |= {self.plan.split_name(r): split for r, split in enumerate(self.splits)}
        place = self.out / PRINTS
        if not place.is_file():
            self.out.mkdir(parents=True, exist_ok=True)
            (self.out / CELLS).mkdir(exist_ok=True)
            place.write_text(json.dumps(now, indent=1) + "\n")
            return
        before = json.loads(place.read_text())
        if any(before.get(name, each) != each for name, each in now.items()):
            raise ArtifactError(
                f"{self.out}: was begun on other data ({_differing(before, now)}); restore it, or compare in another "
                "directory"
            )
        place.write_text(json.dumps(before | now, indent=1) + "\n")


def _outcome(work: Callable[[], None]) -> MCNEError | None:
    """What a person can act on, if it went wrong; being asked to stop is no outcome."""
    try:
        work()
    except Interrupted:
        raise
    except MCNEError as error:
        return error
    return None


def _differing(there: Mapping[str, str], here: Mapping[str, str]) -> str:
    names = [name for name in {**there, **here} if there.get(name) != here.get(name)]
    return ", ".join(f"{name} there {_short(there.get(name))}, here {_short(here.get(name))}" for name in names)


def _short(value: Any) -> str:
    return str(value)[:12]


def _told(cell: Cell, result: Mapping[str, Any]) -> str:
    metric = result["validation"]
    value = "no validation" if metric is None else f"validation NDCG@5 {100 * metric:.2f}"
    return f"{cell.name}: {cell.candidate.mode}, {value}, {result['train_seconds']:.0f} s"
