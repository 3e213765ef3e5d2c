// SPDX-License-Identifier: Apache-2.0
// cpu/exec/op_trace.hpp: the operation that a task runs, for the timeline.
#pragma once

#include <cstdint>
#include <memory>

#include "cpu/exec/task.hpp"

namespace cucpu::driver {

/// Belongs to a task. While the timeline is off it costs the test of a flag and of a pointer.
class OpTrace {
 public:
  /// Before the operation runs. `number`: its number in the stream `task`, 0 for none.
  void begin(const Op& op, const Task& task, std::uint64_t number = 0) {
    if (trace::is_on()) [[unlikely]]
      start(op, task, number);
  }
  /// After it has ended.
  void end() noexcept {
    if (open_) [[unlikely]]
      finish();
  }

 private:
  struct Open {
    trace::Label label;
    trace::Track track;
    std::int64_t begin;
    bool observed = false;
  };
  [[gnu::cold]] void start(const Op&, const Task&, std::uint64_t number);
  [[gnu::cold]] void finish() noexcept;
  std::unique_ptr<Open> open_;
};

/// Names an operation of a stream in this process and, most likely, on this machine.
[[nodiscard]] std::uint64_t arrow_number(std::uint64_t stream, std::uint64_t number) noexcept;

}  // namespace cucpu::driver
