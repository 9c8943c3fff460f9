"""Files in the formats of version 0.1, as it wrote them to ``written_by_0_1/``, and what is read back from them.

Run as a program this wrote them, in a place of its own and then here; it never replaces them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.fingerprints.fingerprinting import HERE, Print, mcne, of_directory, of_json, one_thread, options, write_kept
from tests.fingerprints.method_prints import answers
from tests.fingerprints.study_prints import BEHAVIORS, write_tables

FOLDER = HERE / "written_by_0_1"
KEPT = "written_by_0_1.json"
WRITTEN_IN = Path("/tmp/written_by_0_1")
"""Where they were made: runs keep the whole path of their dataset."""

SEED = 5
MCNE: dict[str, Any] = {
    "widths": [4, 3],
    "neighbor_samples": [2],
    "attention_width": 2,
    "batch_size": 32,
    "learning_rate": 0.05,
    "epochs": 3,
}
PLAN = """
title = "Two methods"
command = "mcne compare"
repetitions = 1
search = 2
reference = "bpr"
[training]
epochs = 1
[methods.popularity]
[methods.bpr]
settings = { width = 2, batch_size = 64 }
[methods.bpr.search]
l2 = [0.001, 0.1]
"""


def write(place: Path) -> None:
    """Make everything in a new place, from tables on."""
    write_tables(place / "tables", users=12, items=12, records=3)
    for name, behaviors in (("earlier", BEHAVIORS[:-1]), ("later", BEHAVIORS[-1:])):
        records = ("--interactions", place / "tables" / "all.csv", "--links", place / "tables" / "links.csv")
        users = ("--users", place / "tables" / "users.csv", "--name", "tiny")
        mcne("data", "prepare", "files", *records, *users, "--behaviors", ",".join(behaviors), "--out", place / name)
    mcne("data", "split", place / "earlier", "--name", "random-0")
    mcne("train", "mcne", *_training(place, "run"), *options(MCNE))
    interrupted = (*_training(place, "interrupted"), *options(MCNE), "--set=keep_checkpoints=1")
    mcne("train", "mcne", *interrupted, code=143, stopped_at="epoch 1/3")
    mcne("train", "ease", *_training(place, "without-vectors"))
    (place / "plan.toml").write_text(PLAN)
    compare(place, "finished")
    compare(place, "unfinished", code=143, stopped_at="popularity-r0")
    given = ("--data", place / "later", "--behavior", BEHAVIORS[-1], "--out", place / "transferred")
    mcne("transfer", place / "run", *given, "--device", "cpu", "--seed", SEED, *options({"epochs": 1}))
    (place / "new-links.csv").write_text("source_id,target_id\n90,3\n90,4\n")
    mcne("embed-users", place / "run", "--links", place / "new-links.csv", "--out", place / "embeddings")
    asked = ("--data", place / "earlier", "--out", place / "sweep", "--repetitions", 1, "--device", "cpu")
    mcne("sweep", "bpr", *asked, "--set", "width=2,3", "--set", "epochs=1")
    for name, args in {"map": ("map",), "attention": ("attention", "--draws", 2)}.items():
        mcne("plot", args[0], place / "run", *args[1:], "--out", place / f"{name}.svg")
        (place / f"{name}.svg").unlink()  # none of the formats that are read


def compare(place: Path, name: str, **ending: Any) -> str:
    """Begin the comparison in a directory, or go on with it."""
    given = ("--data", place / "earlier", "--out", place / name, "--device", "cpu")
    return mcne("compare", place / "plan.toml", *given, **ending)


def resume(place: Path, name: str = "interrupted") -> str:
    """Go on with a training that was interrupted."""
    return mcne("train", "mcne", *_training(place, name), "--resume")


def _training(place: Path, out: str) -> tuple[object, ...]:
    return ("--data", place / "earlier", "--out", place / out, "--device", "cpu", "--seed", SEED)


def copied(place: Path) -> Path:
    """A copy that can be written to, where runs find their dataset."""
    shutil.copytree(FOLDER, place)
    for path in place.rglob("run.json"):
        path.write_text(path.read_text().replace(str(WRITTEN_IN), str(place)))
    return place


def read_back(place: Path, out: Path) -> Print:
    """What the command line reads in a copy of the files; it writes to ``out``, and to none of them."""
    out.mkdir()
    prints: Print = {}
    for name in ("earlier", "later"):
        prints[f"describe {name}"] = _json("data", "describe", place / name, "--json")
        mcne("data", "export", place / name, "--out", out / name, "--format", "csv")
        prints[f"export {name}"] = of_directory(out / name)
    for name in ("run", "without-vectors", "transferred"):
        for protocol in ("sampled", "full", "popular"):
            prints[f"evaluate {name}, {protocol}"] = _json("evaluate", place / name, "--protocol", protocol, "--json")
    for name in ("run", "transferred", "embeddings"):
        prints[f"ask {name}"] = of_json(answers(place / name, BEHAVIORS[0]), floats_exact=False)
        for file_format in ("npz", "word2vec", "parquet"):
            mcne("export", place / name, "--out", out / f"{name}-{file_format}", "--format", file_format)
            prints[f"export {name}, {file_format}"] = of_directory(out / f"{name}-{file_format}")
    asked = ("--user", 90, "--behavior", BEHAVIORS[0], "--json")
    prints["recommend to a new user"] = _json("recommend", place / "embeddings", *asked)
    drawn = {"sweep": ("sweep", place / "sweep"), "map": ("map", place / "map.json")}
    drawn |= {"attention": ("attention", place / "attention.json"), "curves": ("curves", place / "run")}
    for name, args in drawn.items():
        prints[f"plot {name}"] = _json("plot", *args, "--out", out / f"{name}.png", "--json")
    return prints


def _json(*args: object) -> Print:
    return of_json(json.loads(mcne(*args)), floats_exact=False)


def main() -> None:
    if FOLDER.exists():
        raise SystemExit(f"{FOLDER}: is there already, and what an earlier version wrote cannot be written again")
    mcne("--version")  # which sets what libraries read when they are imported
    with one_thread():
        write(WRITTEN_IN)
        shutil.copytree(WRITTEN_IN, FOLDER)
        write_kept(KEPT, read_back(WRITTEN_IN, WRITTEN_IN / "out"))
    shutil.rmtree(WRITTEN_IN)


if __name__ == "__main__":
    main()
