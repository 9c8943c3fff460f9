"""The engine of resumable studies: it claims a directory for fixed data, and runs the tasks of a study.

Every task has its own directory and writes its result there last, so a task with a result is done. What is trained
and measured is up to the specifications: comparison, sweep, transfer, structure and new_users.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import numpy as np

from mcne.errors import ArtifactError, CaptureError, DataError, DivergedError, Interrupted, MCNEError, UsageError
from mcne.evaluation.protocol import DECIDING_METRIC
from mcne.files import HeldError, absent, is_held, locked, overwrite, read_json, write_json
from mcne.models.registry import first_name
from mcne.studies import workers
from mcne.text import NO_VALUE, with_spread
from mcne.training import Run, choose_device
from mcne.training.run import TIMES

if TYPE_CHECKING:
    import torch

CELLS, BASES = "cells", "bases"
RESULT, RANKS, RUN = "cell.json", "ranks.parquet", "run"
PRINTS = "data.json"
DATA = "data"
"""The dataset of a study that was started from Python, in its directory."""
WRITTEN_AGAIN = "remove it, and the same command writes it again"
NEEDED = ("cell", "validation", "train_seconds")
N_SHOWN = 5
LOOK = 1.0  # seconds between two looks at tasks that another process is doing

Say = Callable[[str], None]
Result = Mapping[str, Any]
Candidate = TypeVar("Candidate")


# the directory


class Kind(StrEnum):
    """The kinds of studies, as messages and ``data.json`` call them."""

    comparison = "comparison"
    transfer = "transfer study"
    sweep = "sweep"
    timing = "sweep's timing"
    structure = "structure study"
    new_users = "study of new users"


RECORDS = {Kind.structure: "study.json", Kind.new_users: "request.json"}
"""What these kinds keep of their beginning in place of ``data.json``."""


def kind_of(directory: Path) -> str | None:
    """The kind of the study in a directory, if any."""
    if kind := _read_prints(directory).get("kind"):
        return str(kind)
    return next((kind for kind, name in RECORDS.items() if (directory / name).is_file()), None)


def check_kind(out: Path, kind: Kind) -> None:
    """Refuse a directory that is not empty and contains no study of this kind; nothing is written.

    Trainings whose ``data.json`` was removed belong to whoever continues them: their names tell them apart.
    """
    if not out.exists():
        return
    if not out.is_dir():
        raise UsageError.of_path(f"is a file, and a {kind} needs a directory", out, "choose another --out")
    # listed before its kind is read: a study that another process begins in between is recognized, or not seen
    names = sorted(each.name for each in out.iterdir() if not (each.name.startswith(".") or each.name == DATA))
    before = kind_of(out)
    if before not in (None, kind):
        raise UsageError(
            f"already contains a {before}, not a {kind}", out, "choose another --out", value=before, allowed=[kind]
        )
    has_trainings = any(each.is_dir() for place in (CELLS, BASES) for each in out.glob(f"{place}/*"))
    if names and before is None and not has_trainings:
        more = f", … {len(names) - N_SHOWN} more" if len(names) > N_SHOWN else ""
        raise UsageError.of_path(
            f"is not empty and is not a {kind} ({', '.join(names[:N_SHOWN])}{more})",
            out,
            "choose an empty directory or another --out",
        )


@contextmanager
def claimed(out: Path, kind: Kind) -> Iterator[None]:
    """Lock a directory that is free or contains a study of this kind, while the study is recorded in it."""
    check_kind(out, kind)
    with locked(out, wait=True):
        check_kind(out, kind)
        yield


def begin(out: Path, kind: Kind, prints: Mapping[str, str]) -> None:
    """Start or continue a study on data with these fingerprints; a study on other data is refused."""
    with claimed(out, kind):
        write_json(out / PRINTS, {"kind": kind, **check_prints(out, prints), **prints})


def check_prints(out: Path, prints: Mapping[str, str]) -> dict[str, Any]:
    """Refuse a directory whose study was started on other data; returns what it records."""
    before = _read_prints(out)
    if differing := difference(before, prints):
        raise ArtifactError(
            f"was started on other data ({differing})", out, "restore the data, or choose another --out"
        )
    return before


def difference(theirs: Mapping[str, str], ours: Mapping[str, str]) -> str:
    """Fingerprints that both have and that differ; one may have more repetitions than the other."""
    names = [name for name in theirs if name in ours and theirs[name] != ours[name]]
    return ", ".join(f"{name} there {str(theirs[name])[:12]}, here {str(ours[name])[:12]}" for name in names)


def _read_prints(directory: Path) -> dict[str, Any]:
    step = "remove it, and the command that made it writes it again, or choose another directory"
    return read_json(directory / PRINTS, step=step) if (directory / PRINTS).is_file() else {}


# tasks


@dataclass(frozen=True)
class Task:
    """A part of a study that is done on its own: what it does, and the directory that keeps its result."""

    directory: Path
    work: Callable[[Path, torch.device, int], Result]  # of directory, device and jobs; pickled for other processes
    title: str = ""  # in messages; by default the directory's name
    result_name: str = RESULT  # the file
    keeps_run: bool = False
    needs: Sequence[str] = NEEDED  # keys of the result

    def result(self) -> dict[str, Any]:
        """The result, once it is done."""
        return read_result(self.directory, self.result_name, needs=self.needs)

    def run(self, device: str, jobs: int = 1, threads: int | None = None) -> None:
        """Do the task unless it is done, with its directory locked; write the result last, then remove the run."""
        import torch

        before = torch.get_num_threads()  # of the process, which may be someone's program
        if threads is not None:
            torch.set_num_threads(threads)
        try:
            self._do(choose_device(device), jobs)
        finally:
            if threads is not None:
                torch.set_num_threads(before)

    def _do(self, device: torch.device, jobs: int) -> None:
        with locked(self.directory):
            if not is_done(self.directory, self.result_name):  # another process may have done it in the meantime
                write_json(self.directory / self.result_name, self.work(self.directory, device, jobs))
            self.remove_run()

    def remove_run(self) -> None:
        """Remove the run, which a killed process may have left beside the result."""
        if not self.keeps_run:
            shutil.rmtree(self.directory / RUN, ignore_errors=True)


def begun(directory: Path, method: str) -> Path:
    """The directory of a training whose name starts with the method's, or with its former name if it began so."""
    former = directory.with_name(directory.name.replace(method, first_name(method), 1))
    return former if former.is_dir() else directory


def is_done(directory: Path, name: str = RESULT) -> bool:
    """Whether the task of a directory is done."""
    return (directory / name).is_file()


def read_result(directory: Path, name: str = RESULT, *, needs: Sequence[str] = NEEDED) -> dict[str, Any]:
    """The result of a task that is done; ``diverged`` says why there is nothing else."""
    step = removal(directory)
    result = read_json(directory / name, step=step)
    missing = [key for key in needs if key not in result]
    if missing:
        raise ArtifactError(f"is damaged (no {', '.join(missing)})", directory / name, step)
    return result


def result_of(directory: Path, *, needs: Sequence[str] = NEEDED) -> dict[str, Any] | None:
    """The result of a task, once it is done."""
    return read_result(directory, needs=needs) if is_done(directory) else None


def removal(directory: Path) -> str:
    """What to do about a damaged file of a task."""
    return f"remove {directory}, and the same command trains it again"


def run_missing(
    tasks: Sequence[Task], what: str, *, device: str, jobs: int | None = None, say: Say, about: Callable[[Result], str]
) -> dict[str, MCNEError]:
    """Do every unfinished task, report each with ``about``, and return failures by directory name.

    ``jobs`` tasks run in parallel and share the cores; None: one at a time, with PyTorch's number of threads.
    """
    by_directory = {task.directory: task for task in tasks}  # two rows may have a task in common
    missing = {path: task for path, task in by_directory.items() if not is_done(path, task.result_name)}
    for directory in by_directory.keys() - missing.keys():
        by_directory[directory].remove_run()
    if tasks:
        say(f"{what}: {len(by_directory) - len(missing)} of {len(by_directory)} cells are done")
    failed: dict[str, MCNEError] = {}
    ended = 0
    total = len(missing)
    is_announced = False
    while missing:
        free = {directory: task for directory, task in missing.items() if not is_held(directory)}
        before = ended
        with closing(_outcomes(free, device, jobs)) as outcomes:
            for directory, error in outcomes:
                if isinstance(error, HeldError):
                    continue
                ended += 1
                if error is not None:
                    failed[directory.name] = error
                outcome = f"failed: {error}" if error else about(missing[directory].result())
                say(f"{ended}/{total} {missing[directory].title or directory.name}: {outcome}")
        unfinished = {path: task for path, task in missing.items() if path.name not in failed}
        missing = {path: task for path, task in unfinished.items() if not is_done(path, task.result_name)}
        if missing and ended == before:
            if not is_announced:
                say(f"another process has {len(missing)} cells under way; waiting for them")
            is_announced = True
            time.sleep(LOOK)
    return failed


def _outcomes(tasks: Mapping[Path, Task], device: str, jobs: int | None) -> Generator[tuple[Path, MCNEError | None]]:
    """Do all tasks and yield each as it ends; a single job runs in this process."""
    threads = None if jobs is None else max(1, (os.cpu_count() or 1) // jobs)
    calls = {directory: partial(task.run, device, jobs or 1, threads) for directory, task in tasks.items()}
    if jobs is not None and jobs > 1:
        yield from workers.outcomes(calls, jobs=jobs)
        return
    for directory, call in calls.items():
        failure = None
        try:
            call()
        except Interrupted as error:  # its message names an option that studies do not have
            raise workers.stopped(error.signal_number) from error
        except CaptureError:  # after which nothing may be trained in this process
            raise
        except MCNEError as error:
            failure = error
        yield directory, failure


# results


def train_timed(path: Path, train: Callable[[], Run]) -> tuple[Run | None, dict[str, Any]]:
    """Train or resume at ``path``; returns the run and its result, with the seconds of all attempts.

    A diverged training is a result too, since it would diverge again; it has no run.
    """
    earlier = sum(map(sum, epoch_seconds(path)))
    started = time.perf_counter()
    run = None
    try:
        run = train()
        result = {**run.result, "validation": run.result[DECIDING_METRIC]}
    except DivergedError as error:
        result = {"validation": None, "diverged": str(error)}
    result["train_seconds"] = earlier + time.perf_counter() - started
    return run, result


def epoch_seconds(run: Path) -> list[list[float]]:
    """How long the steps of each finished epoch took, in all attempts; in mode separate, a list per behavior."""
    seconds = []
    for path in sorted(run.rglob(TIMES)):
        lines = path.read_text().splitlines(keepends=True)
        seconds.append([float(json.loads(line)["seconds"]) for line in lines if line.endswith("\n")])  # one may be torn
    return seconds


def device_name(device: torch.device) -> str:
    """The device, as results name it."""
    import torch

    return device.type if device.type == "cpu" else torch.cuda.get_device_name(device)


def ending(result: Result) -> str:
    """How a training ended, and how long it took."""
    metric = result["validation"]
    value = "no validation" if metric is None else f"validation NDCG@5 {100 * metric:.2f}"
    outcome = f"diverged: {result['diverged']}" if "diverged" in result else value
    return f"{outcome}, {result['train_seconds']:.0f} s"


def choose(
    rows: Mapping[str, Sequence[Candidate]], searched: Callable[[Candidate], Result | None]
) -> dict[str, Candidate]:
    """The best candidate of every row on validation, once all have finished or diverged.

    While any is missing, none is chosen: the search would be unequal. A single candidate needs no search.
    """
    chosen = {}
    for row, candidates in rows.items():
        if len(candidates) == 1:
            chosen[row] = candidates[0]
            continue
        results = [searched(candidate) for candidate in candidates]
        validations = [result["validation"] if result else None for result in results]
        reached = [value for value in validations if value is not None]
        if reached and None not in results:
            chosen[row] = candidates[validations.index(max(reached))]
    return chosen


def lacking(results: Mapping[str, Result | None], failures: Mapping[str, object], what: str = "") -> str:
    """What is missing among results by name, in one line: not finished, failed, diverged; empty if complete."""
    of_all = f" of {len(results)} {what}" if what else ""
    missing = [name for name, result in results.items() if result is None]
    failed = [failures[name] for name in missing if name in failures]
    diverged = [result["diverged"] for result in results.values() if result and "diverged" in result]
    parts = [f"{len(missing)}{of_all} not finished"] if missing else []
    parts += [f"{len(failed)} failed ({failed[0]})"] if failed else []
    parts += [f"{len(diverged)}{of_all} diverged ({diverged[0]})"] if diverged else []
    return ", ".join(parts)


class Spread(TypedDict):
    """Mean and standard deviation over repetitions, as files of results hold them."""

    mean: float
    sd: float | None  # None of a single repetition


def spread_of(values: Sequence[float | None]) -> Spread | None:
    """The spread of the values that are not None, if there are any."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return {"mean": float(np.mean(known)), "sd": float(np.std(known, ddof=1)) if len(known) > 1 else None}


def percent(spread: Spread | None, digits: int = 1) -> str:
    """Mean ± standard deviation in percent; a dash if there is no value."""
    if spread is None:
        return NO_VALUE
    return with_spread(100 * spread["mean"], None if spread["sd"] is None else 100 * spread["sd"], digits)


def write_results(out: Path, pages: Mapping[str, str], name: str, data: Any) -> list[Path]:
    """Write the pages of a study by their names, and what they show as JSON; returns the paths."""
    with locked(out, wait=True):
        for page, text in pages.items():
            overwrite(out / page, text.encode())
        write_json(out / name, data)
    return [out / each for each in (*pages, name)]


# other machines


def merge(other: Path, out: Path) -> int:
    """Copy the cells that are finished in ``other`` and not in ``out``; returns how many."""
    for needed in (PRINTS, CELLS):
        if not (other / needed).exists():
            raise absent(other, needed, "a comparison", "merge the directory of a comparison")
    theirs, ours = (read_json(place / PRINTS, step="restore it, or copy it again") for place in (other, out))
    if (kind := theirs.get("kind")) != Kind.comparison:
        what = f"a {kind}" if kind else "of an unknown kind"
        raise DataError(
            f"is {what}, not a comparison",
            other,
            "merge the directory of a comparison",
            value=kind,
            allowed=[Kind.comparison],
        )
    if differing := difference(theirs, ours):
        raise ArtifactError(
            f"compares on other data ({differing})", other, "merge a comparison on the same dataset and splits"
        )
    taken = 0
    for source in sorted((other / CELLS).iterdir()):
        if not is_done(source):
            continue
        read_result(source)  # refuses a damaged one
        target = out / CELLS / source.name
        with suppress(HeldError), locked(target):  # held: it is being trained here
            if is_done(target):
                continue
            for name in (RANKS, RESULT):  # the result last
                if (source / name).is_file():
                    overwrite(target / name, (source / name).read_bytes())
            shutil.rmtree(target / RUN, ignore_errors=True)  # of a training that was left unfinished here
            taken += 1
    return taken
