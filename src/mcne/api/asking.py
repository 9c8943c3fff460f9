"""``mcne.split`` and ``mcne.evaluate``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from mcne.api.model import Model, check_dataset
from mcne.data.dataset import SocialDataset
from mcne.data.split import DEFAULT_RATIOS, Split, last_split, random_split, temporal_split
from mcne.embeddings.scorer import Scorer
from mcne.errors import UnknownError, UsageError
from mcne.evaluation import protocol as protocols
from mcne.evaluation.protocol import Evaluation, Part, ProtocolName

KINDS = ("random", "temporal", "last")


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
                "a split by each user's last record has no ratios",
                place="ratios",
                value=ratios,
                remedy="leave them out",
            )
        return last_split(data, seed=seed)
    make = temporal_split if kind == "temporal" else random_split
    return make(data, seed=seed, ratios=DEFAULT_RATIOS if ratios is None else ratios)


def evaluate(
    model: Model | Scorer,
    data: SocialDataset | None = None,
    split: Split | None = None,
    *,
    protocol: ProtocolName = "sampled",
    part: Part = "test",
) -> Evaluation:
    """How well a model ranks the test part of the split that it was trained with, or of another one.

    Anything with ``scores(behavior, users, items)``, as in :class:`~mcne.embeddings.scorer.Scorer`, can be evaluated on
    a dataset and a split.

    >>> import mcne
    >>> model = mcne.Popularity().fit(mcne.datasets.synthetic(users=500), progress=False)
    >>> round(mcne.evaluate(model, protocol="full").overall("recall@20"), 3)
    0.15
    """
    if isinstance(model, Model):
        known, parts = model.data()
        if (data is None or data.fingerprint == known.fingerprint) and split is None:
            return protocols.evaluate(model.scorer(), known, parts, part=part, protocol=protocol)
        scorer = model.scorer()
        data = known if data is None else data
    else:
        scorer = model
    if data is None or split is None:
        raise UsageError("data and split are missing", place="evaluate", remedy="make a split with mcne.split(data)")
    return protocols.evaluate(scorer, data, split, part=part, protocol=protocol)
