// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/flow.cpp: block order and liveness.
#include "cpu/engine/simt/flow.hpp"

#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Instructions.h>

namespace cucpu::simt {

using namespace llvm;

Flow::Flow(Function& f) : function{f}, dominators{f}, loops{dominators}, post_dominators{f} {
  ReversePostOrderTraversal<Function*> rpo{&f};
  place({rpo.begin(), rpo.end()}, nullptr);
  find_live_values();
}

// A block between two blocks of a loop that it is not part of cannot lead back into that loop,
// because control flow is reducible. So it may move after the loop.
void Flow::place(const std::vector<BasicBlock*>& blocks, Loop* inside) {
  for (BasicBlock* block : blocks) {
    if (index.count(block)) continue;
    Loop* loop = loops.getLoopFor(block);
    while (loop && loop != inside && loop->getParentLoop() != inside) loop = loop->getParentLoop();
    if (loop && loop != inside) {
      std::vector<BasicBlock*> body;
      for (BasicBlock* other : blocks)
        if (loop->contains(other)) body.push_back(other);
      place(body, loop);
    } else {
      index[block] = static_cast<unsigned>(order.size());
      order.push_back(block);
    }
  }
}

void Flow::find_live_values() {
  for (BasicBlock* block : order) live_in_[block];
  bool changed = true;
  while (changed) {
    changed = false;
    for (unsigned i = size(); i-- > 0;) {
      BasicBlock* block = order[i];
      ValueSet live;
      for (BasicBlock* next : successors(block)) {
        for (Value* v : live_in_[next]) live.insert(v);
        for (PHINode& phi : next->phis())
          if (auto* v = dyn_cast<Instruction>(phi.getIncomingValueForBlock(block))) live.insert(v);
      }
      for (Instruction& inst : llvm::reverse(*block)) {
        live.remove(&inst);
        if (isa<PHINode>(inst)) continue;
        for (Value* operand : inst.operands())
          if (isa<Instruction>(operand)) live.insert(operand);
      }
      ValueSet& known = live_in_[block];
      for (Value* v : live) changed |= known.insert(v);
    }
  }
}

}  // namespace cucpu::simt
