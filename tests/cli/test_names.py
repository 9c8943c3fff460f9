"""Names in what commands print and draw: beside ids, harmless in a terminal, on a page and in JSON."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.in_process import Run
from tests.plots.figure_texts import assert_legible
from tests.small_training import saved, sixty_users, train_small

import mcne
from mcne.analysis.attention import of_link, of_user
from mcne.analysis.maps import ConditionalMap, Panel
from mcne.api.methods import load_embeddings
from mcne.data.graph import directed
from mcne.data.ids import Names
from mcne.plots.attention import draw_attention
from mcne.plots.maps import draw_map
from mcne.plots.style import styled
from mcne.report.run_page import answers
from mcne.text import Html, Table

EVIL = "<b>[red]\x1b]0;title\x07\x9b2J\nline"
SHOWN = "<b>[red] ]0;title  2J line"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose users all have a harmful name but user 59, and whose items of read are named, too."""
    small = sixty_users()
    read, watch = small.behaviors
    read = dataclasses.replace(read, names=Names([f"Title {raw}\x1b" for raw in read.items]))
    dataset = dataclasses.replace(small, behaviors=(read, watch), user_names=Names([*[EVIL] * 59, ""]))
    place = tmp_path_factory.mktemp("trained")
    split = saved(dataset, place / "data")
    for method in ("mcne", "ease"):
        train_small(method, dataset, place / method, split=split)
    return place


def harmless(text: str) -> str:
    assert not [each for each in text if not each.isprintable() and each != "\n"]
    return text


@pytest.mark.parametrize("method", ["mcne", "ease"])
def test_recommend(method: str, run: Run, trained: Path) -> None:
    asked = ("recommend", trained / method, "--user", 3, "--behavior")
    shown = harmless(run(*asked, "read", "-k", 2).out).splitlines()
    best, _ = mcne.load(trained / method).recommend(3, "read", k=2).ids
    assert shown[0] == f"read for user 3 ({SHOWN})"
    assert shown[1].split() == ["item", "name", "score"]
    assert shown[2].split()[:4] == ["1", str(best), "Title", str(best)]
    printed = json.loads(harmless(run(*asked, "read", "-k", 2, "--json").out))
    assert (printed["user_id"], printed["user_name"]) == (3, EVIL)
    assert [each["name"] for each in printed["items"]] == [f"Title {each['item_id']}\x1b" for each in printed["items"]]
    without = json.loads(run(*asked, "watch", "--json").out)
    assert without["items"][0].keys() == {"item_id", "score"}
    assert "name" not in run(*asked, "watch").out
    few = run(*asked, "read", "-k", 99)
    assert harmless(few.err).endswith(f"user 3 ({SHOWN}) has 6 of them\n")


def test_similar_and_explain(run: Run, trained: Path) -> None:
    assert harmless(run("similar", trained / "mcne", "--user", 3, "-k", 1).out).splitlines()[2].split()[2] == "<b>[red]"
    users = json.loads(run("similar", trained / "mcne", "--user", 3, "-k", 59, "--json").out)["users"]
    assert {each["user_id"]: each.get("name") for each in users} == {
        user: EVIL if user != 59 else None for user in range(60) if user != 3
    }
    friend = int(mcne.load(trained / "mcne").graph.neighbors(3)[0])
    asked = ("explain", trained / "mcne", "--user", 3, "--other", friend)
    both = " ".join(f"users 3 ({SHOWN}) and {friend} ({SHOWN}) are linked".split())
    assert both in " ".join(harmless(run(*asked).out).split())
    assert json.loads(harmless(run(*asked, "--json").out))["messages"][0]["sender_name"] == EVIL
    assert "59 are not linked" in run("explain", trained / "mcne", "--user", 3, "--other", 59).out.replace("\n", " ")


def test_attention(run: Run, trained: Path, tmp_path: Path) -> None:
    embeddings = load_embeddings(trained / "mcne")
    friend = int(embeddings.graph.neighbors(3)[0])
    link, user = of_link(embeddings, 3, friend), of_user(embeddings, 3)
    assert (user["user_name"], user["unusual"][0]["sender_name"]) == (EVIL, EVIL)
    with styled("light"):
        written = assert_legible(draw_attention(user, theme="light"), at_least=10)
        assert any(text.startswith("User 3 (<b>[red] ]0;") for text in written)
        legend = "\n".join(assert_legible(draw_attention(link, theme="light"), at_least=5))
        assert f"→ {friend} (<b>" in legend
    shown = run("plot", "attention", trained / "mcne", "--user", 3, "--out", tmp_path / "user.png")
    assert f"user 3 ({SHOWN[:4]}" in harmless(shown.out)
    again = run("plot", "attention", tmp_path / "user.json", "--out", tmp_path / "again.png")
    assert again.code == 0


def test_maps(tmp_path: Path) -> None:
    places = np.random.default_rng(0).normal(size=(1, 12, 2))
    drawn = ConditionalMap(
        layout="aligned",
        method="mcne",
        fingerprint="",
        seed=0,
        perplexity=3,
        user_ids=tuple(range(12)),
        panels=(Panel("read", ("read",), places, 0.9),),
        user_names=("Ann",) * 12,
    )
    (tmp_path / "map.json").write_text(json.dumps(drawn.to_json()))
    again = ConditionalMap.read(tmp_path / "map.json")
    assert again.user_names == drawn.user_names
    with styled("light"):
        figure = draw_map(again, theme="light")
    (legend,) = figure.legends
    assert all(text.get_text().endswith(" (Ann)") for text in legend.get_texts())
    unnamed = dataclasses.replace(drawn, user_names=())
    assert "user_names" not in unnamed.to_json()
    with styled("light"):
        (legend,) = draw_map(unnamed, theme="light").legends
    assert not any("(" in text.get_text() for text in legend.get_texts())


def test_the_page_of_a_run(trained: Path) -> None:
    parts = answers(load_embeddings(trained / "mcne"))
    html = "".join(
        part.captioned() if isinstance(part, Table) else part for part in parts if isinstance(part, Table | Html)
    )
    assert "&lt;b&gt;[red]" in html
    assert "(Title " in html
    assert "<b>" not in html
    assert "\x1b" not in html


def test_explanations_and_reports_tell_directed_links(run: Run, tmp_path: Path) -> None:
    small = sixty_users()
    graph, _ = directed(60, np.array([3, 4, 5]), np.array([4, 3, 3]))
    dataset = dataclasses.replace(small, graph=graph, user_names=Names([f"N{row}" for row in range(60)]))
    train_small("bpr", dataset, tmp_path / "run", split=saved(dataset, tmp_path / "data"))
    asked = ("explain", tmp_path / "run", "--user", 3, "--other")
    assert "users 3 (N3) and 4 (N4) follow each other" in run(*asked, 4).out
    assert "users 3 (N3) and 5 (N5) are linked (5 (N5) follows 3 (N3))" in run(*asked, 5).out
    assert "users 3 (N3) and 6 (N6) are not linked" in run(*asked, 6).out
    assert run("report", tmp_path / "run", "--out", tmp_path / "run.html", "--no-map").code == 0
    assert "60 users, 3 directed links, and the records" in (tmp_path / "run.html").read_text(encoding="utf-8")
