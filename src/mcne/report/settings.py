"""Settings, fingerprints and provenance: everything that is needed to make a run again, and to know that it is it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mcne.data.dataset import SocialDataset
from mcne.text import Html, Table, code, joined
from mcne.training import Run
from mcne.training.run import read_spec

NAMED = frozenset({"report", "fingerprint"})
"""What a provenance tells that the page has elsewhere."""


def settings_of(run: Run) -> Html:
    """Every setting, defaults included."""
    spec = run.spec
    given: dict[str, Any] = {"method": spec.method, "mode": spec.mode, "seed": spec.seed} | dict(spec.schedule)
    return _pairs("Settings, defaults included", given | dict(spec.config)).captioned()


def origin_of(run: Run, dataset: SocialDataset | None) -> Html:
    """Fingerprints, the machine, and where the data came from."""
    _, said = read_spec(run.path)
    prints = {
        "dataset": run.spec.dataset,
        f"split {run.places['split']}": run.spec.split,
        "what was learned": run.fingerprint,
        "run (settings, seed, data)": run.spec.identity,
    }
    made = {"mcne": said["version"]} | dict(said["machine"]) | dict(run.result)
    parts = [_pairs("Fingerprints (sha256)", prints).captioned(), _pairs("How it was made", made).captioned()]
    if dataset is not None and (told := dict(_flat(dataset.provenance))):
        parts.append(_pairs(f"Where {dataset.name} comes from", told).captioned())
    return joined(parts)


def fingerprints(prints: Mapping[str, str]) -> Html:
    """Names and hashes."""
    return _pairs("Fingerprints (sha256)", prints).captioned()


def _pairs(caption: str, values: Mapping[str, Any]) -> Table:
    rows = [[name, code(value if isinstance(value, str) else json.dumps(value))] for name, value in values.items()]
    return Table(caption, ["name", "value"], rows, text_columns=frozenset({0, 1}))


def _flat(values: Mapping[str, Any], above: Sequence[str] = ()) -> Iterator[tuple[str, Any]]:
    """Nested names joined by a space."""
    for name, value in values.items():
        if isinstance(value, Mapping) and name not in NAMED:
            yield from _flat(value, (*above, name))
        elif name not in NAMED:
            yield " ".join((*above, name)), value
