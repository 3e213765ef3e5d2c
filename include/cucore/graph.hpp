// SPDX-License-Identifier: Apache-2.0
// cucore/graph.hpp: work described once and launched many times.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cucore/abi/driver.h"
#include "cucore/context.hpp"
#include "cucore/copy.hpp"
#include "cucore/event.hpp"
#include "cucore/export.hpp"
#include "cucore/kernel.hpp"
#include "cucore/launch.hpp"
#include "cucore/owned.hpp"
#include "cucore/stream.hpp"

namespace cucore {

/// How a graph is made ready to launch.
struct GraphCompleteOptions {
  bool auto_free_on_launch = false;  ///< frees what the last launch allocated and did not free
  StreamRef upload_stream{};         ///< uploads the graph to the device there and then
  bool upload = false;               ///< whether upload_stream counts
  bool device_launch = false;        ///< kernels may launch it
  bool use_node_priority =
      false;  ///< nodes keep the priority of the stream they were captured from
};

/// A 1-D copy or fill inside a graph.
struct MemsetParams {
  CUdeviceptr dst = 0;        ///< where
  std::size_t pitch = 0;      ///< bytes from row to row
  unsigned value = 0;         ///< the pattern
  unsigned element_size = 1;  ///< bytes of the pattern: 1, 2 or 4
  std::size_t width = 0;      ///< elements of a row
  std::size_t height = 1;     ///< rows

  /// Makes these bytes the pattern. Throws std::invalid_argument unless they are 1, 2 or 4.
  CUCORE_EXPORT void set_pattern(std::span<const std::byte> bytes);
};

/// Whose memory an allocation node allocates.
enum class GraphMemoryType : unsigned char {
  device,  ///< the device's
  host,    ///< pinned memory of the host
  managed  ///< memory that moves between both
};

/// Memory that a graph allocates.
struct AllocParams {
  std::size_t size = 0;                            ///< in bytes
  GraphMemoryType type = GraphMemoryType::device;  ///< whose
  int device = 0;                                  ///< the number of the device
  std::vector<int> peers{};                        ///< other devices that can use it
};

namespace detail {
struct DestroyGraph {
  void operator()(CUgraph graph) const noexcept;
  void operator()(CUgraphExec graph) const noexcept;
};
using OwnedGraphExec = std::shared_ptr<std::remove_pointer_t<CUgraphExec>>;
/// One graph of the driver: a whole, a body of a conditional node, or the copy that a child node
/// runs.
struct GraphPart {
  CUgraph handle = nullptr;           // null once it is destroyed
  unsigned long long generation = 1;  // another one once its nodes have been replaced or destroyed
};
/// What a node uses: the driver's object, and the graph that holds it.
struct NodeUse {
  CUuserObject object = nullptr;
  CUgraph holder = nullptr;
};
/// What all copies of one GraphDefinition share. The graph is destroyed before the objects that it
/// keeps.
struct GraphBox {
  std::shared_ptr<GraphPart> part = std::make_shared<GraphPart>();
  // Of a whole graph, also for the graphs inside it:
  std::vector<std::pair<CUuserObject, std::shared_ptr<void>>> kept{};  // what keep() was given
  /// What keep_beside() was given and share() was not, and the node that uses it or null.
  std::vector<std::pair<CUgraphNode, std::shared_ptr<void>>> beside{};
  std::map<CUgraphNode, NodeUse> uses{};                                    // what use() was given
  std::map<CUgraphNode, std::vector<std::shared_ptr<GraphPart>>> inside{};  // graphs of a node
  std::map<CUgraphNode, CUgraphConditionalNodeType> conditional_types{};
  // A body of a conditional node, or a child graph, lives in its parent.
  std::shared_ptr<GraphBox> parent{};
  Owned<CUgraph, DestroyGraph> graph{};  // none for a part, and while it is captured
};
}  // namespace detail

class Graph;
using GraphOwners = std::vector<std::shared_ptr<void>>;  ///< what launches of a graph use

/// A graph that can still be changed. Copies share it. Nodes are the driver's handles, valid as
/// long as the graph.
class CUCORE_EXPORT GraphDefinition {
 public:
  GraphDefinition() = default;                   ///< Names none.
  static GraphDefinition create();               ///< an empty graph
  static GraphDefinition adopt(CUgraph handle);  ///< takes it over
  /// A view of a graph with another owner: a part of `parent`, or one that is being captured.
  static GraphDefinition view(CUgraph handle, const GraphDefinition& parent);
  /// A graph inside a node of this one: a body of a conditional node, or the copy that a child node
  /// runs. It names none once the node is destroyed.
  [[nodiscard]] GraphDefinition inside(CUgraphNode node, CUgraph handle) const;
  /// Takes a graph over whose capture has ended; all copies and parts follow. Null: it is gone.
  void own(CUgraph handle) noexcept;

  /// null when it names none
  [[nodiscard]] CUgraph handle() const noexcept { return box_ ? box_->part->handle : nullptr; }
  [[nodiscard]] bool is_valid() const noexcept { return handle() != nullptr; }  ///< names a graph
  /// Changes when its nodes have been replaced (set_child()) or destroyed with a node around it.
  [[nodiscard]] unsigned long long generation() const noexcept {
    return box_ ? box_->part->generation : 0;
  }

  using Nodes = std::span<const CUgraphNode>;
  /// Joins `after` and does nothing. All that add answer the new node.
  CUgraphNode add_empty(Nodes after);
  /// Runs a kernel; `arguments` are copied.
  CUgraphNode add_kernel(Nodes after, const LaunchConfig& config, const Kernel& kernel,
                         void** arguments);
  /// The same with arguments as for launch(), checked against the kernel, which the graph keeps.
  template <KernelArgument... Args>
  CUgraphNode add_launch(Nodes after, const LaunchConfig& config, const Kernel& kernel,
                         const Args&... args) {
    CUgraphNode node = nullptr;
    detail::with_arguments(
        kernel, [&](void** pointers) { node = add_kernel(after, config, kernel, pointers); },
        args...);
    use(node, kernel.state());
    return node;
  }
  /// Copies bytes between any two places.
  CUgraphNode add_memcpy(Nodes after, CUdeviceptr dst, CUdeviceptr src, std::size_t size);
  /// Any copy: rows at a distance, arrays; see copy_params().
  CUgraphNode add_memcpy(Nodes after, const CUDA_MEMCPY3D& copy);
  CUgraphNode add_memset(Nodes after, const MemsetParams& params);  ///< Repeats a pattern.
  /// Calls a function on the host, with no CUDA calls in it.
  CUgraphNode add_host(Nodes after, CUhostFn function, void* data);
  /// Adds a copy of `child`. Throws std::invalid_argument for what no driver can copy: this graph
  /// itself, and graphs with allocation, free or conditional nodes.
  CUgraphNode add_child(Nodes after, const GraphDefinition& child);
  /// Records an event; the caller keeps it.
  CUgraphNode add_event_record(Nodes after, EventRef event);
  /// Waits for an event; the caller keeps it.
  CUgraphNode add_event_wait(Nodes after, EventRef event);
  /// Records an event, which the graph keeps.
  CUgraphNode add_event_record(Nodes after, const Event& event);
  /// Waits for an event, which the graph keeps.
  CUgraphNode add_event_wait(Nodes after, const Event& event);
  /// Allocates memory; its address is known at once.
  std::pair<CUgraphNode, CUdeviceptr> add_alloc(Nodes after, const AllocParams& params);
  /// The same with the driver's parameters, which get the address.
  CUgraphNode add_alloc(Nodes after, CUDA_MEM_ALLOC_NODE_PARAMS& params);
  CUgraphNode add_free(Nodes after, CUdeviceptr ptr);  ///< Frees what add_alloc() allocated.
  /// Adds an if, while or switch node with `count` bodies, which it returns.
  CUgraphNode add_conditional(Nodes after, CUgraphConditionalHandle condition,
                              CUgraphConditionalNodeType type, unsigned count,
                              std::vector<CUgraph>& bodies);
  /// How a conditional node that add_conditional() added to this graph decides; nothing for others.
  [[nodiscard]] std::optional<CUgraphConditionalNodeType> conditional_type(CUgraphNode node) const;
  /// The graphs inside a node: the copy that a child node runs, or the bodies of such a conditional
  /// node.
  [[nodiscard]] std::vector<GraphDefinition> bodies(CUgraphNode node) const;
  /// What a conditional node decides by; kernels set it.
  [[nodiscard]] CUgraphConditionalHandle create_condition(unsigned default_value,
                                                          bool assign_default);
  /// Takes a node and its edges out, ends the graphs inside it, and releases what they used.
  void remove(CUgraphNode node);
  /// Another graph for a child node. Lets go of what the nodes of the old one used. Throws
  /// CUDAError for the graph that the node runs or is part of, which the driver would destroy while
  /// it reads it.
  void set_child(CUgraphNode node, const GraphDefinition& child);

  /// Keeps `owner` alive as long as this graph, every graph made from it and every launch of those:
  /// the driver counts. add_launch and the nodes of an Event do so by themselves; an address, a raw
  /// handle or a callback's data has no owner the graph could know, so name it here.
  CUuserObject keep(std::shared_ptr<void> owner);
  /// The same without the driver, which takes microseconds for every graph that keeps something:
  /// `owner` lives as long as this object and its copies. Call share() before you pass the
  /// driver's handle to other code; instantiate, update and add_child do not need it.
  void keep_beside(std::shared_ptr<void> owner, CUgraphNode node = nullptr);
  /// What a node uses from now on, or null: kept as by keep() until the node is destroyed, replaced
  /// with the graph it is in, or uses something else. Graphs already made from this one keep it.
  void use(CUgraphNode node, std::shared_ptr<void> owner);
  /// From now on the driver counts what keep_beside() was given, as if keep() had been.
  void share() const;
  /// The graph itself releases what keep() returned; graphs already made from it do not.
  void release(CUuserObject kept);

  [[nodiscard]] std::vector<CUgraphNode> nodes() const;  ///< all of them
  /// (before, after)
  [[nodiscard]] std::vector<std::pair<CUgraphNode, CUgraphNode>> edges() const;
  void add_edges(Nodes from, Nodes to);     ///< to[i] waits for from[i]
  void remove_edges(Nodes from, Nodes to);  ///< to[i] no longer waits for from[i]
  /// True when a node allocates memory that no node of the graph frees.
  [[nodiscard]] bool leaves_allocations() const;

  /// Makes it ready to launch; what the graph keeps, the result keeps too.
  [[nodiscard]] Graph instantiate(const GraphCompleteOptions& options = {}) const;
  /// The same, but moves what the graph keeps to `owners`: the caller keeps it until the last
  /// launch is done. The driver would take some microseconds for that at every launch.
  [[nodiscard]] Graph instantiate(const GraphCompleteOptions& options, GraphOwners& owners) const;
  /// Writes it in the DOT language.
  void debug_dot_print(const std::string& path, unsigned flags = 0) const;
  /// The same as a text.
  [[nodiscard]] std::string dot(unsigned flags = 0) const;

 private:
  friend class Graph;
  [[nodiscard]] Graph make(const GraphCompleteOptions& options) const;
  explicit GraphDefinition(std::shared_ptr<detail::GraphBox> box) : box_{std::move(box)} {}
  void copy_uses(CUgraphNode node, const GraphDefinition& child);
  void note_conditional(CUgraphNode node, CUgraphConditionalNodeType type);
  std::shared_ptr<detail::GraphBox> box_;
};

/// A graph ready to launch. Copies share it.
class CUCORE_EXPORT Graph {
 public:
  Graph() = default;                       ///< Closed.
  static Graph adopt(CUgraphExec handle);  ///< takes it over
  /// null when closed
  [[nodiscard]] CUgraphExec handle() const noexcept { return exec_.get(); }
  void launch(StreamRef stream) const;  ///< Runs the whole, ordered on the stream.
  /// Makes the device ready, so that the first launch is as fast as the others.
  void upload(StreamRef stream) const;
  /// Takes the parameters of a graph of the same shape over; throws with the reason when it cannot.
  void update(const GraphDefinition& source) const;
  /// The same, but moves what `source` keeps to `owners`, as instantiate() does.
  void update(const GraphDefinition& source, GraphOwners& owners) const;
  void close() noexcept { exec_.reset(); }  ///< releases it; copies keep it
  [[nodiscard]] bool is_closed() const noexcept { return exec_ == nullptr; }  ///< names none

 private:
  explicit Graph(detail::OwnedGraphExec exec) noexcept : exec_{std::move(exec)} {}
  void take_over(const GraphDefinition& source) const;
  detail::OwnedGraphExec exec_;
};

/// The parameters of a kernel node; `native.kernelParams` is `arguments`.
CUCORE_EXPORT CUDA_KERNEL_NODE_PARAMS kernel_node_params(const LaunchConfig& config,
                                                         const Kernel& kernel, void** arguments);
/// The parameters of a fill.
CUCORE_EXPORT CUDA_MEMSET_NODE_PARAMS memset_params(const MemsetParams& params);
/// What an allocation node allocates.
CUCORE_EXPORT AllocParams alloc_params(const CUDA_MEM_ALLOC_NODE_PARAMS& params);
/// Sets what a launch config says beyond grid and block (cluster, cooperation) on a kernel node.
CUCORE_EXPORT void set_kernel_node_attributes(CUgraphNode node, const LaunchConfig& config);

/// Drops what graphs have kept and no longer need. The driver says so on threads where CUDA must
/// not be called, so the owners wait for this; closing a graph and keep() do it too.
CUCORE_EXPORT void release_deferred_owners();
/// What the driver is given to say it no longer needs `data`, a std::shared_ptr<void>* made with
/// new.
CUCORE_EXPORT void CUDA_CB forget_owner(void* data);
/// Called, on any thread, when something waits for release_deferred_owners(); must not call CUDA.
CUCORE_EXPORT void set_release_hook(void (*notify)());

/// Captures what `work` queues on `stream` into a graph instead of running it.
CUCORE_EXPORT GraphDefinition capture(StreamRef stream, const std::function<void()>& work);

}  // namespace cucore
