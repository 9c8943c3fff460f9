"""The figures of docs/results.md, each measured against its rival or floor in the same run."""
