"""New users for a trained network."""
