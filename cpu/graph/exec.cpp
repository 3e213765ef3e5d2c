// SPDX-License-Identifier: Apache-2.0
// Executable graphs.
#include "cpu/graph/exec.hpp"

#include <optional>

#include "cpu/device/kernel_op.hpp"
#include "cpu/graph/device_launch.hpp"
#include "cpu/graph/events.hpp"
#include "cpu/graph/nodes.hpp"

namespace cucpu::driver {
namespace {

/// A graph launch in a stream.
class GraphLaunchOp final : public Op {
 public:
  /// `exec` is null unless kernels may launch graphs.
  GraphLaunchOp(std::shared_ptr<const Plan> plan, Ref<GraphExec> exec)
      : plan_{std::move(plan)}, exec_{std::move(exec)} {}
  Progress run(Task& task) override {
    reset_conditions(*plan_);
    if (!exec_) return run_plan(plan_, task);
    make_object<GraphRun>(plan_, exec_, context_of(task), task.priority())->start(task);
    return Progress::pending;
  }
  [[nodiscard]] trace::Label label() const override {
    trace::Label label{"graph", "graph"};
    label.arguments.add("nodes", plan_->steps.size());
    label.work.kind = trace::Work::Kind::graph;
    return label;
  }

 private:
  static void reset_conditions(const Plan& plan) {
    for (const Plan::Step& step : plan.steps) {
      if (step.bodies.empty()) continue;
      if (const auto* op = dynamic_cast<const ConditionalOp*>(step.op.get());
          op && op->condition->assign_initial)
        op->condition->value.store(op->condition->initial);
      for (const auto& body : step.bodies) reset_conditions(*body);
    }
  }
  std::shared_ptr<const Plan> plan_;
  Ref<GraphExec> exec_;
};

Plan::Step* find_step(Plan& plan, CUgraphNode node) {
  for (Plan::Step& step : plan.steps) {
    if (step.node == node) return &step;
    for (auto& body : step.bodies)
      if (Plan::Step* found = find_step(*body, node)) return found;
  }
  return nullptr;
}

}  // namespace

CUgraphExecUpdateResult difference(const Plan& now, const Plan& next, CUgraphNode* node) {
  if (now.steps.size() != next.steps.size() || now.shape != next.shape)
    return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  for (std::size_t i = 0; i < now.steps.size(); ++i) {
    const Plan::Step &a = now.steps[i], &b = next.steps[i];
    *node = b.node;
    if (a.op->type() != b.op->type()) return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    if (a.bodies.size() != b.bodies.size()) return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if (a.op->type() == CU_GRAPH_NODE_TYPE_KERNEL) {
      const auto &k = static_cast<const KernelOp&>(*a.op), &l = static_cast<const KernelOp&>(*b.op);
      if (k.module->context() != l.module->context())
        return CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED;
    }
    if (a.op->type() == CU_GRAPH_NODE_TYPE_MEM_ALLOC && a.op.get() != b.op.get())
      return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    if (a.op->type() == CU_GRAPH_NODE_TYPE_CONDITIONAL &&
        static_cast<const ConditionalOp&>(*a.op).params.type !=
            static_cast<const ConditionalOp&>(*b.op).params.type)
      return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    for (std::size_t k = 0; k < a.bodies.size(); ++k)
      if (const auto inner = difference(*a.bodies[k], *b.bodies[k], node);
          inner != CU_GRAPH_EXEC_UPDATE_SUCCESS)
        return inner;
  }
  *node = nullptr;
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

void take_over(Plan& now, const Plan& next) {
  // Objects of the old parameters are released with the last run that uses them.
  now.user_objects = next.user_objects;
  now.conditions = next.conditions;
  for (std::size_t i = 0; i < now.steps.size(); ++i) {
    now.steps[i].op = next.steps[i].op;
    for (std::size_t k = 0; k < now.steps[i].bodies.size(); ++k)
      take_over(*now.steps[i].bodies[k], *next.steps[i].bodies[k]);
  }
}

unsigned GraphExec::next_id() {
  static std::atomic<unsigned> next{1};
  return next.fetch_add(1);
}

Plan& GraphExec::writable() {
  const bool in_flight = launched_ && last_stream_->completed() < last_number_;
  if (in_flight || device_runs_.load() != 0) plan_ = copy_plan(*plan_);
  launched_ = false;
  memory_.reset();
  return *plan_;
}

void GraphExec::change(CUgraphNode node, const std::function<void(Plan::Step&)>& edit) {
  const std::lock_guard lock{mutex_};
  Plan::Step* step = find_step(writable(), node);
  require(step != nullptr);
  edit(*step);
}

bool GraphExec::is_enabled(CUgraphNode node) const {
  const std::lock_guard lock{mutex_};
  const Plan::Step* step = find_step(*plan_, node);
  require(step != nullptr);
  return step->enabled;
}

CUgraphExecUpdateResultInfo GraphExec::update(const Graph& graph) {
  CUgraphExecUpdateResultInfo info{};
  const auto next = make_plan(graph);
  const std::lock_guard lock{mutex_};
  info.result = difference(*plan_, *next, &info.errorNode);
  if (info.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return info;
  take_over(writable(), *next);
  return info;
}

void GraphExec::launch(Stream& stream) {
  const std::lock_guard lock{mutex_};
  if (plan_->has_memory) {
    if (!memory_) memory_.emplace(*plan_);
    memory_->check(flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
  }
  if (last_stream_ && last_stream_.get() != &stream && last_stream_->completed() < last_number_)
    stream.submit(make_object<WaitOp>(last_stream_, last_number_));
  uploaded_ = true;
  std::optional<LaunchedEvents> events;
  if (plan_->has_events) events.emplace(*plan_, context_of(stream));
  last_number_ = stream.submit(
      make_object<GraphLaunchOp>(events ? events->plan() : plan_,
                                 device_graphs_exist() ? Ref<GraphExec>{this} : Ref<GraphExec>{}));
  if (events) events->publish();
  if (memory_) memory_->launch();
  if (last_stream_.get() != &stream) last_stream_ = Ref<Stream>{&stream};
  launched_ = true;
}

std::shared_ptr<const Plan> GraphExec::device_plan() const {
  const std::lock_guard lock{mutex_};
  return plan_;
}

bool GraphExec::begin_device_run(bool alone) noexcept {
  unsigned none = 0;
  if (alone) return device_runs_.compare_exchange_strong(none, 1);
  device_runs_.fetch_add(1);
  return true;
}

GraphExec& exec_of(CUgraphExec handle) {
  return object_of<GraphExec>(handle, CUDA_ERROR_INVALID_VALUE);
}

void set_exec_op(CUgraphExec exec, CUgraphNode node, const Ref<NodeOp>& op) {
  exec_of(exec).change(node, [&](Plan::Step& step) {
    require(step.op->type() == op->type());
    step.op = op;
  });
}

}  // namespace cucpu::driver
