"""Figures drawn from saved results."""
