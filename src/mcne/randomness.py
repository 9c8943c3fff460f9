"""Counter-based random streams: what is drawn depends on the seed and the purpose, and on nothing else.

Every random choice in the project uses a stream of its own, named by its purpose. Streams never share
state, so adding a draw in one place changes no other, and neither the order of work nor the number of
workers can change a result. Only the raw 64-bit output of Philox is used, which NumPy keeps stable between
releases (its higher-level ``Generator`` methods may change), so a seed means the same bytes everywhere.
"""

from __future__ import annotations

import hashlib
import json
import math

import numpy as np
from numpy.typing import NDArray


class Stream:
    """The random numbers of one purpose: ``Stream(seed, "negatives", "Books")``."""

    def __init__(self, seed: int, *purpose: str | int) -> None:
        key = hashlib.blake2b(json.dumps([int(seed), *purpose]).encode(), digest_size=16).digest()
        self._philox = np.random.Philox(key=int.from_bytes(key, "little"))

    def bits(self, shape: int | tuple[int, ...]) -> NDArray[np.uint64]:
        """Independent 64-bit words."""
        words: NDArray[np.uint64] = np.asarray(self._philox.random_raw(shape), dtype=np.uint64)
        return words

    def uniform(self, shape: int | tuple[int, ...]) -> NDArray[np.float64]:
        """Numbers in [0, 1) with 53 random bits."""
        return (self.bits(shape) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def integers(self, high: int | NDArray[np.int64], shape: int | tuple[int, ...]) -> NDArray[np.int64]:
        """Whole numbers in [0, high); ``high`` may be an array that broadcasts against ``shape``.

        The bias of scaling 53 bits is below ``high`` / 2^53: under 1e-6 for any catalog of a billion items.
        """
        return (self.uniform(shape) * high).astype(np.int64)

    def permutation(self, size: int) -> NDArray[np.int64]:
        """A uniformly random order of ``range(size)``; equal keys, one chance in 2^64 per pair, keep their order."""
        return np.argsort(self.bits(size), kind="stable").astype(np.int64, copy=False)

    def normal(self, shape: int | tuple[int, ...]) -> NDArray[np.float64]:
        """Standard normal numbers, two from every two uniform ones (Box and Muller).

        Logarithm and cosine are the platform's: the last bit may differ between kinds of processors.
        """
        size = shape if isinstance(shape, int) else math.prod(shape)
        half = -(-size // 2)
        radius = np.sqrt(-2.0 * np.log1p(-self.uniform(half)))
        angle = 2.0 * np.pi * self.uniform(half)
        return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:size].reshape(shape)
