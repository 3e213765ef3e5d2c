// cpu/exec/polling_run.hpp: a list of steps on its way, of which some wait for something that
// nobody announces; the poller has the run in between.
#pragma once

#include <cstddef>
#include <functional>

#include "cpu/device/context.hpp"
#include "cpu/exec/task.hpp"
#include "cpu/exec/thread_pool.hpp"

namespace cucpu::driver {

class PollingRun : public Object, public Task {
 public:
  /// True when all steps are through; otherwise the poller has it, and the parent is driven on at
  /// the end.
  bool advance() {
    for (; at_ < steps_; ++at_) {
      std::function<bool()> question = step(at_);
      if (!question) continue;
      Ref<PollingRun> pollers_own{this};
      Pool::instance().poll([question = std::move(question),
                             &context = context()] { return is_over(question, context); },
                            *this);
      (void)pollers_own.detach();  // drive() gives it back
      return false;
    }
    return true;
  }

  void drive() noexcept override {
    const Ref<PollingRun> self{this};
    release();
    ++at_;  // the poller has waited for it
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
  [[nodiscard]] Context& context() const noexcept override { return parent_.context(); }

 protected:
  PollingRun(std::size_t steps, Task& parent) : steps_{steps}, parent_{parent} {
    priority_ = parent.priority();
  }
  /// Does that step: nothing is left to wait for, or what the poller asks until it says yes, once.
  virtual std::function<bool()> step(std::size_t at) = 0;

 private:
  /// Memory that is gone ends the wait and breaks the context.
  static bool is_over(const std::function<bool()>& question, Context& context) noexcept {
    if (context.is_broken()) return true;
    try {
      return question();
    } catch (...) {
      context.break_with_current_exception();
      return true;
    }
  }

  std::size_t steps_, at_ = 0;
  Task& parent_;
};

}  // namespace cucpu::driver
