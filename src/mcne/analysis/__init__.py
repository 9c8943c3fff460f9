"""What trained vectors show: numbers of masks, maps, attention, as plain data. None needs torch."""
