"""Text for people: numbers, mean ± spread, tables."""
