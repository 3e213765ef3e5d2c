// cpu/graph/capture.hpp: stream capture: its begin and end, and the calls that add nodes.
#pragma once

#include "cpu/device/event.hpp"
#include "cpu/graph/graph.hpp"

namespace cucpu::driver {

/// The program's function that hears of changed parameters in a recapture.
struct RecaptureCallback {
  CUgraphRecaptureCallback function = nullptr;
  void* data = nullptr;
};
/// Starts a capture into `graph`, whose nodes are met again in their order where `recapture` is
/// given. `owns`: a capture that fails destroys the graph.
void begin_capture(Stream& stream, CUstreamCaptureMode mode, Ref<Graph> graph,
                   std::vector<Edge> edges, bool owns,
                   const RecaptureCallback* recapture = nullptr);
void end_capture(Stream& stream, CUgraph* out);
/// With the graphs' lock held.
CUstreamCaptureStatus capture_status(Stream& stream);
/// cuStreamGetCaptureInfo: null results are skipped.
void capture_info(Stream& stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                  const CUgraphNode** dependencies, const CUgraphEdgeData** data,
                  std::size_t* count);
void update_capture_dependencies(Stream& stream, const CUgraphNode* dependencies,
                                 const CUgraphEdgeData* data, std::size_t count, unsigned flags);
/// Sets the calling thread's mode; returns the mode before.
CUstreamCaptureMode exchange_capture_mode(CUstreamCaptureMode mode) noexcept;

/// Both answer true when the stream is (or becomes) part of a capture and nothing is left to do.
bool capture_record(Stream& stream, Event& event, bool external);
bool capture_wait(Stream& stream, Event& event, bool external);

/// A node is destroyed: what is captured next does not follow it. With the graphs' lock held.
void remove_from_captures(const GraphNode& node) noexcept;
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
