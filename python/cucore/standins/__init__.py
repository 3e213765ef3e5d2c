# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for NVIDIA's compilers that make machine code: theirs is a container with PTX, which the CPU device runs.

`cucore run --cpu` puts this folder first on PATH. Each program NAME is a shell script that starts NAME.py.
"""
