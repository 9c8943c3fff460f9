"""The figures of docs/performance.md, each measured against its rival or floor in the same run."""
