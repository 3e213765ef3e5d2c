// SPDX-License-Identifier: Apache-2.0
// The parameters of graph nodes, by kind.
#include <cstring>
#include <span>

#include "cpu/device/external_semaphore.hpp"
#include "cpu/device/kernel_op.hpp"
#include "cpu/graph/nodes.hpp"

namespace cucpu::driver {

void set_op(CUgraphNode handle, Ref<NodeOp> op) {
  const std::lock_guard lock{graph_mutex()};
  GraphNode& node = node_of(handle);
  require(node.op->type() == op->type());
  node.graph.replace(node, std::move(op));
}

CUgraphNodeParams described(const CUDA_BATCH_MEM_OP_NODE_PARAMS& params) {
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  static_assert(sizeof p.memOp == sizeof params);
  std::memcpy(&p.memOp, &params, sizeof params);
  return p;
}

CUgraphNodeParams described(const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS& given) {
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL;
  p.extSemSignal.extSemArray = given.extSemArray;
  p.extSemSignal.paramsArray = given.paramsArray;
  p.extSemSignal.numExtSems = given.numExtSems;
  return p;
}

CUgraphNodeParams described(const CUDA_EXT_SEM_WAIT_NODE_PARAMS& given) {
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT;
  p.extSemWait.extSemArray = given.extSemArray;
  p.extSemWait.paramsArray = given.paramsArray;
  p.extSemWait.numExtSems = given.numExtSems;
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
      auto& op = static_cast<SignalSemaphoresOp&>(op_in);
      p.extSemSignal.extSemArray = op.handles.data();
      p.extSemSignal.paramsArray = op.params.data();
      p.extSemSignal.numExtSems = static_cast<unsigned>(op.handles.size());
      break;
    }
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT: {
      auto& op = static_cast<WaitSemaphoresOp&>(op_in);
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
           (x.empty() || std::memcmp(x.data(), y.data(), std::as_bytes(std::span{x}).size()) == 0);
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
      const auto &x = static_cast<SignalSemaphoresOp&>(a), &y = static_cast<SignalSemaphoresOp&>(b);
      return same_list(x.handles, y.handles) && same_list(x.params, y.params);
    }
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT: {
      const auto &x = static_cast<WaitSemaphoresOp&>(a), &y = static_cast<WaitSemaphoresOp&>(b);
      return same_list(x.handles, y.handles) && same_list(x.params, y.params);
    }
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      const auto &x = static_cast<AllocOp&>(a).params, &y = static_cast<AllocOp&>(b).params;
      const CUmemPoolProps &p = x.poolProps, &q = y.poolProps;
      return x.bytesize == y.bytesize && p.allocType == q.allocType &&
             p.handleTypes == q.handleTypes && p.location.type == q.location.type &&
             p.location.id == q.location.id &&
             p.win32SecurityAttributes == q.win32SecurityAttributes && p.maxSize == q.maxSize &&
             p.usage == q.usage && p.gpuDirectRDMACapable == q.gpuDirectRDMACapable;
    }
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const auto &x = static_cast<FillOp&>(a), &y = static_cast<FillOp&>(b);
      const auto &p = x.params, &q = y.params;
      return x.context_handle == y.context_handle && p.dst == q.dst && p.pitch == q.pitch &&
             p.value == q.value && p.elementSize == q.elementSize && p.width == q.width &&
             p.height == q.height;
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
      const auto &x = static_cast<HostOp&>(a).params, &y = static_cast<HostOp&>(b).params;
      return x.fn == y.fn && x.userData == y.userData;
    }
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return static_cast<EventWaitOp&>(a).event->handle() ==
             static_cast<EventWaitOp&>(b).event->handle();
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return static_cast<EventRecordOp&>(a).event->handle() ==
             static_cast<EventRecordOp&>(b).event->handle();
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return static_cast<FreeOp&>(a).address == static_cast<FreeOp&>(b).address;
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return true;
    default:  // child graphs and conditional nodes: not comparable
      return false;
  }
}

}  // namespace cucpu::driver
