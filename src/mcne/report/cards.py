"""Cards: what the data hold, what the model is for and where its limits are, and how to make the run again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mcne.data.dataset import SocialDataset
from mcne.data.describe import describe, describe_split
from mcne.data.negatives import COUNT
from mcne.data.split import Split
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.models.registry import entry
from mcne.models.saved import saved
from mcne.models.settings import parse
from mcne.report.page import Part, facts
from mcne.text import (
    Html,
    Table,
    bullet_list,
    code,
    count_cell,
    element,
    human_bytes,
    number_cell,
    paragraph,
    percent_cell,
)
from mcne.training import Run
from mcne.training.run import LEARNED, TRANSFER, read_spec

ABOUT_TRANSFER = (
    "A trained MCNE with a behavior that was added later: only that behavior's masks and items were learned here, and "
    "everything that the model had served before is as it was."
)
NOT_FOR = (
    "Decisions about people, such as credit, work, insurance or housing: the vectors hold who knows whom and who "
    "likes what, and nothing here was checked for fairness between groups.",
    "Finding out what users have not told. Who is near whom may give away what they keep to themselves; treat vectors "
    "as carefully as the records that they were learned from.",
    "Other networks, or users and items that were not in the data: those have no vector here.",
    "Probabilities: scores rank the items of one behavior for one user, and mean nothing beyond that order.",
)
MEANS_NO_CAUSE = "Attention and dimensions tell what the model weighed, not why two people became friends."
NAMED = frozenset({"report", "fingerprint"})  # what a provenance tells that the page has elsewhere


# The data


def data_card(dataset: SocialDataset, split: Split | None, *, split_name: str = "") -> list[Part]:
    """Users, links, behaviors and items, how they overlap, how they are split, and what preparing them dropped."""
    description = describe(dataset)
    behaviors = description["behaviors"]
    is_directed = description["directed"]
    sizes = [
        ("dataset", str(description["name"])),
        ("users", count_cell(description["users"])),
        ("directed links" if is_directed else "links", count_cell(description["links"])),
        (
            f"{'followed' if is_directed else 'links'} per user, median",
            number_cell(description["degree"]["median"], "g"),
        ),
        ("behaviors", count_cell(len(behaviors))),
        ("items", count_cell(sum(behavior["items"] for behavior in behaviors))),
        ("records", count_cell(sum(behavior["interactions"] for behavior in behaviors))),
        ("users without links", count_cell(description["users_without_links"])),
        ("users without records", count_cell(description["users_without_records"])),
        ("fingerprint", code(description["fingerprint"][:12])),
    ]
    parts: list[Part] = [facts(sizes), _behaviors(description)]
    if any(behavior["likeness"]["links"] for behavior in behaviors):
        parts.append(_likeness(description))
    if description["overlap"]:
        head = ["behaviors", "users with both", "of those with either, %"]
        pairs = description["overlap"]
        rows = [[" and ".join(p["behaviors"]), count_cell(p["users"]), percent_cell(p["share"])] for p in pairs]
        parts.append(Table("Users with two behaviors", head, rows).folded())
    if split is not None:
        parts.append(_split(describe_split(dataset, split), split_name))
        parts += [f"Note of the split: {note}" for note in split.notes]
    if dataset.report is not None:
        parts += ["What became of the rows that were read:", bullet_list(dataset.report.lines())]
    return parts


def _behaviors(description: Mapping[str, Any]) -> Table:
    head = ["behavior", "items", "records", "users", "users without, %", "density, %", "items seen once, %", "timed"]
    shares = {"cold_user_share": 1, "density": 3, "single_record_item_share": 1}  # and digits of their percents
    rows = []
    for behavior in description["behaviors"]:
        counts = [count_cell(behavior[key]) for key in ("items", "interactions", "users")]
        percents = [percent_cell(behavior[key], digits) for key, digits in shares.items()]
        rows.append([behavior["name"], *counts, *percents, "yes" if behavior["timestamps"] else "no"])
    return Table("Behaviors", head, rows)


def _likeness(description: Mapping[str, Any]) -> Table:
    head = ["behavior", "friends", "any two users", "times as alike", "standard error of it", "links", "compared"]
    digits = {"friends": "#.2g", "chance": "#.2g", "ratio": ".2f", "ratio_error": ".2f"}
    rows = []
    for behavior in description["behaviors"]:
        alike = behavior["likeness"]
        values = (number_cell(alike[key], form) for key, form in digits.items())
        rows.append([behavior["name"], *values, count_cell(alike["links"]), count_cell(alike["compared"])])
    return Table("How alike friends are: mean cosine of their items, and that of any two users", head, rows)


def _split(description: Mapping[str, Any], name: str) -> Table:
    head = ["behavior", "train", "validation", "test", "test users", "new to it, %", "test on new items, %"]
    rows = []
    for behavior in description["behaviors"]:
        counts = [count_cell(behavior[key]) for key in ("train", "validation", "test", "test_users")]
        shares = [percent_cell(behavior[key]) for key in ("test_users_without_training", "test_on_untrained_items")]
        rows.append([behavior["name"], *counts, *shares])
    settings = ", ".join(f"{key} {value}" for key, value in description["settings"].items())
    return Table(f"Split {name} ({settings}), fingerprint {description['fingerprint'][:12]}: records", head, rows)


# The model


def model_card(run: Run, embeddings: ConditionalEmbeddings | None, data: tuple[SocialDataset, Split] | None) -> Html:
    """The card, from the run itself; without the data it says less."""
    method = run.spec.method
    about = [ABOUT_TRANSFER if method == TRANSFER else entry(method).summary]
    if run.spec.mode == "separate":
        about.append("Every behavior was learned by a model of its own.")
    if embeddings is not None and embeddings.width:
        about.append(f"Vectors have {embeddings.width} dimensions.")
    about.append(f"{run.result['parameters']:,} numbers were learned.")
    if embeddings is None:
        about.append(_answers_from(run, data))
    uses = ["Ranking the items of a behavior for the users of this network."]
    if embeddings is None:
        uses.append("It has no vectors: it recommends, but does not compare users or items, and is not exported.")
    elif embeddings.width:
        kind = "on one behavior or on all" if embeddings.trunk is not None else "by their vectors"
        uses.append(f"Finding users who are alike {kind}, and looking into why two users are connected.")
    if embeddings is not None:
        uses.append("Research on network embedding: the same data, split and seed give the same numbers.")
    parts = [
        ("What it is", paragraph(" ".join(about))),
        ("What it is for", bullet_list(uses)),
        ("What it is not for", bullet_list(NOT_FOR)),
    ]
    if data is not None:
        dataset, split = data
        records = ", ".join(f"{p['name']} {p['train']:,}" for p in describe_split(dataset, split)["behaviors"])
        links = f"{dataset.graph.n_links:,} {'directed ' if dataset.graph.is_directed else ''}links"
        learned_from = (
            f"The training part of {dataset.name}: {dataset.n_users:,} users, {links}, "
            f"and the records of each behavior ({records}). Validation records chose the epoch; test "
            "records were only scored."
        )
        parts.append(("What it learned from", paragraph(learned_from)))
    parts.append(("Known limits", bullet_list(_limits(run, embeddings, data))))
    parts.append(("How it was evaluated", paragraph(_evaluated(run))))
    return element("div", *(element("div", element("h3", title), content) for title, content in parts), class_="card")


def _answers_from(run: Run, data: tuple[SocialDataset, Split] | None) -> str:
    """What a method without vectors has saved, and its size on disk."""
    size = human_bytes(sum(file.stat().st_size for file in run.path.rglob(f"{LEARNED}/*.npy")))
    forms = dict[str, None]()
    if data is not None:
        dataset, split = data
        (config,) = parse([entry(run.spec.method).config], run.spec.config)
        alone = [dataset.only(k) for k in range(len(dataset.behaviors))]
        each = [(one, split.only(k, one)) for k, one in enumerate(alone)]
        parts = [data] if run.spec.mode == "joint" else each
        forms = dict.fromkeys(told.form for part in parts if (told := saved(run.spec.method, config, *part)))
    return f"It answers from {' and '.join(forms) or 'what it has learned'}, {size} on disk."


def _limits(run: Run, embeddings: ConditionalEmbeddings | None, data: tuple[SocialDataset, Split] | None) -> list[str]:
    limits = [
        f"Test items are ranked against {COUNT} random items, as in the paper: figures are higher than against the "
        "whole catalog, and methods may come in another order there (mcne evaluate RUN --protocol full).",
        f"One training with seed {run.spec.seed} on one split: another seed or split gives other figures, and "
        "intervals here are over users alone. A comparison (mcne compare) repeats both.",
    ]
    if data is not None:
        dataset, split = data
        parts: list[dict[str, Any]] = describe_split(dataset, split)["behaviors"]
        new_users = max(behavior["test_users_without_training"] for behavior in parts)
        new_items = max(behavior["test_on_untrained_items"] for behavior in parts)
        once = max(float(np.mean(behavior.popularity() == 1)) for behavior in dataset.behaviors)
        limits.append(
            f"Up to {new_users:.0%} of a behavior's test users have no training record of it, and up to "
            f"{new_items:.0%} of its test records are of items that training never saw; up to {once:.0%} of its items "
            "have a single record."
        )
        if split.settings.get("kind") == "random":
            limits.append("The split is random, not by time: it asks for what is missing, not for what comes next.")
        if "synthetic" in dataset.provenance:
            limits.append(
                "The network is synthetic, with planted tastes: it shows that a method works, not how well on people."
            )
    return limits if embeddings is None or embeddings.trunk is None else [*limits, MEANS_NO_CAUSE]


def _evaluated(run: Run) -> str:
    best, epochs = run.result["best_epoch"], run.result["epochs"]
    if isinstance(best, list):
        chosen = "For each behavior, the epoch was chosen by NDCG@5 on the validation part"
    elif not best:
        chosen = "There was no epoch to choose"
    elif run.result["ndcg@5"] is None:
        chosen = f"Nobody had validation records, so the last of {epochs} epochs was kept"
    else:
        chosen = f"Of {epochs} epochs, epoch {best} was the best by NDCG@5 on the validation part"
    return (
        f"{chosen}. The test part played no role in training or in choosing. Test items of a user are ranked together "
        f"with {COUNT} items that the user lacks, drawn once for the split and the same for every method; ties are "
        "broken by chance with a fixed seed."
    )


# Provenance


def origin_of(run: Run, dataset: SocialDataset | None) -> list[Table]:
    """Fingerprints, the machine, and where the data came from."""
    _, started = read_spec(run.path)
    prints = {
        "dataset": run.spec.dataset,
        f"split {run.places['split']}": run.spec.split,
        "what was learned": run.fingerprint,
        "run (settings, seed, data)": run.spec.identity,
    }
    origin = {"mcne": started["version"]} | dict(started["machine"]) | dict(run.result)
    parts = [named_values("Fingerprints (sha256)", prints), named_values("How it was made", origin)]
    if dataset is not None and (provenance := dict(_flat(dataset.provenance))):
        parts.append(named_values(f"Where {dataset.name} comes from", provenance))
    return parts


def named_values(caption: str, values: Mapping[str, Any]) -> Table:
    """A table of names and values; what is no text is written as JSON."""
    rows = [[name, code(value if isinstance(value, str) else json.dumps(value))] for name, value in values.items()]
    return Table(caption, ["name", "value"], rows, text_columns=frozenset({0, 1}))


def _flat(values: Mapping[str, Any], above: Sequence[str] = ()) -> Iterator[tuple[str, Any]]:
    """Nested names joined by a space."""
    for name, value in values.items():
        if isinstance(value, Mapping) and name not in NAMED:
            yield from _flat(value, (*above, name))
        elif name not in NAMED:
            yield " ".join((*above, name)), value
