"""The masks of a run: which dimensions count on which behavior, in a figure and in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mcne.analysis.masks import MaskLevel, MaskNumbers, mask_numbers
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.plots.masks import draw_masks
from mcne.report.figures import Drawing, shown
from mcne.report.page import Section
from mcne.text import Table, count_cell, joined, number_cell, paragraph, percent_cell


def masks(
    embeddings: ConditionalEmbeddings, records: Sequence[Mapping[str, Any]], best_epoch: int | None
) -> Section | None:
    """Masks of every level, how much they share, and how they were learned; None of a method without masks."""
    if embeddings.trunk is None:
        return None
    numbers = mask_numbers(embeddings, records, best_epoch=best_epoch)
    last = numbers.levels[-1]
    drawing = Drawing("masks", "masks", _told(numbers), lambda theme: draw_masks(numbers, theme=theme))
    parts = [
        paragraph(
            "A behavior's mask picks the dimensions of a user's vector that count on it. Masks that share more "
            "dimensions than random masks with as many ones belong to behaviors that the model found alike; p tells "
            "how likely chance alone would make such a difference."
        ),
        shown(drawing, "Colored: the mask is one. Below: the share of ones, what masks share, how they were learned."),
        _densities(numbers).captioned(),
        *([_overlaps(last).folded()] if last.overlaps_in_use else []),
    ]
    return Section("masks", "Masks", joined(parts), (drawing,))


def _told(numbers: MaskNumbers) -> str:
    last = numbers.levels[-1]
    ones = ", ".join(f"{name} {share:.0%}" for name, share in last.density.items())
    return f"Masks of the last level, {last.width} dimensions; ones: {ones}."


def _densities(numbers: MaskNumbers) -> Table:
    rows = []
    for name in numbers.levels[-1].names:
        rows.append([name, *(percent_cell(level.density.get(name)) for level in numbers.levels)])
    head = ["mask", *(f"level {level.level}, {level.width} dimensions" for level in numbers.levels)]
    return Table("Ones in a mask, percent", head, rows)


def _overlaps(last: MaskLevel) -> Table:
    rows = [
        [
            f"{pair.first} and {pair.second}",
            count_cell(pair.shared),
            number_cell(pair.chance, ".1f"),
            number_cell(pair.jaccard, ".2f"),
            number_cell(pair.holm_p, ".3f"),
        ]
        for pair in last.overlaps_in_use
    ]
    head = ["masks", "shared", "by chance", "Jaccard", "p after Holm"]
    return Table("What two masks of the last level share, of the dimensions in use", head, rows)
