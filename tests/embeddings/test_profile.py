"""Attributes become features by hand-computed values, and come back from the disk as they were."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mcne.data.behavior import Attribute
from mcne.data.ids import Ids
from mcne.embeddings.profile import Column, Encoding, Profile

ATTRIBUTES = {
    "age": Attribute(np.array([10.0, np.nan, 30.0, 20.0])),
    "city": Attribute(np.array([1, 0, -1, 1], dtype=np.int32), Ids(["a", "b"])),
}
WEIGHTS = np.array([[1, 0], [0, 1], [10, 0], [0, 10], [5, 5]], dtype=np.float32)
"""Age, no age, city a, city b, no city."""
SPREAD = np.sqrt(200 / 3)


def test_numbers_are_standardized_and_unknowns_are_features() -> None:
    index, amount = Encoding.of(ATTRIBUTES).encode(ATTRIBUTES, 4)
    assert index.tolist() == [[0, 1, 3], [0, 1, 2], [0, 1, 4], [0, 1, 3]]
    expected = [[-10 / SPREAD, 0, 1], [0, 1, 1], [10 / SPREAD, 0, 1], [0, 0, 1]]
    np.testing.assert_allclose(amount, expected, rtol=1e-6)
    assert Encoding.of(ATTRIBUTES).unknown.tolist() == [1, 4]


def test_vectors_add_up() -> None:
    profile = Profile.of(Encoding.of(ATTRIBUTES), WEIGHTS, ATTRIBUTES)
    vectors = profile.vectors(ATTRIBUTES, 4)
    np.testing.assert_allclose(vectors, [[-10 / SPREAD, 10], [10, 1], [10 / SPREAD + 5, 5], [0, 10]], rtol=1e-6)
    np.testing.assert_allclose(profile.center, vectors.mean(axis=0), rtol=1e-6)


@pytest.mark.parametrize("values", [[5.0, 5.0], [np.nan, np.nan], [np.nan, 5.0]])
def test_numbers_without_spread(values: list[float]) -> None:
    column = Column.of("age", Attribute(np.array(values)))
    _, amount = column.encode(np.array(values))
    assert column.spread == 1
    assert amount.tolist() == [[0, float(np.isnan(value))] for value in values]


def test_no_attributes_are_no_features() -> None:
    profile = Profile.of(Encoding.of({}), np.zeros((0, 3), np.float32), {})
    assert profile.vectors({}, 2).tolist() == [[0, 0, 0]] * 2
    assert profile.center.tolist() == [0, 0, 0]


def test_arrays_bring_it_back() -> None:
    profile = Profile.of(Encoding.of(ATTRIBUTES), WEIGHTS, ATTRIBUTES)
    again = Profile.from_arrays(profile.arrays(), json.loads(json.dumps(profile.meta())))
    assert again.vectors(ATTRIBUTES, 4).tobytes() == profile.vectors(ATTRIBUTES, 4).tobytes()
    assert again.center.tobytes() == profile.center.tobytes()
    assert [column.name for column in again.encoding.columns] == ["age", "city"]


def test_weights_must_fit() -> None:
    with pytest.raises(ValueError, match="vectors of attributes"):
        Profile(Encoding.of(ATTRIBUTES), WEIGHTS[:4], np.zeros(2, np.float32))
