// SPDX-License-Identifier: Apache-2.0
// graph_definition.cpp: graph definitions, with nodes as handles; the node classes are in Python.
#include "cucore/graph_drawing.hpp"
#include "graph_support.hpp"

namespace cucore::python {

static void bind_definition(nb::module_& m) {
  using D = GraphDefinition;
  nb::class_<D> cls(m, "_GraphDef", nb::is_weak_referenceable());
  cls.def_static("create", &D::create, nb::call_guard<WithoutGil>());
  cls.def("inside", [](const D& d, std::size_t node, std::size_t h) {
    return d.inside(reinterpret_cast<CUgraphNode>(node), reinterpret_cast<CUgraph>(h));
  });
  cls.def_prop_ro("generation", &D::generation);
  cls.def_prop_ro("handle", [](const D& d) { return number(d.handle()); });
  cls.def(
      "use",
      [](D& d, std::size_t node, nb::object things) {
        std::shared_ptr<void> owner =
            things.is_none() ? std::shared_ptr<void>{} : keep_alive(std::move(things));
        WithoutGil release;
        d.use(reinterpret_cast<CUgraphNode>(node), std::move(owner));
      },
      "node"_a, "things"_a.none());
  cls.def("keep_beside", [](D& d, std::size_t node, nb::object things) {
    d.keep_beside(keep_alive(std::move(things)), reinterpret_cast<CUgraphNode>(node));
  });
  cls.def("share", &D::share, nb::call_guard<WithoutGil>());
  cls.def(
      "add_empty", [](D& d, const Handles& after) { return number(d.add_empty(nodes_of(after))); },
      nb::call_guard<WithoutGil>());
  cls.def("add_kernel", [](D& d, const Handles& after, const PyLaunchConfig& config,
                           nb::handle kernel, nb::handle args) {
    return with_arguments(kernel, args, [&](const Kernel& k, void** pointers) {
      return number(d.add_kernel(nodes_of(after), config, k, pointers));
    });
  });
  cls.def(
      "add_memcpy",
      [](D& d, const Handles& after, const PyCopyEnd& dst, const PyCopyEnd& src, nb::handle size,
         std::optional<PyCopyExtent> into, std::optional<PyCopyExtent> out_of) {
        const CopyExtent extent =
            extent_between(copy_size(size), copy_extent(into), copy_extent(out_of));
        const WithoutGil release;
        return number(
            d.add_memcpy(nodes_of(after), copy_params(copy_end(dst), copy_end(src), extent)));
      },
      "after"_a, "dst"_a, "src"_a, "size"_a, "into"_a.none(), "out_of"_a.none());
  cls.def(
      "add_memset",
      [](D& d, const Handles& after, std::size_t dst, unsigned value, unsigned element_size,
         std::size_t width, std::size_t height, std::size_t pitch) {
        return number(d.add_memset(nodes_of(after),
                                   memset_of(dst, value, element_size, width, height, pitch)));
      },
      nb::call_guard<WithoutGil>());
  cls.def(
      "add_host",
      [](D& d, const Handles& after, nb::handle callable, std::size_t address, std::size_t data) {
        const HostNodeParams call = host_call(callable, address, data);
        WithoutGil release;
        return number(d.add_host(nodes_of(after), call.function, call.data));
      },
      "after"_a, "callable"_a.none(), "address"_a, "data"_a);
  cls.def(
      "add_child",
      [](D& d, const Handles& after, const D& child) {
        return number(d.add_child(nodes_of(after), child));
      },
      nb::call_guard<WithoutGil>());
  cls.def(
      "add_event_record",
      [](D& d, const Handles& after, const Event& event) {
        return number(d.add_event_record(nodes_of(after), EventRef{event.handle()}));
      },
      nb::call_guard<WithoutGil>());
  cls.def(
      "add_event_wait",
      [](D& d, const Handles& after, const Event& event) {
        return number(d.add_event_wait(nodes_of(after), EventRef{event.handle()}));
      },
      nb::call_guard<WithoutGil>());
  cls.def(
      "add_alloc",
      [](D& d, const Handles& after, std::size_t size, int type, int device,
         std::vector<int> peers) {
        return number(d.add_alloc(nodes_of(after), {size, static_cast<GraphMemoryType>(type),
                                                    device, std::move(peers)})
                          .first);
      },
      nb::call_guard<WithoutGil>());
  cls.def(
      "add_free",
      [](D& d, const Handles& after, std::size_t ptr) {
        return number(d.add_free(nodes_of(after), ptr));
      },
      nb::call_guard<WithoutGil>());
  cls.def(
      "create_condition",
      [](D& d, unsigned value, bool assign) {
        return static_cast<unsigned long long>(d.create_condition(value, assign));
      },
      nb::call_guard<WithoutGil>());
  cls.def(
      "add_conditional",
      [](D& d, const Handles& after, unsigned long long condition, int type, unsigned count) {
        std::vector<CUgraph> bodies;
        const CUgraphNode node =
            d.add_conditional(nodes_of(after), condition,
                              static_cast<CUgraphConditionalNodeType>(type), count, bodies);
        Handles handles;
        for (const CUgraph body : bodies) handles.push_back(number(body));
        return std::make_pair(number(node), handles);
      },
      nb::call_guard<WithoutGil>());
  cls.def(
      "set_child",
      [](D& d, std::size_t node, const D& child) {
        d.set_child(reinterpret_cast<CUgraphNode>(node), child);
      },
      nb::call_guard<WithoutGil>());
  cls.def(
      "remove", [](D& d, std::size_t node) { d.remove(reinterpret_cast<CUgraphNode>(node)); },
      nb::call_guard<WithoutGil>());
  cls.def("nodes", [](const D& d) { return handles_of(d.nodes()); });
  cls.def("edges", [](const D& d) {
    std::vector<std::pair<std::size_t, std::size_t>> list;
    for (const auto& [from, to] : d.edges()) list.emplace_back(number(from), number(to));
    return list;
  });
  cls.def(
      "add_edges",
      [](D& d, const Handles& from, const Handles& to) {
        d.add_edges(nodes_of(from), nodes_of(to));
      },
      nb::call_guard<WithoutGil>());
  cls.def(
      "remove_edges",
      [](D& d, const Handles& from, const Handles& to) {
        d.remove_edges(nodes_of(from), nodes_of(to));
      },
      nb::call_guard<WithoutGil>());
  cls.def(
      "instantiate",
      [](const D& d, nb::handle options) {
        Stream upload;
        return make_graph(d, complete_options(options, upload));
      },
      "options"_a.none());
  cls.def("debug_dot_print", &D::debug_dot_print, nb::call_guard<WithoutGil>());
  cls.def("dot", [](const D& d, unsigned flags) {
    std::string text;
    {
      const WithoutGil release;
      text = d.dot(flags);
    }
    return nb::steal(
        PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
  });
  cls.def("svg", [](const D& d) {
    return graph_svg(d, [](const HostNodeParams& call) -> std::string {
      const nb::object function = callable_of(call);
      if (function.is_none()) return {};
      const nb::object name = nb::getattr(function, "__name__", nb::none());
      return nb::isinstance<nb::str>(name) ? nb::cast<std::string>(name) : std::string{};
    });
  });
}
CUCORE_BIND(kBindGraph, bind_definition)

}  // namespace cucore::python
