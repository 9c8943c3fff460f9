"""A named split, made on demand by whoever needs it first."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mcne.data.split import Split, random_split, split_of
from mcne.data.synthetic import SyntheticConfig, generate


def test_many_that_need_one_split_at_once_get_the_same(tmp_path: Path) -> None:
    data, _ = generate(SyntheticConfig(users=500, seed=1))
    data.save(tmp_path / "data")

    def ask(_: int) -> Split:
        return split_of(tmp_path / "data", data, "random-3")

    with ThreadPoolExecutor(8) as pool:
        found = {split.fingerprint for split in pool.map(ask, range(16))}
    assert found == {random_split(data, seed=3).fingerprint}
