"""What a training is said to need is near what it takes, and limits are found where they are set."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.errors import refused

from mcne import training
from mcne.data.dataset import SocialDataset
from mcne.data.split import DIRECTORY, Split, random_split
from mcne.data.synthetic import SyntheticConfig, generate
from mcne.errors import UsageError
from mcne.models import memory, tables
from mcne.models.contract import TrainingData
from mcne.models.memory import Estimate, _left_in_groups, _most_users, available_memory, estimate, free_memory
from mcne.models.ranking import DotRanking
from mcne.models.registry import METHODS, entry
from mcne.training import resources, settings_of
from mcne.training.resources import decide

MIB = 1 << 20
CPU = torch.device("cpu")

SMALL: dict[str, dict[str, Any]] = {
    "libfm": {"width": 32},
    "nfm": {"width": 32, "layers": [8]},
    "pinsage": {"widths": [32, 8], "neighbors": 5, "walks": 10},
    "lightgcn": {"width": 32},
    "lightgcn-trust": {"width": 32},
}
FILED = ("libfm", "nfm", "pinsage")
"""Methods of these whose tables may be in files, at least in part."""

CHILD = """
import json, sys
from pathlib import Path
from mcne.cli.main import set_environment
set_environment()
from mcne import training
from mcne.data.split import split_of
from benchmarks.peak_memory import peak_memory
from mcne.data.dataset import SocialDataset
from mcne.models.registry import entry
method, place, given = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
entry(method).make.n_steps = property(lambda model: 8)
data = SocialDataset.load(place)
split = split_of(place, data, "random-0")
device = training.choose_device("cpu")
training.Training(method, data, split, settings=given, device=device).run(place.with_name("run"))
print(peak_memory())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "users", "given"),
    [
        ("mcne", 2_000, {}),
        ("mcne-plus", 2_000, {}),
        ("mcne-plus", 50_000, {}),
        ("mcne", 150_000, {}),
        ("libfm", 50_000, {}),
        ("nfm", 50_000, {}),
        ("pinsage", 50_000, {"walks": 10}),
        ("lightgcn", 50_000, {}),
        ("lightgcn-trust", 50_000, {}),
    ],
)
def test_the_estimate_is_near_the_peak(method: str, users: int, given: dict[str, Any], tmp_path: Path) -> None:
    told = given | {"epochs": 2}
    _peak(method, 500, told, tmp_path / "first")  # which compiles what later processes find: that takes memory, too
    peak, dataset, split = _peak(method, users, told, tmp_path / "measured")
    needed = estimate(method, *settings_of(method, told), dataset, split, is_on_gpu=False)
    assert needed is not None
    assert peak == pytest.approx(needed.memory, rel=0.3)


def _peak(method: str, users: int, settings: dict[str, Any], place: Path) -> tuple[int, SocialDataset, Split]:
    """The peak of a training in a process of its own, and what it learned from."""
    dataset, _ = generate(SyntheticConfig(users=users, records_per_user=2.0))
    dataset.save(place / "data")
    split = random_split(dataset, seed=0)
    split.save(place / "data" / DIRECTORY / "random-0")
    done = subprocess.run(
        [sys.executable, "-c", CHILD, method, str(place / "data"), json.dumps(settings)],
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stdout), dataset, split


@cache
def network(users: int = 500) -> tuple[SocialDataset, Split]:
    dataset, _ = generate(SyntheticConfig(users=users, behaviors=2))
    return dataset, random_split(dataset, seed=0)


def needed_by(method: str, users: int = 500, *, is_on_gpu: bool = False, **changes: object) -> Estimate:
    settings = settings_of(method, SMALL[method] | changes)
    needed = estimate(method, *settings, *network(users), is_on_gpu=is_on_gpu)
    assert needed is not None
    return needed


def made(method: str, users: int = 500) -> Any:
    config, _ = settings_of(method, SMALL[method])
    return entry(method).make(TrainingData.of(*network(users)), config, seed=0, device=CPU)


def train(method: str, path: Path) -> training.Run:
    settings = SMALL[method] | {"epochs": 2}
    return training.Training(method, *network(), settings=settings, seed=1, device=CPU).run(path)


@pytest.mark.parametrize("method", METHODS)
def test_what_learns_step_by_step_is_estimated(method: str) -> None:
    needed = estimate(method, *settings_of(method, {}), *network(), is_on_gpu=False)
    assert (needed is not None) == hasattr(entry(method).make, "prepare")


@pytest.mark.parametrize("method", SMALL)
def test_more_of_anything_needs_more_of_other_methods(method: str) -> None:
    least = needed_by(method)
    assert needed_by(method, users=2_000).memory > needed_by(method, users=1_000).memory > least.memory
    wider = needed_by(method, widths=[64, 8]) if method == "pinsage" else needed_by(method, width=64)
    for part in ("step", "scoring", "best"):
        assert getattr(wider, part) > getattr(least, part)
    assert wider.tables + wider.held > least.tables + least.held
    assert needed_by(method, batch_size=8).step < least.step
    assert needed_by(method, is_on_gpu=True).data < least.data


@pytest.mark.parametrize("method", SMALL)
def test_tables_are_counted_as_they_are(method: str) -> None:
    model, needed = made(method), needed_by(method)
    model.update(model.loss(model.prepare(0, 0)))  # after which there are moments
    learned = sum(value.nbytes for value in _tables(model.learned()))
    moments = sum(value.nbytes for value in model.memory().values() if value.dim() == 2 and len(value) > 100)
    assert needed.best == pytest.approx(learned, rel=0.001)
    assert needed.tables + needed.held == pytest.approx(learned + moments, rel=0.001)


def _tables(learned: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    return [value for name, value in learned.items() if not name.startswith(("network.", "visited."))]


@pytest.mark.parametrize("method", ["lightgcn", "lightgcn-trust"])
def test_the_graph_of_users_and_items_counts(method: str) -> None:
    smoothing = made(method).smoothing
    held = sum(each.nbytes for each in (smoothing.start, smoothing.neighbor, smoothing.share))
    assert needed_by(method, is_on_gpu=True).data == pytest.approx(held, rel=0.001)
    assert needed_by(method).data - needed_by("libfm").data == pytest.approx(held, rel=0.001)


def test_whom_nodes_visit_counts() -> None:
    visited = made("pinsage")._visited
    assert needed_by("pinsage").data - needed_by("libfm").data == visited.node.nbytes + visited.share.nbytes


@pytest.mark.parametrize("method", ["libfm", "nfm"])
def test_the_friends_of_a_step_count(method: str) -> None:
    dataset, _ = generate(SyntheticConfig(users=500, behaviors=2, links_per_user=2.0))
    settings = settings_of(method, SMALL[method] | {"batch_size": 16})
    fewer = estimate(method, *settings, dataset, random_split(dataset, seed=0), is_on_gpu=False)
    assert fewer is not None
    assert needed_by(method, batch_size=16).step > fewer.step


@pytest.mark.parametrize("method", SMALL)
def test_a_copy_of_what_was_best_is_in_memory_while_it_is_small(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small = needed_by(method)
    monkeypatch.setattr(tables, "LARGE", 1)
    large = needed_by(method)
    assert (small.best_in_memory, large.best_in_memory) == (small.best, 0)
    assert small.memory - large.memory == small.best


def test_smoothing_holds_no_more_for_more_layers() -> None:
    none, one, two, four = (needed_by("lightgcn", layers=layers).memory for layers in (0, 1, 2, 4))
    assert none < one == two == four


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux tells what is mapped")
@pytest.mark.parametrize("method", SMALL)
def test_what_may_be_in_files_is_there(method: str, tmp_path: Path) -> None:
    needed = needed_by(method, users=2_000)
    with tables.room(tmp_path, memory=0):
        model = made(method, users=2_000)
        model.update(model.loss(model.prepare(0, 0)))
    lines = (line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines())
    ranges = [line[0].split("-") for line in lines if line[-1].startswith(str(tmp_path))]
    assert sum(int(stop, 16) - int(start, 16) for start, stop in ranges) == pytest.approx(needed.tables, rel=0.03)
    assert (needed.tables > 0) == (method in FILED)


@pytest.mark.parametrize("method", FILED)
def test_the_same_bytes_with_tables_in_files(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(method, tmp_path / "plain")
    monkeypatch.setattr(Estimate, "memory_beside_files", 0)
    monkeypatch.setattr(resources, "available_memory", lambda: 1)
    train(method, tmp_path / "filed")
    plain, filed = (
        {each.name: each.read_bytes() for each in (tmp_path / run).rglob("*.npy")} for run in ("plain", "filed")
    )
    assert len(plain) > 5
    assert plain == filed


@pytest.mark.parametrize("method", SMALL)
def test_what_cannot_fit_is_refused_before_anything_is_made(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "available_memory", lambda: 3 * MIB)
    message = rf"{method} needs about .* 3\.0 MiB .*; reduce widths?( or|,) batch_size"
    with pytest.raises(UsageError, match=message) as refused:
        train(method, tmp_path / "deep" / "run")
    assert not (tmp_path / "deep").exists()
    assert "neighbor_samples" not in str(refused.value)


def test_files_are_promised_only_for_what_goes_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "available_memory", lambda: 1 << 35)
    line, memory_for_tables = decide("libfm", replace(needed_by("libfm"), tables=1 << 40), CPU, path=tmp_path)
    assert memory_for_tables == (1 << 35) - needed_by("libfm").memory_beside_files
    assert "about 992." in line  # of a TiB, less what fits in 32 GiB
    with refused(UsageError, value="libfm"):
        decide("libfm", replace(needed_by("libfm"), tables=1 << 40, held=1 << 40), CPU, path=tmp_path)
    with refused(UsageError, value="lightgcn"):
        decide("lightgcn", replace(needed_by("lightgcn"), held=1 << 40), CPU, path=tmp_path)


@pytest.mark.parametrize("spare", [0, -1])
def test_a_gpu_needs_room_for_everything_and_cublas(
    spare: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, three, four, five, six, seven, eight = (k << 30 for k in range(1, 9))
    needed = Estimate(one, two, three, four, five, six, seven, eight, grows_with=("widths", "batch_size"))
    wanted = (1 + 2 + 3 + 7 + max(4, 5 + 6) << 30) + (64 << 20)  # data, tables, held, best; a step or scoring
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (wanted + spare, 1 << 40))
    if spare < 0:
        with refused(UsageError, value="mcne"):
            decide("mcne", needed, torch.device("cuda", 0), path=tmp_path)
        return
    line, memory_for_tables = decide("mcne", needed, torch.device("cuda", 0), path=tmp_path)
    assert line.startswith("GPU memory: about 24.1 GiB of 24.1 GiB")
    assert line.endswith(", cuBLAS 64.0 MiB)")
    assert memory_for_tables is None


def test_tables_are_counted_to_the_byte() -> None:
    dataset, _ = generate(SyntheticConfig(users=500, behaviors=2))
    split = random_split(dataset, seed=0)
    config, settings = training.settings_of("mcne", {"widths": [16, 8], "neighbor_samples": [3]})
    needed = estimate("mcne", config, settings, dataset, split, is_on_gpu=False)
    assert needed is not None
    items = sum(behavior.n_items for behavior in dataset.behaviors)
    assert needed.tables == 3 * needed.best == 12 * (500 * 16 + items * (8 + 1))  # a bias too, where a method has one
    assert needed.levels == 4 * 500 * 8


def test_more_of_anything_needs_more() -> None:
    def needed(users: int = 500, *, on_gpu: bool = False, **changes: object) -> Estimate:
        dataset, _ = generate(SyntheticConfig(users=users, behaviors=2))
        given = {"widths": [16, 8, 8], "neighbor_samples": [3, 3], "batch_size": 16} | changes
        estimated = estimate(
            "mcne", *settings_of("mcne", given), dataset, random_split(dataset, seed=0), is_on_gpu=on_gpu
        )
        assert estimated is not None
        return estimated

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
    draws = pytest.importorskip("mcne.models.device_sampler", reason="Triton is made for Linux alone")
    dataset, _ = generate(SyntheticConfig(users=500, behaviors=2))
    split, samples = random_split(dataset, seed=0), [3, 2]
    given = {"neighbor_samples": samples, "batch_size": batch_size, "weighted_neighbors": weighted}
    config, settings = settings_of("mcne", given)
    needed = estimate("mcne", config, settings, dataset, split, is_on_gpu=True)
    assert needed is not None
    data = TrainingData.of(dataset, split)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    items = DotRanking(data, config, width=config.widths[-1], bias=False, seed=0, device=device)
    sampler = draws.DeviceSampler(items, samples, weighted=weighted)
    parts = (sampler.pairs, sampler.network)
    held = [each for part in parts for each in vars(part).values() if isinstance(each, torch.Tensor)]
    assert needed.data == pytest.approx(sum(each.nbytes for each in held), rel=0.01)
    users, hops, triples = sampler.draw(torch.from_numpy(sampler.turn(0, 0)).to(device))
    assert len(triples.user) == 2 * batch_size
    assert [len(users), *(len(hop.receiver) for hop in hops)] == _most_users(samples, dataset, 2 * batch_size)


# --- what is left to this process ---


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
    assert available_memory() > free_memory() > 50 * MIB


def test_the_least_that_any_group_has_left_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_left_in_groups", lambda machine: [machine, 3 * MIB, 5 * MIB])
    assert free_memory() == 3 * MIB
