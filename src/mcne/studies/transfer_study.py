"""Train what a behavior is brought to, bring it in every way, and train what knows it alone, on every split."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mcne.data.dataset import SocialDataset
from mcne.data.split import Split, split_of
from mcne.errors import DivergedError
from mcne.evaluation.protocol import DECIDING_METRIC, Evaluation, ProtocolName, evaluate
from mcne.extend.alignment import without
from mcne.files import locked, write_json, write_parquet
from mcne.studies.cell import RANKS, RUN, is_done, read_evaluation, read_result, seconds_of
from mcne.studies.cell import RESULT as CELL
from mcne.studies.kinds import BASES, CELLS, Kind, begin, check_kind
from mcne.studies.scheduling import Say, do_missing, ending
from mcne.studies.transfer_plan import TransferPlan, Way
from mcne.training import Run, Training, choose_device
from mcne.training.reporting import SilentReporter

if TYPE_CHECKING:
    import torch

PROTOCOL: ProtocolName = "sampled"


@dataclass(frozen=True)
class Task:
    """One training of the study: the base of a repetition, or a way on it."""

    way: Way
    repetition: int
    behavior: str
    data: Path
    base: Path | None  # the finished run to bring it to

    @property
    def split_name(self) -> str:
        """Every repetition has a split of its own."""
        return f"random-{self.repetition}"


@dataclass(frozen=True)
class TransferStudy:
    """A plan on a dataset, in a directory of its own; what is finished there stays finished."""

    plan: TransferPlan
    data: Path
    out: Path
    dataset: SocialDataset

    @classmethod
    def open(cls, plan: TransferPlan, data: Path, out: Path) -> TransferStudy:
        """Begin or continue; a place of something else, or data that has changed or lacks the behavior, is refused."""
        check_kind(out, Kind.transfer)
        dataset = SocialDataset.load(data)
        splits = {f"random-{r}": split_of(data, dataset, f"random-{r}") for r in range(plan.repetitions)}
        without(dataset, splits["random-0"], behavior=plan.behavior)
        prints = {name: split.fingerprint for name, split in splits.items()}
        begin(out, Kind.transfer, {"behavior": plan.behavior, "dataset": dataset.fingerprint} | prints)
        return cls(plan, data, out, dataset)

    @property
    def one(self) -> SocialDataset:
        """The network with the new behavior alone, on which everything is measured."""
        return self.dataset.only(self.dataset.behavior_names.index(self.plan.behavior))

    def directory(self, way: Way, repetition: int) -> Path:
        """Where a way on a repetition is kept."""
        return self.out / CELLS / f"{way.method}-r{repetition}-{way.digest(self.plan.base)}"

    def base(self, repetition: int) -> Path:
        """Where the model of a repetition is kept that behaviors are brought to."""
        return self.out / BASES / f"{self.plan.base.method}-r{repetition}-{self.plan.base.digest(self.plan.base)}"

    def result(self, way: Way, repetition: int) -> dict[str, Any] | None:
        """What was found, once it is finished."""
        place = self.directory(way, repetition)
        return read_result(place) if is_done(place) else None

    def evaluation(self, way: Way, repetition: int) -> Evaluation:
        """The test part of a finished way, user by user."""
        return read_evaluation(self.directory(way, repetition), PROTOCOL, self.one)

    def choose(self) -> dict[str, Way]:
        """Of every row the candidate that was best on the validation part of the first repetition, once all are done.

        What is chosen is chosen for all repetitions; the test part has no say in it.
        """
        chosen = {}
        for row, ways in self.plan.rows.items():
            found = [self.result(way, 0) for way in ways]
            known = [(r["validation"], w) for r, w in zip(found, ways, strict=True) if r is not None]
            reached = [(value, way) for value, way in known if value is not None]
            if len(ways) == 1:
                chosen[row] = ways[0]
            elif None not in found and reached:
                chosen[row] = max(reached, key=lambda pair: pair[0])[1]
        return chosen

    def run(self, *, jobs: int, device: str, say: Say) -> dict[str, str]:
        """Do what is missing; what failed is told and returned by name, and tried again the next time."""
        repetitions, plan = range(self.plan.repetitions), self.plan
        bases = {self.base(r): Task(plan.base, r, plan.behavior, self.data, None) for r in repetitions if self._asks(r)}
        failed = self._run(bases, "bases", jobs=jobs, device=device, say=say)
        failed |= {
            place.name: said for place in bases if is_done(place) and (said := read_result(place).get("diverged"))
        }
        if failed:
            return failed
        first = [(way, 0) for ways in plan.rows.values() for way in ways]
        failed |= self._run(self._tasks(first), "first repetition", jobs=jobs, device=device, say=say)
        others = [(way, r) for r in repetitions for way in self.choose().values()]
        return failed | self._run(self._tasks(others), "chosen, all repetitions", jobs=jobs, device=device, say=say)

    def _asks(self, repetition: int) -> bool:
        """Whether something that brings a behavior to the base of a repetition is still to be done."""
        chosen = self.choose()
        ways = [way for row, some in self.plan.rows.items() for way in ([chosen[row]] if row in chosen else some)]
        return any(way.is_transfer and not is_done(self.directory(way, repetition)) for way in ways)

    def _tasks(self, cells: Sequence[tuple[Way, int]]) -> dict[Path, Task]:
        return {
            self.directory(way, r): Task(way, r, self.plan.behavior, self.data, self.base(r) / RUN) for way, r in cells
        }

    def _run(self, tasks: Mapping[Path, Task], what: str, *, jobs: int, device: str, say: Say) -> dict[str, str]:
        works = {place: partial(run_task, task, place) for place, task in tasks.items()}
        return do_missing(works, what, jobs=jobs, device=device, say=say, about=ending)


def run_task(task: Task, directory: Path, *, device: str, threads: int, jobs: int) -> None:
    """Train and evaluate, or go on with it; the result is written last. Of a way the run is removed then.

    A training that diverged is a result too: it would diverge again.
    """
    import torch

    torch.set_num_threads(threads)
    where = choose_device(device)
    with locked(directory):
        if is_done(directory):  # by another process, since this one looked
            return
        before, started = sum(map(sum, seconds_of(directory / RUN))), time.perf_counter()
        result: dict[str, Any] = {}
        try:
            run = _trained(task, directory / RUN, where)
            result |= {**run.result, "validation": run.result[DECIDING_METRIC]}
        except DivergedError as error:
            result |= {"validation": None, "diverged": str(error)}
        result["train_seconds"] = before + time.perf_counter() - started
        if task.base is not None and "diverged" not in result:
            result |= _measured(task, run, directory)
        name = where.type if where.type == "cpu" else torch.cuda.get_device_name(where)
        about = {"cell": asdict(task.way) | {"repetition": task.repetition}, "device": name, "jobs": jobs}
        write_json(directory / CELL, about | result)
        if task.base is not None:
            shutil.rmtree(directory / RUN, ignore_errors=True)


def _trained(task: Task, path: Path, device: torch.device) -> Run:
    from mcne.extend.transfer import transfer

    way, (dataset, split) = task.way, _data(task)
    if way.is_transfer:
        assert task.base is not None
        return transfer(
            Run.open(task.base).embeddings,
            dataset,
            split,
            path,
            behavior=task.behavior,
            given=way.given,
            seed=task.repetition,
            device=device,
            resume=True,
            split_name=task.split_name,
            reporter=SilentReporter(),
        )
    places = {"dataset": str(task.data.absolute()), "split": task.split_name}
    training = Training(
        way.method, dataset, split, settings=way.given, seed=task.repetition, device=device, places=places
    )
    return training.run(path, resume=True)


def _data(task: Task) -> tuple[SocialDataset, Split]:
    """What a task learns from: all behaviors but the new one, that one alone, or all."""
    dataset = SocialDataset.load(task.data)
    split = split_of(task.data, dataset, task.split_name)
    if task.base is None:
        return without(dataset, split, behavior=task.behavior)
    if task.way.on == "all":
        return dataset, split
    at = dataset.behavior_names.index(task.behavior)
    one = dataset.only(at)
    return one, split.only(at, one)


def _measured(task: Task, run: Run, directory: Path) -> dict[str, Any]:
    """The new behavior's test part, with the place of every item kept beside, and what was trained for it."""
    from mcne.extend.transfer import Counted

    dataset, split = _data(task)
    found = evaluate(run.scorer(dataset, split), dataset, split, protocol=PROTOCOL)
    behavior = found.behaviors[task.behavior]
    columns: dict[str, Any] = {
        "behavior": [task.behavior] * len(behavior.items),
        "user": np.repeat(behavior.users, behavior.counts),
        "item": behavior.items,
        PROTOCOL: behavior.ranks.astype(np.int32),
    }
    write_parquet(directory / RANKS, pa.table(columns))
    counted = asdict(Counted.of(run)) if task.way.is_transfer else None
    return {"test": found.summary()["behaviors"][task.behavior], "counted": counted}
