// cpu/engine/simt/emit_tail.cpp: the group at the end of the grid, of which the first lanes alone
// go on. There is one such group in all, so how fast it is matters less than how fast it is
// compiled: a loop over its threads, one by one, where what is left to do is straight code.
#include <llvm/IR/CFG.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>

#include "cpu/engine/simt/emitter.hpp"
#include "cpu/engine/simt/markers.hpp"

namespace cucpu::simt {

using namespace llvm;

/// Whether a thread can do this alone.
bool Emitter::can_run_alone(Instruction& inst) const {
  if (auto* phi = dyn_cast<PHINode>(&inst)) return phi->getNumIncomingValues() == 1;
  if (isa<AllocaInst, FenceInst>(inst)) return false;
  for (Value* used : inst.operands())  // a structure of vectors has no lanes of its own
    if (used->getType()->isStructTy() && isa<Instruction>(used) &&
        cast<Instruction>(used)->getParent() != inst.getParent())
      return false;
  if (isa<AtomicRMWInst, AtomicCmpXchgInst>(inst)) return !is_shared(inst, inst.getOperand(0));
  if (StringRef name = marker_name(&inst); !name.empty())
    return (name.starts_with("sreg.") && !name.starts_with("sreg.lanemask") &&
            !name.starts_with("sreg.clock") && !name.starts_with("sreg.globaltimer") &&
            plan_.full[&inst].scalar()) ||
           name == "params" || name == "shared";
  return !isa<CallInst>(inst) || isa<IntrinsicInst>(inst);
}

/// Where lanes part at the end of `block` because the grid ends: runs those that go on, and ends
/// the group. False: nothing was written, they are left to masked code.
bool Emitter::emit_tail(BasicBlock* block) {
  auto* branch = cast<BranchInst>(block->getTerminator());
  if (regions_.size() != 1 || !ends_the_grid(block)) return false;
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
  leave_as_it_is(b_.CreateCondBr(b_.CreateICmpSLT(next, range.end), loop, after));
  b_.SetInsertPoint(after);
  leave_region(nullptr);
  return true;
}

}  // namespace cucpu::simt
