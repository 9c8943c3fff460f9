"""Record anew what the tests here compare with: ``python -m tests.fingerprints.record``.

With ``--keep DIR`` all that was made stays in ``DIR``, so that what two versions make can be compared file by file.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.fingerprints import fingerprinting


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["methods", "studies"])
    parser.add_argument("--keep", type=Path, help="A new directory for all that is made.")
    asked = parser.parse_args()
    fingerprinting.mcne("--version")  # which sets what libraries read when they are imported
    with tempfile.TemporaryDirectory() as temporary, fingerprinting.one_thread():
        place = (asked.keep or Path(temporary)).absolute()
        if asked.only in (None, "methods"):
            from tests.fingerprints import method_prints

            prints = {"network": method_prints.make_network(place / "networks")}
            for at, case in enumerate(method_prints.cases()):
                prints[case] = method_prints.print_of(case, place / "networks" / "data", place / f"run-{at}")
            fingerprinting.write_kept(method_prints.KEPT, rounded(prints))
        if asked.only in (None, "studies"):
            from tests.fingerprints import study_prints

            ground = study_prints.make_ground(place / "ground")
            studies = {
                name: study(ground, place / name.replace(" ", "-")) for name, study in study_prints.STUDIES.items()
            }
            fingerprinting.write_kept(study_prints.KEPT, studies)


def rounded(value: fingerprinting.Print) -> fingerprinting.Print:
    """With as many digits as are compared where bytes are compared besides."""
    return {
        name: rounded(each)
        if isinstance(each, dict)
        else [float(f"{number:.9g}") for number in each]
        if name in ("numbers", "counts")
        else each
        for name, each in value.items()
    }


if __name__ == "__main__":
    main()
