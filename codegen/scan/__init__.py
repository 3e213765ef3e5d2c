"""Reads NVIDIA's headers with libclang. Not used at build time."""
