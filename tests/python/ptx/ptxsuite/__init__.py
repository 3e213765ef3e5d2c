# SPDX-License-Identifier: Apache-2.0
"""The instruction suite: renders the forms of tests/ptx as kernels, runs them, and compares with recorded results."""
