// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/if_convert.cpp
#include "cpu/engine/simt/if_convert.hpp"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SetVector.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/Analysis/PostDominators.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

namespace cucpu::simt {

using namespace llvm;

namespace {

constexpr std::int64_t kPage = 4096;                 // the smallest page size of a host
constexpr unsigned kInstructions = 12, kBlocks = 8;  // limits of the code that is speculated
constexpr unsigned kLookedAt = 64;                   // earlier accesses that are compared

/// An address as a base value and a constant offset in bytes.
struct Place {
  const Value* base;
  std::int64_t offset = 0;
};

Place place_of(const Value* address) {
  Place place{address};
  for (;;) {
    auto* sum = dyn_cast<AddOperator>(place.base);
    auto* number = sum ? dyn_cast<ConstantInt>(sum->getOperand(1)) : nullptr;
    if (auto* pointer = dyn_cast<IntToPtrInst>(place.base)) {
      place.base = pointer->getOperand(0);
    } else if (number && number->getBitWidth() == 64) {
      place.offset += number->getSExtValue();
      place.base = sum->getOperand(0);
    } else if (auto* gep = dyn_cast<GetElementPtrInst>(place.base)) {
      APInt bytes{64, 0};
      if (!gep->accumulateConstantOffset(gep->getModule()->getDataLayout(), bytes)) return place;
      place.offset += bytes.getSExtValue();
      place.base = gep->getPointerOperand();
    } else {
      return place;
    }
  }
}

struct Access {
  Place place;
  std::int64_t bytes;
};

std::int64_t bytes_of(Instruction& access) {
  return static_cast<std::int64_t>(access.getModule()
                                       ->getDataLayout()
                                       .getTypeStoreSize(getLoadStoreType(&access))
                                       .getFixedValue());
}

/// The accesses that a thread has executed at the end of `block`: those of its dominators.
SmallVector<Access> touched_before(BasicBlock* block, const DominatorTree& tree) {
  SmallVector<Access> found;
  for (auto* node = tree.getNode(block); node && found.size() < kLookedAt; node = node->getIDom())
    for (Instruction& inst : *node->getBlock())
      if (isa<LoadInst, StoreInst>(inst))
        found.push_back({place_of(getLoadStorePointerOperand(&inst)), bytes_of(inst)});
  return found;
}

bool cannot_fault(LoadInst& load, ArrayRef<Access> touched) {
  const Place at = place_of(load.getPointerOperand());
  const std::int64_t bytes = bytes_of(load), end = at.offset + bytes;
  bool aligned = false;  // as aligned as another access of the thread
  std::int64_t below = INT64_MIN, above = INT64_MAX;
  for (const Access& other : touched) {
    if (other.place.base != at.base) continue;
    const std::int64_t first = other.place.offset, last = first + other.bytes;
    aligned |= other.bytes == bytes && (first - at.offset) % bytes == 0;
    if (first <= at.offset) below = std::max(below, first);
    if (last >= end) above = std::min(above, last);
  }
  return aligned && below != INT64_MIN && above != INT64_MAX && above - below <= kPage;
}

bool is_cheap(const Instruction& inst) {
  switch (inst.getOpcode()) {
    case Instruction::FDiv:
    case Instruction::FRem:
    case Instruction::UDiv:
    case Instruction::SDiv:
    case Instruction::URem:
    case Instruction::SRem:
    case Instruction::Call:
    case Instruction::PHI:
    case Instruction::Alloca:
      return false;
    default:
      return isSafeToSpeculativelyExecute(&inst);
  }
}

/// The blocks from a branch to its reconvergence point, each after its predecessors.
class Choice {
 public:
  Choice(BasicBlock* from, const DominatorTree& tree, const PostDominatorTree& after)
      : from_{from} {
    auto* branch = dyn_cast<BranchInst>(from->getTerminator());
    auto* node = after.getNode(from);
    if (!branch || !branch->isConditional() || !node || !node->getIDom()) return;
    meet_ = node->getIDom()->getBlock();
    if (!meet_ || meet_ == from || !find(from)) return;
    std::reverse(between_.begin(), between_.end());
    fits_ = !between_.empty() && fits(tree);
  }

  explicit operator bool() const { return fits_; }

  void convert() {
    Instruction* end = from_->getTerminator();
    for (BasicBlock* block : between_)
      for (Instruction& inst : make_early_inc_range(*block))
        if (!inst.isTerminator()) {
          MDNode* space = inst.getMetadata("cucpu.space");
          inst.dropUBImplyingAttrsAndMetadata();  // which hold only on this side of the branch
          inst.setMetadata("cucpu.space", space);
          inst.moveBefore(end);
        }
    IRBuilder<> b{end};
    for (PHINode& phi : meet_->phis()) {
      DenseMap<BasicBlock*, Value*> known;
      Value* value = value_from(from_, phi, b, known);
      for (BasicBlock* block : between_)
        if (phi.getBasicBlockIndex(block) >= 0) phi.removeIncomingValue(block, false);
      if (phi.getBasicBlockIndex(from_) >= 0) phi.removeIncomingValue(from_, false);
      phi.addIncoming(value, from_);
    }
    BranchInst::Create(meet_, end->getIterator());
    end->eraseFromParent();
    for (BasicBlock* block : between_) block->dropAllReferences();
    for (BasicBlock* block : between_) block->eraseFromParent();
  }

 private:
  /// Collects blocks in post order; returns false for too many blocks or a loop.
  bool find(BasicBlock* block) {
    for (BasicBlock* next : successors(block)) {
      if (next == meet_) continue;
      if (next == from_ || open_.contains(next) || between_.size() + open_.size() >= kBlocks)
        return false;
      if (is_contained(between_, next)) continue;
      open_.insert(next);
      if (!find(next)) return false;
      open_.remove(next);
      between_.push_back(next);
    }
    return true;
  }

  bool fits(const DominatorTree& tree) const {
    SmallVector<Access> touched;
    unsigned instructions = 0, loads = 0;
    for (BasicBlock* block : between_) {
      if (!tree.dominates(from_, block) || !isa<BranchInst>(block->getTerminator())) return false;
      for (Instruction& inst : *block) {
        if (inst.isTerminator()) break;
        if (++instructions > kInstructions) return false;
        auto* load = dyn_cast<LoadInst>(&inst);
        if (!load && !is_cheap(inst)) return false;
        if (!load) continue;
        if (loads++ == 0) touched = touched_before(from_, tree);
        if (!load->isSimple() || !cannot_fault(*load, touched)) return false;
      }
    }
    return loads > 0;  // LLVM decides about branches without loads
  }

  Value* value_from(BasicBlock* block, PHINode& phi, IRBuilder<>& b,
                    DenseMap<BasicBlock*, Value*>& known) {
    if (Value* value = known.lookup(block)) return value;
    auto incoming = [&](BasicBlock* next) {
      return next == meet_ ? phi.getIncomingValueForBlock(block) : value_from(next, phi, b, known);
    };
    auto* branch = cast<BranchInst>(block->getTerminator());
    Value* value = incoming(branch->getSuccessor(0));
    if (branch->isConditional())
      if (Value* other = incoming(branch->getSuccessor(1)); other != value)
        value = b.CreateSelect(branch->getCondition(), value, other);
    return known[block] = value;
  }

  BasicBlock *from_, *meet_ = nullptr;
  SmallVector<BasicBlock*> between_;
  SmallSetVector<BasicBlock*, kBlocks> open_;
  bool fits_ = false;
};

}  // namespace

bool if_convert(Function& thread) {
  bool changed = false;
  for (bool again = true; again;) {
    again = false;
    const DominatorTree tree{thread};
    const PostDominatorTree after{thread};
    for (BasicBlock& block : thread)
      if (Choice choice{&block, tree, after}) {
        choice.convert();
        again = changed = true;
        break;  // the dominator trees are invalid
      }
  }
  return changed;
}

}  // namespace cucpu::simt
