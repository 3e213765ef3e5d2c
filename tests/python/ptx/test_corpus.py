# SPDX-License-Identifier: Apache-2.0
"""Typical CUDA C++ programs (corpus/*.cu: CUB, cooperative groups, libcu++, half precision, tensor cores, textures, the language),
compiled with NVRTC for an old and a new target, load with all their kernels; those with a simple result also run."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from ptxsuite.nvrtc import compile_ptx, library
from ptxsuite.program import Program, device

FOLDER = Path(__file__).resolve().parent / "corpus"

try:
    library()
except OSError as error:
    pytest.skip(str(error), allow_module_level=True)


def source(name: str) -> str:
    return (FOLDER / name).read_text()


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.cu")))
def test_program_loads_with_all_its_kernels(name: str) -> None:
    text = compile_ptx(source(name), "--device-int128")
    module = device().load(text)
    names = [line.split(b".entry ")[1].split(b"(")[0].strip() for line in text.splitlines() if b".entry " in line]
    assert names
    for kernel in names:
        device().function(module, kernel.decode())
    device().unload(module)


def test_program_with_line_information_loads() -> None:
    module = device().load(compile_ptx(source("language.cu"), "-lineinfo"))
    device().function(module, "everything")
    device().unload(module)


def test_cub_program_computes_the_result() -> None:
    program = Program(source("cub.cu"))
    keys = (np.arange(1024, dtype=np.uint64) * 2654435761 % (1 << 32)).astype(np.uint32)
    out = np.zeros_like(keys)
    program.run("sorts", 2, 128, keys.copy(), out)
    wanted = np.concatenate([np.sort(keys[:512])[::-1], np.sort(keys[512:])[::-1]])
    np.testing.assert_array_equal(out, wanted)
    values = (np.arange(256) % 7).astype(np.float32)
    result = np.zeros(257, np.float32)
    program.run("sums", 1, 256, values.copy(), result, 200)
    assert result[256] == values[:200].sum()
    for thread in (0, 16, 240):  # the first thread of a logical warp has its maximum
        assert result[thread] == values[:thread].sum() + values.sum() + values[thread : thread + 16].max()


def test_tensor_core_program_computes_the_product() -> None:
    program = Program(source("tensor.cu"))
    i, j = np.meshgrid(np.arange(16), np.arange(16), indexing="ij")
    a = ((i * 3 + j) % 5 - 2).astype(np.float16)
    b = ((i * 7 + j) % 3 - 1).astype(np.float16)
    c, d = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float16)
    program.run("products", 1, 32, a, np.ascontiguousarray(b.T), c, d)
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_array_equal(c, wanted)
    np.testing.assert_array_equal(d.T.astype(np.float32), wanted)


def test_blocks_of_a_cluster_read_each_others_shared_memory() -> None:
    program = Program(source("cooperative.cu"))
    values = np.arange(32, dtype=np.int32)
    program.run("clusters", 2, 32, values)
    assert sorted(values) == list(range(32))


def test_language_program_computes_the_result() -> None:
    class Big(ctypes.Structure):
        _fields_ = [("v", ctypes.c_double * 9), ("k", ctypes.c_int)]

    program = Program(source("language.cu"))
    big = Big((ctypes.c_double * 9)(*[float(i * i) for i in range(9)]), 5)
    a, b = np.zeros(8, np.float32), np.zeros(8, np.int32)
    a[1] = 2
    program.run("everything", 1, 1, a, b, big, 4)
    assert list(b[:5]) == [3, 8, 42 + 7 + 42, ord("z"), 9]
    assert list(a[[0, 2, 3, 4]]) == [4.0, 64.0 + 4 + 5, 4.0, 2.0]
