"""The kernels as operations of PyTorch: what the compiled ones are equal to."""
