# SPDX-License-Identifier: Apache-2.0
"""clusterlaunchcontrol: running blocks take over the work of clusters that have not started. And .blocksareclusters."""

from __future__ import annotations

import ctypes
import itertools
import os

import numpy as np
import pytest
from ptxsuite.device import DriverError
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program, device

skip_module_without_nvrtc()

ON_GPU = os.environ.get("CUCORE_DEVICE") == "gpu"

# A work-stealing loop as the programming guide describes it: process a block, ask for the next one meanwhile.
LOOP = r"""
typedef unsigned long long u64;
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void steal(int* visits, int* runner) {
  __shared__ alignas(16) uint4 response;
  __shared__ alignas(8) u64 bar;
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&bar)) : "memory");
  unsigned x = blockIdx.x, y = blockIdx.y, z = blockIdx.z;
  for (unsigned phase = 0;; phase ^= 1) {
    __syncthreads();
    if (threadIdx.x == 0) {
      asm volatile("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;" ::: "memory");
      asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];"
                   ::"r"(at(&response)), "r"(at(&bar)) : "memory");
      asm volatile("mbarrier.arrive.expect_tx.relaxed.cta.shared::cta.b64 _, [%0], 16;" ::"r"(at(&bar)) : "memory");
    }
    unsigned block = x + gridDim.x * (y + gridDim.y * z);
    atomicAdd(&visits[block], 1);
    if (threadIdx.x == 0) runner[block] = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }"
                 ::"r"(at(&bar)), "r"(phase) : "memory");
    unsigned more, alone;
    asm volatile("{ .reg .b128 r; .reg .pred p; ld.shared.b128 r, [%4];"
                 "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, r; selp.u32 %3, 1, 0, p;"
                 "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%0, %1, %2, _}, r; }"
                 : "+r"(x), "+r"(y), "+r"(z), "=r"(more) : "r"(at(&response)) : "memory");
    asm volatile("{ .reg .b128 r; ld.shared.b128 r, [%1];"
                 "clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %0, r; }"
                 : "=r"(alone) : "r"(at(&response)) : "memory");
    if (more && alone != y) __trap();
    asm volatile("fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;" ::: "memory");
    if (!more) break;
  }
}
"""

CLUSTERS = r"""
typedef unsigned long long u64;
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
#define MEET asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory")
extern "C" __global__ void __cluster_dims__(4, 1, 1) steal(int* visits, int* wrong) {
  __shared__ alignas(16) uint4 response;
  __shared__ alignas(8) u64 bar;
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(&bar)) : "memory");
  unsigned first = blockIdx.x - rank;
  for (unsigned phase = 0;; phase ^= 1) {
    MEET;
    if (threadIdx.x == 0)
      asm volatile("mbarrier.arrive.expect_tx.relaxed.cluster.shared::cta.b64 _, [%0], 16;" ::"r"(at(&bar)) : "memory");
    if (threadIdx.x == 0 && rank == 0)
      asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128"
                   " [%0], [%1];" ::"r"(at(&response)), "r"(at(&bar)) : "memory");
    atomicAdd(&visits[first + rank], 1);
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1; @!p bra again; }"
                 ::"r"(at(&bar)), "r"(phase) : "memory");
    unsigned more;
    asm volatile("{ .reg .b128 r; .reg .pred p; ld.shared.b128 r, [%2];"
                 "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, r; selp.u32 %1, 1, 0, p;"
                 "@p clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %0, r; }"
                 : "+r"(first), "=r"(more) : "r"(at(&response)) : "memory");
    if (first % 4 != 0) atomicAdd(wrong, 1);
    if (!more) break;
  }
  MEET;
}
"""


@pytest.fixture
def _blackwell(monkeypatch: pytest.MonkeyPatch) -> None:
    if ON_GPU:
        pytest.skip("an instruction of 10.0")
    monkeypatch.setenv("CUCORE_CPU_ARCH", "10.0")


@pytest.mark.usefixtures("_blackwell")
@pytest.mark.parametrize("grid", [(1, 1, 1), (1000, 1, 1), (7, 11, 13)], ids=str)
def test_every_block_is_processed_once(any_width: str, grid: tuple[int, int, int]) -> None:
    blocks, threads = int(np.prod(grid)), 64
    visits, runner = np.zeros(blocks, np.int32), np.full(blocks, -1, np.int32)
    Program(LOOP, arch="compute_100a").run("steal", grid, threads, visits, runner)
    assert (visits == threads).all()
    stolen = runner != np.arange(blocks)
    assert stolen.any() == (blocks > 1)  # one block takes over what its host thread would start next
    assert set(runner[stolen]) <= set(np.arange(blocks)[~stolen])  # a cancelled block runs nothing itself


@pytest.mark.usefixtures("_blackwell")
def test_every_cluster_is_processed_once_and_all_its_blocks_get_the_response(any_width: str) -> None:
    visits, wrong = np.zeros(400, np.int32), np.zeros(1, np.int32)
    Program(CLUSTERS, arch="compute_100a").run("steal", 400, 32, visits, wrong)
    assert (visits == 32).all() and wrong[0] == 0


@pytest.mark.usefixtures("_blackwell")
def test_nothing_is_cancelled_in_a_cooperative_grid() -> None:
    visits, runner = np.zeros(4, np.int32), np.full(4, -1, np.int32)
    Program(LOOP, arch="compute_100a").run("steal", 4, 32, visits, runner, cooperative=True)
    assert (visits == 32).all() and (runner == np.arange(4)).all()


CLUSTER_GRID = """.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) .blocksareclusters .reqntid 32 .reqnctapercluster 2, 3, 1 {
  .reg .b32 %r<9>; .reg .b64 %rd<4>; .reg .pred %p;
  ld.param.u64 %rd0, [out];
  mov.u32 %r0, %tid.x; setp.ne.u32 %p, %r0, 0; @%p ret;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %nctaid.x; mad.lo.u32 %r4, %r2, %r3, %r1;
  mov.u32 %r5, %clusterid.x; mov.u32 %r6, %clusterid.y; mov.u32 %r7, %nclusterid.x; mad.lo.u32 %r5, %r6, %r7, %r5;
  mul.wide.u32 %rd1, %r4, 4; add.u64 %rd1, %rd0, %rd1; add.u32 %r5, %r5, 1; st.u32 [%rd1], %r5;
  ret;
}
"""


def test_grid_of_a_kernel_with_blocks_that_are_clusters_counts_clusters(any_width: str) -> None:
    out = np.zeros(4 * 2 * 5 * 3, np.int32)
    Program.of_ptx(CLUSTER_GRID).run("k", (4, 5, 1), 32, out)
    for y, x in itertools.product(range(15), range(8)):
        assert out[y * 8 + x] == 1 + x // 2 + 4 * (y // 3)


def test_graph_node_of_such_a_kernel_reports_the_grid_that_was_given() -> None:
    module = Program.of_ptx(CLUSTER_GRID).module
    graph, node = ctypes.c_void_p(), ctypes.c_void_p()
    device().call("cuGraphCreate", ctypes.byref(graph), 0)
    memory = device().memory(np.zeros(4 * 2 * 5 * 3, np.int32))
    address = ctypes.c_uint64(int(memory.address.value))
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(address))

    class Node(ctypes.Structure):
        _fields_ = [
            ("func", ctypes.c_void_p), ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
            ("params", ctypes.c_void_p), ("extra", ctypes.c_void_p), ("kern", ctypes.c_void_p), ("ctx", ctypes.c_void_p),
        ]  # fmt: skip

    given = Node(device().function(module, "k"), (4, 5, 1), (32, 1, 1), 0, ctypes.addressof(arguments))
    device().call("cuGraphAddKernelNode_v2", ctypes.byref(node), graph, None, ctypes.c_size_t(0), ctypes.byref(given))
    seen = Node()
    device().call("cuGraphKernelNodeGetParams_v2", node, ctypes.byref(seen))
    assert list(seen.grid) == [4, 5, 1]
    device().call("cuGraphDestroy", graph)
    memory.free()


def test_blocks_that_are_clusters_need_both_shapes() -> None:
    with pytest.raises(DriverError) as error:
        Program.of_ptx(CLUSTER_GRID.replace(".reqntid 32 ", ""))
    assert error.value.code == 218
    if not ON_GPU:
        assert "needs .reqntid and .reqnctapercluster" in error.value.log


SIXTEEN = r"""
typedef unsigned long long u64;
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
#define MEET asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory")
extern "C" __global__ void __cluster_dims__(16, 1, 1) sixteen(const int* in, int* ring, int* copies) {
  __shared__ alignas(128) int tile[64];
  __shared__ alignas(8) u64 bar;
  __shared__ int own;
  unsigned rank, next;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    own = blockIdx.x * 7;
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" ::"r"(at(&bar)) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" ::"r"(at(&bar)) : "memory");
  }
  MEET;
  if (threadIdx.x == 0 && rank == 5)  // to all sixteen blocks
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 256, [%2], %3;"
                 ::"r"(at(tile)), "l"(in + 64 * (blockIdx.x / 16)), "r"(at(&bar)), "h"((short)-1) : "memory");
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2; ld.shared::cluster.u32 %0, [%0];" : "=r"(next) : "r"(at(&own)), "r"((rank + 1) % 16));
  asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }" ::"r"(at(&bar)) : "memory");
  if (threadIdx.x == 0) ring[blockIdx.x] = next;
  for (int i = threadIdx.x; i < 64; i += blockDim.x) copies[blockIdx.x * 64 + i] = tile[i];
  MEET;
}
"""


@pytest.mark.parametrize("arch", ["9.0", "10.0"])
def test_clusters_of_sixteen_blocks(any_width: str, arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if ON_GPU and arch != "9.0":
        pytest.skip("the CPU device chooses its capability")
    monkeypatch.setenv("CUCORE_CPU_ARCH", arch)
    clusters = 3
    data = np.random.default_rng(9).integers(0, 2**31, clusters * 64).astype(np.int32)
    ring, copies = np.zeros(clusters * 16, np.int32), np.zeros(clusters * 16 * 64, np.int32)
    program = Program(SIXTEEN, arch="compute_90" if arch == "9.0" else "compute_100a")
    with pytest.raises(DriverError) as error:  # more than eight blocks must be allowed first
        program.run("sixteen", clusters * 16, 32, data, ring, copies)
    assert error.value.code == 912
    non_portable = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
    device().call("cuFuncSetAttribute", device().function(program.module, "sixteen"), non_portable, 1)
    program.run("sixteen", clusters * 16, 32, data, ring, copies)
    blocks = np.arange(clusters * 16)
    assert np.array_equal(ring, (blocks // 16 * 16 + (blocks % 16 + 1) % 16) * 7)
    assert np.array_equal(copies.reshape(-1, 64), np.repeat(data.reshape(-1, 64), 16, axis=0))
