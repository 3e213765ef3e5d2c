# SPDX-License-Identifier: Apache-2.0
"""Transformations of thread code before it is vectorized (cpu/engine/simt): results with every number of lanes, and what the code became."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program

skip_module_without_nvrtc()


@pytest.fixture(autouse=True)
def without_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_CACHE", "0")


@pytest.fixture
def report(
    generated_code: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[[], str]:
    """What CUCORE_CPU_REPORT says about kernels that were compiled for 16 lanes since."""
    monkeypatch.setenv("CUCORE_CPU_REPORT", "1")
    monkeypatch.setenv("CUCORE_CPU_W", "16")
    monkeypatch.setenv("CUCORE_CPU_TIER", "optimized")
    return lambda: capfd.readouterr().err


def number(report: str, name: str) -> int:
    found = re.search(rf"\b{re.escape(name)}[= ](\d+)", report)
    assert found, report
    return int(found[1])


def code_after(name: str, folder: Path) -> str:
    files = sorted(folder.glob(f"*.{name.replace('-', '_')}.ll"))
    assert files
    text = files[-1].read_text()
    return text[text.rindex("\ndefine") :]  # the copy that is vectorized


TREE = """
extern "C" __global__ void tree(const int* in, int* out, int n) {
  __shared__ int partial[SIZE];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  partial[threadIdx.x] = i < n ? in[i] : 1;
  __syncthreads();
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (threadIdx.x < s) partial[threadIdx.x] = partial[threadIdx.x] * 3 - partial[threadIdx.x + s];
    __syncthreads();
  }
  out[i] = partial[threadIdx.x];
}
"""


@pytest.mark.parametrize("block", [2, 8, 32, 64, 256, 512, 100])
def test_a_tree_in_shared_memory(block: int, any_width: str) -> None:
    data = np.random.default_rng(block).integers(-100, 100, 3 * block, np.int32)
    out = np.zeros(3 * block, np.int32)
    n = 3 * block - 1
    Program(TREE, f"-DSIZE={block}").run("tree", 3, block, data, out, n)
    partial = np.where(np.arange(3 * block) < n, data, 1).reshape(3, block).astype(np.int64)
    step = block // 2
    while step:
        partial[:, :step] = partial[:, :step] * 3 - partial[:, step : 2 * step]
        step //= 2
    assert np.array_equal(out.reshape(3, block), partial.astype(np.int32))


def test_each_step_of_a_tree_has_code_of_its_own(report: Callable[[], str]) -> None:
    Program(TREE, "-DSIZE=256").run("tree", 1, 256, np.ones(256, np.int32), np.zeros(256, np.int32), 256)
    text = report()
    assert number(text, "regions") == 10, text
    assert number(text, "gathers") == 0, text  # `tid | 4` where tid < 4 is contiguous
    assert number(text, "scatters") == 0, text


LOOPS = """
extern "C" __global__ void again(int* out, int rounds) {  // the number of rounds is not known
  __shared__ int v[64];
  v[threadIdx.x] = threadIdx.x;
  for (int i = 0; i < rounds; ++i) {
    __syncthreads();
    int other = v[(threadIdx.x + 1) & 63];
    __syncthreads();
    v[threadIdx.x] += other;
  }
  out[threadIdx.x] = v[threadIdx.x];
}
extern "C" __global__ void left(int* out) {  // threads leave the loop at different iterations
  __shared__ int v[64];
  v[threadIdx.x] = 0;
  __syncthreads();
#pragma unroll 1
  for (int i = 0; i < 6; ++i) {
    v[threadIdx.x] += i * threadIdx.x;
    __syncthreads();
    if (v[0] == 100) break;
  }
  out[threadIdx.x] = v[threadIdx.x];
}
"""


def test_other_loops_with_barriers(any_width: str) -> None:
    program = Program(LOOPS)
    for rounds in (0, 1, 5):
        out = np.zeros(64, np.int32)
        program.run("again", 1, 64, out, rounds)
        v = np.arange(64)
        for _ in range(rounds):
            v = v + np.roll(v, -1)
        assert np.array_equal(out, v)
    out = np.zeros(64, np.int32)
    program.run("left", 1, 64, out)
    assert np.array_equal(out, 15 * np.arange(64))


NEIGHBOURS = """
extern "C" __global__ void upper(const int* in, int* out) {
  __shared__ int v[256];
  v[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < 128) v[threadIdx.x] += v[threadIdx.x + 128];
  __syncthreads();
  out[threadIdx.x] = v[threadIdx.x];
}
extern "C" __global__ void before(const int* in, int* out) {
  __shared__ int v[256];
  v[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  int other = threadIdx.x >= 3 ? v[threadIdx.x - 3] : -1;
  __syncthreads();
  v[threadIdx.x] += other;
  out[threadIdx.x] = v[threadIdx.x];
}
extern "C" __global__ void steps(const unsigned* in, unsigned* out, int last) {
  __shared__ unsigned v[257];
  v[threadIdx.x] = in[threadIdx.x];
#pragma unroll 1
  for (int step = last; step > 0; --step) {
    __syncthreads();
    unsigned sum = threadIdx.x < step ? v[threadIdx.x + 1] + v[threadIdx.x] : 0;
    __syncthreads();
    if (threadIdx.x < step) v[threadIdx.x] = sum;
  }
  out[threadIdx.x] = v[threadIdx.x];
}
"""


def test_neighbours_in_shared_memory(any_width: str) -> None:
    program = Program(NEIGHBOURS)
    data = np.random.default_rng(2).integers(-9, 9, 256, np.int32)
    out = np.zeros(256, np.int32)
    program.run("upper", 1, 256, data, out)
    assert np.array_equal(out, data + np.where(np.arange(256) < 128, np.roll(data, -128), 0))
    program.run("before", 1, 256, data, out)
    assert np.array_equal(out, data + np.where(np.arange(256) >= 3, np.roll(data, 3), -1))
    for last in (0, 1, 20, 255):
        values = data.astype(np.uint32)
        sums = np.zeros(256, np.uint32)
        program.run("steps", 1, 256, values, sums, last)
        for step in range(last, 0, -1):
            values[:step] = values[1 : step + 1] + values[:step]
        assert np.array_equal(sums, values)


def test_groups_after_the_last_one_that_takes_part_do_not_run(report: Callable[[], str]) -> None:
    Program(NEIGHBOURS).run("upper", 1, 256, np.ones(256, np.int32), np.zeros(256, np.int32))
    text = report()
    assert number(text, "last-group") >= 1, text


def test_an_index_that_a_branch_keeps_positive_needs_no_guard(report: Callable[[], str]) -> None:
    Program(NEIGHBOURS).run("before", 1, 256, np.ones(256, np.int32), np.zeros(256, np.int32))
    text = report()
    assert number(text, "guards") == 0, text


def test_a_comparison_of_indices_is_repeated_after_a_barrier(report: Callable[[], str]) -> None:
    Program(NEIGHBOURS).run("steps", 1, 256, np.ones(256, np.uint32), np.zeros(256, np.uint32), 3)
    text = report()
    assert number(text, "scratch") == 1024, text  # the sums of 256 threads, no mask


BYTES = """
extern "C" __global__ void around(const unsigned char* in, unsigned char* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 2 || i >= n - 2) return;
  int sum = in[i - 2] + in[i - 1] + in[i] + in[i + 1] + in[i + 2];
  out[i] = sum > 700 ? 3 : sum == 255;
}
extern "C" __global__ void differ(const signed char* a, const signed char* b, unsigned char* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int d = a[i] - b[i], m = max(d, -d) + min((int)a[i], 5) * 2;
  out[i] = (m > 200) + 2 * ((unsigned)d < 100u) + 4 * (d >> 3 == -4);
}
extern "C" __global__ void limits(const unsigned char* a, unsigned char* out) {  // 16 bits suffice for the first only
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int fits = a[i] * 255 + a[i] + a[i], wraps = a[i] * 255 + a[i] * 3 + 2;
  out[i] = (fits > 65534) + 2 * (wraps < 1000) + 4 * ((int)((unsigned)fits * 1048576u) < 0);
}
extern "C" __global__ void product(const short* a, const unsigned char* b, unsigned char* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int p = a[i] * b[i];
  out[i] = (p > 30000) + 2 * (p < -40000) + 4 * ((p ^ a[i]) & 1);
}
"""


def test_computations_with_bytes(any_width: str) -> None:
    program = Program(BYTES)
    random = np.random.default_rng(5)
    n = 1000
    bytes_ = random.choice([0, 1, 2, 127, 128, 200, 254, 255, 85, 90], n + 24).astype(np.uint8)
    out = np.zeros(n + 24, np.uint8)
    program.run("around", 4, 256, bytes_, out, n)
    wide = bytes_[:n].astype(int)
    total = np.convolve(wide, np.ones(5, int), "valid")
    assert np.array_equal(out[2 : n - 2], np.where(total > 700, 3, total == 255))
    a, b = random.integers(-128, 128, (2, 1024)).astype(np.int8)
    a[:4], b[:4] = [-128, 127, -128, 127], [127, -128, -128, 127]
    out = np.zeros(1024, np.uint8)
    program.run("differ", 4, 256, a, b, out)
    d = a.astype(int) - b
    m = np.abs(d) + np.minimum(a, 5).astype(int) * 2
    assert np.array_equal(out, (m > 200) + 2 * ((d >= 0) & (d < 100)) + 4 * (d >> 3 == -4))
    every = np.tile(np.arange(256, dtype=np.uint8), 4)
    program.run("limits", 4, 256, every, out)
    v = every.astype(np.int64)
    overflow = (v * 257 * 2**20).astype(np.int32) < 0
    assert np.array_equal(out, (v * 257 > 65534) + 2 * (v * 258 + 2 < 1000) + 4 * overflow)
    shorts = random.integers(-32768, 32768, 1024).astype(np.int16)
    program.run("product", 4, 256, shorts, every, out)
    p = shorts.astype(int) * every
    assert np.array_equal(out, (p > 30000) + 2 * (p < -40000) + 4 * ((p ^ shorts) & 1))


@pytest.mark.usefixtures("generated_code")
def test_sums_of_bytes_are_computed_with_16_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_W", "16")
    monkeypatch.setenv("CUCORE_CPU_DUMP", "after:narrow-integers")
    monkeypatch.setenv("CUCORE_CPU_DUMP_DIR", str(tmp_path))
    Program(BYTES).run("around", 1, 256, np.zeros(256, np.uint8), np.zeros(256, np.uint8), 256)
    code = code_after("narrow-integers", tmp_path)
    assert len(re.findall(r"add (?:nuw |nsw )*i16", code)) == 4, code
    assert not re.search(r"zext i8 %\S+ to i32", code), code


@pytest.mark.usefixtures("generated_code")
def test_a_tree_too_expensive_to_unroll_starts_with_baseline_code(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUCORE_CPU_REPORT", "1")
    monkeypatch.setenv("CUCORE_CPU_TIER", "auto")
    for name in ("CUCORE_CPU_STRICT", "CUCORE_CPU_W"):
        monkeypatch.delenv(name, raising=False)
    # A module of one short kernel is not worth baseline code.
    source = TREE.replace("* 3 -", "* 3 % 7 * 5 / 3 % 11 -") + NEIGHBOURS + BYTES
    Program(source, "-DSIZE=1024").run("tree", 1, 1024, np.ones(1024, np.int32), np.zeros(1024, np.int32), 1024)
    text = capfd.readouterr().err
    assert "vector, baseline" in text, text
    assert number(text, "regions") == 3, text


DOTS = """
#define DOT(name, types)                                                                                                    \\
  extern "C" __global__ void name(const int* a, const int* b, int* out, int n) {                                            \\
    int i = blockIdx.x * blockDim.x + threadIdx.x, sum = i, twice;                                                          \\
    for (int k = 0; k < n; ++k)                                                                                             \\
      asm("dp4a." types " %0, %1, %2, %0;" : "+r"(sum) : "r"(a[k * 256 + i]), "r"(b[k * 256 + i]));                         \\
    asm("dp4a." types " %0, %1, %1, %2;" : "=r"(twice) : "r"(a[i]), "r"(sum));                                              \\
    out[i] = twice;                                                                                                         \\
  }
DOT(dot_ss, "s32.s32")
DOT(dot_su, "s32.u32")
DOT(dot_us, "u32.s32")
DOT(dot_uu, "u32.u32")
extern "C" __global__ void by_hand(const char4* a, const char4* b, int* out) {
  int i = threadIdx.x;
  out[i] = a[i].x * b[i].x + a[i].y * b[i].y + a[i].z * b[i].z + a[i].w * b[i].w;
}
extern "C" __global__ void crossed(const int* a, const int* b, int* out) {  // no dot product: two bytes are exchanged
  int i = threadIdx.x, x = a[i], y = b[i];
  out[i] = (x & 255) * (y & 255) + (x >> 8 & 255) * (y >> 16 & 255) + (x >> 16 & 255) * (y >> 8 & 255) + (x >> 24 & 255) * (y >> 24 & 255);
}
"""


def bytes_of(words: np.ndarray, kind: str) -> np.ndarray:
    return words.view(np.int8 if kind == "s" else np.uint8).reshape(*words.shape, 4).astype(np.int64)


def test_dot_products_of_bytes(any_width: str) -> None:
    program = Program(DOTS)
    random = np.random.default_rng(7)
    a, b = random.integers(-(2**31), 2**31, (2, 5, 256)).astype(np.int32)
    a[0, :4], b[0, :4] = [-2139062144, 2139062143, -1, 0], [-2139062144, -2139062144, -1, -1]  # 0x80808080, 0x7f7f7f7f
    out = np.zeros(256, np.int32)
    for x in "su":
        for y in "su":
            program.run(f"dot_{x}{y}", 1, 256, a, b, out, 5)
            total = np.arange(256) + np.sum(bytes_of(a, x) * bytes_of(b, y), axis=(0, 2))
            total += np.sum(bytes_of(a[0], x) * bytes_of(a[0], y), axis=1)
            assert np.array_equal(out, total.astype(np.int32)), (x, y)
    program.run("by_hand", 1, 256, a[0], b[0], out)
    assert np.array_equal(out, np.sum(bytes_of(a[0], "s") * bytes_of(b[0], "s"), axis=1))
    program.run("crossed", 1, 256, a[0], b[0], out)
    assert np.array_equal(out, np.sum(bytes_of(a[0], "u") * bytes_of(b[0], "u")[:, [0, 2, 1, 3]], axis=1))


TILES = """
extern "C" __global__ void tiles(const int* in, int* out, int n) {
  __shared__ int tile[18][18];
  int first = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
  for (int i = first; i < 18 * 18; i += threads) tile[i / 18][i % 18] = i < n ? in[i] + i % 18 * 1000 : -i / 18;
  __syncthreads();
  for (int i = first; i < 18 * 18; i += threads) out[i] = tile[i % 18][i / 18];
}
extern "C" __global__ void rows(int* out, int start) {  // the index begins anywhere
  int i = start + threadIdx.x, last = -1, count = 0;
  for (; i < 100; i += 64) {
    out[i] = i;
    last = i;
    ++count;
  }
  out[200 + threadIdx.x] = last * 100 + count;
}
"""


@pytest.mark.parametrize("block", [(16, 16, 1), (8, 8, 1), (32, 4, 1), (64, 1, 1), (10, 10, 1), (32, 32, 1)])
def test_a_tile_with_rows_of_18_numbers(block: tuple[int, int, int], any_width: str) -> None:
    data = np.random.default_rng(1).integers(0, 1000, 324, np.int32)
    program = Program(TILES)
    for n in (324, 200):
        out = np.zeros(324, np.int32)
        program.run("tiles", 1, block, data, out, n)
        i = np.arange(324)
        tile = np.where(i < n, data + i % 18 * 1000, -(i // 18)).reshape(18, 18)
        assert np.array_equal(out, tile.T.ravel())


def test_an_index_ends_at_its_bound(any_width: str) -> None:
    program = Program(TILES)
    for start in (0, 1, 35, 36, 37, 99, 100, 150):
        out = np.full(264, -7, np.int32)
        program.run("rows", 1, 64, out, start)
        expected = np.full(264, -7)
        for t in range(64):
            mine = range(start + t, 100, 64)
            expected[list(mine)] = list(mine)
            expected[200 + t] = (mine[-1] if mine else -1) * 100 + len(mine)
        assert np.array_equal(out, expected), start


def test_the_store_to_such_a_tile_is_contiguous(
    report: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUCORE_CPU_DUMP", "after:compare-indices")
    monkeypatch.setenv("CUCORE_CPU_DUMP_DIR", str(tmp_path))
    Program(TILES).run("tiles", 1, (16, 16, 1), np.ones(324, np.int32), np.zeros(324, np.int32), 324)
    assert number(report(), "scatters") == 0
    code = code_after("compare-indices", tmp_path)
    assert re.search(r"icmp [su]lt i32 %\S+, 68\b", code), code  # i + 256 < 324 instead of a count of iterations


# A tile as NVRTC 13.0 addresses it: with 64 bits, where other versions use 32.
WIDE_TILE = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry tile(.param .u64 in, .param .u64 out) {
  .reg .pred %p<2>;
  .reg .b32 %r<12>;
  .reg .b64 %d<12>;
  .shared .align 4 .b8 numbers[1296];
  ld.param.u64 %d1, [in];
  ld.param.u64 %d2, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.s32 %d3, %r1, 4;
  add.s64 %d4, %d1, %d3;
  ld.global.u32 %r2, [%d4];
  mul.hi.s32 %r3, %r1, 954437177;
  shr.u32 %r4, %r3, 31;
  shr.s32 %r5, %r3, 2;
  add.s32 %r6, %r5, %r4;
  mul.lo.s32 %r7, %r6, 18;
  sub.s32 %r8, %r1, %r7;
  mul.wide.s32 %d5, %r6, 72;
  mov.u64 %d6, numbers;
  add.s64 %d7, %d6, %d5;
  mul.wide.s32 %d8, %r8, 4;
  add.s64 %d9, %d7, %d8;
  st.shared.u32 [%d9], %r2;
  bar.sync 0;
  ld.shared.u32 %r9, [numbers];
  ld.shared.u32 %r10, [%d9];
  add.s32 %r11, %r9, %r10;
  add.s64 %d10, %d2, %d3;
  st.global.u32 [%d10], %r11;
  ret;
}
"""


def test_the_store_to_a_tile_with_wide_addresses_is_contiguous(report: Callable[[], str]) -> None:
    data, out = np.arange(7, 263, dtype=np.int32), np.zeros(256, np.int32)
    Program.of_ptx(WIDE_TILE).run("tile", 1, 256, data, out)
    assert np.array_equal(out, data + 7)
    text = report()
    assert number(text, "scatters") == 0 and number(text, "gathers") == 0, text


PRODUCT = """
extern "C" __global__ void product(const NUMBER* a, const NUMBER* b, NUMBER* c, int n) {
  __shared__ NUMBER as[16][16], bs[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
  NUMBER sum = 0;
  for (int t = 0; t < n / 16; ++t) {
    as[threadIdx.y][threadIdx.x] = a[row * n + t * 16 + threadIdx.x];
    bs[threadIdx.y][threadIdx.x] = b[(t * 16 + threadIdx.y) * n + column];
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}
"""


@pytest.mark.parametrize("kind", ["float", "double", "int"])
def test_a_tiled_matrix_product(kind: str, any_width: str) -> None:
    dtype = {"float": np.float32, "double": np.float64, "int": np.int32}[kind]
    a, b = np.random.default_rng(4).integers(-8, 9, (2, 48, 48)).astype(dtype)
    c = np.zeros((48, 48), dtype)
    Program(PRODUCT, f"-DNUMBER={kind}").run("product", (3, 3, 1), (16, 16, 1), a, b, c, 48)
    assert np.array_equal(c, a @ b)
