# SPDX-License-Identifier: Apache-2.0
"""Divergent values that vector code must handle per lane, with every number of lanes.

Each kernel is a reduced random program (tests/fuzz/kernels) that once had a wrong result: 32-bit values that wrap within a group,
conditions that hold on one side of a branch only, variables that only some threads assign, and warp operations that lanes execute at
different places in the code.
"""

from __future__ import annotations

import numpy as np
import pytest
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program

skip_module_without_nvrtc()


pytestmark = pytest.mark.usefixtures("any_width")


@pytest.fixture(autouse=True)
def without_disk_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUCORE_CPU_CACHE", "0")


def words(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**32, count, np.uint32)


# -- values that wrap within a group --


@pytest.mark.parametrize("step", [2654435761, 0x18000000, 0x08000001, 0x40000001, 1 << 31, 1])
def test_wrapping_32_bit_stride_is_widened_per_lane(step: int) -> None:
    program = Program(
        """
    extern "C" __global__ void widen(unsigned long long* u, long long* s, double* d, unsigned step) {
      const unsigned g = blockIdx.x * blockDim.x + threadIdx.x, x = g * step;
      u[g] = (unsigned long long)x;
      s[g] = (long long)(int)x;
      d[g] = (double)(int)(x - 7u);
    }
    extern "C" __global__ void constant(unsigned long long* u, long long* s) {
      const unsigned g = blockIdx.x * blockDim.x + threadIdx.x, x = g * STEP;
      u[g] = (unsigned long long)x;
      s[g] = (long long)(int)x;
    }
    """.replace("STEP", f"{step}u")
    )
    for block in (64, 100):
        n = 3 * block
        x = np.arange(n, dtype=np.uint32) * np.uint32(step)
        u, s, d = np.zeros(n, np.uint64), np.zeros(n, np.int64), np.zeros(n)
        program.run("widen", 3, block, u, s, d, np.uint32(step).view(np.int32).item())
        assert np.array_equal(u, x.astype(np.uint64)) and np.array_equal(s, x.view(np.int32).astype(np.int64))
        assert np.array_equal(d, (x - np.uint32(7)).view(np.int32).astype(np.float64))
        u[:], s[:] = 0, 0
        program.run("constant", 3, block, u, s)
        assert np.array_equal(u, x.astype(np.uint64)) and np.array_equal(s, x.view(np.int32).astype(np.int64))


NARROW = {"signed char": np.int8, "unsigned char": np.uint8, "short": np.int16, "unsigned short": np.uint16}
STEPS = (1, 9, 16, 60, 4097, 8192, 60523)


@pytest.mark.parametrize("type", NARROW)
def test_wrapping_narrow_stride_is_widened_per_lane(type: str) -> None:
    kernels = "".join(
        f"""
    extern "C" __global__ void by{step}(int* to32, long long* to64, float* f) {{
      const {type} x = ({type})(threadIdx.x * {step}u);
      to32[threadIdx.x] = x;
      to64[threadIdx.x] = x;
      f[threadIdx.x] = x;
    }}"""
        for step in STEPS
    )
    program = Program(kernels)
    for step in STEPS:
        x = (np.arange(96, dtype=np.uint32) * np.uint32(step)).astype(NARROW[type])
        to32, to64, f = np.zeros(96, np.int32), np.zeros(96, np.int64), np.zeros(96, np.float32)
        program.run(f"by{step}", 1, 96, to32, to64, f)
        assert np.array_equal(to32, x.astype(np.int32)), step
        assert np.array_equal(to64, x.astype(np.int64)), step
        assert np.array_equal(f, x.astype(np.float32)), step


@pytest.mark.parametrize(
    ("type", "dtype", "step", "limit"),
    [
        ("signed char", np.int8, 9, 10),
        ("signed char", np.int8, 7, 0),
        ("unsigned char", np.uint8, 17, 100),
        ("short", np.int16, 4099, 3),
        ("int", np.int32, 0x18000000, 100),
        ("int", np.int32, 483870948, 1),
        ("unsigned", np.uint32, 2654435761, 100),
    ],
)
def test_comparison_of_a_wrapping_stride_is_evaluated_per_lane(
    type: str, dtype: type[np.integer], step: int, limit: int
) -> None:
    names = {"lt": "<", "ge": ">=", "eq": "==", "gt": ">"}
    kernels = "".join(
        f"""
    extern "C" __global__ void {name}(const int* in, int* out) {{
      const {type} x = ({type})(threadIdx.x * {step}u);
      int v = 0;
      if (x {operator} ({type}){limit}) v = in[threadIdx.x] * 3 + 1;
      out[threadIdx.x] = v;
    }}"""
        for name, operator in names.items()
    )
    program = Program(kernels)
    x = (np.arange(96, dtype=np.uint32) * np.uint32(step)).astype(dtype)
    given = words(96).view(np.int32)
    for name, holds in (("lt", x < limit), ("ge", x >= limit), ("eq", x == limit), ("gt", x > limit)):
        out = np.zeros(96, np.int32)
        program.run(name, 1, 96, given, out)
        assert np.array_equal(out, np.where(holds, given * np.int32(3) + np.int32(1), 0)), name


# -- conditions that hold on one side of a branch only --


@pytest.mark.parametrize("condition", ["j >= 0", "j > 3", "j < 0"])
def test_condition_of_a_branch_is_not_assumed_outside_it(condition: str) -> None:
    program = Program(f"""
    extern "C" __global__ void stencil(const long long* p, long long* o) {{
      const int G = blockIdx.x * blockDim.x + threadIdx.x;
      long long a = p[G], b = p[G + 2], y = 3;
      const int j = (int)threadIdx.x - 5;
      if ({condition}) y = p[G + 1] + (long long)j * 7;
      o[G] = y + a + b;
    }}
    """)
    p = np.random.default_rng(2).integers(-(2**40), 2**40, 130, np.int64)
    out = np.zeros(128, np.int64)
    program.run("stencil", 2, 64, p, out)
    j = np.tile(np.arange(64, dtype=np.int64), 2) - 5
    holds = {"j >= 0": j >= 0, "j > 3": j > 3, "j < 0": j < 0}[condition]
    assert np.array_equal(out, np.where(holds, p[1:129] + j * 7, 3) + p[:128] + p[2:130])


# -- variables that are assigned and used under one condition --


@pytest.mark.parametrize("condition", ["threadIdx.x == 31", "threadIdx.x < 5", "(threadIdx.x & 3) == 1"])
def test_conditionally_assigned_variable_is_kept_per_lane(condition: str) -> None:
    program = Program(f"""
    extern "C" __global__ void kept(const unsigned* in, unsigned* out, int n) {{
      const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
      unsigned w;
      const bool c = {condition};
      if (c) w = (3u + blockIdx.x) % (n | 1u);
      unsigned v = in[t];
      if (v & 1) v = v * 3 + in[v & 255];
      if (c) v += w;
      out[t] = v;
    }}
    """)
    given, out = words(256), np.zeros(128, np.uint32)
    program.run("kept", 2, 64, given, out, 6)
    t = np.tile(np.arange(64), 2)
    holds = {"threadIdx.x == 31": t == 31, "threadIdx.x < 5": t < 5, "(threadIdx.x & 3) == 1": t & 3 == 1}[condition]
    v = given[:128].copy()
    v = np.where(v & 1, v * np.uint32(3) + given[v & 255], v)
    w = (3 + np.repeat(np.arange(2), 64)) % 7
    assert np.array_equal(out, np.where(holds, v + w.astype(np.uint32), v))


@pytest.mark.parametrize("limit", [39, 1, 32, 63])
def test_conditionally_assigned_variables_live_across_a_barrier(limit: int) -> None:
    program = Program(
        """
    extern "C" __global__ void across(const unsigned* in, unsigned* out, int n, int limit) {
      __shared__ unsigned S[64];
      const unsigned t = threadIdx.x;
      unsigned w, h;
      const bool c = t < LIMIT;
      if (c) w = in[blockIdx.x] * n; else h = in[t] >> (t & 31);
      S[t ^ 1] = in[t];
      __syncthreads();
      unsigned v = S[t];
      if (c) v += w; else v ^= h;
      out[blockIdx.x * 64 + t] = v;
    }
    """.replace("LIMIT", f"{limit}u")
    )
    given, out = words(64), np.zeros(128, np.uint32)
    program.run("across", 2, 64, given, out, 5, limit)
    t = np.arange(64)
    h = given >> (t & 31).astype(np.uint32)
    for block in range(2):
        v = given[t ^ 1]
        assert np.array_equal(
            out[block * 64 : block * 64 + 64], np.where(t < limit, v + given[block : block + 1] * np.uint32(5), v ^ h)
        )


# -- warp operations at several places of the code --


@pytest.mark.parametrize("threads", [32, 64])
def test_votes_in_a_divergent_loop_converge(threads: int) -> None:
    program = Program("""
    extern "C" __global__ void votes(const unsigned* in, unsigned* out, int n) {
      const unsigned t = threadIdx.x;
      const bool c = in[t] & 4;
      unsigned v = in[t], s = 0;
      for (int i = 0; i < n; ++i) {
        if (c) v = v * 3 + i; else v ^= (v >> 3) + i;
        s = s * 5 + __ballot_sync(0xffffffffu, v & 1);
      }
      out[t] = s + v;
    }
    """)
    given, out = words(threads), np.zeros(threads, np.uint32)
    program.run("votes", 1, threads, given, out, 6)
    v, s = given.copy(), np.zeros(threads, np.uint32)
    lanes = np.uint32(1) << (np.arange(threads) % 32).astype(np.uint32)
    for i in range(6):
        v = np.where(given & 4, v * np.uint32(3) + np.uint32(i), v ^ ((v >> np.uint32(3)) + np.uint32(i)))
        votes = np.where(v & 1, lanes, 0).reshape(-1, 32).sum(1).astype(np.uint32)
        s = s * np.uint32(5) + np.repeat(votes, 32)
    assert np.array_equal(out, s + v)


OPERATIONS = {
    "ballot": ("__ballot_sync(0xffffffffu, V & 1)", lambda v: np.full(32, np.where(v & 1, 1 << np.arange(32), 0).sum(), np.uint32)),
    "any": ("(unsigned)__any_sync(0xffffffffu, V == 5u)", lambda v: np.full(32, np.any(v == 5), np.uint32)),
    "shfl": ("__shfl_sync(0xffffffffu, V, (threadIdx.x + 3) & 31)", lambda v: np.roll(v, -3)),
    "shfl_xor": ("__shfl_xor_sync(0xffffffffu, V, 9)", lambda v: v[np.arange(32) ^ 9]),
    "match": ("__match_any_sync(0xffffffffu, V & 3)", lambda v: np.array([np.where(v & 3 == x & 3, 1 << np.arange(32), 0).sum() for x in v]).astype(np.uint32)),
    "redux": ("__reduce_add_sync(0xffffffffu, V)", lambda v: np.full(32, v.sum(dtype=np.uint32), np.uint32)),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("condition", ["threadIdx.x & 1", "threadIdx.x < 7", "in[threadIdx.x] & 8"])
def test_lanes_converge_at_copies_of_one_warp_operation(name: str, condition: str) -> None:
    text, model = OPERATIONS[name]
    program = Program(f"""
    extern "C" __global__ void split(const unsigned* in, unsigned* out) {{
      const unsigned v = in[threadIdx.x];
      unsigned r;
      if ({condition}) {{
        r = {text.replace("V", "(v * 3)")} + 1;
      }} else {{
        r = {text.replace("V", "(v ^ 5)")} ^ v;
      }}
      out[threadIdx.x] = r;
    }}
    """)
    given, out = words(32, 5), np.zeros(32, np.uint32)
    program.run("split", 1, 32, given, out)
    t = np.arange(32)
    c = {"threadIdx.x & 1": t & 1 == 1, "threadIdx.x < 7": t < 7, "in[threadIdx.x] & 8": given & 8 != 0}[condition]
    r = model(np.where(c, given * np.uint32(3), given ^ np.uint32(5)))
    assert np.array_equal(out, np.where(c, r + np.uint32(1), r ^ given))


def test_lanes_converge_at_copies_of_a_warp_barrier() -> None:
    program = Program("""
    extern "C" __global__ void barriers(const unsigned* in, unsigned* out) {
      __shared__ volatile unsigned S[32];
      const unsigned t = threadIdx.x;
      if (in[t] & 1) { S[t] = in[t]; __syncwarp(); out[t] = S[t ^ 7] + 1; }
      else { S[t] = ~in[t]; __syncwarp(); out[t] = S[t ^ 7] * 3; }
    }
    """)
    given, out = words(32), np.zeros(32, np.uint32)
    program.run("barriers", 1, 32, given, out)
    other = np.where(given & 1, given, ~given)[np.arange(32) ^ 7]
    assert np.array_equal(out, np.where(given & 1, other + np.uint32(1), other * np.uint32(3)))


@pytest.mark.parametrize("threads", [48, 64])
def test_shuffle_in_a_loop_uses_the_mask_of_each_thread(threads: int) -> None:
    program = Program("""
    extern "C" __global__ void masks(const unsigned* in, unsigned* out, int n) {
      const unsigned t = threadIdx.x, lane = t & 31;
      const unsigned mask = lane & 8 ? 0xff00ff00u : 0x00ff00ffu;
      const unsigned mine = blockDim.x == 48 && t >= 32 ? mask & 0xffffu : mask;
      unsigned v = in[t];
      for (int i = 0; i < n; ++i) {
        const unsigned o = __shfl_xor_sync(mine, v, 1 << i);
        v = v * 3 + o;
      }
      out[t] = v;
    }
    """)
    given, out = words(threads), np.zeros(threads, np.uint32)
    program.run("masks", 1, threads, given, out, 3)
    v = given.copy()
    for i in range(3):
        v = v * np.uint32(3) + v[np.arange(threads) ^ (1 << i)]
    assert np.array_equal(out, v)


def test_warp_operations_on_both_sides_of_a_branch_have_their_own_predicates() -> None:
    program = Program("""
    extern "C" __global__ void sides(const unsigned* in, unsigned* out) {
      const unsigned t = threadIdx.x, v = in[t];
      const bool c = t == 31;
      const unsigned m = __ballot_sync(0xffffffffu, c);
      int same;
      unsigned r;
      if (c) r = __match_all_sync(m, v, &same); else r = __match_all_sync(~m, v & 4u, &same);
      out[t] = r + (same ? 1u : 0u);
    }
    """)
    given, out = words(32), np.zeros(32, np.uint32)
    for equal in (False, True):
        if equal:
            given &= ~np.uint32(4)
        program.run("sides", 1, 32, given, out)
        rest = np.uint32(0x80000000) if equal or len(set((given[:31] & 4).tolist())) == 1 else np.uint32(0)
        assert out[31] == 0x80000001 and np.all(out[:31] == rest)


def test_active_lanes_on_both_sides_of_a_branch_are_read_separately() -> None:
    # Both sides begin with the same instruction, and end with it in the second kernel: LLVM merges equal calls.
    program = Program("""
    extern "C" __global__ void first(const unsigned* in, unsigned* out) {
      const unsigned t = threadIdx.x, v = in[t];
      if (v & 1) {
        const unsigned m = __activemask();
        out[t] = __popc(m) + 100 * __shfl_sync(m, t, __ffs(m) - 1);
      } else {
        const unsigned m = __activemask();
        out[t] = __popc(__ballot_sync(m, v & 2));
      }
    }
    extern "C" __global__ void last(const unsigned* in, unsigned* out) {
      const unsigned t = threadIdx.x, v = in[t];
      unsigned m, n;
      if (v & 1) { n = __ffs(in[v % 32]); m = __activemask(); }
      else { n = __clz(in[v % 31]); m = __activemask(); }
      out[t] = m + n;
    }
    """)
    given, out = words(64), np.zeros(64, np.uint32)
    odd = (given & 1).astype(bool).reshape(2, 32)
    lanes = np.arange(64, dtype=np.uint32).reshape(2, 32)
    count, twos = odd.sum(1), (~odd & (given & 2).astype(bool).reshape(2, 32)).sum(1)
    first_odd = np.array([lane[o][0] for lane, o in zip(lanes, odd, strict=True)])
    program.run("first", 1, 64, given, out)
    assert np.array_equal(out.reshape(2, 32), np.where(odd, (count + 100 * first_odd)[:, None], twos[:, None]))
    program.run("last", 1, 64, given, out)
    mask = (odd * (np.uint32(1) << np.arange(32, dtype=np.uint32))).sum(1, dtype=np.uint32)[:, None]
    numbers = np.array([int(x) for x in given])
    added = [
        (int(numbers[v % 32]) & -int(numbers[v % 32])).bit_length() if v & 1 else 32 - int(numbers[v % 31]).bit_length()
        for v in numbers
    ]
    expected = np.where(odd, mask, ~mask) + np.array(added, np.uint32).reshape(2, 32)
    assert np.array_equal(out.reshape(2, 32), expected)


def test_choice_between_equal_values_needs_no_condition() -> None:
    # LLVM turns the store in a turn of the unrolled loop into a choice between 0 and 0.
    program = Program("""
    extern "C" __global__ void equal(const int* in, unsigned long long* zeros, unsigned long long* starts) {
      const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
      const int start = threadIdx.x & 3;
      #pragma unroll
      for (int i = start - 1; i >= 0; --i) {
        zeros[t * 4] = 0;
        if (in[0] != 0) continue;
        break;
      }
      starts[t] = start;
    }
    """)
    for block in (4, 32, 64):
        start = np.arange(3 * block, dtype=np.uint64) % 4
        for given in (0, 1):
            zeros, starts = np.full(3 * block * 4, 7, np.uint64), np.zeros(3 * block, np.uint64)
            program.run("equal", 3, block, np.full(1, given, np.int32), zeros, starts)
            expected = np.full((3 * block, 4), 7, np.uint64)
            expected[start != 0, 0] = 0
            assert np.array_equal(zeros, expected.ravel()) and np.array_equal(starts, start)
