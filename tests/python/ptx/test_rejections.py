# SPDX-License-Identifier: Apache-2.0
"""Unsupported PTX is rejected at load time: the error code gives the reason, the log the instruction, line and column."""

from __future__ import annotations

import os
import re

import pytest
from ptxsuite.device import DriverError
from ptxsuite.program import device

pytestmark = pytest.mark.skipif(os.environ.get("CUCORE_DEVICE") == "gpu", reason="about the CPU device's words")

INVALID, TOO_NEW = 218, 222
REGISTERS = ".reg .b16 %h; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<4>; .reg .pred %p;"


def refusal(line: str, head: str = ".version 8.7\n.target sm_90a\n") -> DriverError:
    text = f"{head}.address_size 64\n.visible .entry k() {{ {REGISTERS}\n  {line}\n  ret;\n}}\n"
    with pytest.raises(DriverError) as error:
        device().load(text.encode())
    return error.value


# One line per unsupported instruction: the text that its error must contain.
MISSING = [
    (
        "multimem.ld_reduce.relaxed.sys.global.add.acc::f16.v4.e4m3x4 {%r0, %r1, %r2, %r3}, [%rd0];",
        "'multimem' needs .target sm_100",
    ),
    ("tcgen05.wait::ld.sync.aligned;", "'tcgen05' needs .target sm_100"),
    (
        "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p, %rd0;",
        "'clusterlaunchcontrol' needs .target sm_100",
    ),
    ("st.bulk.weak.shared::cta [%r0], %rd0, 0;", "'st' needs .target sm_100"),
    ("tensormap.replace.tile.swizzle_atomicity.shared::cta.b1024.b32 [%r0], 0;", "'tensormap' needs .target sm_100"),
    (
        "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes "
        "[%r0], [%rd0, {%r1, %r2, %r3, %r4, %r5}], [%r6];",
        "'cp' needs .target sm_100",
    ),
]


@pytest.mark.parametrize("line,words", MISSING, ids=[line.split()[0] for line, _ in MISSING])
def test_unsupported_instruction_is_an_error_with_its_position(line: str, words: str) -> None:
    error = refusal(line)
    assert error.code == INVALID
    assert re.search(r"ptx:5:\d+: error: ", error.log) and words in error.log, error.log


WRONG = [
    ("vadd.u32.u32.u32 %r0.h2, %r1, %r2, %r3;", "5:20", "a selector is one of .b0"),
    ("vset.u32.u32.lt %r0.b4, %r1, %r2, %r3;", "5:19", "a selector is one of .b0"),
    ("vadd.u32.u32.u32.min %r0.b0, %r1, %r2, %r3;", "5:24", "a selector of d and a second operation exclude"),
    ("vadd.u32.u32.u32 %r0.b0, %r1, %r2;", "5:3", "needs the operand c"),
    ("vshl.u32.u32.u32.clamp.max %r0, %r1, %r2;", "5:3", "needs the operand c"),
    ("vmad.u32.u32.u32 %r0.b0, %r1, %r2, %r3;", "5:20", "vmad has no selector of d"),
    ("ld.acquire.gpu.local.u32 %r0, [%rd0];", "5:3", "neither volatile accesses nor memory orders"),
    ("st.release.gpu.local.u32 [%rd0], %r0;", "5:3", "neither volatile accesses nor memory orders"),
    ("ld.weak.sys.global.u32 %r0, [%rd0];", "5:3", "a scope needs a memory order"),
    ("ld.relaxed.global.u32 %r0, [%rd0];", "5:3", "a memory order needs a scope"),
    ("ld.acquire.gpu.global.cg.u32 %r0, [%rd0];", "5:3", "cache operators are allowed on weak"),
    ("ld.mmio.relaxed.gpu.global.u32 %r0, [%rd0];", "5:3", "'.mmio'"),
    ("ld.nc.u32 %r0, [%rd0];", "5:3", "'.nc'"),
    ("ld.shared.L2::128B.u32 %r0, [%r1];", "5:3", "cache hints"),
    ("ld.global.L2::evict_last.u32 %r0, [%rd0];", "5:3", "sm_100"),
    ("ld.global.v4.b64 {%rd0, %rd1, %rd2, %rd3}, [%rd0];", "5:3", "128 bits"),
    ("st.global.f16 [%rd0], %h;", "5:12", "'.f16'"),
    ("bogus.u32 %r0, %r1;", "5:3", "unknown instruction 'bogus'"),
    ("add.f33 %f0, %f1, %f2;", "5:6", "'.f33'"),
    ("add.u32 %r0, %r1;", "5:3", "needs more operands"),
    ("add.u32 %r0, %r1, %r2, %r3;", "5:26", "takes fewer operands"),
    ("add.u32 %r0, %r1, %x;", "5:21", "register '%x' is not declared"),
    ("bra nowhere;", "5:7", "nowhere"),
    ("add.ftz.f64 %rd0, %rd1, %rd2;", "5:10", "does not take '.f64' here, expected one of .f32 .f16 .f16x2"),
    ("abs.ftz.bf16 %h, %h;", "5:10", "does not take '.bf16' here, expected one of .f32 .f16 .f16x2"),
    ("sub.sat.u32 %r0, %r1, %r2;", "5:10", "does not take '.u32' here, expected one of .s32 .f32 .f16 .f16x2"),
    ("cvt.sat.u32.u16 %r0, %h;", "5:14", "does not take '.u16' here, expected one of .u64 .s8 .s16 .s32 .s64"),
    ("cvt.u32.f32 %r0, %f0;", "5:3", "'cvt' needs one of .rni .rzi .rmi .rpi"),
    ("add.u32 %rd0, %r1, %r2;", "5:11", "a .b64 register is too large for the result: one of 32 bits is needed"),
    ("cvt.rn.bf16.f32 %r0, %f0;", "5:19", "a .b32 register is too large for the result: one of 16 bits is needed"),
    ("min.f32 %f0, %f1, %f2, %f3;", "5:3", "three operands need .target sm_100"),
    ("add.rn.f32x2 %rd0, %rd1, %rd2;", "5:3", "this form of 'add' needs .target sm_100 or later"),
    ("fma.rn.f32.f16 %f0, %h, %h, %f1;", "5:3", "this form of 'fma' needs .target sm_100 or later"),
    ("redux.sync.min.f32 %f0, %f1, %r1;", "5:3", "this form of 'redux' needs .target sm_100 or later"),
    ("cvt.rn.satfinite.e2m1x2.f32 %h, %f0, %f1;", "5:3", "this form of 'cvt' needs .target sm_100 or later"),
    ("wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r0, %r1}, [%rd0];", "5:3", "wmma.load does not have"),
    ("wmma.load.b.sync.aligned.row.m8n8k4.b1 {%r0}, [%rd0];", "5:3", "wmma.load does not have this"),
    ("wmma.load.c.sync.aligned.row.m16n16k16.f32 {%f0, %f1}, [%rd0];", "5:3", "wmma.load does not have this combination"),
    ("wmma.store.d.sync.aligned.row.m16n16k16.f32 [%rd0], {%f0, %f1};", "5:3", "wmma.store does not have"),
    ("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f0, %f1}, {%r0, %r1, %r2, %r3}, {%r0, %r1, %r2, %r3}, {%f0, %f1};", "5:3",
     "wmma.mma does not have"),
    ("wgmma.mma_async.sync.aligned.m64n8k8.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd0, %rd1, %p, 1, 1, 0, 0;", "5:3", "k16"),
    ("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1}, %rd0, %rd1, %p, 1, 1, 0, 0;", "5:53", "expected 4 registers"),
    ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r0, %r1}, {%r2, %r3}, {%f0, %f1, %f2, %f3};", "5:75",
     "take 4 registers"),
    ("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd0, {%r0}], [%r1];", "5:62", "2 coordinates"),
    ("multimem.ld_reduce.global.min.f32 %f0, [%rd0];", "5:3", "this reduction does not exist for .f32"),
    ("multimem.red.global.add.v2.u32 [%rd0], {%r0, %r1};", "5:3", "other types one at a time"),
    ("multimem.st.global.v4.f32 [%rd0], {%f0, %f1};", "5:37", "expected 4 registers"),
]  # fmt: skip


@pytest.mark.parametrize("line,place,words", WRONG, ids=[words for _, _, words in WRONG])
def test_syntax_error_names_its_position(line: str, place: str, words: str) -> None:
    error = refusal(line)
    assert error.code == INVALID
    assert f"ptx:{place}: error: " in error.log and words in error.log, error.log


def test_instruction_for_an_architecture_specific_target_is_rejected() -> None:
    error = refusal("wgmma.fence.sync.aligned;", ".version 8.7\n.target sm_90\n")
    assert error.code == INVALID and "needs .target sm_90a" in error.log


def test_volatile_local_access_requires_a_newer_version() -> None:
    """NVRTC 13.4 emits it (tests/python/ptx/test_bundles.py); older versions of ptxas do not support it."""
    error = refusal("ld.volatile.local.u32 %r0, [%rd0];", ".version 9.0\n.target sm_90\n")
    assert error.code == INVALID and "needs .version 9.1" in error.log


def test_instruction_of_a_newer_version_is_rejected() -> None:
    error = refusal("cvt.rs.f16x2.f32 %r0, %f0, %f1, %r1;", ".version 8.0\n.target sm_90\n")
    assert error.code == INVALID and "needs .version 8.7" in error.log


@pytest.mark.parametrize("target", ["sm_100", "sm_100a", "sm_100f", "sm_103a", "sm_120"])
def test_code_for_a_newer_device_is_rejected(target: str) -> None:
    """Error 218, as on an H200: 209 is for machine code only."""
    error = refusal("ret;", f".version 9.0\n.target {target}\n")
    assert error.code == INVALID
    assert f"ptx:2:9: error: the code is for {target} and this device is an sm_90" in error.log, error.log


@pytest.mark.parametrize(
    "version,target,since", [("7.5", "sm_90", "7.8"), ("7.8", "sm_90a", "8.0"), ("6.4", "sm_80", "7.0")]
)
def test_target_newer_than_the_version_is_rejected(version: str, target: str, since: str) -> None:
    error = refusal("ret;", f".version {version}\n.target {target}\n")
    assert error.code == INVALID
    assert f"ptx:2:9: error: target '{target}' needs .version {since} or later" in error.log, error.log


@pytest.mark.parametrize("target", ["sm_80a", "sm_90f", "sm_x", "sm_90ab"])
def test_unknown_target_is_rejected(target: str) -> None:
    error = refusal("ret;", f".version 9.0\n.target {target}\n")
    assert error.code == INVALID and "unknown target" in error.log, error.log


@pytest.mark.parametrize("version", ["9.6", "10.0", "99.0"])
def test_ptx_of_a_newer_version_is_error_222(version: str) -> None:
    error = refusal("ret;", f".version {version}\n.target sm_90\n")
    assert error.code == TOO_NEW
    assert f"PTX .version {version} is newer than 9.5" in error.log
