"""The edge computation of message passing, the only part whose cost grows with the number of links."""
