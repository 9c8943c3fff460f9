"""Peak memory of a training of MCNE against its tables: ``python -m benchmarks.memory 1000000``.

A network of ten links from each user is made, split and kept, and a child trains on it from its files, as ``mcne
train`` does: two epochs with their evaluations, checkpoints, the best epoch and the artifact. Epochs are cut
to a few steps, which need as much memory as all.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.history import line
from mcne.data.split import DIRECTORY, random_split
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.text import human_bytes
from mcne_bench.figures import Figure

USERS = 1_000_000
AT_MOST = 2.2

CHILD = """
import sys
from pathlib import Path
from mcne.cli.main import set_environment
set_environment()
from mcne import training
from mcne.data.split import split_of
from benchmarks.peak_memory import peak_memory
from mcne.data.dataset import SocialDataset
from mcne.models.mcne import MCNE
MCNE.n_steps = property(lambda model: 10)
place = Path(sys.argv[1])
data = SocialDataset.load(place / "data")
split = split_of(place / "data", data, "random-0")
settings = {"epochs": 2, "checkpoint_seconds": 30}
training.Training("mcne", data, split, settings=settings, device=training.choose_device("cpu")).run(place / "run")
print(peak_memory())
"""


def measure_memory(users: int = USERS) -> list[Figure]:
    with tempfile.TemporaryDirectory() as directory:
        floor = _make(users, Path(directory) / "data")
        command = [sys.executable, "-c", CHILD, directory]
        peak = int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.split()[-1])
    detail = f"widths 256/128/100, {human_bytes(peak)} against {human_bytes(floor)}"
    return [Figure(f"peak memory, {users:,} users", peak / floor, "×", AT_MOST, detail, "user table, moments, items")]


def _make(users: int, path: Path) -> int:
    """A prepared network and its split; the bytes of its user table, both moments and its item tables."""
    dataset, _ = generate(SyntheticConfig(users=users, records_per_user=1.0))
    dataset.save(path)
    random_split(dataset, seed=0).save(path / DIRECTORY / "random-0")
    return 4 * (3 * users * 256 + 100 * sum(behavior.n_items for behavior in dataset.behaviors))


def main() -> None:
    for users in sys.argv[1:] or [str(USERS)]:
        for figure in measure_memory(int(users)):
            print(line(figure), flush=True)


if __name__ == "__main__":
    main()
