"""Checkpoints: the newest complete one wins, damage is always found, nothing good is ever lost."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.disks import full_at, tree
from tests.errors import refused

from mcne import files
from mcne.errors import ArtifactError, DiskError
from mcne.models.settings import TrainingSettings
from mcne.training import journal
from mcne.training.journal import PlainReporter, RunJournal, State

CPU = torch.device("cpu")
RUN = "ab" * 32


def state_of(step: int) -> State:
    """Every kind of tensor that a method keeps: tables, counts, flags, none at all."""
    return {
        "learned": {
            "users": torch.arange(12.0).view(4, 3) + step,
            "items.0": torch.full((2, 3), -step / 3),
            "network.masks.0.real": torch.zeros(0, 3),
        },
        "memory": {
            "row_steps": torch.tensor(step),
            "adam.0.step": torch.tensor(float(step)),
            "flips": torch.tensor(2**40 + step),
            "on": torch.tensor([True, False]),
        },
        "loop": {"loss": torch.tensor([0.1, 0.2], dtype=torch.float64) * step},
    }


def position_of(step: int, *, records: int = 0) -> dict[str, Any]:
    best = None if step < 3 else 1 / 3
    return {"epoch": records, "step": step, "steps_done": step, "best_metric": best, "records": records}


@pytest.fixture(autouse=True)
def checkpoints_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory of a run is that of its checkpoints."""
    monkeypatch.setattr(journal, "CHECKPOINTS", "")


def journal_at(directory: Path, lines: list[str], *, run: str = RUN, keep: int = 2) -> RunJournal:
    return RunJournal(directory, run, TrainingSettings(keep_checkpoints=keep), PlainReporter(lines.append, epochs=1))


def save(directory: Path, step: int, *, records: int = 0, keep: int = 2, run: str = RUN) -> None:
    journal_at(directory, [], keep=keep, run=run).checkpoint(position_of(step, records=records), state_of(step))


def read_newest(directory: Path, *, run: str = RUN) -> tuple[int | None, list[str]]:
    """The step of the newest complete checkpoint, checked to be exactly what was saved, and the complaints."""
    complaints: list[str] = []
    newest = journal_at(directory, complaints, run=run).newest_checkpoint(CPU)
    if newest is None:
        return None, complaints
    step = newest.position["steps_done"]
    assert newest.position == position_of(step, records=newest.position["records"])
    expected = state_of(step)
    assert list_of(newest.state) == list_of(expected)
    return step, complaints


def list_of(state: State) -> dict[str, Any]:
    return {
        f"{group}.{name}": (tensor.dtype, tuple(tensor.shape), tensor.tolist())
        for group, tensors in state.items()
        for name, tensor in tensors.items()
    }


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def damage(path: Path) -> None:
    """Flip the last byte of an array."""
    file = path / "learned.users.npy"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))


FIRST, SECOND, THIRD = (f"step-{step:012d}-000000" for step in (1, 2, 3))


def test_nothing_there(tmp_path: Path) -> None:
    assert read_newest(tmp_path) == (None, [])
    assert read_newest(tmp_path / "nowhere") == (None, [])


def test_everything_comes_back(tmp_path: Path) -> None:
    save(tmp_path, 3)
    assert read_newest(tmp_path) == (3, [])


def test_what_comes_back_can_be_written_to(tmp_path: Path) -> None:
    save(tmp_path, 3)
    newest = journal_at(tmp_path, []).newest_checkpoint(CPU)
    assert newest is not None
    before = tree(tmp_path)
    newest.state["learned"]["users"].add_(1)
    assert tree(tmp_path) == before
    assert read_newest(tmp_path) == (3, [])


def test_the_newest_wins_and_the_last_few_are_kept(tmp_path: Path) -> None:
    for step in range(1, 6):
        save(tmp_path, step, keep=3)
        assert read_newest(tmp_path) == (step, [])
    assert names(tmp_path) == [f"step-{step:012d}-000000" for step in (3, 4, 5)]
    save(tmp_path, 6, keep=1)
    assert names(tmp_path) == ["step-000000000006-000000"]


def test_more_steps_than_digits_of_a_smaller_count(tmp_path: Path) -> None:
    for step in (9, 10, 99_999, 100_000, 10**10):
        save(tmp_path, step)
        assert read_newest(tmp_path) == (step, [])


def test_the_end_of_an_epoch_is_newer_than_its_last_step(tmp_path: Path) -> None:
    save(tmp_path, 3, records=0)
    save(tmp_path, 3, records=1)
    newest = journal_at(tmp_path, []).newest_checkpoint(CPU)
    assert newest is not None
    assert newest.position["records"] == 1
    assert len(names(tmp_path)) == 2


# damage


def test_a_damaged_newest_is_passed_over_with_a_complaint(tmp_path: Path) -> None:
    for step in (1, 2):
        save(tmp_path, step)
    damage(tmp_path / SECOND)
    fallback, complaints = read_newest(tmp_path)
    assert fallback == 1
    (complaint,) = complaints
    assert f"{SECOND}/learned.users.npy: its sha256 does not match" in complaint
    damage(tmp_path / FIRST)
    fallback, complaints = read_newest(tmp_path)
    assert fallback is None
    assert [SECOND in complaints[0], FIRST in complaints[1], len(complaints)] == [True, True, 2]


def test_what_is_half_written_is_ignored_and_cleared_by_the_next(tmp_path: Path) -> None:
    save(tmp_path, 1)
    shutil.copytree(tmp_path / FIRST, tmp_path / f".{SECOND}.partial")
    (tmp_path / f".{SECOND}.partial" / "manifest.json").unlink()
    assert read_newest(tmp_path) == (1, [])
    save(tmp_path, 3)  # not the one that was being written
    assert names(tmp_path) == [FIRST, THIRD]


@pytest.mark.parametrize("left", ["nothing", "the manifest", "all but the manifest"])
def test_what_is_half_removed_is_passed_over(left: str, tmp_path: Path) -> None:
    for step in (1, 2):
        save(tmp_path, step)
    for file in (tmp_path / SECOND).iterdir():
        if left == "nothing" or (left == "the manifest") == (file.name != "manifest.json"):
            file.unlink()
    fallback, complaints = read_newest(tmp_path)
    assert (fallback, len(complaints)) == (1, 1)
    save(tmp_path, 2)
    assert read_newest(tmp_path) == (2, [])


def test_a_training_that_fell_back_writes_over_what_was_damaged(tmp_path: Path) -> None:
    for step in (1, 2):
        save(tmp_path, step)
    damage(tmp_path / SECOND)
    save(tmp_path, 2)
    assert read_newest(tmp_path) == (2, [])
    assert names(tmp_path) == [FIRST, SECOND]


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_damaged_ones_never_displace_good_ones(keep: int, tmp_path: Path) -> None:
    """They are of later steps, so by their names they are the newest."""
    for step in (10, 20, 30):
        save(tmp_path, step, keep=3)
    for path in list(tmp_path.iterdir()):
        damage(path)
    assert read_newest(tmp_path)[0] is None
    for step in range(1, 5):
        save(tmp_path, step, keep=keep)
        assert read_newest(tmp_path) == (step, [])
    assert len(names(tmp_path)) == keep


def test_every_flipped_byte_is_found(tmp_path: Path) -> None:
    for step in (1, 2):
        save(tmp_path, step)
    files = sorted((tmp_path / SECOND).iterdir())
    assert len(files) == 9
    chance = random.Random(1)
    hit = Counter[str]()
    for _ in range(200):
        file = chance.choice(files)
        whole = file.read_bytes()
        at = chance.randrange(len(whole))
        file.write_bytes(whole[:at] + bytes([whole[at] ^ chance.randrange(1, 256)]) + whole[at + 1 :])
        fallback, complaints = read_newest(tmp_path)
        assert fallback == 1, (file, at)
        assert len(complaints) == 1
        assert file.name in complaints[0]
        file.write_bytes(whole)
        hit[file.name] += 1
    assert len(hit) == 9
    assert read_newest(tmp_path) == (2, [])


def test_every_truncation_is_found(tmp_path: Path) -> None:
    for step in (1, 2):
        save(tmp_path, step)
    files = sorted((tmp_path / SECOND).iterdir())
    chance = random.Random(2)
    for _ in range(50):
        file = chance.choice(files)
        whole = file.read_bytes()
        file.write_bytes(whole[: chance.randrange(len(whole))])
        fallback, complaints = read_newest(tmp_path)
        assert fallback == 1, file
        assert len(complaints) == 1
        assert file.name in complaints[0]
        file.write_bytes(whole)
    assert read_newest(tmp_path) == (2, [])


def test_files_that_changed_places_are_found(tmp_path: Path) -> None:
    """Each is sound by itself and of the right size: only the manifest knows."""
    for step in (1, 2):
        save(tmp_path, step)
    for file in sorted((tmp_path / FIRST).iterdir()):
        second = tmp_path / SECOND / file.name
        whole = second.read_bytes()
        if whole == file.read_bytes():
            continue
        second.write_bytes(file.read_bytes())
        fallback, complaints = read_newest(tmp_path)
        assert (fallback, len(complaints)) == (1, 1)
        second.write_bytes(whole)
    shutil.rmtree(tmp_path / SECOND)
    shutil.copytree(tmp_path / FIRST, tmp_path / SECOND)  # as a whole it is what it says it is: step 1
    assert read_newest(tmp_path) == (1, [])


# other runs


def test_another_runs_checkpoint_is_refused(tmp_path: Path) -> None:
    save(tmp_path, 1)
    with refused(ArtifactError, place="step-000000000001-000000", about="abababababab"):
        read_newest(tmp_path, run="cd" * 32)
    assert read_newest(tmp_path) == (1, [])


def test_other_artifacts_are_no_checkpoints(tmp_path: Path) -> None:
    save(tmp_path, 1)
    files.write(tmp_path / SECOND, "mcne split", 1, meta={}, provenance={}, arrays={})
    fallback, complaints = read_newest(tmp_path)
    assert fallback == 1
    assert "mcne checkpoint" in complaints[0]


@pytest.mark.parametrize(("more", "age"), [(1, "a newer"), (-1, "an older")])
def test_another_format_is_no_damage(more: int, age: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the training would start anew, and its first checkpoint would remove the good ones."""
    version = journal.VERSION + more
    with monkeypatch.context() as patch:
        patch.setattr(journal, "VERSION", version)
        for step in (1, 2):
            save(tmp_path, step)
    before = tree(tmp_path)
    message = f": .*{age} mcne: mcne checkpoint format {version}, .* the mcne that wrote it"
    with pytest.raises(ArtifactError, match=SECOND + message):
        read_newest(tmp_path)
    damage(tmp_path / SECOND)
    with pytest.raises(ArtifactError, match=FIRST + message):
        read_newest(tmp_path)
    damage(tmp_path / SECOND)  # flips it back
    assert tree(tmp_path) == before


# full disks


def test_a_full_disk_keeps_the_previous_ones_and_names_the_missing_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (1, 2):
        save(tmp_path, step)
    before = tree(tmp_path)
    needed = sum(t.numel() * t.element_size() for group in state_of(3).values() for t in group.values())
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=needed - 17))
    with refused(DiskError, place="step-000000000003-000000", about="missing"):
        save(tmp_path, 3, keep=1)
    assert tree(tmp_path) == before
    assert read_newest(tmp_path) == (2, [])


def test_a_disk_that_fills_up_meanwhile_keeps_the_previous_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (1, 2):
        save(tmp_path, step)
    before = tree(tmp_path)
    messages: list[str] = []
    for number in range(1, 100):
        monkeypatch.setattr(files, "_write_all", full_at(number))
        try:
            save(tmp_path, 3)
            break
        except DiskError as error:
            messages.append(str(error))
        assert tree(tmp_path) == before, number
    # a header and the data of seven arrays, the header of the empty one, the manifest
    assert len(messages) == 16
    assert all("No space left on device" in message for message in messages)
    assert read_newest(tmp_path) == (3, [])
