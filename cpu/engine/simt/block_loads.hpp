// cpu/engine/simt/block_loads.hpp: loads that give all threads of a block the same value.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/DenseSet.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Instructions.h>

#include "cpu/engine/simt/flow.hpp"

namespace cucpu::simt {

/// Lane groups run a region (the code between two barriers) one after the other. A group that reads
/// a place after a group that has already written there sees the later value, so a load from an
/// address that is uniform over the block is uniform itself only if
/// - nothing in its regions writes to that memory, or
/// - it comes before the writes: on no path from the start of the region to the load is there one.
///   Block code makes such a load once for all groups: when the region is entered, if every thread
///   executes it and the address is known by then, else when the first group comes to it. That is
///   an order in which a GPU may run the threads, and the one that programs rely on which lack a
///   barrier after the load.
/// Atomic and volatile accesses and fences count as writes: what other blocks have written may be
/// visible to the threads after them.
class BlockLoads {
 public:
  explicit BlockLoads(const Flow&);

  /// Requires that the address is uniform over the block.
  [[nodiscard]] bool is_uniform(const llvm::LoadInst* load) const {
    return uniform_.contains(load);
  }
  /// The loads to be made once when the region that begins with `start` is entered, in order.
  [[nodiscard]] llvm::ArrayRef<llvm::LoadInst*> at_entry(const llvm::BasicBlock* start) const {
    return find(at_entry_, start);
  }
  /// The loads to be made once in that region, by the first group that comes to them.
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
