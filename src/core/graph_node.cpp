// SPDX-License-Identifier: Apache-2.0
// graph_node.cpp: queries and updates the nodes of graphs.
#include "cucore/graph_node.hpp"

#include <cstdint>
#include <stdexcept>
#include <string>

#include "core/text.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"

namespace cucore {
namespace {

CUDA_HOST_NODE_PARAMS native(const HostNodeParams& params) {
  CUDA_HOST_NODE_PARAMS out{};
  out.fn = params.function;
  out.userData = params.data;
  return out;
}

CUcontext current_context() {
  CUcontext context = nullptr;
  CUCORE_CALL(cuCtxGetCurrent(&context));
  return context;
}

CUDA_MEMCPY3D changed(GraphNodeRef node, const std::optional<CopyEnd>& dst,
                      const std::optional<CopyEnd>& src, const std::optional<CopyExtent>& extent) {
  CUDA_MEMCPY3D copy = node.memcpy();
  change_copy(copy, dst, src, extent);
  return copy;
}

}  // namespace

CUgraphNodeType GraphNodeRef::type() const {
  CUgraphNodeType type{};
  CUCORE_CALL(cuGraphNodeGetType(raw_, &type));
  return type;
}

std::vector<CUgraphNode> GraphNodeRef::pred() const {
  std::size_t count = 0;
  CUCORE_CALL(cuGraphNodeGetDependencies(raw_, nullptr, nullptr, &count));
  std::vector<CUgraphNode> nodes(count);
  std::vector<CUgraphEdgeData> data(count);
  if (count != 0) CUCORE_CALL(cuGraphNodeGetDependencies(raw_, nodes.data(), data.data(), &count));
  return nodes;
}

std::vector<CUgraphNode> GraphNodeRef::succ() const {
  std::size_t count = 0;
  CUCORE_CALL(cuGraphNodeGetDependentNodes(raw_, nullptr, nullptr, &count));
  std::vector<CUgraphNode> nodes(count);
  std::vector<CUgraphEdgeData> data(count);
  if (count != 0)
    CUCORE_CALL(cuGraphNodeGetDependentNodes(raw_, nodes.data(), data.data(), &count));
  return nodes;
}

KernelNodeParams GraphNodeRef::kernel() const {
  CUDA_KERNEL_NODE_PARAMS p{};
  CUCORE_CALL(cuGraphKernelNodeGetParams(raw_, &p));
  return {{p.gridDimX, p.gridDimY, p.gridDimZ},
          {p.blockDimX, p.blockDimY, p.blockDimZ},
          p.sharedMemBytes,
          p.kern != nullptr ? p.kern : reinterpret_cast<CUkernel>(p.func)};
}

void GraphNodeRef::set_kernel(const LaunchConfig& config, const Kernel& kernel,
                              void** arguments) const {
  const CUDA_KERNEL_NODE_PARAMS params = kernel_node_params(config, kernel, arguments);
  CUCORE_CALL(cuGraphKernelNodeSetParams(raw_, &params));
  set_kernel_node_attributes(raw_, config);
}

CUDA_MEMCPY3D GraphNodeRef::memcpy() const {
  CUDA_MEMCPY3D copy{};
  CUCORE_CALL(cuGraphMemcpyNodeGetParams(raw_, &copy));
  return copy;
}

void GraphNodeRef::set_memcpy(std::optional<CopyEnd> dst, std::optional<CopyEnd> src,
                              std::optional<CopyExtent> extent) const {
  const CUDA_MEMCPY3D params = changed(*this, dst, src, extent);
  CUCORE_CALL(cuGraphMemcpyNodeSetParams(raw_, &params));
}

MemsetParams GraphNodeRef::memset() const {
  CUDA_MEMSET_NODE_PARAMS p{};
  CUCORE_CALL(cuGraphMemsetNodeGetParams(raw_, &p));
  return {p.dst, p.pitch, p.value, p.elementSize, p.width, p.height};
}

void GraphNodeRef::set_memset(const MemsetParams& params) const {
  const CUDA_MEMSET_NODE_PARAMS native = memset_params(params);
  CUCORE_CALL(cuGraphMemsetNodeSetParams(raw_, &native));
}

HostNodeParams GraphNodeRef::host() const {
  CUDA_HOST_NODE_PARAMS p{};
  CUCORE_CALL(cuGraphHostNodeGetParams(raw_, &p));
  return {p.fn, p.userData};
}

void GraphNodeRef::set_host(const HostNodeParams& params) const {
  const CUDA_HOST_NODE_PARAMS p = native(params);
  CUCORE_CALL(cuGraphHostNodeSetParams(raw_, &p));
}

CUgraph GraphNodeRef::child_graph() const {
  CUgraph graph = nullptr;
  CUCORE_CALL(cuGraphChildGraphNodeGetGraph(raw_, &graph));
  return graph;
}

void GraphNodeRef::set_child_graph(const GraphDefinition& home,
                                   const GraphDefinition& child) const {
  GraphDefinition{home}.set_child(raw_, child);
}

CUevent GraphNodeRef::event() const {
  CUevent event = nullptr;
  if (type() == CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
    CUCORE_CALL(cuGraphEventRecordNodeGetEvent(raw_, &event));
  } else {
    CUCORE_CALL(cuGraphEventWaitNodeGetEvent(raw_, &event));
  }
  return event;
}

void GraphNodeRef::set_event(EventRef event) const {
  if (type() == CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
    CUCORE_CALL(cuGraphEventRecordNodeSetEvent(raw_, event.handle()));
  } else {
    CUCORE_CALL(cuGraphEventWaitNodeSetEvent(raw_, event.handle()));
  }
}

CUDA_MEM_ALLOC_NODE_PARAMS GraphNodeRef::allocation() const {
  CUDA_MEM_ALLOC_NODE_PARAMS params{};
  CUCORE_CALL(cuGraphMemAllocNodeGetParams(raw_, &params));
  return params;
}

CUdeviceptr GraphNodeRef::freed() const {
  CUdeviceptr ptr = 0;
  CUCORE_CALL(cuGraphMemFreeNodeGetParams(raw_, &ptr));
  return ptr;
}

namespace {

using detail::hexadecimal;

std::string hexadecimal(const void* handle) {
  return hexadecimal(reinterpret_cast<CUdeviceptr>(handle));
}

/// Formats an address with the suffix (D) for device memory or (H) for host memory.
std::string place_text(const CopyEnd& end) {
  if (end.array != nullptr) return hexadecimal(end.array) + "(D)";
  unsigned type = 0;
  const bool is_device = driver().cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                        end.ptr) == CUDA_SUCCESS &&
                         type == CU_MEMORYTYPE_DEVICE;
  return hexadecimal(end.ptr) + (is_device ? "(D)" : "(H)");
}

}  // namespace

std::string GraphNodeRef::text() const {
  switch (type()) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return " kernel=" + hexadecimal(kernel().kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      const CUDA_MEMCPY3D copy = memcpy();
      return " dst=" + place_text(destination_of(copy)) + " src=" + place_text(source_of(copy)) +
             " size=" + std::to_string(extent_of(copy).bytes());
    }
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const MemsetParams fill = memset();
      return " dptr=" + hexadecimal(fill.dst) + " value=" + std::to_string(fill.value);
    }
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return " child=" + hexadecimal(child_graph());
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return " event=" + hexadecimal(event());
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      const CUDA_MEM_ALLOC_NODE_PARAMS memory = allocation();
      return " dptr=" + hexadecimal(memory.dptr) + " size=" + std::to_string(memory.bytesize);
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return " dptr=" + hexadecimal(freed());
    default:
      return {};
  }
}

/// The driver changes no launch attributes of an instantiated node. Throws std::invalid_argument if
/// the configuration asks for others than the node has, instead of launching without them.
static void require_attributes(const GraphNodeRef& node, const LaunchConfig& config) {
  const auto attribute = [&](CUlaunchAttributeID id) {
    CUlaunchAttributeValue value{};
    CUCORE_CALL(cuGraphKernelNodeGetAttribute(node.handle(), id, &value));
    return value;
  };
  constexpr const char* kAdvice =
      ": change the node of the definition, then update or instantiate the graph again";
  if (config.cluster) {
    const auto has = attribute(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).clusterDim;
    if (Dim3{has.x, has.y, has.z} != *config.cluster)
      throw std::invalid_argument{
          std::string{"a node of an instantiated graph keeps its cluster dimensions"} + kAdvice};
  }
  if (config.is_cooperative && attribute(CU_LAUNCH_ATTRIBUTE_COOPERATIVE).cooperative == 0)
    throw std::invalid_argument{
        std::string{"a node of an instantiated graph cannot become a cooperative launch"} +
        kAdvice};
}

void ExecutableNodeRef::set_kernel(const LaunchConfig& config, const Kernel& kernel,
                                   void** arguments) const {
  if (config.cluster || config.is_cooperative) require_attributes(node_, config);
  const CUDA_KERNEL_NODE_PARAMS params = kernel_node_params(config, kernel, arguments);
  CUCORE_CALL(cuGraphExecKernelNodeSetParams(graph_, node_.handle(), &params));
}

void ExecutableNodeRef::set_memcpy(std::optional<CopyEnd> dst, std::optional<CopyEnd> src,
                                   std::optional<CopyExtent> extent) const {
  const CUDA_MEMCPY3D params = changed(node_, dst, src, extent);
  CUCORE_CALL(cuGraphExecMemcpyNodeSetParams(graph_, node_.handle(), &params, current_context()));
}

void ExecutableNodeRef::set_memset(const MemsetParams& params) const {
  const CUDA_MEMSET_NODE_PARAMS native = memset_params(params);
  CUCORE_CALL(cuGraphExecMemsetNodeSetParams(graph_, node_.handle(), &native, current_context()));
}

void ExecutableNodeRef::set_host(const HostNodeParams& params) const {
  const CUDA_HOST_NODE_PARAMS p = native(params);
  CUCORE_CALL(cuGraphExecHostNodeSetParams(graph_, node_.handle(), &p));
}

void ExecutableNodeRef::set_child_graph(const GraphDefinition& child) const {
  child.share();
  CUCORE_CALL(cuGraphExecChildGraphNodeSetParams(graph_, node_.handle(), child.handle()));
}

void ExecutableNodeRef::set_event(EventRef event) const {
  if (node_.type() == CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
    CUCORE_CALL(cuGraphExecEventRecordNodeSetEvent(graph_, node_.handle(), event.handle()));
  } else {
    CUCORE_CALL(cuGraphExecEventWaitNodeSetEvent(graph_, node_.handle(), event.handle()));
  }
}

void ExecutableNodeRef::set_enabled(bool enabled) const {
  CUCORE_CALL(cuGraphNodeSetEnabled(graph_, node_.handle(), enabled ? 1 : 0));
}

bool ExecutableNodeRef::is_enabled() const {
  unsigned enabled = 0;
  CUCORE_CALL(cuGraphNodeGetEnabled(graph_, node_.handle(), &enabled));
  return enabled != 0;
}

}  // namespace cucore
