// SPDX-License-Identifier: Apache-2.0
// cucore/graph_node.hpp: one piece of work of a graph: what it does, and changing that.
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

/// A kernel in a graph.
struct KernelNodeParams {
  Dim3 grid{};                ///< blocks
  Dim3 block{};               ///< threads of a block
  unsigned shmem_size = 0;    ///< dynamic shared memory per block, in bytes
  CUkernel kernel = nullptr;  ///< what runs
};

/// A function of the host in a graph.
struct HostNodeParams {
  CUhostFn function = nullptr;  ///< what is called
  void* data = nullptr;         ///< with this
};

/// Names a node of a definition without owning it. Pass by value; must not outlive the graph. What
/// a node is asked must be of its type: the driver says so otherwise, by CUDAError.
class CUCORE_EXPORT GraphNodeRef {
 public:
  constexpr explicit GraphNodeRef(CUgraphNode raw) noexcept : raw_{raw} {}      ///< By its handle.
  [[nodiscard]] constexpr CUgraphNode handle() const noexcept { return raw_; }  ///< the driver's
  [[nodiscard]] CUgraphNodeType type() const;           ///< what kind of work it is
  [[nodiscard]] std::vector<CUgraphNode> pred() const;  ///< what it waits for
  [[nodiscard]] std::vector<CUgraphNode> succ() const;  ///< what waits for it

  [[nodiscard]] KernelNodeParams kernel() const;  ///< of a kernel node
  /// Another launch; `arguments` are copied.
  void set_kernel(const LaunchConfig& config, const Kernel& kernel, void** arguments) const;
  [[nodiscard]] CUDA_MEMCPY3D memcpy() const;  ///< of a copy
  /// Changes what is named and leaves the rest, as change_copy().
  void set_memcpy(std::optional<CopyEnd> dst, std::optional<CopyEnd> src,
                  std::optional<CopyExtent> extent) const;
  [[nodiscard]] MemsetParams memset() const;          ///< of a fill
  void set_memset(const MemsetParams& params) const;  ///< another fill
  [[nodiscard]] HostNodeParams host() const;          ///< of a function of the host
  void set_host(const HostNodeParams& params) const;  ///< another function
  [[nodiscard]] CUgraph child_graph() const;          ///< of a child graph: the node's own copy
  /// Another child graph, in a node of `home`. Throws CUDAError for the graph that the node runs or
  /// is part of, which the driver would destroy while it reads it.
  void set_child_graph(const GraphDefinition& home, const GraphDefinition& child) const;
  [[nodiscard]] CUevent event() const;   ///< that it records or waits for
  void set_event(EventRef event) const;  ///< another event; the caller keeps it
  [[nodiscard]] CUDA_MEM_ALLOC_NODE_PARAMS allocation() const;  ///< of an allocation
  [[nodiscard]] CUdeviceptr freed() const;                      ///< what a free node frees
  /// What it works on: " dptr=0x7f00 value=1"; " dst=0x7f00(D) src=0x7e00(H) size=64", where D is
  /// memory of a device and H of the host; empty where there is nothing to say.
  [[nodiscard]] std::string text() const;

 private:
  CUgraphNode raw_;
};

/// Names a node, of the definition, in a graph that was made from it: changes what the next
/// launches do. Must outlive neither.
class CUCORE_EXPORT ExecutableNodeRef {
 public:
  /// `node` is the definition's.
  ExecutableNodeRef(CUgraphExec graph, GraphNodeRef node) noexcept : graph_{graph}, node_{node} {}
  /// Another launch; `arguments` are copied.
  void set_kernel(const LaunchConfig& config, const Kernel& kernel, void** arguments) const;
  /// Another copy, in the current context; what is not named is the definition's.
  void set_memcpy(std::optional<CopyEnd> dst, std::optional<CopyEnd> src,
                  std::optional<CopyExtent> extent) const;
  void set_memset(const MemsetParams& params) const;         ///< another fill
  void set_host(const HostNodeParams& params) const;         ///< another function of the host
  void set_child_graph(const GraphDefinition& child) const;  ///< another child graph
  void set_event(EventRef event) const;                      ///< another event
  void set_enabled(bool enabled) const;                      ///< a disabled node does nothing
  [[nodiscard]] bool is_enabled() const;                     ///< runs in the next launches

 private:
  CUgraphExec graph_;
  GraphNodeRef node_;
};

}  // namespace cucore
