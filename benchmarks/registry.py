"""Every figure of docs/performance.md: what it is measured against, and what it should reach."""

from __future__ import annotations

from benchmarks.command_line import measure_mistakes, measure_start
from benchmarks.csv_memory import measure_csv
from benchmarks.gpu_training import epoch_seconds, seconds_to_best
from benchmarks.memory import AT_MOST, measure_memory
from benchmarks.prepare import measure_prepare
from benchmarks.raw import ciao
from benchmarks.rivals.bpr import against_cornac, against_implicit
from benchmarks.rivals.node2vec import against_pecanpy
from benchmarks.rivals.sage import against_sage, against_sparse_sage
from benchmarks.rivals.search import against_faiss
from benchmarks.step import against_smaller, against_smaller_dense, per_part_against_ciao
from mcne_bench.figures import Measurement, Taken, measurements


def _memory() -> Taken:
    (figure,) = measure_memory()
    assert figure.value is not None
    return Taken(figure.value, figure.detail)


LARGE = "step of MCNE, 1,000,000 users"

MEASUREMENTS = [
    *measurements(ciao, "Ciao"),
    Measurement("step.sage", "step of MCNE, Ciao", "SAGEConv × 2 of PyG, same batches", 1, against_sage),
    Measurement("step.sparse-sage", "step of MCNE, Ciao", "the same by sparse products", 1, against_sparse_sage),
    Measurement("size.users", LARGE, "100,000 users of the same degree law", 1.25, against_smaller),
    Measurement("size.friends", f"{LARGE}, 20 friends each", "the same with 100,000", 1.25, against_smaller_dense),
    Measurement("size.parts", f"{LARGE}, per distinct user and link", "Ciao's", 1.5, per_part_against_ciao),
    Measurement("memory.training", "peak memory, 1,000,000 users", "user table, moments, items", AT_MOST, _memory),
    Measurement("memory.csv", "peak memory of preparing a large CSV", "", 4, measure_csv, unit="GiB"),
    Measurement("gpu.epoch", "epoch of MCNE, Ciao, GPU", "", 0.1, epoch_seconds, unit="s"),
    Measurement("gpu.best", "MCNE trained to its best epoch, Ciao, GPU", "", 3, seconds_to_best, unit="s"),
    Measurement("ranking.faiss", "evaluation by full ranking, Ciao", "exact search of faiss", 1.5, against_faiss),
    Measurement("bpr.cornac", "time of a BPR update", "cornac", 1, against_cornac),
    Measurement("bpr.implicit", "time of a BPR update", "implicit", 1, against_implicit),
    Measurement("node2vec", "time of Node2vec", "pecanpy + gensim", 1, against_pecanpy),
    Measurement("data.prepare", "preparing Epinions", "loadmat of the same files", 5, measure_prepare),
    Measurement("start", "mcne --help beyond Python's start", "", 0.2, measure_start, unit="s"),
    Measurement("start.mistake", "slowest usage error beyond Python's start", "", 0.5, measure_mistakes, unit="s"),
]
