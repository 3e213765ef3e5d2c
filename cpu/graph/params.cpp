// cuGraph*NodeGetParams and ...SetParams: what a node does, kind by kind.
#include <cstring>

#include "cpu/device/copy.hpp"
#include "cpu/device/external_semaphore.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/kernel_op.hpp"
#include "cpu/graph/nodes.hpp"

namespace cucpu::driver {

void set_op(CUgraphNode handle, Ref<NodeOp> op) {
  const std::lock_guard lock{graph_mutex()};
  GraphNode& node = node_of(handle);
  require(node.op->type() == op->type());
  node.op = std::move(op);
}

CUgraphNodeParams described(const CUDA_BATCH_MEM_OP_NODE_PARAMS& params) {
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  static_assert(sizeof p.memOp == sizeof params);
  std::memcpy(&p.memOp, &params, sizeof params);
  return p;
}

Ref<NodeOp> make_changed_op(CUgraphNodeParams& p, const NodeOp& now) {
  const auto* kernel = dynamic_cast<const KernelOp*>(&now);
  if (p.type != CU_GRAPH_NODE_TYPE_KERNEL || !kernel) return make_node_op(p);
  CUDA_KERNEL_NODE_PARAMS given{};
  std::memcpy(&given, &p.kernel, sizeof given);
  return make_kernel(given, kernel->attributes);
}

CUgraphNodeParams params_of(NodeOp& op_in) {
  CUgraphNodeParams p{};
  p.type = op_in.type();
  switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      const auto kernel = static_cast<KernelOp&>(op_in).node_params();
      std::memcpy(&p.kernel, &kernel, sizeof kernel);
      break;
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      auto& op = static_cast<CopyOp&>(op_in);
      p.memcpy.copyCtx = op.context_handle;
      p.memcpy.copyParams = op.params;
      break;
    }
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      auto& op = static_cast<FillOp&>(op_in);
      const auto& m = op.params;
      p.memset.dst = m.dst, p.memset.pitch = m.pitch, p.memset.value = m.value;
      p.memset.elementSize = m.elementSize, p.memset.width = m.width, p.memset.height = m.height;
      p.memset.ctx = op.context_handle;
      break;
    }
    case CU_GRAPH_NODE_TYPE_HOST:
      p.host.fn = static_cast<HostOp&>(op_in).params.fn;
      p.host.userData = static_cast<HostOp&>(op_in).params.userData;
      break;
    case CU_GRAPH_NODE_TYPE_GRAPH:
      p.graph.graph = static_cast<ChildGraphOp&>(op_in).graph->handle();
      break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      p.eventWait.event = static_cast<EventWaitOp&>(op_in).event->handle();
      break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      p.eventRecord.event = static_cast<EventRecordOp&>(op_in).event->handle();
      break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      std::memcpy(&p.alloc, &static_cast<AllocOp&>(op_in).params, sizeof p.alloc);
      break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      p.free.dptr = static_cast<FreeOp&>(op_in).address;
      break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
      auto& op = static_cast<MemoryOpsOp&>(op_in);
      p.memOp.ctx = op.context_handle;
      p.memOp.count = static_cast<unsigned>(op.list.size());
      p.memOp.paramArray = op.list.data();
      p.memOp.flags = op.flags;
      break;
    }
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL: {
      auto& op = static_cast<SignalOp&>(op_in);
      p.extSemSignal.extSemArray = op.handles.data();
      p.extSemSignal.paramsArray = op.params.data();
      p.extSemSignal.numExtSems = static_cast<unsigned>(op.handles.size());
      break;
    }
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT: {
      auto& op = static_cast<AwaitOp&>(op_in);
      p.extSemWait.extSemArray = op.handles.data();
      p.extSemWait.paramsArray = op.params.data();
      p.extSemWait.numExtSems = static_cast<unsigned>(op.handles.size());
      break;
    }
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      p.conditional = static_cast<ConditionalOp&>(op_in).params;
      break;
    default:
      break;
  }
  return p;
}

bool is_same_op(NodeOp& a, NodeOp& b) {
  if (&a == &b) return true;
  if (a.type() != b.type()) return false;
  const auto same_list = [](const auto& x, const auto& y) {
    return x.size() == y.size() &&
           (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof x[0]) == 0);
  };
  switch (a.type()) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      const auto &x = static_cast<KernelOp&>(a), &y = static_cast<KernelOp&>(b);
      return x.function == y.function && x.shape.grid == y.shape.grid &&
             x.shape.block == y.shape.block && x.shape.cluster == y.shape.cluster &&
             x.shape.dynamic_shared_bytes == y.shape.dynamic_shared_bytes &&
             x.shape.cooperative == y.shape.cooperative && x.params == y.params;
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      const auto &x = static_cast<CopyOp&>(a).box, &y = static_cast<CopyOp&>(b).box;
      return std::memcmp(&x, &y, sizeof x) == 0;
    }
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return same_list(static_cast<MemoryOpsOp&>(a).list, static_cast<MemoryOpsOp&>(b).list);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL: {
      const auto &x = static_cast<SignalOp&>(a), &y = static_cast<SignalOp&>(b);
      return same_list(x.handles, y.handles) && same_list(x.params, y.params);
    }
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT: {
      const auto &x = static_cast<AwaitOp&>(a), &y = static_cast<AwaitOp&>(b);
      return same_list(x.handles, y.handles) && same_list(x.params, y.params);
    }
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      const auto &x = static_cast<AllocOp&>(a).params, &y = static_cast<AllocOp&>(b).params;
      return x.bytesize == y.bytesize &&
             std::memcmp(&x.poolProps, &y.poolProps, sizeof x.poolProps) == 0;
    }
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return false;
    default: {
      const CUgraphNodeParams x = params_of(a), y = params_of(b);
      return std::memcmp(&x, &y, sizeof x) == 0;
    }
  }
}

}  // namespace cucpu::driver

using namespace cucpu::driver;

namespace {

CUgraphNodeParams signal_params(const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS& given) {
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL;
  p.extSemSignal.extSemArray = given.extSemArray;
  p.extSemSignal.paramsArray = given.paramsArray;
  p.extSemSignal.numExtSems = given.numExtSems;
  return p;
}

CUgraphNodeParams wait_params(const CUDA_EXT_SEM_WAIT_NODE_PARAMS& given) {
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT;
  p.extSemWait.extSemArray = given.extSemArray;
  p.extSemWait.paramsArray = given.paramsArray;
  p.extSemWait.numExtSems = given.numExtSems;
  return p;
}

}  // namespace

extern "C" {

CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = op_of<KernelOp>(node).node_params();
  });
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* params) {
  return guarded([&] {
    require(params != nullptr);
    set_op(node, make_kernel(*params, op_of<KernelOp>(node).attributes));
  });
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = op_of<CopyOp>(node).params;
  });
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D* params) {
  return guarded([&] {
    require(params != nullptr);
    set_op(node, make_copy(*params, op_of<CopyOp>(node).context_handle));
  });
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = op_of<FillOp>(node).params;
  });
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params) {
  return guarded([&] {
    require(params != nullptr);
    set_op(node, make_fill_node(*params, op_of<FillOp>(node).context_handle));
  });
}

CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = op_of<HostOp>(node).params;
  });
}

CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
  return guarded([&] {
    require(params && params->fn);
    set_op(node, make_object<HostOp>(params->fn, params->userData));
  });
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = op_of<ChildGraphOp>(node).graph->handle();
  });
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = op_of<EventRecordOp>(node).event->handle();
  });
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event) {
  return guarded(
      [&] { set_op(node, make_object<EventRecordOp>(Ref<Event>{&given<Event>(event)})); });
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = op_of<EventWaitOp>(node).event->handle();
  });
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return guarded([&] { set_op(node, make_object<EventWaitOp>(Ref<Event>{&given<Event>(event)})); });
}

CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS* out) {
  return guarded([&] {
    require(out != nullptr);
    auto& op = op_of<MemoryOpsOp>(node);
    *out = {op.context_handle, static_cast<unsigned>(op.list.size()), op.list.data(), op.flags};
  });
}

CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node,
                                        const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return guarded([&] {
    require(params != nullptr);
    CUgraphNodeParams p = described(*params);
    set_op(node, make_node_op(p));
  });
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = op_of<AllocOp>(node).params;
  });
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = op_of<FreeOp>(node).address;
  });
}

CUresult cuGraphNodeGetParams(CUgraphNode node, CUgraphNodeParams* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = params_of(*node_of(node).op);
  });
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* params) {
  return guarded([&] {
    require(params != nullptr);
    const CUgraphNodeType type = node_of(node).op->type();
    require(params->type == type && type != CU_GRAPH_NODE_TYPE_MEM_ALLOC &&
            type != CU_GRAPH_NODE_TYPE_MEM_FREE && type != CU_GRAPH_NODE_TYPE_CONDITIONAL);
    set_op(node, make_changed_op(*params, *node_of(node).op));
  });
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
                                       CUkernelNodeAttrValue* out) {
  return guarded([&] {
    require(out && id != CU_LAUNCH_ATTRIBUTE_IGNORE);
    *out = {};
    const auto& op = op_of<KernelOp>(node);
    if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) out->cooperative = op.shape.cooperative;
    if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      out->clusterDim = {op.shape.cluster.x, op.shape.cluster.y, op.shape.cluster.z};
    for (const CUlaunchAttribute& attribute : op.attributes)
      if (attribute.id == id) *out = attribute.value;
  });
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID id,
                                       const CUkernelNodeAttrValue* value) {
  return guarded([&] {
    require(value && id != CU_LAUNCH_ATTRIBUTE_IGNORE);
    auto& op = op_of<KernelOp>(node);
    std::vector<CUlaunchAttribute> attributes = op.attributes;
    std::erase_if(attributes, [&](const CUlaunchAttribute& a) { return a.id == id; });
    CUlaunchAttribute attribute{};
    attribute.id = id;
    attribute.value = *value;
    attributes.push_back(attribute);
    set_op(node, make_kernel(op.node_params(), std::move(attributes)));
  });
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to, CUgraphNode from) {
  return guarded([&] {
    auto& target = op_of<KernelOp>(to);
    set_op(to, make_kernel(target.node_params(), op_of<KernelOp>(from).attributes));
  });
}

CUresult cuGraphAddExternalSemaphoresSignalNode(CUgraphNode* out, CUgraph graph,
                                                const CUgraphNode* dependencies, size_t count,
                                                const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS* params) {
  return guarded([&] {
    require(params != nullptr);
    CUgraphNodeParams p = signal_params(*params);
    return add_node(out, graph, dependencies, nullptr, count, p);
  });
}

CUresult cuGraphAddExternalSemaphoresWaitNode(CUgraphNode* out, CUgraph graph,
                                              const CUgraphNode* dependencies, size_t count,
                                              const CUDA_EXT_SEM_WAIT_NODE_PARAMS* params) {
  return guarded([&] {
    require(params != nullptr);
    CUgraphNodeParams p = wait_params(*params);
    return add_node(out, graph, dependencies, nullptr, count, p);
  });
}

CUresult cuGraphExternalSemaphoresSignalNodeGetParams(CUgraphNode node,
                                                      CUDA_EXT_SEM_SIGNAL_NODE_PARAMS* out) {
  return guarded([&] {
    require(out != nullptr);
    auto& op = op_of<SignalOp>(node);
    *out = {op.handles.data(), op.params.data(), static_cast<unsigned>(op.handles.size())};
  });
}

CUresult cuGraphExternalSemaphoresWaitNodeGetParams(CUgraphNode node,
                                                    CUDA_EXT_SEM_WAIT_NODE_PARAMS* out) {
  return guarded([&] {
    require(out != nullptr);
    auto& op = op_of<AwaitOp>(node);
    *out = {op.handles.data(), op.params.data(), static_cast<unsigned>(op.handles.size())};
  });
}

CUresult cuGraphExternalSemaphoresSignalNodeSetParams(
    CUgraphNode node, const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS* params) {
  return guarded([&] {
    require(params != nullptr);
    CUgraphNodeParams p = signal_params(*params);
    set_op(node, make_node_op(p));
  });
}

CUresult cuGraphExternalSemaphoresWaitNodeSetParams(CUgraphNode node,
                                                    const CUDA_EXT_SEM_WAIT_NODE_PARAMS* params) {
  return guarded([&] {
    require(params != nullptr);
    CUgraphNodeParams p = wait_params(*params);
    set_op(node, make_node_op(p));
  });
}

CUresult cuGraphExecExternalSemaphoresSignalNodeSetParams(
    CUgraphExec exec, CUgraphNode node, const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS* params) {
  return guarded([&] {
    require(params != nullptr);
    CUgraphNodeParams p = signal_params(*params);
    set_exec_op(exec, node, make_node_op(p));
  });
}

CUresult cuGraphExecExternalSemaphoresWaitNodeSetParams(
    CUgraphExec exec, CUgraphNode node, const CUDA_EXT_SEM_WAIT_NODE_PARAMS* params) {
  return guarded([&] {
    require(params != nullptr);
    CUgraphNodeParams p = wait_params(*params);
    set_exec_op(exec, node, make_node_op(p));
  });
}

}  // extern "C"
