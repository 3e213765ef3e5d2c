"""Kernels on the CPU device against other ways to run them on the same machine; bench/python/kernels.py is the command."""
