// Graphs, their nodes and edges.
#include "api/graph.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "api/graph_capture.hpp"
#include "api/guard.hpp"
#include "api/pool.hpp"

namespace cucpu::driver {
namespace {
std::atomic<unsigned> g_next_graph_id{1};
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
  const bool before = std::exchange(t_in_callback, true);  // it may not call CUDA
  destroy_(data_);
  t_in_callback = before;
}

Graph::Graph() : id{g_next_graph_id.fetch_add(1)} {}
Graph::~Graph() = default;

GraphNode& Graph::add(Ref<NodeOp> op, const std::vector<Edge>& dependencies) {
  const std::lock_guard lock{graph_mutex()};
  auto node = make_object<GraphNode>(*this, std::move(op), next_local_++);
  if (nodes.size() == nodes.capacity()) nodes.reserve(std::max<std::size_t>(16, 2 * nodes.size()));
  try {
    for (const Edge& edge : dependencies) {
      require(&edge.from->graph == this);
      connect(*edge.from, *node, edge.data);
    }
    node->publish();
  } catch (...) {  // the others must not know a node that is gone
    for (const Edge& edge : node->dependencies) std::erase(edge.from->dependents, node.get());
    throw;
  }
  nodes.push_back(node);  // there is room
  return *node;
}

GraphNode& Graph::add(Ref<NodeOp> op, const CUgraphNode* dependencies, const CUgraphEdgeData* data,
                      std::size_t count) {
  require(dependencies || count == 0);
  const std::lock_guard lock{graph_mutex()};
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < count; ++i) {
    GraphNode& from = node_of(dependencies[i]);
    require(
        std::none_of(edges.begin(), edges.end(), [&](const Edge& e) { return e.from == &from; }));
    edges.push_back({&from, data ? data[i] : CUgraphEdgeData{}});
  }
  return add(std::move(op), edges);
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
  forget_captured(node);
  if (auto* child = dynamic_cast<ChildGraphOp*>(node.op.get())) child->graph->retire_all();
  if (auto* conditional = dynamic_cast<ConditionalOp*>(node.op.get()))
    for (auto& body : conditional->bodies) body->retire_all();
  node.retire();
}

Ref<Graph> Graph::clone() const {
  const std::lock_guard lock{graph_mutex()};
  auto copy = make_object<Graph>();
  copy->user_objects = user_objects;
  copy->conditions = conditions;
  copy->next_local_ = next_local_;
  std::unordered_map<const GraphNode*, GraphNode*> twin;
  for (const auto& node : nodes) {
    Ref<NodeOp> op = node->op;
    if (const auto* child = dynamic_cast<const ChildGraphOp*>(op.get())) {
      Ref<Graph> inner = child->graph->clone();
      inner->publish();
      op = make_object<ChildGraphOp>(inner);
    } else if (const auto* conditional = dynamic_cast<const ConditionalOp*>(op.get())) {
      auto again = make_object<ConditionalOp>();
      again->params = conditional->params;
      again->condition = conditional->condition;
      for (const auto& body : conditional->bodies) {
        Ref<Graph> inner = body->clone();
        inner->is_body = true;
        again->body_handles.push_back(inner->publish());
        again->bodies.push_back(inner);
      }
      again->params.phGraph_out = again->body_handles.data();
      op = again;
    }
    auto made = make_object<GraphNode>(*copy, std::move(op), node->local_id);
    made->cloned_from = node->handle();
    made->publish();
    copy->nodes.push_back(made);
    twin[node.get()] = made.get();
  }
  for (const auto& node : nodes)
    for (const Edge& edge : node->dependencies)
      copy->connect(*twin[edge.from], *twin[node.get()], edge.data);
  return copy;
}

void Graph::retire_all() noexcept {
  const std::lock_guard lock{graph_mutex()};
  const Ref<Graph> keep{this};
  break_captures_into(*this);
  for (auto& node : nodes) {
    if (auto* child = dynamic_cast<ChildGraphOp*>(node->op.get())) child->graph->retire_all();
    if (auto* conditional = dynamic_cast<ConditionalOp*>(node->op.get()))
      for (auto& body : conditional->bodies) body->retire_all();
    node->retire();
  }
  user_objects.clear();  // graphs made from this one hold their own
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
