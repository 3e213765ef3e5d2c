// SPDX-License-Identifier: Apache-2.0
// graph_builder.cpp: what cuda.core.graph.GraphBuilder holds: the library's builder.
#include "cucore/graph_builder.hpp"

#include <algorithm>
#include <mutex>

#include "graph_support.hpp"
#include "py_graph_builder.hpp"

namespace cucore::python {
namespace {

/// A builder belongs to one thread at a time; Python lets any thread call. Taken without the GIL.
/// Recursive: a builder may be destroyed while another ends its capture.
std::recursive_mutex& builders_lock() {
  static auto* const instance = new std::recursive_mutex;  // never destroyed: threads may be late
  return *instance;
}

/// Runs a method alone and without the GIL.
constexpr auto without_gil = [](auto method) {
  const WithoutGil release;
  const std::lock_guard lock{builders_lock()};
  return method();
};

nb::list as_list(std::vector<GraphBuilder> builders) {
  nb::list list;
  for (GraphBuilder& builder : builders) list.append(nb::cast(std::move(builder)));
  return list;
}

const char* phase(const GraphBuilder& builder) {
  return builder.is_closed()     ? "closed"
         : builder.is_building() ? "building"
         : builder.is_built()    ? "ended"
                                 : "new";
}

void bind_phases(nb::class_<GraphBuilder>& cls) {
  cls.def_prop_ro("phase", &phase);
  cls.def_prop_ro("is_building", &GraphBuilder::is_building);
  cls.def_prop_ro("is_closed", &GraphBuilder::is_closed);
  cls.def_prop_ro("is_join_required", &GraphBuilder::is_join_required);
  cls.def("stream", [](const GraphBuilder& b) { return wrap(Stream{b.stream()}); });
  cls.def("definition", &GraphBuilder::unfinished_definition);
  cls.def_prop_ro("is_primary", &GraphBuilder::is_primary);
  cls.def("captured", [](const GraphBuilder& b) {
    std::vector<std::size_t> nodes;
    for (const CUgraphNode node : b.captured()) nodes.push_back(number(node));
    return nodes;
  });
  cls.def("check_built", [](const GraphBuilder& b) { (void)b.built(); });
  cls.def("check_completed", [](const GraphBuilder& b) { (void)b.completed(); });
  // The list of what the graph keeps: a new one, which lives beside the graph; that of its parent,
  // which is given, for a body.
  cls.def("begin_building", [](GraphBuilder& b, int mode, nb::list held) -> nb::list {
    without_gil([&] { b.begin_building(static_cast<CUstreamCaptureMode>(mode)); });
    if (!b.is_primary()) return held;
    nb::list fresh;
    b.unfinished_definition().keep_beside(keep_alive(fresh));
    return fresh;
  });
  cls.def("end_building", [](GraphBuilder& b) { without_gil([&] { b.end_building(); }); });
  cls.def("close", [](GraphBuilder& b) { without_gil([&] { b.close(); }); });
}

void bind_nodes(nb::class_<GraphBuilder>& cls) {
  cls.def(
      "callback",
      [](GraphBuilder& b, nb::handle callable, std::size_t address, std::size_t data) {
        const HostNodeParams call = host_call(callable, address, data);
        return number(without_gil([&] { return b.callback(call.function, call.data); }));
      },
      "callable"_a.none(), "address"_a, "data"_a);
  cls.def("embed", [](GraphBuilder& b, const GraphDefinition& child) {
    const GraphDefinition held = child;  // another thread may drop the object
    without_gil([&] { b.embed(held); });
  });
  cls.def("split", [](GraphBuilder& b, int count) {
    return as_list(without_gil([&] { return b.split(count); }));
  });
  cls.def_static("join", [](nb::list builders) {
    std::vector<GraphBuilder*> list;
    for (nb::handle builder : builders) list.push_back(&nb::cast<GraphBuilder&>(builder));
    const GraphBuilder* root = without_gil([&] { return &GraphBuilder::join_all(list); });
    return std::find(list.begin(), list.end(), root) - list.begin();
  });
  cls.def(
      "create_condition",
      [](GraphBuilder& b, std::optional<unsigned> default_value) {
        return without_gil([&] { return b.create_condition(default_value).handle(); });
      },
      "default_value"_a.none());
  cls.def("if_then", [](GraphBuilder& b, CUgraphConditionalHandle condition) {
    return without_gil([&] { return b.if_then(GraphCondition{condition}); });
  });
  cls.def("if_else", [](GraphBuilder& b, CUgraphConditionalHandle condition) {
    auto [then, otherwise] = without_gil([&] { return b.if_else(GraphCondition{condition}); });
    return nb::make_tuple(std::move(then), std::move(otherwise));
  });
  cls.def("while_loop", [](GraphBuilder& b, CUgraphConditionalHandle condition) {
    return without_gil([&] { return b.while_loop(GraphCondition{condition}); });
  });
  cls.def("switch_case", [](GraphBuilder& b, CUgraphConditionalHandle condition, unsigned count) {
    return as_list(without_gil([&] { return b.switch_case(GraphCondition{condition}, count); }));
  });
}

}  // namespace

const GraphBuilder& native_builder(PyObject* object) {
  static const nb::handle type = nb::type<GraphBuilder>();
  const nb::object native = builder_slot(object, BuilderSlot::native);
  if (!native.is_valid()) throw nb::python_error();
  if (!native.type().is(type)) throw nb::type_error("the graph builder is not initialised");
  return *nb::inst_ptr<GraphBuilder>(native);
}

void bind_graph_builder(nb::module_& m) {
  nb::class_<GraphBuilder> cls(m, "_GraphBuilder");
  cls.def(nb::init<const Stream&>());
  bind_phases(cls);
  bind_nodes(cls);
}
CUCORE_BIND(kBindGraph, bind_graph_builder)

}  // namespace cucore::python
