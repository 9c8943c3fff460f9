"""A rival in an environment of its own: a process that does its work when asked, so that rounds can alternate."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from benchmarks.rivals.environment import python_with
from mcne_bench.figures import NotMeasuredError

HERE = Path(__file__).resolve().parent


class Rival:
    """``their_NAME.py`` in the environment of ``requirements-ENVIRONMENT.txt``.

    It prints a line when it is ready (kept as ``ready``), and then one line of numbers for every line that it reads.
    """

    def __init__(self, name: str, *arguments: object, environment: str = "", threads: int) -> None:
        self._script = HERE / f"their_{name}.py"
        environment = environment or name
        try:
            python = python_with(HERE / f"requirements-{environment}.txt", environment)
        except (OSError, subprocess.CalledProcessError) as error:
            raise NotMeasuredError(f"{environment} could not be installed: {error}") from error
        command = [str(python), "-P", "-W", "ignore", str(self._script), *map(str, arguments)]
        variables = os.environ | dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"), str(threads))
        for ours in ("MKL_CBWR", "OMP_WAIT_POLICY"):  # what ours pays for its bytes and its threads
            variables.pop(ours, None)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables
        )
        self.ready = self._answer().strip()

    def __enter__(self) -> Rival:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def ask(self, *words: object) -> list[float]:
        """Have it do its work once; the numbers that it answers."""
        assert self._process.stdin is not None
        print(*words, file=self._process.stdin, flush=True)
        return [float(word) for word in self._answer().split()]

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._script} ended with status {self._process.wait()}")
        return line
