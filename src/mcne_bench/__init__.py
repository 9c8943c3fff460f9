"""What ``mcne bench`` and the benchmarks measure: a training step and ranking, against other forms and floors."""
