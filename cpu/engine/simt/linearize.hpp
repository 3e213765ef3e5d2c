// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/linearize.hpp: the order in which masked code runs the blocks of divergent lanes.
#pragma once

#include <set>
#include <vector>

#include "cpu/engine/simt/shape.hpp"

namespace cucpu::simt {

/// Partial linearization (Moll and Hack, 2018): uniform branches stay branches; at a divergent
/// branch control goes to the first target in block order, and the other targets are pending.
class Linear {
 public:
  Linear(const Flow&, const Shapes&, bool partial_groups);

  /// Blocks at which lanes may wait while `block` runs. Empty: all lanes that have not returned are
  /// in `block`.
  [[nodiscard]] const std::set<unsigned>& pending(const llvm::BasicBlock* block) const {
    return pending_[flow_.at(block)];
  }

  /// The next block when lanes continue at `targets` (never a loop header reached by a back edge).
  [[nodiscard]] llvm::BasicBlock* next(const llvm::BasicBlock* from,
                                       llvm::ArrayRef<llvm::BasicBlock*> targets) const;

  /// Whether divergent lanes may reconverge here.
  [[nodiscard]] bool reconverges(const llvm::BasicBlock* block) const {
    return pending(block).empty() && meets_[flow_.at(block)];
  }

 private:
  void go(unsigned from, std::set<unsigned> targets);

  const Flow& flow_;
  std::vector<std::set<unsigned>> pending_;
  std::vector<bool> meets_;
};

}  // namespace cucpu::simt
