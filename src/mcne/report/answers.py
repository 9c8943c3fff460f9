"""Example answers: what a trained run says of one user, as ``mcne similar``, ``recommend`` and ``explain`` do."""

from __future__ import annotations

import numpy as np

from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.embeddings.explanation import Explanation, Likeness
from mcne.embeddings.ranking import Ranking
from mcne.text import Html, Table, element, joined, number_cell, paragraph, percent_cell

SHOWN = 5
COLUMNS = 2
"""Behaviors that are asked about: one user has different neighbors on each."""


def answers(embeddings: ConditionalEmbeddings) -> Html:
    """Similar users on two behaviors, items that suit, and why two users are connected."""
    row = _busiest(embeddings)
    user = embeddings.users[row]
    asked = _behaviors(embeddings, row)
    parts: list[str] = [paragraph(f"About user {user}, who has the most records.")]
    if embeddings.width and embeddings.n_users > 1:
        alike = {name: embeddings.similar_users(user, name, k=SHOWN) for name in asked}
        parts.append(element("h3", f"Who is similar to user {user}, on what?"))
        parts.append(_rankings("Users most similar, by the inner product that training works on", alike).captioned())
    suits = {name: embeddings.recommend(user, name, k=SHOWN) for name in asked}
    parts.append(element("h3", f"What suits user {user}?"))
    parts.append(_rankings("Items with the highest scores that the user lacks", suits).captioned())
    if embeddings.width and embeddings.n_users > 1:
        other = _closest(embeddings, row)
        parts += _explained(embeddings.explain(user, embeddings.users[other]))
    return joined(parts)


def _busiest(embeddings: ConditionalEmbeddings) -> int:
    """The user with the most records; the first of several."""
    return int(np.argmax(np.sum([np.diff(space.seen_indptr) for space in embeddings.spaces], axis=0)))


def _behaviors(embeddings: ConditionalEmbeddings, row: int) -> list[str]:
    """The behaviors in which a user has the most records, in the order of the dataset."""
    records = [len(space.seen(row)) for space in embeddings.spaces]
    most = np.argsort([-n for n in records], kind="stable")[:COLUMNS]
    return [embeddings.behavior_names[k] for k in sorted(most.tolist())]


def _closest(embeddings: ConditionalEmbeddings, row: int) -> int:
    """Of the users linked to this one, or where none is of all, the one most similar in the whole vector."""
    linked = embeddings.graph.neighbors(row)
    rows = linked if len(linked) else np.arange(embeddings.n_users)
    rows = rows[rows != row] if np.any(rows != row) else np.delete(np.arange(embeddings.n_users), row)
    return int(rows[(embeddings.vectors[rows] @ embeddings.vectors[row]).argmax()])


def _rankings(caption: str, found: dict[str, Ranking]) -> Table:
    """Several rankings side by side, a place to a line."""
    head = ["place", *(head for name in found for head in (f"on {name}", "score"))]
    lines = max((len(ranking) for ranking in found.values()), default=0)
    pairs = {name: list(ranking) for name, ranking in found.items()}
    rows = []
    for place in range(lines):
        cells: list[str] = []
        for ranking in pairs.values():
            raw, score = ranking[place] if place < len(ranking) else ("", None)
            cells += [str(raw), number_cell(score, ".3f")]
        rows.append([str(place + 1), *cells])
    return Table(caption, head, rows, text_columns=frozenset({0, *range(1, len(head), 2)}))


def _explained(found: Explanation) -> list[Html]:
    linked = "linked" if found.linked else "not linked"
    parts = [
        element(
            "h3", f"Why are users {found.user_id} and {found.other_id} {'connected' if found.linked else 'alike'}?"
        ),
        paragraph(f"They are {linked}. Common friends: {found.common_friends}."),
    ]
    if found.messages:
        parts.append(_attention(found).captioned())
    if found.remark:
        parts.append(paragraph(f"{found.remark}."))
    return [*parts, _likenesses(found).captioned()]


def _attention(found: Explanation) -> Table:
    rows = [
        [f"{message.sender_id} → {message.receiver_id}", str(layer), *map(percent_cell, [*weights, message.share])]
        for message in found.messages
        for layer, weights in enumerate(message.attention, start=1)
    ]
    head = ["message", "layer", *found.attention_on, "share heard"]
    return Table("Attention: what counts in the messages along the link, in percent", head, rows)


def _likenesses(found: Explanation) -> Table:
    rows = [[on.behavior, *_likeness(on.likeness), str(on.common_items)] for on in found.behaviors]
    rows.append(["whole vector", *_likeness(found.whole), ""])
    head = ["on", "inner product", "cosine", "dimensions that make it", "common items"]
    return Table(
        "Similarity, the dimensions that make it, and items that both have",
        head,
        rows,
        text_columns=frozenset({0, 3, 4}),
    )


def _likeness(likeness: Likeness) -> list[str]:
    dimensions = ", ".join(f"{part.dimension} ({part.value:+.2g})" for part in likeness.dimensions[:3])
    product, cosine = likeness.inner_product, likeness.cosine
    return [number_cell(product, ".3g"), number_cell(cosine, ".3f"), dimensions or "none"]
