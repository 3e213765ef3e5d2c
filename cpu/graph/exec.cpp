// cuGraphInstantiate*, cuGraphLaunch, cuGraphExec*: executable graphs.
#include "cpu/graph/exec.hpp"

#include <optional>

#include "cpu/device/capture.hpp"
#include "cpu/device/copy.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/kernel_op.hpp"
#include "cpu/graph/check.hpp"
#include "cpu/graph/device_launch.hpp"
#include "cpu/graph/events.hpp"
#include "cpu/graph/nodes.hpp"

namespace cucpu::driver {
namespace {

/// A graph launch in a stream. Also what a stream that is being captured keeps: the launched graph
/// as a child.
class GraphLaunchOp final : public Op {
 public:
  /// `exec` where kernels may launch graphs, else null.
  GraphLaunchOp(std::shared_ptr<const Plan> plan, Ref<GraphExec> exec)
      : plan_{std::move(plan)}, exec_{std::move(exec)} {}
  Progress run(Task& task) override {
    reset_conditions(*plan_);
    if (!exec_) return run_plan(plan_, task);
    make_object<GraphRun>(plan_, exec_, task.context(), task.priority())->start(task);
    return Progress::pending;
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

/// Where two plans differ in a way an update cannot follow; SUCCESS when they do not.
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
  // What only the old parameters used goes with the last run that has them.
  now.user_objects = next.user_objects;
  now.conditions = next.conditions;
  for (std::size_t i = 0; i < now.steps.size(); ++i) {
    now.steps[i].op = next.steps[i].op;
    for (std::size_t k = 0; k < now.steps[i].bodies.size(); ++k)
      take_over(*now.steps[i].bodies[k], *next.steps[i].bodies[k]);
  }
}

}  // namespace

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
  if (plan_->has_events) events.emplace(*plan_, stream.context());
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

using namespace cucpu::driver;

namespace {

constexpr unsigned long long kFlags =
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

CUgraphExec instantiate(CUgraph handle, unsigned long long flags, Refusal& refusal) {
  constexpr unsigned long long kApart =
      CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
  require((flags & ~kFlags) == 0 && (flags & kApart) != kApart);
  Graph& graph = graph_of(handle);
  current_context();
  const auto plan = make_plan(graph);
  require_good_conditions(*plan, refusal);
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
    require_launchable_by_kernels(*plan, refusal);
  const auto exec = make_object<GraphExec>(plan, Ref<Graph>{&graph}, flags);
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) exec->set_uploaded();
  if (!plan->has_memory) return exec->publish();
  require(!graph.is_instantiated.exchange(true), CUDA_ERROR_NOT_SUPPORTED);
  try {
    return exec->publish();
  } catch (...) {
    graph.is_instantiated = false;
    throw;
  }
}

}  // namespace

extern "C" {

CUresult cuGraphInstantiateWithFlags(CUgraphExec* out, CUgraph graph, unsigned long long flags) {
  return guarded([&] {
    require(out && !(flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD));
    Refusal unsaid;
    *out = instantiate(graph, flags, unsaid);
  });
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* out, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return guarded([&] {
    require(out && params);
    Refusal refusal;
    params->hErrNode_out = refusal.node;
    params->result_out = refusal.result;
    if (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) stream_of(params->hUploadStream);
    try {
      *out = instantiate(graph, params->flags, refusal);
    } catch (const Error& e) {
      params->hErrNode_out = refusal.node;
      params->result_out = refusal.result;
      const std::lock_guard lock{graph_mutex()};
      Graph* g = find_object<Graph>(graph);
      if (g && e.code == CUDA_ERROR_INVALID_VALUE && g->in_order().size() != g->nodes.size())
        params->result_out = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
      throw;
    }
    params->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  });
}

CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = exec_of(exec).flags;
  });
}

CUresult cuGraphExecGetId(CUgraphExec exec, unsigned int* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = exec_of(exec).id;
  });
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  return guarded([&] {
    const Ref<GraphExec> gone{&exec_of(exec)};
    require(gone->retire());
    gone->source().is_instantiated = false;
  });
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
  return guarded([&] {
    GraphExec& graph = exec_of(exec);
    stream_of(stream);  // nothing is moved: a plan is ready where it is
    graph.set_uploaded();
  });
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  return guarded([&] {
    GraphExec& exec = exec_of(handle);
    const Ref<Stream> stream = stream_of(stream_handle);
    require_not_capturing(*stream);  // as on an H200: what is captured embeds graphs, not launches
    exec.launch(*stream);
    if (settings().blocking_launches) [[unlikely]] {
      stream->wait(stream->submitted());
      usable(stream->context());
    }
  });
}

CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  return guarded([&] {
    const CUgraphExecUpdateResultInfo result = exec_of(exec).update(graph_of(graph));
    if (info) *info = result;
    return result.result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS
                                                         : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  });
}

CUresult cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int enabled) {
  return guarded([&] {
    require(enabled <= 1);
    exec_of(exec).change(node, [&](Plan::Step& step) {
      const CUgraphNodeType type = step.op->type();
      require(type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
              type == CU_GRAPH_NODE_TYPE_MEMSET);
      step.enabled = enabled != 0;
    });
  });
}

CUresult cuGraphNodeGetEnabled(CUgraphExec exec, CUgraphNode node, unsigned int* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = exec_of(exec).is_enabled(node);
  });
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS* params) {
  return guarded([&] {
    require(params != nullptr);
    exec_of(exec).change(node, [&](Plan::Step& step) {
      auto* op = dynamic_cast<KernelOp*>(step.op.get());
      require(op != nullptr);
      step.op = make_kernel(*params, op->attributes);
    });
  });
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMCPY3D* params, CUcontext context) {
  return guarded([&] {
    require(params != nullptr);
    set_exec_op(exec, node, make_copy(*params, context));
  });
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context) {
  return guarded([&] {
    require(params != nullptr);
    set_exec_op(exec, node, make_fill_node(*params, context));
  });
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                      const CUDA_HOST_NODE_PARAMS* params) {
  return guarded([&] {
    require(params && params->fn);
    set_exec_op(exec, node, make_object<HostOp>(params->fn, params->userData));
  });
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  return guarded([&] {
    const auto next = make_plan(graph_of(child));
    exec_of(exec).change(node, [&](Plan::Step& step) {
      require(step.op->type() == CU_GRAPH_NODE_TYPE_GRAPH);
      CUgraphNode differs = nullptr;
      require(difference(*step.bodies[0], *next, &differs) == CU_GRAPH_EXEC_UPDATE_SUCCESS,
              CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
      take_over(*step.bodies[0], *next);
    });
  });
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return guarded([&] {
    set_exec_op(exec, node, make_object<EventRecordOp>(Ref<Event>{&given<Event>(event)}));
  });
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event) {
  return guarded(
      [&] { set_exec_op(exec, node, make_object<EventWaitOp>(Ref<Event>{&given<Event>(event)})); });
}

CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return guarded([&] {
    require(params != nullptr);
    CUgraphNodeParams p = described(*params);
    set_exec_op(exec, node, make_node_op(p));
  });
}

CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* params) {
  return guarded([&] {
    require(exec && node && params);
    if (params->type == CU_GRAPH_NODE_TYPE_GRAPH)
      return cuGraphExecChildGraphNodeSetParams(exec, node, params->graph.graph);
    require(params->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
            params->type != CU_GRAPH_NODE_TYPE_MEM_FREE &&
            params->type != CU_GRAPH_NODE_TYPE_CONDITIONAL);
    exec_of(exec).change(node, [&](Plan::Step& step) {
      require(step.op->type() == params->type);
      step.op = make_changed_op(*params, *step.op);
    });
    return CUDA_SUCCESS;
  });
}

}  // extern "C"
