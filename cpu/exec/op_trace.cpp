// SPDX-License-Identifier: Apache-2.0
// cpu/exec/op_trace.cpp
#include "cpu/exec/op_trace.hpp"

#include <unistd.h>

namespace cucpu::driver {

void OpTrace::start(const Op& op, const Task& task, std::uint64_t arrow) {
  const std::int64_t begin = trace::now();
  open_ = std::make_unique<Open>(Open{op.label(), task.track(), begin});
  if (arrow != 0) trace::end_arrow(open_->track, arrow, begin);
}

void OpTrace::finish() noexcept {
  const std::unique_ptr<Open> open = std::move(open_);
  trace::add_span(open->track, std::move(open->label), open->begin, trace::now());
}

// Below 2^53, so that every reader of JSON keeps it.
std::uint64_t arrow_number(std::uint64_t stream, std::uint64_t number) noexcept {
  const auto process = static_cast<std::uint64_t>(getpid());
  return (process & 0x3ff) << 42 | (stream & 0x3ff) << 32 | (number & 0xffffffff);
}

}  // namespace cucpu::driver
