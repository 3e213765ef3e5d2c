// SPDX-License-Identifier: Apache-2.0
// Plans: made from graphs, run step by step. A run is a task: the thread that completes a step
// continues with the next.
#include "cpu/graph/run.hpp"

#include <unordered_map>

#include "cpu/engine/check/operations.hpp"
#include "cpu/exec/op_trace.hpp"

namespace cucpu::driver {
namespace {

Progress run_conditional(const Plan::Step& step, Task& self, bool& looping) {
  const auto& op = static_cast<const ConditionalOp&>(*step.op);
  const auto value = [&] { return op.condition->value.load(std::memory_order_acquire); };
  switch (op.params.type) {
    case CU_GRAPH_COND_TYPE_IF:
      if (value() != 0) return run_plan(step.bodies[0], self);
      return step.bodies.size() > 1 ? run_plan(step.bodies[1], self) : Progress::done;
    case CU_GRAPH_COND_TYPE_SWITCH:
      return value() < step.bodies.size() ? run_plan(step.bodies[value()], self) : Progress::done;
    default:
      while (value() != 0 && !context_of(self).is_broken()) {
        looping = true;  // if the body completes on another thread, this step runs again
        if (run_plan(step.bodies[0], self) == Progress::pending) return Progress::pending;
      }
      looping = false;
      return Progress::done;
  }
}

/// The run of a plan without branches.
class PlanRun final : public Object, public Task {
 public:
  PlanRun(std::shared_ptr<const Plan> plan, Task& parent)
      : plan_{std::move(plan)}, parent_{&parent} {
    priority_ = parent.priority();
    if (operations::are_checked()) [[unlikely]]
      operations::runs_node(static_cast<const Task*>(this), &parent, {});
  }
  ~PlanRun() override {
    if (operations::are_checked()) [[unlikely]]
      operations::ends(static_cast<const Task*>(this));
  }

  /// True when the plan is complete. After false, another thread owns this object.
  bool advance() {
    for (; at_ < plan_->steps.size(); ++at_) {
      trace_.begin(*plan_->steps[at_].op, *this);
      if (run_step(plan_->steps[at_], *this, looping_) == Progress::pending) return false;
      trace_.end();
    }
    return true;
  }

  void drive() noexcept override {
    trace_.end();
    if (!looping_) ++at_;
    looping_ = false;
    if (!advance()) return;
    Task& parent = *parent_;
    release();
    parent.drive();
  }
  ExecutionContext& context() const noexcept override { return context_of(*parent_); }
  GraphRun* graph_run() noexcept override { return parent_->graph_run(); }
  trace::Track track() const noexcept override { return parent_->track(); }

 private:
  std::shared_ptr<const Plan> plan_;
  Task* parent_;
  OpTrace trace_;
  std::size_t at_ = 0;
  bool looping_ = false;  // accessed only by the owner
};

}  // namespace

Progress run_step(const Plan::Step& step, Task& self, bool& looping) {
  Context& context = context_of(self);
  if (!step.enabled || (context.is_broken() && !step.op->runs_after_error())) return Progress::done;
  const operations::Scope scope{&self};
  try {
    switch (step.op->type()) {
      case CU_GRAPH_NODE_TYPE_GRAPH:
        return run_plan(step.bodies[0], self);
      case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return run_conditional(step, self, looping);
      default:
        return step.op->run(self);
    }
  } catch (...) {
    context.break_with_current_exception();
    return Progress::done;
  }
}

Progress run_plan(std::shared_ptr<const Plan> plan, Task& parent) {
  if (plan->has_events) operations::disable();
  if (!plan->links.empty()) return run_branches(std::move(plan), parent);
  auto run = make_object<PlanRun>(std::move(plan), parent);
  PlanRun* raw = run.detach();  // its own reference; drive() releases it at the end
  if (!raw->advance()) return Progress::pending;
  raw->release();
  return Progress::done;
}

std::shared_ptr<Plan> make_plan(const Graph& graph) {
  const std::lock_guard lock{graph_mutex()};
  const std::vector<GraphNode*> order = graph.in_order();
  require(order.size() == graph.nodes.size());
  auto plan = std::make_shared<Plan>();
  plan->user_objects = graph.user_objects;
  plan->conditions = graph.conditions;
  std::unordered_map<const GraphNode*, unsigned> index;
  for (GraphNode* node : order) {
    Plan::Step step;
    step.op = node->op;
    step.node = node->handle();
    if (const auto* child = dynamic_cast<const ChildGraphOp*>(node->op.get())) {
      step.bodies.push_back(make_plan(*child->graph));
    } else if (const auto* conditional = dynamic_cast<const ConditionalOp*>(node->op.get())) {
      for (const auto& body : conditional->bodies) step.bodies.push_back(make_plan(*body));
    }
    const CUgraphNodeType type = step.op->type();
    plan->has_events |=
        type == CU_GRAPH_NODE_TYPE_EVENT_RECORD || type == CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    plan->has_memory |= type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE;
    for (const auto& body : step.bodies) {
      plan->has_events |= body->has_events;
      plan->has_memory |= body->has_memory;
    }
    std::vector<unsigned> dependencies;
    for (const Edge& edge : node->dependencies) dependencies.push_back(index[edge.from]);
    index[node] = static_cast<unsigned>(plan->steps.size());
    plan->steps.push_back(std::move(step));
    plan->shape.push_back(std::move(dependencies));
  }
  make_lanes(*plan);
  return plan;
}

std::shared_ptr<Plan> copy_plan(const Plan& plan) {
  auto copy = std::make_shared<Plan>(plan);
  for (Plan::Step& step : copy->steps)
    for (auto& body : step.bodies) body = copy_plan(*body);
  return copy;
}

}  // namespace cucpu::driver
