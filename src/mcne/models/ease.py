"""EASE: the linear model of items by items that reproduces what users have (Steck, WWW 2019), over all behaviors.

::

    s(u, i) = (X B)_ui + popularity_weight · log(1 + n_i),    B = argmin ‖X − X B‖² + λ ‖B‖²  with diag(B) = 0

    B = I − P diag(1 / diag P),    P = (XᵀX + λI)⁻¹

X holds 1 where a user has an item in training, of whatever behavior; n_i are the users who have item i. With
``weighted_records`` X holds the weight of the record over the mean weight of the behavior's training records, w_ui / w̄,
which B then reproduces; n_i stays what it is, and λ means what it means without weights.

Two forms of the same scores are used, so that only a matrix over the fewer of users and items is inverted. Both take
the inverse times λ, whose numbers stay between −1 and 1 whatever λ is:

*primal*, items fewer: ``λP = (I + XᵀX/λ)⁻¹``, and B follows.

*dual*, users fewer: with ``K = (I + XXᵀ/λ)⁻¹`` is ``λP = I − Xᵀ K X / λ``, so ``X λP = K X`` and
``X B = X − K X diag(1 / δ)`` with ``δ_i = λP_ii = 1 − x_iᵀ K x_i / λ``. No matrix of items by items is computed.

Memory: 24 n² bytes while it is computed and 4 n² after, n = min(users, items): on Ciao 0.4 GiB and 71 MiB, on Epinions
2.4 GiB and 417 MiB (the latter twice where λ is so small that scores need double precision). Time: n³ operations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from mcne.errors import UsageError
from mcne.models.closed_form import (
    AT_ONCE,
    ClosedForm,
    Matrix,
    ProductScorer,
    columns_of,
    joint,
    log_popularity,
    records_of,
    require_memory,
)
from mcne.models.contract import TrainingData
from mcne.models.settings import Amount, Rate
from mcne.models.tables import to_device, to_numpy

LEAST_DIAGONAL = 1e-6
"""Of λP: what is smaller has lost too much of double precision."""

SINGLE_DIAGONAL = 1e-2
"""Of λP: scores that are divided by less need sums in double precision."""


@dataclass(frozen=True)
class EASEConfig:
    """Settings: λ, which the paper chooses for each dataset, and the weight of popularity, which is ours."""

    l2: Rate = 100.0
    popularity_weight: Amount = 0.01
    weighted_records: bool = False


class EASE(ClosedForm):
    """Items regressed on items: X B, plus popularity."""

    def __init__(self, data: TrainingData, config: EASEConfig, *, seed: int, device: torch.device) -> None:
        n_users, n_items = data.n_users, sum(data.n_items)
        needed = 24 * min(n_users, n_items) ** 2
        require_memory(needed, f"ease: for {n_users:,} users and {n_items:,} items, whichever are fewer", device=device)
        form = primal if n_items <= n_users else dual
        popularity = log_popularity(data, weight=config.popularity_weight)
        self._scorer = form(records_of(data, weighted=config.weighted_records), popularity, l2=config.l2, device=device)


def primal(
    records: tuple[Matrix, ...], popularity: tuple[NDArray[np.float32], ...], *, l2: float, device: torch.device
) -> ProductScorer:
    """The scores by B, [all items, all items]."""
    x = joint(records)
    weights = ridge_inverse(x.T, l2=l2, device=device)  # λP
    weights /= -_checked(np.diagonal(weights).copy(), l2)  # column by column
    np.fill_diagonal(weights, 0)
    to_score = tuple(weights[:, columns].astype(np.float32) for columns in columns_of(records))
    return ProductScorer(x, to_score, popularity)


def dual(
    records: tuple[Matrix, ...], popularity: tuple[NDArray[np.float32], ...], *, l2: float, device: torch.device
) -> ProductScorer:
    """The scores by K, [users, users]."""
    inverse = ridge_inverse(joint(records), l2=l2, device=device)  # K
    deltas = [_checked(1 - _quadratic_forms(x, inverse) / l2, l2) for x in records]  # C × [items]
    scales = [sparse.diags_array((-1 / delta).astype(np.float32)) for delta in deltas]
    scaled = tuple(sparse.csr_array(x @ scale) for x, scale in zip(records, scales, strict=True))
    if all(np.all(delta >= SINGLE_DIAGONAL) for delta in deltas):
        inverse = inverse.astype(np.float32)
    return ProductScorer(inverse, scaled, popularity, own=records)


def ridge_inverse(rows: Matrix, *, l2: float, device: torch.device) -> NDArray[np.float64]:
    """``(I + R Rᵀ / λ)⁻¹`` of sparse rows R [n, m], by Cholesky's factors on the device: [n, n]."""
    rows = sparse.csr_array(rows, dtype=np.float64)
    system = to_device((rows @ rows.T).toarray(), device)
    system /= l2
    system.diagonal().add_(1)
    factor, failed = torch.linalg.cholesky_ex(system)
    del system  # so that no more than three such matrices are in memory at any time
    _require_precision(is_enough=not failed, l2=l2)
    return to_numpy(torch.cholesky_inverse(factor).T.contiguous())  # symmetric, and column by column


def _quadratic_forms(records: Matrix, inverse: NDArray[np.float64]) -> NDArray[np.float64]:
    """``x_iᵀ K x_i`` of every item, [items], a chunk of items at a time."""
    columns = sparse.csr_array(records.T, dtype=np.float64)  # [items, users]
    forms = np.empty(columns.shape[0])
    step = max(1, AT_ONCE // max(1, columns.shape[1]))
    for start in range(0, len(forms), step):
        chunk = columns[start : start + step]
        forms[start : start + step] = chunk.multiply(chunk @ inverse).sum(axis=1)
    return forms


def _checked(diagonal: NDArray[np.float64], l2: float) -> NDArray[np.float64]:
    """diag(λP), unless rounding has spoiled it."""
    _require_precision(is_enough=bool(np.all(diagonal >= LEAST_DIAGONAL)), l2=l2)
    return diagonal


def _require_precision(*, is_enough: bool, l2: float) -> None:
    if not is_enough:
        raise UsageError(
            f"{l2:g} is too small for these records, even in double precision",
            "setting l2",
            "use a larger value",
            value=l2,
        )
