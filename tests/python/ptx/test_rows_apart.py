# SPDX-License-Identifier: Apache-2.0
"""Threads that read neighbouring elements, each at a place of its own, and leave at different times: rows of sparse matrices, structures behind
indices, and indices of indices, with every number of lanes. Vector code reads the elements of a lane together, and lanes that are off read what a
lane that is on reads (cpu/engine/simt/memory_units, memory_gather)."""

from __future__ import annotations

import ctypes
import mmap
import os

import numpy as np
import pytest
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program

skip_module_without_nvrtc()
cpu_only = pytest.mark.skipif(os.environ.get("CUCORE_DEVICE") == "gpu", reason="reads memory of the host")


@pytest.fixture(autouse=True)
def without_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_CACHE", "0")


SPARSE = """
extern "C" __global__ void product(const int* rows, const int* columns, const int* values, const int* x, int* y, int n) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n) return;
  int sum = 0;
  for (int k = rows[row]; k < rows[row + 1]; ++k) sum = sum * 3 + values[k] * x[columns[k]];
  y[row] = sum;
}
extern "C" __global__ void narrow(const unsigned* rows, const unsigned short* columns, const signed char* values, const double* x, double* y, int n) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n) return;
  double sum = 0;
  for (unsigned k = rows[row]; k < rows[row + 1]; ++k) sum = sum * 0.5 + values[k] * x[columns[k]];
  y[row] = sum;
}
extern "C" __global__ void scaled(const int* rows, const int* columns, int* values, const int* x, int* y, int n) {  // writes between its loads
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n) return;
  int sum = 0;
  for (int k = rows[row]; k < rows[row + 1]; ++k) {
    values[k] = values[k] * 5 + x[columns[k]];
    sum ^= values[k];
  }
  y[row] = sum;
}
"""


def matrix(lengths: list[int], width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(len(lengths))
    rows = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return rows, random.integers(0, width, rows[-1], np.int32), random.integers(-100, 100, rows[-1], np.int32)


def products(rows: np.ndarray, columns: np.ndarray, values: np.ndarray, x: np.ndarray) -> np.ndarray:
    sums = np.zeros(len(rows) - 1, np.int32)
    with np.errstate(over="ignore"):
        for row in range(len(sums)):
            for k in range(rows[row], rows[row + 1]):
                sums[row] = sums[row] * np.int32(3) + values[k] * x[columns[k]]
    return sums


LENGTHS = {
    "random": [int(v) for v in np.random.default_rng(5).integers(0, 30, 150)],
    "all of one length": [12] * 64,
    "one long row": [0] * 37 + [50] + [0] * 60,
    "at most three": [i % 4 for i in range(99)],
}


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_sparse_rows_of_different_lengths(lengths: list[int], any_width: str) -> None:
    rows, columns, values = matrix(lengths, 70)
    x, n = np.random.default_rng(1).integers(-50, 50, 70, np.int32), len(lengths)
    program, y = Program(SPARSE), np.zeros(len(lengths), np.int32)
    program.run("product", -(-n // 64), 64, rows, columns, values, x, y, n)
    assert np.array_equal(y, products(rows, columns, values, x))
    changed = values * 5 + x[columns]
    want = [np.bitwise_xor.reduce(changed[rows[i] : rows[i + 1]], initial=0) for i in range(n)]
    program.run("scaled", -(-n // 64), 64, rows, columns, values, x, y, n)
    assert np.array_equal(values, changed)
    assert np.array_equal(y, want)
    sums, small = np.zeros(n), values.astype(np.int8)
    program.run("narrow", -(-n // 64), 64, rows, columns.astype(np.uint16), small, x.astype(np.float64), sums, n)
    for row in range(n):
        total = 0.0
        for k in range(rows[row], rows[row + 1]):
            total = total * 0.5 + float(small[k]) * x[columns[k]]
        assert sums[row] == total


class Guarded:
    """A copy of an array that ends at the end of a page, or begins at its beginning. The pages around it cannot be read."""

    def __init__(self, array: np.ndarray, at_end: bool) -> None:
        page, self.size = mmap.PAGESIZE, max(array.nbytes, 1)
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        pages = -(-self.size // page)
        self.memory = mmap.mmap(-1, (pages + 2) * page)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.guards = base, base + (pages + 1) * page
        start = page + (pages * page - array.nbytes if at_end else 0)
        self.memory[start : start + array.nbytes] = array.tobytes()
        self.address = ctypes.c_uint64(base + start)

    def __enter__(self) -> ctypes.c_uint64:
        for guard in self.guards:
            assert self.libc.mprotect(guard, mmap.PAGESIZE, 0) == 0
        return self.address

    def __exit__(self, *_: object) -> None:
        for guard in self.guards:
            assert self.libc.mprotect(guard, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE) == 0


@cpu_only
@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_sparse_rows_at_the_ends_of_memory_read_nothing_beyond(
    lengths: list[int], at_end: bool, any_width: str
) -> None:
    rows, columns, values = matrix(lengths, 70)
    x, n = np.random.default_rng(1).integers(-50, 50, 70, np.int32), len(lengths)
    y = np.zeros(n, np.int32)
    # The arrays are addressed from places far below, and the first column is far above: nothing is at index 0.
    far = 1 << 28
    with (
        Guarded(columns + far, at_end) as at,
        Guarded(values, at_end) as of,
        Guarded(x, at_end) as vector,
        Guarded(rows + far, at_end) as starts,
    ):
        below = [ctypes.c_uint64(place.value - 4 * far) for place in (at, of, vector)]
        Program(SPARSE).run("product", -(-n // 64), 64, starts, *below, y, n)
    assert np.array_equal(y, products(rows, columns, values, x))


UNITS = """
template <typename T> __device__ void add_up(const T* in, const int* order, const int* keep, long long* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  long long sum = -1;
  for (int round = 0; round < keep[i]; ++round) {
    T v = in[order[i] + round];
    SUM
  }
  out[i] = sum;
}
extern "C" __global__ void units(const TYPE* in, const int* order, const int* keep, long long* out, int n) { add_up(in, order, keep, out, n); }
"""
ELEMENTS = {
    "short2": ("int16", 2, "xy"),
    "uchar4": ("uint8", 4, "xyzw"),
    "int2": ("int32", 2, "yx"),
    "int3": ("int32", 3, "xyz"),
    "int4": ("int32", 4, "xyz"),  # aligned: the last one is read too
    "uint4": ("uint32", 4, "wyz"),
    "short4": ("int16", 4, "wzyx"),
    "longlong2": ("int64", 2, "xy"),
    "longlong4": ("int64", 4, "xyw"),
}


def add_up(total: int, structure: np.ndarray, used: str) -> int:
    for c in used:
        total = total * 7 + int(structure["xyzw".index(c)])
    return total


@pytest.mark.parametrize("kind", ELEMENTS)
def test_structures_behind_indices_of_lanes_that_are_on(kind: str, any_width: str) -> None:
    dtype, count, used = ELEMENTS[kind]
    code = " ".join(f"sum = sum * 7 + v.{c};" for c in used)
    program = Program(UNITS.replace("TYPE", kind).replace("SUM", code))
    random, n = np.random.default_rng(count), 150
    data = random.integers(0, 100, (60, count)).astype(dtype)
    keep = random.integers(0, 4, n).astype(np.int32)
    order = random.integers(0, 57, n).astype(np.int32)
    order[keep == 0] = 0x7FFFFF00  # not to be read
    out = np.zeros(n, np.int64)
    program.run("units", -(-n // 64), 64, data, order, keep, out, n)
    for i in range(n):
        total = -1
        for r in range(keep[i]):
            total = add_up(total, data[order[i] + r], used)
        assert out[i] == total, i


@cpu_only
@pytest.mark.parametrize("kind", ELEMENTS)
def test_structures_at_the_ends_of_memory(kind: str, any_width: str) -> None:
    dtype, count, used = ELEMENTS[kind]
    code = " ".join(f"sum = sum * 7 + v.{c};" for c in used)
    program = Program(UNITS.replace("TYPE", kind).replace("SUM", code))
    n = 100
    data = np.random.default_rng(count).integers(0, 100, (8, count)).astype(dtype)
    keep = (np.arange(n) % 3 == 1).astype(np.int32)
    order = (np.arange(n) % 8).astype(np.int32)
    want = [-1 if not k else add_up(-1, data[o], used) for k, o in zip(keep, order, strict=True)]
    for at_end in (False, True):
        out = np.zeros(n, np.int64)
        with Guarded(data, at_end) as place:
            program.run("units", 2, 64, place, order, keep, out, n)
        assert np.array_equal(out, want)


CHAIN = """
extern "C" __global__ void chain(const INDEX* a, const INDEX* b, const int* c, const int* rounds, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int sum = 0;
  INDEX at = a[i];
  for (int k = 0; k < rounds[i]; ++k) {
    at = b[at];
    sum = sum * 3 + c[at] + c[at + 1] + c[2 * at];
  }
  out[i] = sum;
}
"""


@pytest.mark.parametrize("kind", ["int", "unsigned", "long long", "unsigned char"])
def test_indices_of_indices_of_lanes_that_are_on(kind: str, any_width: str) -> None:
    dtype = {"int": np.int32, "unsigned": np.uint32, "long long": np.int64, "unsigned char": np.uint8}[kind]
    random, n = np.random.default_rng(4), 170
    b = random.integers(0, 100, 200).astype(dtype)
    c, rounds = random.integers(-9, 9, 300).astype(np.int32), random.integers(0, 9, n).astype(np.int32)
    a = random.integers(0, 200, n).astype(dtype)
    if kind != "unsigned char":
        a[rounds == 0] = 0x7FFFFFFF
    out, want = np.zeros(n, np.int32), np.zeros(n, np.int32)
    Program(CHAIN.replace("INDEX", kind)).run("chain", -(-n // 64), 64, a, b, c, rounds, out, n)
    for i in range(n):
        at = int(a[i])
        for _ in range(rounds[i]):
            at = int(b[at])
            want[i] = want[i] * 3 + c[at] + c[at + 1] + c[2 * at]
    assert np.array_equal(out, want)
