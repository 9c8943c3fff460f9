"""Our walks, Node2vec and LINE against pecanpy, node2vec and gensim, in an environment of their own.

Run with ``python3 tests/crosscheck/walks/check.py``, or name what to check: ``transitions node2vec line``. It makes two
virtual environments in a temporary directory (pecanpy needs an older NumPy than we do; 1.5 GB together, some minutes),
installs ``requirements.txt`` and ``requirements-pecanpy.txt`` there, compares and removes them again: none of these
packages is ever a dependency of the project. With ``--environments DIRECTORY`` they are made there and kept.
``MCNE_DATA_DIR`` must name the directory that has Ciao's files.

What is compared, and what came out, stands at the top of each check and in ``docs/crosscheck.md``. All computes on
one thread. Exit status 0: everything agrees.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1]))

from environment import Found, main, python_with  # noqa: E402 # is found by the line above

CHECKS = ("transitions", "node2vec", "line")


def others(directory: Path) -> Found:
    pecanpy = python_with(HERE.with_name("requirements-pecanpy.txt"), directory / "pecanpy")
    return {"CROSSCHECK_PECANPY": str(pecanpy)}


if __name__ == "__main__":
    sys.exit(main(__file__, __doc__, CHECKS, others))
