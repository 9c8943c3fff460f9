"""Our graph methods and NFM against other people's: PyTorch Geometric, RecBole and LibRecommender.

Run with ``python3 tests/crosscheck/graphs/check.py``, or name what to check: ``sage lightgcn nfm pinsage``. It makes
three virtual environments in a temporary directory (RecBole and LibRecommender need an older NumPy than we do, and
LibRecommender imports TensorFlow, of which nothing is used here; 5.6 GB in all, some minutes), installs
``requirements.txt``, ``requirements-recbole.txt`` and ``requirements-librecommender.txt`` there, compares and removes
them again: none of these packages is ever a dependency of the project. With ``--environments DIRECTORY`` they are made
there and kept. MovieLens 100k comes with RecBole's package.

What is compared, and what came out, stands at the top of each check and in ``docs/crosscheck.md``. All computes on
one thread. Exit status 0: everything agrees.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1]))

from environment import Found, main, python_with, recbole  # noqa: E402 # is found by the line above

CHECKS = ("sage", "lightgcn", "nfm", "pinsage")


def others(directory: Path) -> Found:
    librecommender = python_with(HERE.with_name("requirements-librecommender.txt"), directory / "librecommender")
    return recbole(directory) | {"CROSSCHECK_LIBRECOMMENDER": str(librecommender)}


if __name__ == "__main__":
    sys.exit(main(__file__, __doc__, CHECKS, others))
