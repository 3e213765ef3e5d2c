// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/partial_group_tail.cpp: the group at the end of the grid, of which only the
// first lanes continue. There is one such group, so compile time matters more than run time: a loop
// over its threads, if the remaining code is straight-line.
#include <llvm/IR/CFG.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>

#include "cpu/engine/simt/emitter.hpp"
#include "cpu/engine/simt/markers.hpp"

namespace cucpu::simt {

using namespace llvm;

/// Whether an instruction can be executed for a single lane.
bool PartialGroupEmitter::can_run_alone(Instruction& inst) const {
  if (auto* phi = dyn_cast<PHINode>(&inst)) return phi->getNumIncomingValues() == 1;
  if (isa<AllocaInst, FenceInst>(inst)) return false;
  for (Value* used : inst.operands())  // lanes of a structure cannot be extracted
    if (used->getType()->isStructTy() && isa<Instruction>(used) &&
        cast<Instruction>(used)->getParent() != inst.getParent())
      return false;
  if (isa<AtomicRMWInst, AtomicCmpXchgInst>(inst)) return !is_shared(inst, inst.getOperand(0));
  if (StringRef name = marker_name(&inst); !name.empty())
    return (name.starts_with("sreg.") && !name.starts_with("sreg.lanemask") &&
            !name.starts_with("sreg.clock") && !name.starts_with("sreg.globaltimer") &&
            plan_.full[&inst].scalar()) ||
           name == "params" || name == "shared" || name == "check.access";
  return !isa<CallInst>(inst) || isa<IntrinsicInst>(inst);
}

/// For lanes that diverge at the end of `block` because the grid ends: runs those that continue,
/// and ends the group. False: nothing was emitted, masked code handles them.
bool PartialGroupEmitter::emit_tail(BasicBlock* block) {
  auto* branch = cast<BranchInst>(block->getTerminator());
  if (parts_.regions.all().size() != 1 || !ends_the_grid(block)) return false;
  const bool on_yes = plain_exit(branch->getSuccessor(1)).found;
  if (!on_yes && !plain_exit(branch->getSuccessor(0)).found) return false;
  SmallVector<BasicBlock*> way;
  for (BasicBlock* at = branch->getSuccessor(on_yes ? 0 : 1); at; at = at->getSingleSuccessor()) {
    if (way.size() > 16 || (way.empty() && at->getSinglePredecessor() != block)) return false;
    way.push_back(at);
    for (Instruction& inst : *at)
      if (!inst.isTerminator() && !can_run_alone(inst)) return false;
  }
  if (!isa<ReturnInst>(way.back()->getTerminator())) return false;
  LaneRange range{b_.getInt64(0), b_.getInt64(width_), b_.getFalse()};
  if (!narrow_range(branch->getCondition(), on_yes, range)) return false;
  auto* broken = dyn_cast<ConstantInt>(range.broken);
  if (!broken || !broken->isZero()) return false;
  ++report_.tails;
  BasicBlock *before = b_.GetInsertBlock(), *loop = new_block(block->getName() + ".thread"),
             *after = new_block(block->getName() + ".tail");
  b_.CreateBr(loop);
  b_.SetInsertPoint(loop);
  PHINode* lane = b_.CreatePHI(b_.getInt64Ty(), 2);
  lane->addIncoming(range.first, before);
  LaneCopies made;
  for (BasicBlock* at : way) copy_for_lane(*at, lane, made);
  Value* next = b_.CreateAdd(lane, b_.getInt64(1));
  lane->addIncoming(next, b_.GetInsertBlock());
  parts_.regions.leave_as_it_is(b_.CreateCondBr(b_.CreateICmpSLT(next, range.end), loop, after));
  b_.SetInsertPoint(after);
  parts_.regions.leave_region(nullptr);
  return true;
}

}  // namespace cucpu::simt
