"""The parts of the model: masks, message passing, losses."""
