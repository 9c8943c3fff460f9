"""A new behavior for a trained network."""
