// SPDX-License-Identifier: Apache-2.0
// kernel_occupancy.cpp: occupancy of a kernel on the current device.
#include <exception>
#include <functional>
#include <utility>

#include "core/library.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"
#include "cucore/kernel.hpp"

namespace cucore {
namespace {

/// Returns the argument for the occupancy functions, which take a function of the current context.
/// If no context is current, passes the CUkernel, for which the driver returns an error.
CUfunction function_of(detail::KernelState& state) { return state.launchable(); }

/// State of the driver's callback, which has no user data: the function to call on this thread.
struct Asked {
  const std::function<std::size_t(int)>& shared_memory_of;
  std::exception_ptr thrown{};
};
thread_local Asked* t_asked = nullptr;

std::size_t CUDA_CB ask(int block_size) noexcept {
  if (t_asked == nullptr || t_asked->thrown) return 0;
  try {
    return t_asked->shared_memory_of(block_size);
  } catch (...) {  // must not unwind through the driver
    t_asked->thrown = std::current_exception();
    return 0;
  }
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

MaxPotentialBlockSize KernelOccupancy::max_potential_block_size(
    const std::function<std::size_t(int)>& shared_memory_of, int block_size_limit) const {
  if (!shared_memory_of) return max_potential_block_size(std::size_t{0}, block_size_limit);
  MaxPotentialBlockSize best{};
  const CUfunction function = function_of(*state_);
  Asked asked{shared_memory_of};
  // Nested: the callback may query another kernel.
  Asked* const outer = std::exchange(t_asked, &asked);
  const CUresult code = driver().cuOccupancyMaxPotentialBlockSize(
      &best.min_grid_size, &best.max_block_size, function, &ask, 0, block_size_limit);
  t_asked = outer;
  if (asked.thrown) std::rethrow_exception(asked.thrown);
  check(code, "cuOccupancyMaxPotentialBlockSize");
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
