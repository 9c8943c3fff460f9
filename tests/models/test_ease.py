"""EASE: both forms equal brute force, and B is the minimum that it claims to be."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.errors import refused
from tests.models.small_records import all_scores, dense, of_rows, training_data, with_weights

from mcne.errors import UsageError
from mcne.models import closed_form, ease
from mcne.models.closed_form import ProductScorer, log_popularity, records_of
from mcne.models.contract import TrainingData
from mcne.models.ease import EASE, EASEConfig, dual, primal

CPU = torch.device("cpu")
FORMS = {"primal": primal, "dual": dual}


def made(form: str, data: TrainingData, config: EASEConfig) -> ProductScorer:
    popularity = log_popularity(data, weight=config.popularity_weight)
    records = records_of(data, weighted=config.weighted_records)
    return FORMS[form](records, popularity, l2=config.l2, device=CPU)


def weights(x: NDArray[np.float64], l2: float) -> NDArray[np.float64]:
    """B, as the paper has it."""
    p = np.linalg.inv(x.T @ x + l2 * np.eye(x.shape[1]))
    return np.eye(x.shape[1]) - p / np.diag(p)


@pytest.mark.parametrize("n_users", [8, 30])  # 12 items
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("l2", "popularity"), [(0.01, 0.0), (0.5, 0.0), (3.0, 0.2), (1e4, 0.2), (1e36, 1.0)])
def test_either_form_is_brute_force(form: str, n_users: int, l2: float, popularity: float) -> None:
    data = training_data(n_users)
    x = dense(data)
    expected = x @ weights(x, l2) + popularity * np.log(1 + x.sum(axis=0))
    scores = all_scores(made(form, data, EASEConfig(l2, popularity)), data)
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)
    assert popularity or scores.std() > 1e-5


@pytest.mark.parametrize("form", FORMS)
def test_weights_are_what_is_regressed(form: str) -> None:
    data = with_weights(training_data(30))
    config = EASEConfig(3.0, 0.2, weighted_records=True)
    x = dense(data, weighted=True)
    expected = x @ weights(x, 3.0) + 0.2 * np.log(1 + (x > 0).sum(axis=0))
    np.testing.assert_allclose(all_scores(made(form, data, config), data), expected, rtol=1e-5, atol=1e-6)
    assert not np.allclose(expected, all_scores(made(form, data, EASEConfig(3.0, 0.2)), data))
    equal = with_weights(data, all_as=0.7)
    plain = all_scores(made(form, equal, EASEConfig(3.0, 0.2)), equal)
    assert all_scores(made(form, equal, config), equal).tobytes() == plain.tobytes()


@pytest.mark.parametrize("n_users", [8, 30])
def test_the_method_uses_them(n_users: int) -> None:
    data = with_weights(training_data(n_users))
    config = EASEConfig(3.0, 0.2, weighted_records=True)
    method = EASE(data, config, seed=0, device=CPU)
    form = "primal" if n_users == 30 else "dual"
    assert all_scores(method.scorer(), data).tobytes() == all_scores(made(form, data, config), data).tobytes()


@pytest.mark.parametrize(("n_users", "form"), [(8, "dual"), (30, "primal"), (12, "primal")])
def test_the_method_takes_the_smaller_system(n_users: int, form: str) -> None:
    data = training_data(n_users)
    config = EASEConfig(3.0, 0.2)
    method = EASE(data, config, seed=0, device=CPU)
    assert all_scores(method.scorer(), data).tobytes() == all_scores(made(form, data, config), data).tobytes()
    assert max(value.numel() for value in method.learned().values()) <= max(12 * 8, 12 * 12)


@pytest.mark.parametrize("form", FORMS)
def test_each_item_is_regressed_on_all_others(form: str) -> None:
    """``diag(B) = 0`` means that: column i is the ridge regression of item i on the rest."""
    data = training_data(30)
    x = dense(data)
    l2 = 3.0
    scores = all_scores(made(form, data, EASEConfig(l2, 0.0)), data)
    for i in range(12):
        rest = np.delete(x, i, axis=1)
        expected = rest @ np.linalg.solve(rest.T @ rest + l2 * np.eye(11), rest.T @ x[:, i])
        np.testing.assert_allclose(scores[:, i], expected, rtol=1e-5, atol=1e-6)


def test_by_hand() -> None:
    """Two items, two common users of three: B₀₁ = 2 / (3 + λ), B₁₀ = 2 / (2 + λ), ordinary ridge regression."""
    data = of_rows([[0, 1], [0, 1], [1]], 2)
    for form in FORMS:
        scores = made(form, data, EASEConfig(4.0, 0.0)).scores(0, np.arange(3))
        np.testing.assert_allclose(scores, [[2 / 7, 2 / 6], [2 / 7, 2 / 6], [2 / 7, 0]], rtol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_too_small_a_penalty_is_refused(form: str) -> None:
    for l2 in (1e-9, 1e-30, 5e-324):
        with refused(UsageError, place="setting l2"):
            made(form, training_data(8), EASEConfig(l2, 0.0))


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = 24 * 8**2
    monkeypatch.setattr(closed_form, "_free_memory", lambda device: needed - 1)
    with refused(UsageError, place="ease: for 8 users and 12 items, whichever are fewer", value=1536):
        EASE(training_data(8), EASEConfig(), seed=0, device=CPU)
    monkeypatch.setattr(closed_form, "_free_memory", lambda device: needed)
    EASE(training_data(8), EASEConfig(), seed=0, device=CPU)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    data = training_data(8)
    whole = all_scores(made("dual", data, EASEConfig()), data)
    monkeypatch.setattr(ease, "AT_ONCE", 20)
    assert all_scores(made("dual", data, EASEConfig()), data).tobytes() == whole.tobytes()
