"""One training on a network without some of its links, and how well its vectors tell these from other pairs."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mcne import __version__
from mcne.analysis.links import (
    HEURISTICS,
    HeldOut,
    Pairs,
    Scores,
    auc,
    average_precision,
    cosine_scores,
    inner_product_scores,
)
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.errors import DivergedError
from mcne.files import locked, read_json, write_json
from mcne.studies.structure import Repetition
from mcne.training import Run, Training

if TYPE_CHECKING:
    import torch

RESULT, RUN = "cell.json", "run"
SIMILARITIES = {"inner product": inner_product_scores, "cosine": cosine_scores}

Row = dict[str, Any]
"""``behavior`` (None: the whole vector), ``similarity``, and by the kind of other pairs ``auc`` and ``ap``."""


def is_done(directory: Path) -> bool:
    """Whether a training is finished and measured there."""
    return (directory / RESULT).is_file()


def read_cell(directory: Path) -> dict[str, Any]:
    """What was found."""
    return read_json(directory / RESULT, step=f"remove {directory}, and the same command trains it again")


def run_cell(
    method: str, repetition: Repetition, directory: Path, *, given: Mapping[str, Any], device: torch.device
) -> None:
    """Train and measure unless that is done, or go on with it; the result is written last, then the run is removed.

    A training that diverged is a result too: it would diverge again.
    """
    with locked(directory):
        if not is_done(directory):
            started = time.perf_counter()
            result: dict[str, Any] = {"method": method, "repetition": repetition.number, "version": __version__}
            try:
                run = trained(method, repetition, directory / RUN, given=given, device=device)
                rows = list(measured(run.embeddings, repetition.held_out))
                result |= {**run.result, "fingerprint": run.fingerprint, "rows": rows}
            except DivergedError as error:
                result |= {"diverged": str(error), "rows": []}
            result["seconds"] = time.perf_counter() - started
            write_json(directory / RESULT, result)
        shutil.rmtree(directory / RUN, ignore_errors=True)  # also one that a death has left beside its result


def trained(method: str, repetition: Repetition, path: Path, *, given: Mapping[str, Any], device: torch.device) -> Run:
    """The run of a method that sees the network without its held-out links, and nothing of these."""
    return Training(
        method,
        repetition.dataset,
        repetition.split,
        settings=given,
        seed=repetition.number,
        device=device,
        places={"dataset": "", "split": f"random-{repetition.number}"},
    ).run(path, resume=True)


def measured(embeddings: ConditionalEmbeddings, held_out: HeldOut) -> Iterator[Row]:
    """How well the whole vectors, and where behaviors differ their conditional vectors, tell links from other pairs."""
    spaces = embeddings.spaces
    is_conditional = any(space.user_vectors is not None or not np.all(space.mask) for space in spaces)
    for behavior in (None, *(embeddings.behavior_names if is_conditional else ())):
        vectors, mask = embeddings.matrix_and_mask(behavior)
        for similarity, score in SIMILARITIES.items():
            told = _told(held_out, partial(score, vectors, mask))
            yield {"behavior": behavior, "similarity": similarity, **told}


def heuristics(held_out: HeldOut) -> dict[str, Row]:
    """The same of what needs no training and sees the same network."""
    return {
        name: {"behavior": None, "similarity": None} | _told(held_out, partial(score, held_out.graph))
        for name, score in HEURISTICS.items()
    }


def _told(held_out: HeldOut, score: Callable[[Pairs], Scores]) -> dict[str, dict[str, float]]:
    links = score(held_out.links)
    found = {}
    for kind, pairs in held_out.others.items():
        others = score(pairs)
        found[kind] = {"auc": auc(links, others), "ap": average_precision(links, others)}
    return found
