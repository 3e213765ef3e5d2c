# SPDX-License-Identifier: Apache-2.0
"""The GDB extension, and `cucore gdb`, which starts GDB with it."""
