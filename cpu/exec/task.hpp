// cpu/exec/task.hpp: operations, and the sequences of them that host threads drive forward.
// Ownership rule: at any time one thread owns a task. run() may hand that ownership away by
// returning `pending`; whoever ends the pending operation owns the task next and calls drive() or
// posts it to the pool.
#pragma once

#include <atomic>
#include <cstdint>

#include "cpu/base/object.hpp"

namespace cucpu::driver {

class Context;
class GraphRun;
class Task;

enum class Progress { done, pending };

/// One thing a stream or a graph does. Immutable while it runs, so that a graph can run it many
/// times.
class Op : public Object {
 public:
  /// Starts the operation for `task`. After `pending` has been decided neither the task nor this
  /// object may be touched, save through a reference the operation itself holds.
  virtual Progress run(Task& task) = 0;

  /// True for what must happen even when the context is broken (marks that others wait for, status
  /// callbacks).
  [[nodiscard]] virtual bool runs_after_error() const noexcept { return false; }
};

/// A sequence of operations: a stream, or a graph on its way.
class Task {
 public:
  virtual ~Task() = default;
  /// Continues. If an operation was pending it has ended.
  virtual void drive() noexcept = 0;
  [[nodiscard]] virtual Context& context() const noexcept = 0;
  /// The launch of a graph that it is a part of, where kernels may launch graphs.
  [[nodiscard]] virtual GraphRun* graph_run() noexcept { return nullptr; }
  [[nodiscard]] int priority() const noexcept { return priority_; }

  Task* next = nullptr;  ///< in the pool's list of ready tasks, which therefore needs no memory
  /// A thread that waited took part in the last grid: it will in the next one, as programs go.
  std::atomic<bool> helped{false};

 protected:
  int priority_ = 0;  ///< 0 lowest; negative is more urgent, as CUDA counts
};

}  // namespace cucpu::driver
