"""What the tests of transfer share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.small_training import small_network

from mcne.data.dataset import SocialDataset
from mcne.data.split import Split, random_split
from mcne.embeddings import ConditionalEmbeddings

Whole = tuple[SocialDataset, Split]
RandomBase = Callable[..., ConditionalEmbeddings]

NEW = "Travel"
TINY: dict[str, Any] = {
    "widths": [8, 6, 5],
    "neighbor_samples": [3, 2],
    "attention_width": 3,
    "batch_size": 256,
    "learning_rate": 0.05,
    "epochs": 2,
}


def three_behaviors() -> Whole:
    """A small network, :data:`NEW` among its behaviors, and its split."""
    dataset = small_network(behaviors=3, seed=3)
    return dataset, random_split(dataset, seed=0)


def files_of(path: Path) -> dict[str, bytes]:
    """Every array of a saved embedding, byte for byte."""
    return {file.name: file.read_bytes() for file in sorted(path.glob("*.npy"))}
