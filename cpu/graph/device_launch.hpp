// SPDX-License-Identifier: Apache-2.0
// cpu/graph/device_launch.hpp: launches of graphs whose kernels may launch graphs.
#pragma once

#include <atomic>
#include <list>

#include "cpu/graph/check.hpp"
#include "cpu/graph/exec.hpp"

namespace cucpu::driver {

/// One launch of an executable graph with all launches of its kernels. It completes after the graph
/// and its fire-and-forget graphs, followed by its tail graphs in order, each with its own
/// launches.
class GraphRun final : public Object, public Task {
 public:
  GraphRun(std::shared_ptr<const Plan> plan, Ref<GraphExec> exec, Context& context, int priority);

  /// Starts it for a stream, which is posted at completion.
  void start(Task& then);

  /// A launch by a kernel of this graph; returns a cudaError_t.
  int launch(CUgraphExec exec, std::uint64_t how);
  [[nodiscard]] GraphExec& exec() const noexcept { return *exec_; }

  void drive() noexcept override;
  ExecutionContext& context() const noexcept override { return context_; }
  GraphRun* graph_run() noexcept override { return this; }

 private:
  void post() noexcept;
  void arrive() noexcept;
  void finish() noexcept;
  int launch_beside(GraphRun& owner, Ref<GraphExec> exec);

  std::shared_ptr<const Plan> plan_;
  Ref<GraphExec> exec_;
  Context& context_;
  Task* then_ = nullptr;           // the stream that waits, or
  Ref<GraphRun> owner_;            // the run that launched this one as fire-and-forget
  bool begun_ = false;             // accessed only by the owner of the task
  std::atomic<unsigned> open_{1};  // the graph itself and its fire-and-forget runs
  std::mutex mutex_;
  unsigned launched_ = 0;
  std::list<Ref<GraphExec>> tails_;  // tail launches of its kernels, and
  std::list<Ref<GraphExec>> rest_;   // earlier tail launches of others
};

/// True once a graph for device launch exists: launches are GraphRuns from then on.
bool device_graphs_exist() noexcept;

/// Fails with 801 for nodes that a device graph does not support.
void require_launchable_by_kernels(const Plan& plan, InstantiateError& refusal);

void install_graph_launches();

}  // namespace cucpu::driver
