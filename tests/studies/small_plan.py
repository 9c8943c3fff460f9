"""A comparison of two methods that takes seconds, and tasks for processes of their own, which import them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from mcne.errors import CaptureError, Interrupted, UsageError
from mcne.studies.comparison import Comparison, Plan

PLAN = """
title = "Two methods"
repetitions = 2
search = 4
protocols = ["sampled", "full"]
reference = "bpr"
[training]
epochs = 2
[methods.popularity]
[methods.bpr]
modes = ["joint", "separate"]
settings = { width = 4, batch_size = 512 }
[methods.bpr.search]
l2 = [0.02, 0.1]
[paper.bpr]
Books = [10.0, 12.5]
[expected]
bpr = [9.0, 7.0]
"""


def opened(plan: Path, data: Path, out: Path, *only: str) -> Comparison:
    return Comparison.open(Plan.read(plan, only=only), data, out)


def run(comparison: Comparison, *, jobs: int = 1) -> tuple[dict[str, str], list[str]]:
    messages: list[str] = []
    return comparison.run(jobs=jobs, device="cpu", say=messages.append), messages


def nothing() -> None:
    """Done at once."""


def note_the_gpu(path: Path, *, others: int) -> None:
    """Write down which GPUs this process sees, and wait until others have done so."""
    path.write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
    deadline = time.monotonic() + 60
    while len(list(path.parent.iterdir())) <= others and time.monotonic() < deadline:
        time.sleep(0.01)


def refuse_at(place: Path, *_: object) -> None:
    """Say which process was here."""
    place.write_text(str(os.getpid()))
    refuse()


def lose_the_gpu_at(place: Path, *_: object) -> None:
    """As a step does that cannot be captured; say which process it was."""
    place.write_text(str(os.getpid()))
    raise CaptureError("a step could not be captured")


def refuse() -> None:
    raise UsageError("not like this")


def interrupt() -> None:
    raise Interrupted("stopped by SIGTERM", signal_number=signal.SIGTERM)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sleep_on() -> None:
    """Not to be woken by what asks others to stop."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
