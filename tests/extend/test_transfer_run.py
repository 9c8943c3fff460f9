"""A transfer in a directory: old bytes stay, resumed equals uninterrupted, and old and new behaviors are answered."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.errors import refused
from tests.extend.later_behavior import NEW, Whole, files_of
from tests.small_training import transfer_small

from mcne import training
from mcne.data.dataset import SocialDataset
from mcne.data.split import random_split
from mcne.embeddings import ConditionalEmbeddings
from mcne.embeddings.answers import Ranking
from mcne.errors import ArtifactError, DataError, Interrupted, UsageError
from mcne.evaluation.protocol import evaluate
from mcne.extend.checks import settings_of
from mcne.extend.transfer import ParameterCounts
from mcne.training.journal import Position, Reporter
from mcne.training.run import METRICS

pytestmark = pytest.mark.usefixtures("no_flushing")


def bring(
    base: ConditionalEmbeddings, whole: Whole, path: Path, *, behavior: str = NEW, resume: bool = False, **given: Any
) -> training.Run:
    settings = {"epochs": 2, **given}
    return transfer_small(base, *whole, path, behavior=behavior, settings=settings, seed=2, resume=resume)


def plain(rankings: list[Ranking]) -> list[list[tuple[Any, float]]]:
    return [list(ranking) for ranking in rankings]


def test_what_was_there_stays_byte_for_byte(base_run: training.Run, whole: Whole, tmp_path: Path) -> None:
    base = base_run.embeddings
    made = bring(base, whole, tmp_path / "run")
    old, new = (files_of(run.path / "embeddings") for run in (base_run, made))
    assert len(old) > 20
    assert {name: new[name] for name in old} == old
    assert sorted(name for name in new if name not in old) == [
        f"behavior.2.{part}.npy"
        for part in ("item_vectors", "items", "mask", "seen.indptr", "seen.items", "user_vectors")
    ]
    extended = made.embeddings
    users = [int(user) for user in base.users][::50]
    for name in base.behavior_names:
        assert plain(extended.recommend(users, name)) == plain(base.recommend(users, name))
        assert plain(extended.similar_users(users, name)) == plain(base.similar_users(users, name))
    assert plain(extended.similar_users(users)) == plain(base.similar_users(users))
    assert [space.user_vectors is None for space in extended.spaces] == [True, True, False]


def test_the_new_run_answers_and_is_measured_on_the_new_behavior(
    base: ConditionalEmbeddings, whole: Whole, tmp_path: Path
) -> None:
    made = bring(base, whole, tmp_path / "run")
    opened = training.Run.open(tmp_path / "run")
    assert opened.fingerprint == made.fingerprint
    dataset, split = opened.data()
    assert dataset.behavior_names == [NEW]
    evaluation = evaluate(opened.scorer(dataset, split), dataset, split)
    at = whole[0].behavior_names.index(NEW)
    one = whole[0].only(at)
    scores = opened.embeddings.scores(2, np.arange(5))
    by_hand = opened.embeddings.user_vectors(NEW)[:5] @ opened.embeddings.space(NEW).item_vectors.T
    np.testing.assert_allclose(scores, by_hand, rtol=1e-5, atol=1e-7)
    again = evaluate(opened.scorer(one, whole[1].only(at, one)), one, whole[1].only(at, one))
    assert evaluation.summary() == again.summary()
    assert opened.spec.method == "mcne-transfer"
    explained = opened.embeddings.explain(*list(base.users)[:2])
    assert [on.behavior for on in explained.behaviors] == [*base.behavior_names, NEW]


def test_what_was_trained_is_counted(base: ConditionalEmbeddings, whole: Whole, tmp_path: Path) -> None:
    made = bring(base, whole, tmp_path / "run")
    counted = ParameterCounts.of(made)
    items = whole[0].behavior(NEW).n_items * 5
    assert (counted.masks, counted.items) == (8 + 6 + 5, items)
    assert made.result["parameters"] == counted.masks + counted.items
    assert f"trained {items + 19:,} parameters (19 mask, {items:,} item); " in str(counted)
    fixed = bring(base, whole, tmp_path / "fixed", control="random-masks")
    assert (ParameterCounts.of(fixed).masks, fixed.result["parameters"]) == (0, items)


def test_the_masks_of_every_level_are_told(base: ConditionalEmbeddings, whole: Whole, tmp_path: Path) -> None:
    extended = bring(base, whole, tmp_path / "run").embeddings
    masks = extended.provenance["added"][NEW]["masks"]
    assert [len(mask) for mask in masks] == [8, 6, 5]
    assert [bit == "1" for bit in masks[-1]] == extended.space(NEW).mask.tolist()


def test_masks_only_learns_items_first(base: ConditionalEmbeddings, whole: Whole, tmp_path: Path) -> None:
    made = bring(base, whole, tmp_path / "run", control="masks-only")
    first = bring(base, whole, tmp_path / "first", control="whole-vector")
    items = [run.embeddings.space(NEW).item_vectors for run in (made, first)]
    assert items[0].tobytes() == items[1].tobytes()
    assert first.embeddings.matrix_and_mask(NEW)[0].tobytes() == base.vectors.tobytes()
    assert made.result["parameters"] == 8 + 6 + 5


def test_two_behaviors_one_after_the_other(base: ConditionalEmbeddings, whole: Whole, tmp_path: Path) -> None:
    first = bring(base, whole, tmp_path / "first")
    records = pa.table({"user_id": [1, 2, 3, 4] * 10, "item_id": range(40)})
    more = SocialDataset.from_frames(records, single_behavior="Again")
    second = bring(first.embeddings, (more, random_split(more, seed=0)), tmp_path / "second", behavior="Again")
    assert second.embeddings.behavior_names == [*base.behavior_names, NEW, "Again"]
    assert set(second.embeddings.provenance["added"]) == {NEW, "Again"}
    old, new = (files_of(run.path / "embeddings") for run in (first, second))
    assert {name: new[name] for name in old} == old


class _StopAt:
    """Asks for an end after a number of steps, once."""

    def __init__(self, step: int) -> None:
        self.step = step

    def __call__(self, reporter: Reporter, position: Position, **_: Any) -> None:
        if position.steps_done == self.step:
            self.step = -1
            os.kill(os.getpid(), 15)


@pytest.mark.parametrize("control", ["none", "masks-only"])
@pytest.mark.parametrize("step", [1, 9])
def test_resumed_equals_uninterrupted(
    step: int, control: str, base: ConditionalEmbeddings, whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(base, whole, tmp_path / "whole", control=control)
    stop = _StopAt(step)
    with monkeypatch.context() as patch:
        patch.setattr(Reporter, "step", lambda *given, **named: stop(*given, **named))
        with pytest.raises(Interrupted):
            bring(base, whole, tmp_path / "torn", control=control)
        with refused(DataError, place="torn", about="finished"):
            training.Run.open(tmp_path / "torn")
        bring(base, whole, tmp_path / "torn", control=control, resume=True)
    for name in (METRICS, "result.json"):
        assert (tmp_path / "torn" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert files_of(tmp_path / "torn" / "embeddings") == files_of(tmp_path / "whole" / "embeddings")


# mistakes


def leaves_nothing(
    base: ConditionalEmbeddings, whole: Whole, path: Path, kind: type[Exception], message: str, **given: Any
) -> None:
    with pytest.raises(kind, match=message):
        bring(base, whole, path, **given)
    assert not path.exists()


def test_settings_are_those_of_the_trained_network(base: ConditionalEmbeddings) -> None:
    config, settings = settings_of(base, {"l2": 0.5})
    assert (config.neighbor_samples, config.batch_size, config.learning_rate) == ((3, 2), 256, 0.05)
    assert (config.l2, config.control, settings.epochs) == (0.5, "none", 200)
    other = dataclasses.replace(base, provenance={"spec": {"config": {"l2": 9.0, "l2_form": "parameters"}}})
    assert settings_of(other, {})[0].l2 == 0.001
    with refused(UsageError, value="widths"):
        settings_of(base, {"widths": [3]})


def test_embeddings_without_a_network(base: ConditionalEmbeddings, whole: Whole, tmp_path: Path) -> None:
    flat = dataclasses.replace(base, trunk=None, provenance={"method": "bpr"})
    leaves_nothing(flat, whole, tmp_path / "a", UsageError, "'bpr'; .* mcne, mcne-a, mcne-f, mcne-attributes")
    leaves_nothing(
        base, whole, tmp_path / "c", UsageError, "setting neighbor_samples: .* 2 layers", neighbor_samples=[3]
    )


def test_a_behavior_that_is_there_or_is_not(base: ConditionalEmbeddings, whole: Whole, tmp_path: Path) -> None:
    leaves_nothing(base, whole, tmp_path / "a", UsageError, "behavior 'Books' is already", behavior="Books")
    leaves_nothing(
        base, whole, tmp_path / "b", UsageError, "unknown behavior 'Travle'; did you mean 'Travel'", behavior="Travle"
    )


def test_nothing_is_ever_replaced(base: ConditionalEmbeddings, whole: Whole, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("mine")
    with refused(UsageError, about="empty"):
        bring(base, whole, tmp_path)
    made = bring(base, whole, tmp_path / "run")
    before = files_of(made.path / "embeddings")
    with refused(UsageError, place="run", about="already"):
        bring(base, whole, tmp_path / "run")
    with pytest.raises(ArtifactError, match=r"contains another run \(l2 there 0\.001, here 0\.5\)"):
        bring(base, whole, tmp_path / "run", l2=0.5, resume=True)
    bring(base, whole, tmp_path / "run", resume=True)
    assert files_of(made.path / "embeddings") == before
    assert (tmp_path / "kept").read_text() == "mine"
    description: Mapping[str, Any] = json.loads((tmp_path / "run" / "run.json").read_text())
    assert description["config"]["base"] == base.fingerprint
