"""What a step computes per edge, triple and row, by the fastest backend for the device."""
