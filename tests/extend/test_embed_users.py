"""New users beside the old: they can be asked like anybody, and nothing of the old changes by a byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.extend.small_network import dataset, embeddings
from tests.values import not_none
from typer.testing import CliRunner

import mcne
from mcne.api.methods import load_embeddings
from mcne.cli.main import app
from mcne.data.behavior import Attribute
from mcne.data.graph import directed, undirected
from mcne.data.ids import Ids
from mcne.embeddings import ConditionalEmbeddings
from mcne.errors import UsageError
from mcne.extend import embed_users, new_users
from mcne.extend.tables import NewUsers
from mcne.models.mcne import MCNE
from mcne.models.mcne_attributes import MCNEAttributes
from mcne.models.mcne_variants import MCNEA, MCNEF, SharedBottom

LINKS = pa.table({"source_id": [5, 5, 5, 99, 99], "target_id": [0, 4, 4, 24, 2]})
HISTORY = pa.table({"user_id": [5, 5, -1], "item_id": [80, 20, 10], "behavior": ["Books", "Travel", "Books"]})
FACTS = pa.table({"user_id": [5, 7], "age": [70.0, None], "city": ["Hefei", "Oslo"]})


@pytest.fixture(scope="module")
def old() -> ConditionalEmbeddings:
    return embeddings()


@pytest.fixture(scope="module")
def both(old: ConditionalEmbeddings) -> ConditionalEmbeddings:
    return embed_users(old, links=LINKS, history=HISTORY)


def rows_of_old(old: ConditionalEmbeddings, new: ConditionalEmbeddings) -> np.ndarray:
    return new.users.rows(np.asarray(old.users.arrow()) if old.users.kind == "integer" else list(old.users))


def assert_old_bytes(old: ConditionalEmbeddings, new: ConditionalEmbeddings) -> None:
    rows = rows_of_old(old, new)
    assert new.vectors[rows].tobytes() == old.vectors.tobytes()
    assert old.trunk is not None
    assert new.trunk is not None
    for before, after in zip(old.trunk.levels, new.trunk.levels, strict=True):
        assert after[rows].tobytes() == before.tobytes()
    for old_mask, new_mask in zip(old.trunk.masks, new.trunk.masks, strict=True):
        assert new_mask.tobytes() == old_mask.tobytes()
    for was, space in zip(old.spaces, new.spaces, strict=True):
        assert space.mask.tobytes() == was.mask.tobytes()
        assert space.item_vectors.tobytes() == was.item_vectors.tobytes()
        assert space.items == was.items
        assert [space.seen(row).tolist() for row in rows] == [was.seen(k).tolist() for k in range(old.n_users)]


KINDS: dict[str, tuple[type[MCNE], dict[str, Any]]] = {
    "mcne": (MCNE, {}),
    "literal": (MCNE, {"message": "literal"}),
    "mcne-a": (MCNEA, {}),
    "mcne-f": (MCNEF, {}),
    "shared-bottom": (SharedBottom, {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_old_keep_their_bytes_and_the_same_input_gives_the_same(kind: str) -> None:
    made, settings = KINDS[kind]
    old = embeddings(made, **settings)
    new = embed_users(old, links=LINKS, history=HISTORY)
    assert list(new.users) == [-1, 0, 2, 4, 5, *range(6, 27, 2), 99]
    assert_old_bytes(old, new)
    assert embed_users(old, links=LINKS, history=HISTORY).fingerprint == new.fingerprint


def test_what_the_old_know_without_having_it_stays_known(old: ConditionalEmbeddings) -> None:
    books = old.spaces[0]
    is_known = np.arange(len(books.seen_items)) % 3 == 0
    knowing = replace(old, spaces=(replace(books, seen_known=is_known), *old.spaces[1:]))
    new = embed_users(knowing, links=LINKS, history=HISTORY)
    assert_old_bytes(knowing, new)
    space, before = new.spaces[0], knowing.spaces[0]
    for row, user in enumerate(rows_of_old(old, new)):
        assert space.known(user).tolist() == before.known(row).tolist()
        assert space.had(user).tolist() == before.had(row).tolist()
    assert space.known(new.users.row(5)).tolist() == []
    assert len(space.had(new.users.row(5))) == 1
    assert new.spaces[1].seen_known is None


def test_low_ratings_are_known_pairs_where_the_training_data_had_them(
    old: ConditionalEmbeddings, both: ConditionalEmbeddings
) -> None:
    """A pair that is also rated well is a record; where ratings meant nothing, they mean nothing here either."""
    rows = {
        "user_id": [5, 5, 5, 5, -1],
        "item_id": [80, 20, 30, 80, 10],
        "behavior": ["Books", "Travel", "Books", "Books", "Books"],
        "rating": [5.0, 4.0, 2.0, 1.0, 4.0],
    }
    rated = replace(old, provenance={**old.provenance, "positive_from": 4})
    new = embed_users(rated, links=LINKS, history=pa.table(rows))
    assert_old_bytes(rated, new)
    books, row = new.space("Books"), new.users.row(5)
    assert [books.items[item] for item in books.known(row)] == [30]
    assert [books.items[item] for item in books.had(row)] == [80]
    assert new.space("Travel").seen_known is None
    assert 30 not in new.recommend(5, "Books", k=9).ids
    assert new.fingerprint != both.fingerprint
    plain = NewUsers.read(old, links=LINKS, history=pa.table(rows), attributes=None)
    assert len(plain.history[0][0]) == 3
    assert plain.notes == (
        "history: column 'rating' is not used, since the training data was prepared without --positive-from; every "
        "row counts as a record",
    )


def test_a_run_knows_from_which_rating_on_its_data_counts(tmp_path: Path) -> None:
    known = dataset()
    users = {behavior.name: known.users.take(behavior.user) for behavior in known.behaviors}
    acts = pa.concat_tables(
        pa.table(
            {
                "user_id": users[behavior.name],
                "item_id": behavior.items.take(behavior.item),
                "behavior": [behavior.name] * len(behavior),
                "rating": 1.0 + np.arange(len(behavior)) % 5,
            }
        )
        for behavior in known.behaviors
    )
    ends = {"source_id": known.users.take(known.graph.sources()), "target_id": known.users.take(known.graph.indices)}
    data = mcne.datasets.from_frames(acts, pa.table(ends), positive_from=3)
    model = mcne.MCNE(epochs=1, widths=(5, 6), neighbor_samples=(2,)).fit(data, out=tmp_path / "run", progress=False)
    item = next(iter(data.behavior("Books").items))
    rows = pa.table({"user_id": [99], "item_id": [item], "behavior": ["Books"], "rating": [2.0]})
    new = mcne.load(tmp_path / "run").embed_users(history=rows)  # type: ignore[union-attr] # it is a model
    space = new.space("Books")
    assert [space.items[at] for at in space.known(new.users.row(99))] == [item]
    assert model.embeddings.provenance["positive_from"] == 3


def test_low_ratings_alone_move_nobody(old: ConditionalEmbeddings) -> None:
    rated = replace(old, provenance={**old.provenance, "positive_from": 4})
    rows = {"user_id": [5], "item_id": [30], "behavior": ["Books"], "rating": [1.0]}
    new = embed_users(rated, links=LINKS, history=pa.table(rows))
    alone = embed_users(rated, links=LINKS)
    assert np.array_equal(new.vectors, alone.vectors)


def test_the_order_of_rows_says_nothing(old: ConditionalEmbeddings, both: ConditionalEmbeddings) -> None:
    turned = embed_users(old, links=LINKS.take([4, 1, 3, 0]), history=HISTORY.take([2, 0, 1]))
    assert turned.fingerprint == both.fingerprint


def test_from_friends_alone_a_user_starts_at_their_mean(old: ConditionalEmbeddings) -> None:
    new = embed_users(old, links=LINKS)
    assert old.trunk is not None
    assert new.trunk is not None
    of_5, of_99 = (new.users.row(raw) for raw in (5, 99))
    np.testing.assert_allclose(new.trunk.levels[0][of_5], old.trunk.levels[0][[0, 2]].mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(new.trunk.levels[0][of_99], old.trunk.levels[0][[12, 1]].mean(axis=0), rtol=1e-5)


def test_a_history_starts_from_all_users_and_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    old = embeddings(widths=(5, 6), neighbor_samples=(3,), last_activation=False)
    moved = embed_users(old, history=HISTORY)
    monkeypatch.setattr(new_users, "STEPS", 0)
    new = embed_users(old, history=HISTORY)
    assert old.trunk is not None
    assert new.trunk is not None
    assert moved.trunk is not None
    row = new.users.row(-1)
    np.testing.assert_allclose(new.trunk.levels[0][row], old.trunk.levels[0].mean(axis=0), rtol=1e-4)
    assert np.abs(moved.trunk.levels[0][row] - new.trunk.levels[0][row]).max() > 0.01


def test_weights_are_shares_where_the_network_heard_by_weight() -> None:
    data = dataset(weighted=True)
    links = pa.table({"source_id": [5, 5, 5], "target_id": [0, 4, 6], "weight": [3.0, 1.0, 0.0]})
    for weighted, shares in ((True, (0.75, 0.25)), (False, (0.5, 0.5))):
        old = embeddings(data=data, weighted_neighbors=weighted)
        new = embed_users(old, links=links)
        assert old.trunk is not None
        assert new.trunk is not None
        expected = shares[0] * old.trunk.levels[0][0] + shares[1] * old.trunk.levels[0][2]
        np.testing.assert_allclose(new.trunk.levels[0][new.users.row(5)], expected, rtol=1e-5)
        assert new.graph.share(new.users.row(0), new.users.row(5), weighted=True) == 0.75
        assert_old_bytes(old, new)


def test_new_users_can_be_asked(both: ConditionalEmbeddings) -> None:
    assert np.array_equal(both.vector(5, "Books"), both.vector(5) * both.space("Books").mask)
    assert 80 not in both.recommend(5, "Books", k=9).ids
    assert 80 in both.recommend(5, "Books", k=9, filter_seen=False).ids
    assert len(both.similar_users(99, "Travel", k=20)) == both.n_users - 1
    assert 5 in both.similar_users(0, k=20).ids
    explanation = both.explain(5, 4)
    assert explanation.linked
    assert [message.sender_id for message in explanation.messages] == [4, 5]
    assert all(sum(weights) == pytest.approx(1) for message in explanation.messages for weights in message.attention)
    assert not both.explain(-1, 4).linked


def test_the_network_has_the_new_links_and_the_old(old: ConditionalEmbeddings, both: ConditionalEmbeddings) -> None:
    rows = rows_of_old(old, both)
    five, far = both.users.row(5), both.users.row(99)
    source = np.concatenate([rows[old.graph.sources()], [five, five, far, far]])
    target = np.concatenate([rows[old.graph.indices], rows[[0, 2, 12, 1]]])
    expected = undirected(both.n_users, source, target)[0]
    assert both.graph.indices.tobytes() == expected.indices.tobytes()
    assert both.graph.indptr.tobytes() == expected.indptr.tobytes()


def test_they_survive_the_disk_and_take_more_users(both: ConditionalEmbeddings, tmp_path: Path) -> None:
    both.save(tmp_path / "both")
    again = load_embeddings(tmp_path / "both")
    assert again.fingerprint == both.fingerprint
    assert again.provenance["new_users"]["users"] == 3
    more = embed_users(again, links=pa.table({"source_id": [7], "target_id": [5]}))
    assert_old_bytes(both, more)


def test_text_ids_and_files(tmp_path: Path) -> None:
    old = embeddings(data=dataset(text=True))
    (tmp_path / "links.csv").write_text("source_id,target_id\na new one,u04\n007,u24\n")
    (tmp_path / "history.csv").write_text("user_id,item_id,behavior\n007,80,Books\n")
    new = embed_users(old, links=tmp_path / "links.csv", history=tmp_path / "history.csv")
    assert list(new.users) == ["007", "a new one", *old.users]
    assert new.space("Books").seen(0).tolist() == [8]
    assert_old_bytes(old, new)


def test_the_command_keeps_what_can_be_asked(tmp_path: Path) -> None:
    old = embeddings(data=dataset(text=True))
    old.save(tmp_path / "old")
    (tmp_path / "links.csv").write_text("source_id,target_id\nsomebody,u04\n")
    command = ["embed-users", str(tmp_path / "old"), "--links", str(tmp_path / "links.csv"), "--out"]
    result = CliRunner().invoke(app, [*command, str(tmp_path / "new")])
    assert result.exit_code == 0, result.output
    new = load_embeddings(tmp_path / "new")
    assert result.stdout.splitlines() == ["added 1 user to 14", f"saved {tmp_path / 'new'} {new.fingerprint}"]
    assert new.fingerprint == embed_users(old, links=tmp_path / "links.csv").fingerprint
    asked = CliRunner().invoke(app, ["recommend", str(tmp_path / "new"), "--user", "somebody", "--behavior", "Books"])
    assert asked.exit_code == 0, asked.output


def test_names_among_attributes_are_names() -> None:
    """Unless there is a table of names."""
    old = embeddings(MCNEAttributes, dataset(attributes=True))
    named = FACTS.append_column("name", [["Eve", None]])
    assert list(not_none(embed_users(old, attributes=named).user_names))[2:5] == ["", "Eve", ""]
    names = pa.table({"user_id": [5], "name": ["Eva"]})
    assert list(not_none(embed_users(old, attributes=named, names=names).user_names))[2:5] == ["", "Eva", ""]


def test_attributes_move_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what is special in them; a category that training did not have is unknown, and so is what is left out."""
    monkeypatch.setattr(new_users, "STEPS", 0)
    old = embeddings(MCNEAttributes, dataset(attributes=True))
    assert old.trunk is not None
    profile = old.trunk.profile
    assert profile is not None
    new = embed_users(old, attributes=FACTS, links=LINKS)
    assert_old_bytes(old, new)
    assert new.trunk is not None
    weights = profile.weights
    age = profile.encoding.columns[0]
    hefei, no_city, no_age = weights[3], weights[5], weights[1]
    special = (70 - age.mean) / age.spread * weights[0] + hefei - profile.center
    start = new.trunk.levels[0]
    base = old.trunk.levels[0]
    np.testing.assert_allclose(start[new.users.row(5)], base[[0, 2]].mean(axis=0) + special, rtol=1e-4, atol=1e-6)
    unknown = base.mean(axis=0) + no_age + no_city - profile.center
    np.testing.assert_allclose(start[new.users.row(7)], unknown, rtol=1e-4, atol=1e-6)
    fewer = embed_users(old, attributes=pa.table({"user_id": [7]}))
    assert fewer.trunk is not None
    np.testing.assert_allclose(fewer.trunk.levels[0][fewer.users.row(7)], unknown, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("categories", [Ids(["Beijing", "Hefei", "Xian"]), Ids(np.array([10, 20, 30]))])
def test_with_attributes_alone_the_start_is_theirs(categories: Ids) -> None:
    """An old user's attributes, told of a new one, give its initial vector: nothing else is in it."""
    data = dataset(attributes=True)
    cities = Attribute(data.attributes["city"].values, categories)
    data = replace(data, attributes={**data.attributes, "city": cities})
    old = embeddings(MCNEAttributes, data, initial="attributes")
    city = data.attributes["city"].categories
    assert city is not None
    facts = [
        (1 + 2 * row, age, None if k < 0 else city[int(k)])
        for row, (age, k) in enumerate(
            zip(data.attributes["age"].values.tolist(), data.attributes["city"].values, strict=True)
        )
    ]
    table = pa.table(dict(zip(("user_id", "age", "city"), map(list, zip(*facts, strict=True)), strict=True)))
    new = embed_users(old, attributes=table)
    assert new.trunk is not None
    np.testing.assert_allclose(new.trunk.levels[0][1::2], new.trunk.levels[0][::2], rtol=1e-4, atol=1e-6)
    named = embed_users(old, attributes=table.append_column("name", pa.array(["Ann"] * len(table))))
    assert named.trunk is not None
    np.testing.assert_array_equal(named.trunk.levels[0], new.trunk.levels[0])  # a name is no attribute


def test_from_python(tmp_path: Path) -> None:
    data = dataset(attributes=True)
    sizes: dict[str, Any] = {
        "widths": (5, 6),
        "neighbor_samples": (3,),
        "attention_width": 3,
        "epochs": 1,
        "device": "cpu",
    }
    model = mcne.MCNE(**sizes, initial="both").fit(data, progress=False)
    before = model.embeddings
    new = model.embed_users(links=LINKS, history=HISTORY, attributes=FACTS)
    assert new.method == "mcne-attributes"
    model.save(tmp_path / "model")
    again = mcne.load(tmp_path / "model")
    assert isinstance(again, mcne.MCNE)
    assert again.get_params() == model.get_params() | {"device": "auto"}
    assert model.embeddings is before
    assert_old_bytes(before, new)
    with pytest.raises(UsageError, match="not trained yet"):
        mcne.MCNE().embed_users(links=LINKS)


def test_in_a_directed_network_new_users_follow_and_nobody_follows_them() -> None:
    plain = dataset(weighted=True)
    source, target, weights = plain.graph.sources(), plain.graph.indices, plain.graph.weights
    assert weights is not None
    once = source < target
    data = replace(plain, graph=directed(plain.n_users, source[once], target[once], weights[once])[0])
    old = embeddings(data=data)
    new = embed_users(
        old, links=pa.table({"source_id": [5, 5, 99], "target_id": [0, 4, 24], "weight": [2.0, 1.0, 3.0]})
    )
    new.graph.validate()
    assert new.graph.is_directed
    assert_old_bytes(old, new)
    rows = rows_of_old(old, new)
    assert new.users.take(new.graph.neighbors(new.users.row(5))) == [0, 4]
    assert new.graph.followers(new.users.row(5)).tolist() == []
    assert new.graph.share(new.users.row(0), new.users.row(5), weighted=True) == pytest.approx(2 / 3)
    for row, known in enumerate(rows):
        assert new.graph.neighbors(known).tolist() == rows[old.graph.neighbors(row)].tolist()
    explanation = new.explain(5, 4)
    assert explanation.follows == ((5, 4),)
    assert [(message.sender_id, message.receiver_id) for message in explanation.messages] == [(4, 5)]
