// SPDX-License-Identifier: Apache-2.0
// Operations of graph nodes from their descriptions.
#include "cpu/graph/nodes.hpp"

#include <cstring>

#include "cpu/device/copy.hpp"
#include "cpu/device/external_semaphore.hpp"
#include "cpu/device/fill.hpp"
#include "cpu/device/kernel_op.hpp"
#include "cpu/device/memory_ops.hpp"

namespace cucpu::driver {

namespace {

/// The device of a graph's memory: plain device memory, or managed memory that prefers a device.
Device& device_of_pool(const CUmemPoolProps& props) {
  require(props.allocType == CU_MEM_ALLOCATION_TYPE_PINNED ||
          props.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED);
  require(props.location.type == CU_MEM_LOCATION_TYPE_DEVICE);
  require(props.handleTypes == CU_MEM_HANDLE_TYPE_NONE && is_device(props.location.id));
  return device_of(props.location.id);
}

Ref<NodeOp> make_alloc(CUDA_MEM_ALLOC_NODE_PARAMS& params) {
  require(params.bytesize > 0 && (params.accessDescs || params.accessDescCount == 0));
  auto op = make_object<AllocOp>(device_of_pool(params.poolProps), params);
  params.dptr = op->params.dptr;
  return op;
}

constexpr unsigned kMostBodies = 1 << 16;  // limit of a switch node

Ref<NodeOp> make_conditional(const CUDA_CONDITIONAL_NODE_PARAMS& params) {
  require(params.type >= CU_GRAPH_COND_TYPE_IF && params.type <= CU_GRAPH_COND_TYPE_SWITCH);
  require(params.size >= 1 && params.size <= kMostBodies &&
          (params.type != CU_GRAPH_COND_TYPE_WHILE || params.size == 1) &&
          (params.type != CU_GRAPH_COND_TYPE_IF || params.size <= 2));
  auto op = make_object<ConditionalOp>();
  UnaddedOpGuard unfinished{op};
  op->condition = condition_of(params.handle);
  for (unsigned i = 0; i < params.size; ++i) op->add_body(make_object<Graph>());
  op->params = params;
  op->params.phGraph_out = op->body_handles.data();
  unfinished.added();
  return op;
}

}  // namespace

Ref<NodeOp> make_copy_node(const CUDA_MEMCPY3D& p, CUcontext context) {
  require(p.srcMemoryType != 0 && p.dstMemoryType != 0);
  require(p.WidthInBytes > 0 && p.Height > 0 && p.Depth > 0);
  return make_copy(p, context);
}

Ref<NodeOp> make_fill_node(const CUDA_MEMSET_NODE_PARAMS& params, CUcontext context) {
  require(params.width > 0 && params.height > 0);
  return make_fill(params, context);
}

Ref<NodeOp> make_node_op(CUgraphNodeParams& p) {
  switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      CUDA_KERNEL_NODE_PARAMS kernel{};
      static_assert(sizeof kernel == sizeof p.kernel);
      std::memcpy(&kernel, &p.kernel, sizeof kernel);
      return make_kernel(kernel);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return make_copy_node(p.memcpy.copyParams, p.memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return make_fill_node({p.memset.dst, p.memset.pitch, p.memset.value, p.memset.elementSize,
                             p.memset.width, p.memset.height},
                            p.memset.ctx);
    case CU_GRAPH_NODE_TYPE_HOST:
      require(p.host.fn != nullptr);
      return make_object<HostOp>(p.host.fn, p.host.userData);
    case CU_GRAPH_NODE_TYPE_GRAPH: {
      Graph& given = graph_of(p.graph.graph);
      if (p.graph.ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) return make_child(given);
      const std::lock_guard lock{graph_mutex()};
      require(!given.is_body && !given.has_conditional_nodes(), CUDA_ERROR_NOT_SUPPORTED);
      auto op = make_object<ChildGraphOp>();
      op->graph = Ref<Graph>{&given};
      return op;
    }
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return make_object<EmptyOp>();
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return make_object<EventWaitOp>(Ref<Event>{&nonnull_object_of<Event>(p.eventWait.event)});
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return make_object<EventRecordOp>(Ref<Event>{&nonnull_object_of<Event>(p.eventRecord.event)});
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      static_assert(sizeof(CUDA_MEM_ALLOC_NODE_PARAMS) == sizeof p.alloc);
      return make_alloc(reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS&>(p.alloc));
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return make_object<FreeOp>(p.free.dptr);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
      require(p.memOp.flags == 0);
      auto op = make_memory_ops(p.memOp.paramArray, p.memOp.count);
      op->context_handle = p.memOp.ctx;
      op->flags = p.memOp.flags;
      return op;
    }
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return make_conditional(p.conditional);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
      return make_object<SignalSemaphoresOp>(p.extSemSignal.extSemArray, p.extSemSignal.paramsArray,
                                             p.extSemSignal.numExtSems);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
      return make_object<WaitSemaphoresOp>(p.extSemWait.extSemArray, p.extSemWait.paramsArray,
                                           p.extSemWait.numExtSems);
    default:
      fail(CUDA_ERROR_INVALID_VALUE);
  }
}

}  // namespace cucpu::driver
