# SPDX-License-Identifier: Apache-2.0
"""Loops over the elements of a row that NVRTC unrolls: vector code runs them as one loop (cpu/engine/simt/reroll), with every number of lanes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program

skip_module_without_nvrtc()


@pytest.fixture(autouse=True)
def without_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_CACHE", "0")


SOURCE = """
extern "C" __global__ void sums(const float* in, float* out, int rows, int columns) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
  if (row >= rows) return;
  float sum = 0;
  for (int i = lane; i < columns; i += 32) sum += in[row * columns + i];
  out[row * 32 + lane] = sum;
}
extern "C" __global__ void products(const int* starts, const int* at, const int* x, int* out, int rows) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
  if (row >= rows) return;
  int sum = 0, most = -1;
  for (int i = starts[row] + lane; i < starts[row + 1]; i += 32) {
    int v = x[at[i]];
    sum = sum * 3 + v;
    most = max(most, i);
  }
  out[row * 32 + lane] = sum * 1000 + most;
}
extern "C" __global__ void copies(const int* in, int* out, int rows, int columns) {
  int lane = threadIdx.x & 31, row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  for (int i = lane; i < columns; i += 32) out[row * columns + i] = in[row * columns + i] * 3 + i;
}
extern "C" __global__ void halves(const int* in, const int* scales, int* out, int columns) {  // indices of bits of the index
  int lane = threadIdx.x & 31, row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, sum = 0;
  for (int i = lane; i < columns; i += 32)
    sum = sum * 5 + (in[i / 16 * 32 + (i & 15)] + in[i / 16 * 32 + (i & 15) + 16]) * scales[row * 64 + i / 16];
  out[row * 32 + lane] = sum;
}
extern "C" __global__ void after(const int* in, int* out, int columns) {  // the index is used after the loop
  unsigned i = threadIdx.x;
  int sum = 0;
  for (; i < columns; i += 64) sum ^= in[i] + (i >> 4);
  out[threadIdx.x] = sum * 4096 + i;
}
"""
LENGTHS = [0, 1, 31, 32, 33, 63, 64, 95, 96, 97, 127, 128, 129, 160, 200, 255, 256, 257, 384, 390, 1000, 1024]


@pytest.mark.parametrize("columns", LENGTHS)
def test_rows_of_every_length_are_summed_in_order(columns: int, any_width: str) -> None:
    rows = 5
    data = np.random.default_rng(columns).integers(-1000, 1000, (rows, columns)).astype(np.float32) / 7
    out = np.zeros((rows, 32), np.float32)
    program = Program(SOURCE)
    program.run("sums", 2, 96, np.append(data.ravel(), np.float32(0)), out, rows, columns)
    expected = np.zeros((rows, 32), np.float32)
    for i in range(columns):
        expected[:, i % 32] += data[:, i]
    assert np.array_equal(out, expected)
    numbers = np.arange(rows * columns + 1, dtype=np.int32)
    copied = np.zeros(rows * columns + 1, np.int32)
    program.run("copies", 2, 96, numbers, copied, rows, columns)
    assert np.array_equal(
        copied[:-1].reshape(rows, columns), numbers[:-1].reshape(rows, columns) * 3 + np.arange(columns)
    )
    pairs, scales = np.arange(2 * columns + 64, dtype=np.int32) % 97, np.arange(3 * 64, dtype=np.int32) % 31
    halves = np.zeros((3, 32), np.int32)
    program.run("halves", 1, 96, pairs, scales, halves, columns)
    want_halves = np.zeros((3, 32), np.int64)
    for i in range(columns):
        both = pairs[i // 16 * 32 + i % 16] + pairs[i // 16 * 32 + i % 16 + 16]
        want_halves[:, i % 32] = want_halves[:, i % 32] * 5 + int(both) * scales[np.arange(3) * 64 + i // 16]
        want_halves[:, i % 32] &= 0xFFFFFFFF
    assert np.array_equal(halves, want_halves.astype(np.uint32).view(np.int32))
    last = np.zeros(64, np.int32)
    program.run("after", 1, 64, numbers, last, columns)
    for t in range(64):
        mine = np.arange(t, columns, 64)
        end = t + 64 * len(mine)
        want = np.int64(np.bitwise_xor.reduce(mine + (mine >> 4), initial=0)) * 4096 + end
        assert last[t] == np.int64(want).astype(np.int32)


def test_rows_of_different_lengths_in_one_launch(any_width: str) -> None:
    random = np.random.default_rng(3)
    starts = np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.int32)
    at = random.integers(0, 500, starts[-1] + 1, np.int32)
    x = random.integers(-50, 50, 500, np.int32)
    rows = len(LENGTHS)
    out = np.zeros((rows, 32), np.int32)
    Program(SOURCE).run("products", (rows * 32 + 127) // 128, 128, starts, at, x, out, rows)
    for row in range(rows):
        for lane in range(32):
            total, most = np.int32(0), -1
            with np.errstate(over="ignore"):
                for i in range(starts[row] + lane, starts[row + 1], 32):
                    total = np.int32(total * np.int32(3) + x[at[i]])
                    most = i
                assert out[row, lane] == np.int32(total * np.int32(1000) + np.int32(most)), (row, lane)


@pytest.mark.cpu_only
def test_loads_of_such_a_loop_are_contiguous(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUCORE_CPU_REPORT", "1")
    monkeypatch.setenv("CUCORE_CPU_W", "32")
    Program(SOURCE).run("sums", 1, 64, np.ones(2000, np.float32), np.zeros((2, 32), np.float32), 2, 1000)
    report = capfd.readouterr().err
    assert "contiguous 1, strided 0, gathers 1)" in report, report  # gathers: masked code, where addresses may wrap


# Each changes the second loop, so that it is not what further iterations of the first one do.
CHANGES = {
    "another element": (r"(ld\.global\.f32.*\+)256\]", r"\g<1>260]"),
    "another operation": (r"add(\.f32\s+%f\d+, %f\d+, %f\d+;\n\s+ld\.global\.f32\s+%f\d+, \[%rd\d+\+256\];)", r"sub\1"),
    "another step of the index": (r"(add\.s32\s+%r\d+, %r\d+, )128;", r"\g<1>160;"),
    "another step of the address": (r"(add\.s64\s+%rd\d+, %rd\d+, )512;", r"\g<1>516;"),
    "another test": (r"(setp\.lt\.u32\s+%p\d+, %r\d+, )96;", r"\g<1>128;"),
    "another remainder": (r"(and\.b32\s+%r\d+, %r\d+, )3;", r"\g<1>1;"),
    "another comparison": (r"setp\.lt\.s32(\s+%p\d+, %r\d+, %r\d+;\n\s+@%p\d+ bra)", r"setp.le.s32\1"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("columns", [32, 160, 256, 390, 1000])
def test_a_different_second_loop_is_not_merged(change: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SOURCE[: SOURCE.index('extern "C" __global__ void products')]
    ptx = Program(source).ptx.decode().rstrip("\0")
    pattern, replacement = CHANGES[change]
    changed, count = re.subn(pattern, replacement, ptx)
    assert count == 1, ptx
    results = []
    for width in ("1", "32"):
        monkeypatch.setenv("CUCORE_CPU_W", width)
        out = np.zeros((3, 32), np.float32)
        data = np.random.default_rng(1).random(3 * columns + 2000, np.float32)
        Program.of_ptx(changed).run("sums", 1, 96, data, out, 3, columns)
        results.append(out)
    assert np.array_equal(*results)
