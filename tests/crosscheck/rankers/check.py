"""Our rankers against other people's: cornac, myFM and RecBole, each in an environment of its own.

Run with ``python3 tests/crosscheck/rankers/check.py``, or name what to check: ``ease knn bpr fm ml100k``. It makes two
virtual environments in a temporary directory (RecBole needs an older NumPy than we do; 1.6 GB each, some minutes),
installs ``requirements.txt`` and ``requirements-recbole.txt`` there, compares and removes them again: none of these
packages is ever a dependency of the project. With ``--environments DIRECTORY`` they are made there and kept.
MovieLens 100k comes with RecBole's package. Ciao is used where ``MCNE_DATA_DIR`` names the directory of its files.

What is compared, and what came out, stands at the top of each check and in ``docs/crosscheck.md``. All computes on
one thread. Exit status 0: everything agrees.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1]))

from environment import QUIET, python_with  # noqa: E402

CHECKS = ("ease", "knn", "bpr", "fm", "ml100k")
RECBOLE = "recbole==1.2.1"
MOVIES = "recbole/dataset_example/ml-100k/ml-100k.inter"


def compare(names: list[str]) -> int:
    agreed = {}
    for name in names:
        print(f"\n{name}", flush=True)
        start = time.perf_counter()
        agreed[name] = importlib.import_module(f"check_{name}").compare()
        print(f"  {name}: {'agree' if agreed[name] else 'DIFFER'} ({time.perf_counter() - start:.0f} s)", flush=True)
    return int(not all(agreed.values()))


def compare_in_environments_of_their_own(names: list[str], directory: Path) -> int:
    python = python_with(HERE.with_name("requirements.txt"), directory / "ours")
    recbole = python_with(HERE.parents[1] / "requirements-recbole.txt", directory / "recbole")
    if not (directory / MOVIES).is_file():
        pip = [python, "-m", "pip", "download", *QUIET, "--no-deps", "--dest", directory, RECBOLE]
        subprocess.run(pip, check=True)
        with zipfile.ZipFile(next(directory.glob("recbole-*.whl"))) as wheel:
            wheel.extract(MOVIES, directory)
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    found = {"CROSSCHECK_RECBOLE": str(recbole), "CROSSCHECK_MOVIES": str(directory / MOVIES)}
    found |= {"OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
    return subprocess.run([python, HERE, "--here", *names], check=False, env=alone | found).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *CHECKS], metavar="|".join(CHECKS))
    parser.add_argument("--environments", type=Path, help="where to make and keep the environments")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    names = chosen.names or list(CHECKS)
    if chosen.here:
        return compare(names)
    if chosen.environments:
        return compare_in_environments_of_their_own(names, chosen.environments.resolve())
    with tempfile.TemporaryDirectory() as directory:
        return compare_in_environments_of_their_own(names, Path(directory))


if __name__ == "__main__":
    sys.exit(main())
