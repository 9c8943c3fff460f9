"""How long ``mcne --help`` and usage errors take beyond Python's own start."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from mcne_bench.figures import Contender, Taken, medians

ROUNDS = 15
BARE = ("-c", "pass")
MISTAKES = {
    "an unknown command": "trian bpr --data mydata --out run",
    "an unknown option": "train bpr --data mydata --out run --epoch 5",
    "an unknown method": "train bprr --data mydata --out run",
    "an unknown method in a list": "compare --methods popularity,bprr --data mydata --out comparison",
    "an unknown setting": "train bpr --data mydata --out run --set lerning_rate=0.1",
    "a wrong setting": "train mcne --data mydata --out run --set widths=[8,8]",
    "an unknown dataset": "train bpr --data nowhere --out run",
    "a dataset without attributes": "train mcne-attributes --data mydata --out run",
    "an unknown split": "train bpr --data mydata --out run --split rnadom-0",
    "a run that exists": "train bpr --data mydata --out myrun",
    "an unknown run": "recommend nowhere --user 3 --behavior Books",
    "an unknown user": "recommend myrun --user 3x --behavior Books",
    "an unknown plan": "compare nowhere.toml --data mydata --out comparison",
    "an unknown plan of a transfer": "compare-transfer nowhere.toml --data mydata --out comparison",
    "a transfer to a method without masks": "transfer myrun --data mydata --behavior Books --out run",
    "a transfer of a known behavior": "transfer mynetwork --data mydata --behavior Books --out run",
    "an unknown setting of a transfer": "transfer mynetwork --data mydata --behavior Books --out run --set lr=3",
    "new users without tables": "embed-users mynetwork --out run",
    "new users in an unknown file": "embed-users mynetwork --links nowhere.csv --out run",
    "links of a method without vectors": "structure --data mydata --methods ease --out study",
    "new users of a method without a network": "compare-new-users --data mydata --method ease --out study",
    "an unknown benchmark": "bench nothing",
    "a report that exists": "report myrun --out page.html",
    "masks of a method without any": "plot masks myrun --out masks.png",
    "an unknown user of a figure": "plot attention mynetwork --user nobody --out user.png",
}


def measure_start() -> Taken:
    commands = {"bare": BARE, "ours": ("-m", "mcne", "--help")}
    taken = medians(
        {name: Contender(partial(_run, command, None)) for name, command in commands.items()}, rounds=ROUNDS
    )
    return Taken(
        taken["ours"] - taken["bare"], f"median of {ROUNDS}: {taken['ours']:.3f} s against {taken['bare']:.3f} s"
    )


def measure_mistakes() -> Taken:
    import mcne

    commands = {"bare": BARE} | {name: ("-m", "mcne", *text.split()) for name, text in MISTAKES.items()}
    with tempfile.TemporaryDirectory() as directory:
        data = mcne.datasets.synthetic(users=500)
        data.save(Path(directory) / "mydata")
        mcne.Popularity().fit(data, out=Path(directory) / "myrun", progress=False)
        small = mcne.MCNE(epochs=1, widths=(8, 8), neighbor_samples=(2,))
        small.fit(data, out=Path(directory) / "mynetwork", progress=False)
        (Path(directory) / "page.html").touch()
        contenders = {name: Contender(partial(_run, each, directory)) for name, each in commands.items()}
        taken = medians(contenders, rounds=ROUNDS)
    bare = taken.pop("bare")
    slowest = max(taken, key=lambda name: taken[name])
    return Taken(taken[slowest] - bare, f"slowest of {len(taken)}: {slowest}, {taken[slowest]:.3f} s")


def _run(arguments: tuple[str, ...], directory: str | None, _: int) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, *arguments], check=False, capture_output=True, cwd=directory, env=environment
    )
    assert done.returncode in (0, 2, 4), done.stderr
