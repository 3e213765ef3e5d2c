// SPDX-License-Identifier: Apache-2.0
// graph_nodes.cpp: reads and sets the parameters of graph nodes, given their handles.
#include "cucore/graph_node.hpp"
#include "graph_support.hpp"

namespace cucore::python {

static void bind_nodes(nb::module_& m) {
  m.def("node_type", [](std::size_t n) { return static_cast<int>(node_of(n).type()); });
  m.def("node_pred", [](std::size_t n) { return handles_of(node_of(n).pred()); });
  m.def("node_succ", [](std::size_t n) { return handles_of(node_of(n).succ()); });
  m.def("kernel_node_get", [](std::size_t n) {
    const KernelNodeParams p = node_of(n).kernel();
    return nb::make_tuple(nb::make_tuple(p.grid.x, p.grid.y, p.grid.z),
                          nb::make_tuple(p.block.x, p.block.y, p.block.z), p.shmem_size,
                          number(p.kernel));
  });
  m.def("kernel_node_set", [](std::size_t n, const PyLaunchConfig& config, nb::handle kernel,
                              nb::handle args, bool are_old) {
    try {
      with_arguments(kernel, args, [&](const Kernel& k, void** pointers) {
        node_of(n).set_kernel(config, k, pointers);
      });
    } catch (nb::python_error& error) {
      if (!are_old || !error.matches(PyExc_TypeError)) throw;
      const std::string text =
          "update(): the node's arguments do not fit the new kernel: give args. " +
          nb::cast<std::string>(nb::str(error.value()));
      throw nb::value_error(text.c_str());
    }
  });
  m.def("memcpy_node_get", [](std::size_t n) {
    const CUDA_MEMCPY3D p = node_of(n).memcpy();
    const auto end = [](CopyEnd e) {
      return nb::make_tuple(static_cast<std::size_t>(e.ptr), number(e.array));
    };
    const CopyExtent extent = extent_of(p);
    return nb::make_tuple(end(destination_of(p)), end(source_of(p)),
                          nb::make_tuple(extent.width, extent.height, extent.depth));
  });
  m.def(
      "memcpy_node_set",
      [](std::size_t n, std::optional<PyCopyEnd> dst, std::optional<PyCopyEnd> src, nb::handle size,
         std::optional<PyCopyExtent> into, std::optional<PyCopyExtent> out_of) {
        const GraphNodeRef node = node_of(n);
        std::optional<std::size_t> bytes;
        if (!size.is_none()) bytes = copy_size(size);
        const auto extent =
            changed_extent(node.memcpy(), bytes, copy_extent(into), copy_extent(out_of));
        const WithoutGil release;
        node.set_memcpy(copy_end(dst), copy_end(src), extent);
      },
      "node"_a, "dst"_a.none(), "src"_a.none(), "size"_a.none(), "into"_a.none(),
      "out_of"_a.none());
  m.def(
      "copy_extent",
      [](nb::handle size, std::optional<PyCopyExtent> into, std::optional<PyCopyExtent> out_of) {
        const CopyExtent extent =
            extent_between(copy_size(size), copy_extent(into), copy_extent(out_of));
        return nb::make_tuple(extent.width, extent.height, extent.depth);
      },
      "size"_a, "into"_a.none(), "out_of"_a.none());
  m.def("node_text", [](std::size_t n) { return node_of(n).text(); });
  m.def("memset_node_get", [](std::size_t n) {
    const MemsetParams p = node_of(n).memset();
    return nb::make_tuple(static_cast<std::size_t>(p.dst), p.value, p.element_size, p.width,
                          p.height, p.pitch);
  });
  m.def("memset_node_set", [](std::size_t n, std::size_t dst, unsigned value, unsigned element_size,
                              std::size_t width, std::size_t height, std::size_t pitch) {
    const WithoutGil release;
    node_of(n).set_memset(memset_of(dst, value, element_size, width, height, pitch));
  });
  m.def("host_node_get", [](std::size_t n) { return callable_of(node_of(n).host()); });
  m.def(
      "host_node_set",
      [](std::size_t n, nb::handle callable, std::size_t address, std::size_t data) {
        const HostNodeParams call = host_call(callable, address, data);
        const WithoutGil release;
        node_of(n).set_host(call);
      },
      "node"_a, "callable"_a.none(), "address"_a, "data"_a);
  m.def("child_node_graph", [](std::size_t n) { return number(node_of(n).child_graph()); });
  m.def("event_node_get", [](std::size_t n) {
    return wrap(Event::view(node_of(n).event(), Context::current(), {}));
  });
  m.def("event_node_set", [](std::size_t n, const Event& event) {
    const WithoutGil release;
    node_of(n).set_event(event);
  });
  m.def("alloc_node_get", [](std::size_t n) {
    const CUDA_MEM_ALLOC_NODE_PARAMS native = node_of(n).allocation();
    const AllocParams p = alloc_params(native);
    return nb::make_tuple(static_cast<std::size_t>(native.dptr), p.size, static_cast<int>(p.type),
                          p.device, p.peers);
  });
  m.def("free_node_get",
        [](std::size_t n) { return static_cast<std::size_t>(node_of(n).freed()); });
}
CUCORE_BIND(kBindGraph, bind_nodes)

}  // namespace cucore::python
