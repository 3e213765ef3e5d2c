"""The instruction suite: forms of tests/ptx as kernels, their values, the device under test, recorded results."""
