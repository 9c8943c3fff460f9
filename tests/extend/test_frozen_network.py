"""A new user hears as a trained one does: by a naive loop, and by the levels of users who were in training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.equations import naive
from tests.extend.small_network import N_USERS, dataset, embeddings
from torch import Tensor

from mcne.embeddings import Trunk
from mcne.extend.new_users import Friends, FrozenNetwork
from mcne.models.mcne import MCNE
from mcne.models.mcne_variants import MCNEA, MCNEF

FORMS: dict[str, tuple[type[MCNE], dict[str, Any]]] = {
    "mcne": (MCNE, {}),
    "literal": (MCNE, {"message": "literal"}),
    "one layer, no activation": (MCNE, {"widths": (5, 6), "neighbor_samples": (3,), "last_activation": False}),
    "weighted": (MCNE, {"weighted_neighbors": True}),
    "mcne-a": (MCNEA, {}),
    "mcne-a literal": (MCNEA, {"message": "literal"}),
    "mcne-f": (MCNEF, {}),
}


def trunk_and_last(form: str) -> tuple[Trunk, np.ndarray, Friends]:
    """A trained network and, of all its users, whom they hear."""
    kind, settings = FORMS[form]
    data = dataset(weighted="weighted_neighbors" in settings)
    made = embeddings(kind, data, **settings)
    assert made.trunk is not None
    shares = data.graph.shares(weighted=made.trunk.weighted).astype(np.float32)
    friends = Friends(data.graph.sources().astype(np.int64), data.graph.indices.astype(np.int64), shares)
    return made.trunk, np.asarray(made.vectors), friends


@pytest.mark.parametrize("form", FORMS)
def test_with_the_links_and_the_start_of_an_old_user_a_new_one_gets_its_vectors(form: str) -> None:
    trunk, last, friends = trunk_and_last(form)
    levels = FrozenNetwork(trunk, friends).levels(torch.from_numpy(np.array(trunk.levels[0])))
    assert len(levels) == trunk.n_layers + 1
    for level, expected in zip(levels, (*trunk.levels, last), strict=True):
        assert np.abs(expected).max() > 0.05
        np.testing.assert_allclose(level.numpy(), expected, rtol=1e-4, atol=1e-6)


def naive_levels(trunk: Trunk, start: Tensor, friends: list[tuple[int, float]]) -> list[Tensor]:
    """One new user, behavior by behavior and link by link."""
    own = [start]
    for k in range(trunk.n_layers):
        masks = [torch.tensor(row, dtype=torch.float32) for row in trunk.masks[k].astype(np.float32)]
        heard = torch.zeros_like(own[k])
        for friend, share in friends:
            theirs = torch.tensor(np.array(trunk.levels[k][friend]))
            sender, receiver = (own[k], theirs) if trunk.message == "literal" else (theirs, own[k])
            weights = [torch.tensor(1 / len(masks))] * len(masks)
            if trunk.attention is not None:
                project, score = (
                    torch.tensor(np.array(a)) for a in (trunk.attention[k].project, trunk.attention[k].score)
                )
                pairs = [(naive.conditional(sender, m), naive.conditional(receiver, m)) for m in masks]
                weights = naive.normalize(
                    [naive.attention_score(*pair, project=project, score=score) for pair in pairs]
                )
            heard = heard + share * naive.message(weights, [naive.conditional(sender, m) for m in masks])
        assert trunk.combine is not None
        active = trunk.last_activation or k < trunk.n_layers - 1
        weight = torch.tensor(np.array(trunk.combine[k]))
        own.append(naive.combine(heard, own[k], weight=weight, activation=active))
    return own


@pytest.mark.parametrize("form", FORMS)
def test_it_is_the_naive_loop(form: str) -> None:
    """Of users with some friends, with one and with none, who start anywhere."""
    trunk, _, _ = trunk_and_last(form)
    friends = [[(1, 0.5), (4, 0.3), (7, 0.2)], [], [(12, 1.0)]]
    links = [(user, friend, share) for user, own in enumerate(friends) for friend, share in own]
    receiver, sender, share = (np.array(column) for column in zip(*links, strict=True))
    start = torch.from_numpy(np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32))
    fast = FrozenNetwork(trunk, Friends(receiver, sender, share.astype(np.float32))).levels(start)
    for user, own in enumerate(friends):
        slow = naive_levels(trunk, start[user], own)
        for level, expected in zip(fast, slow, strict=True):
            torch.testing.assert_close(level[user], expected, rtol=1e-4, atol=1e-6)


def test_some_users_at_a_time_hear_the_same() -> None:
    trunk, _, friends = trunk_and_last("mcne")
    start = torch.from_numpy(np.array(trunk.levels[0]))
    whole = FrozenNetwork(trunk, friends).levels(start)[-1]
    parts = [
        FrozenNetwork(trunk, friends.of(first, min(first + 5, N_USERS))).levels(start[first : first + 5])[-1]
        for first in range(0, N_USERS, 5)
    ]
    torch.testing.assert_close(torch.cat(parts), whole, rtol=1e-5, atol=1e-7)
