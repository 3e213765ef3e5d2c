// CUB: block and warp collectives, and the device-wide algorithms' agents.
#include <cub/block/block_discontinuity.cuh>
#include <cub/block/block_histogram.cuh>
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/block/block_store.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>

extern "C" __global__ void sorts(const unsigned* a, unsigned* b) {
  using Load = cub::BlockLoad<unsigned, 128, 4, cub::BLOCK_LOAD_TRANSPOSE>;
  using Store = cub::BlockStore<unsigned, 128, 4, cub::BLOCK_STORE_WARP_TRANSPOSE>;
  using Sort = cub::BlockRadixSort<unsigned, 128, 4>;
  __shared__ union { Load::TempStorage load; Store::TempStorage store; Sort::TempStorage sort; } t;
  unsigned keys[4];
  Load(t.load).Load(a + blockIdx.x * 512, keys);
  __syncthreads();
  Sort(t.sort).SortDescending(keys);
  __syncthreads();
  Store(t.store).Store(b + blockIdx.x * 512, keys);
}

extern "C" __global__ void sums(const float* a, float* b, int n) {
  using Reduce = cub::BlockReduce<float, 256, cub::BLOCK_REDUCE_WARP_REDUCTIONS>;
  using Scan = cub::BlockScan<float, 256, cub::BLOCK_SCAN_RAKING>;
  using Warp = cub::WarpReduce<float, 16>;
  __shared__ union { Reduce::TempStorage reduce; Scan::TempStorage scan; Warp::TempStorage warp[16]; } t;
  float v = a[threadIdx.x], total, prefix;
  float sum = Reduce(t.reduce).Sum(v, n);
  __syncthreads();
  Scan(t.scan).ExclusiveSum(v, prefix, total);
  __syncthreads();
  float w = Warp(t.warp[threadIdx.x / 16]).Reduce(v, ::cuda::maximum<>{});
  b[threadIdx.x] = prefix + total + w;
  if (threadIdx.x == 0) b[256] = sum;
}
