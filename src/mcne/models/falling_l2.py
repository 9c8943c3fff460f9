"""The strength of L2 found in training, by a method whose right strength differs tenfold between datasets."""

from __future__ import annotations

import torch


class FallingL2:
    """An L2 that starts strong and falls by :attr:`FACTOR` when validation has not risen for :attr:`WAIT` evaluations.

    A strong L2 learns what is common first. The right one differs tenfold between datasets and shows only when a weaker
    one stops helping; a training that goes down from above passes it, and keeps its best epoch. It is settled when it
    has fallen :attr:`FALLS` times in vain: before, patience ends no training.
    """

    START, FACTOR, WAIT, FALLS = 0.1, 0.7, 3, 5
    WITHOUT_VALIDATION = 0.03

    def __init__(self, fixed: float | None, device: torch.device) -> None:
        self.is_fixed = fixed is not None
        self.value = torch.tensor(self.START if fixed is None else fixed, dtype=torch.float32, device=device)
        self.progress = torch.zeros(2, dtype=torch.float64)  # the best metric, evaluations without a better one

    @property
    def is_settled(self) -> bool:
        """Whether a weaker L2 is not going to help."""
        return self.is_fixed or int(self.progress[1]) >= self.WAIT * (self.FALLS + 1)

    def validated(self, metric: float | None) -> str | None:
        """After an evaluation; returns what to report."""
        if self.is_fixed:
            return None
        if metric is None:
            self.value.fill_(self.WITHOUT_VALIDATION)
            return None
        best, waited = self.progress.tolist()
        waited = 0 if metric > best else waited + 1
        self.progress.copy_(torch.tensor([max(best, metric), waited], dtype=torch.float64))
        if not waited or waited % self.WAIT or self.is_settled:
            return None
        self.value.mul_(self.FACTOR)
        return f"l2 lowered to {float(self.value):.3g}: validation has not risen for {self.WAIT} evaluations"
