"""Do the cells that are not done yet, side by side, and wait for those that other processes have under way."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from mcne.errors import CaptureError, Interrupted, MCNEError
from mcne.files import HeldError, is_held
from mcne.studies import workers
from mcne.studies.cell import is_done, read_result

LOOK = 1.0  # seconds between two looks at cells that another process has under way

Say = Callable[[str], None]
Work = Callable[..., None]
"""Does a cell, given ``device``, ``threads`` and ``jobs``."""


def do_missing(
    works: Mapping[Path, Work],
    what: str,
    *,
    jobs: int,
    device: str,
    say: Say,
    about: Callable[[Mapping[str, Any]], str],
) -> dict[str, str]:
    """Do the cell of every directory where none is done; what failed is told, and returned by the directory's name.

    ``about`` is what to tell of a result.
    """
    threads = max(1, (os.cpu_count() or 1) // jobs)
    missing = {
        place: partial(work, device=device, threads=threads, jobs=jobs)
        for place, work in works.items()
        if not is_done(place)
    }
    say(f"{what}: {len(works) - len(missing)} of {len(works)} cells are done")
    failed: dict[str, str] = {}
    ended, total, was_told = 0, len(missing), False
    while missing:
        free = {place: work for place, work in missing.items() if not is_held(place)}
        before = ended
        with closing(_outcomes(free, jobs=jobs)) as outcomes:
            for place, error in outcomes:
                if isinstance(error, HeldError):
                    continue
                ended += 1
                if error is not None:
                    failed[place.name] = str(error)
                told = f"failed: {error}" if error else about(read_result(place))
                say(f"{ended}/{total} {place.name}: {told}")
        missing = {place: w for place, w in missing.items() if not is_done(place) and place.name not in failed}
        if missing and ended == before:
            if not was_told:
                say(f"another process has {len(missing)} cells under way; waiting for them")
            was_told = True
            time.sleep(LOOK)
    return failed


def ending(result: Mapping[str, Any]) -> str:
    """How a training ended, and after how long."""
    metric = result["validation"]
    value = "no validation" if metric is None else f"validation NDCG@5 {100 * metric:.2f}"
    said = f"diverged: {result['diverged']}" if "diverged" in result else value
    return f"{said}, {result['train_seconds']:.0f} s"


def _outcomes(works: Mapping[Path, Callable[[], None]], *, jobs: int) -> Generator[tuple[Path, MCNEError | None]]:
    """Do all, as many processes as jobs, and tell each as it ends; one job needs no other process."""
    if jobs > 1:
        yield from workers.outcomes(works, jobs=jobs)
        return
    for place, work in works.items():
        yield place, _outcome(work)


def _outcome(work: Callable[[], None]) -> MCNEError | None:
    """What a person can act on, if it went wrong; to be asked to stop is no outcome, nor is a process that broke."""
    try:
        work()
    except Interrupted as error:  # which advises an option that a comparison does not have
        raise workers.stopped(error.signal_number) from error
    except CaptureError:  # after which nothing may be trained in this process
        raise
    except MCNEError as error:
        return error
    return None
