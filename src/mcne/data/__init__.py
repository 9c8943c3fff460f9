"""From raw files to one frozen dataset and its splits. Needs no torch."""
