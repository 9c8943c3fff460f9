"""The Python face: ``mcne.MCNE(...).fit(data)`` and ``mcne.load(path)``.

Trained vectors live in :class:`~mcne.embeddings.artifact.ConditionalEmbeddings`; the model only trains them and passes
questions on. Nothing here needs torch until :meth:`MCNE.fit`.
"""

from __future__ import annotations

import dataclasses
import operator
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, get_args

from mcne import training
from mcne.data.dataset import SocialDataset
from mcne.data.split import DIRECTORY, Split, random_split
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.queries import Queries
from mcne.errors import DataError, Interrupted, UsageError, unknown
from mcne.evaluation.protocol import Evaluation, ProtocolName, evaluate
from mcne.files import MANIFEST
from mcne.training.run import TRANSFER

DATASET = "data"
"""Where a run that was trained from Python keeps its dataset and split, so that commands can evaluate it."""
Initial = Literal["free", "attributes", "both"]
NEVER = 1e9
"""Seconds between checkpoints of a run that vanishes: none could ever be used."""


def load(path: str | Path) -> ConditionalEmbeddings:
    """What a finished run directory or a directory saved by ``embeddings.save`` holds, verified and memory-mapped."""
    path = Path(path)
    if (path / training.SPEC).is_file():
        return training.Run.open(path).embeddings
    if path.exists() and not (path / MANIFEST).is_file():
        raise DataError(
            f"{path}: neither {training.SPEC} nor {MANIFEST}, so this is no run and no saved embeddings, or not all of "
            "it was copied; make a run with mcne train"
        )
    return ConditionalEmbeddings.load(path)


@dataclass(kw_only=True, eq=False, repr=False)
class MCNE(Queries):
    """Multiple conditional network embedding: one vector per user, a binary mask over it per behavior.

    ``MCNE(seed=0).fit(data)`` trains; then ask :meth:`recommend`, :meth:`similar_users`, :meth:`similar_items` and
    :meth:`explain`, or take the :attr:`embeddings`. Raw ids in and out. The same seed gives the same bytes.

    Users start from a ``free`` vector each, from their ``attributes``, or from ``both`` added up: the last two are the
    method ``mcne-plus``, and not the paper's.
    """

    seed: int = 0
    device: str = "auto"
    epochs: int = 200
    patience: int = 10
    evaluate_every: int = 1
    widths: tuple[int, ...] = (256, 128, 100)
    neighbor_samples: tuple[int, ...] = (20, 20)
    attention_width: int = 64
    message: Literal["neighbor", "literal"] = "neighbor"
    last_activation: bool = True
    weighted_neighbors: bool = False
    negatives: int = 5
    batch_size: int = 128
    learning_rate: float = 0.003
    l2: float = 0.001
    l2_form: Literal["scored", "parameters"] = "scored"
    initial: Initial = "free"
    workers: int = 1
    checkpoint_seconds: float = 60.0
    keep_checkpoints: int = 2
    tensorboard: bool = False
    deterministic: bool = False

    def __post_init__(self) -> None:
        self._trained: tuple[ConditionalEmbeddings, SocialDataset, Split] | None = None

    def fit(
        self,
        data: SocialDataset,
        split: Split | None = None,
        *,
        out: str | Path | None = None,
        resume: bool = False,
        progress: bool = True,
    ) -> Self:
        """Train on the training part of ``split`` and keep the best epoch on its validation part.

        Without a split, a random one of 70, 10 and 20 % is made with the model's seed. With ``out`` the run stays
        there, with its checkpoints, metrics and data, and ``resume`` continues an interrupted one.
        ``progress`` writes a line per epoch to stderr.
        """
        if not isinstance(data, SocialDataset):
            raise UsageError(f"fit takes a SocialDataset, not {type(data).__name__}; see SocialDataset.from_frames")
        parts = random_split(data, seed=_whole(self.seed)) if split is None else split
        if parts.dataset_fingerprint != data.fingerprint:
            raise UsageError(
                f"the split is of dataset {parts.dataset_fingerprint[:12]}, but this is {data.fingerprint[:12]}; "
                "make one of this dataset"
            )
        with _directory(out) as path:
            fitting = self._training(*self._method(), data, parts, keep=out is not None, progress=progress)
            run = fitting.run(path, resume=resume)
            if out is not None:
                data.save(path / DATASET)
                parts.save(path / DATASET / DIRECTORY / run.places["split"])
            self._trained = (run.embeddings, data, parts)
        return self

    def add_behavior(
        self,
        name: str,
        interactions: Any,
        *,
        out: str | Path | None = None,
        resume: bool = False,
        progress: bool = True,
    ) -> Self:
        """Add a behavior of the same users: its masks and items learn, and all earlier answers stay the same.

        ``interactions`` are as in :meth:`SocialDataset.from_frames`, with the columns ``user_id`` and ``item_id``, and
        are split as :meth:`fit` does without a split. ``out``, ``resume`` and ``progress`` are as there.
        """
        from mcne.extend.transfer import beside, transfer
        from mcne.models.settings import TrainingSettings

        embeddings, data, split = self._fitted
        schedule = {field.name: getattr(self, field.name) for field in dataclasses.fields(TrainingSettings)}
        if not isinstance(name, str) or not name:
            raise UsageError(f"the new behavior's name: {name!r}; a text is needed, such as 'Sports'")
        new = SocialDataset.from_frames(interactions, single_behavior=name, name=data.name)
        parts = random_split(new, seed=_whole(self.seed))
        with _directory(out) as path:
            added = self._training(TRANSFER, schedule, new, parts, keep=out is not None, progress=progress)
            run = transfer(embeddings, added, path, behavior=name, resume=resume)
            self._trained = (run.embeddings, *beside(data, split, *run.data()))
        return self

    def embed_users(self, *, links: Any = None, history: Any = None, attributes: Any = None) -> ConditionalEmbeddings:
        """The embeddings with additional users who were unknown in training, from whatever is known of each.

        ``links`` (``source_id, target_id``: a new user and a known one), ``history`` (``user_id, item_id, behavior``)
        and, where users start from them, ``attributes`` (``user_id, …``) are frames or files; a new user must be in one
        of them. Nothing is trained again: earlier vectors, masks and items stay byte-identical, and so does this model.
        """
        from mcne.extend import embed_users

        return embed_users(self.embeddings, links=links, history=history, attributes=attributes)

    @property
    def embeddings(self) -> ConditionalEmbeddings:
        """What was learned: save it, export it, or take its vectors."""
        return self._fitted[0]

    @property
    def _queried(self) -> ConditionalEmbeddings:
        return self.embeddings

    def evaluate(self, protocol: ProtocolName = "sampled") -> Evaluation:
        """Rank the test part: against ``sampled`` or ``popular`` items that the user has not, or in ``full``."""
        return evaluate(*self._fitted, part="test", protocol=protocol)

    def get_params(self) -> dict[str, Any]:
        """Every setting by name."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def __repr__(self) -> str:
        changed = [f"{name}={value!r}" for name, value in self.get_params().items() if value != getattr(MCNE, name)]
        trained = ""
        if self._trained is not None:
            _, data, _ = self._trained
            trained = f", trained on {data.name!r}: {data.n_users:,} users, {', '.join(data.behavior_names)}"
        return f"MCNE({', '.join(changed)}){trained}"

    @property
    def _fitted(self) -> tuple[ConditionalEmbeddings, SocialDataset, Split]:
        if self._trained is None:
            raise UsageError("this MCNE is not trained yet; call fit(data) first, or open a trained one with mcne.load")
        return self._trained

    def _method(self) -> tuple[str, dict[str, Any]]:
        if self.initial not in (known := get_args(Initial)):
            raise UsageError(f"setting initial: {unknown('value', self.initial, known)}")
        method = "mcne" if self.initial == "free" else "mcne-plus"
        others = {"seed", "device"} | ({"initial"} if method == "mcne" else set())
        settings = {name: value for name, value in self.get_params().items() if name not in others}
        training.settings_of(method, settings)  # before checkpoint_seconds, which may be wrong, is replaced
        return method, settings

    def _training(
        self, method: str, settings: dict[str, Any], data: SocialDataset, split: Split, *, keep: bool, progress: bool
    ) -> training.Training:
        from mcne.training.journal import PlainReporter, Reporter

        return training.Training(
            method,
            data,
            split,
            settings=settings if keep else settings | {"checkpoint_seconds": NEVER},
            seed=_whole(self.seed),
            device=training.choose_device(self.device),
            places={"dataset": DATASET, "split": "fitted"},
            reporter=PlainReporter(partial(print, file=sys.stderr), epochs=self.epochs) if progress else Reporter(),
            reports_memory=progress,
        )


def _whole(seed: object) -> int:
    """A seed of any integer type, such as NumPy's, as a plain number."""
    try:
        return int(operator.index(seed))  # type: ignore[arg-type]  # which is the question
    except TypeError as error:
        raise UsageError(f"seed: {seed!r} is {type(seed).__name__}; a whole number is needed") from error


@contextmanager
def _directory(out: str | Path | None) -> Iterator[Path]:
    """The run's own directory, or a temporary one that vanishes: mapped files stay readable without their names.

    Where it vanishes no checkpoint is left to go on from, so an interruption is what it would be anywhere else.
    """
    if out is not None:
        yield Path(out)
        return
    try:
        with tempfile.TemporaryDirectory(prefix="mcne-") as directory:
            yield Path(directory)
    except Interrupted as error:
        signal.raise_signal(error.exit_code - 128)
        raise
