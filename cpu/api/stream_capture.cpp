// SPDX-License-Identifier: Apache-2.0
// cuStream*Capture*, cuThreadExchangeStreamCaptureMode.
#include "cpu/device/guard.hpp"
#include "cpu/graph/capture.hpp"

using namespace cucpu::driver;

extern "C" {

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  return guarded([&] { begin_capture(*stream_of(handle), mode, make_object<Graph>(), {}, true); });
}

CUresult cuStreamBeginCaptureToGraph(CUstream handle, CUgraph graph,
                                     const CUgraphNode* dependencies, const CUgraphEdgeData* data,
                                     size_t count, CUstreamCaptureMode mode) {
  return guarded([&] {
    const Ref<Stream> stream = stream_of(handle);
    require(stream->role() != StreamRole::legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    require(dependencies || count == 0);
    Graph& g = graph_of(graph);
    std::vector<Edge> edges;
    for (std::size_t i = 0; i < count; ++i) {
      GraphNode& node = node_of(dependencies[i]);
      require(&node.graph == &g);
      edges.push_back({&node, data ? data[i] : CUgraphEdgeData{}});
    }
    begin_capture(*stream, mode, Ref<Graph>{&g}, std::move(edges), false);
  });
}

CUresult cuStreamBeginRecaptureToGraph(CUstream handle, CUstreamCaptureMode mode, CUgraph graph,
                                       CUgraphRecaptureCallback callback, void* data) {
  return guarded([&] {
    const Ref<Stream> stream = stream_of(handle);
    const RecaptureCallback recapture{callback, data};
    begin_capture(*stream, mode, Ref<Graph>{&graph_of(graph)}, {}, false, &recapture);
  });
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* out) {
  return guarded([&] { end_capture(*stream_of(handle), out); });
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* out) {
  return guarded([&] {
    require(out != nullptr);
    const Ref<Stream> stream = stream_of(handle);
    const std::lock_guard lock{graph_mutex()};
    *out = capture_status(*stream);
  });
}

CUresult cuStreamGetCaptureInfo(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                CUgraph* graph, const CUgraphNode** dependencies,
                                const CUgraphEdgeData** data, size_t* count) {
  return guarded([&] {
    require(status != nullptr);
    const Ref<Stream> stream = stream_of(handle);
    capture_info(*stream, status, id, graph, dependencies, data, count);
  });
}

CUresult cuStreamUpdateCaptureDependencies(CUstream handle, CUgraphNode* dependencies,
                                           const CUgraphEdgeData* data, size_t count,
                                           unsigned int flags) {
  return guarded(
      [&] { update_capture_dependencies(*stream_of(handle), dependencies, data, count, flags); });
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return guarded([&] {
    require(mode && *mode >= CU_STREAM_CAPTURE_MODE_GLOBAL &&
            *mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
    *mode = exchange_capture_mode(*mode);
  });
}

}  // extern "C"
