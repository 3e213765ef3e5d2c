// SPDX-License-Identifier: Apache-2.0
// cucore/graph_node.hpp: references to graph nodes, to query and change their parameters.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cucore/abi/driver.h"
#include "cucore/copy.hpp"
#include "cucore/event.hpp"
#include "cucore/export.hpp"
#include "cucore/graph.hpp"
#include "cucore/kernel.hpp"
#include "cucore/launch.hpp"

namespace cucore {

/// Parameters of a kernel node.
struct KernelNodeParams {
  Dim3 grid{};                ///< number of blocks
  Dim3 block{};               ///< threads per block
  unsigned shmem_size = 0;    ///< dynamic shared memory per block, in bytes
  CUkernel kernel = nullptr;  ///< the kernel's handle
};

/// Parameters of a host node.
struct HostNodeParams {
  CUhostFn function = nullptr;  ///< the host function
  void* data = nullptr;         ///< argument of the function
};

/// A non-owning reference to a node of a graph definition. Pass by value; must not outlive the
/// graph. Functions for a node type other than the node's throw CUDAError.
class CUCORE_EXPORT GraphNodeRef {
 public:
  /// Refers to the node with handle `raw`.
  constexpr explicit GraphNodeRef(CUgraphNode raw) noexcept : raw_{raw} {}
  /// The driver's handle.
  [[nodiscard]] constexpr CUgraphNode handle() const noexcept { return raw_; }
  [[nodiscard]] CUgraphNodeType type() const;           ///< Returns the node type.
  [[nodiscard]] std::vector<CUgraphNode> pred() const;  ///< Returns the nodes it depends on.
  [[nodiscard]] std::vector<CUgraphNode> succ() const;  ///< Returns the nodes that depend on it.

  /// Returns the parameters of a kernel node.
  [[nodiscard]] KernelNodeParams kernel() const;
  /// Sets the parameters of a kernel node; `arguments` are copied.
  void set_kernel(const LaunchConfig& config, const Kernel& kernel, void** arguments) const;
  /// Returns the parameters of a memcpy node.
  [[nodiscard]] CUDA_MEMCPY3D memcpy() const;
  /// Replaces the given parameters of a memcpy node and keeps the others, as change_copy() does.
  void set_memcpy(std::optional<CopyEnd> dst, std::optional<CopyEnd> src,
                  std::optional<CopyExtent> extent) const;
  /// Returns the parameters of a memset node.
  [[nodiscard]] MemsetParams memset() const;
  /// Sets the parameters of a memset node.
  void set_memset(const MemsetParams& params) const;
  /// Returns the parameters of a host node.
  [[nodiscard]] HostNodeParams host() const;
  /// Sets the parameters of a host node.
  void set_host(const HostNodeParams& params) const;
  /// Returns the graph of a child graph node, which the node owns.
  [[nodiscard]] CUgraph child_graph() const;
  /// Replaces the graph of a child graph node in `home`. Throws CUDAError if `child` is the graph
  /// that the node runs or belongs to: the driver would destroy it while reading it.
  void set_child_graph(const GraphDefinition& home, const GraphDefinition& child) const;
  /// Returns the event of an event record or event wait node.
  [[nodiscard]] CUevent event() const;
  /// Sets the event of an event record or event wait node. The caller must keep it alive.
  void set_event(EventRef event) const;
  /// Returns the parameters of an allocation node.
  [[nodiscard]] CUDA_MEM_ALLOC_NODE_PARAMS allocation() const;
  /// Returns the address that a free node frees.
  [[nodiscard]] CUdeviceptr freed() const;
  /// Returns a description of the parameters, for example " dptr=0x7f00 value=1" or
  /// " dst=0x7f00(D) src=0x7e00(H) size=64", where D is device memory and H host memory; empty for
  /// node types without a description.
  [[nodiscard]] std::string text() const;

 private:
  CUgraphNode raw_;
};

/// A non-owning reference to a node of an executable graph, identified by the node of its
/// definition. Changes affect later launches. Must not outlive the executable graph or the
/// definition.
class CUCORE_EXPORT ExecutableNodeRef {
 public:
  /// `node` is the node of the definition.
  ExecutableNodeRef(CUgraphExec graph, GraphNodeRef node) noexcept : graph_{graph}, node_{node} {}
  /// Sets the parameters of a kernel node; `arguments` are copied.
  void set_kernel(const LaunchConfig& config, const Kernel& kernel, void** arguments) const;
  /// Sets the parameters of a memcpy node in the current context; those not given are the
  /// definition's.
  void set_memcpy(std::optional<CopyEnd> dst, std::optional<CopyEnd> src,
                  std::optional<CopyExtent> extent) const;
  /// Sets the parameters of a memset node.
  void set_memset(const MemsetParams& params) const;
  /// Sets the parameters of a host node.
  void set_host(const HostNodeParams& params) const;
  /// Replaces the graph of a child graph node.
  void set_child_graph(const GraphDefinition& child) const;
  /// Sets the event of an event record or event wait node.
  void set_event(EventRef event) const;
  /// Enables or disables the node; a disabled node is a no-op.
  void set_enabled(bool enabled) const;
  /// Returns whether the node runs in later launches.
  [[nodiscard]] bool is_enabled() const;

 private:
  CUgraphExec graph_;
  GraphNodeRef node_;
};

}  // namespace cucore
