"""A study end to end: what training can see, what is kept, and what is gone on with."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.errors import refused
from tests.small_training import small_network

from mcne.analysis.links import HeldOut
from mcne.data.dataset import SocialDataset
from mcne.data.graph import directed, undirected
from mcne.data.split import random_split
from mcne.errors import ArtifactError, DataError, UsageError
from mcne.studies.engine import result_of
from mcne.studies.structure import (
    NEEDED,
    STUDY,
    Repetition,
    StructureStudy,
    collect,
    measured,
    page,
    settings_by_method,
    trained,
    write,
)
from mcne.training import Run, Training

CPU = torch.device("cpu")
SMALL: dict[str, dict[str, Any]] = {
    "mcne": {"widths": [8, 8, 8], "neighbor_samples": [3, 3], "attention_width": 4, "batch_size": 512, "epochs": 1},
    "line": {"width": 8, "epochs": 2},
    "bpr": {"width": 8, "epochs": 1},
}


@pytest.fixture(scope="module")
def data() -> SocialDataset:
    return small_network()


def study(data: SocialDataset, out: Path, *methods: str, repetitions: int = 1, share: float = 0.1) -> StructureStudy:
    return StructureStudy(data, out, share, repetitions, {name: SMALL[name] for name in methods})


def finish(asked: StructureStudy) -> tuple[dict[str, Any], list[str]]:
    messages: list[str] = []
    asked.open()
    asked.run(device="cpu", say=messages.append)
    results = collect(asked.dataset, asked.out)
    write(results, asked.out)
    return results, messages


def test_a_repetition_is_the_same_data_without_the_links(data: SocialDataset) -> None:
    repetition = Repetition.of(data, 3, share=0.2)
    assert repetition.dataset.graph.n_links == data.graph.n_links - len(repetition.held_out.links)
    assert repetition.dataset.behaviors == data.behaviors
    usual = random_split(data, seed=3)
    assert all(np.array_equal(a, b) for a, b in zip(repetition.split.parts, usual.parts, strict=True))
    for mine, theirs in zip(
        repetition.split.negatives["test"]["uniform"], usual.negatives["test"]["uniform"], strict=True
    ):
        assert np.array_equal(mine.items, theirs.items)


@pytest.mark.parametrize("method", ["mcne", "line"])
def test_poisoned_held_out_links_change_no_trained_byte(method: str, data: SocialDataset, tmp_path: Path) -> None:
    honest = Repetition.of(data, 0, share=0.2)
    held = honest.held_out
    poison = HeldOut(held.graph, held.others["uniform"], {"uniform": held.links, "degree": held.links})
    poisoned = dataclasses.replace(honest, held_out=poison)
    one, other = (
        trained(method, each, tmp_path / name, settings=SMALL[method], device=CPU)
        for name, each in (("honest", honest), ("poisoned", poisoned))
    )
    assert one.fingerprint == other.fingerprint
    kept = one.embeddings.graph
    assert np.array_equal(kept.indices, held.graph.indices)
    pairs = {(int(a), int(b)) for a, b in zip(kept.sources(), kept.indices, strict=True)}
    assert not pairs & {(int(a), int(b)) for a, b in held.links}
    full = dataclasses.replace(honest, dataset=data, split=random_split(data, seed=0))
    assert trained(method, full, tmp_path / "full", settings=SMALL[method], device=CPU).fingerprint != one.fingerprint


def test_a_study_from_beginning_to_end(data: SocialDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    results, messages = finish(study(data, out, "mcne", "line", repetitions=2))
    assert [line.split(":")[0] for line in messages if "," in line.split(":")[0]] == [
        "1/4 mcne, repetition 0", "2/4 line, repetition 0", "3/4 mcne, repetition 1", "4/4 line, repetition 1",
    ]  # fmt: skip
    rows = [(row["method"], row["behavior"], row["similarity"]) for row in results["rows"]]
    assert rows[:3] == [("degree product", None, None), ("common friends", None, None), ("Adamic–Adar", None, None)]
    assert rows[3:] == [
        *(("mcne", b, s) for b in (None, "Books", "Movies") for s in ("inner product", "cosine")),
        *(("line", None, s) for s in ("inner product", "cosine")),
    ]
    for row in results["rows"]:
        for kind in ("uniform", "degree"):
            spread = row[kind]["auc"]
            assert len(spread["values"]) == row["finished"] == 2
            assert spread["mean"] == pytest.approx(np.mean(spread["values"]))
            assert spread["sd"] == pytest.approx(np.std(spread["values"], ddof=1))
    assert json.loads((out / "structure.json").read_text()) == json.loads(json.dumps(results))
    assert not list(out.rglob("run")), "what was trained is removed once it is measured"
    before = {path: path.read_bytes() for path in sorted(out.rglob("*.json"))}

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(Training, "run", refuse)
    next((out / "cells").iterdir()).joinpath("run").mkdir()  # as a death between result and removal leaves it
    finish(study(data, out, "mcne", "line", repetitions=2))
    assert not list(out.rglob("run"))
    finish(study(data, out, "line"))  # less is asked for, and nothing is lost
    assert {path: path.read_bytes() for path in sorted(out.rglob("*.json"))} == before


def test_more_methods_and_repetitions_join(data: SocialDataset, tmp_path: Path) -> None:
    finish(study(data, tmp_path / "out", "line"))
    results, _ = finish(study(data, tmp_path / "out", "bpr", repetitions=2))
    assert {row["method"]: row["finished"] for row in results["rows"] if row["trained"]} == {"line": 1, "bpr": 2}
    assert results["lacking"] == {"line": "1 not finished"}
    text = page(results)
    assert "line: 1 not finished" in text
    assert "users with as many friends" in text


def test_a_stopped_study_goes_on_where_it_was(
    data: SocialDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = finish(study(data, tmp_path / "whole", "line", "bpr"))
    asked = study(data, tmp_path / "stopped", "line", "bpr")
    train = Training.run

    def stop(self: Training, path: Path, *, resume: bool = False) -> Run:
        if self.method == "bpr":
            raise KeyboardInterrupt
        return train(self, path, resume=resume)

    monkeypatch.setattr(Training, "run", stop)
    with pytest.raises(KeyboardInterrupt):
        finish(asked)
    monkeypatch.setattr(Training, "run", train)
    assert finish(asked)[0]["rows"] == whole["rows"]


def test_a_failure_leaves_the_others(data: SocialDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = study(data, tmp_path / "out", "bpr", "line")
    asked.open()
    train = Training.run

    def fail(self: Training, path: Path, *, resume: bool = False) -> Any:
        if self.method == "bpr":
            raise DataError("no memory")
        return train(self, path, resume=resume)

    monkeypatch.setattr(Training, "run", fail)
    messages: list[str] = []
    assert list(map(str, asked.run(device="cpu", say=messages.append).values())) == ["no memory"]
    assert "1/2 bpr, repetition 0: failed: no memory" in messages
    assert collect(data, asked.out)["lacking"] == {"bpr": "1 not finished"}


def test_divergence_is_a_result(data: SocialDataset, tmp_path: Path) -> None:
    wild = StructureStudy(data, tmp_path / "out", 0.1, 1, {"bpr": {"learning_rate": 1e30, "width": 8, "epochs": 3}})
    results, messages = finish(wild)
    assert "diverged" in results["lacking"]["bpr"]
    assert "diverged" in messages[-1]
    assert all(not row["trained"] for row in results["rows"])


def test_vectors_that_know_the_links_score_best(data: SocialDataset, tmp_path: Path) -> None:
    repetition = Repetition.of(data, 0, share=0.1)
    made = trained("bpr", repetition, tmp_path / "run", settings=SMALL["bpr"], device=CPU).embeddings
    knows = np.zeros((data.n_users, len(repetition.held_out.links)), dtype=np.float32)
    for at, pair in enumerate(repetition.held_out.links):
        knows[pair, at] = 1
    spaces = tuple(
        dataclasses.replace(
            space,
            mask=np.ones(knows.shape[1], bool),
            item_vectors=np.zeros((len(space.items), knows.shape[1]), np.float32),
        )
        for space in made.spaces
    )
    rows = list(measured(dataclasses.replace(made, vectors=knows, spaces=spaces), repetition.held_out))
    assert [row["uniform"]["auc"] for row in rows] == [1.0, 1.0]
    assert [row["degree"]["ap"] for row in rows] == pytest.approx([1.0, 1.0], rel=1e-12)


@pytest.mark.slow
def test_links_are_learned_where_there_is_something_to_learn(data: SocialDataset, tmp_path: Path) -> None:
    """Cliques of 20 friends: LINE tells a held-out link from other pairs of the same degrees, once it has learned.

    The epoch that is kept is the best on items, so it has to be allowed as many as links take.
    """
    group = np.arange(data.n_users) % 25
    low, high = np.triu_indices(data.n_users, 1)
    same = group[low] == group[high]
    graph = undirected(data.n_users, low[same].astype(np.int32), high[same].astype(np.int32))[0]
    given = {"width": 32, "epochs": 120, "patience": 120}
    results, _ = finish(
        StructureStudy(dataclasses.replace(data, graph=graph), tmp_path / "out", 0.1, 1, {"line": given})
    )
    told = {(row["method"], row["similarity"]): row["degree"]["auc"]["mean"] for row in results["rows"]}
    assert told["common friends", None] > 0.99
    assert told["line", "inner product"] > 0.9
    assert told["line", "cosine"] > 0.9
    assert told["degree product", None] == pytest.approx(0.5, abs=0.05)


# mistakes


def test_mistakes_are_told_before_anything_is_made(data: SocialDataset, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with refused(UsageError, value="nod2vec"):
        settings_by_method(["nod2vec"], [])
    with refused(UsageError, place="--methods line,line", value=["line", "line"]):
        settings_by_method(["line", "line"], [])
    for method in ("nfm", "popularity", "ease"):
        with pytest.raises(UsageError, match=f"{method} has no user vectors.*choose .*node2vec"):
            StructureStudy(data, out, 0.1, 1, {method: {}})
    with pytest.raises(UsageError, match="share: 1 is out of range"):
        study(data, out, "line", share=1.0)
    with pytest.raises(UsageError, match="repetitions: 0 "):
        study(data, out, "line", repetitions=0)
    with pytest.raises(UsageError, match="no methods"):
        StructureStudy(data, out, 0.1, 1, {})
    with pytest.raises(UsageError, match="mcne needs two or more behaviors"):
        study(data.only(0), out, "mcne")
    nothing = np.zeros(data.n_users + 1, np.int32), np.zeros(0, np.int32)
    lonely = dataclasses.replace(data, graph=type(data.graph)(*nothing))
    with pytest.raises(DataError, match="no links between users, so none can be held out"):
        study(lonely, out, "bpr")
    pairs = np.arange(0, data.n_users, 2, dtype=np.int32)
    coupled = dataclasses.replace(data, graph=undirected(data.n_users, pairs, pairs + 1)[0])
    with pytest.raises(DataError, match="every link is the last one"):
        study(coupled, out, "bpr")
    assert not out.exists()


def test_what_is_held_out_is_told_where_it_is_less_than_asked_for(data: SocialDataset, tmp_path: Path) -> None:
    users = np.arange(data.n_users, dtype=np.int32)
    ring = dataclasses.replace(data, graph=undirected(data.n_users, users, np.roll(users, 1))[0])
    results, messages = finish(study(ring, tmp_path / "out", "bpr", share=0.9))
    (count,) = results["held_out_links"]
    assert results["links"] == 500 > 2 * count
    assert f"{count} of 500 links held out" in messages[0]
    assert f"{count} of 500 links held out (a share of 0.9 was asked for" in page(results)


def test_the_page_tells_how_epochs_were_chosen(data: SocialDataset, tmp_path: Path) -> None:
    text = page(finish(study(data, tmp_path / "out", "line", "bpr"))[0])
    assert "the one is kept that ranks validation items best, not links" in text
    assert "bpr 1 of 1." in text
    assert "of 2; bpr" in text


def test_a_death_before_the_study_was_written_leaves_a_free_place(data: SocialDataset, tmp_path: Path) -> None:
    (tmp_path / f".{STUDY}.partial").write_text("{")
    study(data, tmp_path, "line").open()
    assert json.loads((tmp_path / STUDY).read_text())["share"] == 0.1


def test_a_place_of_something_else_is_left_alone(data: SocialDataset, tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear")
    with refused(UsageError, about="structure"):
        study(data, tmp_path, "line").open()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["letter"]
    with refused(UsageError, place="letter", about="structure"):
        study(data, tmp_path / "letter", "line").open()
    out = tmp_path / "out"
    study(data, out, "line").open()
    kept = (out / STUDY).read_bytes()
    with refused(UsageError, place="out", value=0.3):
        study(data, out, "line", share=0.3).open()
    with pytest.raises(UsageError, match="another dataset"):
        study(data.only(0), out, "line").open()
    with pytest.raises(UsageError, match="line with other settings"):
        StructureStudy(data, out, 0.1, 1, {"line": {"width": 9}}).open()
    assert (out / STUDY).read_bytes() == kept
    (out / STUDY).write_text("{}")
    with pytest.raises(ArtifactError, match=r"study\.json: is damaged"):
        study(data, out, "line").open()


def test_settings_reach_the_methods_that_have_them() -> None:
    given = settings_by_method(["mcne", "line"], ["epochs=4", "widths=[8,8,8]", "line.epochs=9", "line.width=3"])
    assert given == {"mcne": {"epochs": 4, "widths": [8, 8, 8]}, "line": {"epochs": 9, "width": 3}}
    with refused(UsageError, place="--set epoch", value="epoch"):
        settings_by_method(["mcne"], ["epoch=4"])
    with refused(UsageError, place="--set bpr.epochs", value="bpr"):
        settings_by_method(["mcne"], ["bpr.epochs=4"])


def test_a_damaged_cell(tmp_path: Path) -> None:
    (tmp_path / "cell.json").write_text("[1]")
    with refused(ArtifactError, place="cell.json", about="damaged"):
        result_of(tmp_path, needs=NEEDED)


def test_of_a_directed_network_pairs_are_told_apart(data: SocialDataset, tmp_path: Path) -> None:
    source, target = data.graph.sources(), data.graph.indices
    once = (source < target) | (source % 3 == 0)  # a third of the users follow back
    graph, _ = directed(data.n_users, source[once], target[once])
    results, _ = finish(study(dataclasses.replace(data, graph=graph), tmp_path / "directed", "line"))
    whole, _ = finish(study(data, tmp_path / "whole", "bpr"))
    assert results["links"] == whole["links"] == data.graph.n_links < graph.n_links
    assert [row["degree"] for row in results["rows"][:3]] == [row["degree"] for row in whole["rows"][:3]]
