"""Kernels compiled for the CPU."""
