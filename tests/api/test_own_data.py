"""As in a notebook: from tables of one's own to models, answers and a new user, with nothing but ``import mcne``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import mcne

SMALL: dict[str, Any] = {"epochs": 3, "batch_size": 64, "device": "cpu"}


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """What 80 people did, and who knows whom: even ones like the first half of every catalog, and each other."""
    acts = []
    ties = []
    for user in range(80):
        taste = user % 2
        for step in range(8):
            acts.append((f"user{user}", f"book{15 * taste + (7 * user + 3 * step) % 15}", "Books"))
            acts.append((f"user{user}", f"city{10 * taste + (3 * user + 7 * step) % 10}", "Travel"))
        ties += [(f"user{user}", f"user{(user + 2 * step) % 80}") for step in (1, 3, 9)]
    interactions = pd.DataFrame(acts, columns=["user_id", "item_id", "behavior"]).drop_duplicates()
    return interactions, pd.DataFrame(ties, columns=["source_id", "target_id"])


def test_from_tables_to_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Data and a split
    interactions, links = tables()
    data = mcne.datasets.from_frames(interactions, links, name="friends")
    assert (data.n_users, data.behavior_names) == (80, ["Books", "Travel"])
    split = mcne.split(data, seed=1)

    # Three models
    popular = mcne.Popularity().fit(data, split, progress=False)
    ease = mcne.EASE(l2=5.0).fit(data, split, progress=False)
    model = mcne.MCNE(widths=(16, 16), neighbor_samples=(3,), learning_rate=0.05, seed=1, **SMALL)
    model.fit(data, split, progress=False)
    recalls = [mcne.evaluate(each, protocol="full").overall("recall@5") or 0 for each in (popular, ease)]
    assert recalls[0] < recalls[1]
    quality = mcne.evaluate(model).to_pandas().set_index("behavior")
    assert quality.index.tolist() == ["Books", "Travel", "mean"]

    # Compared
    table = mcne.compare(data, ["popularity", mcne.EASE(l2=5.0), mcne.BPR(width=8, **SMALL)], seeds=2, progress=False)
    assert "popularity" in capsys.readouterr().out
    means = table.to_pandas().query("metric == 'recall@5' and behavior == 'mean'").set_index("method")["mean"]
    assert means["ease"] > means["popularity"]

    # Recommendations for everybody
    everybody = list(data.users)
    answers = ease.recommend(everybody, "Books", k=3).to_pandas()
    assert answers.groupby("user_id").size().tolist() == [3] * 80
    had = interactions.query("behavior == 'Books'")
    assert answers.merge(had, on=["user_id", "item_id"]).empty
    of_their_taste = answers["item_id"].str[4:].astype(int).ge(15) == answers["user_id"].str[4:].astype(int) % 2
    assert of_their_taste.mean() > 0.9

    # Why, and who else
    why = model.explain("user0", "user2")
    assert why.linked
    attention = why.to_pandas().query("part == 'attention'").groupby("what")["value"].sum()
    assert attention.tolist() == pytest.approx([1, 1])
    suggested = model.similar_users("user0", "Books", k=5, friends="exclude")
    assert not {"user2", "user6", "user18", "user78", "user74", "user62"} & set(suggested.ids)

    # Saved and opened again
    model.save(tmp_path / "model")
    opened = mcne.load(tmp_path / "model")
    assert isinstance(opened, mcne.MCNE)
    assert opened.recommend("user3", "Travel").ids == model.recommend("user3", "Travel").ids

    # Someone new, with a friend who is not in the data
    friends = pd.DataFrame({"source_id": ["zoe"] * 3, "target_id": ["user0", "user2", "max"]})
    history = pd.DataFrame({"user_id": ["zoe"], "item_id": ["book0"], "behavior": ["Books"]})
    with_zoe = opened.embed_users(links=friends, history=history, skip_unknown=True)
    assert capsys.readouterr().err == "skipped 1 link to unknown users\n"
    suits = with_zoe.recommend("zoe", "Books", k=5)
    assert len(suits) == 5
    assert "book0" not in suits.ids
    assert with_zoe.explain("zoe", "user2").linked
