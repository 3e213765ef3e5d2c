// cpu/graph/capture.hpp: recording and waiting for events inside a capture.
#pragma once

#include "cpu/device/event.hpp"
#include "cpu/graph/graph.hpp"

namespace cucpu::driver {

/// Both answer true when the stream is (or becomes) part of a capture and nothing is left to do.
bool capture_record(Stream& stream, Event& event, bool external);
bool capture_wait(Stream& stream, Event& event, bool external);

/// A node is destroyed: what is captured next does not follow it. With the graphs' lock held.
void forget_captured(const GraphNode& node) noexcept;
/// Whether a stream is being captured into it. With the graphs' lock held.
bool is_captured_into(const Graph& graph) noexcept;
/// A graph goes with the one it is part of: captures into it are invalid from now on, for a node
/// they added would belong to nobody. With the graphs' lock held.
void break_captures_into(const Graph& graph) noexcept;

/// A captured cuMemAllocAsync: an allocation node. 0 when the stream is not capturing.
CUdeviceptr capture_alloc(Stream& stream, std::size_t bytes, const CUmemPoolProps& pool);
/// A captured cuMemFreeAsync: a free node. False when the stream is not capturing.
bool capture_free(Stream& stream, CUdeviceptr address);

}  // namespace cucpu::driver
