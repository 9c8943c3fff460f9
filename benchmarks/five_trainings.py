"""``python -m benchmarks.five_trainings docs/tables/five-trainings``: what trainings of Ciao have in common.

The directory holds what ``mcne plot masks|map|attention --json`` said of each of them, and of ``map --aligned`` as
``maps``. A line each for what docs/results.md says of all.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from statistics import mean
from typing import Any

Numbers = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args().directory
    masks, maps, aligned, attention = (_read(directory, kind) for kind in ("masks", "map", "maps", "attention"))
    for line in (*_masks(masks), *_maps(maps, aligned), *_attention(attention)):
        print(line)


def _read(directory: Path, kind: str) -> list[Numbers]:
    return [json.loads(path.read_text()) for path in sorted(directory.glob(f"{kind}-*.json"))]


def _masks(trainings: list[Numbers]) -> list[str]:
    flips = [_flips(each) / each["entries"] for each in trainings]
    levels = list(zip(*(each["levels"] for each in trainings), strict=True))
    pairs = [pair for each in trainings for level in each["levels"] for pair in level["overlaps"]]
    return [
        f"masks: epochs kept {[each['best_epoch'] for each in trainings]}",
        f"masks: an entry has flipped by then {_rounded(flips)} times",
        f"masks: density of levels {_rounded(mean(_densities(level)) for level in levels)} on average",
        f"masks: density of levels, by training {[_rounded(mean(_densities([one])) for one in of) for of in levels]}",
        f"masks: density of one mask {_range(d for level in levels for d in _densities(level))}",
        f"masks: {sum(p['p'] < 0.05 for p in pairs)} of {len(pairs)} pairs at p < 0.05, "
        f"{sum(p['holm_p'] < 0.05 for p in pairs)} after Holm's correction within a training",
        f"masks: last dimensions that are zero for every user {[e['width'] - e['used'] for e in levels[-1]]}",
    ]


def _flips(training: Numbers) -> int:
    return int(next(epoch["flips"] for epoch in training["training"] if epoch["epoch"] == training["best_epoch"]))


def _densities(levels: Iterable[Numbers]) -> list[float]:
    return [density for level in levels for density in level["density"].values()]


def _maps(trainings: list[Numbers], aligned: list[Numbers]) -> list[str]:
    near = [each["separation"]["same_group"] for each in trainings]
    chance = [draw["same_group"] for each in trainings for draw in each["random_masks"]]
    above = [
        each["separation"]["silhouette"] > mean(draw["silhouette"] for draw in each["random_masks"])
        for each in trainings
    ]
    kept = [[panel["kept_neighbors"] for panel in each["panels"][1:]] for each in aligned]
    return [
        f"map: of the 15 nearest {_rounded(near, 3)} are of the same behavior, under random masks {_range(chance, 3)}",
        f"map: silhouette above the random masks' mean in {sum(above)} of {len(above)}",
        f"maps: of the nearest in the whole vector {[_range(each) for each in kept]} are so on a behavior",
    ]


def _attention(trainings: list[Numbers]) -> list[str]:
    lines = []
    for k, layers in enumerate(zip(*(each["layers"] for each in trainings), strict=True)):
        heaviest = [max(layer["spread"], key=lambda one: one["mean"]) for layer in layers]
        lines += [
            f"attention, layer {k + 1}: entropy {_rounded(layer['entropy'] for layer in layers)}",
            f"attention, layer {k + 1}: weighs most {[(e['behavior'], round(e['mean'], 2)) for e in heaviest]}, "
            f"first on {_rounded(e['first'] for e in heaviest)} of links",
        ]
    effects = [
        max(abs(effect) for one in each["communities"] for layer in one["effect"] for effect in layer)
        for each in trainings
    ]
    lines.append(f"attention: communities differ from links between them by at most {_rounded(effects, 1)} sd")
    for part, chance in (("behaviors", "swapped"), ("links", "random")):
        for measure in ("vectors", "scores", "top items"):
            findings = [_finding(each, part, chance, measure) for each in trainings]
            lines.append(
                f"attention, {part}, {measure}: "
                f"most against chance {_rounded(each['ratio']['value'] for each in findings)} "
                f"(95 % from {_rounded(each['ratio']['low'] for each in findings)}), "
                f"least {_rounded(each['least_ratio']['value'] for each in findings)}"
            )
    return lines


def _finding(training: Numbers, part: str, chance: str, measure: str) -> Numbers:
    asked = {"part": part, "chance": chance, "measure": measure}
    return next(finding for finding in training["faithfulness"]["findings"] if asked.items() <= finding.items())


def _rounded(values: Iterable[float], digits: int = 2) -> list[float]:
    return [round(value, digits) for value in values]


def _range(values: Iterable[float], digits: int = 2) -> str:
    listed = list(values)
    return f"{min(listed):.{digits}f} to {max(listed):.{digits}f}"


if __name__ == "__main__":
    main()
