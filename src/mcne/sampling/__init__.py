"""What a training step sees: positives, negatives and neighbors, drawn in time that depends on the batch alone."""
