// SPDX-License-Identifier: Apache-2.0
// graph_builder.cpp: the C++ builder of cuda.core.graph.GraphBuilder.
#include "cucore/graph_builder.hpp"

#include <algorithm>
#include <mutex>
#include <optional>

#include "graph_support.hpp"
#include "py_graph_builder.hpp"
#include "values.hpp"

namespace cucore::python {
namespace {

/// Serializes calls of builders, which are not thread-safe; Python may call from any thread. Locked
/// without the GIL. Recursive, because a builder may be destroyed while another ends its capture.
std::recursive_mutex& builders_lock() {
  static auto* const instance = new std::recursive_mutex;  // never destroyed: used during exit
  return *instance;
}

/// Runs a method under the lock and without the GIL.
constexpr auto without_gil = [](auto method) {
  const WithoutGil release;
  const std::lock_guard lock{builders_lock()};
  return method();
};

nb::list as_list(std::vector<GraphBuilder> builders) {
  nb::list list;
  for (GraphBuilder& builder : builders) list.append(wrap(PyGraphBuilder{std::move(builder)}));
  return list;
}

const char* phase(const GraphBuilder& builder) {
  return builder.is_closed()     ? "closed"
         : builder.is_building() ? "building"
         : builder.is_built()    ? "ended"
                                 : "new";
}

void bind_phases(nb::class_<PyGraphBuilder>& cls) {
  cls.def_prop_ro("phase", [](const PyGraphBuilder& b) { return phase(b); });
  def_value(
      cls, "is_building", [](const PyGraphBuilder& b) { return b.is_building(); }, nullptr);
  def_value(
      cls, "is_closed", [](const PyGraphBuilder& b) { return b.is_closed(); }, nullptr);
  def_value(
      cls, "is_join_required", [](const PyGraphBuilder& b) { return b.is_join_required(); },
      nullptr);
  cls.def("stream", [](const PyGraphBuilder& b) { return wrap(Stream{b.stream()}); });
  cls.def("definition", [](const PyGraphBuilder& b) { return b.unfinished_definition(); });
  def_value(
      cls, "is_primary", [](const PyGraphBuilder& b) { return b.is_primary(); }, nullptr);
  cls.def("captured", [](const PyGraphBuilder& b) {
    std::vector<std::size_t> nodes;
    for (const CUgraphNode node : b.captured()) nodes.push_back(number(node));
    return nodes;
  });
  cls.def("check_built", [](const PyGraphBuilder& b) { (void)b.built(); });
  cls.def(
      "complete",
      [](const PyGraphBuilder& b, nb::handle options) {
        Stream upload;
        return make_graph(b.completed(), complete_options(options, upload));
      },
      "options"_a.none());
  // Returns the list of objects that the graph keeps alive: a new one with the lifetime of the
  // graph; for a body, the given list of its parent.
  cls.def("begin_building", [](PyGraphBuilder& b, int mode, nb::list held) -> nb::list {
    without_gil([&] { b.begin_building(static_cast<CUstreamCaptureMode>(mode)); });
    if (!b.is_primary()) return held;
    nb::list fresh;
    b.unfinished_definition().keep_beside(keep_alive(fresh));
    return fresh;
  });
  cls.def("end_building", [](PyGraphBuilder& b) { without_gil([&] { b.end_building(); }); });
  cls.def("close", [](PyGraphBuilder& b) { without_gil([&] { b.close(); }); });
}

void bind_nodes(nb::class_<PyGraphBuilder>& cls) {
  cls.def(
      "callback",
      [](PyGraphBuilder& b, nb::handle callable, std::size_t address, std::size_t data) {
        const HostNodeParams call = host_call(callable, address, data);
        return number(without_gil([&] { return b.callback(call.function, call.data); }));
      },
      "callable"_a.none(), "address"_a, "data"_a);
  cls.def("embed", [](PyGraphBuilder& b, const GraphDefinition& child) {
    const GraphDefinition held = child;  // another thread may release the object
    without_gil([&] { b.embed(held); });
  });
  cls.def("split", [](PyGraphBuilder& b, int count) {
    return as_list(without_gil([&] { return b.split(count); }));
  });
  cls.def_static("join", [](nb::list builders) {
    std::vector<GraphBuilder*> list;
    for (nb::handle builder : builders) list.push_back(&nb::cast<PyGraphBuilder&>(builder));
    const GraphBuilder* root = without_gil([&] { return &GraphBuilder::join_all(list); });
    return std::find(list.begin(), list.end(), root) - list.begin();
  });
  cls.def(
      "create_condition",
      [](PyGraphBuilder& b, std::optional<unsigned> default_value) {
        return without_gil([&] { return b.create_condition(default_value).handle(); });
      },
      "default_value"_a.none());
  cls.def("if_then", [](PyGraphBuilder& b, CUgraphConditionalHandle condition) {
    return PyGraphBuilder{without_gil([&] { return b.if_then(GraphCondition{condition}); })};
  });
  cls.def("if_else", [](PyGraphBuilder& b, CUgraphConditionalHandle condition) {
    auto [then, otherwise] = without_gil([&] { return b.if_else(GraphCondition{condition}); });
    return nb::make_tuple(PyGraphBuilder{std::move(then)}, PyGraphBuilder{std::move(otherwise)});
  });
  cls.def("while_loop", [](PyGraphBuilder& b, CUgraphConditionalHandle condition) {
    return PyGraphBuilder{without_gil([&] { return b.while_loop(GraphCondition{condition}); })};
  });
  cls.def("switch_case", [](PyGraphBuilder& b, CUgraphConditionalHandle condition, unsigned count) {
    return as_list(without_gil([&] { return b.switch_case(GraphCondition{condition}, count); }));
  });
}

}  // namespace

PyGraphBuilder::~PyGraphBuilder() {
  if (!is_building()) return;
  std::optional<WithoutGil> release;
  if (!interpreter_is_ending()) release.emplace();
  const std::lock_guard lock{builders_lock()};
  close();
}

nb::object make_graph_builder(nb::object stream) {
  static constinit Member builder{"cuda.core.graph", "GraphBuilder"};
  static PyObject* const make = PyUnicode_InternFromString("_make");
  const nb::object native = wrap(PyGraphBuilder{GraphBuilder{self_of<Stream>(stream.ptr())}});
  const nb::list held;
  PyObject* const arguments[] = {(*builder).ptr(), native.ptr(), stream.ptr(), held.ptr(), Py_None};
  nb::object made = nb::steal(PyObject_VectorcallMethod(make, arguments, 5, nullptr));
  if (!made.is_valid()) throw nb::python_error();
  return made;
}

const GraphBuilder& native_builder(PyObject* object) {
  static const nb::handle type = nb::type<PyGraphBuilder>();
  const nb::object native = builder_slot(object, BuilderSlot::native);
  if (!native.is_valid()) throw nb::python_error();
  if (!native.type().is(type)) throw nb::type_error("the graph builder is not initialised");
  return *nb::inst_ptr<PyGraphBuilder>(native);
}

void bind_graph_builder(nb::module_& m) {
  nb::class_<PyGraphBuilder> cls(m, "_GraphBuilder");
  bind_phases(cls);
  bind_nodes(cls);
}
CUCORE_BIND(kBindGraph, bind_graph_builder)

}  // namespace cucore::python
