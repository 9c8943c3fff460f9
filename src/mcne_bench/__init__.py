"""What ``mcne bench`` and the benchmarks measure: a training step and ranking, against other forms and floors."""

from __future__ import annotations

from collections.abc import Sequence

from mcne.errors import UnknownError

FOR_USERS = ("step.literal", "step.products", "step.plain", "ranking.product", "ranking.sampled", "gpu.step")
"""The figures of ``mcne bench``."""


def chosen(available: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Those asked for by key or by group (``step`` for all ``step.…``); all where nothing is asked for."""
    groups = [key.split(".")[0] for key in available]
    names = list(dict.fromkeys([*groups, *available]))
    for name in wanted:
        if name not in names:
            raise UnknownError.of("figure", name, names)
    return [key for key, group in zip(available, groups, strict=True) if not wanted or {key, group} & {*wanted}]
