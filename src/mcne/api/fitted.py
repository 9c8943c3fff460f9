"""What a model has once it is trained: a finished run, and what answers questions about it."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from mcne.data.dataset import SocialDataset
from mcne.data.split import DIRECTORY, Split
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.ranking import DeferredScorer, Scorer
from mcne.embeddings.scored import ScoredItems
from mcne.errors import Interrupted
from mcne.training.run import Run

JOINED = {"dataset": "joined", "split": "fitted"}
"""Where a run with an added behavior keeps the data of all its behaviors; its own is of that behavior alone."""
OF_EMBEDDINGS = frozenset(
    name for name in (*dir(ConditionalEmbeddings), *ConditionalEmbeddings.__dataclass_fields__) if name[0] != "_"
)
OF_SCORES = frozenset(name for name in (*dir(ScoredItems), *ScoredItems.__dataclass_fields__) if name[0] != "_")
"""The public attributes of what answers, which a trained model has, too."""


class Fitted:
    """A finished run with everything that is asked of it, made when it is first needed."""

    def __init__(
        self,
        run: Run,
        settings: Mapping[str, Any],
        *,
        places: Mapping[str, str] | None = None,
        is_temporary: bool = False,
    ) -> None:
        self.run = run
        self.settings = settings  # that it was trained with
        self._joined = None if places is None else (run.path / places["dataset"], places["split"])
        if is_temporary:  # the run vanishes with the model and its scorer, which may read it later
            weakref.finalize(run, _remove, run.path, os.getpid())

    @cached_property
    def data(self) -> tuple[SocialDataset, Split]:
        """What it was trained on."""
        if self._joined is None:
            return self.run.data()
        place, split = self._joined
        dataset = SocialDataset.load(place)
        return dataset, Split.load(place / DIRECTORY / split, dataset)

    @cached_property
    def scorer(self) -> Scorer:
        """What scores items for users of the data."""
        if self.run.has_vectors:
            return self.run.scorer(*self.data)
        return DeferredScorer(partial(self.run.scorer, *self.data))  # it imports torch

    @cached_property
    def answering(self) -> ConditionalEmbeddings | ScoredItems:
        """What answers questions: the vectors, or the scores of a method that has none."""
        if self.run.has_vectors:
            return self.run.embeddings
        data, _ = self.data
        return ScoredItems.of(self.scorer, data, method=self.run.spec.method)

    @property
    def attributes(self) -> frozenset[str]:
        """The public attributes of what answers."""
        return OF_EMBEDDINGS if self.run.has_vectors else OF_SCORES


def _remove(path: Path, owner: int) -> None:
    """Remove a temporary run, unless in a child that was forked from its process."""
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


def save_data(path: Path, data: SocialDataset, split: Split, places: Mapping[str, str]) -> None:
    """Keep dataset and split with a run."""
    data.save(path / places["dataset"])
    split.save(path / places["dataset"] / DIRECTORY / places["split"])


@contextmanager
def run_directory(out: str | Path | None, *, outlives: bool = True) -> Iterator[Path]:
    """The run's own directory, or a temporary one, which is removed if the block fails, or ends and is not outlived.

    There no checkpoint is left to go on from, so an interruption is what it would be anywhere else.
    """
    if out is not None:
        yield Path(out)
        return
    path = Path(tempfile.mkdtemp(prefix="mcne-"))
    try:
        yield path
    except BaseException as error:
        shutil.rmtree(path, ignore_errors=True)
        if isinstance(error, Interrupted):
            signal.raise_signal(error.signal_number)
        raise
    if not outlives:
        shutil.rmtree(path, ignore_errors=True)
