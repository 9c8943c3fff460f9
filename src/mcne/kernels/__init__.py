"""What a step computes per edge, triple and row, with the fastest backend for the device."""
