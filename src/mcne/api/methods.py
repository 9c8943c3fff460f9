"""A class for every method, made from its entry in the registry: ``mcne.BPR``, ``mcne.EASE``, …; and the functions of
``mcne`` about one model.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from mcne import training
from mcne.api.deprecated import DataclassFields
from mcne.api.model import GENERAL, MODEL, Model, check_dataset, check_split, whole
from mcne.data.dataset import SocialDataset
from mcne.data.split import DEFAULT_RATIOS, Split, last_split, random_split, temporal_split
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.queries import place_of
from mcne.embeddings.ranking import Scorer
from mcne.embeddings.scored import ScoredItems
from mcne.errors import ArtifactError, UnknownError, UsageError
from mcne.evaluation import protocol as protocols
from mcne.evaluation.protocol import Evaluation, Part, ProtocolName
from mcne.files import read_json
from mcne.models.registry import Entry, entry
from mcne.models.settings import TrainingSettings
from mcne.studies.plans import located
from mcne.training.run import SPEC, TRANSFER, OneOfEach, Run, open_embeddings

Initial = Literal["free", "attributes", "both"]
KINDS = ("random", "temporal", "last")


class _MCNE(Model):
    """What only ``mcne.MCNE`` can do: start users from attributes, which is the method mcne-attributes."""

    extra: ClassVar[Mapping[str, Any]] = {"initial": "free"}
    __dataclass_fields__ = DataclassFields(lambda kind: kind._defaults())

    def _method_settings(self) -> tuple[str, dict[str, Any]]:
        settings = {name: value for name, value in self.get_params().items() if name not in GENERAL}
        if self.initial not in get_args(Initial):
            raise UnknownError.of("value", self.initial, get_args(Initial), place="setting initial")
        method = "mcne-attributes"
        if self.initial == "free":
            method = "mcne"
            settings.pop("initial")
        training.settings_of(method, settings)
        return method, settings


class Extended(Model):
    """A trained network with an added behavior: it can be queried and extended, but not trained from data."""

    method = TRANSFER

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        return {**GENERAL, **asdict(TrainingSettings())}

    def _method_settings(self) -> tuple[str, dict[str, Any]]:
        raise UsageError(
            "a network that a behavior was added to cannot be trained from data",
            remedy="train mcne.MCNE on all behaviors, or train it on the first ones and call add_behavior",
        )


@cache
def model_class(method: str) -> type[Model]:
    """The class of a method."""
    known = entry(method)
    base = _MCNE if method == "mcne" else Model
    return type(known.class_name, (base,), {"method": method, "__module__": "mcne", "__doc__": known.summary})


def documented(kind: type[Model]) -> type[Model]:
    """The class with the settings of its method in its docstring, signature and attributes; this imports torch."""
    defaults = kind._defaults()
    kind.__doc__ = documentation(entry(kind.method), defaults)
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default) for name, default in defaults.items()
    ]
    for name, default in defaults.items():
        setattr(kind, name, default)
    kind.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # read by inspect
    return kind


def documentation(known: Entry, defaults: Mapping[str, Any]) -> str:
    """The docstring of a method's class: what it is, where it is from, its settings."""
    own = {name: value for name, value in defaults.items() if name not in GENERAL}
    settings = [f"    {name}={value!r}" for name, value in own.items()]
    lines = [known.summary, "", inspect.cleandoc(known.config.__doc__ or ""), "", "Settings and their defaults::", ""]
    origin = [f"Origin: {known.origin}.", ""] if known.origin else []
    return "\n".join([*lines[:2], *origin, *lines[2:], *settings, ""])


def fit(
    method: str,
    data: SocialDataset,
    split: Split | None = None,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
    **settings: Any,
) -> Model:
    """Train a method by its name: ``mcne.fit("bpr", data, l2=0.05)`` is ``mcne.BPR(l2=0.05).fit(data)``.

    >>> import mcne
    >>> mcne.fit("ease", mcne.datasets.synthetic(users=500), l2=50.0, progress=False)
    EASE(l2=50.0), trained on 500 users, Books, Movies, Travel, Food
    """
    return model_class(method)(**settings).fit(data, split, out=out, resume=resume, progress=progress)


def load(path: str | Path) -> Model | ConditionalEmbeddings:
    """A trained model from a run or from :meth:`Model.save`, or the embeddings that ``embeddings.save`` wrote.

    Everything is verified, and memory-mapped where it can be.
    """
    path = Path(path)
    if (path / SPEC).is_file():
        run = Run.open(path)
        if (path / MODEL).is_file():
            kept = read_json(path / MODEL, step="save the model again")
            try:
                kind = Extended if kept["method"] == TRANSFER else model_class(kept["method"])
                return kind.opened(run, kept["settings"], kept.get("data"))
            except (KeyError, TypeError, AttributeError) as error:
                remedy = "save the model again"
                raise ArtifactError(f"is damaged ({error!r})", path / MODEL, remedy) from error
        kind = Extended if run.spec.method == TRANSFER else model_class(run.spec.method)
        return kind.opened(run)
    return open_embeddings(path)


def load_embeddings(path: str | Path) -> ConditionalEmbeddings:
    """The vectors of a run or of saved embeddings."""
    path = Path(path)
    return Run.open(path).embeddings if (path / SPEC).is_file() else open_embeddings(path)


def split(
    data: SocialDataset,
    kind: Literal["random", "temporal", "last"] = "random",
    *,
    seed: int = 0,
    ratios: Sequence[float] | None = None,
) -> Split:
    """Training, validation and test parts of a dataset, with the items that test items are ranked against.

    ``"random"`` and ``"temporal"`` cut every behavior by ``ratios``, 70, 10 and 20 if not given; ``"last"`` tests each
    user's last record of a behavior.

    >>> import mcne
    >>> parts = mcne.split(mcne.datasets.synthetic(users=500), seed=1)
    >>> [int((parts.parts[0] == part).sum()) for part in range(3)]
    [1286, 184, 367]
    """
    check_dataset(data)
    if kind not in KINDS:
        raise UnknownError.of("kind of split", kind, KINDS)
    if kind == "last":
        if ratios is not None:
            raise UsageError(
                "a split by each user's last record has no ratios", "ratios", "leave them out", value=ratios
            )
        return last_split(data, seed=whole(seed))
    make = temporal_split if kind == "temporal" else random_split
    return make(data, seed=whole(seed), ratios=DEFAULT_RATIOS if ratios is None else _numbers(ratios))


def _numbers(ratios: Sequence[float]) -> tuple[float, ...]:
    numbers = tuple(ratios) if isinstance(ratios, Iterable) else (ratios,)
    if not all(isinstance(each, Real) for each in numbers):
        raise UsageError(f"{ratios!r} are not three numbers", "ratios", "use ratios such as (70, 10, 20)", value=ratios)
    return numbers


def evaluate(
    model: Model | Scorer,
    data: SocialDataset | None = None,
    split: Split | None = None,
    *,
    protocol: ProtocolName = "sampled",
    part: Part = "test",
) -> Evaluation:
    """How well a model ranks the test part of the split that it was trained with, or of another one.

    Anything with ``scores(behavior, users, items)``, as in :class:`~mcne.embeddings.ranking.Scorer`, can be evaluated
    on a dataset and a split. Models and embeddings find behaviors by their names, so a dataset may have fewer of them
    or another order; its users and items must be those that they know.

    >>> import mcne
    >>> model = mcne.Popularity().fit(mcne.datasets.synthetic(users=500), progress=False)
    >>> round(mcne.evaluate(model, protocol="full").overall("recall@20"), 3)
    0.15
    """
    if data is not None:
        check_dataset(data)
    if split is not None:
        check_split(split)
    if isinstance(model, Model) and (data is None or split is None):
        known, parts = model.data()
        data = known if data is None else data
        split = parts if split is None and data.fingerprint == known.fingerprint else split
    if data is None or split is None:
        raise UsageError("data and split are missing", "evaluate", "make a split with mcne.split(data)")
    scorer = _scorer_for(data, model) if isinstance(model, Model | ConditionalEmbeddings) else model
    return protocols.evaluate(scorer, data, split, part=part, protocol=protocol)


def _scorer_for(data: SocialDataset, model: Model | ConditionalEmbeddings) -> Scorer:
    """What a model scores a dataset with: behaviors are found by name, and users and items must be those it knows."""
    answering = model._queried
    with located("data"):
        if data.users != answering.users:
            raise UsageError(
                f"its users ({data.users!r}) are not those of the model ({answering.users!r})",
                remedy="evaluate on a dataset of the same users, or train on this one",
            )
        places = [place_of(answering, name) for name in data.behavior_names]
        for place, behavior in zip(places, data.behaviors, strict=True):
            known = answering.spaces[place].items
            if behavior.items != known:
                raise UsageError(
                    f"the items of {behavior.name} ({behavior.items!r}) are not those of the model ({known!r})",
                    value=behavior.name,
                    remedy="evaluate on a dataset with the same items, or train on this one",
                )
    scorer = answering.scorer if isinstance(answering, ScoredItems) else answering
    return OneOfEach(tuple((scorer, place) for place in places))
