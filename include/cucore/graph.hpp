// SPDX-License-Identifier: Apache-2.0
// cucore/graph.hpp: CUDA graphs: definitions, nodes and executable graphs.
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

/// Options for the instantiation of a graph.
struct GraphCompleteOptions {
  /// A launch frees memory that the previous launch allocated and did not free.
  bool auto_free_on_launch = false;
  StreamRef upload_stream{};   ///< stream of the upload; ignored unless `upload` is set
  bool upload = false;         ///< uploads the graph to the device at instantiation
  bool device_launch = false;  ///< kernels may launch the graph
  /// Nodes keep the priority of the stream they were captured from.
  bool use_node_priority = false;
};

/// Parameters of a memset node: rows filled with a pattern.
struct MemsetParams {
  CUdeviceptr dst = 0;        ///< destination address
  std::size_t pitch = 0;      ///< bytes from one row to the next
  unsigned value = 0;         ///< the pattern
  unsigned element_size = 1;  ///< size of the pattern in bytes: 1, 2 or 4
  std::size_t width = 0;      ///< elements per row
  std::size_t height = 1;     ///< number of rows

  /// Sets `value` and `element_size` from the bytes of a pattern. Throws std::invalid_argument
  /// unless there are 1, 2 or 4.
  CUCORE_EXPORT void set_pattern(std::span<const std::byte> bytes);
};

/// Kind of memory that an allocation node allocates.
enum class GraphMemoryType : unsigned char {
  device,  ///< device memory
  host,    ///< pinned host memory
  managed  ///< managed memory
};

/// Parameters of an allocation node.
struct AllocParams {
  std::size_t size = 0;                            ///< size in bytes
  GraphMemoryType type = GraphMemoryType::device;  ///< kind of memory
  int device = 0;                                  ///< the device's ordinal
  std::vector<int> peers{};                        ///< ordinals of other devices with access
};

namespace detail {
struct DestroyGraph {
  void operator()(CUgraph graph) const noexcept;
  void operator()(CUgraphExec graph) const noexcept;
};
using OwnedGraphExec = std::shared_ptr<std::remove_pointer_t<CUgraphExec>>;
/// A CUgraph: a root graph, a body of a conditional node, or the copy that a child graph node runs.
struct GraphPart {
  CUgraph handle = nullptr;           // null after destruction
  unsigned long long generation = 1;  // changes when the nodes are replaced or destroyed
};
/// The user object that a node uses, and the graph that holds a reference to it.
struct NodeUse {
  CUuserObject object = nullptr;
  CUgraph holder = nullptr;
};
/// State shared by all copies of a GraphDefinition. The graph is destroyed before the objects that
/// it keeps alive.
struct GraphBox {
  std::shared_ptr<GraphPart> part = std::make_shared<GraphPart>();
  // Used in root graphs only, also for the graphs inside them:
  std::vector<std::pair<CUuserObject, std::shared_ptr<void>>> kept{};  // owners passed to keep()
  /// Owners passed to keep_beside() and not yet transferred by share(), with the node that uses
  /// them or null.
  std::vector<std::pair<CUgraphNode, std::shared_ptr<void>>> beside{};
  std::map<CUgraphNode, NodeUse> uses{};  // owners passed to use()
  std::map<CUgraphNode, std::vector<std::shared_ptr<GraphPart>>> inside{};  // graphs inside a node
  std::map<CUgraphNode, CUgraphConditionalNodeType> conditional_types{};
  // The enclosing graph of a body of a conditional node or of a child graph.
  std::shared_ptr<GraphBox> parent{};
  Owned<CUgraph, DestroyGraph> graph{};  // null for a graph inside a node, and during capture
};
}  // namespace detail

class Graph;
using GraphOwners = std::vector<std::shared_ptr<void>>;  ///< owners of objects that launches use

/// A graph that can be modified. Copies share it. Nodes are handles of the driver, valid as long as
/// the graph.
class CUCORE_EXPORT GraphDefinition {
 public:
  GraphDefinition() = default;                   ///< Creates a null definition.
  static GraphDefinition create();               ///< Creates an empty graph.
  static GraphDefinition adopt(CUgraph handle);  ///< Takes ownership of `handle`.
  /// Creates a view of a graph with another owner: a graph inside a node of `parent`, or a graph
  /// that is being captured.
  static GraphDefinition view(CUgraph handle, const GraphDefinition& parent);
  /// Returns a graph inside a node of this graph: a body of a conditional node, or the copy that a
  /// child graph node runs. The result becomes null when the node is destroyed.
  [[nodiscard]] GraphDefinition inside(CUgraphNode node, CUgraph handle) const;
  /// Takes ownership of the graph of a capture that has ended, for all copies of this object. A
  /// null handle means that the graph was destroyed; the graphs inside it become null too.
  void own(CUgraph handle) noexcept;

  /// The driver's handle; null for a null definition.
  [[nodiscard]] CUgraph handle() const noexcept { return box_ ? box_->part->handle : nullptr; }
  /// True unless the definition is null.
  [[nodiscard]] bool is_valid() const noexcept { return handle() != nullptr; }
  /// Generation of the nodes: changes when they are replaced (set_child()) or destroyed with an
  /// enclosing node.
  [[nodiscard]] unsigned long long generation() const noexcept {
    return box_ ? box_->part->generation : 0;
  }

  using Nodes = std::span<const CUgraphNode>;
  /// Adds an empty node that depends on `after`. All add functions return the new node.
  CUgraphNode add_empty(Nodes after);
  /// Adds a kernel node; `arguments` are copied.
  CUgraphNode add_kernel(Nodes after, const LaunchConfig& config, const Kernel& kernel,
                         void** arguments);
  /// As add_kernel(), with arguments as for launch(), which are checked against the kernel's
  /// parameters. The graph keeps the kernel loaded.
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
  /// Adds a copy of `size` bytes between any two addresses.
  CUgraphNode add_memcpy(Nodes after, CUdeviceptr dst, CUdeviceptr src, std::size_t size);
  /// Adds any copy, for example of pitched memory or arrays; see copy_params().
  CUgraphNode add_memcpy(Nodes after, const CUDA_MEMCPY3D& copy);
  CUgraphNode add_memset(Nodes after, const MemsetParams& params);  ///< Adds a memset node.
  /// Adds a host node. `function` must not call CUDA.
  CUgraphNode add_host(Nodes after, CUhostFn function, void* data);
  /// Adds a child graph node with a copy of `child`. Throws std::invalid_argument for graphs that
  /// no driver can copy: this graph itself, and graphs with allocation, free or conditional nodes.
  CUgraphNode add_child(Nodes after, const GraphDefinition& child);
  /// Adds an event record node. The caller must keep the event alive.
  CUgraphNode add_event_record(Nodes after, EventRef event);
  /// Adds an event wait node. The caller must keep the event alive.
  CUgraphNode add_event_wait(Nodes after, EventRef event);
  /// Adds an event record node. The graph keeps the event alive.
  CUgraphNode add_event_record(Nodes after, const Event& event);
  /// Adds an event wait node. The graph keeps the event alive.
  CUgraphNode add_event_wait(Nodes after, const Event& event);
  /// Adds an allocation node. Returns the node and the address of the memory, which is fixed from
  /// now on.
  std::pair<CUgraphNode, CUdeviceptr> add_alloc(Nodes after, const AllocParams& params);
  /// As above, with the driver's parameters; `params.dptr` receives the address.
  CUgraphNode add_alloc(Nodes after, CUDA_MEM_ALLOC_NODE_PARAMS& params);
  /// Adds a free node for memory of add_alloc().
  CUgraphNode add_free(Nodes after, CUdeviceptr ptr);
  /// Adds a conditional node (if, while or switch) with `count` bodies, which are stored in
  /// `bodies`.
  CUgraphNode add_conditional(Nodes after, CUgraphConditionalHandle condition,
                              CUgraphConditionalNodeType type, unsigned count,
                              std::vector<CUgraph>& bodies);
  /// Returns the type of a conditional node that add_conditional() added to this graph; nullopt for
  /// other nodes.
  [[nodiscard]] std::optional<CUgraphConditionalNodeType> conditional_type(CUgraphNode node) const;
  /// Returns the graphs inside a node: the copy that a child graph node runs, or the bodies of a
  /// conditional node that add_conditional() added.
  [[nodiscard]] std::vector<GraphDefinition> bodies(CUgraphNode node) const;
  /// Creates a conditional handle: kernels set its value, conditional nodes read it. If
  /// `assign_default` is set, every launch starts with `default_value`.
  [[nodiscard]] CUgraphConditionalHandle create_condition(unsigned default_value,
                                                          bool assign_default);
  /// Removes a node and its edges, destroys the graphs inside it, and releases the objects that
  /// they use.
  void remove(CUgraphNode node);
  /// Replaces the graph of a child graph node, and releases the objects that the nodes of the old
  /// one use. Throws CUDAError if `child` is the graph that the node runs or belongs to: the driver
  /// would destroy it while reading it.
  void set_child(CUgraphNode node, const GraphDefinition& child);

  /// Keeps `owner` alive as long as this graph, every graph created from it and every launch of
  /// those. A user object of the driver counts the references; it is returned for release().
  /// add_launch() and the event nodes of an Event do this implicitly. The graph cannot determine
  /// the owner of an address, a raw handle or the data of a callback: pass it here.
  CUuserObject keep(std::shared_ptr<void> owner);
  /// As keep(), but without a user object, which costs microseconds for every graph that has one:
  /// `owner` lives as long as this object and its copies. Call share() before passing the driver's
  /// handle to other code; instantiate(), update() and add_child() do not need it.
  void keep_beside(std::shared_ptr<void> owner, CUgraphNode node = nullptr);
  /// Sets the owner of the object that a node uses; null for none. The owner is kept as by keep()
  /// until the node is destroyed, is replaced with the graph it is in, or uses another object.
  /// Graphs already created from this one keep it.
  void use(CUgraphNode node, std::shared_ptr<void> owner);
  /// Transfers the owners passed to keep_beside() to user objects, as if they had been passed to
  /// keep().
  void share() const;
  /// Releases a user object returned by keep() from this graph. Graphs already created from this
  /// one keep it.
  void release(CUuserObject kept);

  [[nodiscard]] std::vector<CUgraphNode> nodes() const;  ///< Returns all nodes.
  /// Returns the edges as pairs (from, to): `to` depends on `from`.
  [[nodiscard]] std::vector<std::pair<CUgraphNode, CUgraphNode>> edges() const;
  void add_edges(Nodes from, Nodes to);     ///< Makes to[i] depend on from[i].
  void remove_edges(Nodes from, Nodes to);  ///< Removes the dependency of to[i] on from[i].
  /// Returns whether a node allocates memory that no node of the graph frees.
  [[nodiscard]] bool leaves_allocations() const;

  /// Instantiates the graph. The executable graph keeps the same owners as this graph.
  [[nodiscard]] Graph instantiate(const GraphCompleteOptions& options = {}) const;
  /// As above, but the executable graph keeps no owners: they are appended to `owners`, which the
  /// caller must keep until the last launch is complete. This saves the microseconds that the
  /// driver needs for them at every launch.
  [[nodiscard]] Graph instantiate(const GraphCompleteOptions& options, GraphOwners& owners) const;
  /// Writes the graph to a file in the DOT language.
  void debug_dot_print(const std::string& path, unsigned flags = 0) const;
  /// Returns the graph in the DOT language.
  [[nodiscard]] std::string dot(unsigned flags = 0) const;

 private:
  friend class Graph;
  [[nodiscard]] Graph make(const GraphCompleteOptions& options) const;
  explicit GraphDefinition(std::shared_ptr<detail::GraphBox> box) : box_{std::move(box)} {}
  void copy_uses(CUgraphNode node, const GraphDefinition& child);
  void note_conditional(CUgraphNode node, CUgraphConditionalNodeType type);
  std::shared_ptr<detail::GraphBox> box_;
};

/// Owns an executable graph; copies share ownership.
class CUCORE_EXPORT Graph {
 public:
  Graph() = default;                       ///< Creates a closed graph.
  static Graph adopt(CUgraphExec handle);  ///< Takes ownership of `handle`.
  /// The driver's handle; null if the graph is closed.
  [[nodiscard]] CUgraphExec handle() const noexcept { return exec_.get(); }
  void launch(StreamRef stream) const;  ///< Launches the graph in stream order.
  /// Uploads the graph to the device in stream order, so that the first launch is as fast as later
  /// ones.
  void upload(StreamRef stream) const;
  /// Updates the node parameters from a graph with the same topology. Throws CUDAError with the
  /// reason if the update is not possible.
  void update(const GraphDefinition& source) const;
  /// As above, but appends the owners that `source` keeps to `owners`, as instantiate() does.
  void update(const GraphDefinition& source, GraphOwners& owners) const;
  /// Releases this reference; other copies keep the graph.
  void close() noexcept { exec_.reset(); }
  /// True for a closed graph, which refers to no graph of the driver.
  [[nodiscard]] bool is_closed() const noexcept { return exec_ == nullptr; }

 private:
  explicit Graph(detail::OwnedGraphExec exec) noexcept : exec_{std::move(exec)} {}
  void take_over(const GraphDefinition& source) const;
  detail::OwnedGraphExec exec_;
};

/// Returns the driver's parameters of a kernel node in the current context; `kernelParams` is
/// `arguments`.
CUCORE_EXPORT CUDA_KERNEL_NODE_PARAMS kernel_node_params(const LaunchConfig& config,
                                                         const Kernel& kernel, void** arguments);
/// Returns the driver's parameters of a memset node.
CUCORE_EXPORT CUDA_MEMSET_NODE_PARAMS memset_params(const MemsetParams& params);
/// Converts the driver's parameters of an allocation node.
CUCORE_EXPORT AllocParams alloc_params(const CUDA_MEM_ALLOC_NODE_PARAMS& params);
/// Sets the launch attributes of `config` (cluster, cooperative launch) on a kernel node.
CUCORE_EXPORT void set_kernel_node_attributes(CUgraphNode node, const LaunchConfig& config);

/// Destroys owners that no graph needs any more. The driver reports them on threads where CUDA
/// calls are not allowed, so their destruction is deferred to this call. The destruction of a graph
/// and keep() call it too.
CUCORE_EXPORT void release_deferred_owners();
/// Destructor callback for cuUserObjectCreate. `data` is a std::shared_ptr<void>* created with new.
/// Defers the destruction of the owner to release_deferred_owners().
CUCORE_EXPORT void CUDA_CB release_owner(void* data);
/// Sets a function that is called, on any thread, when an owner is deferred to
/// release_deferred_owners(). It must not call CUDA.
CUCORE_EXPORT void set_release_hook(void (*notify)());

/// Captures the work that `work` enqueues on `stream` into a graph, in relaxed capture mode.
CUCORE_EXPORT GraphDefinition capture(StreamRef stream, const std::function<void()>& work);

}  // namespace cucore
