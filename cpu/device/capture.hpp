// SPDX-License-Identifier: Apache-2.0
// cpu/device/capture.hpp: the interface of stream capture for entry points and queues;
// cpu/graph/capture.cpp implements it.
#pragma once

#include <atomic>

#include "cpu/exec/ops.hpp"

namespace cucpu::driver {

class Context;
class Event;

/// The number of active captures. Hot paths test it before they make what capture_node() needs.
extern std::atomic<int> g_active_captures;
inline bool is_capture_active() noexcept {
  return g_active_captures.load(std::memory_order_acquire) != 0;
}

/// Adds the operation to the graph when the stream is capturing, and returns true. Fails when the
/// capture is invalid, or when a blocking stream is capturing and the stream is the legacy default
/// stream (906).
bool capture_node(Stream& stream, const Ref<NodeOp>& op);

/// For calls that cannot be captured (allocations, synchronous copies): fails with 900 according to
/// the thread's capture mode.
void require_capture_safe();

/// For calls that wait for a context or stream: fails with 900 and invalidates the capture while
/// any of its streams is capturing.
void require_not_capturing(Context& context);
void require_not_capturing(Stream& stream);

/// Ends a capture that started in a stream that is being destroyed; other captures keep the nodes
/// of this stream.
void abandon_capture(Stream& stream) noexcept;

}  // namespace cucpu::driver
