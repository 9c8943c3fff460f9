"""Figures against other packages, each in an environment of its own under ``bench-results/rivals``."""
