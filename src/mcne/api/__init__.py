"""The Python face: a class for every method, splits, evaluation, comparison; ``import mcne`` offers it all."""

from mcne.api.deprecated import moved

__getattr__ = moved(__name__)
