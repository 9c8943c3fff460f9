"""Streams: fixed for ever, apart from each other, and as uniform as they claim."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from mcne.randomness import Stream


def test_the_same_purpose_gives_the_same_numbers_whatever_was_drawn_elsewhere() -> None:
    first = Stream(3, "negatives", "Books")
    Stream(3, "negatives", "Travel").bits(1000)
    second = Stream(3, "negatives", "Books")
    assert np.array_equal(first.bits(100), second.bits(100))
    assert not np.array_equal(first.bits(100), Stream(3, "negatives", "Books").bits(100))  # it moves on


def test_drawing_in_pieces_gives_the_same_numbers() -> None:
    whole = Stream(0, "x").bits(10)
    pieces = Stream(0, "x")
    assert np.array_equal(whole, np.concatenate([pieces.bits(3), pieces.bits((2, 3)).ravel(), pieces.bits(1)]))


@pytest.mark.parametrize(
    "other",
    [(1, "split", "a"), (0, "split", "b"), (0, "split"), (0, "split", "a", 0), (0, "splita"), (-1, "split", "a")],
)
def test_another_seed_or_purpose_gives_unrelated_numbers(other: tuple[int, str]) -> None:
    ours, theirs = Stream(0, "split", "a").uniform(20_000), Stream(*other).uniform(20_000)
    assert len(np.intersect1d(ours, theirs)) == 0
    assert abs(np.corrcoef(ours, theirs)[0, 1]) < 4 / np.sqrt(20_000)  # 4 standard deviations


def test_a_number_and_its_text_are_different_purposes() -> None:
    assert Stream(0, 1).bits(1) != Stream(0, "1").bits(1)
    assert Stream(0, "a", "b").bits(1) != Stream(0, "ab").bits(1)
    assert Stream(0, 'a", "b').bits(1) != Stream(0, "a", "b").bits(1)


def test_pinned_values() -> None:
    """If these change, so does every split, negative and synthetic network ever made."""
    words = ["0x235cfec91e6c3653", "0x8931c3531bcccded", "0xd3153048642b9ba6"]
    assert [hex(word) for word in Stream(0, "split", "Books").bits(3)] == words
    assert Stream(7, "negatives", "test", 2).uniform(2).tolist() == [0.4344586569414517, 0.1148906781179393]
    assert Stream(1, "x").integers(1000, 5).tolist() == [339, 896, 190, 729, 550]
    assert Stream(1, "x").permutation(6).tolist() == [5, 2, 0, 4, 3, 1]


def philox(key: int, n_blocks: int) -> list[int]:
    """Philox 4×64 with 10 rounds (Salmon et al., SC 2011), the counter from 1 on, in plain integers."""
    mask = 2**64 - 1
    words = []
    for counter in range(1, n_blocks + 1):
        x0, x1, x2, x3 = counter, 0, 0, 0
        k0, k1 = key & mask, key >> 64
        for _ in range(10):
            first, second = 0xD2E7470EE14C6C93 * x0, 0xCA5A826395121157 * x2
            x0, x1, x2, x3 = (second >> 64) ^ x1 ^ k0, second & mask, (first >> 64) ^ x3 ^ k1, first & mask
            k0, k1 = (k0 + 0x9E3779B97F4A7C15) & mask, (k1 + 0xBB67AE8584CAA73B) & mask
        words += [x0, x1, x2, x3]
    return words


def test_the_words_are_philox_of_the_hashed_purpose() -> None:
    key = hashlib.blake2b(b'[5, "negatives", "Caf\\u00e9", 3]', digest_size=16).digest()
    expected = philox(int.from_bytes(key, "little"), 3)
    assert Stream(5, "negatives", "Café", 3).bits((3, 4)).ravel().tolist() == expected


def chi_square(counts: np.ndarray, expected: np.ndarray | float) -> float:
    """The chance of counts this far from the expected ones."""
    expected = np.broadcast_to(expected, counts.shape)
    return float(stats.chi2.sf(((counts - expected) ** 2 / expected).sum(), counts.size - 1))


def test_uniform_numbers_are_uniform() -> None:
    drawn = Stream(5, "uniform").uniform((400, 500))
    assert drawn.shape == (400, 500)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert chi_square(np.histogram(drawn, bins=100, range=(0, 1))[0], 2000) > 1e-4
    pairs = np.histogram2d(drawn[:, ::2].ravel(), drawn[:, 1::2].ravel(), bins=10, range=((0, 1), (0, 1)))[0]
    assert chi_square(pairs, 1000) > 1e-4


def test_uniform_keeps_53_bits_and_never_reaches_one() -> None:
    class Extreme(Stream):
        word = 2**64 - 1

        def bits(self, shape: int | tuple[int, ...]) -> np.ndarray:
            return np.full(shape, self.word, dtype=np.uint64)

    extreme = Extreme(0, "x")
    assert extreme.uniform(1).tolist() == [1 - 2.0**-53]
    for high in (1, 2, 3, 5, 100, 2**31 + 1, 2**40 + 1, 2**53 - 1):
        assert extreme.integers(high, 1).tolist() == [high - 1]
    extreme.word = 2**11
    assert extreme.uniform(1).tolist() == [2.0**-53]
    extreme.word = 2**11 - 1
    assert extreme.uniform(1).tolist() == [0.0]


def test_integers_are_unbiased() -> None:
    drawn = Stream(2, "integers").integers(7, 70_000)
    assert drawn.dtype == np.int64
    assert chi_square(np.bincount(drawn, minlength=7), 10_000) > 1e-4
    assert drawn.max() == 6


def test_integers_broadcast_a_limit_for_each() -> None:
    high = np.array([1, 2, 3, 10])
    drawn = Stream(2, "integers").integers(high, (20_000, 4))
    assert drawn.shape == (20_000, 4)
    for column, limit in zip(drawn.T, high, strict=True):
        counts = np.bincount(column, minlength=int(limit))
        assert len(counts) == limit
        assert limit == 1 or chi_square(counts, 20_000 / limit) > 1e-4
    assert Stream(0, "x").integers(high[:0], 0).tolist() == []


def test_normal_numbers_are_normal() -> None:
    drawn = Stream(4, "normal").normal((101, 201))  # an odd number of them
    assert drawn.shape == (101, 201)
    assert stats.kstest(drawn.ravel(), "norm").pvalue > 1e-3
    halves = drawn.ravel()[:10_150], drawn.ravel()[-10_150:]  # the two numbers of one pair stand in the two halves
    assert abs(np.corrcoef(*halves)[0, 1]) < 4 / np.sqrt(10_150)
    assert abs(np.corrcoef(halves[0] ** 2, halves[1] ** 2)[0, 1]) < 4 / np.sqrt(10_150)


def test_normal_numbers_are_those_of_box_and_muller() -> None:
    stream = Stream(4, "normal")
    first, second = stream.uniform(2).tolist(), stream.uniform(2).tolist()
    radius = [math.sqrt(-2 * math.log(1 - u)) for u in first]
    expected = [r * math.cos(2 * math.pi * u) for r, u in zip(radius, second, strict=True)]
    expected += [r * math.sin(2 * math.pi * u) for r, u in zip(radius, second, strict=True)]
    assert Stream(4, "normal").normal(4).tolist() == pytest.approx(expected, rel=1e-12)
    assert Stream(4, "normal").normal(3).tolist() == pytest.approx(expected[:3], rel=1e-12)
    assert Stream(4, "normal").normal((0, 3)).shape == (0, 3)


def test_nothing_drawn_is_an_empty_array() -> None:
    stream = Stream(0, "x")
    assert stream.bits(0).shape == (0,)
    assert stream.uniform((3, 0)).shape == (3, 0)
    assert stream.permutation(0).tolist() == []
    assert stream.permutation(1).tolist() == [0]


@pytest.mark.parametrize("size", [3, 4])
def test_every_permutation_is_equally_likely(size: int) -> None:
    stream = Stream(11, "permutations", size)
    times = 12_000
    seen = Counter(tuple(stream.permutation(size).tolist()) for _ in range(times))
    orders = list(itertools.permutations(range(size)))
    assert set(seen) == set(orders)
    assert chi_square(np.array([seen[order] for order in orders]), times / len(orders)) > 1e-4


def test_a_permutation_has_every_number_once() -> None:
    order = Stream(0, "x").permutation(10_000)
    assert order.dtype == np.int64
    assert np.array_equal(np.sort(order), np.arange(10_000))
    assert np.count_nonzero(order == np.arange(10_000)) < 10  # about 1 number stays in its place
