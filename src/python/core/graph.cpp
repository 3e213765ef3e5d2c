// graph.cpp: graphs for cuda.core.graph: definitions by handle (the typed nodes are Python), and
// Graph itself.
#include "cucore/graph.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "arguments.hpp"
#include "py_buffer.hpp"
#include "support.hpp"

namespace cucore::python {
namespace {

/// A graph to launch. What its nodes use is kept here, not by the driver, which would take more
/// time for it at every launch than for the launch itself. Launches of one graph never overlap, so
/// that all of them are done when the last one is.
struct PyGraph {
  GraphOwners owners{};  // what it was made of; before `graph`, which fills it
  Graph graph;
  nb::object updates{};     // a dict, by node: what its last update named; null before the first
  Stream last{};            // where it was launched last
  bool is_exposed = false;  // somebody has the handle and may launch it elsewhere
  std::vector<std::pair<Event, nb::object>>
      retired{};  // replaced while a launch might still use it

  PyGraph(const GraphDefinition& made_from, const GraphCompleteOptions& options)
      : graph{options.device_launch ? made_from.instantiate(options)  // kernels launch it unseen
                                    : made_from.instantiate(options, owners)} {}
  PyGraph(PyGraph&&) = default;
  ~PyGraph() { close(); }

  /// What a node uses from the next launch on, or null.
  void keep(std::size_t node, nb::handle things) {
    std::erase_if(retired, [](const auto& pair) { return !is_pending(pair.first); });
    if (!updates.is_valid()) updates = nb::dict();
    nb::dict all = nb::borrow<nb::dict>(updates);
    nb::object key = nb::int_(node);
    if (all.contains(key)) retire(all[key]);
    all[key] = things;
  }
  /// The whole graph was given new parameters: nothing of the updates is used by launches to come.
  void forget_updates() {
    if (updates.is_valid()) retire(std::exchange(updates, nb::object{}));
  }
  void update(const GraphDefinition& source) {
    GraphOwners fresh;
    graph.update(source, fresh);
    GraphOwners old = std::exchange(owners, std::move(fresh));
    if (is_running()) keep_until_done(std::make_shared<GraphOwners>(std::move(old)));
    forget_updates();
  }
  void close() {
    if (graph.handle() == nullptr) return;
    forget_updates();
    for (auto& [event, things] : retired) {
      if (is_pending(event)) keep_until_done(keep_alive(std::move(things)));
    }
    retired.clear();
    GraphOwners old = std::move(owners);
    if (!old.empty() && is_running())
      keep_until_done(std::make_shared<GraphOwners>(std::move(old)));
    last = Stream{};
    // Destroying may wait for a callback that wants the GIL; at the interpreter's end there are
    // none, and what the graph kept can only go on this thread.
    std::optional<WithoutGil> release;
    if (Py_IsInitialized() != 0) release.emplace();
    graph.close();
  }

 private:
  static bool is_pending(const Event& event) noexcept {
    return driver().cuEventQuery(event.handle()) == CUDA_ERROR_NOT_READY;
  }
  void retire(nb::object things) noexcept {
    if (last.is_closed()) return;
    try {
      if (!last.is_capturing()) retired.emplace_back(last.record(), std::move(things));
    } catch (const CUDAError&) {
      // The context is lost, and with it the launch that could have used them.
    }
  }
  /// True while the last launch may still use what it was made of.
  bool is_running() const {
    if (is_exposed && !interpreter_is_ending()) {  // where it runs, if it does, nobody knows: wait for all
      WithoutGil release;
      (void)driver().cuCtxSynchronize();
    }
    if (last.is_closed()) return false;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    (void)driver().cuStreamIsCapturing(last.handle(), &status);
    if (status != CU_STREAM_CAPTURE_STATUS_NONE) return true;  // to ask would end that capture
    return driver().cuStreamQuery(last.handle()) == CUDA_ERROR_NOT_READY;
  }
  /// The driver lets go of things once the last launch is done.
  void keep_until_done(std::shared_ptr<void> things) const {
    auto* owner = new std::shared_ptr<void>{std::move(things)};
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    (void)driver().cuStreamIsCapturing(last.handle(), &status);
    if (status != CU_STREAM_CAPTURE_STATUS_NONE)
      return;  // rare, and not worth a node: kept for good
    const CUresult code = driver().cuLaunchHostFunc(last.handle(), &forget_owner, owner);
    if (code != CUDA_SUCCESS) forget_owner(owner);
  }
};

using Handles = std::vector<std::size_t>;

std::vector<CUgraphNode> nodes_of(const Handles& handles) {
  std::vector<CUgraphNode> nodes;
  nodes.reserve(handles.size());
  for (const std::size_t handle : handles) nodes.push_back(reinterpret_cast<CUgraphNode>(handle));
  return nodes;
}

Handles handles_of(const std::vector<CUgraphNode>& nodes) {
  Handles handles;
  handles.reserve(nodes.size());
  for (const CUgraphNode node : nodes) handles.push_back(reinterpret_cast<std::size_t>(node));
  return handles;
}

std::size_t number(const void* pointer) { return reinterpret_cast<std::size_t>(pointer); }

/// Runs a Python callable on the driver's thread. What it raises goes to sys.unraisablehook.
void CUDA_CB call_python(void* data) {
  const WithGil gil;
  if (!gil) return;
  PyObject* result = PyObject_CallNoArgs(static_cast<PyObject*>(data));
  if (result == nullptr) PyErr_WriteUnraisable(static_cast<PyObject*>(data));
  Py_XDECREF(result);
}

struct HostCall {
  CUhostFn function;
  void* data;
};
/// A Python callable (`address` is 0), or a C function and its data by address.
HostCall host_call(nb::handle callable, std::size_t address, std::size_t data) {
  if (address != 0) return {reinterpret_cast<CUhostFn>(address), reinterpret_cast<void*>(data)};
  return {&call_python, callable.ptr()};
}

/// Packs the arguments of a kernel for as long as `use` runs; the driver copies them.
template <class Use>
auto with_arguments(nb::handle kernel, nb::handle args, Use use) {
  const Kernel& k = nb::cast<const Kernel&>(kernel);
  nb::object tuple = nb::steal(PySequence_Tuple(args.ptr()));
  if (!tuple.is_valid()) throw nb::python_error();
  PackedArguments packed;
  packed.pack(k, reinterpret_cast<PyTupleObject*>(tuple.ptr())->ob_item,
              static_cast<std::size_t>(PyTuple_GET_SIZE(tuple.ptr())));
  return use(k, packed.pointers());
}

MemsetParams memset_of(std::size_t dst, unsigned value, unsigned element_size, std::size_t width,
                       std::size_t height, std::size_t pitch) {
  return {dst, pitch, value, element_size, width, height};
}

// The collector sees what updates named, so that a callback that holds its own graph can go.
int graph_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(nb::handle{self})) return 0;
  const PyGraph& graph = self_of<PyGraph>(self);
  Py_VISIT(graph.updates.ptr());
  for (const auto& [event, things] : graph.retired) Py_VISIT(things.ptr());
  return 0;
}
int graph_clear(PyObject* self) {
  PyGraph& graph = self_of<PyGraph>(self);
  graph.close();
  return 0;
}

PyObject* graph_launch(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  static const Names<1> names{"stream"};
  std::array<PyObject*, 1> given;
  parse("launch", names, 1, 1, args, nargs, kwnames, given);
  Stream storage;
  const Stream& stream = stream_argument(given[0], "launch", storage);
  PyGraph& held = self_of<PyGraph>(self);
  const Graph& graph = held.graph;
  if (graph.handle() == nullptr) throw InvalidStateError("the graph is closed");
  if (held.last.handle() != stream.handle() || held.last.is_closed()) held.last = stream;
  {
    const Graph held_graph = graph;  // another thread may close the objects meanwhile
    const Stream held_stream = stream;
    WithoutGil release;
    held_graph.launch(held_stream);
  }
  Py_RETURN_NONE;
}

PyObject* graph_upload(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  static const Names<1> names{"stream"};
  std::array<PyObject*, 1> given;
  parse("upload", names, 1, 1, args, nargs, kwnames, given);
  Stream storage;
  const Stream& stream = stream_argument(given[0], "upload", storage);
  self_of<PyGraph>(self).graph.upload(stream);
  Py_RETURN_NONE;
}

/// The GraphDefinition that a builder has built; what else can be given is Python's to sort out.
nb::object definition_of(PyObject* source) {
  if (is_graph_builder(source)) {
    static PyObject* const ended = PyUnicode_InternFromString("ended");
    if (builder_slot(source, BuilderSlot::phase).is(ended)) {
      nb::object built = builder_slot(source, BuilderSlot::definition);
      if (built.is_valid() && !built.is_none()) return built;
    }
    PyErr_Clear();
  }
  static constinit Member sort_out{"cuda.core.graph", "_definition_of"};
  return (*sort_out)(nb::handle{source});
}

PyObject* graph_update(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  static const Names<1> names{"source"};
  std::array<PyObject*, 1> given;
  parse("update", names, 1, 1, args, nargs, kwnames, given);
  static PyObject* const name = PyUnicode_InternFromString("_def");
  const nb::object definition = definition_of(given[0]);
  const nb::object native = nb::steal(PyObject_GetAttr(definition.ptr(), name));
  if (!native.is_valid()) throw nb::python_error();
  self_of<PyGraph>(self).update(nb::cast<const GraphDefinition&>(native));
  Py_RETURN_NONE;
}

CUgraphExec exec_of(const PyGraph& graph) {
  if (graph.graph.handle() == nullptr) throw InvalidStateError("the graph is closed");
  return graph.graph.handle();
}

void bind_definition(nb::module_& m) {
  using D = GraphDefinition;
  nb::class_<D> cls(m, "_GraphDef", nb::is_weak_referenceable());
  cls.def_static("create", &D::create);
  cls.def_static("view", [](std::size_t h, const D& parent) {
    return D::view(reinterpret_cast<CUgraph>(h), parent);
  });
  cls.def("own", [](D& d, std::size_t h) { d.own(reinterpret_cast<CUgraph>(h)); });
  cls.def_prop_ro("handle", [](const D& d) { return number(d.handle()); });
  cls.def("keep",
          [](D& d, nb::object things) { return number(d.keep(keep_alive(std::move(things)))); });
  cls.def("share", &D::share);
  cls.def("forget", [](D& d, std::size_t kept) { d.forget(reinterpret_cast<CUuserObject>(kept)); });
  cls.def("add_empty",
          [](D& d, const Handles& after) { return number(d.add_empty(nodes_of(after))); });
  cls.def("add_kernel", [](D& d, const Handles& after, const LaunchConfig& config,
                           nb::handle kernel, nb::handle args) {
    return with_arguments(kernel, args, [&](const Kernel& k, void** pointers) {
      return number(d.add_kernel(nodes_of(after), config, k, pointers));
    });
  });
  cls.def("add_memcpy",
          [](D& d, const Handles& after, std::size_t dst, std::size_t src, std::size_t size) {
            return number(d.add_memcpy(nodes_of(after), dst, src, size));
          });
  cls.def("add_memset",
          [](D& d, const Handles& after, std::size_t dst, unsigned value, unsigned element_size,
             std::size_t width, std::size_t height, std::size_t pitch) {
            return number(d.add_memset(nodes_of(after),
                                       memset_of(dst, value, element_size, width, height, pitch)));
          });
  cls.def(
      "add_host",
      [](D& d, const Handles& after, nb::handle callable, std::size_t address, std::size_t data) {
        const HostCall call = host_call(callable, address, data);
        return number(d.add_host(nodes_of(after), call.function, call.data));
      },
      "after"_a, "callable"_a.none(), "address"_a, "data"_a);
  cls.def("add_child", [](D& d, const Handles& after, const D& child) {
    return number(d.add_child(nodes_of(after), child));
  });
  cls.def("add_event_record", [](D& d, const Handles& after, const Event& event) {
    return number(d.add_event_record(nodes_of(after), EventRef{event.handle()}));
  });
  cls.def("add_event_wait", [](D& d, const Handles& after, const Event& event) {
    return number(d.add_event_wait(nodes_of(after), EventRef{event.handle()}));
  });
  cls.def("add_alloc", [](D& d, const Handles& after, std::size_t size, int type, int location_type,
                          int location_id, const std::vector<int>& peers) {
    CUDA_MEM_ALLOC_NODE_PARAMS params{};
    params.poolProps.allocType = static_cast<CUmemAllocationType>(type);
    params.poolProps.location = {static_cast<CUmemLocationType>(location_type), {location_id}};
    params.bytesize = size;
    std::vector<CUmemAccessDesc> access;
    for (const int peer : peers) {
      CUmemAccessDesc descriptor{};
      descriptor.location = {CU_MEM_LOCATION_TYPE_DEVICE, {peer}};
      descriptor.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      access.push_back(descriptor);
    }
    params.accessDescs = access.empty() ? nullptr : access.data();
    params.accessDescCount = access.size();
    const std::size_t node = number(d.add_alloc(nodes_of(after), params));
    return std::make_pair(node, static_cast<std::size_t>(params.dptr));
  });
  cls.def("add_free", [](D& d, const Handles& after, std::size_t ptr) {
    return number(d.add_free(nodes_of(after), ptr));
  });
  cls.def("create_condition", [](D& d, unsigned value, bool assign) {
    return static_cast<unsigned long long>(d.create_condition(value, assign));
  });
  cls.def("add_conditional", [](D& d, const Handles& after, unsigned long long condition, int type,
                                unsigned count) {
    std::vector<CUgraph> bodies;
    const CUgraphNode node = d.add_conditional(
        nodes_of(after), condition, static_cast<CUgraphConditionalNodeType>(type), count, bodies);
    Handles handles;
    for (const CUgraph body : bodies) handles.push_back(number(body));
    return std::make_pair(number(node), handles);
  });
  cls.def("remove", [](D& d, std::size_t node) { d.remove(reinterpret_cast<CUgraphNode>(node)); });
  cls.def("nodes", [](const D& d) { return handles_of(d.nodes()); });
  cls.def("edges", [](const D& d) {
    std::vector<std::pair<std::size_t, std::size_t>> list;
    for (const auto& [from, to] : d.edges()) list.emplace_back(number(from), number(to));
    return list;
  });
  cls.def("add_edges", [](D& d, const Handles& from, const Handles& to) {
    d.add_edges(nodes_of(from), nodes_of(to));
  });
  cls.def("remove_edges", [](D& d, const Handles& from, const Handles& to) {
    d.remove_edges(nodes_of(from), nodes_of(to));
  });
  cls.def(
      "instantiate",
      [](const D& d, bool auto_free, nb::handle upload, bool device_launch, bool priority) {
        GraphCompleteOptions options;
        options.auto_free_on_launch = auto_free;
        Stream storage;
        if (!upload.is_none()) {
          options.upload_stream = stream_argument(upload.ptr(), "complete", storage);
          options.upload = true;
        }
        options.device_launch = device_launch;
        options.use_node_priority = priority;
        static const nb::handle type = nb::type<PyGraph>();
        nb::object graph = nb::inst_alloc(type);
        new (nb::inst_ptr<PyGraph>(graph)) PyGraph{d, options};
        nb::inst_mark_ready(graph);
        return graph;
      },
      "auto_free"_a, "upload"_a.none(), "device_launch"_a, "priority"_a);
  cls.def("debug_dot_print", &D::debug_dot_print);
}

void bind_nodes(nb::module_& m) {
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
        [=](std::size_t n, const LaunchConfig& config, nb::handle kernel, nb::handle args) {
          with_arguments(kernel, args, [&](const Kernel& k, void** pointers) {
            const CUDA_KERNEL_NODE_PARAMS params = kernel_node_params(config, k, pointers);
            CUCORE_CALL(cuGraphKernelNodeSetParams(node(n), &params));
            set_kernel_node_attributes(node(n), config);
          });
        });
  m.def("memcpy_node_get", [=](std::size_t n) {
    CUDA_MEMCPY3D p{};
    CUCORE_CALL(cuGraphMemcpyNodeGetParams(node(n), &p));
    const std::size_t src = p.srcMemoryType == CU_MEMORYTYPE_HOST ? number(p.srcHost) : p.srcDevice;
    const std::size_t dst = p.dstMemoryType == CU_MEMORYTYPE_HOST ? number(p.dstHost) : p.dstDevice;
    return nb::make_tuple(
        dst, src, p.WidthInBytes * (p.Height != 0 ? p.Height : 1) * (p.Depth != 0 ? p.Depth : 1));
  });
  m.def("memcpy_node_set", [=](std::size_t n, std::size_t dst, std::size_t src, std::size_t size) {
    const CUDA_MEMCPY3D params = memcpy_params(dst, src, size);
    CUCORE_CALL(cuGraphMemcpyNodeSetParams(node(n), &params));
  });
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
          CUCORE_CALL(cuGraphMemsetNodeSetParams(node(n), &params));
        });
  m.def("host_node_get", [=](std::size_t n) -> nb::object {
    CUDA_HOST_NODE_PARAMS p{};
    CUCORE_CALL(cuGraphHostNodeGetParams(node(n), &p));
    if (p.fn == &call_python) return nb::borrow(static_cast<PyObject*>(p.userData));
    return nb::none();
  });
  m.def(
      "host_node_set",
      [=](std::size_t n, nb::handle callable, std::size_t address, std::size_t data) {
        const HostCall call = host_call(callable, address, data);
        CUDA_HOST_NODE_PARAMS params{};
        params.fn = call.function;
        params.userData = call.data;
        CUCORE_CALL(cuGraphHostNodeSetParams(node(n), &params));
      },
      "node"_a, "callable"_a.none(), "address"_a, "data"_a);
  m.def("child_node_graph", [=](std::size_t n) {
    CUgraph graph = nullptr;
    CUCORE_CALL(cuGraphChildGraphNodeGetGraph(node(n), &graph));
    return number(graph);
  });
  m.def("child_node_set", [=](std::size_t n, const GraphDefinition& child) {
    CUgraphNodeParams params{};
    params.type = CU_GRAPH_NODE_TYPE_GRAPH;
    child.share();
    params.graph.graph = child.handle();
    CUCORE_CALL(cuGraphNodeSetParams(node(n), &params));
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
      CUCORE_CALL(cuGraphEventRecordNodeSetEvent(node(n), event.handle()));
    else
      CUCORE_CALL(cuGraphEventWaitNodeSetEvent(node(n), event.handle()));
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

void bind_capture(nb::module_& m) {
  // The graph that is being captured; `held` lives beside it.
  m.def("capture_begin", [](const Stream& stream, int mode, nb::object held) {
    CUCORE_CALL(cuStreamBeginCapture(stream.handle(), static_cast<CUstreamCaptureMode>(mode)));
    CUstreamCaptureStatus status{};
    CUgraph graph = nullptr;
    CUCORE_CALL(cuStreamGetCaptureInfo(stream.handle(), &status, nullptr, &graph, nullptr, nullptr,
                                       nullptr));
    GraphDefinition definition = GraphDefinition::view(graph, GraphDefinition{});
    definition.keep_beside(keep_alive(std::move(held)));
    return definition;
  });
  m.def("capture_begin_to", [](const Stream& stream, std::size_t graph, int mode) {
    CUCORE_CALL(cuStreamBeginCaptureToGraph(stream.handle(), reinterpret_cast<CUgraph>(graph),
                                            nullptr, nullptr, 0,
                                            static_cast<CUstreamCaptureMode>(mode)));
  });
  m.def("capture_end", [](const Stream& stream) {
    CUgraph graph = nullptr;
    CUCORE_CALL(cuStreamEndCapture(stream.handle(), &graph));
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
    CUCORE_CALL(cuStreamUpdateCaptureDependencies(stream.handle(), list.data(), nullptr,
                                                  list.size(), CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  });
  m.def(
      "launch_host",
      [](const Stream& stream, nb::handle callable, std::size_t address, std::size_t data) {
        const HostCall call = host_call(callable, address, data);
        CUCORE_CALL(cuLaunchHostFunc(stream.handle(), call.function, call.data));
      },
      "stream"_a, "callable"_a.none(), "address"_a, "data"_a);
}

void bind_exec(nb::module_& m) {
  static PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&graph_traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(&graph_clear)},
                                {0, nullptr}};
  nb::class_<PyGraph> cls(
      m, "Graph", nb::is_weak_referenceable(), nb::type_slots(slots),
      "A graph ready to launch: made by GraphBuilder.complete() or "
      "GraphDefinition.instantiate().\n\n"
      "It keeps what its nodes use (buffers, kernels, callbacks), as long as it is open or a "
      "launch of it "
      "runs.\n\n"
      ">>> definition = GraphDefinition()\n"
      ">>> node = definition.memset(buffer, 7, buffer.size)\n"
      ">>> graph = definition.instantiate()\n"
      ">>> graph.launch(stream)\n"
      ">>> stream.sync()\n"
      ">>> graph[node].update(dst=buffer, value=8, width=buffer.size)  # for the launches to come\n"
      ">>> graph.close()");
  nb::setattr(cls, "__module__", nb::str("cuda.core.graph"));
  def_fast<graph_launch>(cls, "launch",
                         "launch($self, stream)\n--\n\nRun the whole graph, ordered on a stream.");
  def_fast<graph_upload>(
      cls, "upload",
      "upload($self, stream)\n--\n\nMake the device ready, so that the first launch is as fast as "
      "the others.");
  cls.def("close", &PyGraph::close, nb::lock_self(),
          "Give the graph up; does nothing the second time.");
  cls.def_prop_ro(
      "is_closed", [](const PyGraph& g) { return g.graph.handle() == nullptr; },
      "True after close().");
  cls.def_prop_ro(
      "handle",
      [](PyGraph& g) {
        g.is_exposed = true;
        return driver_object("CUgraphExec", number(g.graph.handle()));
      },
      "The driver's handle, for cuda.bindings.");
  def_fast<alone<graph_update>>(
      cls, "update",
      "update($self, source)\n--\n\nTake the parameters of a graph of the same shape over.");
  cls.def(
      "__getitem__",
      [](nb::handle self, nb::handle node) {
        static constinit Member executable_node{"cuda.core.graph", "_executable_node"};
        return (*executable_node)(self, node);
      },
      "node"_a);
  const auto node = [](std::size_t h) { return reinterpret_cast<CUgraphNode>(h); };
  cls.def("_set_kernel", [=](const PyGraph& g, std::size_t n, const LaunchConfig& config,
                             nb::handle kernel, nb::handle args) {
    with_arguments(kernel, args, [&](const Kernel& k, void** pointers) {
      const CUDA_KERNEL_NODE_PARAMS params = kernel_node_params(config, k, pointers);
      CUCORE_CALL(cuGraphExecKernelNodeSetParams(exec_of(g), node(n), &params));
    });
  });
  cls.def("_set_memcpy",
          [=](const PyGraph& g, std::size_t n, std::size_t dst, std::size_t src, std::size_t size) {
            const CUDA_MEMCPY3D params = memcpy_params(dst, src, size);
            CUcontext context = nullptr;
            CUCORE_CALL(cuCtxGetCurrent(&context));
            CUCORE_CALL(cuGraphExecMemcpyNodeSetParams(exec_of(g), node(n), &params, context));
          });
  cls.def("_set_memset",
          [=](const PyGraph& g, std::size_t n, std::size_t dst, unsigned value,
              unsigned element_size, std::size_t width, std::size_t height, std::size_t pitch) {
            const CUDA_MEMSET_NODE_PARAMS params =
                memset_params(memset_of(dst, value, element_size, width, height, pitch));
            CUcontext context = nullptr;
            CUCORE_CALL(cuCtxGetCurrent(&context));
            CUCORE_CALL(cuGraphExecMemsetNodeSetParams(exec_of(g), node(n), &params, context));
          });
  cls.def(
      "_set_host",
      [=](const PyGraph& g, std::size_t n, nb::handle callable, std::size_t address,
          std::size_t data) {
        const HostCall call = host_call(callable, address, data);
        CUDA_HOST_NODE_PARAMS params{};
        params.fn = call.function;
        params.userData = call.data;
        CUCORE_CALL(cuGraphExecHostNodeSetParams(exec_of(g), node(n), &params));
      },
      "node"_a, "callable"_a.none(), "address"_a, "data"_a);
  cls.def("_set_child", [=](const PyGraph& g, std::size_t n, const GraphDefinition& child) {
    child.share();
    CUCORE_CALL(cuGraphExecChildGraphNodeSetParams(exec_of(g), node(n), child.handle()));
  });
  cls.def("_set_event", [=](const PyGraph& g, std::size_t n, bool record, const Event& event) {
    if (record)
      CUCORE_CALL(cuGraphExecEventRecordNodeSetEvent(exec_of(g), node(n), event.handle()));
    else
      CUCORE_CALL(cuGraphExecEventWaitNodeSetEvent(exec_of(g), node(n), event.handle()));
  });
  cls.def("_set_enabled", [=](const PyGraph& g, std::size_t n, bool on) {
    CUCORE_CALL(cuGraphNodeSetEnabled(exec_of(g), node(n), on ? 1 : 0));
  });
  cls.def("_is_enabled", [=](const PyGraph& g, std::size_t n) {
    unsigned on = 0;
    CUCORE_CALL(cuGraphNodeGetEnabled(exec_of(g), node(n), &on));
    return on != 0;
  });
  cls.def("_keep", &PyGraph::keep, "node"_a, "things"_a.none(), nb::lock_self());
  cls.def(
      "__eq__",
      [](const PyGraph& a, nb::handle other) -> nb::object {
        if (!nb::isinstance<PyGraph>(other)) return nb::steal(Py_NewRef(Py_NotImplemented));
        return nb::bool_(a.graph.handle() == nb::cast<const PyGraph&>(other).graph.handle());
      },
      "other"_a.none());
  cls.def("__hash__", [](const PyGraph& g) { return std::hash<void*>{}(g.graph.handle()) ^ 0x47; });
  cls.def("__repr__", [](const PyGraph& g) {
    if (g.graph.handle() == nullptr) return std::string{"<Graph closed>"};
    char text[64];
    std::snprintf(text, sizeof text, "<Graph handle=%#zx>", number(g.graph.handle()));
    return std::string{text};
  });
}

}  // namespace

/// On a thread of the driver, where nothing can be dropped: the interpreter's main thread will.
static void drop_soon() {
  if (interpreter_is_ending()) return;
  Py_AddPendingCall(
      [](void*) {
        drop_forgotten();
        return 0;
      },
      nullptr);  // refused when many wait already, one of which will do it
}

void bind_graph(nb::module_& m) {
  on_forgotten(&drop_soon);
  bind_definition(m);
  bind_nodes(m);
  bind_capture(m);
  bind_exec(m);
}
CUCORE_BIND(kBindGraph, bind_graph)

}  // namespace cucore::python
