// cpu/graph/graph.hpp: graphs of operations, and the flat plans that replay them.
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

/// One lock for the structure of all graphs: edits are rare and short. Recursive, for a node may
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
  std::vector<std::shared_ptr<Condition>> conditions;  ///< that its kernels may set
  bool is_body = false;  ///< owned by a node: cannot be destroyed by the program
  unsigned depth = 0;    ///< nodes it is inside of
  /// Where some node of it or of its children allocates or frees, the graph is as it is: it cannot
  /// be copied, loses no nodes or edges, and has one executable graph at a time.
  [[nodiscard]] bool has_memory_nodes() const;
  [[nodiscard]] bool has_conditional_nodes() const;  ///< it or its children: it cannot be copied
  std::atomic<bool> is_instantiated{false};          ///< looked at for such graphs only

  /// The node owns the operation's graphs. When it fails they end, but for one that is moved.
  GraphNode& add(Ref<NodeOp> op, const CUgraphNode* dependencies, const CUgraphEdgeData* data,
                 std::size_t count);
  GraphNode& add(Ref<NodeOp> op, const std::vector<Edge>& dependencies);
  void connect(GraphNode& from, GraphNode& to, const CUgraphEdgeData& data);
  void disconnect(GraphNode& from, GraphNode& to);
  void destroy(GraphNode& node);
  /// A copy with copies of all child graphs. Nodes remember what they were copied from. Fails with
  /// 801 where it has memory nodes or conditional nodes.
  Ref<Graph> clone() const;
  /// Ends the handles of the graph, its nodes and the graphs they own.
  void retire_all() noexcept;
  /// Dependencies first; empty when there is a cycle.
  std::vector<GraphNode*> in_order() const;

 private:
  void copy_into(Graph& copy) const;
  unsigned next_local_ = 0;
};

Graph& graph_of(CUgraph handle);
GraphNode& node_of(CUgraphNode handle);

/// A graph ready to run: operations in an order that respects all dependencies. Shared by runs in
/// flight; an update makes a copy when one is.
struct Plan {
  static constexpr unsigned kNone = ~0U;
  /// A step's place among the lanes of a graph with branches. A lane is a chain of steps, each a
  /// dependency of the next.
  struct Link {
    unsigned lane = 0;
    unsigned next = kNone;  ///< the next step of the lane
    unsigned arrivals =
        0;  ///< steps it waits for: the one before in its lane, and those in other lanes
    unsigned first_signal = 0,
             last_signal = 0;  ///< steps of other lanes that wait for it, in `signals`
  };
  struct Step {
    Ref<NodeOp> op;
    CUgraphNode node = nullptr;  ///< what programs name it by
    bool enabled = true;
    std::vector<std::shared_ptr<Plan>> bodies;  ///< of child graphs and conditionals
  };
  std::vector<Step> steps;
  std::vector<std::vector<unsigned>> shape;  ///< for updates: each step's dependencies, as indices
  std::vector<Link> links;  ///< one per step; empty when every step waits for the one before it
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

/// As cuGraphDebugDotPrint names it: "HOST".
const char* type_name(CUgraphNodeType type) noexcept;

/// Writes a graph and the graphs inside it as DOT clusters. Call with graph_mutex() held.
void print_dot(std::FILE* file, Graph& graph, bool verbose);

/// Runs a plan for `parent`; done when it ended at once.
Progress run_plan(std::shared_ptr<const Plan> plan, Task& parent);

// -- operations only graphs have
// ------------------------------------------------------------------------------------------

class ChildGraphOp final : public NodeOp {
 public:
  CUgraphNodeType type() const noexcept override { return CU_GRAPH_NODE_TYPE_GRAPH; }
  Progress run(Task&) override {
    return Progress::done;
  }  // the plan holds the child's plan and runs that
  Ref<Graph> graph;
};

class ConditionalOp final : public NodeOp {
 public:
  CUgraphNodeType type() const noexcept override { return CU_GRAPH_NODE_TYPE_CONDITIONAL; }
  Progress run(Task&) override { return Progress::done; }
  CUDA_CONDITIONAL_NODE_PARAMS params{};
  std::vector<Ref<Graph>> bodies;
  std::vector<CUgraph> body_handles;
  void add_body(const Ref<Graph>& body);
  std::shared_ptr<Condition> condition;
};

/// Each graph that an operation owns: a child graph, the bodies of a condition.
template <class F>
void for_each_owned(const NodeOp& op, F f) {
  if (op.type() == CU_GRAPH_NODE_TYPE_GRAPH) {
    if (const auto& child = static_cast<const ChildGraphOp&>(op); child.graph) f(*child.graph);
  } else if (op.type() == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    for (const auto& body : static_cast<const ConditionalOp&>(op).bodies) f(*body);
  }
}

/// Ends the graphs of an operation that no node takes, and the handles inside them.
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
  Progress run(Task&) override { return Progress::done; }  // a launch runs its own: LaunchedEvents
  Ref<Event> event;
};

class EventWaitOp final : public NodeOp {
 public:
  explicit EventWaitOp(Ref<Event> event) : event{std::move(event)} {}
  CUgraphNodeType type() const noexcept override { return CU_GRAPH_NODE_TYPE_WAIT_EVENT; }
  Progress run(Task&) override { return Progress::done; }  // as above
  Ref<Event> event;
};

/// Memory of an allocation node. It is there as long as a node of it is, a launch that nobody freed
/// has it allocated, or its free is still queued.
class GraphBlock;

/// Allocates in stream order; the address is fixed when the node is made.
class AllocOp final : public InstantOp {
 public:
  AllocOp(Device& device, const CUDA_MEM_ALLOC_NODE_PARAMS& params);
  CUgraphNodeType type() const noexcept override { return CU_GRAPH_NODE_TYPE_MEM_ALLOC; }
  void execute() const override;
  CUDA_MEM_ALLOC_NODE_PARAMS params;
  std::vector<CUmemAccessDesc> access;
  std::shared_ptr<GraphBlock> block;
};

class FreeOp final : public InstantOp {
 public:
  explicit FreeOp(CUdeviceptr address);  ///< fails with 1 for memory of no allocation node
  CUgraphNodeType type() const noexcept override { return CU_GRAPH_NODE_TYPE_MEM_FREE; }
  void execute() const override;
  CUdeviceptr address;
  std::shared_ptr<GraphBlock> block;
};

/// The memory nodes of a plan at any depth, and what a launch does to their memory as the calls on
/// the host see it: memory is allocated from the launch on until it is freed, whatever the device
/// has come to.
class MemoryNodes {
 public:
  explicit MemoryNodes(const Plan& plan);
  /// Fails with 1 when an earlier launch's memory was never freed, unless that is freed now, and
  /// when there is nothing to free.
  void check(bool auto_free) const;
  void launch() const noexcept;

 private:
  void collect(const Plan& plan);
  std::vector<std::shared_ptr<GraphBlock>> allocated_, freed_;
  std::vector<GraphBlock*> of_others_;  ///< freed here, allocated by another graph
};

/// Of one device, as cuDeviceGetGraphMemAttribute reports them.
struct GraphMemoryCounts {
  std::uint64_t used = 0, used_high = 0, reserved = 0, reserved_high = 0;
};
/// Calls `f` with the counters of a device, under their lock.
void with_graph_memory_counts(int device, const std::function<void(GraphMemoryCounts&)>& f);

/// cuMemFreeAsync and, with no stream, cuMemFree of memory that a graph allocated: false for other
/// memory. Fails with 1 when no launch has it allocated.
bool free_graph_memory(CUdeviceptr address, Stream* stream);

/// The operation that a node description asks for. Conditional nodes need the graph they go into.
Ref<NodeOp> make_node_op(CUgraphNodeParams& params);

}  // namespace cucpu::driver
