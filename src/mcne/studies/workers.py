"""Processes that do tasks side by side, each on one of the GPUs, if there are any, until they are told to stop."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import TypeVar

from mcne.errors import CaptureError, DataError, Interrupted, MCNEError
from mcne.training.loop import hold_signals

LOOK = 0.5  # seconds between two checks for a signal
VISIBLE = "CUDA_VISIBLE_DEVICES"
PATIENCE = 20.0  # seconds that trainings under way have for their checkpoints

Key = TypeVar("Key")
Task = Callable[[], None]


def outcomes(tasks: Mapping[Key, Task], *, jobs: int) -> Generator[tuple[Key, MCNEError | None]]:
    """Do every task in one of ``jobs`` processes, and yield each as it ends, with the error if it failed.

    A process gets its next task when the last one is done: none is queued that could begin after a signal. The
    processes end with the generator; close it if not all outcomes are taken.
    """
    import torch

    left = list(tasks.items())[::-1]
    workers: list[_Worker] = []
    busy: dict[_Worker, Key] = {}

    def give(worker: _Worker) -> None:
        if left:
            busy[worker], task = left.pop()
            worker.pipe.send(task)
        else:
            worker.pipe.close()  # its end: idle, it would hold memory that others need

    with hold_signals() as stop:
        try:
            named = os.environ.get(VISIBLE)
            gpus = named.split(",") if named else list(map(str, range(torch.cuda.device_count())))
            for number in range(min(jobs, len(left))):
                workers.append(_Worker.start(gpus[number % len(gpus)] if gpus else None))
                give(workers[-1])
            while busy:
                ready = wait([worker.pipe for worker in busy], timeout=LOOK)
                if stop.number is not None:
                    raise stopped(stop.number)
                for worker in [worker for worker in busy if worker.pipe in ready]:
                    key = busy.pop(worker)
                    error = worker.outcome()
                    if isinstance(error, _DiedError):
                        time.sleep(LOOK)  # a signal for the whole process group may arrive here last
                        raise error if stop.number is None else stopped(stop.number)
                    give(worker)
                    yield key, error
            if stop.number is not None:
                raise stopped(stop.number)
        finally:
            _end(workers)


def stopped(number: int) -> Interrupted:
    """That a study was stopped, and how to continue it."""
    return Interrupted(
        f"stopped by {signal.Signals(number).name}; finished cells are kept; run the same command again to continue",
        signal_number=number,
    )


@dataclass(frozen=True)
class _Worker:
    process: SpawnProcess
    pipe: Connection

    @classmethod
    def start(cls, gpu: str | None) -> _Worker:
        context = get_context("spawn")  # a fork would have locks that no thread of it ever releases
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, gpu), daemon=True)
        # children ignore Ctrl-C, which a terminal sends to all; their parent stops them
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()  # so that the end of the process is the end of the pipe
        return cls(process, ours)

    def outcome(self) -> MCNEError | None:
        """How its task ended."""
        try:
            error: MCNEError | OSError | None = self.pipe.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            return _DiedError(
                f"a training ended with exit code {self.process.exitcode}: killed, perhaps because memory ran out, "
                "unless a message above says more; run the same command again to continue, with a lower --jobs to use "
                "less memory"
            )
        if isinstance(error, OSError | CaptureError):  # nothing that only this task could meet
            raise error
        return error


class _DiedError(DataError):
    """The end of a process in the middle of a task."""


def _work(pipe: Connection, gpu: str | None) -> None:
    """Do tasks until there are no more, or until a signal; the process sees a single GPU."""
    if gpu is not None:
        os.environ[VISIBLE] = gpu
    while True:
        try:
            task: Task = pipe.recv()
        except EOFError:
            return
        try:
            task()
        except Interrupted:
            return
        except (MCNEError, OSError) as error:
            pipe.send(error)
        else:
            pipe.send(None)


def _end(workers: list[_Worker]) -> None:
    """Stop all, which a training does with a checkpoint, and kill those that do not stop in time."""
    for worker in workers:
        worker.process.terminate()
    deadline = time.monotonic() + PATIENCE
    for worker in workers:
        worker.process.join(max(0.0, deadline - time.monotonic()))
        worker.process.kill()
        worker.process.join()
