// SPDX-License-Identifier: Apache-2.0
// cpu/device/submit.hpp: submits an operation to a stream: queued, captured into a graph, or run at
// once.
#pragma once

#include "cpu/exec/ops.hpp"

namespace cucpu::driver {

/// Queues an operation, or adds it to the graph that the stream captures. Returns its number in the
/// stream (0 when captured).
std::uint64_t submit(Stream& stream, Ref<NodeOp> op);

/// Runs an operation as a synchronous call does: after the default stream's work; complete on
/// return.
void run_synchronously(const Ref<InstantOp>& op);

}  // namespace cucpu::driver
