// SPDX-License-Identifier: Apache-2.0
// cpu/exec/op_trace.cpp
#include "cpu/exec/op_trace.hpp"

#include <unistd.h>

#include "cpu/exec/execution_context.hpp"

namespace cucpu::driver {

void OpTrace::start(const Op& op, const Task& task, std::uint64_t number) {
  const std::int64_t begin = trace::now();
  open_ = std::make_unique<Open>(Open{op.label(), task.track(), begin});
  const std::uint64_t arrow =
      number == 0 ? 0 : arrow_number(trace::stream_of(open_->track), number);
  if (arrow != 0) trace::end_arrow(open_->track, arrow, begin);
  if (!trace::has(trace::kObserver)) return;
  trace::Work& work = open_->label.work;
  work.stream = trace::stream_of(open_->track);
  work.in_graph = arrow == 0 && trace::is_in_graph(work.stream);
  work.correlation = trace::start_work(arrow, work.stream, work.kind == trace::Work::Kind::graph);
  work.asynchronous = arrow != 0;
  work.context = task.context().number();
  work.device = task.context().ordinal();
  open_->observed = true;
}

void OpTrace::finish() noexcept {
  const std::unique_ptr<Open> open = std::move(open_);
  const std::int64_t end = trace::now();
  if (open->observed) {
    trace::Work& work = open->label.work;
    work.begin = open->begin, work.end = end;
    trace::end_work(work);
  }
  trace::add_span(open->track, std::move(open->label), open->begin, end);
}

// Below 2^53, so that every reader of JSON keeps it.
std::uint64_t arrow_number(std::uint64_t stream, std::uint64_t number) noexcept {
  const auto process = static_cast<std::uint64_t>(getpid());
  return (process & 0x3ff) << 42 | (stream & 0x3ff) << 32 | (number & 0xffffffff);
}

}  // namespace cucpu::driver
