# SPDX-License-Identifier: Apache-2.0
"""Accesses of neighbouring lanes in rows that are shorter than a group of lanes."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program

skip_module_without_nvrtc()

ROWS = """
template <int Length, class T>
__device__ void copy(const T* in, T* out, unsigned stride) {
  unsigned t = threadIdx.x, lane = t % 32;
  size_t row = lane / Length, column = lane % Length, warp = t / 32 * 32 * 40;
  out[warp + row * 40 + column] = in[warp + row * stride + column];
}
#define COPY(length, type) extern "C" __global__ void rows_##length##_##type(const type* in, type* out, unsigned stride) { copy<length, type>(in, out, stride); }
#define ALL(length) COPY(length, char) COPY(length, short) COPY(length, int) COPY(length, double)
ALL(2) ALL(4) ALL(8) ALL(16) ALL(6)
extern "C" __global__ void uneven(const int* in, int* out, int stride) {  // only a part of the row counts
  int t = threadIdx.x;
  out[t] = in[(t >> 3) * stride + (t & 6)] + in[(t >> 2) * stride + (t & 7)] + in[((t >> 3) + t) * stride + (t & 7)];
}
extern "C" __global__ void wrapping(const int* in, int* out, int start) {  // bytes wrap within a row
  int t = threadIdx.x;
  out[t] = in[(unsigned char)((t >> 3) * 16 + (t & 7) + start)];
}
"""


@pytest.mark.parametrize("stride", [40, 16, 7, 1, 0])
def test_accesses_by_rows_match_numpy(stride: int, any_width: str) -> None:
    random, program = np.random.default_rng(10), Program(ROWS)
    lane = np.arange(32)
    for length, (name, dtype) in itertools.product(
        (2, 4, 8, 16, 6), (("char", np.int8), ("short", np.int16), ("int", np.int32), ("double", np.float64))
    ):
        data = random.integers(-100, 100, (4, 32 * 40)).astype(dtype)
        out = np.zeros((3, 32 * 40), dtype)
        program.run(f"rows_{length}_{name}", 1, 96, data, out, stride)
        wanted = np.zeros_like(out)
        wanted[:, lane // length * 40 + lane % length] = data[:3, lane // length * stride + lane % length]
        assert np.array_equal(out, wanted), (length, name)


def test_indices_that_are_no_rows_match_numpy(any_width: str) -> None:
    program, t = Program(ROWS), np.arange(64)
    data = np.random.default_rng(11).integers(0, 1 << 30, 4096).astype(np.int32)
    out = np.zeros(64, np.int32)
    program.run("uneven", 1, 64, data, out, 13)
    wanted = data[(t >> 3) * 13 + (t & 6)] + data[(t >> 2) * 13 + (t & 7)] + data[((t >> 3) + t) * 13 + (t & 7)]
    assert np.array_equal(out, wanted)
    program.run("wrapping", 1, 64, data, out, 253)
    assert np.array_equal(out, data[((t >> 3) * 16 + (t & 7) + 253) & 255])


@pytest.mark.skipif(os.environ.get("CUCORE_DEVICE") == "gpu", reason="about code of the CPU device")
def test_rows_are_loaded_without_gathers(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CUCORE_CPU_REPORT", "1")
    monkeypatch.setenv("CUCORE_CPU_CACHE", "0")
    for width in ("16", "32"):
        monkeypatch.setenv("CUCORE_CPU_W", width)
        Program(ROWS).run("rows_8_int", 1, 96, np.zeros((4, 1280), np.int32), np.zeros((3, 1280), np.int32), 40)
        text = capfd.readouterr().err
        assert "gathers 0" in text and "scatters 0" in text, text
