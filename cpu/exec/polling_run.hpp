// SPDX-License-Identifier: Apache-2.0
// cpu/exec/polling_run.hpp: executes a list of steps. A step that waits for a condition without a
// notification passes the run to the poller.
#pragma once

#include <cstddef>
#include <functional>

#include "cpu/exec/execution_context.hpp"
#include "cpu/exec/task.hpp"
#include "cpu/exec/thread_pool.hpp"

namespace cucpu::driver {

class PollingRun : public Object, public Task {
 public:
  /// True when all steps are done. Otherwise the poller owns the run, and the parent is driven at
  /// the end.
  bool advance() {
    for (; at_ < steps_; ++at_) {
      std::function<bool()> condition = step(at_);
      if (!condition) continue;
      Ref<PollingRun> pollers_own{this};
      ThreadPool::instance().poll([condition = std::move(condition),
                                   &context = context()] { return is_over(condition, context); },
                                  *this);
      (void)pollers_own.detach();  // drive() releases the poller's reference
      return false;
    }
    return true;
  }

  void drive() noexcept override {
    const Ref<PollingRun> self{this};
    release();
    ++at_;  // the poller has waited for this step
    Task& parent = parent_;
    if (parent.context().is_broken()) at_ = steps_;
    bool through = true;
    try {
      through = advance();
    } catch (...) {
      parent.context().break_with_current_exception();
    }
    if (through) parent.drive();
  }
  [[nodiscard]] ExecutionContext& context() const noexcept override { return parent_.context(); }

 protected:
  PollingRun(std::size_t steps, Task& parent) : steps_{steps}, parent_{parent} {
    priority_ = parent.priority();
  }
  /// Executes one step. Returns the condition to poll, or nothing when the step is done. The poller
  /// stops at the first `true`.
  virtual std::function<bool()> step(std::size_t at) = 0;

 private:
  /// Unmapped memory ends the wait and sets the context's error.
  static bool is_over(const std::function<bool()>& condition, ExecutionContext& context) noexcept {
    if (context.is_broken()) return true;
    try {
      return condition();
    } catch (...) {
      context.break_with_current_exception();
      return true;
    }
  }

  std::size_t steps_, at_ = 0;
  Task& parent_;
};

}  // namespace cucpu::driver
