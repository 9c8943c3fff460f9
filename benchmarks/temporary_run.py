"""A training whose run vanishes when it has been looked at."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcne.data.dataset import SocialDataset
    from mcne.data.split import Split
    from mcne.training import Run
    from mcne.training.journal import Reporter


@contextmanager
def temporary_run(
    method: str,
    dataset: SocialDataset,
    split: Split,
    *,
    settings: Mapping[str, Any],
    seed: int = 0,
    device: str = "auto",
    reporter: Reporter | None = None,
) -> Iterator[Run]:
    """The finished run of a method. It imports what trains only now, after a caller may have hidden a compiler."""
    from mcne.training import Training, choose_device
    from mcne.training.journal import Reporter

    with tempfile.TemporaryDirectory() as directory:
        training = Training(
            method,
            dataset,
            split,
            settings=settings,
            seed=seed,
            device=choose_device(device),
            reporter=reporter or Reporter(),
        )
        yield training.run(Path(directory) / "run")
