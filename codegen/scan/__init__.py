# SPDX-License-Identifier: Apache-2.0
"""Reads NVIDIA's headers with libclang. Not used at build time."""
