"""The data card: what a dataset and a split of it hold, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcne.data.dataset import SocialDataset
from mcne.data.describe import describe, describe_split
from mcne.data.split import Split
from mcne.report.page import facts
from mcne.text import Html, Table, bullet_list, code, count_cell, joined, number_cell, paragraph, percent_cell


def data_card(dataset: SocialDataset, split: Split | None, *, split_name: str = "") -> Html:
    """Users, links, behaviors and items, how they overlap, how they are split, and what preparing them dropped."""
    found = describe(dataset)
    parts = [facts(_sizes(found)), _behaviors(found).captioned()]
    if any(behavior["likeness"]["links"] for behavior in found["behaviors"]):
        parts.append(_likeness(found).captioned())
    if found["overlap"]:
        parts.append(_overlap(found).folded())
    if split is not None:
        parts.append(_split(describe_split(dataset, split), split_name).captioned())
        parts += [paragraph(f"Note of the split: {note}") for note in split.notes]
    if dataset.report is not None:
        parts += [paragraph("What became of the rows that were read:"), bullet_list(dataset.report.lines())]
    return joined(parts)


def _sizes(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    records = sum(behavior["interactions"] for behavior in found["behaviors"])
    items = sum(behavior["items"] for behavior in found["behaviors"])
    degree = found["degree"]
    return [
        ("dataset", str(found["name"])),
        ("users", count_cell(found["users"])),
        ("link directions", count_cell(found["links"])),
        ("links per user, median", number_cell(degree["median"], "g")),
        ("behaviors", count_cell(len(found["behaviors"]))),
        ("items", count_cell(items)),
        ("records", count_cell(records)),
        ("users without links", count_cell(found["users_without_links"])),
        ("users without records", count_cell(found["users_without_records"])),
        ("fingerprint", code(found["fingerprint"][:12])),
    ]


def _behaviors(found: Mapping[str, Any]) -> Table:
    head = ["behavior", "items", "records", "users", "users without, %", "density, %", "items seen once, %", "timed"]
    rows = [
        [
            behavior["name"],
            count_cell(behavior["items"]),
            count_cell(behavior["interactions"]),
            count_cell(behavior["users"]),
            percent_cell(behavior["cold_user_share"]),
            percent_cell(behavior["density"], 3),
            percent_cell(behavior["single_record_item_share"]),
            "yes" if behavior["timestamps"] else "no",
        ]
        for behavior in found["behaviors"]
    ]
    return Table("Behaviors", head, rows)


def _likeness(found: Mapping[str, Any]) -> Table:
    head = ["behavior", "friends", "any two users", "times as alike", "standard error of it", "links", "compared"]
    digits = {"friends": "#.2g", "chance": "#.2g", "ratio": ".2f", "ratio_error": ".2f"}
    rows = []
    for behavior in found["behaviors"]:
        alike = behavior["likeness"]
        values = (number_cell(alike[key], form) for key, form in digits.items())
        rows.append([behavior["name"], *values, count_cell(alike["links"]), count_cell(alike["compared"])])
    return Table("How alike friends are: mean cosine of their items, and that of any two users", head, rows)


def _overlap(found: Mapping[str, Any]) -> Table:
    rows = [[" and ".join(p["behaviors"]), count_cell(p["users"]), percent_cell(p["share"])] for p in found["overlap"]]
    return Table("Users with two behaviors", ["behaviors", "users with both", "of those with either, %"], rows)


def _split(found: Mapping[str, Any], name: str) -> Table:
    head = ["behavior", "train", "validation", "test", "test users", "new to it, %", "test on new items, %"]
    rows = [
        [
            behavior["name"],
            *(count_cell(behavior[part]) for part in ("train", "validation", "test", "test_users")),
            percent_cell(behavior["test_users_without_training"]),
            percent_cell(behavior["test_on_untrained_items"]),
        ]
        for behavior in found["behaviors"]
    ]
    settings = ", ".join(f"{key} {value}" for key, value in found["settings"].items())
    return Table(f"Split {name} ({settings}), fingerprint {found['fingerprint'][:12]}: records", head, rows)
