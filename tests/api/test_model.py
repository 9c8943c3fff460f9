"""Models: settings, training, questions, saving; the functions of the package."""

from __future__ import annotations

import dataclasses
import gc
import inspect
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.errors import refused
from tests.small_training import saved, sixty_users, train_small

import mcne
from mcne import training
from mcne.data.dataset import SocialDataset
from mcne.data.split import last_split, random_split, temporal_split
from mcne.errors import ArtifactError, DataError, Interrupted, UnknownArgumentError, UsageError
from mcne.evaluation.protocol import evaluate
from mcne.models.mcne import MCNEConfig
from mcne.models.registry import METHODS
from mcne.models.settings import TrainingSettings
from mcne.training.journal import RunJournal

TINY: dict[str, Any] = {
    "widths": (8, 8, 8),
    "neighbor_samples": (3, 3),
    "attention_width": 4,
    "batch_size": 64,
    "epochs": 2,
    "device": "cpu",
}


@pytest.fixture(scope="module")
def data() -> SocialDataset:
    return sixty_users()


@pytest.fixture(scope="module")
def model(data: SocialDataset) -> mcne.MCNE:
    return mcne.MCNE(**TINY).fit(data, progress=False)


# settings


def test_every_setting_of_model_and_training_is_a_named_argument() -> None:
    defaults = {name: p.default for name, p in inspect.signature(mcne.MCNE).parameters.items()}
    named = {field.name: field.default for kind in (MCNEConfig, TrainingSettings) for field in dataclasses.fields(kind)}
    assert defaults == {"seed": 0, "device": "auto", "separate": False, "initial": "free"} | named


def test_params_and_repr(model: mcne.MCNE) -> None:
    assert mcne.MCNE().get_params()["widths"] == MCNEConfig().widths
    assert mcne.MCNE(**model.get_params()).get_params() == model.get_params()
    assert repr(mcne.MCNE()) == "MCNE()"
    assert repr(mcne.MCNE(seed=3, l2=0.5)) == "MCNE(seed=3, l2=0.5)"
    assert repr(model).endswith("), trained on 60 users, read, watch")


def test_unknown_and_wrong_settings(data: SocialDataset) -> None:
    with refused(UnknownArgumentError, value="lerning_rate"):
        mcne.MCNE(lerning_rate=1)  # type: ignore[call-arg]
    with refused(UsageError, place="setting epochs", value="many"):
        mcne.MCNE(epochs="many").fit(data)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"setting initial: unknown value 'fre'; .* free, attributes, both"):
        mcne.MCNE(initial="fre").fit(data)  # type: ignore[arg-type] # wrong on purpose
    with pytest.raises(UsageError, match="unknown device 'gpu'"):
        mcne.MCNE(device="gpu").fit(data)


# training


def test_the_same_seed_gives_the_same_embeddings_with_or_without_a_directory(
    data: SocialDataset, model: mcne.MCNE, tmp_path: Path
) -> None:
    again = mcne.MCNE(**TINY).fit(data, out=tmp_path / "run", progress=False)
    other = mcne.MCNE(**TINY, seed=1).fit(data, random_split(data, seed=0), progress=False)
    assert again.embeddings.fingerprint == model.embeddings.fingerprint
    assert other.embeddings.fingerprint != model.embeddings.fingerprint


def test_without_a_split_the_seed_makes_one(data: SocialDataset, model: mcne.MCNE) -> None:
    explicit = mcne.MCNE(**TINY).fit(data, random_split(data, seed=0), progress=False)
    assert explicit.embeddings.fingerprint == model.embeddings.fingerprint


def test_a_run_from_python_is_a_run_for_the_commands(data: SocialDataset, model: mcne.MCNE, tmp_path: Path) -> None:
    mcne.MCNE(**TINY).fit(data, out=tmp_path / "run", progress=False)
    (tmp_path / "run").rename(tmp_path / "moved")
    run = training.Run.open(tmp_path / "moved")
    dataset, split = run.data()
    assert (dataset.fingerprint, run.spec.method) == (data.fingerprint, "mcne")
    assert evaluate(run.embeddings, dataset, split).summary() == model.evaluate().summary()


def test_an_existing_run_needs_resume(data: SocialDataset, model: mcne.MCNE, tmp_path: Path) -> None:
    mcne.MCNE(**TINY).fit(data, out=tmp_path / "run", progress=False)
    with refused(UsageError, place="run", about="already"):
        mcne.MCNE(**TINY).fit(data, out=tmp_path / "run", progress=False)
    again = mcne.MCNE(**TINY).fit(data, out=tmp_path / "run", resume=True, progress=False)
    assert again.embeddings.fingerprint == model.embeddings.fingerprint


def test_progress_is_a_line_per_epoch_on_stderr(data: SocialDataset, capsys: pytest.CaptureFixture[str]) -> None:
    mcne.MCNE(**TINY).fit(data, progress=False)  # which compiles what was not compiled before
    assert capsys.readouterr().err == ""
    mcne.MCNE(**TINY).fit(data)
    shown = capsys.readouterr()
    assert shown.out == ""
    memory, *epochs = shown.err.splitlines()
    assert memory.startswith("memory: about ")
    assert [line.split(",")[0] for line in epochs] == ["epoch 1/2", "epoch 2/2"]


def test_no_checkpoint_is_written_where_nothing_is_kept(
    data: SocialDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = list[Path]()
    save = RunJournal.checkpoint

    def counted(journal: RunJournal, *args: Any) -> None:
        saved.append(journal.path)
        save(journal, *args)

    monkeypatch.setattr(RunJournal, "checkpoint", counted)
    often = mcne.MCNE(**TINY, checkpoint_seconds=0)
    often.fit(data, progress=False)
    assert saved == []
    often.fit(data, out=tmp_path / "run", progress=False)
    assert len(saved) > 2  # epochs


@pytest.mark.parametrize("kept", [False, True])
def test_a_wrong_setting_is_wrong_even_where_it_is_not_used(kept: bool, data: SocialDataset, tmp_path: Path) -> None:
    with refused(UsageError, place="setting checkpoint_seconds", value=-1.0):
        mcne.MCNE(**TINY, checkpoint_seconds=-1.0).fit(data, out=tmp_path / "run" if kept else None)


def test_a_seed_of_numpy_is_a_seed(data: SocialDataset, tmp_path: Path) -> None:
    plain = mcne.MCNE(**TINY, seed=3).fit(data, progress=False)
    other = mcne.MCNE(**TINY, seed=np.int64(3)).fit(data, out=tmp_path / "run", progress=False)  # type: ignore[arg-type]
    assert other.embeddings.fingerprint == plain.embeddings.fingerprint
    again = mcne.MCNE(**TINY, seed=3).fit(data, out=tmp_path / "run", resume=True, progress=False)
    assert again.embeddings.fingerprint == plain.embeddings.fingerprint


@pytest.mark.parametrize(("seed", "kind"), [(None, "NoneType"), (1.0, "float"), ("1", "str")])
def test_other_seeds_are_refused(seed: Any, kind: str, data: SocialDataset) -> None:
    with refused(UsageError, place="seed", about="number"):
        mcne.MCNE(seed=seed).fit(data)


def test_what_cannot_be_fitted(data: SocialDataset) -> None:
    with refused(UsageError, place="data", value="dict"):
        mcne.MCNE().fit({})  # type: ignore[arg-type]
    frame = pa.table({"user_id": [1, 2], "item_id": [1, 1], "behavior": ["a", "a"]})
    other = random_split(SocialDataset.from_frames(frame), seed=0)
    with refused(UsageError, place="split", about="dataset"):
        mcne.MCNE().fit(data, other)


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ctrl-C after the first epoch."""
    keep = RunJournal.record

    def record(self: RunJournal, record: dict[str, Any], *, seconds: float, examples: int) -> None:
        keep(self, record, seconds=seconds, examples=examples)
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background
    with monkeypatch.context() as patch:
        patch.setattr(RunJournal, "record", record)
        yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupted")
def test_an_interruption_is_a_keyboard_interrupt_where_nothing_is_kept(data: SocialDataset) -> None:
    model = mcne.MCNE(**TINY)
    with pytest.raises(KeyboardInterrupt):
        model.fit(data, progress=False)
    with pytest.raises(UsageError, match="not trained yet"):
        model.evaluate()


@pytest.mark.usefixtures("interrupted")
def test_an_interruption_leaves_a_checkpoint_where_there_is_a_directory(
    data: SocialDataset, model: mcne.MCNE, tmp_path: Path
) -> None:
    for _ in range(2):  # epochs
        with pytest.raises(Interrupted, match="stopped by SIGINT"):
            mcne.MCNE(**TINY).fit(data, out=tmp_path / "run", resume=True, progress=False)
    resumed = mcne.MCNE(**TINY).fit(data, out=tmp_path / "run", resume=True, progress=False)
    assert resumed.embeddings.fingerprint == model.embeddings.fingerprint


# questions


def test_questions_are_passed_on(model: mcne.MCNE) -> None:
    emb = model.embeddings
    assert (
        model.recommend(3, behavior="read", k=4, filter_seen=False).ids
        == emb.recommend(3, "read", k=4, filter_seen=False).ids
    )
    assert [ranking.ids for ranking in model.recommend([3, 4], "read")] == [
        ranking.ids for ranking in emb.recommend([3, 4], "read")
    ]
    assert model.similar_users(3, behavior="watch", k=2).ids == emb.similar_users(3, "watch", k=2).ids
    assert model.similar_users(3, cosine=True).ids == emb.similar_users(3, cosine=True).ids
    assert model.similar_items([1, 2], "read", k=2)[1].ids == emb.similar_items(2, "read", k=2).ids
    assert model.explain(3, 4) == emb.explain(3, 4)


def test_seen_items_are_left_out(data: SocialDataset, model: mcne.MCNE) -> None:
    read = data.behavior("read")
    seen = set(read.items.take(read.item[read.user == 3]))
    assert not seen & set(model.recommend(3, "read", k=100).ids)
    assert seen <= set(model.recommend(3, "read", k=100, filter_seen=False).ids)


@pytest.mark.parametrize("protocol", ["sampled", "popular", "full"])
def test_evaluate_is_on_the_test_part(protocol: Any, data: SocialDataset, model: mcne.MCNE) -> None:
    wanted = evaluate(model.embeddings, data, random_split(data, seed=0), part="test", protocol=protocol)
    assert model.evaluate(protocol).summary() == wanted.summary()


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: model.embeddings,
        lambda model: model.recommend(1, "read"),
        lambda model: model.similar_users(1),
        lambda model: model.similar_items(1, "read"),
        lambda model: model.explain(1, 2),
        lambda model: model.evaluate(),
    ],
)
def test_before_fit(ask: Any) -> None:
    with pytest.raises(UsageError, match=r"not trained yet; call fit\(data\) first"):
        ask(mcne.MCNE())


# load


def test_load_opens_runs_and_saved_embeddings(data: SocialDataset, model: mcne.MCNE, tmp_path: Path) -> None:
    mcne.MCNE(**TINY).fit(data, out=tmp_path / "run", progress=False)
    model.embeddings.save(tmp_path / "saved")
    for name in ("run", "saved"):
        opened = mcne.load(tmp_path / name)
        assert type(opened) is (mcne.MCNE if name == "run" else mcne.ConditionalEmbeddings)
        assert opened.fingerprint == model.embeddings.fingerprint
        np.testing.assert_array_equal(opened.user_vectors("read"), model.embeddings.user_vectors("read"))


def test_load_of_anything_else(data: SocialDataset, tmp_path: Path) -> None:
    with refused(DataError, place="nowhere", about="directory"):
        mcne.load(tmp_path / "nowhere")
    with refused(DataError, about="embeddings"):
        mcne.load(tmp_path)
    data.save(tmp_path / "data")
    with pytest.raises(ArtifactError, match="is a dataset"):
        mcne.load(tmp_path / "data")


def test_a_saved_model_is_a_run(data: SocialDataset, model: mcne.MCNE, tmp_path: Path) -> None:
    model.save(tmp_path / "first" / "model")
    opened = mcne.load(tmp_path / "first" / "model")
    assert isinstance(opened, mcne.MCNE)
    assert opened.get_params() == model.get_params() | {"device": "auto"}
    assert opened.evaluate().summary() == model.evaluate().summary()
    opened.save(tmp_path / "second")
    run = training.Run.open(tmp_path / "second")
    assert run.data()[0].fingerprint == data.fingerprint
    assert sorted(each.name for each in run.path.iterdir()) == [
        "data", "embeddings", "metrics.jsonl", "result.json", "run.json", "times.jsonl"
    ]  # fmt: skip
    with refused(UsageError, place="second", about="already"):
        model.save(tmp_path / "second")


def test_a_run_of_the_commands_is_saved_with_its_data(data: SocialDataset, tmp_path: Path) -> None:
    saved(data, tmp_path / "data")
    train_small("bpr", data, tmp_path / "runs" / "bpr", dataset_path="../../data")
    opened = mcne.load(tmp_path / "runs" / "bpr")
    opened.save(tmp_path / "elsewhere" / "model")
    shutil.rmtree(tmp_path / "data")
    again = mcne.load(tmp_path / "elsewhere" / "model")
    assert isinstance(again, mcne.BPR)
    assert again.evaluate().summary()["mean"] == again.evaluate("sampled").summary()["mean"]
    assert again.recommend(3, "read").ids == opened.recommend(3, "read").ids


def test_a_run_that_nobody_keeps_vanishes_with_its_model(data: SocialDataset) -> None:
    model = mcne.Popularity().fit(data, progress=False)
    path = model._trained.run.path
    assert path.is_dir()
    del model
    gc.collect()
    assert not path.exists()


# other functions


def test_the_split_and_the_evaluation_of_the_package(data: SocialDataset, model: mcne.MCNE) -> None:
    parts = mcne.split(data, seed=0)
    assert parts.fingerprint == random_split(data, seed=0).fingerprint
    assert mcne.evaluate(model).summary() == model.evaluate().summary()
    assert mcne.evaluate(model.embeddings, data, parts).summary() == model.evaluate().summary()
    other = mcne.split(data, seed=1)
    assert mcne.evaluate(model, split=other, protocol="full").protocol == "full"
    with refused(UsageError, place="evaluate", about="split"):
        mcne.evaluate(model.embeddings)
    with pytest.raises(UsageError, match="unknown kind of split 'randum'; did you mean 'random'"):
        mcne.split(data, "randum")  # type: ignore[arg-type] # wrong on purpose


def test_splits_of_every_kind() -> None:
    timed = mcne.datasets.synthetic(users=500)
    assert mcne.split(timed, "last", seed=3).fingerprint == last_split(timed, seed=3).fingerprint
    cut = mcne.split(timed, "temporal", ratios=(80, 10, 10))
    assert cut.fingerprint == temporal_split(timed, seed=0, ratios=(80, 10, 10)).fingerprint
    with pytest.raises(UsageError, match="a split by each user's last record has no ratios; leave them out"):
        mcne.split(timed, "last", ratios=(80, 10, 10))


def test_an_unknown_setting_of_a_synthetic_network() -> None:
    with refused(UnknownArgumentError, value="links"):
        mcne.datasets.synthetic(links=3)


def test_the_names_of_the_package() -> None:
    names = dir(mcne)
    assert {"BPR", "EASE", "MCNE", "datasets", "errors", "fit", "compare", "load", "split", "evaluate"} < set(names)
    assert len(names) == len(METHODS) + 10
    assert all(getattr(mcne, name) is not None for name in names)
    with pytest.raises(AttributeError, match="no attribute 'MCNF'"):
        _ = mcne.MCNF  # type: ignore[attr-defined] # wrong on purpose
