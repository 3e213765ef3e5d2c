// SPDX-License-Identifier: Apache-2.0
// cuOccupancy*.
#include <algorithm>

#include "cpu/device/guard.hpp"
#include "cpu/device/kernel_op.hpp"

using namespace cucpu::driver;

namespace {

constexpr unsigned kWarpThreads = 32;

void potential(int* min_grid, int* block_size, CUfunction handle, CUoccupancyB2DSize shared_of,
               std::size_t shared, int limit, unsigned flags) {
  require(min_grid && block_size && flags <= CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE && limit >= 0);
  const Context& context = current_context();
  const Function& function = function_of(handle);
  const cucpu::Limits& limits = limits_of(function);
  const cucpu::KernelInfo& info = function.kernel.info();
  const unsigned most =
      std::min(info.max_threads, limit == 0 ? info.max_threads : static_cast<unsigned>(limit));
  unsigned best_threads = 0, best_total = 0, best_blocks = 0;
  for (unsigned threads = most; threads > 0; threads = threads % kWarpThreads
                                                           ? threads / kWarpThreads * kWarpThreads
                                                           : threads - kWarpThreads) {
    const unsigned blocks = blocks_per_sm(
        limits, info, threads, shared_of ? shared_of(static_cast<int>(threads)) : shared);
    if (blocks * threads > best_total) {
      best_total = blocks * threads;
      best_threads = threads;
      best_blocks = blocks;
    }
    if (best_total == limits.threads_per_sm || threads <= kWarpThreads) break;
  }
  *block_size = static_cast<int>(best_threads);
  *min_grid = static_cast<int>(best_blocks * context.multiprocessors());
}

bool has_cluster(const CUlaunchConfig& config) {
  return std::any_of(config.attrs, config.attrs + config.numAttrs, [](const CUlaunchAttribute& a) {
    return a.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  });
}

cucpu::LaunchShape shape_of(const CUlaunchConfig& config) {
  cucpu::LaunchShape shape;
  shape.grid = {config.gridDimX, config.gridDimY, config.gridDimZ};
  shape.block = {config.blockDimX, config.blockDimY, config.blockDimZ};
  require(shape.grid.volume() > 0 && shape.block.volume() > 0);
  shape.dynamic_shared_bytes = config.sharedMemBytes;
  require(config.numAttrs == 0 || config.attrs);
  for (unsigned i = 0; i < config.numAttrs; ++i)
    if (const auto& a = config.attrs[i]; a.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      shape.cluster = {a.value.clusterDim.x, a.value.clusterDim.y, a.value.clusterDim.z};
  return shape;
}

}  // namespace

extern "C" {

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* out, CUfunction handle, int threads,
                                                     size_t shared) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out, handle, threads, shared, 0);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* out, CUfunction handle,
                                                              int threads, size_t shared,
                                                              unsigned int flags) {
  return guarded([&] {
    require(out && threads > 0 && flags <= CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE);
    current_context();
    const Function& function = function_of(handle);
    *out = static_cast<int>(blocks_per_sm(limits_of(function), function.kernel.info(),
                                          static_cast<unsigned>(threads), shared));
  });
}

CUresult cuOccupancyMaxPotentialBlockSize(int* min_grid, int* block_size, CUfunction handle,
                                          CUoccupancyB2DSize shared_of, size_t shared, int limit) {
  return guarded([&] { potential(min_grid, block_size, handle, shared_of, shared, limit, 0); });
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* min_grid, int* block_size,
                                                   CUfunction handle, CUoccupancyB2DSize shared_of,
                                                   size_t shared, int limit, unsigned int flags) {
  return guarded([&] { potential(min_grid, block_size, handle, shared_of, shared, limit, flags); });
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* out, CUfunction handle, int blocks,
                                                 int threads) {
  return guarded([&] {
    require(out && blocks > 0 && threads > 0);
    current_context();
    const Function& function = function_of(handle);
    const cucpu::KernelInfo& info = function.kernel.info();
    const cucpu::Limits& limits = limits_of(function);
    require(static_cast<unsigned>(blocks) <=
            blocks_per_sm(limits, info, static_cast<unsigned>(threads), 0));
    const std::size_t each = limits.shared_per_sm / static_cast<unsigned>(blocks) / 128 * 128;
    const std::size_t used = info.static_shared_bytes;  // an H200 does not count the reserved part
    *out = std::min({each > used ? each - used : 0, limits.shared_per_block_opt_in - used,
                     dynamic_shared_limit(limits, info, function.settings)});
  });
}

CUresult cuOccupancyMaxPotentialClusterSize(int* out, CUfunction handle,
                                            const CUlaunchConfig* config) {
  return guarded([&] {
    require(out && config && handle);
    current_context();
    const Function& function = function_of(handle);
    const auto shape = shape_of(*config);
    const auto blocks =
        blocks_per_sm(limits_of(function), function.kernel.info(),
                      static_cast<unsigned>(shape.block.volume()), shape.dynamic_shared_bytes);
    *out = blocks == 0
               ? 0
               : static_cast<int>(function.settings.non_portable_cluster ? kMaxCluster
                                                                         : kMaxClusterPortable);
  });
}

CUresult cuOccupancyMaxActiveClusters(int* out, CUfunction handle, const CUlaunchConfig* config) {
  return guarded([&] {
    require(out && config && handle);
    const Context& context = current_context();
    const Function& function = function_of(handle);
    const auto shape = shape_of(*config);
    const unsigned blocks =
        blocks_per_sm(limits_of(function), function.kernel.info(),
                      static_cast<unsigned>(shape.block.volume()), shape.dynamic_shared_bytes);
    *out = 0;
    if (!has_cluster(*config) || blocks == 0) return;
    const cucpu::Dim3 &c = shape.cluster, &g = shape.grid;
    require(c.volume() > 0 && g.x % c.x == 0 && g.y % c.y == 0 && g.z % c.z == 0,
            CUDA_ERROR_INVALID_CLUSTER_SIZE);
    const auto cluster = static_cast<unsigned>(std::min<std::uint64_t>(c.volume(), ~0u));
    require(function.settings.non_portable_cluster || cluster <= kMaxClusterPortable,
            CUDA_ERROR_INVALID_CLUSTER_SIZE);
    if (cluster > kMaxCluster) return;
    // All host threads form one group; a cluster with more blocks than threads can run, too.
    const unsigned together[] = {std::max(context.multiprocessors(), cluster)};
    *out = static_cast<int>(active_clusters(together, blocks, cluster));
  });
}

}  // extern "C"
