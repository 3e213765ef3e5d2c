# SPDX-License-Identifier: Apache-2.0
"""Compares a product of fp16 matrices by tcgen05.mma with a tiled product in f32, both on the CPU device; prints the ratio.

    python bench/python/tensor_memory.py [--rounds N] [--size N]

The kernel has the form of those for compute capability 10.0: tensor copies into tiles of 128 x 128 x 64 with swizzled rows, mbarriers,
a warp that loads, one that multiplies, and the result from tensor memory. The tiled product is that of bench/cpp/kernels/source.cu.
Both run alternately on one host thread in this process; results are compared with NumPy first. The measure is processor time: the
median of the ratios of all rounds.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import sys
import time
from pathlib import Path

GOAL = 3.0  # times the tiled product
TILED = Path(__file__).resolve().parents[1] / "cpp/kernels/source.cu"
SOURCE = r"""
using u64 = unsigned long long;
struct alignas(64) Map { char bytes[128]; };
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(u64* bar) { asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at(bar)) : "memory"); }
__device__ void wait(u64* bar, unsigned parity) {
  asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra W; }" ::"r"(at(bar)), "r"(parity) : "memory");
}
__device__ void fetch(const Map* map, void* to, u64* bar, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
               ::"r"(at(to)), "l"(map), "r"(at(bar)), "r"(x), "r"(y) : "memory");
}
__device__ u64 descriptor(const void* p) { return (u64)(at(p) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 46 | 2ull << 61; }
__device__ void commit(u64* bar) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(at(bar)) : "memory");
}

// c (n x n) = a * b transposed.
extern "C" __global__ void __launch_bounds__(128) gemm(const __grid_constant__ Map a, const __grid_constant__ Map b, float* c, int n) {
  extern __shared__ __align__(1024) char tiles[];
  constexpr int kStages = 3, kBytes = 32768;
  __shared__ u64 full[kStages], empty[kStages], done;
  __shared__ unsigned d;
  if (threadIdx.x < 32) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 128;" ::"r"(at(&d)) : "memory");
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) init(&full[s]), init(&empty[s]);
    init(&done);
  }
  __syncthreads();
  const int row = blockIdx.y * 128, col = blockIdx.x * 128, steps = n / 64;
  if (threadIdx.x == 0) {
    for (int step = 0; step < steps; ++step) {
      const int s = step % kStages;
      wait(&empty[s], (step / kStages + 1) % 2);
      asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at(&full[s])), "r"(kBytes) : "memory");
      fetch(&a, tiles + s * kBytes, &full[s], step * 64, row);
      fetch(&b, tiles + s * kBytes + 16384, &full[s], step * 64, col);
    }
  } else if (threadIdx.x == 32) {
    const unsigned shape = 1u << 4 | 16u << 17 | 8u << 24;
    for (int step = 0; step < steps; ++step) {
      const int s = step % kStages;
      wait(&full[s], step / kStages % 2);
      const u64 left = descriptor(tiles + s * kBytes), right = descriptor(tiles + s * kBytes + 16384);
      for (int i = 0; i < 4; ++i)
        asm volatile("{ .reg .pred p; setp.ne.u32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }"
                     ::"r"(d), "l"(left + 2 * i), "l"(right + 2 * i), "r"(shape), "r"(step + i) : "memory");
      commit(&empty[s]);
    }
    commit(&done);
  }
  wait(&done, 0);
  __syncwarp();
  float* to = c + (size_t)(row + threadIdx.x) * n + col;
  for (int j = 0; j < 128; j += 8) {
    unsigned r[8];
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x8.b32 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8]; tcgen05.wait::ld.sync.aligned;"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7])
                 : "r"(d + (threadIdx.x / 32 * 32 << 16) + j) : "memory");
    for (int i = 0; i < 8; ++i) to[j + i] = __uint_as_float(r[i]);
  }
  __syncthreads();
  if (threadIdx.x < 32) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 128;" ::"r"(d) : "memory");
}
"""


class Map(ctypes.Structure):
    _fields_ = (("words", ctypes.c_uint64 * 16),)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--size", type=int, default=1024, help="of the square matrices, a multiple of 128")
    arguments = parser.parse_args()
    os.environ |= {"CUCORE_DEVICE": "cpu", "CUCORE_CPU_ARCH": "10.0", "CUCORE_CPU_THREADS": "1"}
    os.environ.setdefault("CUCORE_CPU_TIER", "optimized")
    import numpy as np
    from cuda.bindings import driver
    from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

    n = arguments.size
    device = Device()
    device.set_current()
    stream = device.create_stream()
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, (n, n)).astype(np.float16) for _ in range(2))
    buffers = {}
    for name, data in {
        "a": a,
        "b": b,
        "a32": a.astype(np.float32),
        "b32": np.ascontiguousarray(b.T, np.float32),
    }.items():
        buffers[name] = device.allocate(data.nbytes, stream=stream)
        stream.sync()
        driver.cuMemcpyHtoD(int(buffers[name].handle), data.ctypes.data, data.nbytes)
    out = device.allocate(4 * n * n, stream=stream)

    def map_of(name: str) -> object:
        word = driver.cuuint32_t
        error, made = driver.cuTensorMapEncodeTiled(
            driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, int(buffers[name].handle),
            [driver.cuuint64_t(n)] * 2, [driver.cuuint64_t(2 * n)], [word(64), word(128)], [word(1), word(1)],
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE, driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_NONE,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )  # fmt: skip
        assert error == 0, error
        return Map.from_buffer_copy(ctypes.string_at(made.getPtr(), ctypes.sizeof(Map)))

    def compiled(source: str, arch: str, name: str) -> object:
        return Program(source, "c++", ProgramOptions(arch=arch)).compile("ptx").get_kernel(name)

    gemm = compiled(SOURCE, "compute_100a", "gemm")
    tiled = compiled(TILED.read_text(), "compute_90", "matmul")
    shared = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    function = driver.cuKernelGetFunction(int(gemm.handle))[1]  # type: ignore[attr-defined]
    driver.cuFuncSetAttribute(function, shared, 3 * 32768)
    maps = [map_of("a"), map_of("b")]
    sides = {
        "tcgen05": (LaunchConfig(grid=(n // 128, n // 128), block=128, shmem_size=3 * 32768), gemm, (*maps, out, np.int32(n))),
        "tiled": (LaunchConfig(grid=(n // 16, n // 16), block=(16, 16)), tiled, (buffers["a32"], buffers["b32"], out, np.int32(n))),
    }  # fmt: skip
    expected = a.astype(np.float32) @ b.astype(np.float32).T

    def run(side: str) -> float:
        config, kernel, values = sides[side]
        start = time.process_time()
        launch(stream, config, kernel, *values)
        stream.sync()
        return time.process_time() - start

    for side in sides:
        driver.cuMemsetD8(int(out.handle), 0xFF, 4 * n * n)
        run(side)
        got = np.empty((n, n), np.float32)
        driver.cuMemcpyDtoH(got.ctypes.data, int(out.handle), got.nbytes)
        if not np.array_equal(got, expected):
            print(f"{side}: wrong result", file=sys.stderr)
            return 1
    times = [{side: run(side) for side in sides} for _ in range(arguments.rounds)]
    ratio = statistics.median(t["tcgen05"] / t["tiled"] for t in times)
    print(
        f"fp16 {n} x {n} x {n} by tcgen05.mma / tiled f32 matmul: {ratio:.2f}, goal {GOAL:g} {'met' if ratio <= GOAL else 'missed'}"
    )
    for side in sides:
        print(f"  {side:<8} {2 * n**3 / statistics.median(t[side] for t in times) / 1e9:8.1f} GFLOP/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
