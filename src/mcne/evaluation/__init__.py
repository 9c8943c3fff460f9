"""How well a scorer ranks what users did next: metrics, and the protocols that produce the ranks."""
