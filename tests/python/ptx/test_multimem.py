# SPDX-License-Identifier: Apache-2.0
"""multimem: an instruction reads, writes or reduces memory of several devices through one address."""

from __future__ import annotations

import pytest
from ptxsuite.two_devices import ON_GPU, program


def test_multimem_load_reduces_the_values_of_all_devices() -> None:
    program("""
a, b = np.arange(16, dtype=np.uint32) * 3, np.arange(16, dtype=np.uint32)[::-1].copy() - 4
cases = [("add.u32", lambda x, y: x + y), ("min.u32", np.minimum), ("min.s32", lambda x, y: np.minimum(x.view(np.int32), y.view(np.int32)).view(np.uint32)),
         ("max.s32", lambda x, y: np.maximum(x.view(np.int32), y.view(np.int32)).view(np.uint32)), ("and.b32", lambda x, y: x & y),
         ("or.b32", lambda x, y: x | y), ("xor.b32", lambda x, y: x ^ y)]
for name, wanted in cases:
    fill(a, b)
    assert run(f"multimem.ld_reduce.relaxed.sys.global.{name} %r1, [%rd0+20]; st.global.u32 [%rd1], %r1;") == 0
    assert read(out, np.uint32, 1)[0] == wanted(a, b)[5], name
f, g = (np.arange(8) * 1.5 - 2).astype(np.float32), np.arange(8).astype(np.float32) ** 2
fill(f, g)
assert run("multimem.ld_reduce.global.add.v4.f32 {%f0, %f1, %f2, %f3}, [%rd0+16]; st.global.v4.f32 [%rd1], {%f0, %f1, %f2, %f3};") == 0
assert (read(out, np.float32, 4) == (f + g)[4:]).all()
fill(f.astype(np.float64), g.astype(np.float64))
assert run("multimem.ld_reduce.weak.global.add.f64 %d0, [%rd0+8]; st.global.f64 [%rd1], %d0;") == 0
assert read(out, np.float64, 1)[0] == f[1] + g[1]
h, i = np.array([1, 2, 3, 60000], np.float16), np.array([0.5, -7, 2048, 50000], np.float16)
fill(h, i)
for name, wanted in (("add", h + i), ("add.acc::f32", h + i), ("min", np.minimum(h, i)), ("max", np.maximum(h, i))):
    with np.errstate(over="ignore"):
        assert run(f"multimem.ld_reduce.relaxed.gpu.global.{name}.v2.f16x2 {{%r0, %r1}}, [%rd0]; st.global.v2.b32 [%rd1], {{%r0, %r1}};") == 0
        assert (read(out, np.float16, 4) == wanted).all(), (name, read(out, np.float16, 4))
""")


def test_multimem_stores_and_reductions_reach_every_device() -> None:
    program("""
a, b = np.zeros(16, np.uint32), np.full(16, 100, np.uint32)
fill(a, b)
assert run("mov.u32 %r1, 7; multimem.st.relaxed.sys.global.u32 [%rd0+8], %r1; multimem.red.release.gpu.global.add.u32 [%rd0+12], %r1;"
           "multimem.red.relaxed.sys.global.max.s32 [%rd0+16], %r1; multimem.red.global.xor.b32 [%rd0+20], %r1;") == 0
for copy, before in zip(copies, (0, 100)):
    assert read(copy, np.uint32, 7).tolist() == [before, before, 7, before + 7, max(before, 7), before ^ 7, before]
fill(np.ones(8, np.float32), np.full(8, 2, np.float32))
assert run("mov.f32 %f0, 0f3F000000; multimem.red.relaxed.sys.global.add.v4.f32 [%rd0], {%f0, %f0, %f0, %f0}; multimem.st.weak.global.v2.f32 [%rd0+16], {%f0, %f0};") == 0
for copy, before in zip(copies, (1, 2)):
    assert read(copy, np.float32, 8).tolist() == [before + 0.5] * 4 + [0.5] * 2 + [before] * 2
fill(np.ones(8, np.float16), np.full(8, 2, np.float16))
assert run("mov.b32 %r1, 0x3c004000; multimem.red.relaxed.sys.global.add.f16x2 [%rd0], %r1;") == 0
for copy, before in zip(copies, (1, 2)):
    assert read(copy, np.float16, 3).tolist() == [before + 2, before + 1, before]
h, i = np.array([1, -2, 3, 0.5], np.float16), np.array([0.5, 7, 3, -1], np.float16)
for name, wanted in (("min", np.minimum), ("max", np.maximum)):
    fill(h, i)
    assert run(f"mov.b32 %r1, 0x3c004000; mov.b32 %r2, 0xc0003800; multimem.red.relaxed.sys.global.{name}.v2.f16x2 [%rd0], {{%r1, %r2}};") == 0
    for copy, before in zip(copies, (h, i)):
        assert (read(copy, np.float16, 4) == wanted(before, np.array([2, 1, 0.5, -2], np.float16))).all(), name
""")


@pytest.mark.skipif(ON_GPU, reason="drivers before 13.1 do not know it")
def test_multimem_bulk_copies_reach_every_device() -> None:
    program("""
fill(np.ones(16, np.uint32), np.full(16, 2, np.uint32))
body = ".shared .align 16 .b32 s[8]; mov.u32 %r0, s; mov.u32 %r1, 5; st.shared.v4.u32 [%r0], {%r1, %r1, %r1, %r1}; st.shared.v4.u32 [%r0+16], {%r1, %r1, %r1, %r1};"
assert run(body + "multimem.cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r0], 16; add.u64 %rd0, %rd0, 16;"
           "multimem.cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd0], [%r0], 32; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;", version="9.1") == 0
for copy, before in zip(copies, (1, 2)):
    assert read(copy, np.uint32, 13).tolist() == [5] * 4 + [before + 5] * 8 + [before]
""")


@pytest.mark.skipif(ON_GPU, reason="drivers before 13.3 do not know it")
def test_asynchronous_multimem_stores_and_sums_reach_every_device() -> None:
    program(
        """
fill(np.full(16, 1, np.uint32), np.full(16, 2, np.uint32))
assert run("mov.u32 %r1, 7; mov.u16 %h0, 0x1234; mov.u64 %rd2, 0x100000003; mov.f64 %d0, 0d4000000000000000; add.u64 %rd3, %rd0, 4;"
           "multimem.st.async.release.gpu.global.u32 [%rd0], %r1; multimem.st.async.release.sys.b16 [%rd3], %h0;"
           "multimem.st.async.release.gpu.global.f64 [%rd0+8], %d0; multimem.red.async.release.sys.global.add.u32 [%rd0+16], %r1;"
           "multimem.red.async.release.gpu.add.s32 [%rd0+20], %r1; multimem.red.async.release.gpu.global.add.u64 [%rd0+24], %rd2;",
           version="9.3", target="sm_100") == 0
for copy, before in zip(copies, (1, 2)):
    assert read(copy, np.uint32, 9).tolist() == [7, 0x1234, 0, 0x40000000, before + 7, before + 7, before + 3, before + 1, before]
body = ".shared .align 16 .b32 s[8]; mov.u32 %r0, s; mov.u32 %r1, 5; st.shared.v4.u32 [%r0], {%r1, %r1, %r1, %r1};"
assert run(body + "multimem.cp.async.bulk.relaxed.sys.global.shared::cta.bulk_group.b128 [%rd0], [%r0], 16; add.u64 %rd0, %rd0, 16;"
           "multimem.cp.reduce.async.bulk.relaxed.gpu.global.shared::cta.bulk_group.add.u32 [%rd0], [%r0], 16; cp.async.bulk.commit_group;"
           "cp.async.bulk.wait_group 0;", version="9.3", target="sm_100") == 0
for copy, before in zip(copies, (1, 2)):
    assert read(copy, np.uint32, 9).tolist() == [5] * 4 + [before + 12, before + 12, before + 8, before + 6, before]
""",
        CUCORE_CPU_ARCH="10.0,10.0",
    )


@pytest.mark.skipif(ON_GPU, reason="undefined there")
def test_multimem_access_to_another_address_is_a_fault() -> None:
    program("""
assert run("mov.u32 %r1, 7; multimem.st.global.u32 [%rd0], %r1;", address=copies[0]) == 700
""")
    program("""
assert run("mov.u32 %r1, 7; multimem.st.global.u32 [%rd0+2], %r1;") == 716
""")
