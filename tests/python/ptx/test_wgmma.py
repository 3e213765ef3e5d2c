# SPDX-License-Identifier: Apache-2.0
"""Matrix products as in Hopper kernels: swizzled tensor copies load tiles, a ring of mbarriers synchronizes, and warpgroups multiply
from shared memory (wgmma); with one warpgroup, and with one producer and two consumers."""

from __future__ import annotations

import numpy as np
import pytest
from ptxsuite.nvrtc import library
from ptxsuite.program import Program, device
from ptxsuite.tensor_maps import HEAD, TYPES, tiled

try:
    library()
except OSError as error:
    pytest.skip(str(error), allow_module_level=True)

# Tiles are 64 rows of 64 halves: 128 bytes per row, with the 128-byte swizzle.
SOURCE = (
    HEAD
    + r"""
__device__ u64 descriptor(unsigned address, int leading, int stride) {
  return (u64)((address & 0x3ffff) >> 4) | (u64)(leading >> 4) << 16 | (u64)(stride >> 4) << 32 | 1ull << 62;
}
__device__ void fetch(const Map* map, void* to, u64* bar, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
               ::"r"(at(to)), "l"(map), "r"(at(bar)), "r"(x), "r"(y) : "memory");
}
template <int TransposeB> __device__ void multiply(float (&d)[32], u64 a, u64 b) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0;"
               "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
               "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, 0, %34; }"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),
                 "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),
                 "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
                 "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
               : "l"(a), "l"(b), "n"(TransposeB));
}
__device__ void begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void finish() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
template <int TransposeB> __device__ void tile_product(float (&d)[32], const char* a, const char* b) {
  begin();
  for (int k = 0; k < 4; ++k) {
    u64 left = descriptor(at(a) + 32 * k, 16, 1024);
    u64 right = TransposeB ? descriptor(at(b) + 2048 * k, 1024, 1024) : descriptor(at(b) + 32 * k, 16, 1024);
    multiply<TransposeB>(d, left, right);
  }
  finish();
}
__device__ void write(float* c, int n, int row, int col, const float (&d)[32], int thread) {
  int lane = thread % 32, warp = thread / 32;
  for (int i = 0; i < 32; ++i)
    c[(row + warp * 16 + lane / 4 + i / 2 % 2 * 8) * n + col + i / 4 * 8 + lane % 4 * 2 + i % 2] = d[i];
}

template <int TransposeB> __device__ void alone(const Map& a, const Map& b, float* c, int n, int k) {
  extern __shared__ __align__(1024) char tiles[];
  __shared__ u64 full[2];
  if (threadIdx.x == 0) {
    init(&full[0]);
    init(&full[1]);
  }
  __syncthreads();
  int row = blockIdx.y * 64, col = blockIdx.x * 64, steps = k / 64;
  auto load = [&](int step) {
    char* to = tiles + step % 2 * 16384;
    expect(&full[step % 2], 16384);
    fetch(&a, to, &full[step % 2], step * 64, row);
    TransposeB ? fetch(&b, to + 8192, &full[step % 2], col, step * 64) : fetch(&b, to + 8192, &full[step % 2], step * 64, col);
  };
  float d[32] = {};
  if (threadIdx.x == 0) load(0);
  for (int step = 0; step < steps; ++step) {
    if (threadIdx.x == 0 && step + 1 < steps) load(step + 1);
    wait(&full[step % 2], step / 2 % 2);
    tile_product<TransposeB>(d, tiles + step % 2 * 16384, tiles + step % 2 * 16384 + 8192);
    __syncthreads();
  }
  write(c, n, row, col, d, threadIdx.x);
}
extern "C" __global__ void __launch_bounds__(128) product_nt(const __grid_constant__ Map a, const __grid_constant__ Map b, float* c, int n, int k) {
  alone<0>(a, b, c, n, k);
}
extern "C" __global__ void __launch_bounds__(128) product_nn(const __grid_constant__ Map a, const __grid_constant__ Map b, float* c, int n, int k) {
  alone<1>(a, b, c, n, k);
}

// Warp specialisation: warpgroup 0 only loads; warpgroups 1 and 2 multiply, one for each half of 128 rows.
extern "C" __global__ void __launch_bounds__(384) specialised(const __grid_constant__ Map a, const __grid_constant__ Map b, float* c, int n, int k) {
  extern __shared__ __align__(1024) char tiles[];
  const int kStages = 3, kBytes = 3 * 8192;
  __shared__ u64 full[kStages], empty[kStages];
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      init(&full[s]);
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 2;" ::"r"(at(&empty[s])) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  int group = threadIdx.x / 128, row = blockIdx.y * 128, col = blockIdx.x * 64, steps = k / 64;
  if (group == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    unsigned chosen;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(chosen));
    if (threadIdx.x < 32 && chosen) {
      for (int step = 0; step < steps; ++step) {
        int s = step % kStages;
        char* to = tiles + s * kBytes;
        wait(&empty[s], (step / kStages + 1) % 2);
        expect(&full[s], kBytes);
        fetch(&a, to, &full[s], step * 64, row);
        fetch(&a, to + 8192, &full[s], step * 64, row + 64);
        fetch(&b, to + 16384, &full[s], step * 64, col);
      }
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  float d[32] = {};
  for (int step = 0; step < steps; ++step) {
    int s = step % kStages;
    wait(&full[s], step / kStages % 2);
    tile_product<0>(d, tiles + s * kBytes + (group - 1) * 8192, tiles + s * kBytes + 16384);
    if (threadIdx.x % 128 == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(&empty[s])) : "memory");
  }
  write(c, n, row + (group - 1) * 64, col, d, threadIdx.x % 128);
}
"""
)


@pytest.fixture(scope="module")
def program() -> Program:
    return Program(SOURCE, arch="compute_90a")


def halves(rows: int, columns: int, seed: int) -> np.ndarray:
    i, j = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    return ((i * 7 + j * 3 + i * j * seed) % 11 - 5).astype(np.float16)


def map_of(memory: object, matrix: np.ndarray) -> object:
    rows, columns = matrix.shape
    address = memory.address.value  # type: ignore[attr-defined]
    return tiled(address, TYPES["float16"], [columns, rows], [2 * columns], [64, 64], swizzle=3)


@pytest.mark.parametrize(
    "kernel,rows,threads", [("product_nt", 64, 128), ("product_nn", 64, 128), ("specialised", 128, 384)]
)
@pytest.mark.parametrize("k", [64, 320])
def test_wgmma_kernel_computes_the_product(program: Program, kernel: str, rows: int, threads: int, k: int) -> None:
    m, n = 2 * rows, 128
    a, b = halves(m, k, 1), halves(k, n, 3)
    stored = b if kernel == "product_nn" else np.ascontiguousarray(b.T)
    memory = [device().memory(a), device().memory(stored)]
    c = np.zeros((m, n), np.float32)
    device().reserve_shared(device().function(program.module, kernel), 3 * 3 * 8192)
    program.run(
        kernel, (n // 64, m // rows, 1), threads, map_of(memory[0], a), map_of(memory[1], stored), c, n, k,
        shared=3 * 3 * 8192 if kernel == "specialised" else 32768,
    )  # fmt: skip
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    for each in memory:
        each.free()
