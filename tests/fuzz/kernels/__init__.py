# SPDX-License-Identifier: Apache-2.0
"""A differential fuzzer of kernels: random CUDA C++ and PTX programs, in every mode of the CPU device, against a model.

`python -m kernels --help` (with tests/fuzz on PYTHONPATH), or `make fuzz-kernels SECONDS=60 SEED=1`.
"""
