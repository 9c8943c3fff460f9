"""What version 0.1 wrote under the name that mcne-attributes had then is read, and gone on with, as mcne-attributes.

Every test holds whether or not another method has the former name now.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.small_training import saved, sixty_users, train_small, transfer_small

import mcne
from mcne.data.dataset import SocialDataset
from mcne.data.split import random_split
from mcne.embeddings import ConditionalEmbeddings
from mcne.errors import Interrupted, UsageError
from mcne.extend import embed_users
from mcne.models.registry import METHODS
from mcne.studies.comparison import Candidate, ComparedTable, Comparison, Plan
from mcne.studies.new_users import Trial
from mcne.studies.structure import StructureStudy, read_study, settings_by_method
from mcne.studies.sweep import Sweep
from mcne.studies.transfer import Way
from mcne.training import Run, settings_of
from mcne.training.journal import Position, Reporter
from mcne.training.run import read_spec

pytestmark = pytest.mark.usefixtures("no_flushing", "one_thread", "former_name")

NOW, BEFORE = "mcne-attributes", "mcne-plus"
SETTINGS = {"widths": [4, 4], "neighbor_samples": [2], "attention_width": 2, "batch_size": 64, "epochs": 3}


@pytest.fixture(params=["nobody's", "another's"])
def former_name(request: pytest.FixtureRequest) -> Iterator[str]:
    """Whose the former name is now: that of no method, or of one that has other settings."""
    known = dict(METHODS)
    del METHODS[BEFORE]
    if request.param == "another's":
        METHODS[BEFORE] = METHODS["bpr"]
    yield str(request.param)
    METHODS.clear()
    METHODS.update(known)  # in their order


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with attributes, and a run on it."""
    path = tmp_path_factory.mktemp("renamed")
    ages = pa.table({"user_id": list(range(60)), "age": [20.0 + user for user in range(60)]})
    data = sixty_users(users=ages)
    saved(data, path / "data")
    train_small(NOW, data, path / "run", settings=SETTINGS)
    return path


@pytest.fixture(scope="module")
def data(place: Path) -> SocialDataset:
    return SocialDataset.load(place / "data")


@pytest.fixture
def old(place: Path, tmp_path: Path) -> Path:
    """The run as version 0.1 wrote it."""
    shutil.copytree(place, tmp_path / "before")
    return written_before(tmp_path / "before" / "run")


def written_before(run: Path) -> Path:
    """Give a run the former name wherever one is written."""
    change(run / "run.json", method=BEFORE)
    if (run / "embeddings").exists():
        now = ConditionalEmbeddings.load(run / "embeddings")
        spec = {**now.provenance["spec"], "method": BEFORE}
        shutil.rmtree(run / "embeddings")
        replace(now, provenance={**now.provenance, "method": BEFORE, "spec": spec}).save(run / "embeddings")
    return run


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_the_identity_is_that_of_version_0_1(place: Path) -> None:
    spec = Run.open(place / "run").spec
    content = json.dumps({**vars(spec), "method": "mcne-plus"}, sort_keys=True)
    assert spec.identity == hashlib.sha256(content.encode()).hexdigest()
    assert spec.identity != replace(spec, method="mcne").identity


def test_a_run_is_opened_and_evaluated(place: Path, old: Path) -> None:
    opened = mcne.load(old)
    new = mcne.load(place / "run")
    assert isinstance(opened, mcne.MCNEAttributes)
    assert isinstance(new, mcne.MCNEAttributes)
    assert opened.get_params() == new.get_params()
    assert Run.open(old).spec == Run.open(place / "run").spec
    assert opened.evaluate().summary() == new.evaluate().summary()


def test_embeddings_tell_the_name_of_today(place: Path, old: Path) -> None:
    assert ConditionalEmbeddings.load(old / "embeddings").provenance["method"] == BEFORE
    for read in (mcne.load(old / "embeddings"), Run.open(old).embeddings):
        assert read.method == NOW
        assert read.provenance == Run.open(place / "run").embeddings.provenance
        assert read.fingerprint == Run.open(place / "run").fingerprint


def test_a_run_of_the_method_that_has_the_name_now_is_its_own(old: Path) -> None:
    config = {"width": 4}
    change(old / "run.json", config=config)
    assert read_spec(old)[0].method == BEFORE


def test_a_finished_run_stays_finished(old: Path, data: SocialDataset) -> None:
    before = contents(old)
    train_small(NOW, data, old, settings=SETTINGS, resume=True)
    assert contents(old) == before


class Stopper(Reporter):
    """Asks a training to stop in its second epoch, as a person does."""

    def __init__(self) -> None:
        self.steps = 0

    def step(self, position: Position, *, n_steps: int, examples: int, loss: Callable[[], Mapping[str, float]]) -> None:
        self.steps += 1
        if self.steps == n_steps + 1:
            os.kill(os.getpid(), signal.SIGTERM)


def test_an_interrupted_training_goes_on_to_the_same_bytes(data: SocialDataset, tmp_path: Path) -> None:
    train_small(NOW, data, tmp_path / "whole", settings=SETTINGS)
    run = tmp_path / "run"
    with pytest.raises(Interrupted):
        train_small(NOW, data, run, settings=SETTINGS, reporter=Stopper())
    assert list((run / "checkpoints").iterdir())
    written_before(run)
    train_small(NOW, data, run, settings=SETTINGS, resume=True)
    whole = contents(tmp_path / "whole")
    resumed = contents(run)
    for name in ("metrics.jsonl", "result.json", *(name for name in whole if name.startswith("embeddings"))):
        assert resumed[name] == whole[name], name


def test_a_behavior_is_brought_to_a_run(place: Path, old: Path, tmp_path: Path) -> None:
    games = SocialDataset.from_frames(
        pa.table({"user_id": [1, 1, 2, 3, 4] * 8, "item_id": list(range(40))}), single_behavior="games"
    )
    parts = random_split(games, seed=0)
    told = []
    for name, base in (("new", place / "run"), ("old", old)):
        known = Run.open(base).embeddings
        run = transfer_small(known, games, parts, tmp_path / name, behavior="games", settings={"epochs": 1})
        told.append((run.spec, contents(run.path / "embeddings")))
    assert told[0] == told[1]


def test_new_users_join_a_run(place: Path, old: Path, tmp_path: Path) -> None:
    links = pa.table({"source_id": [100, 100], "target_id": [1, 2]})
    ages = pa.table({"user_id": [100, 101], "age": [30.0, 70.0]})
    for name, base in (("new", place / "run"), ("old", old)):
        embed_users(Run.open(base).embeddings, links=links, attributes=ages).save(tmp_path / name)
    assert contents(tmp_path / "new") == contents(tmp_path / "old")


# studies


def test_cells_of_a_comparison_are_found(place: Path, tmp_path: Path) -> None:
    plan = Plan("", "", 1, 1, NOW, methods={NOW: ComparedTable(settings=SETTINGS | {"epochs": 1})})
    comparison = Comparison.open(plan, place / "data", tmp_path / "out")
    (cell,) = comparison.repeated(plan.candidates[NOW][0])
    assert comparison.directory(cell).name.startswith("mcne-attributes-r0-")
    assert comparison.run(jobs=1, device="cpu", say=print) == {}
    (made,) = (tmp_path / "out" / "cells").iterdir()
    made.rename(made.with_name(made.name.replace(NOW, BEFORE)))
    before = contents(tmp_path / "out" / "cells")
    assert comparison.result(cell) is not None
    assert comparison.run(jobs=1, device="cpu", say=print) == {}
    assert contents(tmp_path / "out" / "cells") == before


def test_a_cell_that_failed_before_still_tells_why(place: Path, tmp_path: Path) -> None:
    plan = Plan("", "", 1, 1, NOW, methods={NOW: ComparedTable(settings=SETTINGS)})
    comparison = Comparison.open(plan, place / "data", tmp_path / "out")
    (cell,) = comparison.repeated(plan.candidates[NOW][0])
    former = cell.name.replace(NOW, BEFORE)
    (tmp_path / "out" / "cells" / former).mkdir()
    (tmp_path / "out" / "failed.json").write_text(json.dumps({former: "no room"}))
    assert comparison.failures() == {former: "no room"}
    (candidate,) = plan.candidates[NOW]
    assert (
        comparison.unfinished(NOW, candidate, comparison.failures())
        == "1 of 1 repetitions not finished, 1 failed (no room)"
    )


def test_ways_of_a_transfer_study_keep_their_digest() -> None:
    way = Way(NOW, "all", SETTINGS)
    content = json.dumps(["mcne-plus", "all", way.resolved, None], sort_keys=True)
    assert way.digest(way) == hashlib.sha256(content.encode()).hexdigest()[:12]


def test_a_study_of_structure_goes_on(data: SocialDataset, tmp_path: Path) -> None:
    study = StructureStudy(data, tmp_path, 0.1, 1, {NOW: SETTINGS | {"epochs": 1}})
    study.open()
    assert study.run(device="cpu", say=print) == {}
    kept = json.loads((tmp_path / "study.json").read_text())
    change(tmp_path / "study.json", methods={BEFORE: kept["methods"][NOW]})
    (made,) = (tmp_path / "cells").iterdir()
    made.rename(made.with_name(made.name.replace(NOW, BEFORE)))
    before = contents(tmp_path / "cells")
    assert read_study(tmp_path) == kept
    study.open()
    assert study.run(device="cpu", say=print) == {}
    assert contents(tmp_path / "cells") == before
    assert json.loads((tmp_path / "study.json").read_text()) == kept


def test_a_study_of_new_users_goes_on(data: SocialDataset, tmp_path: Path) -> None:
    trial = Trial(NOW, SETTINGS | {"epochs": 1})
    options: dict[str, Any] = {
        "seeds": 1,
        "device": "cpu",
        "reporting": lambda _: nullcontext(Reporter()),
        "say": print,
    }
    first = trial.run(data, tmp_path, **options)
    change(tmp_path / "request.json", method=BEFORE)
    (tmp_path / "seed-0" / "result.json").unlink()
    written_before(tmp_path / "seed-0" / "kept" / "run")
    before = contents(tmp_path / "seed-0")
    assert trial.run(data, tmp_path, **options) == first
    assert before.items() <= contents(tmp_path / "seed-0").items()


# the former name in commands and plans


@pytest.mark.parametrize(
    "ask",
    [
        lambda settings: settings_of(BEFORE, settings),
        lambda settings: Candidate(BEFORE, "joint", settings).resolved,
        lambda settings: Trial(BEFORE, settings),
        lambda settings: Sweep(BEFORE, settings, {"l2": (0.1, 0.2)}).check(),
        lambda settings: settings_by_method([BEFORE], [f"{name}={value}" for name, value in settings.items()]),
    ],
    ids=["settings", "comparison", "new users", "sweep", "structure"],
)
@pytest.mark.parametrize(("name", "value"), [("initial", "both"), ("widths", [4, 4])])
def test_settings_of_before_lead_to_the_new_name(
    ask: Callable[[Any], Any], name: str, value: Any, former_name: str
) -> None:
    with pytest.raises(UsageError) as caught:
        ask({name: value})
    error = caught.value
    assert error.remedy == "use that name"
    if former_name == "nobody's":
        assert str(error) == "mcne-plus is now called mcne-attributes; use that name"
        assert (error.value, error.allowed) == (BEFORE, (NOW,))
    else:
        belongs = "belongs to mcne-attributes, which was called mcne-plus in version 0.1; use that name"
        assert str(error) == f"setting {name}: {belongs}"
        assert (error.place, error.value) == (f"setting {name}", name)


def test_settings_that_both_have_are_those_of_the_method_with_the_name(former_name: str) -> None:
    if former_name == "another's":
        config, _ = settings_of(BEFORE, {"l2": 0.5, "epochs": 2})
        assert type(config) is METHODS[BEFORE].config
        with pytest.raises(UsageError, match="unknown setting 'widhts'"):
            settings_of(BEFORE, {"widhts": [4, 4]})


def test_python_starts_users_from_attributes_as_before(data: SocialDataset) -> None:
    model = mcne.MCNE(initial="both", epochs=1, widths=(4, 4), neighbor_samples=(2,), attention_width=2)
    assert model.fit(data, progress=False).embeddings.method == NOW
