// SPDX-License-Identifier: Apache-2.0
// Graphs, their nodes and edges.
#include "cpu/graph/graph.hpp"

#include <algorithm>
#include <unordered_map>

#include "cpu/device/guard.hpp"
#include "cpu/graph/capture.hpp"
#include "protection.hpp"

namespace cucpu::driver {
namespace {
std::atomic<unsigned> g_next_graph_id{1};
constexpr unsigned kDeepest = 256;  // limit of nesting: nested graphs are traversed recursively

/// The nesting depth of `graph`. Fails when `not_this` is part of it.
unsigned levels(const Graph& graph, const Graph& not_this) {
  require(&graph != &not_this);
  unsigned most = 0;
  for (const auto& node : graph.nodes)
    for_each_owned(*node->op,
                   [&](Graph& inner) { most = std::max(most, 1 + levels(inner, not_this)); });
  return most;
}

void set_depth(Graph& graph, unsigned depth) noexcept {
  graph.is_body = true;
  graph.depth = depth;
  for (const auto& node : graph.nodes)
    for_each_owned(*node->op, [&](Graph& inner) { set_depth(inner, depth + 1); });
}

/// True when the graph or its child graphs have a node of one of these kinds.
bool has_nodes(const Graph& graph, std::initializer_list<CUgraphNodeType> kinds) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Ref<GraphNode>& node) {
    const CUgraphNodeType type = node->op->type();
    if (type == CU_GRAPH_NODE_TYPE_GRAPH)
      return has_nodes(*static_cast<const ChildGraphOp&>(*node->op).graph, kinds);
    return std::find(kinds.begin(), kinds.end(), type) != kinds.end();
  });
}
}  // namespace

std::recursive_mutex& graph_mutex() {
  static std::recursive_mutex& mutex = *new std::recursive_mutex;
  return mutex;
}

Graph& graph_of(CUgraph handle) { return object_of<Graph>(handle, CUDA_ERROR_INVALID_VALUE); }
GraphNode& node_of(CUgraphNode handle) {
  return object_of<GraphNode>(handle, CUDA_ERROR_INVALID_VALUE);
}

UserObject::~UserObject() {
  abandon();
  const bool before = std::exchange(t_in_callback, true);  // the function may not call CUDA
  destroy_(data_);
  t_in_callback = before;
}

Ref<ChildGraphOp> make_child(const Graph& graph) {
  auto op = make_object<ChildGraphOp>();
  UnaddedOpGuard unfinished{op};
  op->graph = graph.clone();
  op->graph->is_body = true;
  op->graph->publish();
  unfinished.added();
  return op;
}

UnaddedOpGuard::~UnaddedOpGuard() {
  if (!op_) return;
  for_each_owned(*op_, [](Graph& graph) {
    if (graph.is_body) graph.retire_all();
  });
}

Graph::Graph() : id{g_next_graph_id.fetch_add(1)} {}
Graph::~Graph() = default;

void ConditionalOp::add_body(const Ref<Graph>& body) {
  body->is_body = true;
  bodies.push_back(body);
  body_handles.push_back(body->publish());
}

GraphNode& Graph::add(Ref<NodeOp> op, const std::vector<Edge>& dependencies) {
  const std::lock_guard lock{graph_mutex()};
  UnaddedOpGuard unfinished{op};
  for_each_owned(
      *op, [&](const Graph& inner) { require(depth + 1 + levels(inner, *this) <= kDeepest); });
  if (const auto* free = dynamic_cast<const FreeOp*>(op.get()))
    for (const auto& node : nodes) {  // at most one free node per address
      const auto* other = dynamic_cast<const FreeOp*>(node->op.get());
      require(!other || other->address != free->address);
    }
  const auto* conditional = dynamic_cast<const ConditionalOp*>(op.get());
  // The condition of a node was made for its graph, as drivers demand.
  require(!conditional || (!conditional->condition->has_node &&
                           std::find(conditions.begin(), conditions.end(),
                                     conditional->condition) != conditions.end()));
  auto node = make_object<GraphNode>(*this, std::move(op), next_local_++);
  if (nodes.size() == nodes.capacity()) nodes.reserve(std::max<std::size_t>(16, 2 * nodes.size()));
  try {
    for (const Edge& edge : dependencies) {
      require(&edge.from->graph == this);
      connect(*edge.from, *node, edge.data);
    }
    node->publish();
  } catch (...) {  // other nodes must not refer to a destroyed node
    for (const Edge& edge : node->dependencies) std::erase(edge.from->dependents, node.get());
    throw;
  }
  nodes.push_back(node);  // capacity is reserved
  if (conditional) conditional->condition->has_node = true;
  for_each_owned(*node->op, [&](Graph& inner) { set_depth(inner, depth + 1); });
  unfinished.added();
  return *node;
}

GraphNode& Graph::add(Ref<NodeOp> op, const CUgraphNode* dependencies, const CUgraphEdgeData* data,
                      std::size_t count) {
  UnaddedOpGuard unfinished{op};
  require(dependencies || count == 0);
  const std::lock_guard lock{graph_mutex()};
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < count; ++i) {
    GraphNode& from = node_of(dependencies[i]);
    require(
        std::none_of(edges.begin(), edges.end(), [&](const Edge& e) { return e.from == &from; }));
    edges.push_back({&from, data ? data[i] : CUgraphEdgeData{}});
  }
  GraphNode& node = add(std::move(op), edges);
  unfinished.added();
  return node;
}

void Graph::connect(GraphNode& from, GraphNode& to, const CUgraphEdgeData& data) {
  require(&from.graph == this && &to.graph == this && &from != &to);
  require(data.type <= CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
  require(std::none_of(to.dependencies.begin(), to.dependencies.end(),
                       [&](const Edge& e) { return e.from == &from; }));
  to.dependencies.push_back({&from, data});
  try {
    from.dependents.push_back(&to);
  } catch (...) {
    to.dependencies.pop_back();
    throw;
  }
}

void Graph::disconnect(GraphNode& from, GraphNode& to) {
  require(std::erase_if(to.dependencies, [&](const Edge& e) { return e.from == &from; }) == 1);
  std::erase(from.dependents, &to);
}

void Graph::destroy(GraphNode& node) {
  const Ref<GraphNode> keep{&node};
  for (const Edge& edge : node.dependencies) std::erase(edge.from->dependents, &node);
  for (GraphNode* dependent : node.dependents)
    std::erase_if(dependent->dependencies, [&](const Edge& e) { return e.from == &node; });
  std::erase_if(nodes, [&](const Ref<GraphNode>& n) { return n.get() == &node; });
  remove_from_captures(node);
  for_each_owned(*node.op, [](Graph& graph) { graph.retire_all(); });
  node.retire();
}

void Graph::replace(GraphNode& node, Ref<NodeOp> op) {
  const Ref<NodeOp> old = std::exchange(node.op, std::move(op));
  for_each_owned(*node.op, [&](Graph& inner) { set_depth(inner, depth + 1); });
  for_each_owned(*old, [](Graph& graph) { graph.retire_all(); });  // its handles, and what it holds
}

bool Graph::has_memory_nodes() const {
  return has_nodes(*this, {CU_GRAPH_NODE_TYPE_MEM_ALLOC, CU_GRAPH_NODE_TYPE_MEM_FREE});
}

bool Graph::has_conditional_nodes() const {
  return has_nodes(*this, {CU_GRAPH_NODE_TYPE_CONDITIONAL});
}

Ref<Graph> Graph::clone() const {
  const std::lock_guard lock{graph_mutex()};
  require(!has_memory_nodes() && !has_conditional_nodes(), CUDA_ERROR_NOT_SUPPORTED);
  auto copy = make_object<Graph>();
  try {
    copy_into(*copy);
  } catch (...) {  // retire the handles of its nodes
    copy->retire_all();
    throw;
  }
  return copy;
}

void Graph::copy_into(Graph& copy) const {
  copy.user_objects = user_objects;
  copy.conditions = conditions;
  copy.next_local_ = next_local_;
  copy.nodes.reserve(nodes.size());
  std::unordered_map<const GraphNode*, GraphNode*> twin;
  for (const auto& node : nodes) {
    Ref<NodeOp> own;  // a copy of an operation that owns graphs
    if (node->op->type() == CU_GRAPH_NODE_TYPE_GRAPH)
      own = make_child(*static_cast<const ChildGraphOp&>(*node->op).graph);
    UnaddedOpGuard unfinished{own};
    auto made = make_object<GraphNode>(copy, own ? own : node->op, node->local_id);
    made->cloned_from = node->handle();
    made->publish();
    copy.nodes.push_back(made);  // capacity is reserved
    for_each_owned(*made->op, [&](Graph& inner) { set_depth(inner, copy.depth + 1); });
    unfinished.added();
    twin[node.get()] = made.get();
  }
  for (const auto& node : nodes)
    for (const Edge& edge : node->dependencies)
      copy.connect(*twin[edge.from], *twin[node.get()], edge.data);
}

void Graph::retire_all() noexcept {
  const std::lock_guard lock{graph_mutex()};
  const Ref<Graph> keep{this};
  if (CUCORE_PROTECTION("graph-ends-captures")) break_captures_into(*this);
  for (auto& node : nodes) {
    for_each_owned(*node->op, [](Graph& graph) { graph.retire_all(); });
    node->retire();
  }
  user_objects.clear();  // copies of this graph have their own references
  conditions.clear();
  retire();
}

std::vector<GraphNode*> Graph::in_order() const {
  std::unordered_map<const GraphNode*, std::size_t> missing;
  std::vector<GraphNode*> order;
  for (const auto& node : nodes) {
    missing[node.get()] = node->dependencies.size();
    if (node->dependencies.empty()) order.push_back(node.get());
  }
  for (std::size_t i = 0; i < order.size(); ++i)
    for (GraphNode* next : order[i]->dependents)
      if (--missing[next] == 0) order.push_back(next);
  return order.size() == nodes.size() ? order : std::vector<GraphNode*>{};
}

}  // namespace cucpu::driver
