// SPDX-License-Identifier: Apache-2.0
// graph.cpp: graphs, which are defined once and launched many times.
#include "cucore/graph.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <system_error>

#include "core/blocking_calls.hpp"
#include "core/captured_free.hpp"
#include "core/relaxed_capture.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"
#include "cucore/location.hpp"

namespace cucore {

void detail::DestroyGraph::operator()(CUgraph graph) const noexcept {
  if (!driver_is_loaded()) return;
  {
    const Waiting waiting{host_calls_are_pending()};
    const RelaxedCaptureScope relaxed;
    driver().cuGraphDestroy(graph);
  }
  release_deferred_owners();
}

void detail::DestroyGraph::operator()(CUgraphExec graph) const noexcept {
  if (graph == nullptr || !driver_is_loaded()) return;
  {
    const Waiting waiting{host_calls_are_pending()};
    const RelaxedCaptureScope relaxed;
    driver().cuGraphExecDestroy(graph);
  }
  release_deferred_owners();
}

GraphDefinition GraphDefinition::create() {
  CUgraph handle = nullptr;
  CUCORE_CALL(cuGraphCreate(&handle, 0));
  return adopt(handle);
}

GraphDefinition GraphDefinition::adopt(CUgraph handle) {
  Owned<CUgraph, detail::DestroyGraph> graph{handle};
  auto box = std::make_shared<detail::GraphBox>();
  box->part->handle = handle;
  box->graph = std::move(graph);
  return GraphDefinition{std::move(box)};
}

GraphDefinition GraphDefinition::view(CUgraph handle, const GraphDefinition& parent) {
  auto box = std::make_shared<detail::GraphBox>();
  box->part->handle = handle;
  box->parent = parent.box_;
  return GraphDefinition{std::move(box)};
}

Graph Graph::adopt(CUgraphExec handle) {
  return Graph{detail::OwnedGraphExec{handle, detail::DestroyGraph{}}};
}

void GraphDefinition::own(CUgraph handle) noexcept {
  box_->part->handle = handle;
  box_->graph.reset(handle);
  if (handle != nullptr) return;
  ++box_->part->generation;
  for (const auto& [node, parts] : box_->inside) {
    for (const auto& part : parts) {
      part->handle = nullptr;
      ++part->generation;
    }
  }
  box_->inside.clear();
  box_->conditional_types.clear();
  box_->uses.clear();
  box_->kept.clear();
  box_->beside.clear();
}

static CUcontext current_context() {
  CUcontext context = nullptr;
  CUCORE_CALL(cuCtxGetCurrent(&context));
  if (context == nullptr)
    throw InvalidStateError("no device is current: call Device(...).set_current() first");
  return context;
}

// ---- nodes

CUgraphNode GraphDefinition::add_empty(Nodes after) {
  CUgraphNode node = nullptr;
  CUCORE_CALL(cuGraphAddEmptyNode(&node, handle(), after.data(), after.size()));
  return node;
}

CUDA_KERNEL_NODE_PARAMS kernel_node_params(const LaunchConfig& config, const Kernel& kernel,
                                           void** arguments) {
  std::array<CUlaunchAttribute, 4> attributes;
  const CUlaunchConfig native = to_driver(config, nullptr, attributes);
  CUDA_KERNEL_NODE_PARAMS params{};
  params.kern = kernel.handle();
  params.ctx = current_context();
  params.gridDimX = native.gridDimX;
  params.gridDimY = native.gridDimY;
  params.gridDimZ = native.gridDimZ;
  params.blockDimX = native.blockDimX;
  params.blockDimY = native.blockDimY;
  params.blockDimZ = native.blockDimZ;
  params.sharedMemBytes = native.sharedMemBytes;
  params.kernelParams = arguments;
  return params;
}

void set_kernel_node_attributes(CUgraphNode node, const LaunchConfig& config) {
  std::array<CUlaunchAttribute, 4> attributes;
  const CUlaunchConfig native = to_driver(config, nullptr, attributes);
  for (unsigned i = 0; i < native.numAttrs; ++i) {
    if (attributes[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      continue;  // edges express this in a graph
    CUCORE_CALL(cuGraphKernelNodeSetAttribute(node, attributes[i].id, &attributes[i].value));
  }
}

CUgraphNode GraphDefinition::add_kernel(Nodes after, const LaunchConfig& config,
                                        const Kernel& kernel, void** arguments) {
  const CUDA_KERNEL_NODE_PARAMS params = kernel_node_params(config, kernel, arguments);
  CUgraphNode node = nullptr;
  CUCORE_CALL(cuGraphAddKernelNode(&node, handle(), after.data(), after.size(), &params));
  set_kernel_node_attributes(node, config);
  return node;
}

CUgraphNode GraphDefinition::add_memcpy(Nodes after, const CUDA_MEMCPY3D& copy) {
  CUgraphNode node = nullptr;
  CUCORE_CALL(
      cuGraphAddMemcpyNode(&node, handle(), after.data(), after.size(), &copy, current_context()));
  return node;
}

CUgraphNode GraphDefinition::add_memcpy(Nodes after, CUdeviceptr dst, CUdeviceptr src,
                                        std::size_t size) {
  return add_memcpy(after, copy_params({dst}, {src}, {size}));
}

CUDA_MEMSET_NODE_PARAMS memset_params(const MemsetParams& p) {
  CUDA_MEMSET_NODE_PARAMS params{};
  params.dst = p.dst;
  params.pitch = p.pitch;
  params.value = p.value;
  params.elementSize = p.element_size;
  params.width = p.width;
  params.height = p.height;
  return params;
}

void MemsetParams::set_pattern(std::span<const std::byte> bytes) {
  if (bytes.size() != 1 && bytes.size() != 2 && bytes.size() != 4)
    throw std::invalid_argument{"a pattern has 1, 2 or 4 bytes, not " +
                                std::to_string(bytes.size())};
  value = 0;
  element_size = static_cast<unsigned>(bytes.size());
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | std::to_integer<unsigned>(bytes[i]);
}

CUgraphNode GraphDefinition::add_memset(Nodes after, const MemsetParams& p) {
  const CUDA_MEMSET_NODE_PARAMS params = memset_params(p);
  CUgraphNode node = nullptr;
  CUCORE_CALL(cuGraphAddMemsetNode(&node, handle(), after.data(), after.size(), &params,
                                   current_context()));
  return node;
}

CUgraphNode GraphDefinition::add_host(Nodes after, CUhostFn function, void* data) {
  CUDA_HOST_NODE_PARAMS params{};
  params.fn = function;
  params.userData = data;
  CUgraphNode node = nullptr;
  CUCORE_CALL(cuGraphAddHostNode(&node, handle(), after.data(), after.size(), &params));
  return node;
}

/// Throws if a driver cannot embed `graph` as a child graph. The driver itself would return an
/// unspecific error code, or none.
static void check_embeddable(const GraphDefinition& graph) {
  for (const CUgraphNode node : graph.nodes()) {
    CUgraphNodeType type{};
    CUCORE_CALL(cuGraphNodeGetType(node, &type));
    if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
      throw std::invalid_argument{
          "a graph that allocates or frees memory cannot be embedded in another: allocate the "
          "buffer outside of it"};
    }
    if (type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
      throw std::invalid_argument{
          "a graph with conditional nodes cannot be embedded in another: add the conditional node "
          "to the outer graph itself"};
    }
    if (type == CU_GRAPH_NODE_TYPE_GRAPH) {
      CUgraph inner = nullptr;
      CUCORE_CALL(cuGraphChildGraphNodeGetGraph(node, &inner));
      check_embeddable(GraphDefinition::view(inner, graph));
    }
  }
}

CUgraphNode GraphDefinition::add_child(Nodes after, const GraphDefinition& child) {
  if (!is_valid() || !child.is_valid()) throw InvalidStateError("there is no graph");
  if (child.handle() == handle()) throw std::invalid_argument{"a graph cannot be a part of itself"};
  check_embeddable(child);
  child.share();  // the node holds a clone, which outlives the child
  CUgraphNode node = nullptr;
  CUCORE_CALL(
      cuGraphAddChildGraphNode(&node, handle(), after.data(), after.size(), child.handle()));
  copy_uses(node, child);
  return node;
}

CUgraphNode GraphDefinition::add_event_record(Nodes after, EventRef event) {
  CUgraphNode node = nullptr;
  CUCORE_CALL(
      cuGraphAddEventRecordNode(&node, handle(), after.data(), after.size(), event.handle()));
  return node;
}

CUgraphNode GraphDefinition::add_event_wait(Nodes after, EventRef event) {
  CUgraphNode node = nullptr;
  CUCORE_CALL(cuGraphAddEventWaitNode(&node, handle(), after.data(), after.size(), event.handle()));
  return node;
}

std::pair<CUgraphNode, CUdeviceptr> GraphDefinition::add_alloc(Nodes after,
                                                               const AllocParams& params) {
  const bool is_host = params.type == GraphMemoryType::host;
  CUDA_MEM_ALLOC_NODE_PARAMS native{};
  native.poolProps.allocType = params.type == GraphMemoryType::managed
                                   ? CU_MEM_ALLOCATION_TYPE_MANAGED
                                   : CU_MEM_ALLOCATION_TYPE_PINNED;
  native.poolProps.location =
      is_host ? Location::host().raw() : Location::device(params.device).raw();
  native.bytesize = params.size;
  std::vector<CUmemAccessDesc> access;
  for (const int peer : std::set<int>{params.peers.begin(), params.peers.end()})
    if (peer != params.device)
      access.push_back({Location::device(peer).raw(), CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  native.accessDescs = access.empty() ? nullptr : access.data();
  native.accessDescCount = access.size();
  const CUgraphNode node = add_alloc(after, native);
  return {node, native.dptr};
}

AllocParams alloc_params(const CUDA_MEM_ALLOC_NODE_PARAMS& params) {
  AllocParams out;
  out.size = params.bytesize;
  out.device = params.poolProps.location.id;
  if (params.poolProps.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED)
    out.type = GraphMemoryType::managed;
  else if (params.poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    out.type = GraphMemoryType::host;
  for (std::size_t i = 0; i < params.accessDescCount; ++i)
    out.peers.push_back(params.accessDescs[i].location.id);
  return out;
}

CUgraphNode GraphDefinition::add_alloc(Nodes after, CUDA_MEM_ALLOC_NODE_PARAMS& params) {
  CUgraphNode node = nullptr;
  CUCORE_CALL(cuGraphAddMemAllocNode(&node, handle(), after.data(), after.size(), &params));
  return node;
}

CUgraphNode GraphDefinition::add_free(Nodes after, CUdeviceptr ptr) {
  CUgraphNode node = nullptr;
  CUCORE_CALL(cuGraphAddMemFreeNode(&node, handle(), after.data(), after.size(), ptr));
  return node;
}

CUgraphConditionalHandle GraphDefinition::create_condition(unsigned default_value,
                                                           bool assign_default) {
  CUgraphConditionalHandle condition = 0;
  CUCORE_CALL(cuGraphConditionalHandleCreate(&condition, handle(), current_context(), default_value,
                                             assign_default ? CU_GRAPH_COND_ASSIGN_DEFAULT : 0));
  return condition;
}

CUgraphNode GraphDefinition::add_conditional(Nodes after, CUgraphConditionalHandle condition,
                                             CUgraphConditionalNodeType type, unsigned count,
                                             std::vector<CUgraph>& bodies) {
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.handle = condition;
  params.conditional.type = type;
  params.conditional.size = count;
  params.conditional.ctx = current_context();
  CUgraphNode node = nullptr;
  CUCORE_CALL(cuGraphAddNode(&node, handle(), after.data(), nullptr, after.size(), &params));
  bodies.assign(params.conditional.phGraph_out, params.conditional.phGraph_out + count);
  for (const CUgraph body : bodies) static_cast<void>(inside(node, body));
  note_conditional(node, type);
  return node;
}

// ---- structure

std::vector<CUgraphNode> GraphDefinition::nodes() const {
  std::size_t count = 0;
  CUCORE_CALL(cuGraphGetNodes(handle(), nullptr, &count));
  std::vector<CUgraphNode> list(count);
  if (count != 0) CUCORE_CALL(cuGraphGetNodes(handle(), list.data(), &count));
  list.resize(count);
  return list;
}

std::vector<std::pair<CUgraphNode, CUgraphNode>> GraphDefinition::edges() const {
  std::size_t count = 0;
  CUCORE_CALL(cuGraphGetEdges(handle(), nullptr, nullptr, nullptr, &count));
  std::vector<CUgraphNode> from(count);
  std::vector<CUgraphNode> to(count);
  std::vector<CUgraphEdgeData> data(count);
  if (count != 0)
    CUCORE_CALL(cuGraphGetEdges(handle(), from.data(), to.data(), data.data(), &count));
  std::vector<std::pair<CUgraphNode, CUgraphNode>> list;
  for (std::size_t i = 0; i < count; ++i) list.emplace_back(from[i], to[i]);
  return list;
}

void GraphDefinition::add_edges(Nodes from, Nodes to) {
  CUCORE_CALL(cuGraphAddDependencies(handle(), from.data(), to.data(), nullptr, from.size()));
}

void GraphDefinition::remove_edges(Nodes from, Nodes to) {
  CUCORE_CALL(cuGraphRemoveDependencies(handle(), from.data(), to.data(), nullptr, from.size()));
}

bool GraphDefinition::leaves_allocations() const {
  std::set<CUdeviceptr> open;
  std::set<CUdeviceptr> freed;
  for (const CUgraphNode node : nodes()) {
    CUgraphNodeType type{};
    if (driver().cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) continue;
    if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
      CUDA_MEM_ALLOC_NODE_PARAMS params{};
      if (driver().cuGraphMemAllocNodeGetParams(node, &params) == CUDA_SUCCESS)
        open.insert(params.dptr);
    } else if (type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
      CUdeviceptr ptr = 0;
      if (driver().cuGraphMemFreeNodeGetParams(node, &ptr) == CUDA_SUCCESS) freed.insert(ptr);
    }
  }
  for (const CUdeviceptr ptr : open) {
    if (freed.count(ptr) == 0) return true;
  }
  return false;
}

static const char* reason(const CUDA_GRAPH_INSTANTIATE_PARAMS& params) {
  const bool for_device = (params.flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0;
  switch (params.result_out) {
    case CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE:
      return "its structure is invalid, for example a cycle";
    case CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED:
      // Drivers add any node to the body of a conditional node and fail at instantiation.
      return for_device ? "a device-launched graph has a node of a kind that is not allowed there"
                        : "the body of a condition holds a node of a kind that is not allowed "
                          "there; kernels, copies, fills, empty nodes, child graphs and conditions "
                          "are";
    case CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED:
      return for_device ? "its nodes use more than one context"
                        : "the body of a condition uses more than one context, or copies from or "
                          "to host memory that is not pinned";
    case CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED:
      return "it has a condition that no conditional node looks at";
    default:
      return nullptr;
  }
}

Graph GraphDefinition::make(const GraphCompleteOptions& options) const {
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  // Without this flag, a graph that leaves memory allocated could be launched only once.
  if (options.auto_free_on_launch || leaves_allocations())
    params.flags |= CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
  if (options.upload) {
    params.flags |= CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    params.hUploadStream = options.upload_stream.handle();
  }
  if (options.device_launch) params.flags |= CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
  if (options.use_node_priority) params.flags |= CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  CUgraphExec exec = nullptr;
  const CUresult code = driver().cuGraphInstantiateWithParams(&exec, handle(), &params);
  if (const char* why = code != CUDA_SUCCESS ? reason(params) : nullptr) {
    throw CUDAError{static_cast<int>(code), result_name(code),
                    std::string{result_name(code)} + ": the graph cannot be instantiated: " + why,
                    "cuGraphInstantiateWithParams"};
  }
  check(code, "cuGraphInstantiateWithParams");
  return Graph::adopt(exec);
}

void GraphDefinition::debug_dot_print(const std::string& path, unsigned flags) const {
  CUCORE_CALL(cuGraphDebugDotPrint(handle(), path.c_str(), flags));
}

std::string GraphDefinition::dot(unsigned flags) const {
  std::string name = (std::filesystem::temp_directory_path() / "cucore-graph-XXXXXX").string();
  const int file = ::mkstemp(name.data());  // the driver writes to files only
  if (file < 0) throw std::system_error{errno, std::generic_category(), "cannot make " + name};
  ::close(file);
  const std::shared_ptr<void> removal{nullptr, [&](void*) { ::unlink(name.c_str()); }};
  debug_dot_print(name, flags);
  std::ifstream written{name, std::ios::binary};
  return {std::istreambuf_iterator<char>{written}, {}};
}

// ---- executable graphs

static CUgraphExec open_exec(const Graph& graph) {
  if (graph.handle() == nullptr) [[unlikely]]
    throw InvalidStateError("the graph is closed");
  return graph.handle();
}

void Graph::launch(StreamRef stream) const {
  CUCORE_CALL(cuGraphLaunch(open_exec(*this), stream.handle()));
}
void Graph::upload(StreamRef stream) const {
  CUCORE_CALL(cuGraphUpload(open_exec(*this), stream.handle()));
}

/// Returns why a graph cannot be updated, including the name of the driver's constant, which is
/// searchable.
static std::string reason(CUgraphExecUpdateResult result) {
#define CUCORE_REASON(constant, text) \
  case constant:                      \
    return text " (" #constant ")"
  switch (result) {
    CUCORE_REASON(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED,
                  "the graphs have different nodes or edges");
    CUCORE_REASON(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, "a node has another type");
    CUCORE_REASON(CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED,
                  "a kernel node has another function");
    CUCORE_REASON(CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE,
                  "a kernel node has another function");
    CUCORE_REASON(CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED,
                  "a node's parameters changed in a way that cannot be updated");
    CUCORE_REASON(CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED,
                  "a node's attributes changed in a way that cannot be updated");
    CUCORE_REASON(CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED,
                  "a change of this kind is not supported");
    default:
      return "the graphs differ in a way that cannot be updated (CUgraphExecUpdateResult " +
             std::to_string(static_cast<int>(result)) + ")";
  }
#undef CUCORE_REASON
}

void Graph::take_over(const GraphDefinition& source) const {
  CUgraphExecUpdateResultInfo info{};
  const CUresult code = driver().cuGraphExecUpdate(open_exec(*this), source.handle(), &info);
  if (code == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) {
    throw CUDAError{
        static_cast<int>(code), result_name(code),
        std::string{result_name(code)} + ": the graph cannot be updated: " + reason(info.result),
        "cuGraphExecUpdate"};
  }
  check(code, "cuGraphExecUpdate");
}

GraphDefinition capture(StreamRef stream, const std::function<void()>& work) {
  CUCORE_CALL(cuStreamBeginCapture(stream.handle(), CU_STREAM_CAPTURE_MODE_RELAXED));
  CUgraph handle = nullptr;
  try {
    work();
  } catch (...) {
    if (driver().cuStreamEndCapture(stream.handle(), &handle) == CUDA_SUCCESS &&
        handle != nullptr) {
      driver().cuGraphDestroy(handle);
    }
    detail::free_after_captures();
    throw;
  }
  const CUresult ended = driver().cuStreamEndCapture(stream.handle(), &handle);
  detail::free_after_captures();
  check(ended, "cuStreamEndCapture");
  return GraphDefinition::adopt(handle);
}

}  // namespace cucore
