"""One setting at a time, over its values."""
