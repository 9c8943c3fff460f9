"""Processes that do tasks in parallel, each on one GPU if there are any, until they are stopped."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import TypeVar

from mcne.errors import CaptureError, DataError, Interrupted, MCNEError

LOOK = 0.5  # seconds between two checks for a signal
VISIBLE = "CUDA_VISIBLE_DEVICES"
PATIENCE = 20.0  # seconds that trainings under way have for their checkpoints

Key = TypeVar("Key")
Task = Callable[[], None]


def outcomes(tasks: Mapping[Key, Task], *, jobs: int) -> Generator[tuple[Key, MCNEError | None]]:
    """Do every task in one of ``jobs`` processes, and yield each as it ends, with the error if it failed.

    A process gets its next task when the last one is done, so none starts after a signal. The
    processes end with the generator; close it if not all outcomes are taken.
    """
    import torch

    from mcne.training.loop import hold_signals

    left = list(tasks.items())[::-1]
    processes: dict[Connection, SpawnProcess] = {}
    busy: dict[Connection, Key] = {}

    def give(pipe: Connection) -> None:
        if left:
            busy[pipe], task = left.pop()
            pipe.send(task)
        else:
            pipe.close()  # the end of its process: idle, it would hold memory that others need

    with hold_signals() as stop, ExitStack() as at_the_end:
        at_the_end.callback(_end, processes)
        named = os.environ.get(VISIBLE)
        gpus = named.split(",") if named else list(map(str, range(torch.cuda.device_count())))
        for number in range(min(jobs, len(left))):
            pipe, process = _started(gpus[number % len(gpus)] if gpus else None)
            processes[pipe] = process
            give(pipe)
        while busy:
            ready = wait(list(busy), timeout=LOOK)
            if stop.number is not None:
                raise stopped(stop.number)
            for pipe in [pipe for pipe in busy if pipe in ready]:
                key = busy.pop(pipe)
                try:
                    error = pipe.recv()
                except (EOFError, ConnectionError) as closed:
                    processes[pipe].join()
                    time.sleep(LOOK)  # a signal for the whole process group may arrive here last
                    raise (died(processes[pipe]) if stop.number is None else stopped(stop.number)) from closed
                if isinstance(error, OSError | CaptureError):  # nothing that only this task could meet
                    raise error
                give(pipe)
                yield key, error
        if stop.number is not None:
            raise stopped(stop.number)


def stopped(number: int) -> Interrupted:
    """The error that a study was stopped."""
    return Interrupted(
        f"stopped by {signal.Signals(number).name}; finished cells are kept",
        remedy="run the same command again to continue",
        signal_number=number,
    )


def died(process: SpawnProcess) -> DataError:
    """The error that a process ended in the middle of a task."""
    return DataError(
        f"a training ended with exit code {process.exitcode}: it was killed, perhaps because memory ran out, unless a "
        "message above says more",
        value=process.exitcode,
        remedy="run the same command again to continue, with a lower --jobs to use less memory",
    )


def _started(gpu: str | None) -> tuple[Connection, SpawnProcess]:
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
    return ours, process


def _work(pipe: Connection, gpu: str | None) -> None:
    """Do tasks until there are no more, or until a signal; the process uses a single GPU."""
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


def _end(processes: Mapping[Connection, SpawnProcess]) -> None:
    """Stop all processes, whose trainings save a checkpoint, and kill those that do not stop in time."""
    for process in processes.values():
        process.terminate()
    deadline = time.monotonic() + PATIENCE
    for process in processes.values():
        process.join(max(0.0, deadline - time.monotonic()))
        process.kill()
        process.join()
