// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/block_loads.hpp: loads whose result is uniform over a block.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/DenseSet.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Instructions.h>

#include "cpu/engine/simt/flow.hpp"

namespace cucpu::simt {

/// Lane groups run a region (the code between two barriers) one after the other. A group that loads
/// after another group has stored to the address reads the stored value. So a load from an address
/// that is uniform over the block has a uniform result only if
/// - nothing in its regions writes to that memory, or
/// - no path from the start of the region to the load has a write. Block code executes such a load
/// once
///   for all groups: at the entry of the region, if every thread executes it and the address is
///   known there, else in the first group that reaches it. A GPU may run the threads in this order,
///   and programs without a barrier after the load rely on it.
/// Atomic and volatile accesses and fences count as writes, because writes of other blocks may be
/// visible after them.
class BlockLoads {
 public:
  explicit BlockLoads(const Flow&);

  /// Requires that the address is uniform over the block.
  [[nodiscard]] bool is_uniform(const llvm::LoadInst* load) const {
    return uniform_.contains(load);
  }
  /// Loads to execute once at the entry of the region that begins with `start`, in order.
  [[nodiscard]] llvm::ArrayRef<llvm::LoadInst*> at_entry(const llvm::BasicBlock* start) const {
    return find(at_entry_, start);
  }
  /// Loads to execute once in that region, by the first group that reaches them.
  [[nodiscard]] llvm::ArrayRef<llvm::LoadInst*> by_first_group(
      const llvm::BasicBlock* start) const {
    return find(by_first_group_, start);
  }

 private:
  using LoadsOfRegion =
      llvm::DenseMap<const llvm::BasicBlock*, llvm::SmallVector<llvm::LoadInst*, 2>>;
  static llvm::ArrayRef<llvm::LoadInst*> find(const LoadsOfRegion& loads,
                                              const llvm::BasicBlock* start) {
    auto found = loads.find(start);
    return found == loads.end() ? llvm::ArrayRef<llvm::LoadInst*>{} : found->second;
  }

  llvm::DenseSet<const llvm::LoadInst*> uniform_;
  LoadsOfRegion at_entry_, by_first_group_;
};

}  // namespace cucpu::simt
