"""Runs: one trained method in a directory, from its settings to its embeddings.

``run.json`` says what is trained on what, ``metrics.jsonl`` how it went, ``checkpoints/`` where it stands,
``embeddings/`` what came out (``learned/`` where that is no vectors) and ``result.json`` that it is finished. Reading
a run needs no torch; training imports it where it is used.
"""

from mcne.training.resources import choose_device as choose_device
from mcne.training.run import SPEC as SPEC
from mcne.training.run import Mode as Mode
from mcne.training.run import Run as Run
from mcne.training.run import RunSpec as RunSpec
from mcne.training.run import begun_with as begun_with
from mcne.training.run import resolved as resolved
from mcne.training.run import settings_of as settings_of
from mcne.training.trainer import Training as Training
