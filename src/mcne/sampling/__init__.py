"""What a training step draws: positives, negatives and neighbors, in time that depends only on the batch."""
