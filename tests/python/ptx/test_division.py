# SPDX-License-Identifier: Apache-2.0
"""Integer division and remainder with every number of lanes, mostly by a number that is the same for all threads.

Vector code divides the first lane of a group and tests whether the others have the same quotient, or multiplies all lanes by a reciprocal.
"""

from __future__ import annotations

import numpy as np
import pytest
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program

skip_module_without_nvrtc()

pytestmark = pytest.mark.usefixtures("any_width")

# PTX type, C++ type, constraint of an operand of inline PTX, NumPy type
TYPES = {
    "u16": ("unsigned short", "h", np.uint16),
    "s16": ("short", "h", np.int16),
    "u32": ("unsigned", "r", np.uint32),
    "s32": ("int", "r", np.int32),
    "u64": ("unsigned long long", "l", np.uint64),
    "s64": ("long long", "l", np.int64),
}
THREADS = 96

SOURCE = """
typedef TYPE T;
__device__ T divide(T x, T y) { T q; asm("div.PTX %0, %1, %2;" : "=REG"(q) : "REG"(x), "REG"(y)); return q; }
__device__ T modulo(T x, T y) { T r; asm("rem.PTX %0, %1, %2;" : "=REG"(r) : "REG"(x), "REG"(y)); return r; }

// Neighbouring threads, a divisor per block.
extern "C" __global__ void strided(const T* first, const T* by, T* quotients, T* remainders) {
  T x = (T)(first[blockIdx.x] + (T)(threadIdx.x * STEP));
  unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
  quotients[at] = divide(x, by[blockIdx.x]);
  remainders[at] = modulo(x, by[blockIdx.x]);
}

// Some lanes are off, and a group passes several divisions.
extern "C" __global__ void masked(const T* first, const T* by, T* quotients, T* remainders, int count) {
  for (int i = 0; i < count; ++i) {
    T x = (T)(first[i] + (T)threadIdx.x);
    unsigned at = i * blockDim.x + threadIdx.x;
    if ((threadIdx.x * 0x9e3779b9u >> 28) != (unsigned)(i & 15)) quotients[at] = divide(x, by[i]);
    remainders[at] = modulo(x, by[i]);
  }
}

// Any dividends.
extern "C" __global__ void varying(const T* x, const T* by, T* quotients, T* remainders) {
  unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
  quotients[at] = divide(x[at], by[blockIdx.x]);
  remainders[at] = modulo(x[at], by[blockIdx.x]);
}

// Addresses that follow from a quotient and a remainder.
extern "C" __global__ void indices(const int* rows, const int* columns, int* out, int width, int height, int count) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    out[(i % width) * height + i / width] = rows[i / width] * 1000 + columns[i % width];
}
"""


def program(ptx: str, step: int = 1) -> Program:
    type, constraint, _ = TYPES[ptx]
    source = SOURCE.replace("TYPE", type).replace("PTX", ptx).replace("STEP", str(step))
    return Program(source.replace("REG", constraint))


def expected(x: np.ndarray, by: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Division truncates; a quotient or remainder by zero is all ones, and INT_MIN / -1 wraps."""
    kind = x.dtype.type
    safe = np.where((by == 0) | ((by == kind(-1)) if x.dtype.kind == "i" else False), kind(1), by)
    away = (x < 0) != (safe < 0)
    with np.errstate(over="ignore"):
        quotient = x // safe
        quotient = (quotient + (away & (quotient * safe != x)).astype(x.dtype)).astype(x.dtype)
        remainder = (x - quotient * safe).astype(x.dtype)
        if x.dtype.kind == "i":
            quotient = np.where(by == kind(-1), (kind(0) - x).astype(x.dtype), quotient)
    ones = ~np.zeros(1, x.dtype)
    return np.where(by == 0, ones, quotient), np.where(by == 0, ones, remainder)


def divisors(kind: type) -> np.ndarray:
    bits = np.iinfo(kind).bits
    powers = [2**k + d for k in range(bits) for d in (-1, 0, 1)]
    numbers = [*range(40), *powers, 0, 96, 97, 100, 127, 641, 1000, 2**bits - 1, 2**bits - 2, 2**bits - 100]
    numbers += [2**bits - n for n in range(1, 36)]
    return np.unique(np.array([n % 2**bits for n in numbers], np.uint64).astype(f"u{bits // 8}")).view(kind)


def cases(kind: type) -> tuple[np.ndarray, np.ndarray]:
    """First dividends and divisors: around zero, multiples of the divisor, and the ends of the range."""
    info = np.iinfo(kind)
    first, by = [], []
    for n in divisors(kind):
        near = [
            0,
            1,
            int(n) * 3 - 5,
            int(n) * 7,
            int(n) - THREADS // 2,
            info.max - 2 * THREADS,
            info.max - 20,
            info.min,
            -50,
        ]
        first += [f % 2**info.bits for f in near]
        by += [n] * len(near)
    return np.array(first, np.uint64).astype(f"u{info.bits // 8}").view(kind), np.array(by, kind)


@pytest.mark.parametrize("ptx", TYPES)
@pytest.mark.parametrize("step", [1, 3])
def test_neighbouring_threads_divide_by_one_number(ptx: str, step: int) -> None:
    kind = TYPES[ptx][2]
    first, by = cases(kind)
    with np.errstate(over="ignore"):
        x = (first[:, None] + (np.arange(THREADS) * step).astype(kind)).astype(kind)
    quotients, remainders = np.zeros_like(x), np.zeros_like(x)
    program(ptx, step).run("strided", len(by), THREADS, first, by, quotients, remainders)
    q, r = expected(x, np.broadcast_to(by[:, None], x.shape))
    assert np.array_equal(quotients, q)
    assert np.array_equal(remainders, r)


@pytest.mark.parametrize("ptx", ["u32", "s32", "u64"])
def test_lanes_that_are_off_do_not_divide(ptx: str) -> None:
    kind = TYPES[ptx][2]
    first, by = (a[::7].copy() for a in cases(kind))
    with np.errstate(over="ignore"):
        x = (first[:, None] + np.arange(THREADS).astype(kind)).astype(kind)
    quotients, remainders = np.full_like(x, 77), np.zeros_like(x)
    program(ptx).run("masked", 1, THREADS, first, by, quotients, remainders, len(by))
    q, r = expected(x, np.broadcast_to(by[:, None], x.shape))
    lanes = (np.arange(THREADS, dtype=np.uint32) * np.uint32(0x9E3779B9)) >> np.uint32(28)
    on = lanes[None, :] != (np.arange(len(by)) & 15)[:, None]
    assert np.array_equal(quotients, np.where(on, q, kind(77)))
    assert np.array_equal(remainders, r)


@pytest.mark.parametrize("ptx", TYPES)
@pytest.mark.parametrize("from_lane", [0, 4])
def test_lanes_whose_number_is_zero_do_not_divide_by_it(ptx: str, from_lane: int) -> None:
    # The numbers of a group are constants, one of them zero. LLVM concludes that nothing is divided by them.
    type, constraint, kind = TYPES[ptx]
    prologue = SOURCE[: SOURCE.index("// Neighbouring")].replace("TYPE", type).replace("PTX", ptx)
    source = prologue.replace("REG", constraint) + "".join(
        f"""
    extern "C" __global__ void lanes{lanes}({type}* x, {type}* quotients, {type}* remainders) {{
      const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
      const {type} lane = ({type})((int)(threadIdx.x & {lanes - 1}) - {from_lane});
      const {type} v = x[at];
      if (lane != 0 && (v & 1)) {{
        quotients[at] = divide(v, lane);
        remainders[at] = v % lane;
      }}
    }}
    """
        for lanes in (4, 8, 16, 32)
    )
    made = Program(source)
    info = np.iinfo(kind)
    x = np.random.default_rng(1).integers(info.min, info.max, 3 * 64, kind, endpoint=True)
    for lanes in (4, 8, 16, 32):
        by = (np.arange(3 * 64) % lanes - from_lane).astype(kind)
        quotients, remainders = np.full_like(x, 77), np.full_like(x, 77)
        made.run(f"lanes{lanes}", 3, 64, x, quotients, remainders)
        q, r = expected(x, by)
        on = (by != 0) & (x & kind(1) != 0)
        assert np.array_equal(quotients, np.where(on, q, kind(77)))
        assert np.array_equal(remainders, np.where(on, r, kind(77)))


@pytest.mark.parametrize("ptx", TYPES)
def test_any_numbers_are_divided_by_one_number(ptx: str) -> None:
    kind = TYPES[ptx][2]
    info = np.iinfo(kind)
    by = divisors(kind)
    random = np.random.default_rng(1)
    x = random.integers(info.min, info.max, (len(by), THREADS), kind, endpoint=True)
    x[:, :4] = info.min, info.max, 0, 1
    with np.errstate(over="ignore"):
        multiples = by[:, None] * random.integers(
            0, 50, (len(by), 30), kind
        )  # quotients are off by one most easily here
        x[:, 4:34], x[:, 34:64] = multiples, multiples - kind(1)
    quotients, remainders = np.zeros_like(x), np.zeros_like(x)
    program(ptx).run("varying", len(by), THREADS, x, by, quotients, remainders)
    q, r = expected(x, np.broadcast_to(by[:, None], x.shape))
    assert np.array_equal(quotients, q)
    assert np.array_equal(remainders, r)


@pytest.mark.parametrize("width", [1, 3, 7, 16, 31, 32, 33, 64, 100, 256, 1000])
def test_quotient_and_remainder_are_indices(width: int) -> None:
    height = 2500 // width + 1
    rows, columns = np.arange(height, dtype=np.int32) + 5, np.arange(width, dtype=np.int32) * 3
    out = np.zeros((width, height), np.int32)
    program("s32").run("indices", 3, 128, rows, columns, out, width, height, width * height)
    assert np.array_equal(out, (rows[:, None] * 1000 + columns).T)


@pytest.mark.cpu_only
def test_indices_from_a_quotient_are_contiguous_accesses(
    any_width: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if any_width in ("1", "baseline"):
        pytest.skip("about optimized vector code")
    if any_width == "default":  # whatever the whole run is set to
        monkeypatch.delenv("CUCORE_CPU_W", raising=False)
    monkeypatch.setenv("CUCORE_CPU_TIER", "optimized")
    monkeypatch.setenv("CUCORE_CPU_REPORT", "1")
    monkeypatch.setenv("CUCORE_CPU_CACHE", "0")
    rows, columns, out = np.arange(8, dtype=np.int32), np.arange(256, dtype=np.int32), np.zeros(2048, np.int32)
    Program(
        """
    extern "C" __global__ void outer(const int* rows, const int* columns, int* out, int width) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      out[i] = rows[i / width] * 1000 + columns[i % width];
    }
    """
    ).run("outer", 16, 128, rows, columns, out, 256)
    assert np.array_equal(out, (rows[:, None] * 1000 + columns).ravel())
    report = capfd.readouterr().err
    assert "contiguous 1, strided 0, gathers 2)" in report, report  # gathers: where a group has two quotients


BARRIERS = """
extern "C" __global__ void after_barriers(const int* in, int* out, int less) {
  __shared__ int kept[64];
  int t = threadIdx.x, q = (t - 4) / 23, r = (t - 4) % 23, s = (t - less) / less;
  kept[t] = 0;
  if (in[t] & 1) kept[t] = in[t] * q;  // lanes leave, and come together before the barrier
  else out[256 + t] = in[t] + r;
  kept[t] += t;
  __syncthreads();
  out[t] = q;
  out[64 + t] = r;
  __syncthreads();
  out[128 + t] = q + kept[blockDim.x - 1 - t];
  out[192 + t] = s;
}
"""


@pytest.mark.parametrize("threads", [4, 8, 16, 32, 64])
def test_quotients_of_negative_numbers_survive_barriers(threads: int) -> None:
    # All quotients of a group are zero, also for numbers that are negative: the group runs without masks again.
    given, out = np.arange(7, 7 + threads, dtype=np.int32), np.full(320, -7, np.int32)
    Program(BARRIERS).run("after_barriers", 1, threads, given, out, 5)
    t = np.arange(threads)
    q, r = np.trunc((t - 4) / 23).astype(int), np.fmod(t - 4, 23).astype(int)
    kept = np.where(given & 1, given * q, 0) + t
    assert np.array_equal(out[:threads], q)
    assert np.array_equal(out[64 : 64 + threads], r)
    assert np.array_equal(out[128 : 128 + threads], q + kept[::-1])
    assert np.array_equal(out[192 : 192 + threads], np.trunc((t - 5) / 5).astype(int))
    assert np.array_equal(out[256 : 256 + threads], np.where(given & 1, -7, given + r))
