# SPDX-License-Identifier: Apache-2.0
"""Tensor maps and kernels with bulk tensor copies (TMA)."""

from __future__ import annotations

import ctypes

from .program import device

TYPES = {
    "uint8": 0, "uint16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8,
}  # fmt: skip
BFLOAT16 = 9
SPAN = {0: 0, 1: 32, 2: 64, 3: 128}

HEAD = """
struct alignas(64) Map { unsigned long long opaque[16]; };
typedef unsigned long long u64;
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(u64* bar) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at(bar)) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ void expect(u64* bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(bar)), "r"(bytes) : "memory");
}
__device__ void wait(u64* bar, int parity) {
  asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }"
               ::"r"(at(bar)), "r"(parity) : "memory");
}
struct Five { int c[5]; };
"""

LOAD = """
extern "C" __global__ void load@RANK@(const __grid_constant__ Map map, unsigned char* out, Five at5, int bytes) {
  extern __shared__ __align__(1024) unsigned char tile[];
  __shared__ u64 bar;
  if (threadIdx.x == 0) init(&bar);
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.prefetch.tensor.@RANK@d.L2.global.tile [%0, {@COORDS_AT_1@}];" ::"l"(&map) @INPUTS@);
    asm volatile("cp.async.bulk.tensor.@RANK@d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {@COORDS@}], [%2];"
                 ::"r"(at(tile)), "l"(&map), "r"(at(&bar)) @INPUTS@ : "memory");
    expect(&bar, bytes);
  }
  wait(&bar, 0);
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = tile[i];
}
extern "C" __global__ void store@RANK@(const __grid_constant__ Map map, const unsigned char* in, Five at5, int bytes) {
  extern __shared__ __align__(1024) unsigned char tile[];
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) tile[i] = in[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.@RANK@d.global.shared::cta.tile.bulk_group [%0, {@COORDS_AT_2@}], [%1];"
                 ::"l"(&map), "r"(at(tile)) @INPUTS@ : "memory");
    asm volatile("cp.async.bulk.commit_group;");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
"""

REDUCE = """
extern "C" __global__ void reduce_@OP@(const __grid_constant__ Map map, const unsigned char* in, int x, int y, int bytes) {
  extern __shared__ __align__(1024) unsigned char tile[];
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) tile[i] = in[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.@OP@.tile.bulk_group [%0, {%2, %3}], [%1];"
                 ::"l"(&map), "r"(at(tile)), "r"(x), "r"(y) : "memory");
    asm volatile("cp.async.bulk.commit_group;");
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
"""

IM2COL = """
extern "C" __global__ void im2col@RANK@(const __grid_constant__ Map map, unsigned char* out, Five at5, Five off, int bytes) {
  extern __shared__ __align__(1024) unsigned char tile[];
  __shared__ u64 bar;
  if (threadIdx.x == 0) init(&bar);
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("{ .reg .b16 h<3>; cvt.u16.u32 h0, %3; cvt.u16.u32 h1, %4; cvt.u16.u32 h2, %5;"
                 "cp.async.bulk.tensor.@RANK@d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {@COORDS_AT_6@}], [%2], {@OFFSETS@}; }"
                 ::"r"(at(tile)), "l"(&map), "r"(at(&bar)), "r"(off.c[0]), "r"(off.c[1]), "r"(off.c[2]) @INPUTS@ : "memory");
    expect(&bar, bytes);
  }
  wait(&bar, 0);
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = tile[i];
}
extern "C" __global__ void unfold@RANK@(const __grid_constant__ Map map, const unsigned char* in, Five at5, int bytes) {
  extern __shared__ __align__(1024) unsigned char tile[];
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) tile[i] = in[i];
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.@RANK@d.global.shared::cta.im2col_no_offs.bulk_group [%0, {@COORDS_AT_2@}], [%1];"
                 ::"l"(&map), "r"(at(tile)) @INPUTS@ : "memory");
    asm volatile("cp.async.bulk.commit_group;");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
"""

OTHERS = """
extern "C" __global__ void __cluster_dims__(2, 1, 1) multicast(const __grid_constant__ Map map, unsigned char* out, int bytes) {
  extern __shared__ __align__(1024) unsigned char tile[];
  __shared__ u64 bar;
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    init(&bar);
    expect(&bar, bytes);
  }
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  if (threadIdx.x == 0 && rank == 0)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;"
                 ::"r"(at(tile)), "l"(&map), "r"(at(&bar)), "r"(8), "r"(1), "h"((short)3) : "memory");
  wait(&bar, 0);
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) out[rank * bytes + i] = tile[i];
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
extern "C" __global__ void narrow(const __grid_constant__ Map map, unsigned char* out, int bytes, int room) {
  extern __shared__ __align__(1024) unsigned char tile[];
  __shared__ u64 bar;
  for (int i = threadIdx.x; i < room; i += blockDim.x) tile[i] = 0;
  if (threadIdx.x == 0) init(&bar);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                 ::"r"(at(tile)), "l"(&map), "r"(at(&bar)), "r"(4), "r"(2) : "memory");
    expect(&bar, bytes);
  }
  wait(&bar, 0);
  for (int i = threadIdx.x; i < room; i += blockDim.x) out[i] = tile[i];
}
"""

CHANGED = """
extern "C" __global__ void changed(const __grid_constant__ Map map, Map* room, const unsigned char* other, unsigned char* out,
                                   int width, int height, u64 pitch, int box) {
  extern __shared__ __align__(1024) unsigned char tile[];
  __shared__ u64 bar;
  __shared__ Map copy;
  if (threadIdx.x < 16) copy.opaque[threadIdx.x] = map.opaque[threadIdx.x];
  if (threadIdx.x == 0) init(&bar);
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned where = at(&copy);
    asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(where), "l"(other) : "memory");
    asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 0, %1;" ::"r"(where), "r"(width) : "memory");
    asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;" ::"r"(where), "r"(height) : "memory");
    asm volatile("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%0], 0, %1;" ::"r"(where), "l"(pitch) : "memory");
    asm volatile("tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%0], 1, %1;" ::"r"(where), "r"(box) : "memory");
    asm volatile("tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%0], 1, 1;" ::"r"(where) : "memory");
    asm volatile("tensormap.replace.tile.rank.shared::cta.b1024.b32 [%0], 1;" ::"r"(where) : "memory");
    asm volatile("tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%0], 2;" ::"r"(where) : "memory");
    asm volatile("tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%0], 0;" ::"r"(where) : "memory");
    asm volatile("tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%0], 0;" ::"r"(where) : "memory");
    asm volatile("tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%0], 0;" ::"r"(where) : "memory");
  }
  __syncwarp();
  if (threadIdx.x < 32)
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
                 ::"l"(room), "r"(at(&copy)) : "memory");
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(room) : "memory");
  int bytes = 16 * box;
  if (threadIdx.x == 0) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(room) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                 ::"r"(at(tile)), "l"(room), "r"(at(&bar)), "r"(4), "r"(2) : "memory");
    expect(&bar, bytes);
  }
  wait(&bar, 0);
  for (int i = threadIdx.x; i < bytes; i += blockDim.x) out[i] = tile[i];
}
"""


def filled(text: str, rank: int) -> str:
    """The kernel template for a rank: coordinates follow the named operands."""
    text = text.replace("@INPUTS@", "".join(f', "r"(at5.c[{k}])' for k in range(rank)))
    for first in (1, 2, 6):
        text = text.replace(f"@COORDS_AT_{first}@", ", ".join(f"%{first + k}" for k in range(rank)))
    text = text.replace("@COORDS@", ", ".join(f"%{3 + k}" for k in range(rank)))
    text = text.replace("@OFFSETS@", ", ".join(f"h{k}" for k in range(rank - 2)))
    return text.replace("@RANK@", str(rank))


class Map(ctypes.Structure):
    _fields_ = [("opaque", ctypes.c_uint64 * 16)]


Five = ctypes.c_int * 5


def array(type_: object, values: list[int]) -> object:
    return (type_ * len(values))(*values)  # type: ignore[operator]


def encoded(call: str, *arguments: object) -> Map:
    room = ctypes.create_string_buffer(256)
    place = (ctypes.addressof(room) + 127) // 128 * 128
    device().call(call, ctypes.c_void_p(place), *arguments)
    return Map.from_buffer_copy(ctypes.string_at(place, 128))


def tiled(
    address: int, type_: int, dims: list[int], strides: list[int], box: list[int], *,
    steps: list[int] | None = None, swizzle: int = 0, fill: int = 0, interleave: int = 0,
) -> Map:  # fmt: skip
    u64, u32 = ctypes.c_uint64, ctypes.c_uint32
    return encoded(
        "cuTensorMapEncodeTiled", type_, u32(len(dims)), ctypes.c_void_p(address), array(u64, dims),
        array(u64, strides or [0]), array(u32, box), array(u32, steps or [1] * len(dims)), interleave, swizzle, 0, fill,
    )  # fmt: skip


def swizzled(data: bytes, mode: int) -> bytes:
    """Swizzles the bytes of a box: 16-byte chunks are permuted by bits 7 and up of their address."""
    mask = {0: 0, 1: 1, 2: 3, 3: 7}[mode]
    out = bytearray(len(data))
    for at in range(0, len(data), 16):
        to = at ^ ((at >> 7) & mask) << 4
        out[to : to + 16] = data[at : at + 16]
    return bytes(out)
