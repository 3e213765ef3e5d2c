// SPDX-License-Identifier: Apache-2.0
// cuGraphCreate, cuGraphAdd*Node, and queries of nodes and edges.
#include <algorithm>
#include <cstring>

#include "cpu/device/copy.hpp"
#include "cpu/device/external_semaphore.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/kernel_op.hpp"
#include "cpu/graph/capture.hpp"
#include "cpu/graph/nodes.hpp"

using namespace cucpu::driver;

namespace {

/// Makes a node from a description and adds it to the graph.
CUresult add(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
             const CUgraphEdgeData* data, std::size_t count, CUgraphNodeParams& params,
             const char* function = __builtin_FUNCTION()) {
  return guarded(
      [&] {
        // As on an H200, an invalid function of a kernel node is reported before other errors.
        if (params.type == CU_GRAPH_NODE_TYPE_KERNEL && !params.kernel.kern)
          function_of(params.kernel.func);
        require(out != nullptr);
        Graph& g = graph_of(graph);
        const GraphNode& node = g.add(make_node_op(params), dependencies, data, count);
        if (params.type ==
            CU_GRAPH_NODE_TYPE_CONDITIONAL)  // the array belongs to the driver, as documented
          params.conditional.phGraph_out = static_cast<ConditionalOp&>(*node.op).params.phGraph_out;
        *out = node.handle();
      },
      function);
}

/// Copies a list to the caller: *count is the capacity, then the number; with a null list only the
/// number.
template <class T, class Get>
void give_list(T* out, std::size_t* count, std::size_t size, Get get) {
  require(count != nullptr);
  if (out) {
    require(*count > 0);
    for (std::size_t i = 0; i < *count; ++i) out[i] = i < size ? get(i) : T{};
    *count = std::min(*count, size);
  } else {
    *count = size;
  }
}

bool is_default_edge(const CUgraphEdgeData& data) {
  return data.from_port == 0 && data.to_port == 0 && data.type == 0;
}

/// The same with the parameters of one type of node.
template <typename Params>
CUresult add_described(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                       size_t count, const Params* params,
                       const char* function = __builtin_FUNCTION()) {
  return guarded(
      [&] {
        require(params != nullptr);
        CUgraphNodeParams p = described(*params);
        return add(out, graph, dependencies, nullptr, count, p);
      },
      function);
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
    const std::lock_guard lock{graph_mutex()};
    require(!is_captured_into(graph), CUDA_ERROR_ILLEGAL_STATE);
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

CUresult cuGraphAddNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                        const CUgraphEdgeData* data, size_t count, CUgraphNodeParams* params) {
  return guarded([&] {
    require(params != nullptr);
    return add(out, graph, dependencies, data, count, *params);
  });
}

CUresult cuGraphAddKernelNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_KERNEL_NODE_PARAMS* params) {
  return guarded([&] {
    require(params != nullptr);
    if (!params->kern) function_of(params->func);
    require(out != nullptr);
    Graph& g = graph_of(graph);
    *out = g.add(make_kernel(*params), dependencies, nullptr, count).handle();
  });
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_MEMCPY3D* params, CUcontext context) {
  return guarded([&] {
    require(out && params);
    Graph& g = graph_of(graph);
    if (context) context_of(context);
    *out = g.add(make_copy_node(*params, context), dependencies, nullptr, count).handle();
  });
}

CUresult cuGraphAddMemsetNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_MEMSET_NODE_PARAMS* params,
                              CUcontext context) {
  return guarded([&] {
    require(out && params);
    Graph& g = graph_of(graph);
    if (context) context_of(context);
    *out = g.add(make_fill_node(*params, context), dependencies, nullptr, count).handle();
  });
}

CUresult cuGraphAddHostNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                            size_t count, const CUDA_HOST_NODE_PARAMS* params) {
  return guarded([&] {
    require(out && params && params->fn);
    Graph& g = graph_of(graph);
    *out = g.add(make_object<HostOp>(params->fn, params->userData), dependencies, nullptr, count)
               .handle();
  });
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                  size_t count, CUgraph child) {
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_GRAPH;
  p.graph.graph = child;
  return add(out, graph, dependencies, nullptr, count, p);
}

CUresult cuGraphAddEmptyNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                             size_t count) {
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_EMPTY;
  return add(out, graph, dependencies, nullptr, count, p);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                   size_t count, CUevent event) {
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  p.eventRecord.event = event;
  return add(out, graph, dependencies, nullptr, count, p);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                 size_t count, CUevent event) {
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
  p.eventWait.event = event;
  return add(out, graph, dependencies, nullptr, count, p);
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                  size_t count, const CUDA_BATCH_MEM_OP_NODE_PARAMS* params) {
  return add_described(out, graph, dependencies, count, params);
}

CUresult cuGraphAddExternalSemaphoresSignalNode(CUgraphNode* out, CUgraph graph,
                                                const CUgraphNode* dependencies, size_t count,
                                                const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS* params) {
  return add_described(out, graph, dependencies, count, params);
}

CUresult cuGraphAddExternalSemaphoresWaitNode(CUgraphNode* out, CUgraph graph,
                                              const CUgraphNode* dependencies, size_t count,
                                              const CUDA_EXT_SEM_WAIT_NODE_PARAMS* params) {
  return add_described(out, graph, dependencies, count, params);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                                size_t count, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
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

CUresult cuGraphAddMemFreeNode(CUgraphNode* out, CUgraph graph, const CUgraphNode* dependencies,
                               size_t count, CUdeviceptr address) {
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
  p.free.dptr = address;
  return add(out, graph, dependencies, nullptr, count, p);
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

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data,
                         size_t* count) {
  return guarded([&] {
    const std::lock_guard lock{graph_mutex()};
    struct Row {
      CUgraphNode from, to;
      CUgraphEdgeData data;
    };
    std::vector<Row> rows;
    for (const auto& node : graph_of(graph).nodes)
      for (const Edge& edge : node->dependencies)
        rows.push_back({edge.from->handle(), node->handle(), edge.data});
    require(count && (!from) == (!to) && (from || !data));
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

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* data,
                                    size_t* count) {
  return guarded([&] {
    const std::lock_guard lock{graph_mutex()};
    const auto& edges = node_of(node).dependencies;
    require(count && (out || !data));
    if (out && !data)
      for (const Edge& edge : edges) require(is_default_edge(edge.data), CUDA_ERROR_LOSSY_QUERY);
    if (data) {
      std::size_t room = *count;
      give_list(data, &room, edges.size(), [&](std::size_t i) { return edges[i].data; });
    }
    give_list(out, count, edges.size(), [&](std::size_t i) { return edges[i].from->handle(); });
  });
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode handle, CUgraphNode* out, CUgraphEdgeData* data,
                                      size_t* count) {
  return guarded([&] {
    const std::lock_guard lock{graph_mutex()};
    GraphNode& node = node_of(handle);
    require(count && (out || !data));
    if (data) {
      std::size_t room = *count;
      give_list(data, &room, node.dependents.size(), [&](std::size_t i) {
        for (const Edge& edge : node.dependents[i]->dependencies)
          if (edge.from == &node) return edge.data;
        return CUgraphEdgeData{};
      });
    }
    give_list(out, count, node.dependents.size(),
              [&](std::size_t i) { return node.dependents[i]->handle(); });
  });
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                const CUgraphEdgeData* data, size_t count) {
  return guarded([&] {
    require((from && to) || count == 0);
    const std::lock_guard lock{graph_mutex()};
    Graph& g = graph_of(graph);
    for (std::size_t i = 0; i < count; ++i)
      g.connect(node_of(from[i]), node_of(to[i]), data ? data[i] : CUgraphEdgeData{});
  });
}

CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData*, size_t count) {
  return guarded([&] {
    require((from && to) || count == 0);
    const std::lock_guard lock{graph_mutex()};
    Graph& g = graph_of(graph);
    require(!g.has_memory_nodes(), CUDA_ERROR_NOT_SUPPORTED);
    for (std::size_t i = 0; i < count; ++i) g.disconnect(node_of(from[i]), node_of(to[i]));
  });
}

CUresult cuGraphDestroyNode(CUgraphNode handle) {
  return guarded([&] {
    const std::lock_guard lock{graph_mutex()};
    GraphNode& node = node_of(handle);
    require(!node.graph.has_memory_nodes(), CUDA_ERROR_NOT_SUPPORTED);
    node.graph.destroy(node);
  });
}

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* out, CUgraph graph,
                                        CUcontext context, unsigned int initial,
                                        unsigned int flags) {
  return guarded([&] {
    require(out && flags <= CU_GRAPH_COND_ASSIGN_DEFAULT);
    const std::lock_guard lock{graph_mutex()};
    auto& conditions = graph_of(graph).conditions;
    context_of(context);
    conditions.push_back(make_condition(initial, flags & CU_GRAPH_COND_ASSIGN_DEFAULT));
    *out = handle_of(*conditions.back());
  });
}

}  // extern "C"
