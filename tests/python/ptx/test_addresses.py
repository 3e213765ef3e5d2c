# SPDX-License-Identifier: Apache-2.0
"""Addresses of shared, local and constant memory: 32-bit sums that wrap, and memory of other blocks of a cluster."""

from __future__ import annotations

import os

import numpy as np
import pytest
from _pytest.mark.structures import ParameterSet
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program

HEAD = ".version 8.5\n.target sm_90\n.address_size 64\n"
THREADS = 96
TID = np.arange(THREADS, dtype=np.int32)

# %below is the address of this thread's 16 bytes minus 4096 (opaque to the compiler), so it is negative; [%below+4096] is valid.
BELOW = """
  .reg .b32 %r<30>, %n, %t, %at, %below; .reg .b64 %rd<20>; .reg .pred %p<4>;
  ld.param.u64 %rd0, [out]; ld.param.u32 %n, [n];
  mov.u32 %t, %tid.x; mul.wide.u32 %rd1, %t, 4; add.u64 %rd0, %rd0, %rd1;
  mov.u32 %at, cells; shl.b32 %r0, %t, 4; add.u32 %at, %at, %r0;
  sub.u32 %below, %at, %n;
"""


def kernel(body: str, shared: str = ".shared .align 16 .b8 cells[1536];", directives: str = "") -> Program:
    text = f"{HEAD}.visible .entry k(.param .u64 out, .param .u32 n) {directives} {{\n{shared}\n{BELOW}\n{body}\n  ret;\n}}\n"
    return Program.of_ptx(text)


def answers(program: Program, blocks: int = 1, threads: int = THREADS) -> list[int]:
    out = np.zeros(blocks * threads, np.int32)
    program.run("k", blocks, threads, out, 4096)
    return [int(v) for v in out]


SUMS = {
    "ld": "st.shared.u32 [%at], %t; ld.shared.u32 %r1, [%below+4096];",
    "st": "st.shared.u32 [%below+4096], %t; ld.shared.u32 %r1, [%at];",
    "several accesses in ascending order": """
      st.shared.u32 [%below+4096], %t; st.shared.u32 [%below+4100], 5; st.shared.u32 [%below+4104], 6;
      ld.shared.u32 %r2, [%at+4]; ld.shared.u32 %r3, [%at+8]; ld.shared.u32 %r1, [%at];
      add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; sub.u32 %r1, %r1, 11;""",
    "several accesses in descending order": """
      st.shared.u32 [%below+4104], 6; st.shared.u32 [%below+4100], 5; st.shared.u32 [%below+4096], %t;
      ld.shared.u32 %r2, [%at+4]; ld.shared.u32 %r3, [%at+8]; ld.shared.u32 %r1, [%at];
      add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3; sub.u32 %r1, %r1, 11;""",
    "a register that changes between accesses": """
      st.shared.u32 [%below+4096], 1; add.u32 %below, %below, 4; st.shared.u32 [%below+4096], 2;
      sub.u32 %below, %below, 4096; st.shared.u32 [%below+8196], %t;
      ld.shared.u32 %r1, [%at+8];""",
    "a negative number": "add.u32 %r2, %at, 64; st.shared.u32 [%r2+-64], %t; ld.shared.u32 %r1, [%at];",
    "the address of the next row": """
      st.shared.u32 [%at], %t; bar.sync 0;
      setp.eq.u32 %p1, %t, 95; mov.u32 %r1, 96; @%p1 bra last; ld.shared.u32 %r1, [%below+4112]; last: sub.u32 %r1, %r1, 1;""",
    "under a predicate": """
      st.shared.u32 [%at], 7; and.b32 %r2, %t, 1; setp.eq.u32 %p1, %r2, 1;
      @%p1 st.shared.u32 [%below+4096], %t; @!%p1 st.shared.u32 [%below+4100], %t;
      ld.shared.u32 %r1, [%at]; @!%p1 ld.shared.u32 %r1, [%at+4];""",
    "v4": """
      st.shared.v4.u32 [%below+4096], {%t, 1, 2, 3}; ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%below+4096];
      add.u32 %r1, %r1, %r4; sub.u32 %r1, %r1, 3;""",
    "atom": """
      st.shared.u32 [%at], 3; atom.shared.add.u32 %r2, [%below+4096], %t; ld.shared.u32 %r1, [%at];
      sub.u32 %r1, %r1, %r2;""",
    "red": "st.shared.u32 [%at], 3; red.shared.add.u32 [%below+4096], %t; ld.shared.u32 %r1, [%at]; sub.u32 %r1, %r1, 3;",
    "cas": "st.shared.u32 [%at], 3; atom.shared.cas.b32 %r2, [%below+4096], 3, %t; ld.shared.u32 %r1, [%at];",
    "volatile": "st.volatile.shared.u32 [%below+4096], %t; ld.volatile.shared.u32 %r1, [%below+4096];",
    "cp.async": """
      st.global.u32 [%rd0], %t; cp.async.ca.shared.global [%below+4096], [%rd0], 4; cp.async.wait_all;
      ld.shared.u32 %r1, [%at];""",
    "mbarrier": """
      mbarrier.init.shared.b64 [%below+4104], 1; mbarrier.arrive.shared.b64 %rd2, [%below+4104];
      mbarrier.test_wait.shared.b64 %p1, [%below+4104], %rd2; selp.b32 %r1, %t, -1, %p1;""",
    "shared::cluster": "st.shared::cluster.u32 [%below+4096], %t; ld.shared::cluster.u32 %r1, [%below+4096];",
    "64-bit register": "cvt.u64.u32 %rd2, %at; add.u64 %rd2, %rd2, -4096; st.shared.u32 [%rd2+4096], %t; ld.shared.u32 %r1, [%at];",
    "variable plus number": "st.shared.u32 [%at], %t; bar.sync 0; ld.shared.u32 %r2, [cells+16]; add.u32 %r1, %t, %r2; sub.u32 %r1, %r1, 1;",
    "ldmatrix": """
      st.shared.v4.u32 [%at], {%t, %t, %t, %t}; bar.warp.sync -1;
      ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%below+4096];
      and.b32 %r3, %t, 31; shr.u32 %r3, %r3, 2; and.b32 %r4, %t, -32; add.u32 %r3, %r3, %r4;
      setp.eq.u32 %p1, %r2, %r3; selp.b32 %r1, %t, -1, %p1;""",
}  # fmt: skip


ON_GPU = os.environ.get("CUCORE_DEVICE") == "gpu"
# An H200 checks the register of a shared::cluster access and the operand of mapa before it adds the offset: faults 700 and 715.
FAULTS_ON_GPU = {"shared::cluster", "mapa.u64 of an address below, then a sum"}


def cases(bodies: dict[str, str]) -> list[ParameterSet]:
    faults = pytest.mark.skipif(ON_GPU, reason="a GPU faults")
    return [pytest.param(body, id=name, marks=[faults] * (name in FAULTS_ON_GPU)) for name, body in bodies.items()]


@pytest.mark.parametrize("body", cases(SUMS))
def test_shared_address_wraps_at_32_bits(body: str, any_width: str) -> None:
    assert answers(kernel(body + " st.global.u32 [%rd0], %r1;")) == TID.tolist()


def test_shared_address_in_a_loop_wraps_at_32_bits(any_width: str) -> None:
    """The register counts up from a negative value; its bounds are unknown to the compiler."""
    program = kernel("""
      mov.u32 %r5, 0;
    again:
      st.shared.u32 [%below+4096], %t; st.shared.u32 [%below+4100], %r5;
      add.u32 %below, %below, 8; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 2; @%p1 bra again;
      ld.shared.u32 %r1, [%at]; ld.shared.u32 %r2, [%at+4]; ld.shared.u32 %r3, [%at+8]; ld.shared.u32 %r4, [%at+12];
      add.u32 %r1, %r1, %r3; mad.lo.u32 %r1, %r2, 1000, %r1; mad.lo.u32 %r1, %r4, 10000, %r1;
      st.global.u32 [%rd0], %r1;""")
    assert answers(program) == (2 * TID + 10000).tolist()


def test_local_and_constant_memory_have_32_bit_addresses(any_width: str) -> None:
    """As the option `-nvptx-short-ptr` generates them."""
    text = f"""{HEAD}.const .align 4 .b32 table[8] = {{10, 11, 12, 13, 14, 15, 16, 17}};
    .visible .entry k(.param .u64 out, .param .u32 n) {{
      .local .align 4 .b8 cells[64];
      {BELOW.replace("shl.b32 %r0, %t, 4; add.u32 %at, %at, %r0;", "")}
      and.b32 %r2, %t, 7; shl.b32 %r2, %r2, 2; add.u32 %r3, %below, %r2;
      st.local.u32 [%r3+4096], %t; ld.local.u32 %r4, [%r3+4096];
      mov.u32 %r5, table; add.u32 %r5, %r5, %r2; sub.u32 %r5, %r5, %n; ld.const.u32 %r6, [%r5+4096];
      mad.lo.u32 %r1, %r6, 1000, %r4; st.global.u32 [%rd0], %r1; ret;
    }}
    """
    assert answers(Program.of_ptx(text)) == (TID + 1000 * (10 + TID % 8)).tolist()


CLUSTER = """
  .reg .b32 %rank, %other, %far; .reg .b64 %own64, %far64;
  mov.u32 %rank, %cluster_ctarank; xor.b32 %other, %rank, 1; mad.lo.u32 %r1, %rank, 1000, %t;
  mul.wide.u32 %rd5, %rank, 256; add.u64 %rd0, %rd0, %rd5;
  cvt.u64.u32 %own64, %at; cvta.shared.u64 %own64, %own64;
  barrier.cluster.arrive; barrier.cluster.wait;
"""
MEET = "barrier.cluster.arrive; barrier.cluster.wait;"
# Each writes %r1 = 1000 * rank + thread to the other block's cell.
FAR = {
    "mapa.u64, cvta.to, 32 bits": """
      mapa.u64 %far64, %own64, %other; cvta.to.shared::cluster.u64 %rd2, %far64; cvt.u32.u64 %far, %rd2;
      st.shared::cluster.u32 [%far], %r1;""",
    "mapa.u64, cvta.to, 64 bits": """
      mapa.u64 %far64, %own64, %other; cvta.to.shared::cluster.u64 %rd2, %far64; st.shared::cluster.u32 [%rd2], %r1;""",
    "mapa.u64, generic": "mapa.u64 %far64, %own64, %other; st.u32 [%far64], %r1;",
    "mapa.u64 of the lowest address, then a sum": """
      mov.u64 %rd2, cells; cvta.shared.u64 %rd2, %rd2; mapa.u64 %far64, %rd2, %other;
      mul.wide.u32 %rd3, %t, 16; add.u64 %far64, %far64, %rd3; cvta.to.shared::cluster.u64 %rd2, %far64; cvt.u32.u64 %far, %rd2;
      st.shared::cluster.u32 [%far], %r1;""",
    "mapa.u64 of an address below, then a sum": """
      sub.u64 %rd2, %own64, 512; mapa.u64 %far64, %rd2, %other; cvta.to.shared::cluster.u64 %rd2, %far64; cvt.u32.u64 %far, %rd2;
      st.shared::cluster.u32 [%far+512], %r1;""",
    "mapa.shared::cluster.u32": "mapa.shared::cluster.u32 %far, %at, %other; st.shared::cluster.u32 [%far], %r1;",
    "mapa.shared::cluster.u64": """
      cvt.u64.u32 %rd2, %at; mapa.shared::cluster.u64 %far64, %rd2, %other; st.shared::cluster.u32 [%far64], %r1;""",
    "mapa.shared::cluster.u32 of a variable": """
      mapa.shared::cluster.u32 %far, cells, %other; shl.b32 %r2, %t, 4; add.u32 %far, %far, %r2; st.shared::cluster.u32 [%far], %r1;""",
    "mapa.shared::cluster.u32 of a variable plus a number": """
      mapa.shared::cluster.u32 %far, cells+32, %other; shl.b32 %r2, %t, 4; add.u32 %far, %far, %r2;
      st.shared::cluster.u32 [%far+-32], %r1;""",
    "mapa.shared::cluster.u64 of a variable": """
      mapa.shared::cluster.u64 %far64, cells, %other; mul.wide.u32 %rd3, %t, 16; add.u64 %far64, %far64, %rd3;
      st.shared::cluster.u32 [%far64], %r1;""",
    "mapa.u64 of a variable is a shared address": """
      mapa.u64 %far64, cells, %other; mul.wide.u32 %rd3, %t, 16; add.u64 %far64, %far64, %rd3; st.shared::cluster.u32 [%far64], %r1;""",
    "cvta.shared::cluster": """
      mapa.shared::cluster.u32 %far, %at, %other; cvt.u64.u32 %rd2, %far; cvta.shared::cluster.u64 %rd3, %rd2; st.u32 [%rd3], %r1;""",
    "atom.shared::cluster": """
      st.shared.u32 [%at], 0; barrier.cluster.arrive; barrier.cluster.wait;
      mapa.u64 %far64, %own64, %other; cvta.to.shared::cluster.u64 %rd2, %far64; cvt.u32.u64 %far, %rd2;
      atom.shared::cluster.add.u32 %r2, [%far], %r1;""",
    "red.shared::cluster": """
      st.shared.u32 [%at], 0; barrier.cluster.arrive; barrier.cluster.wait;
      mapa.u64 %far64, %own64, %other; cvta.to.shared::cluster.u64 %rd2, %far64; cvt.u32.u64 %far, %rd2;
      red.shared::cluster.add.u32 [%far], %r1;""",
    "atom, generic": """
      st.shared.u32 [%at], 0; barrier.cluster.arrive; barrier.cluster.wait;
      mapa.u64 %far64, %own64, %other; atom.add.u32 %r2, [%far64], %r1;""",
}  # fmt: skip


@pytest.mark.parametrize("body", cases(FAR))
def test_block_writes_shared_memory_of_another_block_of_its_cluster(body: str, any_width: str) -> None:
    program = kernel(
        f"{CLUSTER}{body}{MEET} ld.shared.u32 %r6, [%at]; st.global.u32 [%rd0], %r6; {MEET}",
        directives=".reqnctapercluster 2, 1, 1",
    )
    assert answers(program, 2, 64) == [*range(1000, 1064), *range(64)]


@pytest.mark.skipif(
    os.environ.get("CUCORE_DEVICE") == "gpu", reason="variables lie above 1 KiB there, so that sums need not wrap"
)
def test_negative_shared_address_can_be_mapped(any_width: str) -> None:
    body = "mapa.shared::cluster.u32 %far, %below, %other; st.shared::cluster.u32 [%far+4096], %r1;"
    program = kernel(
        f"{CLUSTER}{body}{MEET} ld.shared.u32 %r6, [%at]; st.global.u32 [%rd0], %r6; {MEET}",
        directives=".reqnctapercluster 2, 1, 1",
    )
    assert answers(program, 2, 64) == [*range(1000, 1064), *range(64)]


READ = {
    "32 bits": "mapa.shared::cluster.u32 %far, %at, %other; ld.shared::cluster.u32 %r6, [%far];",
    "cvta.to": """
      mapa.u64 %far64, %own64, %other; cvta.to.shared::cluster.u64 %rd2, %far64; cvt.u32.u64 %far, %rd2;
      ld.shared::cluster.u32 %r6, [%far];""",
    "generic": "mapa.u64 %far64, %own64, %other; ld.u32 %r6, [%far64];",
    "own block": """
      cvta.to.shared::cluster.u64 %rd2, %own64; cvt.u32.u64 %far, %rd2; ld.shared::cluster.u32 %r6, [%far];
      ld.shared.u32 %r7, [%far]; add.u32 %r6, %r6, %r7; xor.b32 %r7, %rank, 1; sub.u32 %r7, %r7, %rank;
      sub.u32 %r6, %r6, %r1; mad.lo.u32 %r6, %r7, 1000, %r6;""",
}  # fmt: skip


@pytest.mark.parametrize("body", [pytest.param(b, id=name) for name, b in READ.items()])
def test_block_reads_shared_memory_of_another_block_of_its_cluster(body: str, any_width: str) -> None:
    program = kernel(
        f"{CLUSTER} st.shared.u32 [%at], %r1; {MEET}{body} st.global.u32 [%rd0], %r6; {MEET}",
        directives=".reqnctapercluster 2, 1, 1",
    )
    assert answers(program, 2, 64) == [*range(1000, 1064), *range(64)]


def test_every_address_form_has_the_rank_of_its_block(any_width: str) -> None:
    program = kernel(
        CLUSTER
        + """
      mapa.u64 %far64, %own64, %other; getctarank.u64 %r2, %far64; getctarank.u64 %r3, %own64;
      cvta.to.shared::cluster.u64 %rd2, %far64; getctarank.shared::cluster.u64 %r4, %rd2;
      cvt.u32.u64 %far, %rd2; getctarank.shared::cluster.u32 %r5, %far;
      getctarank.shared::cluster.u32 %r6, cells; getctarank.shared::cluster.u32 %r7, cells+16;
      mapa.shared::cluster.u32 %far, cells+16, %other; getctarank.shared::cluster.u32 %r8, %far;
      cvt.u64.u32 %rd2, %far; cvta.shared::cluster.u64 %rd3, %rd2; getctarank.u64 %r9, %rd3;
      mad.lo.u32 %r2, %r2, 10, %r3; mad.lo.u32 %r2, %r2, 10, %r4; mad.lo.u32 %r2, %r2, 10, %r5; mad.lo.u32 %r2, %r2, 10, %r6;
      mad.lo.u32 %r2, %r2, 10, %r7; mad.lo.u32 %r2, %r2, 10, %r8; mad.lo.u32 %r2, %r2, 10, %r9;
      st.global.u32 [%rd0], %r2; barrier.cluster.arrive; barrier.cluster.wait;""",
        directives=".reqnctapercluster 2, 1, 1",
    )
    assert answers(program, 2, 64) == [10110011] * 64 + [1001100] * 64


def test_cuda_kernel_writes_with_a_negative_index(any_width: str) -> None:
    skip_module_without_nvrtc()
    program = Program("""
    extern "C" __global__ void k(int* out, int n) {
      __shared__ int s[128];
      int t = threadIdx.x, i = t - n / 4;
      s[i + 4] = t;
      __syncthreads();
      out[t] = s[95 - t];
    }
    """)
    out = np.zeros(96, np.int32)
    program.run("k", 1, 96, out, 16)
    assert out.tolist() == list(range(95, -1, -1))


def test_cuda_kernel_writes_to_shared_memory_of_another_block(any_width: str) -> None:
    skip_module_without_nvrtc()
    program = Program("""
    #include <cooperative_groups.h>
    namespace cg = cooperative_groups;
    extern "C" __global__ void __cluster_dims__(2, 1, 1) k(int* out) {
      __shared__ int box[64];
      __shared__ int counts[64];
      auto cluster = cg::this_cluster();
      unsigned t = threadIdx.x, rank = cluster.block_rank();
      counts[t] = 0;
      cluster.sync();
      *cluster.map_shared_rank(&box[t], rank ^ 1) = (int)(100 * rank + t);
      atomicAdd(cluster.map_shared_rank(&counts[t / 2], rank ^ 1), 1);
      unsigned there = cluster.query_shared_rank(cluster.map_shared_rank(&box[t], rank ^ 1));
      cluster.sync();
      out[blockIdx.x * 64 + t] = box[t] + 1000 * (int)there + 10000 * counts[t];
    }
    """)
    out = np.zeros(128, np.int32)
    program.run("k", 2, 64, out)
    expected = [
        100 * (1 - rank) + t + 1000 * (1 - rank) + (20000 if t < 32 else 0) for rank in range(2) for t in range(64)
    ]
    assert out.tolist() == expected
