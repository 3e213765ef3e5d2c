// SPDX-License-Identifier: Apache-2.0
// graph_capture.cpp: turning what is queued on a stream into a graph.
#include "cucore/graph_builder.hpp"
#include "graph_support.hpp"

namespace cucore::python {

static void bind_capture(nb::module_& m) {
  const auto mode_of = [](int mode) { return static_cast<CUstreamCaptureMode>(mode); };
  // The graph that is being captured; `held` lives beside it.
  m.def("capture_begin", [=](const Stream& stream, int mode, nb::object held) {
    GraphDefinition definition = [&] {
      const WithoutGil release;
      return begin_capture(stream, mode_of(mode));
    }();
    definition.keep_beside(keep_alive(std::move(held)));
    return definition;
  });
  m.def("capture_begin_to", [=](const Stream& stream, std::size_t graph, int mode) {
    const WithoutGil release;
    begin_capture_to(stream, reinterpret_cast<CUgraph>(graph), mode_of(mode));
  });
  m.def("capture_end", [](const Stream& stream) {
    const WithoutGil release;
    return number(end_capture(stream));
  });
  m.def("capture_info", [](const Stream& stream) {
    const CaptureInfo info = capture_info(stream);
    return nb::make_tuple(static_cast<int>(info.status), static_cast<unsigned long long>(info.id),
                          number(info.graph), handles_of(info.after));
  });
  m.def("capture_continue_after", [](const Stream& stream, const Handles& nodes) {
    const std::vector<CUgraphNode> list = nodes_of(nodes);
    const WithoutGil release;
    continue_capture_after(stream, list);
  });
  m.def(
      "launch_host",
      [](const Stream& stream, nb::handle callable, std::size_t address, std::size_t data) {
        const HostNodeParams call = host_call(callable, address, data);
        const WithoutGil release;
        stream.call_host(call.function, call.data);
      },
      "stream"_a, "callable"_a.none(), "address"_a, "data"_a);
}
CUCORE_BIND(kBindGraph, bind_capture)

}  // namespace cucore::python
