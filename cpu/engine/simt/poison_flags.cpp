// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/poison_flags.cpp
#include "cpu/engine/simt/poison_flags.hpp"

#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/DomConditionCache.h>
#include <llvm/Analysis/LazyValueInfo.h>
#include <llvm/Analysis/SimplifyQuery.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/ConstantRange.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Operator.h>
#include <llvm/Support/KnownBits.h>

#include "cpu/engine/simt/analyses.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

bool has_integer_flags(const Instruction& inst) {
  return isa<OverflowingBinaryOperator, PossiblyExactOperator, PossiblyDisjointInst,
             PossiblyNonNegInst, TruncInst>(inst);
}

class Prover {
 public:
  explicit Prover(Function& thread)
      : layout_{thread.getParent()->getDataLayout()},
        tree_{analyses_.functions.getResult<DominatorTreeAnalysis>(thread)},
        assumptions_{analyses_.functions.getResult<AssumptionAnalysis>(thread)},
        ranges_{analyses_.functions.getResult<LazyValueAnalysis>(thread)} {
    for (BasicBlock& block : thread)
      if (auto* branch = dyn_cast<BranchInst>(block.getTerminator());
          branch && branch->isConditional())
        conditions_.registerBranch(branch);
  }

  /// Sets the flags that hold; returns whether one is new.
  bool set_flags(Instruction& inst) {
    if (isa<OverflowingBinaryOperator>(inst)) return set_no_wrap(inst);
    if (isa<PossiblyNonNegInst>(inst)) {
      if (inst.hasNonNeg() || !range(inst.getOperand(0), inst, true).isAllNonNegative())
        return false;
      inst.setNonNeg();
      return true;
    }
    if (auto* either = dyn_cast<PossiblyDisjointInst>(&inst)) {
      if (either->isDisjoint() || !KnownBits::haveNoCommonBitsSet(known(inst.getOperand(0), inst),
                                                                  known(inst.getOperand(1), inst)))
        return false;
      either->setIsDisjoint(true);
      return true;
    }
    if (inst.isShift()) {  // right shift: only zeros are shifted out
      auto* by = dyn_cast<ConstantInt>(inst.getOperand(1));
      if (!by || inst.isExact() ||
          by->getValue().ugt(known(inst.getOperand(0), inst).countMinTrailingZeros()))
        return false;
      inst.setIsExact(true);
      return true;
    }
    return false;
  }

 private:
  // The range of a value for threads that reach `at`; assumptions from its uses do not count. What
  // branches say about an operand holds for a sum or product that was computed before them.
  ConstantRange dominating_range(Value* value, Instruction& at, unsigned depth = 0) {
    constexpr unsigned kDepth = 4;
    const ConstantRange range = ranges_.getConstantRange(value, &at, /*UndefAllowed=*/false);
    auto* inst = dyn_cast<BinaryOperator>(value);
    if (!inst || depth == kDepth || !isa<ConstantInt>(inst->getOperand(1))) return range;
    switch (inst->getOpcode()) {
      case Instruction::Add:
      case Instruction::Sub:
      case Instruction::Mul:
      case Instruction::Shl:
      case Instruction::LShr:
        break;
      default:
        return range;
    }
    return range.intersectWith(
        dominating_range(inst->getOperand(0), at, depth + 1)
            .binaryOp(inst->getOpcode(),
                      ConstantRange{cast<ConstantInt>(inst->getOperand(1))->getValue()}));
  }
  KnownBits known(Value* value, Instruction& at) {
    const SimplifyQuery facts{layout_,
                              nullptr,
                              &tree_,
                              &assumptions_,
                              &at,
                              /*UseInstrInfo=*/true,
                              /*CanUseUndef=*/false,
                              &conditions_};
    return computeKnownBits(value, 0, facts).unionWith(dominating_range(value, at).toKnownBits());
  }
  ConstantRange range(Value* value, Instruction& at, bool is_signed) {
    const auto kind = is_signed ? ConstantRange::Signed : ConstantRange::Unsigned;
    return dominating_range(value, at).intersectWith(
        ConstantRange::fromKnownBits(known(value, at), is_signed), kind);
  }

  bool set_no_wrap(Instruction& inst) {
    if (inst.hasNoSignedWrap() && inst.hasNoUnsignedWrap()) return false;
    const auto opcode = static_cast<Instruction::BinaryOps>(inst.getOpcode());
    const auto holds = [&](bool is_signed) {
      const unsigned flag = is_signed ? OverflowingBinaryOperator::NoSignedWrap
                                      : OverflowingBinaryOperator::NoUnsignedWrap;
      return ConstantRange::makeGuaranteedNoWrapRegion(
                 opcode, range(inst.getOperand(1), inst, is_signed), flag)
          .contains(range(inst.getOperand(0), inst, is_signed));
    };
    bool changed = false;
    if (!inst.hasNoSignedWrap() && holds(true)) {
      inst.setHasNoSignedWrap();
      changed = true;
    }
    if (!inst.hasNoUnsignedWrap() && holds(false)) {
      inst.setHasNoUnsignedWrap();
      changed = true;
    }
    return changed;
  }

  Analyses analyses_;
  const DataLayout& layout_;
  DominatorTree& tree_;
  AssumptionCache& assumptions_;
  LazyValueInfo& ranges_;
  DomConditionCache conditions_;
};

/// LLVM writes a sum as `or disjoint` where a branch tells that both numbers have no common bit.
/// Other threads execute it too when their group does, and the sum is contiguous for all of them.
void restore_sums(Function& thread) {
  const DataLayout& layout = thread.getParent()->getDataLayout();
  const auto bits_of = [&](const Value* value) {
    return computeKnownBits(value, layout, 0, nullptr, nullptr, nullptr, /*UseInstrInfo=*/false);
  };
  for (Instruction& inst : make_early_inc_range(instructions(thread))) {
    auto* either = dyn_cast<PossiblyDisjointInst>(&inst);
    if (!either || !either->isDisjoint() ||
        KnownBits::haveNoCommonBitsSet(bits_of(inst.getOperand(0)), bits_of(inst.getOperand(1))))
      continue;
    auto* sum = BinaryOperator::CreateAdd(inst.getOperand(0), inst.getOperand(1), "", &inst);
    sum->setDebugLoc(inst.getDebugLoc());
    sum->takeName(&inst);
    inst.replaceAllUsesWith(sum);
    inst.eraseFromParent();
  }
}

}  // namespace

void rederive_poison_flags(Function& thread) {
  // One flag may prove another, also around a loop. A third round rarely finds more.
  constexpr unsigned kRounds = 2;
  restore_sums(thread);
  SmallVector<Instruction*> flagged;
  for (BasicBlock* block : ReversePostOrderTraversal<Function*>{&thread})
    for (Instruction& inst : *block)
      if (has_integer_flags(inst) && inst.getType()->isIntOrIntVectorTy()) {
        inst.dropPoisonGeneratingFlags();
        flagged.push_back(&inst);
      }
  if (flagged.empty()) return;
  Prover prover{thread};
  for (unsigned round = 0; round < kRounds; ++round) {
    bool changed = false;
    for (Instruction* inst : flagged) changed |= prover.set_flags(*inst);
    if (!changed) break;
  }
}

}  // namespace cucpu::simt
