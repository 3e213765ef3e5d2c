// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/linearize.cpp: partial linearization.
#include "cpu/engine/simt/linearize.hpp"

#include <llvm/IR/CFG.h>
#include <llvm/IR/Instructions.h>

namespace cucpu::simt {

using namespace llvm;

Linear::Linear(const Flow& flow, const Shapes& shapes, bool partial_groups)
    : flow_{flow}, pending_(flow.size()), meets_(flow.size(), false) {
  if (partial_groups && flow.size() > 1)
    pending_[0].insert(flow.size() - 1);  // lanes beyond the end of the block have returned
  for (unsigned i = 0; i < flow.size(); ++i) {
    BasicBlock* block = flow.order[i];
    Loop* loop = flow.loop_of(block);
    if (loop && loop->getHeader() == block && shapes.diverges(loop)) {
      SmallVector<BasicBlock*> exits;
      loop->getExitBlocks(exits);  // lanes that left in earlier iterations wait there
      for (BasicBlock* exit : exits) pending_[i].insert(flow.at(exit));
    }
    const std::set<unsigned> waiting = pending_[i];
    if (!waiting.empty()) go(i, waiting);  // a block without active lanes is skipped
    std::set<unsigned> targets;
    for (BasicBlock* next : successors(block))
      if (!flow.is_back_edge(block, next)) targets.insert(flow.at(next));
    if (shapes.diverges(block)) {
      if (!targets.empty())
        go(i, targets);  // entered from code without masks: nothing else is pending
      targets.insert(waiting.begin(), waiting.end());
      if (!targets.empty()) go(i, targets);
    } else {
      for (unsigned target : targets) {
        std::set<unsigned> all = waiting;
        all.insert(target);
        go(i, all);
      }
    }
  }
}

void Linear::go(unsigned, std::set<unsigned> targets) {
  unsigned first = *targets.begin();
  targets.erase(targets.begin());
  pending_[first].insert(targets.begin(), targets.end());
  for (unsigned other : targets) meets_[other] = true;
}

BasicBlock* Linear::next(const BasicBlock* from, ArrayRef<BasicBlock*> targets) const {
  unsigned first = flow_.size();
  for (BasicBlock* target : targets) first = std::min(first, flow_.at(target));
  if (from && !pending(from).empty()) first = std::min(first, *pending(from).begin());
  return first == flow_.size() ? nullptr : flow_.order[first];
}

}  // namespace cucpu::simt
