"""What the methods in closed form share: chunks change nothing, of equal neighbors the lower row is nearer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse
from tests.errors import refused
from tests.models.small_records import training_data

from mcne.errors import UsageError
from mcne.models import closed_form
from mcne.models.closed_form import NEIGHBOR_BYTES, ProductScorer, cosine_neighbors, inverse_frequency, require_memory
from mcne.models.ease import EASE, EASEConfig
from mcne.models.knn import ItemKNN, ItemKNNConfig, UserKNN, UserKNNConfig

CPU = torch.device("cpu")
DATA = training_data(40, (9, 30))


def scorers() -> list[ProductScorer]:
    """Sparse by sparse, dense by sparse with an own part, sparse by dense."""
    wide, high = DATA, training_data(60, (9, 30))
    methods: list[UserKNN | ItemKNN | EASE] = [UserKNN(wide, UserKNNConfig(neighbors=4), seed=0, device=CPU)]
    methods += [ItemKNN(wide, ItemKNNConfig(neighbors=4), seed=0, device=CPU)]
    methods += [EASE(data, EASEConfig(), seed=0, device=CPU) for data in (training_data(20, (9, 30)), high)]
    return [method.scorer() for method in methods]


def test_a_pair_has_one_score_to_the_last_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever else is asked about, in lists or the whole catalog, in chunks of any size."""
    for scorer in scorers():
        users = np.array([3, 0, 19, 3, 7])
        whole = scorer.scores(1, users)
        items = np.random.default_rng(0).integers(0, 30, (5, 50))
        for at_once in (closed_form.AT_ONCE, 1, 70):
            monkeypatch.setattr(closed_form, "AT_ONCE", at_once)
            assert scorer.scores(1, users).tobytes() == whole.tobytes()
            assert np.array_equal(scorer.scores(1, users, items), np.take_along_axis(whole, items, axis=1))
            assert scorer.scores(1, users[2:3]).tobytes() == whole[2:3].tobytes()
        monkeypatch.undo()
        assert scorer.scores(1, users[:0]).shape == (0, 30)


def test_neighbors_are_the_same_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = sparse.random_array((50, 30), density=0.2, rng=np.random.default_rng(0), format="csr")
    for neighbors in (None, 6):
        whole = cosine_neighbors(vectors, neighbors=neighbors)
        assert np.diff(whole.indptr).max() == (6 if neighbors else 44)
        for at_once in (1, 300):
            monkeypatch.setattr(closed_form, "AT_ONCE", at_once)
            assert len(list(closed_form._chunks(np.full(50, 60)))) == 50 // (at_once // 60 or 1)
            assert (cosine_neighbors(vectors, neighbors=neighbors) != whole).nnz == 0
        monkeypatch.undo()


def test_of_equal_neighbors_the_lower_row_is_nearer() -> None:
    vectors = sparse.csr_array(np.array([[1.0, 1, 0], [2, 0, 0], [0, 3, 0], [0, 0, 0], [5, 0, 0], [0.1, 0.1, 0]]))
    near = cosine_neighbors(vectors, neighbors=2).toarray()
    half = np.sqrt(0.5)
    np.testing.assert_allclose(near[0], [0, half, 0, 0, 0, 1], rtol=1e-6)  # not rows 2 and 4, as far as row 1
    np.testing.assert_allclose(near[1], [half, 0, 0, 0, 1, 0], rtol=1e-6)
    np.testing.assert_allclose(near[5], [1, half, 0, 0, 0, 0], rtol=1e-6)
    assert not near[3].any()
    assert cosine_neighbors(sparse.csr_array((0, 4)), neighbors=2).shape == (0, 0)


def test_inverse_frequency() -> None:
    np.testing.assert_allclose(inverse_frequency(np.array([1, 3, 7]), 7), [1, np.log(10 / 3) / np.log(8), 1 / 3])
    assert np.isfinite(inverse_frequency(np.zeros(2), 0)).all()


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    require_memory(1, "a byte")
    monkeypatch.setattr(closed_form, "_free_memory", lambda device: 3 << 29)
    with refused(UsageError, place="much", value=2147483648):
        require_memory(2 << 30, "much")
    monkeypatch.setattr(closed_form, "_free_memory", lambda device: NEIGHBOR_BYTES * 7 - 1)
    vectors = sparse.csr_array(np.ones((7, 1)))
    with pytest.raises(UsageError, match="to keep up to 49 neighbors"):
        cosine_neighbors(vectors, neighbors=None)
    with pytest.raises(UsageError, match="to keep up to 7 neighbors"):
        cosine_neighbors(vectors, neighbors=1)
    monkeypatch.setattr(closed_form, "_free_memory", lambda device: NEIGHBOR_BYTES * 7)
    cosine_neighbors(vectors, neighbors=1)
