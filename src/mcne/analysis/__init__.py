"""Analysis of trained vectors as plain data: masks, maps, attention. Nothing here needs torch."""
