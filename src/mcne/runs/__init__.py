"""Runs: one trained method in a directory, from its settings to its embeddings.

``run.json`` says what is trained on what, ``metrics.jsonl`` how it went, ``checkpoints/`` where it stands,
``embeddings/`` what came out (``learned/`` where that is no vectors) and ``result.json`` that it is finished. Reading
a run needs no torch; training imports it where it is used.
"""

from mcne.runs.record import SPEC as SPEC
from mcne.runs.record import Mode as Mode
from mcne.runs.record import Run as Run
from mcne.runs.record import RunSpec as RunSpec
from mcne.runs.record import begun_with as begun_with
from mcne.runs.settings import choose_device as choose_device
from mcne.runs.settings import resolved as resolved
from mcne.runs.settings import settings_of as settings_of
from mcne.runs.splits import split_of as split_of
from mcne.runs.training import train as train
