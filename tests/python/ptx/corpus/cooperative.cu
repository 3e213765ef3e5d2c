// Cooperative groups: tiles, reductions, labelled partitions, grid and cluster synchronisation.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

extern "C" __global__ void tiles(const int* a, int* b, int n) {
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  auto four = cg::tiled_partition<4>(warp);
  int i = block.thread_rank() + block.group_index().x * block.size();
  int v = i < n ? a[i] : 0;
  int s = cg::reduce(warp, v, cg::plus<int>());
  int t = cg::inclusive_scan(four, v, cg::greater<int>());
  block.sync();
  auto odd = cg::binary_partition(warp, v & 1);
  auto same = cg::labeled_partition(warp, v & 3);
  auto now = cg::coalesced_threads();
  b[i] = s + t + odd.size() + same.thread_rank() + now.shfl(v, 0) + warp.ballot(v > 3) + warp.match_any(v);
}

extern "C" __global__ void grids(int* a, int n) {
  auto grid = cg::this_grid();
  for (int round = 0; round < 3; ++round) {
    for (int i = grid.thread_rank(); i < n; i += grid.size()) a[i] += a[(i + 1) % n];
    grid.sync();
  }
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) clusters(int* a) {
  __shared__ int mine[32];
  auto cluster = cg::this_cluster();
  mine[threadIdx.x] = a[threadIdx.x];
  cluster.sync();
  int* other = cluster.map_shared_rank(mine, cluster.block_rank() ^ 1);
  a[threadIdx.x] = other[31 - threadIdx.x];
  cluster.sync();
}

extern "C" __global__ void copies(const float* a, float* b) {
  __shared__ float tile[256];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, tile, a + blockIdx.x * 256, sizeof(tile));
  cg::wait(block);
  b[blockIdx.x * 256 + threadIdx.x] = tile[255 - threadIdx.x];
}
