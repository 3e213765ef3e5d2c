// SPDX-License-Identifier: Apache-2.0
// cpu/graph/capture.hpp: stream capture: its begin and end, and the calls that add nodes.
#pragma once

#include "cpu/device/event.hpp"
#include "cpu/graph/graph.hpp"

namespace cucpu::driver {

/// The program's callback for changed parameters in a recapture.
struct RecaptureCallback {
  CUgraphRecaptureCallback function = nullptr;
  void* data = nullptr;
};
/// Starts a capture into `graph`. With `recapture`, operations are matched with its nodes in their
/// order. `owns`: a failed capture destroys the graph.
void begin_capture(Stream& stream, CUstreamCaptureMode mode, Ref<Graph> graph,
                   std::vector<Edge> edges, bool owns,
                   const RecaptureCallback* recapture = nullptr);
void end_capture(Stream& stream, CUgraph* out);
/// Call with the graphs' lock held.
CUstreamCaptureStatus capture_status(Stream& stream);
/// cuStreamGetCaptureInfo: null results are skipped.
void capture_info(Stream& stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                  const CUgraphNode** dependencies, const CUgraphEdgeData** data,
                  std::size_t* count);
void update_capture_dependencies(Stream& stream, const CUgraphNode* dependencies,
                                 const CUgraphEdgeData* data, std::size_t count, unsigned flags);
/// Sets the calling thread's mode; returns the mode before.
CUstreamCaptureMode exchange_capture_mode(CUstreamCaptureMode mode) noexcept;

/// Both return true when the stream is (or becomes) part of a capture; nothing else is left to do.
bool capture_record(Stream& stream, Event& event, bool external);
bool capture_wait(Stream& stream, Event& event, bool external);

/// Removes a destroyed node from the edges of captures. Call with the graphs' lock held.
void remove_from_captures(const GraphNode& node) noexcept;
/// Whether a stream captures into the graph. Call with the graphs' lock held.
bool is_captured_into(const Graph& graph) noexcept;
/// Invalidates captures into a graph that is destroyed with its parent: their nodes would have no
/// owner. Call with the graphs' lock held.
void break_captures_into(const Graph& graph) noexcept;

/// Captures cuMemAllocAsync as an allocation node. 0 when the stream is not capturing.
CUdeviceptr capture_alloc(Stream& stream, std::size_t bytes, const CUmemPoolProps& pool);
/// Captures cuMemFreeAsync as a free node. False when the stream is not capturing.
bool capture_free(Stream& stream, CUdeviceptr address);

}  // namespace cucpu::driver
