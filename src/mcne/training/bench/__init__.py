"""How fast training and ranking are, each measured against a rival or a floor in the same run."""
