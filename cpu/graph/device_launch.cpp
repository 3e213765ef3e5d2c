// SPDX-License-Identifier: Apache-2.0
// Graph launches by kernels: fire-and-forget and tail launches.
#include "cpu/graph/device_launch.hpp"

#include "cpu/device/context.hpp"
#include "cpu/engine/graph_launch.hpp"
#include "cpu/exec/error_code.hpp"
#include "cpu/exec/thread_pool.hpp"

namespace cucpu::driver {
namespace {

// The named streams of device-side graph launches.
constexpr std::uint64_t kTail = 0x0100000000000000, kBeside = 0x0200000000000000,
                        kSibling = 0x0300000000000000;
// Limits of the CUDA programming guide.
constexpr unsigned kMostBeside = 120;
constexpr std::size_t kMostTails = 255;
// cudaError_t
constexpr int kSuccess = 0, kInvalidValue = 1, kMemoryAllocation = 2, kNotPermitted = 800;

std::atomic<bool> g_exist{false};

int launch_from_kernel(std::uint64_t exec, std::uint64_t how) noexcept {
  Task* const task = ThreadPool::running_task();
  GraphRun* const run = task ? task->graph_run() : nullptr;
  if (run == nullptr) return kNotPermitted;
  try {
    return run->launch(reinterpret_cast<CUgraphExec>(exec), how);
  } catch (const std::bad_alloc&) {
    return kMemoryAllocation;
  } catch (...) {
    return kInvalidValue;
  }
}

std::uint64_t current_graph() noexcept {
  Task* const task = ThreadPool::running_task();
  GraphRun* const run = task ? task->graph_run() : nullptr;
  if (run == nullptr || !run->exec().is_device_graph()) return 0;
  return reinterpret_cast<std::uint64_t>(run->exec().handle());
}

}  // namespace

bool device_graphs_exist() noexcept { return g_exist.load(std::memory_order_relaxed); }

void install_graph_launches() { cucpu::graph_launches() = {launch_from_kernel, current_graph}; }

void require_launchable_by_kernels(const Plan& plan, InstantiateError& refusal) {
  for (const Plan::Step& step : plan.steps) {
    const CUgraphNodeType type = step.op->type();
    if (type == CU_GRAPH_NODE_TYPE_GRAPH) {
      require_launchable_by_kernels(*step.bodies[0], refusal);
      continue;
    }
    if (type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY ||
        type == CU_GRAPH_NODE_TYPE_MEMSET)
      continue;
    refusal = {CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED, step.node};
    fail(CUDA_ERROR_NOT_SUPPORTED);
  }
  g_exist = true;
}

GraphRun::GraphRun(std::shared_ptr<const Plan> plan, Ref<GraphExec> exec, Context& context,
                   int priority)
    : plan_{std::move(plan)}, exec_{std::move(exec)}, context_{context} {
  priority_ = priority;
}

void GraphRun::start(Task& then) {
  then_ = &then;
  exec_->begin_device_run(false);
  post();
}

void GraphRun::post() noexcept {
  retain();  // released at completion
  ThreadPool::instance().post(*this);
}

void GraphRun::drive() noexcept {
  if (!begun_) {
    begun_ = true;
    try {
      if (run_plan(plan_, *this) == Progress::pending) return;
    } catch (...) {
      context_.break_with(code_of_current_exception(), {});
    }
  }
  arrive();
}

void GraphRun::arrive() noexcept {
  if (open_.fetch_sub(1, std::memory_order_acq_rel) == 1) finish();
}

void GraphRun::finish() noexcept {
  exec_->end_device_run();
  plan_ = nullptr;  // destroys what the plan owns before waiters are notified
  exec_ = nullptr;
  tails_.splice(tails_.end(), rest_);
  Ref<GraphRun> next;
  if (!tails_.empty() && !context_.is_broken()) {
    const Ref<GraphExec> exec = std::move(tails_.front());
    tails_.pop_front();
    try {
      next = make_object<GraphRun>(exec->device_plan(), exec, context_, priority_);
    } catch (...) {
      context_.break_with(code_of_current_exception(), {});
    }
  }
  if (next) {  // replaces this launch, so that a graph may launch itself without end
    next->exec_->begin_device_run(false);
    next->then_ = then_;
    next->owner_ = std::move(owner_);
    next->rest_ = std::move(tails_);
    next->post();
  } else if (owner_) {
    owner_->arrive();
  } else {
    ThreadPool::instance().post(*then_);
  }
  release();
}

int GraphRun::launch_beside(GraphRun& owner, Ref<GraphExec> exec) {
  {
    const std::lock_guard lock{mutex_};
    if (launched_ == kMostBeside) return kInvalidValue;
    ++launched_;
  }
  if (!exec->begin_device_run(true)) return kInvalidValue;  // it is running
  Ref<GraphRun> run;
  try {
    run = make_object<GraphRun>(exec->device_plan(), exec, context_, priority_);
  } catch (...) {
    exec->end_device_run();
    throw;
  }
  run->owner_ = Ref<GraphRun>{&owner};
  owner.open_.fetch_add(1, std::memory_order_relaxed);  // not 0: the launching graph still runs
  run->post();
  return kSuccess;
}

int GraphRun::launch(CUgraphExec handle, std::uint64_t how) {
  GraphExec* const found = find_object<GraphExec>(handle);
  if (found == nullptr || !found->is_device_graph() || !found->is_uploaded()) return kInvalidValue;
  Ref<GraphExec> exec{found};
  switch (how) {
    case kBeside:
      return launch_beside(*this, std::move(exec));
    case kSibling:
      return owner_ ? launch_beside(*owner_, std::move(exec)) : kInvalidValue;
    case kTail: {
      const std::lock_guard lock{mutex_};
      if (tails_.size() >= kMostTails) return kInvalidValue;
      tails_.push_back(std::move(exec));
      return kSuccess;
    }
    default:
      return kInvalidValue;
  }
}

}  // namespace cucpu::driver
