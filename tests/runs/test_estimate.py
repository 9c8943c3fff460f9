"""What a training is said to need is near what it takes, and limits are found where they are set."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mcne import runs
from mcne.data.split import DIRECTORY, random_split
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.runs import settings_of
from mcne.runs.estimate import Estimate, _left_in_groups, _most_users, available_memory, estimate
from mcne.training.contract import TrainingData

MIB = 1 << 20

CHILD = """
import sys
from pathlib import Path
from mcne.cli.environment import set_environment
set_environment()
from mcne import runs
from mcne.benchmarking.memory import peak_memory
from mcne.data.dataset import SocialDataset
from mcne.methods.mcne import MCNE
from mcne.training.journal import SilentReporter
MCNE.n_steps = property(lambda model: 8)
place = Path(sys.argv[1])
data = SocialDataset.load(place)
runs.train("mcne", data, runs.split_of(place, data, "random-0"), place.with_name("run"), given={"epochs": 2}, seed=0,
    device=runs.choose_device("cpu"), resume=False, places={}, reporter=SilentReporter())
print(peak_memory())
"""


@pytest.mark.slow
@pytest.mark.parametrize("users", [2_000, 150_000])
def test_the_estimate_is_near_the_peak(users: int, tmp_path: Path) -> None:
    dataset, _ = generate(SyntheticConfig(users=users, records_per_user=2.0))
    dataset.save(tmp_path / "data")
    split = random_split(dataset, seed=0)
    split.save(tmp_path / "data" / DIRECTORY / "random-0")
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "data")], check=True, capture_output=True, text=True
    )
    said = estimate("mcne", *settings_of("mcne", {"epochs": 2}), dataset, split, is_on_gpu=False)
    assert said is not None
    assert int(done.stdout) == pytest.approx(said.memory, rel=0.3)


def test_tables_are_counted_to_the_byte() -> None:
    dataset, _ = generate(SyntheticConfig(users=500, behaviors=2))
    split = random_split(dataset, seed=0)
    config, settings = runs.settings_of("mcne", {"widths": [16, 8], "neighbor_samples": [3]})
    found = estimate("mcne", config, settings, dataset, split, is_on_gpu=False)
    assert found is not None
    items = sum(behavior.n_items for behavior in dataset.behaviors)
    assert found.tables == 3 * found.best == 12 * (500 * 16 + items * (8 + 1))  # a bias too, where a method has one
    assert found.levels == 4 * 500 * 8


def test_more_of_anything_needs_more() -> None:
    def needed(users: int = 500, *, on_gpu: bool = False, **changes: object) -> Estimate:
        dataset, _ = generate(SyntheticConfig(users=users, behaviors=2))
        given = {"widths": [16, 8, 8], "neighbor_samples": [3, 3], "batch_size": 16} | changes
        found = estimate("mcne", *settings_of("mcne", given), dataset, random_split(dataset, seed=0), is_on_gpu=on_gpu)
        assert found is not None
        return found

    least = needed()
    assert needed(users=2_000).memory > needed(users=1_000).memory > least.memory
    assert needed(widths=[32, 8, 8]).tables > least.tables
    assert needed(batch_size=64).step > least.step
    assert needed(neighbor_samples=[9, 9]).step > least.step
    assert needed(attention_width=128).scoring > least.scoring
    assert needed(on_gpu=True).step >= least.step
    larger = replace(least, tables=1 << 40)
    assert larger.memory > 1 << 40 > larger.memory_beside_files
    assert larger.files > 1 << 40


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("batch_size", [4, 100])
def test_a_gpu_holds_what_it_draws_from_and_the_most_rows(batch_size: int, weighted: bool) -> None:
    draws = pytest.importorskip("mcne.kernels.draws", reason="Triton is made for Linux alone")
    dataset, _ = generate(SyntheticConfig(users=500, behaviors=2))
    split, samples = random_split(dataset, seed=0), [3, 2]
    given = {"neighbor_samples": samples, "batch_size": batch_size, "weighted_neighbors": weighted}
    config, settings = settings_of("mcne", given)
    found = estimate("mcne", config, settings, dataset, split, is_on_gpu=True)
    assert found is not None
    data = TrainingData.of(dataset, split)
    sampler = draws.DeviceSampler(
        *(data.graph, data.pairs),
        n_items=data.n_items,
        neighbor_samples=samples,
        weighted=weighted,
        negatives=5,
        batch_size=batch_size,
        seed=0,
        device=(device := torch.device("cuda" if torch.cuda.is_available() else "cpu")),
    )
    held = [each for each in (*sampler._arrays, *sampler._links) if each is not None]
    assert found.data == pytest.approx(sum(each.nbytes for each in held), rel=0.01)
    users, hops, triples = sampler.draw(torch.from_numpy(sampler.turn(0, 0)).to(device))
    assert len(triples.user) == 2 * batch_size
    assert [len(users), *(len(hop.receiver) for hop in hops)] == _most_users(config, dataset, 2 * batch_size)


@pytest.mark.parametrize("method", ["popularity", "ease", "libfm"])
def test_other_methods_are_not_estimated(method: str) -> None:
    dataset, _ = generate(SyntheticConfig(users=500, behaviors=2))
    split = random_split(dataset, seed=0)
    assert estimate(method, *settings_of(method, {}), dataset, split, is_on_gpu=False) is None


def write(group: Path, **files: str) -> None:
    group.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (group / name.replace("__", ".")).write_text(text)


def test_the_limits_of_all_groups_count(tmp_path: Path) -> None:
    root, own = tmp_path / "groups", tmp_path / "own"
    own.write_text("0::/outer/inner\n")
    assert _left_in_groups(7, root, own) == [7]
    stat = f"anon 5\ninactive_file {30 * MIB}\n"
    write(root / "outer", memory__max=f"{100 * MIB}\n", memory__current=f"{60 * MIB}\n", memory__stat=stat)
    write(root / "outer" / "inner", memory__max="max\n", memory__current=f"{60 * MIB}\n", memory__stat=stat)
    assert _left_in_groups(7, root, own) == [7, 70 * MIB]


def test_the_limits_of_older_kernels_count(tmp_path: Path) -> None:
    root, own = tmp_path / "groups", tmp_path / "own"
    own.write_text("5:cpu:/elsewhere\n4:memory:/job\n0::/\n")
    write(
        root / "memory" / "job",
        memory__limit_in_bytes=f"{50 * MIB}\n",
        memory__usage_in_bytes=f"{80 * MIB}\n",
        memory__stat=f"total_inactive_file {10 * MIB}\n",
    )
    assert _left_in_groups(7, root, own) == [7, 0]
    assert _left_in_groups(7, root, tmp_path / "missing") == [7]


def test_there_is_memory_here() -> None:
    assert available_memory() > 50 * MIB
