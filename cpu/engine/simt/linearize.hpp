// cpu/engine/simt/linearize.hpp: in which order masked code runs the blocks that the lanes of a
// group pass apart.
#pragma once

#include <set>
#include <vector>

#include "cpu/engine/simt/shape.hpp"

namespace cucpu::simt {

/// Partial linearization (after Moll and Hack, 2018): uniform branches stay; where lanes part,
/// control goes to the first target in block order and the other targets stay pending until their
/// turn comes.
class Linear {
 public:
  Linear(const Flow&, const Shapes&, bool partial_groups);

  /// Blocks at which lanes may wait while `block` runs. Empty: every lane that has not returned is
  /// in `block`.
  [[nodiscard]] const std::set<unsigned>& pending(const llvm::BasicBlock* block) const {
    return pending_[flow_.at(block)];
  }

  /// Where control goes when lanes head for `targets` (never a loop header reached by a back edge).
  [[nodiscard]] llvm::BasicBlock* next(const llvm::BasicBlock* from,
                                       llvm::ArrayRef<llvm::BasicBlock*> targets) const;

  /// Lanes that parted may all be together again here.
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
