"""Users on a map: the same user stands elsewhere on every behavior."""

from __future__ import annotations

from pathlib import Path

from mcne.analysis.maps import FEWEST, ConditionalMap, Separation, conditional_map
from mcne.embeddings.artifact import ConditionalEmbeddings
from mcne.errors import ArtifactError, UsageError
from mcne.plots.maps import draw_map
from mcne.report.figures import Drawing, shown
from mcne.report.page import Section
from mcne.text import Table, joined, number_cell, paragraph, percent_cell

POINTS = 480
"""Of a map that is made for a report, over all behaviors: seconds, where the 1,000 users of ``mcne plot map`` take a
minute."""
ANCHOR, TITLE = "map", "Map of users"


def user_map(embeddings: ConditionalEmbeddings, kept: Path | None) -> Section | None:
    """A map kept by ``mcne plot map``, or a smaller one; None of a method that does not tell behaviors apart."""
    if embeddings.trunk is None and kept is None:
        return None
    try:
        found = _read(kept, embeddings) if kept else conditional_map(embeddings, n_users=_users(embeddings))
    except UsageError as error:  # such as: openTSNE is not installed
        return Section.lacking(ANCHOR, TITLE, f"No map: {error}.")
    told = f"{len(found.user_ids):,} users by t-SNE in {len(found.panels)} panels; the numbers are in the table below."
    drawing = Drawing("map", "map of users", told, lambda theme: draw_map(found, theme=theme))
    parts = [
        paragraph(
            "Places come from t-SNE, which keeps neighbors together and says nothing by distances between groups. "
            "Random masks with as many ones in use are the control: what they separate, too, is no finding."
            if found.layout == "together"
            else "Places come from t-SNE, a map per behavior, turned to lie on the first; users keep their color."
        ),
        shown(drawing, f"{len(found.user_ids):,} random users, seed {found.seed}, perplexity {found.perplexity:g}."),
        _numbers(found).captioned(),
    ]
    return Section(ANCHOR, TITLE, joined(parts), (drawing,))


def without_map() -> Section:
    """What stands where a map was not wanted."""
    said = (
        "Left out, for it takes longest to compute: mcne report without --no-map draws it, and so does mcne plot map."
    )
    return Section(ANCHOR, TITLE, paragraph(said))


def _users(embeddings: ConditionalEmbeddings) -> int:
    """How many users a map made for a report is of, each of whom is a point on every behavior."""
    return min(embeddings.n_users, max(FEWEST, POINTS // len(embeddings.spaces)))


def _read(path: Path, embeddings: ConditionalEmbeddings) -> ConditionalMap:
    try:
        found = ConditionalMap.from_json(path.read_text(encoding="utf-8"), source=str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ArtifactError(
            f"{path}: no map can be read there ({error}); give the .json that mcne plot map kept"
        ) from error
    if found.fingerprint != embeddings.fingerprint:
        raise ArtifactError(
            f"{path}: a map of other vectors ({found.fingerprint[:12]}, here {embeddings.fingerprint[:12]}); give the "
            "one of this run"
        )
    return found


def _numbers(found: ConditionalMap) -> Table:
    rows = [
        [
            f"map, {panel.name}",
            *_separation(panel.separation),
            number_cell(panel.trustworthiness, ".3f"),
        ]
        for panel in found.panels
    ]
    if found.separation is not None:
        rows.append(["vectors, learned masks", *_separation(found.separation), ""])
        for name, pick in (("lowest", min), ("highest", max)):
            drawn = Separation(
                pick(each.silhouette for each in found.random_masks),
                pick(each.same_group for each in found.random_masks),
            )
            rows.append([f"vectors, random masks, {name} of {len(found.random_masks)} draws", *_separation(drawn), ""])
    head = ["of", "nearest of the same behavior, %", "silhouette", "trustworthiness"]
    return Table("How far behaviors stand apart", head, rows)


def _separation(found: Separation | None) -> list[str]:
    if found is None:
        return ["–", "–"]
    return [percent_cell(found.same_group), number_cell(found.silhouette, ".3f")]
