# SPDX-License-Identifier: Apache-2.0
"""PTX that ptxas accepts but compilers rarely emit: vector registers, sums as operands, conditional expressions, several results."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest
from ptxsuite.device import DriverError
from ptxsuite.program import Program, device

ON_GPU = os.environ.get("CUCORE_DEVICE") == "gpu"
HEAD = ".version 8.5\n.target sm_90\n.address_size 64\n"
TOP = """
.global .align 16 .b32 cells[8] = {10, 11, 12, 13, 14, 15, 16, 17};
.const .align 16 .b32 table[4] = {20, 21, 22, 23};
"""
START = """
  .reg .b16 %h<8>; .reg .b32 %r<20>, %t; .reg .b64 %rd<9>; .reg .f32 %f<8>; .reg .f64 %fd<4>; .reg .pred %p<4>;
  .reg .v4 .u32 %v; .reg .v2 .u32 %w; .reg .v4 .f32 %vf; .reg .v2 .b64 %vd; .reg .v4 .b32 %q<4>; .reg .v2 .b16 %vh;
  .shared .align 16 .b32 s[64];
  ld.param.u64 %rd0, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %rd1, %t, 4; add.u64 %rd0, %rd0, %rd1;
"""


def text(body: str, top: str = "") -> str:
    return f"{HEAD}{TOP}{top}.visible .entry k(.param .u64 out) {{\n{START}\n  {body}\n  st.global.u32 [%rd0], %r1; ret;\n}}\n"


def run(body: str, top: str = "") -> list[int]:
    out = np.zeros(32, np.int32)
    Program.of_ptx(text(body, top)).run("k", 1, 32, out)
    return [int(v) for v in out]


# A body, and the expected value of %r1 in thread t.
FORMS = {
    "a whole special register": ("mov.v4.u32 %v, %ntid; mad.lo.u32 %r1, %v.x, 100, %v.y; add.u32 %r1, %r1, %v.w;", lambda t: 3201),
    "a special register to a list": ("mov.v4.u32 {%r2, %r3, %r4, _}, %tid; mad.lo.u32 %r1, %r2, 10, %r3;", lambda t: 10 * t),
    "16 bits of a special register": (
        "mov.v4.u16 {%h0, %h1, %h2, %h3}, %tid; mov.b32 %r1, {%h0, %h1};", lambda t: t),
    "components": (
        "mov.u32 %v.x, %t; mov.u32 %v.y, 2; add.u32 %v.z, %v.x, %v.y; mov.u32 %r1, %v.b;", lambda t: t + 2),
    "a list to a vector": ("mov.v2.u32 %w, {%t, 5}; mad.lo.u32 %r1, %w.x, 10, %w.y;", lambda t: 10 * t + 5),
    "an exchange": (
        "mov.u32 %r2, %t; mov.u32 %r3, 7; mov.v2.u32 {%r2, %r3}, {%r3, %r2}; mad.lo.u32 %r1, %r2, 100, %r3;",
        lambda t: 700 + t),
    "a vector to a vector": (
        "mov.v4.u32 %v, {1, 2, 3, %t}; mov.v4.b32 %q1, %v; mov.v4.b32 %q2, %q1; mad.lo.u32 %r1, %q2.w, 10, %q2.x;",
        lambda t: 10 * t + 1),
    "floats": (
        "mov.v4.f32 %vf, {1.0, 2.0, 0f40400000, 4.0}; add.f32 %f0, %vf.z, %vf.w; cvt.rzi.u32.f32 %r1, %f0;", lambda t: 7),
    "doubles": (
        "mov.v2.f64 {%fd0, %fd1}, {1.5, 2.5}; add.f64 %fd0, %fd0, %fd1; cvt.rzi.u32.f64 %r1, %fd0;", lambda t: 4),
    "64 bits": (
        "cvt.u64.u32 %rd2, %t; mov.v2.b64 %vd, {%rd2, 9}; add.u64 %rd3, %vd.x, %vd.y; cvt.u32.u64 %r1, %rd3;", lambda t: t + 9),
    "under a predicate": (
        "setp.lt.u32 %p0, %t, 16; mov.v2.u32 %w, {1, 2}; @%p0 mov.v2.u32 %w, {3, 4}; mad.lo.u32 %r1, %w.x, 10, %w.y;",
        lambda t: 34 if t < 16 else 12),
    "loads and stores of vectors": (
        "mov.u32 %r2, s; mov.v4.u32 %v, {%t, 1, 2, 3}; st.shared.v4.u32 [%r2], %v; ld.shared.v4.u32 %q3, [%r2]; "
        "ld.global.v4.b32 %q0, [cells+16]; ld.global.v2.u32 %w, [cells]; add.u32 %r1, %q3.w, %q0.z; add.u32 %r1, %r1, %w.y;",
        lambda t: 3 + 16 + 11),
    "packed and unpacked": (
        "mov.u32 %w.x, %t; mov.u32 %w.y, 1; mov.b64 %rd2, %w; mov.b64 {%r2, %r3}, %rd2; mov.b64 %w, %rd2; "
        "add.u32 %r1, %r2, %r3; add.u32 %r1, %r1, %w.x;", lambda t: 2 * t + 1),
    "a condition": ("mov.u32 %r1, 1 > 0 ? 2 : 3;", lambda t: 2),
    "conditions in conditions": ("mov.u32 %r2, 0 ? 2 : 1 ? 4 : 5; mov.u32 %r3, 1 ? 0 ? 6 : 7 : 3; mad.lo.u32 %r1, %r2, 10, %r3;",
                                 lambda t: 47),
    "a condition binds less than a sum": ("mov.u32 %r1, 0 ? 2 : 3 + 4;", lambda t: 7),
    "the type of a condition is that of its choice": ("mov.u64 %rd2, (1 ? -1 : 2U) >> 63; cvt.u32.u64 %r1, %rd2;", lambda t: -1),
    "a condition in an address": ("ld.global.u32 %r1, [cells+(WARP_SZ == 32 ? 8 : 0)];", lambda t: 12),
    "a condition after a sum": ("mov.u64 %rd2, cells; ld.global.u32 %r1, [%rd2+1?4:8];", lambda t: 11),
    "an array plus a number": ("mov.u64 %rd2, cells+16; ld.global.u32 %r1, [%rd2];", lambda t: 14),
    "an array plus a product": ("mov.u64 %rd2, cells+4*3; ld.global.u32 %r1, [%rd2+4*2+4];", lambda t: 16),
    "an array plus numbers": ("mov.u64 %rd2, cells+16-4; ld.global.u32 %r1, [%rd2+8-4];", lambda t: 14),
    "an element's address": ("mov.u64 %rd2, cells[3]; ld.global.u32 %r1, [%rd2];", lambda t: 13),
    "an element": ("ld.global.u32 %r2, cells[1+1]; ld.const.u32 %r3, table[1]; mad.lo.u32 %r1, %r2, 100, %r3;", lambda t: 1221),
    "elements": ("ld.global.v2.u32 {%r2, %r3}, cells[2]; st.shared.u32 s[1], %r3; ld.shared.u32 %r1, [s+4];", lambda t: 13),
    "cvta of a sum": ("cvta.global.u64 %rd2, cells+8; ld.u32 %r1, [%rd2];", lambda t: 12),
    "a variable's address in a sum": (
        "mov.u64 %rd2, 4; add.u64 %rd2, %rd2, cells+16; ld.global.u32 %r1, [%rd2];", lambda t: 15),
    "a register plus a number": ("mov.u32 %r1, %t+1;", lambda t: t + 1),
    "registers plus numbers": ("add.u32 %r1, %t+1, %t+-2;", lambda t: 2 * t - 1),
    "in a product": ("mul.lo.u32 %r1, %t+1, %t;", lambda t: t * (t + 1)),
    "in a comparison": ("setp.eq.u32 %p0, %t+1, 5; selp.b32 %r1, %t+10, 0, %p0;", lambda t: 14 if t == 4 else 0),
    "in a store": ("mov.u32 %r2, s; st.shared.u32 [%r2], %t+0; st.shared.u32 [%r2+4], %r2+9; ld.shared.u32 %r3, [%r2+4]; sub.u32 %r1, %r3, %r2;",
                   lambda t: 9),
    "in a conversion": ("cvt.u64.u32 %rd2, %t+3; cvt.u32.u64 %r1, %rd2;", lambda t: t + 3),
    "of 64 bits": ("mov.u64 %rd2, %rd0+16; sub.u64 %rd2, %rd2, %rd0; cvt.u32.u64 %r1, %rd2;", lambda t: 16),
    "of 16 bits": ("cvt.u16.u32 %h0, %t; mov.b16 %h1, %h0+-1; cvt.s32.s16 %r1, %h1;", lambda t: t - 1),
    "in an atomic": ("mov.u32 %r2, s; st.shared.u32 [%r2], 0; atom.shared.exch.b32 %r3, [%r2], %r2+5; ld.shared.u32 %r4, [%r2]; sub.u32 %r1, %r4, %r2;",
                     lambda t: 5),
}  # fmt: skip


@pytest.mark.parametrize("body,value", [pytest.param(*form, id=name) for name, form in FORMS.items()])
def test_unusual_syntax_that_ptxas_accepts_runs(body: str, value: Callable[[int], int], any_width: str) -> None:
    assert run(body) == [value(t) for t in range(32)]


TWO = """.func (.reg .b32 a, .reg .b32 b) two(.reg .b32 x) {
  .reg .pred %p; setp.gt.u32 %p, x, 16; mov.b32 a, x; add.u32 b, x, 100; @%p ret; add.u32 b, b, 1000; ret;
}
"""
MIXED = """.func (.reg .b64 a, .reg .f32 b) mixed(.reg .b32 x) {
  cvt.u64.u32 a, x; cvt.rn.f32.u32 b, x; ret;
}
"""
PREDICATE = """.func (.reg .pred a, .reg .b64 b) parity(.reg .b32 x) {
  .reg .b32 %r; and.b32 %r, x, 1; setp.eq.u32 a, %r, 0; cvt.u64.u32 b, x; ret;
}
"""


def test_function_returns_two_registers(any_width: str) -> None:
    expected = [1000 * t + t + (100 if t > 16 else 1100) for t in range(32)]
    assert run("call (%r2, %r3), two, (%t); mad.lo.u32 %r1, %r2, 1000, %r3;", TWO) == expected
    params = """{ .param .b32 p; .param .b32 q; .param .b32 z; st.param.b32 [z], %t; call (p, q), two, (z);
      ld.param.b32 %r2, [p]; ld.param.b32 %r3, [q]; } mad.lo.u32 %r1, %r2, 1000, %r3;"""
    assert run(params, TWO) == expected


def test_unused_call_result_is_ignored(any_width: str) -> None:
    assert run("call (_, %r1), two, (%t);", TWO) == [t + (100 if t > 16 else 1100) for t in range(32)]


def test_function_returns_registers_of_several_types(any_width: str) -> None:
    body = """call (%rd2, %f0), mixed, (%t); cvt.u32.u64 %r2, %rd2; cvt.rzi.u32.f32 %r3, %f0;
      mad.lo.u32 %r1, %r2, 100, %r3;"""
    assert run(body, MIXED) == [101 * t for t in range(32)]


@pytest.mark.skipif(ON_GPU, reason="ptxas of driver 580 ends with a segmentation fault")
def test_function_returns_a_predicate(any_width: str) -> None:
    body = """call (%p1, %rd2), parity, (%t); cvt.u32.u64 %r2, %rd2; selp.b32 %r4, 1, 0, %p1;
      mad.lo.u32 %r1, %r4, 10000, %r2;"""
    assert run(body, PREDICATE) == [t + (10000 if t % 2 == 0 else 0) for t in range(32)]


WRONG = [
    ("mov.v4.u32 %r1, %v;", "expected a vector of 4 elements"),
    ("mov.v2.u32 %w, %v;", "expected a vector of 2 elements"),
    ("mov.v4.u32 %v, {%r1, %r2, %r3};", "expected a vector of 4 elements"),
    ("mov.v4.b64 {%rd0, %rd1, %rd2, %rd3}, {%rd0, %rd1, %rd2, %rd3};", "at most 128 bits"),
    ("mov.v2.pred {%p0, %p1}, {%p1, %p0};", "does not take '.pred'"),
    ("mov.v4.u32 %v, 5;", "expected a vector of 4 elements"),
    ("mov.u32 %r1, %w.z;", "has no component"),
    ("mov.u32 %r1, %q4.x;", "'%q4' is not declared"),
    ("add.u32 %v, %v, %v;", ""),
    ("mov.f32 %f0, 1 ? 1.0 : 2.0;", "the operands of '?' must be integers"),
    ("mov.u32 %r1, 1 ? 2;", "expected ':' in a conditional expression"),
    ("mov.u32 %r1, 1 ? : 2;", "expected a constant"),
    ("mov.u32 %r1, 1 ? 1/0 : 2;", "have no such result"),
    ("mov.u32 %r1+1, %r2;", "cannot be used here"),
    ("ld.global.u32 %r1+4, [%rd0];", "cannot be used here"),
    ("mov.b64 %rd1, {%r1+1, %r2};", "cannot be used here"),
    ("add.f32 %f0, %f1+1, %f2;", "a number cannot be added to a .f32 register"),
    ("selp.b32 %r1, 1, 2, %p0+1;", "a number cannot be added to a .pred register"),
    ("mov.u32 %r1, %r2+1.5;", "expected an integer"),
    ("ld.global.u32 %r1, [%rd0+1.0];", "expected an integer"),
    ("mov.u64 %rd1, cells[1.5];", "expected an integer as an index"),
    ("mov.u64 %rd1, cells[%r0];", "expected a constant"),
    ("mov.u64 %rd1, out[1];", "'out' is not an array"),
    ("mov.u64 %rd1, cells[1;", "expected ']'"),
    ("mov.u32 %r1, -%r2;", "is for operands of 'vmad'"),
    ("add.f32 %f0, %f1, -%f2;", "is for operands of 'vmad'"),
    ("add.u32 %r1, !%r2, 5;", "'!' is for predicates"),
    ("mov.v4.u32 !%v, %tid;", "'!' is for predicates"),
    ("mov.u32 %r1, %r2[1];", "expected ',' or ';'"),
]  # fmt: skip


@pytest.mark.skipif(os.environ.get("CUCORE_DEVICE") == "gpu", reason="about the CPU device's words")
@pytest.mark.parametrize("line,words", WRONG, ids=[line for line, _ in WRONG])
def test_error_in_unusual_syntax_names_its_position(line: str, words: str) -> None:
    with pytest.raises(DriverError) as error:
        device().load(text(f"\n{line}\n").encode())
    lines = text(f"\n{line}\n").splitlines()
    assert error.value.code == 218
    assert f"ptx:{lines.index(line) + 1}:" in error.value.log and words in error.value.log, error.value.log


def test_call_with_wrong_results_is_rejected() -> None:
    for call in ("call (%r1), two, (%t);", "call two, (%t);", "call (%r1, %r2, %r3), two, (%t);"):
        with pytest.raises(DriverError) as error:
            device().load(text(call, TWO).encode())
        assert error.value.code == 218
