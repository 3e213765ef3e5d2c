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

  /// Changes one step (found at any depth by its node) without disturbing runs in flight. Fails
  /// with 1 when there is none.
  void change(CUgraphNode node, const std::function<void(Plan::Step&)>& edit);
  /// Replaces operations after checking that the shape is the same; otherwise says what differs.
  CUgraphExecUpdateResultInfo update(const Graph& graph);
  /// Queues a run in a stream, behind the last one in whatever stream that was.
  void launch(Stream& stream);
  [[nodiscard]] bool is_enabled(CUgraphNode node) const;
  [[nodiscard]] Graph& source() const noexcept { return *source_; }

  /// Graphs that kernels may launch: made for it, and uploaded or launched before.
  [[nodiscard]] bool is_device_graph() const noexcept {
    return flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
  }
  [[nodiscard]] bool is_uploaded() const noexcept { return uploaded_.load(); }
  void set_uploaded() noexcept { uploaded_ = true; }
  [[nodiscard]] std::shared_ptr<const Plan> device_plan() const;
  /// Counts a run; `alone`: only when there is none, else false.
  bool begin_device_run(bool alone) noexcept;
  void end_device_run() noexcept { device_runs_.fetch_sub(1); }

 private:
  static unsigned next_id();
  Plan& writable();  ///< with the lock held: a copy when a run in flight reads the plan
  mutable std::mutex mutex_;
  std::shared_ptr<Plan> plan_;
  Ref<Graph> source_;        // keeps nodes' operations that the plan shares
  Ref<Stream> last_stream_;  // where the last run was queued, and its number there
  std::uint64_t last_number_ = 0;
  std::optional<MemoryNodes> memory_;  // of plan_, where it has some: looked for at a launch
  bool launched_ = false;              // the last run has plan_ itself, not one it was copied from
  std::atomic<bool> uploaded_{false};
  std::atomic<unsigned> device_runs_{0};
};

GraphExec& exec_of(CUgraphExec handle);  ///< fails with 1

/// Where two plans differ in a way an update cannot follow; SUCCESS when they do not differ.
CUgraphExecUpdateResult difference(const Plan& now, const Plan& next, CUgraphNode* node);
/// Gives the steps of `now` the operations of `next`.
void take_over(Plan& now, const Plan& next);

}  // namespace cucpu::driver
