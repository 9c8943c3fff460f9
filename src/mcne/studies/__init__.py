"""Methods compared on the same splits, with the same negatives and the same search budget."""
