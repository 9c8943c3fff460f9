"""``mcne evaluate | recommend | similar | explain | export | doctor``: answers for people and as JSON, and mistakes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from tests.cli.in_process import Result, Run
from tests.small_training import saved, train_small

import mcne
from mcne import training
from mcne.api.methods import load_embeddings
from mcne.cli import machine
from mcne.data.dataset import SocialDataset
from mcne.evaluation.protocol import evaluate

SETTINGS: dict[str, dict[str, Any]] = {
    "popularity": {},
    "bpr": {"width": 8, "epochs": 1},
    "mcne": {"widths": [8, 8, 8], "neighbor_samples": [3, 3], "attention_width": 4, "batch_size": 64, "epochs": 2},
    "mcne-a": {"widths": [8, 8, 8], "neighbor_samples": [3, 3], "attention_width": 4, "batch_size": 64, "epochs": 1},
}
ALONE, CURATOR = "user-59", "user-07"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of four methods on 60 users, one of them without links, and a behavior with a single item."""
    chance = np.random.default_rng(0)
    pairs = [(user, f"[b]{item}", "read [/b]") for user in range(60) for item in chance.choice(30, 6)]
    pairs += [(user, f"{item}", "watch") for user in range(60) for item in chance.choice(30, 6)]
    pairs += [(user, "only", "single") for user in range(20)]
    links = [(user, int(other)) for user in range(59) for other in chance.integers(0, 59, 3)]
    users = [f"user-{user:02d}" for user in range(60)]
    rows = {
        "user_id": [users[user] for user, _, _ in pairs],
        "item_id": [item for _, item, _ in pairs],
        "behavior": [behavior for _, _, behavior in pairs],
    }
    ends = {"source_id": [users[u] for u, _ in links], "target_id": [users[v] for _, v in links]}
    dataset = SocialDataset.from_frames(pa.table(rows), pa.table(ends), name="[i]small")
    place = tmp_path_factory.mktemp("trained")
    split = saved(dataset, place / "data")
    for method, settings in SETTINGS.items():
        train_small(method, dataset, place / method, split=split, settings=settings)
    return place


@pytest.fixture
def ok(run: Run, trained: Path) -> Callable[..., str]:
    """What a command about a trained method prints."""

    def command(name: str, method: str, *args: object) -> str:
        result = run(name, trained / method, *args)
        assert (result.code, result.err) == (0, ""), result
        assert max(map(len, result.out.splitlines())) <= 80
        return result.out

    return command


Ok = Callable[..., str]


def fails(result: Result, code: int, *says: str) -> None:
    """One line that says all of this, nothing on stdout, no traceback."""
    assert (result.code, result.out) == (code, ""), result
    lines = result.err.splitlines()
    assert len(lines) == 1, result
    for part in says:
        assert part in lines[0], result


# evaluate


@pytest.mark.parametrize("protocol", ["sampled", "popular", "full"])
def test_evaluate_as_json_is_the_summary_of_the_test_part(protocol: Any, trained: Path, ok: Ok) -> None:
    printed = json.loads(ok("evaluate", "mcne", "--protocol", protocol, "--json"))
    opened = training.Run.open(trained / "mcne")
    assert printed == evaluate(opened.embeddings, *opened.data(), part="test", protocol=protocol).summary()
    assert (printed["part"], printed["protocol"], list(printed["behaviors"])) == (
        "test", protocol, ["read [/b]", "single", "watch"],
    )  # fmt: skip


def test_evaluate_for_a_person(ok: Ok) -> None:
    printed = json.loads(ok("evaluate", "bpr", "--json"))
    lines = ok("evaluate", "bpr").splitlines()
    assert lines[0] == "bpr on [i]small, test part of random-0"
    assert "100 random items" in lines[1]
    at = next(k for k, line in enumerate(lines) if line.startswith("watch"))
    watch = printed["behaviors"]["watch"]
    names = ("recall", "ndcg", "hit_rate", "mrr", "pooled_recall", "hits_ideal_ndcg")
    for k, cutoff in enumerate((5, 10, 20)):
        shown = lines[at + k].split()[2 if k == 0 else 0 :]
        assert shown == [f"@{cutoff}", *(f"{100 * watch[f'{name}@{cutoff}']:.2f}" for name in names)]
    assert lines[at].split()[1] == str(watch["users"])
    mean = next(line for line in lines if line.startswith("mean")).split()
    assert mean[2] == f"{100 * printed['mean']['recall@5']:.2f}"


def test_evaluate_without_test_items(run: Run, trained: Path, tmp_path: Path) -> None:
    data = shutil.copytree(trained / "data", tmp_path / "data")
    assert run("data", "split", data, "--name", "all", "--ratios", "100,0,0").code == 0
    assert run("train", "popularity", "--data", data, "--out", tmp_path / "run", "--split", "all").code == 0
    result = run("evaluate", tmp_path / "run")
    assert result.code == 0
    assert re.search(r"^watch +0 +@5( +–){6}$", result.out, re.MULTILINE)


# recommend, similar


def test_recommend(trained: Path, ok: Ok) -> None:
    wanted = list(mcne.load(trained / "mcne").recommend(CURATOR, "watch", k=3))
    printed = json.loads(ok("recommend", "mcne", "--user", CURATOR, "--behavior", "watch", "-k", 3, "--json"))
    assert (printed["user_id"], printed["behavior"]) == (CURATOR, "watch")
    assert [(item["item_id"], item["score"]) for item in printed["items"]] == wanted
    lines = ok("recommend", "mcne", "--user", CURATOR, "--behavior", "watch", "-k", 3).splitlines()
    assert lines[0] == f"watch for user {CURATOR}"
    assert [line.split() for line in lines[2:]] == [
        [str(k), item, f"{score:.4f}"] for k, (item, score) in enumerate(wanted, start=1)
    ]


def test_names_are_shown_as_they_are(ok: Ok) -> None:
    lines = ok("recommend", "mcne", "--user", CURATOR, "--behavior", "read [/b]", "-k", 1).splitlines()
    assert lines[0] == f"read [/b] for user {CURATOR}"
    assert re.match(r"1  \[b\]\d+ ", lines[2])


def test_similar_on_a_behavior_and_in_the_whole_vector(trained: Path, ok: Ok) -> None:
    embeddings = mcne.load(trained / "mcne")
    for behavior, args in (("watch", ["--behavior", "watch"]), (None, [])):
        printed = json.loads(ok("similar", "mcne", "--user", CURATOR, *args, "-k", 4, "--json"))
        assert (printed["user_id"], printed["behavior"]) == (CURATOR, behavior)
        wanted = list(embeddings.similar_users(CURATOR, behavior, k=4))
        assert [(user["user_id"], user["score"]) for user in printed["users"]] == wanted
    assert ok("similar", "mcne", "--user", CURATOR).startswith(f"similar to user {CURATOR} on the whole vector\n")
    assert ok("similar", "mcne", "--user", CURATOR, "--behavior", "watch").count("\n") == 12


def test_more_than_there_is(run: Run, trained: Path) -> None:
    seen = len(mcne.load(trained / "mcne").space("watch").seen(7))
    result = run("recommend", trained / "mcne", "--user", CURATOR, "--behavior", "watch", "-k", 1000)
    assert result.code == 0
    assert len(result.out.splitlines()) == 2 + 30 - seen
    assert result.err == f"no more: watch has 30 items, user {CURATOR} has {seen} of them\n"
    result = run("similar", trained / "mcne", "--user", CURATOR, "-k", 1000)
    assert (result.code, len(result.out.splitlines())) == (0, 2 + 59)
    assert result.err == "no more: the network has 60 users\n"
    result = run("recommend", trained / "mcne", "--user", CURATOR, "--behavior", "watch", "-k", 1000, "--json")
    assert (result.err, len(json.loads(result.out)["items"])) == ("", 30 - seen)


def test_a_behavior_with_one_item(run: Run, trained: Path) -> None:
    has = run("recommend", trained / "mcne", "--user", "user-00", "--behavior", "single")
    assert (has.code, has.out) == (0, "single for user user-00\n")
    assert has.err == "no more: single has 1 items, user user-00 has 1 of them\n"
    lacks = run("recommend", trained / "mcne", "--user", "user-40", "--behavior", "single", "--json")
    assert [item["item_id"] for item in json.loads(lacks.out)["items"]] == ["only"]


def test_a_user_without_neighbors(ok: Ok) -> None:
    assert len(json.loads(ok("recommend", "mcne", "--user", ALONE, "--behavior", "watch", "--json"))["items"]) == 10
    assert len(json.loads(ok("similar", "mcne", "--user", ALONE, "--behavior", "watch", "--json"))["users"]) == 10
    shown = ok("explain", "mcne", "--user", ALONE, "--other", CURATOR)
    assert f"users {ALONE} and {CURATOR} are not linked\ncommon friends: 0\nno attention:" in shown


# explain


def friends(trained: Path) -> tuple[str, str]:
    embeddings = mcne.load(trained / "mcne")
    other = int(embeddings.graph.neighbors(7)[0])
    return CURATOR, str(embeddings.users[other])


def test_explain_as_json_is_the_explanation(trained: Path, ok: Ok) -> None:
    user, other = friends(trained)
    printed = json.loads(ok("explain", "mcne", "--user", user, "--other", other, "--json"))
    assert printed == json.loads(json.dumps(mcne.load(trained / "mcne").explain(user, other).to_json()))


def test_explain_for_a_person(trained: Path, ok: Ok) -> None:
    user, other = friends(trained)
    lines = ok("explain", "mcne", "--user", user, "--other", other).splitlines()
    assert lines[0] == f"users {user} and {other} are linked"
    explanation = mcne.load(trained / "mcne").explain(user, other)
    at = next(k for k, line in enumerate(lines) if line.startswith(f"{other} → {user}"))
    assert lines[at].split()[3:] == ["1", *(f"{weight:.3f}" for weight in explanation.messages[0].attention[0])]
    assert lines[at + 1].split() == ["2", *(f"{weight:.3f}" for weight in explanation.messages[0].attention[1])]
    watch = next(line for line in lines if line.startswith("watch")).split()
    assert watch[2] == f"{explanation.behaviors[2].likeness.cosine:.3f}"


@pytest.mark.parametrize(("method", "says"), [("bpr", "passes no messages"), ("mcne-a", "weighs all behaviors alike")])
def test_explain_says_why_there_is_no_attention(method: str, says: str, trained: Path, ok: Ok) -> None:
    user, other = friends(trained)
    assert says in ok("explain", method, "--user", user, "--other", other)


# export, load


@pytest.mark.parametrize("kind", ["parquet", "npz", "word2vec"])
def test_export(kind: str, ok: Ok, run: Run, trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    shown = run("export", trained / "mcne", "--format", kind, "--out", out)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines() == [str(path) for path in sorted(out.iterdir())]
    fails(run("export", trained / "mcne", "--format", kind, "--out", out), 2, "already exists")


def test_saved_embeddings_are_asked_like_a_run(run: Run, trained: Path, tmp_path: Path) -> None:
    load_embeddings(trained / "mcne").save(tmp_path / "saved")
    asked = ("--user", CURATOR, "--behavior", "watch", "--json")
    assert run("recommend", tmp_path / "saved", *asked) == run("recommend", trained / "mcne", *asked)


# mistakes


@pytest.mark.parametrize(
    ("command", "method", "args", "says"),
    [
        ("recommend", "mcne", ["--user", "user-7", "--behavior", "watch"], "unknown user 'user-7'; did you mean user-"),
        (
            "recommend",
            "mcne",
            ["--user", CURATOR, "--behavior", "wach"],
            "'wach'; did you mean 'watch'? Otherwise, choose one of read [/b], single, watch",
        ),
        ("recommend", "mcne", ["--user", CURATOR, "--behavior", "watch", "-k", "0"], "k: 0 is out of range"),
        ("similar", "mcne", ["--user", "nobody"], "unknown user 'nobody'"),
        ("similar", "mcne", ["--user", CURATOR, "--behavior", "Watch"], "did you mean 'watch'?"),
        ("similar", "mcne", ["--user", CURATOR, "-k", "-1"], "k: -1 is out of range"),
        ("similar", "popularity", ["--user", CURATOR], "'popularity' has no vectors"),
        ("explain", "mcne", ["--user", CURATOR, "--other", "user-"], "unknown user 'user-'"),
        ("explain", "mcne", ["--user", CURATOR, "--other", CURATOR], "is given twice"),
        ("export", "popularity", ["--format", "word2vec", "--out", "new"], "'popularity' has no vectors"),
    ],
)
def test_wrong_usage(
    command: str,
    method: str,
    args: list[str],
    says: str,
    run: Run,
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    fails(run(command, trained / method, *args), 2, says)
    assert list(tmp_path.iterdir()) == []


QUERIES = [
    ("evaluate",),
    ("recommend", "--user", CURATOR, "--behavior", "watch"),
    ("similar", "--user", CURATOR),
    ("explain", "--user", CURATOR, "--other", ALONE),
    ("export", "--format", "npz", "--out", "new"),
]


@pytest.mark.parametrize("query", QUERIES, ids=[query[0] for query in QUERIES])
def test_what_is_no_finished_run(query: tuple[str, ...], run: Run, trained: Path, tmp_path: Path) -> None:
    command, *args = query
    nowhere = run(command, tmp_path / "nowhere", *args)
    fails(nowhere, 4, "nowhere: no ")
    unfinished = Path(shutil.copytree(trained / "mcne", tmp_path / "unfinished"))
    (unfinished / "result.json").unlink()
    fails(run(command, unfinished, *args), 4, "is not finished; continue it with: mcne train mcne", "--resume")


@pytest.mark.parametrize("query", QUERIES, ids=[query[0] for query in QUERIES])
def test_a_flipped_byte_is_noticed(query: tuple[str, ...], run: Run, trained: Path, tmp_path: Path) -> None:
    command, *args = query
    place = Path(shutil.copytree(trained, tmp_path / "copy"))
    file = place / "mcne" / "embeddings" / "vectors.npy"
    damaged = bytearray(file.read_bytes())
    damaged[-5] ^= 16
    file.write_bytes(damaged)
    fails(run(command, place / "mcne", *args), 5, "vectors.npy: its sha256 does not match")


def test_the_dataset_must_be_the_one_of_the_training(run: Run, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained / "mcne", tmp_path / "mcne")
    fails(run("evaluate", tmp_path / "mcne"), 4, "no longer exists")
    assert run("data", "synthetic", "--out", tmp_path / "data", "--users", 500).code == 0
    fails(run("evaluate", tmp_path / "mcne"), 5, "mcne: was trained on dataset ", "is now")


def test_a_dataset_is_no_run(run: Run, trained: Path) -> None:
    fails(run("evaluate", trained / "data"), 4, "not a run: run.json is missing")
    fails(run("similar", trained / "data", "--user", 1), 5, "is a dataset, not a run")
    fails(run("similar", trained, "--user", 1), 4, "not a run or saved embeddings", "train a run with: mcne train")


# doctor


def test_doctor(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = json.loads(run("doctor", "--json").out)
    assert (printed["mcne"], printed["torch"]["version"]) == (mcne.__version__, torch.__version__)
    assert printed["cores"] >= 1
    assert printed["packages"]["numpy"] == np.__version__
    shown = run("doctor")
    assert (shown.code, shown.err) == (0, "")
    assert f"numpy {np.__version__}" in shown.out


def test_doctor_names_problems(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=10))
    monkeypatch.setattr(machine, "CORE", (*machine.CORE, "no-such-package"))
    monkeypatch.setitem(sys.modules, "torch", None)
    result = run("doctor")
    assert result.code == 0
    assert "problem: less than 1 GiB free in" in result.out
    assert "problem: no-such-package is not installed: pip install no-such-package" in result.out
    assert "problem: PyTorch cannot be imported" in result.out


# what they import


@pytest.mark.parametrize("query", [("--help",), ("train", "--help"), *QUERIES[:4]], ids=lambda query: query[0])
def test_none_needs_torch(query: tuple[str, ...], trained: Path) -> None:
    command, *args = query
    heavy = ["torch", "numba"] + (["numpy", "scipy", "pyarrow"] if "--help" in query else [])
    place = [] if "--help" in query else [str(trained / "mcne")]
    code = f"""
import sys
sys.argv = {["mcne", command, *place, *args]!r}
from mcne.cli.main import main
try:
    main()
except SystemExit as left:
    assert not left.code, left.code
assert not [name for name in {heavy!r} if name in sys.modules]
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
