// SPDX-License-Identifier: Apache-2.0
// cpu/device/kernel_op.hpp: kernel launches as operations of streams and graph nodes.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cpu/device/module.hpp"
#include "cpu/exec/ops.hpp"

namespace cucpu::driver {

class KernelOp final : public NodeOp {
 public:
  CUgraphNodeType type() const noexcept override { return CU_GRAPH_NODE_TYPE_KERNEL; }
  Progress run(Task& task) override;
  [[nodiscard]] trace::Label label() const override;

  Ref<LoadedModule> module;  ///< keeps the code while the launch is queued or the node exists
  Function* function = nullptr;
  cucpu::LaunchShape shape;
  cucpu::ParamBlock params;
  std::vector<CUlaunchAttribute> attributes;
  struct Handles {
    CUfunction function;
    CUkernel kernel;
  };
  /// Those that a graph node was described with. A captured launch has none: it is described by
  /// its function and, in a library, by the kernel.
  std::optional<Handles> given;
  /// The description of a graph node; its pointers live as long as this object.
  [[nodiscard]] CUDA_KERNEL_NODE_PARAMS node_params();
  /// Makes one launch in a context. Throws LoadError when the kernel does not compile.
  [[nodiscard]] std::unique_ptr<cucpu::Launch> make_launch(Context& context) const;

 private:
  std::vector<void*> pointers_;

 public:
  /// Made during the call, so that a launch in a stream reports compile errors there; a graph makes
  /// one per run.
  std::unique_ptr<cucpu::Launch> ready;
};

/// Checks all parameters of a launch and makes its operation.
Ref<KernelOp> make_kernel(CUfunction handle, const CUlaunchConfig& config, void** kernel_params,
                          void** extra, bool cooperative);

/// The same for a graph node's description, with the node's attributes.
Ref<KernelOp> make_kernel(const CUDA_KERNEL_NODE_PARAMS& params,
                          std::vector<CUlaunchAttribute> attributes = {});

/// The largest number of blocks of a cooperative launch.
std::uint64_t cooperative_limit(const Function& function, const cucpu::LaunchShape& shape);

/// The result of cuOccupancyMaxActiveBlocksPerMultiprocessor.
unsigned blocks_per_sm(const Limits& limits, const cucpu::KernelInfo& info, unsigned threads,
                       std::size_t dynamic_shared);

/// The number of clusters that run concurrently. `processors` has the number of multiprocessors of
/// each group (a GPU's processing clusters), and a multiprocessor holds `blocks` blocks. A cluster
/// stays within a group that has a multiprocessor for each of its blocks; a multiprocessor runs at
/// most eight blocks of clusters. This is the rule of an H200.
std::uint64_t active_clusters(std::span<const unsigned> processors, unsigned blocks,
                              unsigned cluster);

}  // namespace cucpu::driver
