// SPDX-License-Identifier: Apache-2.0
// Submission of operations.
#include "cpu/device/submit.hpp"

#include <optional>
#include <utility>

#include "cpu/device/capture.hpp"
#include "cpu/device/context.hpp"
#include "cpu/exec/memory_access.hpp"
#include "cpu/exec/op_trace.hpp"
#include "cpu/exec/stream_order.hpp"

namespace cucpu::driver {

std::uint64_t submit(Stream& stream, Ref<NodeOp> op) {
  if (is_capture_active() && capture_node(stream, op)) return 0;
  return stream.submit(std::move(op));
}

void run_synchronously(const Ref<InstantOp>& op) {
  const Ref<Stream> stream = default_stream();
  Context& context = context_of(*stream);
  require_capture_safe();
  const bool idle = stream->drained() && (stream->role() == StreamRole::legacy
                                              ? context.blocking_streams_with_work().empty()
                                              : context.legacy_stream().drained());
  if (idle) {
    OpTrace traced;
    traced.begin(*op, *stream);
    std::optional<operations::SynchronousScope> order;
    if (operations::are_checked()) [[unlikely]]
      order.emplace(view_of(*stream));
    access_in(context, [&] { op->execute(); });
    traced.end();
  } else {
    stream->wait(stream->submit(op));
  }
  usable(context);
}

}  // namespace cucpu::driver
