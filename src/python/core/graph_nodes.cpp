// graph_nodes.cpp: the parameters of a graph's nodes, read and set by the driver's handle.
#include "graph_support.hpp"

namespace cucore::python {

static void bind_nodes(nb::module_& m) {
  const auto node = [](std::size_t h) { return reinterpret_cast<CUgraphNode>(h); };
  m.def("node_type", [=](std::size_t n) {
    CUgraphNodeType type{};
    CUCORE_CALL(cuGraphNodeGetType(node(n), &type));
    return static_cast<int>(type);
  });
  m.def("node_pred", [=](std::size_t n) {
    std::size_t count = 0;
    CUCORE_CALL(cuGraphNodeGetDependencies(node(n), nullptr, nullptr, &count));
    std::vector<CUgraphNode> list(count);
    std::vector<CUgraphEdgeData> data(count);
    if (count != 0)
      CUCORE_CALL(cuGraphNodeGetDependencies(node(n), list.data(), data.data(), &count));
    return handles_of(list);
  });
  m.def("node_succ", [=](std::size_t n) {
    std::size_t count = 0;
    CUCORE_CALL(cuGraphNodeGetDependentNodes(node(n), nullptr, nullptr, &count));
    std::vector<CUgraphNode> list(count);
    std::vector<CUgraphEdgeData> data(count);
    if (count != 0)
      CUCORE_CALL(cuGraphNodeGetDependentNodes(node(n), list.data(), data.data(), &count));
    return handles_of(list);
  });
  m.def("kernel_node_get", [=](std::size_t n) {
    CUDA_KERNEL_NODE_PARAMS p{};
    CUCORE_CALL(cuGraphKernelNodeGetParams(node(n), &p));
    const std::size_t kernel = p.kern != nullptr ? number(p.kern) : number(p.func);
    return nb::make_tuple(nb::make_tuple(p.gridDimX, p.gridDimY, p.gridDimZ),
                          nb::make_tuple(p.blockDimX, p.blockDimY, p.blockDimZ), p.sharedMemBytes,
                          kernel);
  });
  m.def("kernel_node_set",
        [=](std::size_t n, const PyLaunchConfig& config, nb::handle kernel, nb::handle args) {
          with_arguments(kernel, args, [&](const Kernel& k, void** pointers) {
            const CUDA_KERNEL_NODE_PARAMS params = kernel_node_params(config, k, pointers);
            CUCORE_CALL(cuGraphKernelNodeSetParams(node(n), &params));
            set_kernel_node_attributes(node(n), config);
          });
        });
  m.def("memcpy_node_get", [=](std::size_t n) {
    CUDA_MEMCPY3D p{};
    CUCORE_CALL(cuGraphMemcpyNodeGetParams(node(n), &p));
    const auto end = [](CopyEnd e) {
      return nb::make_tuple(static_cast<std::size_t>(e.ptr), number(e.array));
    };
    const CopyExtent extent = extent_of(p);
    return nb::make_tuple(end(destination_of(p)), end(source_of(p)),
                          nb::make_tuple(extent.width, extent.height, extent.depth));
  });
  m.def(
      "memcpy_node_set",
      [=](std::size_t n, std::optional<PyCopyEnd> dst, std::optional<PyCopyEnd> src,
          std::optional<PyCopyExtent> extent) {
        const CUDA_MEMCPY3D params = changed_copy(node(n), dst, src, extent);
        CUCORE_CALL_WITHOUT_GIL(cuGraphMemcpyNodeSetParams(node(n), &params));
      },
      "node"_a, "dst"_a.none(), "src"_a.none(), "extent"_a.none());
  m.def("memset_node_get", [=](std::size_t n) {
    CUDA_MEMSET_NODE_PARAMS p{};
    CUCORE_CALL(cuGraphMemsetNodeGetParams(node(n), &p));
    return nb::make_tuple(static_cast<std::size_t>(p.dst), p.value, p.elementSize, p.width,
                          p.height, p.pitch);
  });
  m.def("memset_node_set",
        [=](std::size_t n, std::size_t dst, unsigned value, unsigned element_size,
            std::size_t width, std::size_t height, std::size_t pitch) {
          const CUDA_MEMSET_NODE_PARAMS params =
              memset_params(memset_of(dst, value, element_size, width, height, pitch));
          CUCORE_CALL_WITHOUT_GIL(cuGraphMemsetNodeSetParams(node(n), &params));
        });
  m.def("host_node_get", [=](std::size_t n) -> nb::object {
    CUDA_HOST_NODE_PARAMS p{};
    CUCORE_CALL(cuGraphHostNodeGetParams(node(n), &p));
    if (p.fn == &call_python && !all_is_let_go())
      return nb::borrow(static_cast<PyObject*>(p.userData));
    return nb::none();
  });
  m.def(
      "host_node_set",
      [=](std::size_t n, nb::handle callable, std::size_t address, std::size_t data) {
        const HostCall call = host_call(callable, address, data);
        CUDA_HOST_NODE_PARAMS params{};
        params.fn = call.function;
        params.userData = call.data;
        CUCORE_CALL_WITHOUT_GIL(cuGraphHostNodeSetParams(node(n), &params));
      },
      "node"_a, "callable"_a.none(), "address"_a, "data"_a);
  m.def("child_node_graph", [=](std::size_t n) {
    CUgraph graph = nullptr;
    CUCORE_CALL(cuGraphChildGraphNodeGetGraph(node(n), &graph));
    return number(graph);
  });
  m.def("child_node_set", [=](std::size_t n, const GraphDefinition& home,
                              const GraphDefinition& child) {
    CUgraph embedded = nullptr;
    CUCORE_CALL(cuGraphChildGraphNodeGetGraph(node(n), &embedded));
    if (child.handle() == embedded || child.handle() == home.handle()) {
      constexpr CUresult kCode = CUDA_ERROR_INVALID_VALUE;
      throw CUDAError{kCode, result_name(kCode),
                      std::string{result_name(kCode)} +
                          ": update(): a node cannot be given the graph it runs or is part of, "
                          "which the driver would destroy while it reads it"};
    }
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_GRAPH;
    child.share();
    params.graph.graph = child.handle();
    CUCORE_CALL_WITHOUT_GIL(cuGraphNodeSetParams(node(n), &params));
  });
  m.def("event_node_get", [=](std::size_t n, bool record) {
    CUevent event = nullptr;
    if (record)
      CUCORE_CALL(cuGraphEventRecordNodeGetEvent(node(n), &event));
    else
      CUCORE_CALL(cuGraphEventWaitNodeGetEvent(node(n), &event));
    return wrap(Event::view(event, Context::current(), {}));
  });
  m.def("event_node_set", [=](std::size_t n, bool record, const Event& event) {
    if (record)
      CUCORE_CALL_WITHOUT_GIL(cuGraphEventRecordNodeSetEvent(node(n), event.handle()));
    else
      CUCORE_CALL_WITHOUT_GIL(cuGraphEventWaitNodeSetEvent(node(n), event.handle()));
  });
  m.def("alloc_node_get", [=](std::size_t n) {
    CUDA_MEM_ALLOC_NODE_PARAMS p{};
    CUCORE_CALL(cuGraphMemAllocNodeGetParams(node(n), &p));
    std::vector<int> peers;
    for (std::size_t i = 0; i < p.accessDescCount; ++i)
      peers.push_back(p.accessDescs[i].location.id);
    return nb::make_tuple(
        static_cast<std::size_t>(p.dptr), p.bytesize, static_cast<int>(p.poolProps.allocType),
        static_cast<int>(p.poolProps.location.type), p.poolProps.location.id, peers);
  });
  m.def("free_node_get", [=](std::size_t n) {
    CUdeviceptr ptr = 0;
    CUCORE_CALL(cuGraphMemFreeNodeGetParams(node(n), &ptr));
    return static_cast<std::size_t>(ptr);
  });
}
CUCORE_BIND(kBindGraph, bind_nodes)

}  // namespace cucore::python
