// graph_capture.cpp: turning what is queued on a stream into a graph.
#include "core/captured_free.hpp"
#include "graph_support.hpp"

namespace cucore::python {

static void bind_capture(nb::module_& m) {
  // The graph that is being captured; `held` lives beside it.
  m.def("capture_begin", [](const Stream& stream, int mode, nb::object held) {
    CUCORE_CALL_WITHOUT_GIL(
        cuStreamBeginCapture(stream.handle(), static_cast<CUstreamCaptureMode>(mode)));
    CUstreamCaptureStatus status{};
    CUgraph graph = nullptr;
    CUCORE_CALL(cuStreamGetCaptureInfo(stream.handle(), &status, nullptr, &graph, nullptr, nullptr,
                                       nullptr));
    GraphDefinition definition = GraphDefinition::view(graph, GraphDefinition{});
    definition.keep_beside(keep_alive(std::move(held)));
    return definition;
  });
  m.def("capture_begin_to", [](const Stream& stream, std::size_t graph, int mode) {
    CUCORE_CALL_WITHOUT_GIL(
        cuStreamBeginCaptureToGraph(stream.handle(), reinterpret_cast<CUgraph>(graph), nullptr,
                                    nullptr, 0, static_cast<CUstreamCaptureMode>(mode)));
  });
  m.def("capture_end", [](const Stream& stream) {
    CUgraph graph = nullptr;
    CUresult ended{};
    {
      const WithoutGil unlocked;
      ended = driver().cuStreamEndCapture(stream.handle(), &graph);
      detail::free_after_captures();
    }
    check(ended, "cuStreamEndCapture");
    return number(graph);
  });
  m.def("capture_info", [](const Stream& stream) {
    CUstreamCaptureStatus status{};
    cuuint64_t id = 0;
    CUgraph graph = nullptr;
    const CUgraphNode* nodes = nullptr;
    const CUgraphEdgeData* data = nullptr;
    std::size_t count = 0;
    CUCORE_CALL(
        cuStreamGetCaptureInfo(stream.handle(), &status, &id, &graph, &nodes, &data, &count));
    return nb::make_tuple(static_cast<int>(status), static_cast<unsigned long long>(id),
                          number(graph),
                          handles_of(std::vector<CUgraphNode>(nodes, nodes + count)));
  });
  m.def("capture_continue_after", [](const Stream& stream, const Handles& nodes) {
    std::vector<CUgraphNode> list = nodes_of(nodes);
    CUCORE_CALL_WITHOUT_GIL(cuStreamUpdateCaptureDependencies(
        stream.handle(), list.data(), nullptr, list.size(), CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  });
  m.def(
      "launch_host",
      [](const Stream& stream, nb::handle callable, std::size_t address, std::size_t data) {
        const HostCall call = host_call(callable, address, data);
        CUCORE_CALL_WITHOUT_GIL(cuLaunchHostFunc(stream.handle(), call.function, call.data));
      },
      "stream"_a, "callable"_a.none(), "address"_a, "data"_a);
}
CUCORE_BIND(kBindGraph, bind_capture)

}  // namespace cucore::python
