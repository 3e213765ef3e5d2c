// SPDX-License-Identifier: Apache-2.0
// cpu/engine/runtime/cluster_launch.cpp: clusterlaunchcontrol.try_cancel: takes a cluster that has
// not started from the grid, and reports it to the caller. The calling block runs it in its place.
#include "cpu/engine/runtime/cluster_launch.hpp"

#include <cstddef>
#include <cstring>

#include "cpu/engine/run/worker.hpp"

extern "C" {

void cucpu_rt_mbarrier_complete_tx(void* address, std::uint32_t bytes);  // mbarrier.cpp

/// `all`: every block of the cluster gets the response, at the same offset of its shared memory.
void cucpu_rt_try_cancel(std::byte* response, std::byte* barrier, std::uint32_t all) {
  using namespace cucpu;
  Worker& worker = *Worker::running();
  const Block& block = *worker.current().block;
  CancelResponse made{};
  if (std::uint64_t index = 0; worker.scheduler().cancel_cluster(index)) {
    const Dim3 grid = worker.grid().shape().grid, cluster = worker.grid().shape().cluster;
    const std::uint64_t columns = grid.x / cluster.x, rows = grid.y / cluster.y;
    made = {{static_cast<std::uint32_t>(index % columns) * cluster.x,
             static_cast<std::uint32_t>(index / columns % rows) * cluster.y,
             static_cast<std::uint32_t>(index / columns / rows) * cluster.z},
            1};
  }
  const auto answer = [&](std::byte* base) {
    std::memcpy(base + (response - block.context.shared), &made, sizeof made);
    cucpu_rt_mbarrier_complete_tx(base + (barrier - block.context.shared), sizeof made);
  };
  if (all == 0) return answer(block.context.shared);
  for (std::byte* const shared : block.cluster->shared) answer(shared);
}

}  // extern "C"
