"""From a directory to a page: what it holds, and a file that is whole or not there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mcne.errors import DataError, MissingError, UsageError
from mcne.files import write_new
from mcne.plots.ablation import TABLES
from mcne.report.comparison_page import report_of_comparison
from mcne.report.page import Report
from mcne.report.run_page import report_of_run
from mcne.studies.engine import Kind, kind_of
from mcne.training import SPEC, Run

LARGEST = 2_000_000  # bytes that a page may have, so that it can be sent and opened anywhere
SHOWN_BY: dict[str, str] = {
    Kind.sweep: "draw it with mcne plot sweep {path}, or show it on the page of a run: mcne report RUN --sweep {path}",
    Kind.timing: "mcne plot sweep {path.parent} draws it with its sweep",
    Kind.structure: "draw it with mcne plot structure {path}",
    Kind.new_users: "its figures are in {path}/new-users.json, and mcne compare-new-users prints them",
    Kind.transfer: "its table is {path}/table.md, which mcne compare-transfer writes",
}
"""How to see what has no page of its own."""
RESULTS = {Kind.comparison: "table.json", Kind.sweep: "sweep.json", Kind.structure: "structure.json"}
"""By which these kinds are recognized where results alone were copied."""


def report_of(
    path: Path,
    *,
    data: Path | None = None,
    sweeps: Sequence[Path] = (),
    with_map: bool = True,
    kept_map: Path | None = None,
) -> Report:
    """The report of a finished run, or of a comparison that has tables."""
    if (path / SPEC).is_file():
        return report_of_run(Run.open(path), data=data, sweeps=sweeps, with_map=with_map, kept_map=kept_map)
    kind = kind_of(path) or next((kind for kind, name in RESULTS.items() if (path / name).is_file()), None)
    if kind in SHOWN_BY:
        raise DataError(f"is a {kind}, not a run or a comparison", path, SHOWN_BY[kind].format(path=path), value=kind)
    if (path / TABLES).is_file():
        if kept_map is not None:
            raise UsageError("a comparison has no map", f"--map {kept_map}", "omit --map", value=str(kept_map))
        return report_of_comparison(path, data=data, sweeps=sweeps)
    if kind:
        raise DataError(
            f"is a {kind} without tables",
            path,
            "write tables of the finished trainings with mcne compare … --table",
            value=kind,
        )
    if not path.exists():
        raise MissingError.of_path("no such directory", path, "name the directory of a run or a comparison")
    raise MissingError.of_path(
        f"is neither a run ({SPEC}) nor a comparison (table.json)", path, "make one with mcne train or mcne compare"
    )


def write_page(report: Report, path: Path) -> int:
    """Write the page, whole or not at all, over nothing; returns its size in bytes."""
    content = report.html().encode()
    if len(content) > LARGEST:
        raise UsageError(
            f"the page would have {len(content):,} bytes, and at most {LARGEST:,} are allowed",
            path,
            "show fewer sweeps in it",
            value=len(content),
            allowed=[LARGEST],
        )
    write_new(path, content)
    return len(content)
