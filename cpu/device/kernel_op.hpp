// cpu/device/kernel_op.hpp: a launch as a stream runs it and a graph keeps it.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cpu/device/module.hpp"
#include "cpu/exec/ops.hpp"

namespace cucpu::driver {

class KernelOp final : public NodeOp {
 public:
  CUgraphNodeType type() const noexcept override { return CU_GRAPH_NODE_TYPE_KERNEL; }
  Progress run(Task& task) override;

  Ref<LoadedModule> module;  ///< keeps the code while the launch is queued or the node exists
  Function* function = nullptr;
  cucpu::LaunchShape shape;
  cucpu::ParamBlock params;
  std::vector<CUlaunchAttribute> attributes;
  CUkernel given_kernel = nullptr;  ///< when a graph node was described by a CUkernel
  /// The description of a graph node; its pointers live as long as this object.
  [[nodiscard]] CUDA_KERNEL_NODE_PARAMS node_params();
  /// One run of it in a context. Throws LoadError when it does not compile.
  [[nodiscard]] std::unique_ptr<cucpu::Launch> make_launch(Context& context) const;

 private:
  std::vector<void*> pointers_;

 public:
  /// Made at the call so that a stream's launch reports compile errors there; a graph makes one per
  /// run.
  std::unique_ptr<cucpu::Launch> ready;
};

/// Everything a launch needs to be checked: exact codes for bad shapes, sizes, handles and
/// parameters.
Ref<KernelOp> make_kernel(CUfunction handle, const CUlaunchConfig& config, void** kernel_params,
                          void** extra, bool cooperative);

/// The same for a graph node's description, with the node's attributes.
Ref<KernelOp> make_kernel(const CUDA_KERNEL_NODE_PARAMS& params,
                          std::vector<CUlaunchAttribute> attributes = {});

/// The limit of blocks that a cooperative launch may have.
std::uint64_t cooperative_limit(const Function& function, const cucpu::LaunchShape& shape);

/// cuOccupancyMaxActiveBlocksPerMultiprocessor's answer.
unsigned blocks_per_sm(const cucpu::KernelInfo& info, unsigned threads, std::size_t dynamic_shared);

/// How many clusters run at once on groups of so many multiprocessors each (a GPU's processing
/// clusters), of which one holds `blocks` blocks: a cluster stays within a group that has a
/// multiprocessor for each of its blocks, and of clusters a multiprocessor takes eight blocks at
/// most. So an H200 answers.
std::uint64_t active_clusters(std::span<const unsigned> processors, unsigned blocks,
                              unsigned cluster);

}  // namespace cucpu::driver
