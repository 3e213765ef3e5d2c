// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/flow.hpp: the control flow of prepared thread code: block order, loops, liveness.
#pragma once

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SetVector.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/PostDominators.h>
#include <llvm/IR/Dominators.h>

#include <vector>

namespace cucpu::simt {

using ValueSet = llvm::SmallSetVector<llvm::Value*, 16>;

/// Blocks in topological order, ignoring back edges. Every loop is contiguous, and the return comes
/// last.
class Flow {
 public:
  explicit Flow(llvm::Function&);

  [[nodiscard]] unsigned size() const { return static_cast<unsigned>(order.size()); }
  [[nodiscard]] unsigned at(const llvm::BasicBlock* block) const { return index.lookup(block); }
  [[nodiscard]] bool is_back_edge(const llvm::BasicBlock* from, const llvm::BasicBlock* to) const {
    return at(to) <= at(from);
  }
  [[nodiscard]] llvm::Loop* loop_of(const llvm::BasicBlock* block) const {
    return loops.getLoopFor(block);
  }
  [[nodiscard]] const ValueSet& live_in(const llvm::BasicBlock* block) const {
    return live_in_.find(block)->second;
  }

  llvm::Function& function;
  llvm::DominatorTree dominators;
  llvm::LoopInfo loops;
  llvm::PostDominatorTree post_dominators;
  std::vector<llvm::BasicBlock*> order;
  llvm::DenseMap<const llvm::BasicBlock*, unsigned> index;

 private:
  void place(const std::vector<llvm::BasicBlock*>& blocks, llvm::Loop* inside);
  void find_live_values();

  llvm::DenseMap<const llvm::BasicBlock*, ValueSet> live_in_;  // without the block's own phis
};

}  // namespace cucpu::simt
