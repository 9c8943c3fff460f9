"""How much network structure the vectors preserve: train without some links, then predict them.

Whole and conditional vectors are compared with scores that need no training.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mcne import __version__, training
from mcne.analysis import links
from mcne.analysis.links import HeldOut, Pairs, Scores, hold_out
from mcne.data.dataset import SocialDataset
from mcne.data.split import Split, random_split
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.errors import ArtifactError, DivergedError, MCNEError, UnknownError, UsageError
from mcne.files import read_json, write_json
from mcne.models.registry import METHODS, entry, present_name, refusal, refuse_former_settings, setting_names
from mcne.models.settings import read_pairs
from mcne.studies import engine
from mcne.studies.engine import CELLS, RECORDS, RUN, Kind, Result, Say, Task, percent, spread_of
from mcne.text import NO_VALUE, Table, markdown_page
from mcne.training import Run, RunSpec, resolved

if TYPE_CHECKING:
    import torch

STUDY = RECORDS[Kind.structure]
KIND = "mcne structure"
RESULT, PAGE = "structure.json", "structure.md"
SIMILARITIES = {"inner product": links.inner_product_scores, "cosine": links.cosine_scores}
METRICS = ("auc", "ap")
NEEDED = ("rows",)
AGAINST = {"uniform": "any two users", "degree": "users with as many friends as those of held-out links"}
"""The pairs that links are told from."""

Row = dict[str, Any]
"""``behavior`` (None: the whole vector), ``similarity``, and by the kind of other pairs ``auc`` and ``ap``."""


@dataclass(frozen=True, eq=False)
class Repetition:
    """The network without the held-out links of one repetition, whose number seeds everything drawn for it."""

    number: int
    held_out: HeldOut
    dataset: SocialDataset  # in which nobody can see the held-out links
    split: Split

    @classmethod
    def of(cls, dataset: SocialDataset, number: int, *, share: float) -> Repetition:
        """Hold out a share of the links; interactions and their parts are those of split ``random-NUMBER``."""
        held_out = hold_out(dataset.graph, share=share, seed=number)
        thinned = dataclasses.replace(dataset, graph=held_out.graph)
        return cls(number, held_out, thinned, random_split(thinned, seed=number))


@dataclass(frozen=True)
class StructureStudy:
    """Methods with their settings, and how many times which share of the links is held out."""

    dataset: SocialDataset
    out: Path
    share: float
    repetitions: int
    methods: Mapping[str, Mapping[str, Any]]  # by name: the settings given

    def __post_init__(self) -> None:
        if not self.methods:
            raise UsageError("no methods are named", "--methods", "name some, such as --methods mcne,node2vec,line")
        if self.repetitions < 1:
            raise UsageError(
                f"{self.repetitions} is out of range", "repetitions", "use 1 or more", value=self.repetitions
            )
        for method, settings in self.methods.items():
            if entry(method).gives != "vectors":
                able = [name for name, each in METHODS.items() if each.gives == "vectors"]
                raise UsageError(
                    f"{method} has no user vectors to compare",
                    "--methods",
                    f"choose one of {', '.join(able)}",
                    value=method,
                    allowed=able,
                )
            if refused := refusal(method, self.dataset, is_alone=False):
                raise refused
            resolved(method, settings)  # refuses a wrong setting
        hold_out(self.dataset.graph, share=self.share, seed=0)  # refuses a share or a network that cannot be used

    def open(self) -> None:
        """Start or continue in the directory; methods and repetitions are added to those of earlier commands."""
        methods = {method: list(resolved(method, settings)) for method, settings in self.methods.items()}
        study = {"kind": KIND, "dataset": self.dataset.fingerprint, "share": self.share}
        study |= {"repetitions": self.repetitions, "methods": methods}
        with engine.claimed(self.out, Kind.structure):
            if (self.out / STUDY).is_file():
                before = read_study(self.out)
                for key in ("dataset", "share"):
                    if before[key] != study[key]:
                        raise UsageError(
                            f"already contains a study with another {key} ({str(before[key])[:12]}; this one is "
                            f"{str(study[key])[:12]})",
                            self.out,
                            "choose another --out",
                            value=study[key],
                            allowed=[before[key]],
                        )
                for method, settings in methods.items():
                    if before["methods"].get(method, settings) != settings:
                        raise UsageError(
                            f"already contains {method} with other settings",
                            self.out,
                            "choose another --out",
                            value=method,
                        )
                study["repetitions"] = max(before["repetitions"], self.repetitions)
                study["methods"] = {**before["methods"], **methods}
            write_json(self.out / STUDY, study)

    def run(self, *, device: str, say: Say) -> dict[str, MCNEError]:
        """Train and measure every method in every repetition that is not done; failures by name."""
        tasks = []
        for number in range(self.repetitions):
            repetition = Repetition.of(self.dataset, number, share=self.share)
            n_held_out = len(repetition.held_out.links)
            say(f"repetition {number}: {n_held_out:,} of {_n_links(self.dataset):,} links held out")
            for method, settings in self.methods.items():
                directory = cell_directory(self.out, method, resolved(method, settings), repetition)
                work = partial(run_cell, method, settings, repetition)
                tasks.append(Task(directory, work, f"{method}, repetition {number}", needs=NEEDED))
        return engine.run_missing(tasks, "repetitions", device=device, say=say, about=_about)


def read_study(out: Path) -> dict[str, Any]:
    """The study in a directory: everything requested there so far."""
    study = read_json(out / STUDY, step="choose another --out")
    missing = {"dataset", "share", "repetitions", "methods"} - set(study)
    if missing or study.get("kind") != KIND:
        raise ArtifactError(
            f"is damaged (no {', '.join(sorted(missing)) or 'kind'})", out / STUDY, "choose another --out"
        )
    methods = study["methods"].items()
    return study | {"methods": {present_name(name, settings[0]): settings for name, settings in methods}}


def settings_by_method(methods: Sequence[str], pairs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The settings of each method by ``--set``: ``epochs=5`` is for all that have it, ``mcne.epochs=5`` for one."""
    known = {name: setting_names(name) for name in methods}
    if len(known) < len(methods):
        raise UsageError(
            "a method is named twice", f"--methods {','.join(methods)}", "name each method once", value=list(methods)
        )
    values = read_pairs(pairs)
    all_names = dict.fromkeys(name for names in known.values() for name in names)
    for key in values:
        method, dot, _ = key.partition(".")
        if dot and method not in known:
            raise UnknownError.of("method", method, methods, place=f"--set {key}")
        if not dot and key not in all_names:
            for name in methods:
                refuse_former_settings(name, [key])
            raise UnknownError.of("setting", key, all_names, place=f"--set {key}")
    settings = {}
    for method, names in known.items():
        prefix = f"{method}."
        own = {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}
        settings[method] = {key: value for key, value in values.items() if key in names} | own
    return settings


# one training


def cell_directory(out: Path, method: str, settings: Sequence[Mapping[str, Any]], repetition: Repetition) -> Path:
    """Where a training is kept; the name depends on everything that decides its result."""
    config, schedule = settings
    prints = repetition.dataset.fingerprint, repetition.split.fingerprint
    spec = RunSpec(method, "joint", config, schedule, repetition.number, *prints)
    others = {kind: hashlib.sha256(pairs.tobytes()).hexdigest() for kind, pairs in repetition.held_out.others.items()}
    identity = json.dumps([spec.identity, others], sort_keys=True)
    digest = hashlib.sha256(identity.encode() + repetition.held_out.links.tobytes()).hexdigest()
    return engine.begun(out / CELLS / f"{method}-r{repetition.number}-{digest[:12]}", method)


def run_cell(
    method: str, settings: Mapping[str, Any], repetition: Repetition, directory: Path, device: torch.device, _jobs: int
) -> dict[str, Any]:
    """Train and measure; a training that diverged is a result too, as it would diverge again."""
    started = time.perf_counter()
    result: dict[str, Any] = {"method": method, "repetition": repetition.number, "version": __version__}
    try:
        run = trained(method, repetition, directory / RUN, settings=settings, device=device)
        rows = list(measured(run.embeddings, repetition.held_out))
        result |= {**run.result, "fingerprint": run.fingerprint, "rows": rows}
    except DivergedError as error:
        result |= {"diverged": str(error), "rows": []}
    return result | {"seconds": time.perf_counter() - started}


def trained(
    method: str, repetition: Repetition, path: Path, *, settings: Mapping[str, Any], device: torch.device
) -> Run:
    """The run of a method on the network without the held-out links."""
    dataset, split, seed = repetition.dataset, repetition.split, repetition.number
    places = {"dataset": "", "split": f"random-{seed}"}
    fitting = training.Training(method, dataset, split, settings=settings, seed=seed, device=device, places=places)
    return fitting.run(path, resume=True)


def measured(embeddings: ConditionalEmbeddings, held_out: HeldOut) -> Iterator[Row]:
    """How well whole vectors, and conditional vectors if behaviors differ, tell links from other pairs."""
    spaces = embeddings.spaces
    is_conditional = any(space.user_vectors is not None or not np.all(space.mask) for space in spaces)
    for behavior in (None, *(embeddings.behavior_names if is_conditional else ())):
        vectors, mask = embeddings.matrix_and_mask(behavior)
        for similarity, score in SIMILARITIES.items():
            figures = _figures(held_out, partial(score, vectors, mask))
            yield {"behavior": behavior, "similarity": similarity, **figures}


def _figures(held_out: HeldOut, score: Callable[[Pairs], Scores]) -> dict[str, dict[str, float]]:
    held = score(held_out.links)
    return {kind: links.told_apart(held, score(pairs)) for kind, pairs in held_out.others.items()}


def _about(cell: Result) -> str:
    if "diverged" in cell:
        return f"diverged ({cell['diverged']})"
    best = max(cell["rows"], key=lambda row: float(row["degree"]["auc"]))
    what = "whole vectors" if best["behavior"] is None else best["behavior"]
    return f"AUC {best['degree']['auc']:.1%} at best ({what}, {best['similarity']}), {cell['seconds']:.0f} s"


# results


def collect(dataset: SocialDataset, out: Path) -> dict[str, Any]:
    """Means and standard deviations over finished repetitions, of everything requested in the directory."""
    study = read_study(out)
    repetitions = [Repetition.of(dataset, number, share=study["share"]) for number in range(study["repetitions"])]
    rows = []
    for name, score in links.HEURISTICS.items():  # without training, on the same network
        figures = [_figures(each.held_out, partial(score, each.held_out.graph.symmetric())) for each in repetitions]
        no_vectors = {"behavior": None, "similarity": None}
        rows.append(_summary(name, [no_vectors | each for each in figures], trained=False))
    lacking: dict[str, str] = {}
    epochs: dict[str, list[tuple[int, int]]] = {}
    for method, settings in study["methods"].items():
        directories = [cell_directory(out, method, settings, repetition) for repetition in repetitions]
        results = {each.name: engine.result_of(each, needs=NEEDED) for each in directories}
        cells = [result for result in results.values() if result is not None]
        by_vectors: dict[tuple[Any, Any], list[Row]] = {}
        for row in (row for cell in cells for row in cell["rows"]):
            by_vectors.setdefault((row["behavior"], row["similarity"]), []).append(row)
        rows += [_summary(method, each, trained=True) for each in by_vectors.values()]
        epochs[method] = [(cell["best_epoch"], cell["epochs"]) for cell in cells if cell.get("best_epoch")]
        if lacks := engine.lacking(results, {}):
            lacking[method] = lacks
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


def write(results: Mapping[str, Any], out: Path) -> list[Path]:
    """Write the results and their page; returns the paths."""
    return engine.write_results(out, {PAGE: page(results)}, RESULT, results)


def page(results: Mapping[str, Any]) -> str:
    """A table for each kind of pairs that links are told from, as Markdown."""
    data = results["dataset"]
    times = results["repetitions"]
    least, most = (f"{bound(results['held_out_links']):,}" for bound in (min, max))
    held_out = least if least == most else f"{least} to {most}"
    epochs = {method: ", ".join(f"{best} of {n}" for best, n in each) for method, each in results["epochs"].items()}
    kept = "; ".join(f"{method} {each or NO_VALUE}" for method, each in epochs.items())
    about = [
        f"{data['name']}: {data['users']:,} users, dataset {data['fingerprint'][:12]}; {held_out} of "
        f"{results['links']:,} links held out (a share of {results['share']:g} was asked for, and nobody loses the "
        f"last link), as many pairs without a link against them, {times} repetition{'s' * (times > 1)}. Methods learn "
        "from the other links.",
        "Every method has its own settings, and of its epochs the one is kept that ranks validation items best, not "
        f"links. Epochs kept, of those trained: {kept}.",
        "In percent, mean ± standard deviation over repetitions.",
        *(f"{method}: {lacks}" for method, lacks in results["lacking"].items()),
    ]
    header = ("", "similarity", "AUC", "average precision")
    tables = [Table(f"Links told from {AGAINST[kind]}", header, lines(results, kind)) for kind in AGAINST]
    return markdown_page(f"Structure preserved: {data['name']}", about, tables)


def lines(results: Mapping[str, Any], kind: str) -> tuple[tuple[str, ...], ...]:
    """The cells of a table for people: a line per method, vector and similarity."""
    cells = []
    for row in results["rows"]:
        label = ", ".join(filter(None, (row["method"], row["behavior"])))  # no behavior of whole vectors
        cells.append((label, row["similarity"] or "", *(percent(row[kind][metric]) for metric in METRICS)))
    return tuple(cells)


def _summary(method: str, rows: Sequence[Row], *, trained: bool) -> dict[str, Any]:
    summary: dict[str, Any] = {"method": method, "trained": trained, "finished": len(rows)}
    summary |= {key: rows[0][key] for key in ("behavior", "similarity")}
    for kind in AGAINST:
        values = {metric: [row[kind][metric] for row in rows] for metric in METRICS}
        summary[kind] = {metric: {**(spread_of(each) or {}), "values": each} for metric, each in values.items()}
    return summary


def _n_links(dataset: SocialDataset) -> int:
    """Pairs of two users who are linked, in a directed network of whom either follows the other."""
    pairs = dataset.graph.symmetric()
    return pairs.n_links - pairs.n_self_links()
