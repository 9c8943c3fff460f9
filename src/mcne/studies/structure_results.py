"""Run what is missing of a study, and what it has found: ``structure.json`` with every number, ``structure.md``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcne.data.dataset import SocialDataset
from mcne.errors import Interrupted
from mcne.files import locked, overwrite, write_json
from mcne.studies.structure import Repetition, Study, cell_directory, read_study
from mcne.studies.structure_cell import Row, heuristics, is_done, read_cell, run_cell
from mcne.studies.summary import Spread
from mcne.text import Table, markdown_page, percent_with_spread
from mcne.training import resolved

if TYPE_CHECKING:
    import torch

RESULT, PAGE = "structure.json", "structure.md"
KINDS = ("uniform", "degree")
METRICS = ("auc", "ap")

Say = Callable[[str], None]


def run(study: Study, *, device: torch.device, say: Say) -> None:
    """Train and measure every method in every repetition that is not done yet."""
    for number in range(study.repetitions):
        repetition = Repetition.of(study.dataset, number, share=study.share)
        say(f"repetition {number}: {len(repetition.held_out.links):,} of {_n_links(study.dataset):,} links held out")
        for method, given in study.methods.items():
            directory = cell_directory(study.out, method, resolved(method, given), repetition)
            try:
                run_cell(method, repetition, directory, given=given, device=device)
            except Interrupted as error:
                said = f"{method}, repetition {number}: stopped, with a checkpoint; the same command goes on"
                raise Interrupted(said, signal_number=error.signal_number) from error
            say(f"{method}, repetition {number}: {_outcome(read_cell(directory))}")


def collect(dataset: SocialDataset, out: Path) -> dict[str, Any]:
    """Of everything ever asked for in the directory, means and standard deviations over finished repetitions."""
    study = read_study(out)
    repetitions = [Repetition.of(dataset, number, share=study["share"]) for number in range(study["repetitions"])]
    simple = [heuristics(repetition.held_out) for repetition in repetitions]
    rows = [_summary(name, [each[name] for each in simple], trained=False) for name in simple[0]]
    lacking: dict[str, str] = {}
    epochs: dict[str, list[tuple[int, int]]] = {}
    for method, settings in study["methods"].items():
        places = [cell_directory(out, method, settings, repetition) for repetition in repetitions]
        cells = [read_cell(place) for place in places if is_done(place)]
        rows += _summaries(method, cells)
        epochs[method] = [(cell["best_epoch"], cell["epochs"]) for cell in cells if cell.get("best_epoch")]
        diverged = [cell["diverged"] for cell in cells if "diverged" in cell]
        lacks = [f"{len(places) - len(cells)} not finished"] if len(cells) < len(places) else []
        lacks += [f"{len(diverged)} diverged ({diverged[0]})"] if diverged else []
        lacking |= {method: ", ".join(lacks)} if lacks else {}
    return {
        "dataset": {"name": dataset.name, "fingerprint": dataset.fingerprint, "users": dataset.n_users},
        "behaviors": dataset.behavior_names,
        "share": study["share"],
        "repetitions": study["repetitions"],
        "links": _n_links(dataset),
        "held_out_links": [len(repetition.held_out.links) for repetition in repetitions],
        "methods": study["methods"],
        "epochs": epochs,
        "rows": rows,
        "lacking": lacking,
    }


def write(found: Mapping[str, Any], out: Path) -> list[Path]:
    """Keep the result and its page; returns their paths."""
    with locked(out, wait=True):
        overwrite(out / PAGE, page(found).encode())
        write_json(out / RESULT, found)
    return [out / PAGE, out / RESULT]


def page(found: Mapping[str, Any]) -> str:
    """A table for each kind of pairs that links are told from, as Markdown."""
    data, counts, times = found["dataset"], found["held_out_links"], found["repetitions"]
    held = f"{min(counts):,}" if min(counts) == max(counts) else f"{min(counts):,} to {max(counts):,}"
    about = [
        f"{data['name']}: {data['users']:,} users, dataset {data['fingerprint'][:12]}; {held} of {found['links']:,} "
        f"links held out (a share of {found['share']:g} was asked for, and nobody loses the last link), as many pairs "
        f"without a link against them, {times} repetition{'s' * (times > 1)}. Methods learn from the other links.",
        "Every method has its own settings, and of its epochs the one is kept that ranks validation items best, not "
        f"links. Epochs kept, of those trained: {_kept(found['epochs'])}.",
        "In percent, mean ± standard deviation over repetitions.",
        *(f"{method}: {lacks}" for method, lacks in found["lacking"].items()),
    ]
    against = {"uniform": "any two users", "degree": "users with as many friends as those of held-out links"}
    tables = [
        Table(f"Links told from {against[kind]}", ("", "similarity", "AUC", "average precision"), lines(found, kind))
        for kind in KINDS
    ]
    return markdown_page(f"Structure preserved: {data['name']}", about, tables)


def lines(found: Mapping[str, Any], kind: str) -> tuple[tuple[str, ...], ...]:
    """The cells of a table for people: a line per method, vector and similarity."""
    return tuple(
        (label(row), row["similarity"] or "", *(_text(row[kind][metric]) for metric in METRICS))
        for row in found["rows"]
    )


def label(row: Mapping[str, Any]) -> str:
    """The method, and the behavior whose conditional vectors are meant."""
    return str(row["method"]) if row["behavior"] is None else f"{row['method']}, {row['behavior']}"


def _summaries(method: str, cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row for every vector and similarity of a method."""
    by_row: dict[tuple[Any, Any], list[Row]] = {}
    for cell in cells:
        for row in cell["rows"]:
            by_row.setdefault((row["behavior"], row["similarity"]), []).append(row)
    return [_summary(method, rows, trained=True) for rows in by_row.values()]


def _summary(method: str, rows: Sequence[Row], *, trained: bool) -> dict[str, Any]:
    said: dict[str, Any] = {"method": method, "trained": trained, "finished": len(rows)}
    said |= {key: rows[0][key] for key in ("behavior", "similarity")}
    for kind in KINDS:
        said[kind] = {}
        for metric in METRICS:
            values = [row[kind][metric] for row in rows]
            spread = Spread.of(values)
            assert spread is not None
            said[kind][metric] = asdict(spread) | {"values": values}
    return said


def _n_links(dataset: SocialDataset) -> int:
    """Links between two users, each once."""
    return (dataset.graph.n_links - dataset.graph.n_self_links()) // 2


def _kept(epochs: Mapping[str, Sequence[tuple[int, int]]]) -> str:
    told = {method: ", ".join(f"{best} of {trained}" for best, trained in each) for method, each in epochs.items()}
    return "; ".join(f"{method} {each or '–'}" for method, each in told.items())


def _outcome(cell: Mapping[str, Any]) -> str:
    if "diverged" in cell:
        return f"diverged ({cell['diverged']})"
    best = max(cell["rows"], key=lambda row: float(row["degree"]["auc"]))
    what = "whole vectors" if best["behavior"] is None else best["behavior"]
    return f"AUC {best['degree']['auc']:.1%} at best ({what}, {best['similarity']}), {cell['seconds']:.0f} s"


def _text(spread: Mapping[str, Any]) -> str:
    return percent_with_spread(spread["mean"], spread["sd"])
