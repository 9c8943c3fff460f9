"""The Python face: a class for every method, splits, evaluation, comparison; ``import mcne`` offers it all."""
