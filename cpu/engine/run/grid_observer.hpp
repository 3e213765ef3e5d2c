// SPDX-License-Identifier: Apache-2.0
// cpu/engine/run/grid_observer.hpp: the interface through which schedulers announce the events of a
// grid. Check mode implements it (check/check.hpp).
#pragma once

#include <cstdint>
#include <vector>

namespace cucpu {

class Worker;
struct Block;
struct Cluster;
struct Fiber;

/// Observes the blocks of one grid. A grid with an observer runs on one host thread, so that its
/// events are totally ordered (except with Code::parallel_observer). A grid without one tests a
/// null pointer per event. Block code announces only the start of a block; it calls routines for
/// the other events.
class GridObserver {
 public:
  GridObserver() = default;
  GridObserver(const GridObserver&) = delete;
  GridObserver& operator=(const GridObserver&) = delete;
  virtual ~GridObserver();

  virtual void block_starts(Worker&, Block&) = 0;
  virtual void grid_ends() noexcept {}  ///< all blocks have ended
  /// The running thread arrives at a barrier of its block. `pc`: the return address of the call.
  virtual void barrier_arrives(Worker&, const void* pc) = 0;
  /// All threads in `waiters` pass a barrier together. `whole_block`: a barrier without a count of
  /// threads.
  virtual void barrier_completes(Worker&, Block&, const std::vector<Fiber*>& waiters,
                                 bool whole_block) = 0;
  /// The running thread arrives at a warp operation of the lanes in `mask`. It may set
  /// Worker::current_fault(): the scheduler then abandons the fiber.
  virtual void warp_arrives(Worker&, std::uint32_t mask, const void* pc) = 0;
  virtual void warp_completes(Block&, std::uint32_t warp, std::uint32_t lanes) = 0;
  virtual void cluster_barrier_completes(Cluster&) = 0;
};

}  // namespace cucpu
