// SPDX-License-Identifier: Apache-2.0
// cpu/exec/task.hpp: operations, and tasks: sequences of operations that host threads execute.
// Ownership rule: one thread owns a task at a time. run() gives up the ownership by returning
// `pending`; the thread that completes the pending operation owns the task next and calls drive()
// or posts it to the thread pool.
#pragma once

#include <atomic>
#include <cstdint>

#include "cpu/base/object.hpp"
#include "cpu/trace/trace.hpp"

namespace cucpu::driver {

class ExecutionContext;
class GraphRun;
class Task;

enum class Progress { done, pending };

/// One operation of a stream or graph. Immutable while it runs: a graph runs it many times.
class Op : public Object {
 public:
  /// Starts the operation for `task`. Once the result is `pending`, neither the task nor this
  /// object may be accessed, except through a reference that the operation itself holds.
  virtual Progress run(Task& task) = 0;

  /// True for operations that must run even after an error of the context (event records, status
  /// callbacks).
  [[nodiscard]] virtual bool runs_after_error() const noexcept { return false; }

  /// What the timeline shows.
  [[nodiscard]] virtual trace::Label label() const { return {"driver", "operation"}; }
};

/// A sequence of operations: a stream, or the execution of a graph.
class Task {
 public:
  virtual ~Task() = default;
  /// Continues after the pending operation, if there was one, has completed.
  virtual void drive() noexcept = 0;
  [[nodiscard]] virtual ExecutionContext& context() const noexcept = 0;
  /// The graph launch that this task belongs to, where kernels may launch graphs.
  [[nodiscard]] virtual GraphRun* graph_run() noexcept { return nullptr; }
  /// Where the timeline shows its operations.
  [[nodiscard]] virtual trace::Track track() const noexcept { return trace::kThisThread; }
  [[nodiscard]] int priority() const noexcept { return priority_; }

  Task* next =
      nullptr;  ///< intrusive link of the pool's ready list, so that posting allocates nothing
  std::atomic<unsigned> waiting_threads{0};  ///< of the program, which help with its grids
  std::atomic<bool> host_waits{false};       ///< the program waits at once for what it queues
  /// How many threads of the program will probably help with a grid.
  [[nodiscard]] unsigned helping_hosts() const noexcept {
    const unsigned waiting = waiting_threads.load(std::memory_order_relaxed);
    return waiting == 0 && host_waits.load(std::memory_order_relaxed) ? 1 : waiting;
  }

 protected:
  int priority_ = 0;  ///< 0 is the lowest; negative values are more urgent, as in CUDA
};

}  // namespace cucpu::driver
