# SPDX-License-Identifier: Apache-2.0
"""Fields of bits whose length is a number of the lane, with every number of lanes: an empty field is zero, and bits above a field are signs.

In vector code of a block of one group these lengths are constants. The shift of a lane with an empty field would be as long as the number.
"""

from __future__ import annotations

import numpy as np
import pytest
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program

skip_module_without_nvrtc()

pytestmark = pytest.mark.usefixtures("any_width")
in_blocks = pytest.mark.parametrize("threads", [4, 7, 8, 16, 29, 32, 64])

FIELDS = """
extern "C" __global__ void extract(const int* in, int* out) {
  int t = threadIdx.x, x = in[t];
  for (int turn = 0; turn < 3; ++turn) asm("bfe.s32 %0, %1, %2, %3;" : "=r"(x) : "r"(in[t]), "r"(x & 7), "r"(t & 31));
  out[t] = x;
}
extern "C" __global__ void extract_unsigned(const int* in, int* out) {
  int t = threadIdx.x;
  asm("bfe.u32 %0, %1, %2, %3;" : "=r"(out[t]) : "r"(in[t]), "r"(3), "r"(t & 31));
}
extern "C" __global__ void extract_constant(const int* in, int* out) {
  int t = threadIdx.x, x = in[t];
  for (int turn = 0; turn < 3; ++turn) asm volatile("bfe.s32 %0, %1, %2, %3;" : "=r"(x) : "r"(-2096612977), "r"(x), "r"(t & 31));
  out[t] = x;
}
extern "C" __global__ void extend(const int* in, int* out) {
  int t = threadIdx.x;
  asm("szext.wrap.s32 %0, %1, %2;" : "=r"(out[t]) : "r"(in[t]), "r"(t & 31));
}
extern "C" __global__ void shifted(const int* in, int* out) {
  int t = threadIdx.x, length = t & 31;
  out[t] = length == 0 ? 0 : in[t] << (32 - length) >> (32 - length);
}
extern "C" __global__ void wide(const long long* in, long long* out) {
  int t = threadIdx.x;
  asm("bfe.s64 %0, %1, %2, %3;" : "=l"(out[t]) : "l"(in[t]), "r"(5), "r"(t & 63));
}
"""


def field(x: int, start: int, length: int, signed: bool, bits: int = 32) -> int:
    if length == 0:
        return 0
    if not signed:
        return (x % 2**bits) >> start & (1 << length) - 1
    found = x >> start & (1 << length) - 1  # bits beyond the number are its sign
    return found - (1 << length) if found >> length - 1 else found


def numbers(count: int, bits: int) -> list[int]:
    """Negative ones and others, whose fields differ; the first is negative."""
    return [(t * 0x9E3779B97F4A7C15 ^ t << 17) % 2**bits - 2 ** (bits - 1) for t in range(1, count + 1)]


def run(kernel: str, given: list[int], dtype: type = np.int32) -> list[int]:
    out = np.zeros(len(given), dtype)
    Program(FIELDS).run(kernel, 1, len(given), np.array(given, dtype), out)
    return [int(x) for x in out]


@in_blocks
def test_fields_of_loaded_numbers_have_the_length_of_the_lane(threads: int) -> None:
    given = numbers(threads, 32)
    expected = []
    for t, x in enumerate(given):
        found = x
        for _ in range(3):
            found = field(x, found & 7, t & 31, True)
        expected.append(found)
    assert run("extract", given) == expected
    assert run("extract_unsigned", given) == [field(x, 3, t & 31, False) for t, x in enumerate(given)]
    expected = given
    for _ in range(3):
        expected = [field(-2096612977, x & 255, t & 31, True) for t, x in enumerate(expected)]
    assert run("extract_constant", given) == expected


@in_blocks
def test_extended_numbers_have_the_length_of_the_lane(threads: int) -> None:
    given = numbers(threads, 32)
    expected = [field(x, 0, t & 31, True) for t, x in enumerate(given)]
    assert run("extend", given) == expected
    assert run("shifted", given) == expected


@in_blocks
def test_wide_fields_have_the_length_of_the_lane(threads: int) -> None:
    given = numbers(threads, 64)
    assert run("wide", given, np.int64) == [field(x, 5, t & 63, True, 64) for t, x in enumerate(given)]


FOUND = """
.version 8.3
.target sm_90
.address_size 64
.visible .entry found(.param .u64 p_in, .param .u64 p_out) {
.reg .b32 %t, %x, %m, %turn; .reg .b64 %in, %out, %at, %wide; .reg .pred %p;
ld.param.u64 %in, [p_in]; ld.param.u64 %out, [p_out];
mov.u32 %t, %tid.x;
mad.wide.u32 %at, %t, 4, %in; ld.global.u32 %x, [%at];
bar.sync 0;
mov.u32 %turn, 3;
$again:
setp.lt.u32 %p, %t, 100; vote.sync.ballot.b32 %m, %p, 127;
bfe.s32 %x, -2096612977, %x, %t;
sub.u32 %turn, %turn, 1; setp.ne.u32 %p, %turn, 0; @%p bra $again;
cvt.u64.u32 %wide, %x; mad.wide.u32 %at, %t, 8, %out; st.global.u64 [%at], %wide;
ret;
}
"""


def test_empty_field_of_a_lane_beside_others_is_zero() -> None:
    threads = 7
    given, out = np.arange(40, 40 + threads, dtype=np.uint32), np.full(threads, 7, np.uint64)
    Program.of_ptx(FOUND).run("found", 1, threads, given, out)
    expected = [int(x) for x in given]
    for _ in range(3):
        expected = [field(-2096612977, x & 255, t, True) for t, x in enumerate(expected)]
    assert [int(x) for x in out] == [x % 2**32 for x in expected]
