"""One loop for every method, its optimizer, its checkpoints."""
