"""What evaluation asks of a trained method, whatever it is inside."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Scorer(Protocol):
    """Scores items of one behavior for users; the higher, the sooner recommended.

    The same pair gets the same score wherever it stands in ``items``: a score computed differently by position
    would break ties by position.
    """

    def scores(self, behavior: int, users: NDArray[Any], items: NDArray[Any] | None = None) -> NDArray[np.float32]:
        """Scores [n, m] of ``items`` [n, m] for ``users`` [n], or [n, n_items] of the whole catalog.

        Users are rows of the dataset, items rows of the behavior's catalog; ``items`` holds valid rows only (a caller
        with lists of several lengths fills them up and ignores those scores). The caller never writes to the result.
        """
        ...
