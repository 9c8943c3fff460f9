"""What the classes of all methods share: train, query, save.

Nothing here needs torch until a model is made with settings or trained.
"""

from __future__ import annotations

import operator
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from mcne import files, training
from mcne.api.fitted import JOINED, OF_EMBEDDINGS, OF_SCORES, Fitted, run_directory, save_data
from mcne.data.dataset import SocialDataset
from mcne.data.split import Split, random_split
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.queries import Queries
from mcne.embeddings.ranking import Scorer
from mcne.embeddings.scored import ScoredItems
from mcne.errors import MCNEError, MissingError, UnavailableError, UnknownArgumentError, UsageError
from mcne.evaluation.protocol import Evaluation, ProtocolName, evaluate
from mcne.models.registry import entry
from mcne.models.settings import TrainingSettings, convert, plain, to_json
from mcne.training.run import CHECKPOINTS, SPEC, TENSORBOARD, TRANSFER, Run

if TYPE_CHECKING:
    from mcne.training.journal import Reporter

DATASET = "data"
PLACES = {"dataset": DATASET, "split": "fitted"}
"""Where a run made from Python keeps its dataset and split, so that commands can evaluate it."""
MODEL = "model.json"
"""The method and settings of a model whose run has others: of a network that a behavior was added to, with the place of
all its data, or of ``mcne.MCNE`` with attributes."""
NEVER = 1e9
"""Seconds between checkpoints of a run that vanishes: none could ever be used."""
GENERAL = {"seed": 0, "device": "auto", "separate": False}
"""Settings of every model beside those of its method and of training."""


class Model(Queries):
    """A method with its settings; after :meth:`fit`, or from :func:`mcne.load`, a trained model.

    Settings are keyword arguments; ``get_params`` and ``set_params`` work as in scikit-learn, so ``clone`` does too.
    ``separate=True`` trains a model for each behavior instead of one for all. A model with vectors also has the
    attributes of its :attr:`embeddings`, such as ``user_vectors``.

    >>> import mcne
    >>> data = mcne.datasets.synthetic(users=500)
    >>> model = mcne.BPR(epochs=2, seed=1).fit(data, progress=False)
    >>> model
    BPR(seed=1, epochs=2), trained on 500 users, Books, Movies, Travel, Food
    >>> model.recommend(7, "Books", k=2).ids
    (97, 168)
    >>> model.similar_users([7, 8], "Travel", k=1).to_pandas().columns.tolist()
    ['user_id', 'rank', 'similar_user_id', 'score']
    """

    method: ClassVar[str]
    extra: ClassVar[Mapping[str, Any]] = {}  # settings that only the class has, with their defaults

    def __init__(self, **settings: Any) -> None:
        defaults = self._defaults()
        for name in settings:
            if name not in defaults:
                raise UnknownArgumentError.of(f"setting of {type(self).__name__}", name, defaults)
        self.__dict__.update(defaults | settings)
        self._fitted: Fitted | None = None

    @classmethod
    def opened(
        cls, run: Run, settings: Mapping[str, Any] | None = None, places: Mapping[str, str] | None = None
    ) -> Self:
        """The trained model of a finished run; its settings and data are those of the run if none are given."""
        model = cls.__new__(cls)
        if settings is None:
            own = {"seed": run.spec.seed, "separate": run.spec.mode == "separate", **cls.extra}
            settings = {**run.spec.config, **run.spec.schedule, **own}
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
        model.__dict__.update({**asdict(TrainingSettings()), **given, "device": "auto"})
        model._fitted = Fitted(run, settings, places=places)
        return model

    # settings

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """Every setting by name with its default."""
        own: dict[str, Any] = vars(entry(cls.method).config())
        return {**GENERAL, **asdict(TrainingSettings()), **own, **cls.extra}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every setting by name; ``deep`` exists for scikit-learn and has no effect."""
        return {name: plain(self.__dict__.get(name, default)) for name, default in self._defaults().items()}

    def set_params(self, **settings: Any) -> Self:
        """Change settings of the next :meth:`fit`.

        >>> import mcne
        >>> mcne.BPR().set_params(l2=0.1)
        BPR(l2=0.1)
        """
        type(self)(**settings)  # refuses unknown ones
        self.__dict__.update(settings)
        return self

    def __repr__(self) -> str:
        defaults = self._defaults()
        changed = [f"{name}={value!r}" for name, value in self.get_params().items() if value != defaults[name]]
        trained = ""
        if self._fitted is not None:
            try:
                answering = self._fitted.answering
                names = ", ".join(space.name for space in answering.spaces)
                trained = f", trained on {len(answering.users):,} users, {names}"
            except MCNEError:  # an object can always be shown
                trained = ", trained, but its files cannot be opened"
        return f"{type(self).__name__}({', '.join(changed)}){trained}"

    # training

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

        Without a split, a random one of 70, 10 and 20 % is made with the model's seed. With ``out`` the run is kept
        there, with its checkpoints, metrics and data, and ``resume`` continues an interrupted one. ``progress`` shows
        the progress on stderr.
        """
        check_dataset(data)
        parts = random_split(data, seed=whole(self.seed)) if split is None else split
        check_split(parts)
        if parts.dataset_fingerprint != data.fingerprint:
            raise UsageError(
                f"the split belongs to dataset {parts.dataset_fingerprint[:12]}, not to this one "
                f"({data.fingerprint[:12]})",
                "split",
                "split this dataset with mcne.split(data)",
                value=parts.dataset_fingerprint,
                allowed=[data.fingerprint],
            )
        method, settings = self._method_settings()
        kept = self._settings_to_keep()
        with run_directory(out) as path:
            fitting = self._training(method, settings, data, parts, is_kept=out is not None, progress=progress)
            run = fitting.run(path, resume=resume)
            fitting.reporter.end()
            save_data(path, data, parts, run.places)
            (path / MODEL).unlink(missing_ok=True)  # of a class that gives the same run
            if method != self.method:
                files.write_json(path / MODEL, {"method": self.method, "settings": kept})
        self._fitted = Fitted(run, kept, is_temporary=out is None)
        return self

    def add_behavior(
        self,
        name: str,
        interactions: Any,
        *,
        out: str | Path | None = None,
        resume: bool = False,
        progress: bool = True,
        skip_unknown: bool = False,
    ) -> Self:
        """Add a behavior of the same users: only its masks and items are trained; earlier answers stay the same.

        ``interactions`` are as in :func:`mcne.datasets.from_frames`, with the columns ``user_id`` and ``item_id``, and
        are split as :meth:`fit` does without a split. ``out``, ``resume`` and ``progress`` are as there. Records of
        users that the model does not know are an error, or with ``skip_unknown`` skipped and counted.

        >>> import mcne, pyarrow as pa
        >>> model = mcne.MCNE(epochs=1, widths=(8, 8), neighbor_samples=(2,))
        >>> model = model.fit(mcne.datasets.synthetic(users=500), progress=False)
        >>> games = pa.table({"user_id": [1, 1, 2, 3, 4] * 8, "item_id": list(range(40))})
        >>> model.add_behavior("Games", games, progress=False).behavior_names
        ['Books', 'Movies', 'Travel', 'Food', 'Games']
        """
        from mcne.extend.transfer import beside, transfer

        if not isinstance(name, str) or not name:
            raise UsageError(f"{name!r} is not a name", "name", "use a text such as 'Sports'", value=name)
        trained = self._trained
        known, split = trained.data
        new = SocialDataset.from_frames(interactions, single_behavior=name, name=known.name)
        parts = random_split(new, seed=whole(self.seed))
        settings = self.get_params()
        schedule = {field: settings[field] for field in asdict(TrainingSettings())}
        with run_directory(out) as path:
            added = self._training(TRANSFER, schedule, new, parts, is_kept=out is not None, progress=progress)
            run = transfer(self.embeddings, added, path, behavior=name, resume=resume, skip_unknown=skip_unknown)
            added.reporter.end()
            save_data(path, *beside(known, split, *run.data()), JOINED)
            files.write_json(path / MODEL, {"method": self.method, "settings": trained.settings, "data": JOINED})
        self._fitted = Fitted(run, trained.settings, places=JOINED, is_temporary=out is None)
        return self

    def embed_users(
        self,
        *,
        links: Any = None,
        history: Any = None,
        attributes: Any = None,
        names: Any = None,
        skip_unknown: bool = False,
    ) -> ConditionalEmbeddings:
        """The embeddings with additional users who were not in the training data, from whatever is known of each.

        ``links`` (``source_id, target_id``: a new user and a known one), ``history`` (``user_id, item_id, behavior``)
        and, where users start from them, ``attributes`` (``user_id, …``) are frames or files; a new user must be in one
        of them. Nothing is trained again: earlier vectors, masks and items stay byte-identical, and so does this model.
        ``names`` (``user_id, name``) are for people. Links to unknown people and records of unknown items or behaviors
        are an error, or with ``skip_unknown`` skipped, counted on stderr and in the ``provenance``.

        >>> import mcne, pyarrow as pa
        >>> model = mcne.MCNE(epochs=1, widths=(8, 8), neighbor_samples=(2,))
        >>> model = model.fit(mcne.datasets.synthetic(users=500), progress=False)
        >>> links = pa.table({"source_id": [501, 501], "target_id": [1, 2]})
        >>> len(model.embed_users(links=links).recommend(501, "Books", k=3))
        3
        """
        from mcne.extend import embed_users
        from mcne.extend.tables import text_of_skipped

        embeddings = embed_users(
            self.embeddings, links=links, history=history, attributes=attributes, names=names, skip_unknown=skip_unknown
        )
        if skipped := embeddings.provenance["new_users"].get("skipped"):
            print(text_of_skipped(skipped), file=sys.stderr)
        return embeddings

    # what was trained

    @property
    def embeddings(self) -> ConditionalEmbeddings:
        """The learned embeddings: save them, export them, or use their vectors."""
        return self._queried._embeddings()

    @property
    def _queried(self) -> ConditionalEmbeddings | ScoredItems:
        return self._trained.answering

    @property
    def fingerprint(self) -> str:
        """The identity of what was learned."""
        return self._trained.run.fingerprint

    def data(self) -> tuple[SocialDataset, Split]:
        """The dataset and split that it was trained with."""
        return self._trained.data

    def scorer(self) -> Scorer:
        """What scores items for users of the data, by rows."""
        return self._trained.scorer

    def evaluate(self, protocol: ProtocolName = "sampled") -> Evaluation:
        """Rank the test part: against ``sampled`` or ``popular`` items that the user does not have, or in ``full``."""
        data, split = self._trained.data
        return evaluate(self._trained.scorer, data, split, part="test", protocol=protocol)

    def save(self, path: str | Path) -> str:
        """Save the trained model with its data in a new directory, for :func:`mcne.load` and the command line.

        Returns the fingerprint of what was learned.

        >>> import mcne, tempfile
        >>> model = mcne.Popularity().fit(mcne.datasets.synthetic(users=500), progress=False)
        >>> with tempfile.TemporaryDirectory() as place:
        ...     fingerprint = model.save(f"{place}/model")
        ...     mcne.load(f"{place}/model").recommend(7, "Books", k=3).ids
        (37, 134, 22)
        """
        trained = self._trained
        path = files.place(Path(path))
        if files.is_taken(path):
            raise files.existing(path, "choose another path")
        left_out = shutil.ignore_patterns(CHECKPOINTS, TENSORBOARD, ".*")
        own = trained.run.places == PLACES or trained.run.spec.method == TRANSFER
        data = None if own else self._data_to_save()
        with files.written_aside(path) as aside:
            shutil.copytree(trained.run.path, aside, ignore=left_out, dirs_exist_ok=True)
            if data is not None:
                save_data(aside, *data, PLACES)
                content = files.read_json(aside / SPEC, step="train again")
                files.write_json(aside / SPEC, content | {"places": PLACES}, sort_keys=True)
        return trained.run.fingerprint

    def __getattr__(self, name: str) -> Any:
        """An attribute of the embeddings, if there are any."""
        own = getattr(type(self), name, None)
        if isinstance(own, property) and own.fget is not None:
            return own.fget(self)  # it raised UnavailableError, and says so again
        if name in OF_EMBEDDINGS or name in OF_SCORES:
            answering = self._queried
            return getattr(answering if hasattr(answering, name) else answering._embeddings(), name)
        if name[0] != "_" and name in (defaults := self._defaults()):  # a setting that a run does not hold
            return defaults[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        answered = frozenset[str]() if self._fitted is None else self._fitted.attributes
        return sorted({*super().__dir__(), *answered})

    @property
    def _trained(self) -> Fitted:
        if self._fitted is None:
            raise UnavailableError(
                f"this {type(self).__name__} is not trained yet",
                remedy="call fit(data) first, or open a trained model with mcne.load",
            )
        return self._fitted

    def _method_settings(self) -> tuple[str, dict[str, Any]]:
        """The method to train, and its settings, checked."""
        settings = {name: value for name, value in self.get_params().items() if name not in GENERAL}
        training.settings_of(self.method, settings)  # before checkpoint_seconds, which may be wrong, is replaced
        return self.method, settings

    def _data_to_save(self) -> tuple[SocialDataset, Split]:
        """The dataset and split, which a run of the commands has elsewhere."""
        try:
            return self._trained.data
        except MissingError as error:
            if not self._trained.run.has_vectors:
                raise
            remedy = f"{error.remedy}, or save the vectors alone with model.embeddings.save(path)"
            raise MissingError(error.problem, error.place, remedy, value=error.value) from error

    def _settings_to_keep(self) -> dict[str, Any]:
        """All settings as plain data, but for the device."""
        config, schedule = training.settings_of(*self._method_settings())
        own = {"seed": whole(self.seed), "separate": self._mode == "separate"}
        return {**to_json(config), **to_json(schedule), **own, **{name: getattr(self, name) for name in self.extra}}

    @property
    def _mode(self) -> training.Mode:
        return "separate" if convert("setting separate", plain(self.separate), bool) else "joint"

    def _training(
        self,
        method: str,
        settings: Mapping[str, Any],
        data: SocialDataset,
        split: Split,
        *,
        is_kept: bool,
        progress: bool,
    ) -> training.Training:
        return training.Training(
            method,
            data,
            split,
            settings=settings if is_kept else {**settings, "checkpoint_seconds": NEVER},
            seed=whole(self.seed),
            device=training.choose_device(self.device),
            places=PLACES,
            mode=self._mode,
            reporter=self._reporter(method, progress=progress),
            reports_memory=progress,
        )

    def _reporter(self, method: str, *, progress: bool) -> Reporter:
        from mcne.training.journal import NotebookReporter, PlainReporter, Reporter, is_notebook

        if not progress:
            return Reporter()
        if is_notebook():
            return NotebookReporter(method, epochs=self.epochs)
        return PlainReporter(partial(print, file=sys.stderr), epochs=self.epochs)


def check_dataset(data: object) -> None:
    """Refuse what is no dataset."""
    _check_kind(
        data, SocialDataset, "data", "make one with mcne.datasets.from_frames, or open one with mcne.datasets.load"
    )


def check_split(split: object) -> None:
    """Refuse what is no split."""
    _check_kind(split, Split, "split", "make one with mcne.split(data)")


def _check_kind(value: object, wanted: type, place: str, remedy: str) -> None:
    if not isinstance(value, wanted):
        kind = type(value).__name__
        raise UsageError(f"expected a {wanted.__name__}, got {kind}", place, remedy, value=kind)


def whole(number: object, *, place: str = "seed") -> int:
    """A number of any integer type, such as NumPy's, as a plain number."""
    try:
        return int(operator.index(number))  # type: ignore[arg-type]  # which is the question
    except TypeError as error:
        raise UsageError(
            f"{number!r} is not a whole number", place, "use a whole number, such as 1", value=number
        ) from error
