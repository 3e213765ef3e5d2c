// SPDX-License-Identifier: Apache-2.0
// cpu/graph/graph.hpp: graphs of operations, and plans: flat lists that launches execute.
#pragma once

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cpu/device/event.hpp"
#include "cpu/exec/ops.hpp"
#include "cpu/graph/condition.hpp"

namespace cucpu::driver {

class Graph;
class GraphNode;

/// The lock of the structure of all graphs: edits are rare and short. Recursive, because a node may
/// own graphs.
std::recursive_mutex& graph_mutex();

struct Edge {
  GraphNode* from;
  CUgraphEdgeData data;
};

class GraphNode final : public Handled<GraphNode, CUgraphNode, Kind::node> {
 public:
  GraphNode(Graph& graph, Ref<NodeOp> op, unsigned local_id)
      : graph{graph}, op{std::move(op)}, local_id{local_id} {}
  Graph& graph;
  Ref<NodeOp> op;
  std::vector<Edge> dependencies;
  std::vector<GraphNode*> dependents;
  const unsigned local_id;
  CUgraphNode cloned_from = nullptr;
};

class UserObject final : public Handled<UserObject, CUuserObject, Kind::user_object> {
 public:
  UserObject(void* data, CUhostFn destroy) : data_{data}, destroy_{destroy} {}
  ~UserObject() override;

 private:
  void* data_;
  CUhostFn destroy_;
};

class Graph final : public Handled<Graph, CUgraph, Kind::graph> {
 public:
  Graph();
  ~Graph() override;
  const unsigned id;
  std::vector<Ref<GraphNode>> nodes;                   ///< in the order they were added
  std::vector<Ref<UserObject>> user_objects;           ///< one entry per reference
  std::vector<std::shared_ptr<Condition>> conditions;  ///< conditions that its kernels may set
  bool is_body = false;  ///< owned by a node: cannot be destroyed by the program
  unsigned depth = 0;    ///< nesting depth
  /// True when a node of it or of its child graphs allocates or frees. Such a graph cannot be
  /// copied, cannot lose nodes or edges, and has at most one executable graph.
  [[nodiscard]] bool has_memory_nodes() const;
  [[nodiscard]] bool has_conditional_nodes()
      const;                                 ///< in it or in its child graphs; it cannot be copied
  std::atomic<bool> is_instantiated{false};  ///< used only for such graphs

  /// The node owns the operation's graphs. On failure they are destroyed, except for a moved graph.
  GraphNode& add(Ref<NodeOp> op, const CUgraphNode* dependencies, const CUgraphEdgeData* data,
                 std::size_t count);
  GraphNode& add(Ref<NodeOp> op, const std::vector<Edge>& dependencies);
  void connect(GraphNode& from, GraphNode& to, const CUgraphEdgeData& data);
  void disconnect(GraphNode& from, GraphNode& to);
  void destroy(GraphNode& node);
  /// Gives a node another operation and destroys the graphs inside the old one.
  void replace(GraphNode& node, Ref<NodeOp> op);
  /// A copy with copies of all child graphs. Nodes store their originals. Fails with 801 for memory
  /// nodes and conditional nodes.
  Ref<Graph> clone() const;
  /// Retires the handles of the graph, its nodes and the graphs they own.
  void retire_all() noexcept;
  /// Topological order; empty when there is a cycle.
  std::vector<GraphNode*> in_order() const;

 private:
  void copy_into(Graph& copy) const;
  unsigned next_local_ = 0;
};

Graph& graph_of(CUgraph handle);
GraphNode& node_of(CUgraphNode handle);

/// A graph ready to run: operations in topological order. Runs in flight share it; an update then
/// makes a copy.
struct Plan {
  static constexpr unsigned kNone = ~0U;
  /// The position of a step among the lanes of a graph with branches. A lane is a chain of steps,
  /// each a dependency of the next.
  struct Link {
    unsigned lane = 0;
    unsigned next = kNone;  ///< the next step of the lane
    unsigned arrivals = 0;  ///< number of steps it waits for: the previous one of its lane, and
                            ///< steps of other lanes
    unsigned first_signal = 0,
             last_signal = 0;  ///< steps of other lanes that wait for it, in `signals`
  };
  struct Step {
    Ref<NodeOp> op;
    CUgraphNode node = nullptr;  ///< the program's handle
    bool enabled = true;
    std::vector<std::shared_ptr<Plan>> bodies;  ///< plans of child graphs and of bodies
  };
  std::vector<Step> steps;
  std::vector<std::vector<unsigned>>
      shape;                ///< for updates: the dependencies of each step, as indices
  std::vector<Link> links;  ///< one per step; empty for a plan without branches
  std::vector<unsigned> signals;
  unsigned lanes = 1;
  bool has_events = false;  ///< some step at any depth records an event or waits for one
  bool has_memory = false;  ///< some step at any depth allocates or frees
  std::vector<Ref<UserObject>> user_objects;
  std::vector<std::shared_ptr<Condition>> conditions;
};

/// Fails with 1 when there is a cycle.
std::shared_ptr<Plan> make_plan(const Graph& graph);
std::shared_ptr<Plan> copy_plan(const Plan& plan);

/// The name in cuGraphDebugDotPrint, such as "HOST".
const char* type_name(CUgraphNodeType type) noexcept;

/// Writes a graph and the graphs inside it as DOT clusters. Call with graph_mutex() held.
void print_dot(std::FILE* file, Graph& graph, bool verbose);

/// Runs a plan for `parent`; `done` when it completed at once.
Progress run_plan(std::shared_ptr<const Plan> plan, Task& parent);

// -- operations of graphs only

class ChildGraphOp final : public NodeOp {
 public:
  CUgraphNodeType type() const noexcept override { return CU_GRAPH_NODE_TYPE_GRAPH; }
  Progress run(Task&) override {
    return Progress::done;
  }  // the plan has the child's plan as a body
  [[nodiscard]] trace::Label label() const override { return {"graph", "child graph"}; }
  Ref<Graph> graph;
};

class ConditionalOp final : public NodeOp {
 public:
  CUgraphNodeType type() const noexcept override { return CU_GRAPH_NODE_TYPE_CONDITIONAL; }
  Progress run(Task&) override { return Progress::done; }
  [[nodiscard]] trace::Label label() const override { return {"graph", "conditional node"}; }
  CUDA_CONDITIONAL_NODE_PARAMS params{};
  std::vector<Ref<Graph>> bodies;
  std::vector<CUgraph> body_handles;
  void add_body(const Ref<Graph>& body);
  std::shared_ptr<Condition> condition;
};

/// Calls `f` with each graph that an operation owns: a child graph, or the bodies of a conditional
/// node.
template <class F>
void for_each_owned(const NodeOp& op, F f) {
  if (op.type() == CU_GRAPH_NODE_TYPE_GRAPH) {
    if (const auto& child = static_cast<const ChildGraphOp&>(op); child.graph) f(*child.graph);
  } else if (op.type() == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    for (const auto& body : static_cast<const ConditionalOp&>(op).bodies) f(*body);
  }
}

/// Destroys the graphs of an operation that was not added to a node.
class UnaddedOpGuard {
 public:
  explicit UnaddedOpGuard(Ref<NodeOp> op) : op_{std::move(op)} {}
  ~UnaddedOpGuard();
  UnaddedOpGuard(const UnaddedOpGuard&) = delete;
  UnaddedOpGuard& operator=(const UnaddedOpGuard&) = delete;
  void added() noexcept { op_ = {}; }

 private:
  Ref<NodeOp> op_;
};

/// A child graph: a copy of `graph`.
Ref<ChildGraphOp> make_child(const Graph& graph);

class EventRecordOp final : public NodeOp {
 public:
  explicit EventRecordOp(Ref<Event> event) : event{std::move(event)} {}
  CUgraphNodeType type() const noexcept override { return CU_GRAPH_NODE_TYPE_EVENT_RECORD; }
  Progress run(Task&) override { return Progress::done; }  // a launch replaces it: LaunchedEvents
  Ref<Event> event;
};

class EventWaitOp final : public NodeOp {
 public:
  explicit EventWaitOp(Ref<Event> event) : event{std::move(event)} {}
  CUgraphNodeType type() const noexcept override { return CU_GRAPH_NODE_TYPE_WAIT_EVENT; }
  Progress run(Task&) override { return Progress::done; }  // as above
  Ref<Event> event;
};

/// Memory of an allocation node. It lives as long as its nodes, an allocation by a launch without a
/// free, and a queued free.
class GraphBlock;

/// Allocates in stream order; the address is fixed at construction.
class AllocOp final : public InstantOp {
 public:
  AllocOp(Device& device, const CUDA_MEM_ALLOC_NODE_PARAMS& params);
  CUgraphNodeType type() const noexcept override { return CU_GRAPH_NODE_TYPE_MEM_ALLOC; }
  void execute() const override;
  [[nodiscard]] trace::Label label() const override { return {"memory", "allocation node"}; }
  CUDA_MEM_ALLOC_NODE_PARAMS params;
  std::vector<CUmemAccessDesc> access;
  std::shared_ptr<GraphBlock> block;
};

class FreeOp final : public InstantOp {
 public:
  explicit FreeOp(CUdeviceptr address);  ///< fails with 1 unless an allocation node owns the memory
  CUgraphNodeType type() const noexcept override { return CU_GRAPH_NODE_TYPE_MEM_FREE; }
  void execute() const override;
  [[nodiscard]] trace::Label label() const override { return {"memory", "free node"}; }
  CUdeviceptr address;
  std::shared_ptr<GraphBlock> block;
};

/// The memory nodes of a plan at any depth, and the effect of a launch on their memory as calls on
/// the host see it: memory is allocated from the launch to the free, regardless of the progress of
/// the device.
class MemoryNodes {
 public:
  explicit MemoryNodes(const Plan& plan);
  /// Fails with 1 when memory of an earlier launch was not freed, unless `auto_free` is set, and
  /// when memory to be freed is not allocated.
  void check(bool auto_free) const;
  /// Counts the memory as the graph allocates and frees it.
  void launch() const noexcept;

 private:
  void collect(const Plan& plan);
  std::vector<std::shared_ptr<GraphBlock>> allocated_, freed_;
  std::vector<std::pair<GraphBlock*, bool>> uses_;  ///< in the plan's order; true: allocated
  std::vector<GraphBlock*> of_others_;              ///< freed here, allocated by another graph
};

/// Of one device, as cuDeviceGetGraphMemAttribute reports them.
struct GraphMemoryCounts {
  std::uint64_t used = 0, used_high = 0, reserved = 0, reserved_high = 0;
};
/// Calls `f` with the counters of a device, under their lock.
void with_graph_memory_counts(int device, const std::function<void(GraphMemoryCounts&)>& f);

/// cuMemFreeAsync and, with a null stream, cuMemFree of graph memory; false for other memory. Fails
/// with 1 when no launch has allocated it.
bool free_graph_memory(CUdeviceptr address, Stream* stream);

/// Makes the operation of a node description.
Ref<NodeOp> make_node_op(CUgraphNodeParams& params);

}  // namespace cucpu::driver
