# SPDX-License-Identifier: Apache-2.0
"""Compares kernels on the CPU device with other implementations; bench/python/kernels.py is the command."""
