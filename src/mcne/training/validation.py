"""How good a model is while it is trained: the metric that decides, on the validation part alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mcne.data.dataset import SocialDataset
from mcne.data.split import Split
from mcne.embeddings.scorer import Scorer
from mcne.errors import DivergedError
from mcne.evaluation.protocol import DECIDING_METRIC, evaluate

if TYPE_CHECKING:
    from mcne.models.contract import Method
    from mcne.training.loop import Evaluated

CALMER = "the training diverged: train again elsewhere with a lower learning_rate or a higher l2"


def validate(model: Method, dataset: SocialDataset, split: Split) -> Evaluated:
    """The metric that decides, on the validation part alone."""
    from mcne.training.loop import Evaluated

    scorer = _Finite(model.scorer(), dataset.behavior_names)
    found = evaluate(scorer, dataset, split, part="validation", protocol="sampled")
    return Evaluated(found.overall(DECIDING_METRIC), found.summary())


@dataclass(frozen=True)
class _Finite:
    """A scorer whose answers must be finite: a training may leave its range in a last step that no loss sees."""

    scorer: Scorer
    names: list[str]

    def scores(self, behavior: int, users: NDArray[Any], items: NDArray[Any] | None = None) -> NDArray[np.float32]:
        scores = self.scorer.scores(behavior, users, items)
        if not np.all(np.isfinite(scores)):
            raise DivergedError(f"the scores of {self.names[behavior]} are not finite; {CALMER}")
        return scores
