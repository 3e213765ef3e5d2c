// SPDX-License-Identifier: Apache-2.0
// cuGraph*NodeGetParams and cuGraph*NodeSetParams.
#include "cpu/device/copy.hpp"
#include "cpu/device/external_semaphore.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/kernel_op.hpp"
#include "cpu/graph/nodes.hpp"

using namespace cucpu::driver;

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
  return guarded([&] {
    set_op(node, make_object<EventRecordOp>(Ref<Event>{&nonnull_object_of<Event>(event)}));
  });
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = op_of<EventWaitOp>(node).event->handle();
  });
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return guarded([&] {
    set_op(node, make_object<EventWaitOp>(Ref<Event>{&nonnull_object_of<Event>(event)}));
  });
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

CUresult cuGraphExternalSemaphoresSignalNodeGetParams(CUgraphNode node,
                                                      CUDA_EXT_SEM_SIGNAL_NODE_PARAMS* out) {
  return guarded([&] {
    require(out != nullptr);
    auto& op = op_of<SignalSemaphoresOp>(node);
    *out = {op.handles.data(), op.params.data(), static_cast<unsigned>(op.handles.size())};
  });
}

CUresult cuGraphExternalSemaphoresWaitNodeGetParams(CUgraphNode node,
                                                    CUDA_EXT_SEM_WAIT_NODE_PARAMS* out) {
  return guarded([&] {
    require(out != nullptr);
    auto& op = op_of<WaitSemaphoresOp>(node);
    *out = {op.handles.data(), op.params.data(), static_cast<unsigned>(op.handles.size())};
  });
}

CUresult cuGraphExternalSemaphoresSignalNodeSetParams(
    CUgraphNode node, const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS* params) {
  return guarded([&] {
    require(params != nullptr);
    CUgraphNodeParams p = described(*params);
    set_op(node, make_node_op(p));
  });
}

CUresult cuGraphExternalSemaphoresWaitNodeSetParams(CUgraphNode node,
                                                    const CUDA_EXT_SEM_WAIT_NODE_PARAMS* params) {
  return guarded([&] {
    require(params != nullptr);
    CUgraphNodeParams p = described(*params);
    set_op(node, make_node_op(p));
  });
}

CUresult cuGraphExecExternalSemaphoresSignalNodeSetParams(
    CUgraphExec exec, CUgraphNode node, const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS* params) {
  return guarded([&] {
    require(params != nullptr);
    CUgraphNodeParams p = described(*params);
    set_exec_op(exec, node, make_node_op(p));
  });
}

CUresult cuGraphExecExternalSemaphoresWaitNodeSetParams(
    CUgraphExec exec, CUgraphNode node, const CUDA_EXT_SEM_WAIT_NODE_PARAMS* params) {
  return guarded([&] {
    require(params != nullptr);
    CUgraphNodeParams p = described(*params);
    set_exec_op(exec, node, make_node_op(p));
  });
}

}  // extern "C"
