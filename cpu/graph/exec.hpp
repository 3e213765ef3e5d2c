// SPDX-License-Identifier: Apache-2.0
// cpu/graph/exec.hpp: executable graphs.
#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "cpu/graph/graph.hpp"

namespace cucpu::driver {

class GraphExec final : public Handled<GraphExec, CUgraphExec, Kind::graph_exec> {
 public:
  GraphExec(std::shared_ptr<Plan> plan, Ref<Graph> source, unsigned long long flags)
      : id{next_id()}, flags{flags}, plan_{std::move(plan)}, source_{std::move(source)} {}
  const unsigned id;
  const unsigned long long flags;

  /// Changes one step (found at any depth by its node) without an effect on runs in flight. Fails
  /// with 1 when there is none.
  void change(CUgraphNode node, const std::function<void(Plan::Step&)>& edit);
  /// Replaces all operations when the structure is the same; otherwise returns the difference.
  CUgraphExecUpdateResultInfo update(const Graph& graph);
  /// Queues a run in a stream, after the last run in any stream.
  void launch(Stream& stream);
  [[nodiscard]] bool is_enabled(CUgraphNode node) const;
  [[nodiscard]] Graph& source() const noexcept { return *source_; }

  /// Kernels may launch the graph: instantiated for it, and uploaded or launched before.
  [[nodiscard]] bool is_device_graph() const noexcept {
    return flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
  }
  [[nodiscard]] bool is_uploaded() const noexcept { return uploaded_.load(); }
  void set_uploaded() noexcept { uploaded_ = true; }
  [[nodiscard]] std::shared_ptr<const Plan> device_plan() const;
  /// Counts a run; with `alone`, false when there is one already.
  bool begin_device_run(bool alone) noexcept;
  void end_device_run() noexcept { device_runs_.fetch_sub(1); }

 private:
  static unsigned next_id();
  Plan& writable();  ///< call with the lock held; copies a plan that a run in flight reads
  mutable std::mutex mutex_;
  std::shared_ptr<Plan> plan_;
  Ref<Graph> source_;        // keeps operations that the plan shares
  Ref<Stream> last_stream_;  // stream of the last run, and its number there
  std::uint64_t last_number_ = 0;
  std::optional<MemoryNodes> memory_;  // memory nodes of plan_, collected at the first launch
  bool launched_ = false;              // the last run uses plan_ itself, not the original of a copy
  std::atomic<bool> uploaded_{false};
  std::atomic<unsigned> device_runs_{0};
};

GraphExec& exec_of(CUgraphExec handle);  ///< fails with 1

/// Where two plans differ in a way an update cannot follow; SUCCESS when they do not differ.
CUgraphExecUpdateResult difference(const Plan& now, const Plan& next, CUgraphNode* node);
/// Gives the steps of `now` the operations of `next`.
void take_over(Plan& now, const Plan& next);

}  // namespace cucpu::driver
