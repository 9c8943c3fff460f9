"""Our rankers against other people's: cornac, myFM and RecBole, each in an environment of its own.

Run with ``python3 tests/crosscheck/rankers/check.py``, or name what to check: ``ease knn bpr fm ml100k``. It makes two
virtual environments in a temporary directory (RecBole needs an older NumPy than we do; 1.6 GB each, some minutes),
installs ``requirements.txt`` and ``requirements-recbole.txt`` there, compares and removes them again: none of these
packages is ever a dependency of the project. With ``--environments DIRECTORY`` they are made there and kept.
MovieLens 100k comes with RecBole's package. ``MCNE_DATA_DIR`` must name the directory that has Ciao's files.

What is compared, and what came out, stands at the top of each check and in ``docs/crosscheck.md``. All computes on
one thread. Exit status 0: everything agrees.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from environment import main, recbole  # is found by the line above

CHECKS = ("ease", "knn", "bpr", "fm", "ml100k")

if __name__ == "__main__":
    sys.exit(main(__file__, __doc__, CHECKS, recbole))
