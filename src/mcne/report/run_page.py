"""The report of a run: what it is, what it learned from, how well it does, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import numpy as np

from mcne.data.dataset import SocialDataset
from mcne.data.ids import name_of
from mcne.data.split import Split
from mcne.embeddings.answers import Ranking
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.explanation import Explanation, Likeness
from mcne.evaluation.metrics import HEADLINE
from mcne.report.cards import data_card, model_card, named_values, origin_of
from mcne.report.figures import learning, masks, sensitivity, user_map
from mcne.report.page import Part, Report, Section, facts
from mcne.report.quality import Quality, measure, quality_parts
from mcne.text import Html, Table, code, count_cell, element, number_cell, percent_cell, with_name
from mcne.training import Run
from mcne.training.run import EMBEDDINGS

SHOWN = 5
COLUMNS = 2  # behaviors that are asked about: one user has different neighbors on each


def report_of_run(
    run: Run,
    *,
    data: Path | None = None,
    sweeps: Sequence[Path] = (),
    with_map: bool = True,
    kept_map: Path | None = None,
) -> Report:
    """Every section that a run has; where its dataset is gone, those that need it say so.

    ``kept_map`` is what ``mcne plot map`` kept of a map of this run; without one, a small map is computed.
    """
    if data is not None:
        run = replace(run, places={**run.places, "dataset": str(data.absolute())})
    place = run.path / run.places["dataset"]
    loaded = run.data() if data is not None or place.exists() else None  # another dataset in its place is an error
    gone = f"The dataset is no longer in {place}, so this cannot be shown; put it back, or name its place by --data."
    quality = None if loaded is None else measure(run, *loaded)
    spec = run.spec
    settings = {"method": spec.method, "mode": spec.mode, "seed": spec.seed, **spec.schedule, **spec.config}
    embeddings = run.embeddings if (run.path / EMBEDDINGS).exists() else None
    sections: list[Section | None] = [
        Section("glance", "At a glance", [_glance(run, loaded, quality)]),
        Section("data", "Data", lacks=gone)
        if loaded is None
        else Section("data", "Data", data_card(*loaded, split_name=run.places["split"])),
        learning(run),
        Section("quality", "Quality", lacks=gone)
        if quality is None
        else Section("quality", "Quality", quality_parts(quality)),
    ]
    if embeddings is not None:
        sections += [
            masks(embeddings, run.records, run.result["best_epoch"]),
            user_map(embeddings, kept_map, is_wanted=with_map),
            Section("answers", "Example answers", answers(embeddings)),
        ]
    sections += [
        sensitivity(sweeps, dataset=spec.dataset),
        Section("card", "Model card", [model_card(run, embeddings, loaded)]),
        Section("settings", "Settings", [named_values("Settings, defaults included", settings)]),
        Section("origin", "Fingerprints and provenance", origin_of(run, None if loaded is None else loaded[0])),
    ]
    title = spec.method + ("" if loaded is None else f" on {loaded[0].name}")
    return Report(title, f"the run {run.path.resolve().name}", [each for each in sections if each is not None])


def _glance(run: Run, loaded: tuple[SocialDataset, Split] | None, quality: Quality | None) -> Html:
    """The figures that most people look for."""
    pairs: list[tuple[str, str]] = [("method", run.spec.method)]
    if quality is not None:
        name = next(iter(quality.summaries))
        for metric, title in HEADLINE.items():
            pairs.append((f"{title} on test, percent", quality.cell(metric, name, None)[1]))
    if loaded is not None:
        pairs += [("users", count_cell(loaded[0].n_users)), ("behaviors", count_cell(len(loaded[0].behaviors)))]
    pairs += [
        ("NDCG@5 on validation, percent", percent_cell(run.result["ndcg@5"])),
        ("numbers learned", count_cell(run.result["parameters"])),
        ("seed", str(run.spec.seed)),
        ("fingerprint", code(run.fingerprint[:12])),
    ]
    return facts(pairs)


# Example answers: what the run says about one user, as ``mcne similar``, ``recommend`` and ``explain`` do


def answers(embeddings: ConditionalEmbeddings) -> list[Part]:
    """Similar users on two behaviors, items that suit, and why two users are connected."""
    records = np.array([space.records() for space in embeddings.spaces])  # [C, users]
    row = int(np.argmax(records.sum(axis=0)))
    user = embeddings.users[row]
    label = with_name(user, name_of(embeddings.user_names, row))
    most = np.sort(np.argsort(-records[:, row], kind="stable")[:COLUMNS])
    asked = [embeddings.behavior_names[k] for k in most]  # those with the user's most records
    has_neighbors = embeddings.width > 0 and embeddings.n_users > 1
    parts: list[Part] = [f"About user {label}, who has the most records."]
    if has_neighbors:
        alike = {name: embeddings.similar_users(user, name, k=SHOWN) for name in asked}
        parts.append(element("h3", f"Who is similar to user {label}, on what?"))
        parts.append(_rankings("Users most similar, by the inner product that training works on", alike))
    suits = {name: embeddings.recommend(user, name, k=SHOWN) for name in asked}
    parts.append(element("h3", f"What suits user {label}?"))
    parts.append(_rankings("Items with the highest scores that the user lacks", suits))
    if embeddings.parts is not None:
        parts.append(element("h3", "Why these?"))
        parts.append(_reasons(embeddings, suits, user))
    if has_neighbors:
        other = _closest(embeddings, row)
        parts += _explained(embeddings.explain(user, embeddings.users[other]))
    return parts


def _closest(embeddings: ConditionalEmbeddings, row: int) -> int:
    """Of the users linked to this one, or where none is of all, the one most similar in the whole vector."""
    linked = embeddings.graph.neighbors(row)
    rows = linked if len(linked) else np.arange(embeddings.n_users)
    rows = rows[rows != row] if np.any(rows != row) else np.delete(np.arange(embeddings.n_users), row)
    return int(rows[(embeddings.vectors[rows] @ embeddings.vectors[row]).argmax()])


def _rankings(caption: str, rankings: Mapping[str, Ranking]) -> Table:
    """Several rankings side by side, a place to a line."""
    head = ["place", *(head for name in rankings for head in (f"on {name}", "score"))]
    answered = (zip(each.labels(), each.scores.tolist(), strict=True) for each in rankings.values())
    rows = [
        [str(place), *(cell for label, score in line for cell in (label, number_cell(score, ".3f")))]
        for place, line in enumerate(zip_longest(*answered, fillvalue=("", None)), start=1)
    ]
    return Table(caption, head, rows, text_columns=frozenset({0, *range(1, len(head), 2)}))


def _reasons(embeddings: ConditionalEmbeddings, rankings: Mapping[str, Ranking], user: int | str) -> Table:
    """The best item of each behavior with its reasons, which tell nothing about other people."""
    rows = []
    for name, ranking in rankings.items():
        for item, label in zip(ranking.ids[:1], ranking.labels(), strict=False):
            why = embeddings.why(user, item, name)
            told = [(each.label, number_cell(each.value, "+.3f")) for each in why.reasons[:SHOWN]]
            told.append((f"all {len(why)} reasons", number_cell(why.score, ".3f")))
            rows += [[f"{label} on {name}", *each] for each in told]
    title = "The largest reasons; all of them add up to the score. What friends add counts as learned taste"
    return Table(title, ("item", "reason", "adds"), rows, text_columns=frozenset({0, 1}))


def _explained(explanation: Explanation) -> list[Part]:
    connected = "connected" if explanation.linked else "alike"
    parts: list[Part] = [
        element("h3", f"Why are users {' and '.join(explanation.users)} {connected}?"),
        f"They {explanation.relation}. Common friends: {explanation.common_friends}.",
    ]
    if explanation.messages:
        rows = [
            [message.path, str(layer), *map(percent_cell, [*weights, message.share])]
            for message in explanation.messages
            for layer, weights in enumerate(message.attention, start=1)
        ]
        head = ["message", "layer", *explanation.attention_on, "share heard"]
        title = "Attention: what counts in the messages along the link, in percent"
        parts.append(Table(title, head, rows))
    if explanation.remark:
        parts.append(f"{explanation.remark}.")
    rows = [[on.behavior, *_likeness(on.likeness), str(on.common_items)] for on in explanation.behaviors]
    rows.append(["whole vector", *_likeness(explanation.whole), ""])
    head = ["on", "inner product", "cosine", f"{explanation.made_of} that make it", "common items"]
    title = f"Similarity, the {explanation.made_of} that make it, and items that both have"
    return [*parts, Table(title, head, rows, text_columns=frozenset({0, 3, 4}))]


def _likeness(likeness: Likeness) -> list[str]:
    product = number_cell(likeness.inner_product, ".3g")
    return [product, number_cell(likeness.cosine, ".3f"), likeness.strongest("+.2g", 3) or "none"]
