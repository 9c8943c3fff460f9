"""The figures of the package, under the name that measurements here use."""

from mcne.benchmarking.figure import Figure

__all__ = ["Figure"]
