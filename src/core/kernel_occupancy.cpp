// kernel_occupancy.cpp: how much of a kernel fits on the current device.
#include "core/library.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"
#include "cucore/kernel.hpp"

namespace cucore {
namespace {

/// The occupancy functions take a CUfunction; the driver accepts a CUkernel in its place.
CUfunction function_of(detail::KernelState& state) {
  return reinterpret_cast<CUfunction>(state.handle());
}

}  // namespace

int KernelOccupancy::max_active_blocks_per_multiprocessor(
    int block_size, std::size_t dynamic_shared_memory_size) const {
  int blocks = 0;
  CUCORE_CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function_of(*state_), block_size,
                                                          dynamic_shared_memory_size));
  return blocks;
}

MaxPotentialBlockSize KernelOccupancy::max_potential_block_size(
    std::size_t dynamic_shared_memory_needed, int block_size_limit) const {
  MaxPotentialBlockSize best{};
  CUCORE_CALL(cuOccupancyMaxPotentialBlockSize(&best.min_grid_size, &best.max_block_size,
                                               function_of(*state_), nullptr,
                                               dynamic_shared_memory_needed, block_size_limit));
  return best;
}

MaxPotentialBlockSize KernelOccupancy::max_potential_block_size(CUoccupancyB2DSize shared_memory_of,
                                                                int block_size_limit) const {
  MaxPotentialBlockSize best{};
  CUCORE_CALL(cuOccupancyMaxPotentialBlockSize(&best.min_grid_size, &best.max_block_size,
                                               function_of(*state_), shared_memory_of, 0,
                                               block_size_limit));
  return best;
}

std::size_t KernelOccupancy::available_dynamic_shared_memory_per_block(
    int num_blocks_per_multiprocessor, int block_size) const {
  std::size_t bytes = 0;
  CUCORE_CALL(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, function_of(*state_),
                                                      num_blocks_per_multiprocessor, block_size));
  return bytes;
}

int KernelOccupancy::max_potential_cluster_size(const CUlaunchConfig& config) const {
  int size = 0;
  CUCORE_CALL(cuOccupancyMaxPotentialClusterSize(&size, function_of(*state_), &config));
  return size;
}

int KernelOccupancy::max_active_clusters(const CUlaunchConfig& config) const {
  int clusters = 0;
  CUCORE_CALL(cuOccupancyMaxActiveClusters(&clusters, function_of(*state_), &config));
  return clusters;
}

}  // namespace cucore
