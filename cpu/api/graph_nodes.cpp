// cuGraph*: making graphs, adding nodes, looking at them and changing them.
#include <algorithm>
#include <cstring>

#include "api/capture.hpp"
#include "api/copy.hpp"
#include "api/fill.hpp"
#include "api/graph.hpp"
#include "api/guard.hpp"
#include "api/kernel_op.hpp"

namespace cucpu::driver {

namespace {

Device& device_of_pool(const CUmemPoolProps& props) {
  require(props.allocType == CU_MEM_ALLOCATION_TYPE_PINNED && props.location.type == CU_MEM_LOCATION_TYPE_DEVICE);
  require(props.handleTypes == CU_MEM_HANDLE_TYPE_NONE);
  return device_of(props.location.id);
}

Ref<NodeOp> make_alloc(CUDA_MEM_ALLOC_NODE_PARAMS& params) {
  require(params.bytesize > 0 && (params.accessDescs || params.accessDescCount == 0));
  auto op = make_object<AllocOp>(device_of_pool(params.poolProps), params);
  params.dptr = op->params.dptr;
  return op;
}

Ref<NodeOp> make_conditional(CUDA_CONDITIONAL_NODE_PARAMS& params) {
  require(params.handle != 0 && params.type >= CU_GRAPH_COND_TYPE_IF && params.type <= CU_GRAPH_COND_TYPE_SWITCH);
  require(params.size >= 1 && (params.type != CU_GRAPH_COND_TYPE_WHILE || params.size == 1) &&
          (params.type != CU_GRAPH_COND_TYPE_IF || params.size <= 2));
  auto op = make_object<ConditionalOp>();
  for (unsigned i = 0; i < params.size; ++i) {
    auto body = make_object<Graph>();
    body->is_body = true;
    op->body_handles.push_back(body->publish());
    op->bodies.push_back(body);
  }
  params.phGraph_out = op->body_handles.data();  // the driver's array, as documented
  op->params = params;
  return op;
}

}  // namespace

Ref<NodeOp> make_node_op(CUgraphNodeParams& p) {
  switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      CUDA_KERNEL_NODE_PARAMS kernel{};
      static_assert(sizeof kernel == sizeof p.kernel);
      std::memcpy(&kernel, &p.kernel, sizeof kernel);
      return make_kernel(kernel);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY: return make_copy(p.memcpy.copyParams, p.memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return make_fill({p.memset.dst, p.memset.pitch, p.memset.value, p.memset.elementSize, p.memset.width, p.memset.height},
                       p.memset.ctx);
    case CU_GRAPH_NODE_TYPE_HOST:
      require(p.host.fn != nullptr);
      return make_object<HostOp>(p.host.fn, p.host.userData);
    case CU_GRAPH_NODE_TYPE_GRAPH: {
      Graph& given = graph_of(p.graph.graph);
      if (p.graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) {
        require(!given.is_body);
        return make_object<ChildGraphOp>(Ref<Graph>{&given});
      }
      Ref<Graph> copy = given.clone();
      copy->publish();
      return make_object<ChildGraphOp>(copy);
    }
    case CU_GRAPH_NODE_TYPE_EMPTY: return make_object<EmptyOp>();
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: return make_object<EventWaitOp>(Ref<Event>{&object_of<Event>(p.eventWait.event)});
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return make_object<EventRecordOp>(Ref<Event>{&object_of<Event>(p.eventRecord.event)});
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      static_assert(sizeof(CUDA_MEM_ALLOC_NODE_PARAMS) == sizeof p.alloc);
      return make_alloc(reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS&>(p.alloc));
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return make_object<FreeOp>(p.free.dptr);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
      require(p.memOp.paramArray && p.memOp.count > 0 && p.memOp.count <= 256);
      auto op = make_object<MemoryOpsOp>(std::vector(p.memOp.paramArray, p.memOp.paramArray + p.memOp.count));
      op->context_handle = p.memOp.ctx;
      op->flags = p.memOp.flags;
      return op;
    }
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: return make_conditional(p.conditional);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT: fail(CUDA_ERROR_NOT_SUPPORTED);
    default: fail(CUDA_ERROR_INVALID_VALUE);
  }
}

}  // namespace cucpu::driver

using namespace cucpu::driver;

namespace {

CUresult add(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, const CUgraphEdgeData* data,
             std::size_t count, CUgraphNodeParams& params) {
  return guarded([&] {
    require(out != nullptr);
    Graph& g = graph_of(graph);
    *out = g.add(make_node_op(params), dependencies, data, count).handle();
  });
}

template <class Op>
Op& op_of(CUgraphNode node) {
  auto* op = dynamic_cast<Op*>(node_of(node).op.get());
  require(op != nullptr);
  return *op;
}

void set_op(CUgraphNode handle, Ref<NodeOp> op) {
  const std::lock_guard lock{graph_mutex()};
  GraphNode& node = node_of(handle);
  require(node.op->type() == op->type());
  node.op = std::move(op);
}

/// Copies a list out in CUDA's way: *count is the room, then the number; with no room only the number.
template <class T, class Get>
void give_list(T* out, std::size_t* count, std::size_t size, Get get) {
  require(count != nullptr);
  if (out) {
    for (std::size_t i = 0; i < *count; ++i) out[i] = i < size ? get(i) : T{};
    *count = std::min(*count, size);
  } else {
    *count = size;
  }
}

bool is_default_edge(const CUgraphEdgeData& data) { return data.from_port == 0 && data.to_port == 0 && data.type == 0; }

CUgraphNodeParams params_of(GraphNode& node) {
  CUgraphNodeParams p{};
  p.type = node.op->type();
  switch (p.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
      const auto kernel = static_cast<KernelOp&>(*node.op).node_params();
      std::memcpy(&p.kernel, &kernel, sizeof kernel);
      break;
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY: {
      auto& op = static_cast<CopyOp&>(*node.op);
      p.memcpy.copyCtx = op.context_handle;
      p.memcpy.copyParams = op.params;
      break;
    }
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      auto& op = static_cast<FillOp&>(*node.op);
      const auto& m = op.params;
      p.memset.dst = m.dst, p.memset.pitch = m.pitch, p.memset.value = m.value;
      p.memset.elementSize = m.elementSize, p.memset.width = m.width, p.memset.height = m.height;
      p.memset.ctx = op.context_handle;
      break;
    }
    case CU_GRAPH_NODE_TYPE_HOST:
      p.host.fn = static_cast<HostOp&>(*node.op).params.fn;
      p.host.userData = static_cast<HostOp&>(*node.op).params.userData;
      break;
    case CU_GRAPH_NODE_TYPE_GRAPH: p.graph.graph = static_cast<ChildGraphOp&>(*node.op).graph->handle(); break;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: p.eventWait.event = static_cast<EventWaitOp&>(*node.op).event->handle(); break;
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      p.eventRecord.event = static_cast<EventRecordOp&>(*node.op).event->handle();
      break;
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      std::memcpy(&p.alloc, &static_cast<AllocOp&>(*node.op).params, sizeof p.alloc);
      break;
    case CU_GRAPH_NODE_TYPE_MEM_FREE: p.free.dptr = static_cast<FreeOp&>(*node.op).address; break;
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
      auto& op = static_cast<MemoryOpsOp&>(*node.op);
      p.memOp.ctx = op.context_handle;
      p.memOp.count = static_cast<unsigned>(op.list.size());
      p.memOp.paramArray = op.list.data();
      p.memOp.flags = op.flags;
      break;
    }
    case CU_GRAPH_NODE_TYPE_CONDITIONAL: p.conditional = static_cast<ConditionalOp&>(*node.op).params; break;
    default: break;
  }
  return p;
}

}  // namespace

extern "C" {

CUresult cuGraphCreate(CUgraph* out, unsigned int flags) {
  return guarded([&] {
    require(out && flags == 0);
    *out = make_object<Graph>()->publish();
  });
}

CUresult cuGraphDestroy(CUgraph handle) {
  return guarded([&] {
    Graph& graph = graph_of(handle);
    require(!graph.is_body);
    graph.retire_all();
  });
}

CUresult cuGraphClone(CUgraph* out, CUgraph handle) {
  return guarded([&] {
    require(out != nullptr);
    *out = graph_of(handle).clone()->publish();
  });
}

CUresult cuGraphGetId(CUgraph handle, unsigned int* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = graph_of(handle).id;
  });
}

CUresult cuGraphNodeFindInClone(CUgraphNode* out, CUgraphNode original, CUgraph clone) {
  return guarded([&] {
    require(out != nullptr);
    node_of(original);
    const std::lock_guard lock{graph_mutex()};
    for (const auto& node : graph_of(clone).nodes)
      if (node->cloned_from == original) {
        *out = node->handle();
        return;
      }
    fail(CUDA_ERROR_INVALID_VALUE);
  });
}

CUresult cuGraphAddNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, const CUgraphEdgeData* data,
                        size_t count, CUgraphNodeParams* params) {
  return guarded([&] {
    require(params != nullptr);
    return add(out, graph, dependencies, data, count, *params);
  });
}

CUresult cuGraphAddKernelNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                              const CUDA_KERNEL_NODE_PARAMS* params) {
  return guarded([&] {
    require(out && params);
    Graph& g = graph_of(graph);
    *out = g.add(make_kernel(*params), dependencies, nullptr, count).handle();
  });
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                              const CUDA_MEMCPY3D* params, CUcontext context) {
  return guarded([&] {
    require(out && params);
    Graph& g = graph_of(graph);
    if (context) context_of(context);
    *out = g.add(make_copy(*params, context), dependencies, nullptr, count).handle();
  });
}

CUresult cuGraphAddMemsetNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                              const CUDA_MEMSET_NODE_PARAMS* params, CUcontext context) {
  return guarded([&] {
    require(out && params);
    Graph& g = graph_of(graph);
    if (context) context_of(context);
    *out = g.add(make_fill(*params, context), dependencies, nullptr, count).handle();
  });
}

CUresult cuGraphAddHostNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                            const CUDA_HOST_NODE_PARAMS* params) {
  return guarded([&] {
    require(out && params && params->fn);
    Graph& g = graph_of(graph);
    *out = g.add(make_object<HostOp>(params->fn, params->userData), dependencies, nullptr, count).handle();
  });
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                  CUgraph child) {
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_GRAPH;
  p.graph.graph = child;
  return add(out, graph, dependencies, nullptr, count, p);
}

CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count) {
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_EMPTY;
  return add(out, graph, dependencies, nullptr, count, p);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                   CUevent event) {
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  p.eventRecord.event = event;
  return add(out, graph, dependencies, nullptr, count, p);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                 CUevent event) {
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
  p.eventWait.event = event;
  return add(out, graph, dependencies, nullptr, count, p);
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                  const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return guarded([&] {
    require(params != nullptr);
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    std::memcpy(&p.memOp, params, sizeof *params);
    return add(out, graph, dependencies, nullptr, count, p);
  });
}

CUresult cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  return guarded([&] {
    require(params != nullptr);
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    std::memcpy(&p.alloc, params, sizeof *params);
    const CUresult result = add(out, graph, dependencies, nullptr, count, p);
    if (result == CUDA_SUCCESS) params->dptr = p.alloc.dptr;
    return result;
  });
}

CUresult cuGraphAddMemFreeNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                               CUdeviceptr address) {
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
  p.free.dptr = address;
  return add(out, graph, dependencies, nullptr, count, p);
}

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
    set_op(node, make_fill(*params, op_of<FillOp>(node).context_handle));
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
  return guarded([&] { set_op(node, make_object<EventRecordOp>(Ref<Event>{&object_of<Event>(event)})); });
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = op_of<EventWaitOp>(node).event->handle();
  });
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event) {
  return guarded([&] { set_op(node, make_object<EventWaitOp>(Ref<Event>{&object_of<Event>(event)})); });
}

CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode node, CUDA_BATCH_MEM_OP_NODE_PARAMS* out) {
  return guarded([&] {
    require(out != nullptr);
    auto& op = op_of<MemoryOpsOp>(node);
    *out = {op.context_handle, static_cast<unsigned>(op.list.size()), op.list.data(), op.flags};
  });
}

CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode node, const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return guarded([&] {
    require(params != nullptr);
    CUgraphNodeParams p{};
    p.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    std::memcpy(&p.memOp, params, sizeof *params);
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
    *out = params_of(node_of(node));
  });
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams* params) {
  return guarded([&] {
    require(params != nullptr);
    const CUgraphNodeType type = node_of(node).op->type();
    require(params->type == type && type != CU_GRAPH_NODE_TYPE_MEM_ALLOC && type != CU_GRAPH_NODE_TYPE_MEM_FREE &&
            type != CU_GRAPH_NODE_TYPE_CONDITIONAL);
    set_op(node, make_node_op(*params));
  });
}

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = node_of(node).op->type();
  });
}

CUresult cuGraphNodeGetContainingGraph(CUgraphNode node, CUgraph* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = node_of(node).graph.handle();
  });
}

CUresult cuGraphNodeGetLocalId(CUgraphNode node, unsigned int* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = node_of(node).local_id;
  });
}

CUresult cuGraphNodeGetToolsId(CUgraphNode node, unsigned long long* out) {
  return guarded([&] {
    require(out != nullptr);
    GraphNode& n = node_of(node);
    *out = (static_cast<unsigned long long>(n.graph.id) << 32) | n.local_id;
  });
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  return guarded([&] {
    const std::lock_guard lock{graph_mutex()};
    const auto& all = graph_of(graph).nodes;
    give_list(nodes, count, all.size(), [&](std::size_t i) { return all[i]->handle(); });
  });
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  return guarded([&] {
    const std::lock_guard lock{graph_mutex()};
    std::vector<CUgraphNode> roots;
    for (const auto& node : graph_of(graph).nodes)
      if (node->dependencies.empty()) roots.push_back(node->handle());
    give_list(nodes, count, roots.size(), [&](std::size_t i) { return roots[i]; });
  });
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count) {
  return guarded([&] {
    const std::lock_guard lock{graph_mutex()};
    struct Row {
      CUgraphNode from, to;
      CUgraphEdgeData data;
    };
    std::vector<Row> rows;
    for (const auto& node : graph_of(graph).nodes)
      for (const Edge& edge : node->dependencies) rows.push_back({edge.from->handle(), node->handle(), edge.data});
    require(count && (!from) == (!to));
    if (from && !data)
      for (const Row& row : rows) require(is_default_edge(row.data), CUDA_ERROR_LOSSY_QUERY);
    std::size_t room = *count;
    give_list(to, &room, rows.size(), [&](std::size_t i) { return rows[i].to; });
    if (data) {
      std::size_t again = *count;
      give_list(data, &again, rows.size(), [&](std::size_t i) { return rows[i].data; });
    }
    give_list(from, count, rows.size(), [&](std::size_t i) { return rows[i].from; });
  });
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* data, size_t* count) {
  return guarded([&] {
    const std::lock_guard lock{graph_mutex()};
    const auto& edges = node_of(node).dependencies;
    require(count != nullptr);
    if (out && !data)
      for (const Edge& edge : edges) require(is_default_edge(edge.data), CUDA_ERROR_LOSSY_QUERY);
    if (data) {
      std::size_t room = *count;
      give_list(data, &room, edges.size(), [&](std::size_t i) { return edges[i].data; });
    }
    give_list(out, count, edges.size(), [&](std::size_t i) { return edges[i].from->handle(); });
  });
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* data, size_t* count) {
  return guarded([&] {
    const std::lock_guard lock{graph_mutex()};
    GraphNode& node = node_of(handle);
    require(count != nullptr);
    if (data) {
      std::size_t room = *count;
      give_list(data, &room, node.dependents.size(), [&](std::size_t i) {
        for (const Edge& edge : node.dependents[i]->dependencies)
          if (edge.from == &node) return edge.data;
        return CUgraphEdgeData{};
      });
    }
    give_list(out, count, node.dependents.size(), [&](std::size_t i) { return node.dependents[i]->handle(); });
  });
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData* data,
                                size_t count) {
  return guarded([&] {
    require((from && to) || count == 0);
    const std::lock_guard lock{graph_mutex()};
    Graph& g = graph_of(graph);
    for (std::size_t i = 0; i < count; ++i) g.connect(node_of(from[i]), node_of(to[i]), data ? data[i] : CUgraphEdgeData{});
  });
}

CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData*,
                                   size_t count) {
  return guarded([&] {
    require((from && to) || count == 0);
    const std::lock_guard lock{graph_mutex()};
    Graph& g = graph_of(graph);
    for (std::size_t i = 0; i < count; ++i) g.disconnect(node_of(from[i]), node_of(to[i]));
  });
}

CUresult cuGraphDestroyNode(CUgraphNode handle) {
  return guarded([&] {
    const std::lock_guard lock{graph_mutex()};
    GraphNode& node = node_of(handle);
    const CUgraphNodeType type = node.op->type();
    require(type != CU_GRAPH_NODE_TYPE_MEM_ALLOC && type != CU_GRAPH_NODE_TYPE_MEM_FREE, CUDA_ERROR_NOT_SUPPORTED);
    node.graph.destroy(node);
  });
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID id, CUkernelNodeAttrValue* out) {
  return guarded([&] {
    require(out != nullptr);
    *out = {};
    const auto& op = op_of<KernelOp>(node);
    if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) out->cooperative = op.shape.cooperative;
    if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) out->clusterDim = {op.shape.cluster.x, op.shape.cluster.y, op.shape.cluster.z};
    for (const CUlaunchAttribute& attribute : op.attributes)
      if (attribute.id == id) *out = attribute.value;
  });
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID id, const CUkernelNodeAttrValue* value) {
  return guarded([&] {
    require(value != nullptr);
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

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* out, CUgraph graph, CUcontext context,
                                        unsigned int initial, unsigned int flags) {
  return guarded([&] {
    require(out && flags <= CU_GRAPH_COND_ASSIGN_DEFAULT);
    graph_of(graph);
    if (context) context_of(context);
    // Kernels hold the address for as long as any copy of the graph lives, which nobody tells us: never freed.
    auto* condition = new Condition;
    condition->value = initial;
    condition->initial = initial;
    condition->assign_initial = flags & CU_GRAPH_COND_ASSIGN_DEFAULT;
    *out = reinterpret_cast<CUgraphConditionalHandle>(condition);
  });
}

CUresult cuUserObjectCreate(CUuserObject* out, void* data, CUhostFn destroy, unsigned int count, unsigned int flags) {
  return guarded([&] {
    require(out && destroy && count > 0 && flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
    auto object = make_object<UserObject>(data, destroy);
    for (unsigned i = 0; i < count; ++i) object->retain();
    *out = object->publish_unowned();
  });
}

CUresult cuUserObjectRetain(CUuserObject handle, unsigned int count) {
  return guarded([&] {
    require(count > 0);
    UserObject& object = object_of<UserObject>(handle, CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < count; ++i) object.retain();
  });
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned int count) {
  return guarded([&] {
    require(count > 0);
    UserObject& object = object_of<UserObject>(handle, CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < count; ++i) object.release();
  });
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject handle, unsigned int count, unsigned int flags) {
  return guarded([&] {
    require(count > 0 && flags <= CU_GRAPH_USER_OBJECT_MOVE);
    Graph& g = graph_of(graph);
    UserObject& object = object_of<UserObject>(handle, CUDA_ERROR_INVALID_VALUE);
    const std::lock_guard lock{graph_mutex()};
    for (unsigned i = 0; i < count; ++i) {
      g.user_objects.emplace_back(&object);
      if (flags & CU_GRAPH_USER_OBJECT_MOVE) object.release();
    }
  });
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject handle, unsigned int count) {
  return guarded([&] {
    require(count > 0);
    Graph& g = graph_of(graph);
    UserObject& object = object_of<UserObject>(handle, CUDA_ERROR_INVALID_VALUE);
    const std::lock_guard lock{graph_mutex()};
    for (unsigned i = 0; i < count; ++i) {
      const auto at = std::find_if(g.user_objects.begin(), g.user_objects.end(), [&](const auto& r) { return r.get() == &object; });
      require(at != g.user_objects.end());
      g.user_objects.erase(at);
    }
  });
}

}  // extern "C"
