// cpu/graph/device_launch.hpp: launches of graphs whose kernels may launch graphs.
#pragma once

#include <atomic>
#include <list>

#include "cpu/graph/check.hpp"
#include "cpu/graph/exec.hpp"

namespace cucpu::driver {

/// One launch of an executable graph, and all that its kernels launch. It is over when they are:
/// first the graph and those launched to run beside it, then those that were to come behind it, one
/// after the other, each with what it launches itself.
class GraphRun final : public Object, public Task {
 public:
  GraphRun(std::shared_ptr<const Plan> plan, Ref<GraphExec> exec, Context& context, int priority);

  /// Starts it for a stream, which is posted when all is over.
  void start(Task& then);

  /// What a kernel of this graph asks for: a cudaError_t.
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
  Task* then_ = nullptr;           // a stream, or
  Ref<GraphRun> owner_;            // the run that this one was launched beside
  bool begun_ = false;             // touched by the owner of the task only
  std::atomic<unsigned> open_{1};  // the graph itself, and runs beside it
  std::mutex mutex_;
  unsigned launched_ = 0;
  std::list<Ref<GraphExec>> tails_;  // to come behind this run: what its kernels asked for, and
  std::list<Ref<GraphExec>> rest_;   // what others had asked for before
};

/// True once a graph that kernels may launch has been made: from then on launches are GraphRuns.
bool device_graphs_exist() noexcept;

/// Fails with 801 for what such a graph cannot hold.
void require_launchable_by_kernels(const Plan& plan, InstantiateError& refusal);

void install_graph_launches();

}  // namespace cucpu::driver
