// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/jam_groups.cpp
#include "cpu/engine/simt/jam_groups.hpp"

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/MemoryLocation.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/ScalarEvolutionExpressions.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DataLayout.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <algorithm>
#include <optional>

#include "cpu/engine/simt/analyses.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

constexpr unsigned kMostInstructions = 400;
constexpr unsigned kMostCopies = 4;

class Jammer {
 public:
  Jammer(Loop& loop, ScalarEvolution& evolution, const TargetTransformInfo& target)
      : loop_{loop},
        body_{loop.getHeader()},
        evolution_{evolution},
        layout_{body_->getModule()->getDataLayout()},
        registers_{target.getNumberOfRegisters(target.getRegisterClassForType(true))},
        register_bits_{
            target.getRegisterBitWidth(TargetTransformInfo::RGK_FixedWidthVector).getFixedValue()} {
  }

  bool run() {
    if (loop_.getNumBlocks() != 1 || !loop_.isInnermost() || body_->size() > kMostInstructions ||
        !find_counter() || !is_worth_it() || !are_independent())
      return false;
    rewrite();
    return true;
  }

 private:
  /// One phi, which counts iterations; nothing else is carried from one to the next.
  bool find_counter() {
    counter_ = dyn_cast<PHINode>(&body_->front());
    auto* branch = dyn_cast<BranchInst>(body_->getTerminator());
    if (!counter_ || isa<PHINode>(counter_->getNextNode()) || !loop_.getLoopPredecessor() ||
        !counter_->getType()->isIntegerTy() || !branch || !branch->isConditional())
      return false;
    next_ = dyn_cast<BinaryOperator>(counter_->getIncomingValueForBlock(body_));
    test_ = dyn_cast<ICmpInst>(branch->getCondition());
    if (!next_ || next_->getOpcode() != Instruction::Add || next_->getOperand(0) != counter_ ||
        !next_->hasNUses(2) || !test_ || !test_->hasOneUse() || !test_->isEquality() ||
        test_->getOperand(0) != next_)
      return false;
    auto* start =
        dyn_cast<ConstantInt>(counter_->getIncomingValueForBlock(loop_.getLoopPredecessor()));
    auto* step = dyn_cast<ConstantInt>(next_->getOperand(1));
    auto* end = dyn_cast<ConstantInt>(test_->getOperand(1));
    if (!start || !step || !end || start->getBitWidth() > 64) return false;
    const std::int64_t distance = end->getSExtValue() - start->getSExtValue();
    step_ = step->getSExtValue();
    if (step_ <= 0 || distance <= 0 || distance % step_ != 0) return false;
    trips_ = static_cast<std::uint64_t>(distance / step_);
    for (Instruction& inst : *body_)
      for (User* user : inst.users())
        if (cast<Instruction>(user)->getParent() != body_) return false;
    return true;
  }

  unsigned registers_of(const Type* type) const {
    if (!isa<FixedVectorType>(type)) return 0;
    const auto bits = layout_.getTypeSizeInBits(const_cast<Type*>(type)).getFixedValue();
    return static_cast<unsigned>((bits + register_bits_ - 1) / register_bits_);
  }

  /// The invariant vectors do not fit, and what some iterations compute does.
  bool is_worth_it() {
    SmallPtrSet<const Value*, 32> shared;
    unsigned needed = 0, largest = 1;
    for (Instruction& inst : *body_) {
      largest = std::max(largest, registers_of(inst.getType()));
      for (const Value* operand : inst.operands())
        if (!isa<Constant>(operand) && loop_.isLoopInvariant(operand) &&
            shared.insert(operand).second)
          needed += registers_of(operand->getType());
    }
    if (needed <= registers_) return false;
    copies_ = kMostCopies;
    while (copies_ > 1 && (copies_ * largest > registers_ / 2 || trips_ % copies_ != 0))
      copies_ /= 2;
    return copies_ > 1;
  }

  /// No iteration accesses memory that one of the next three or the last three writes.
  bool are_independent() {
    SmallVector<Instruction*> accesses;
    for (Instruction& inst : *body_) {
      if (auto* load = dyn_cast<LoadInst>(&inst)) {
        if (!load->isSimple()) return false;
        accesses.push_back(load);
      } else if (auto* store = dyn_cast<StoreInst>(&inst)) {
        if (!store->isSimple()) return false;
        accesses.push_back(store);
      } else if (inst.mayReadOrWriteMemory() || inst.mayHaveSideEffects()) {
        return false;
      }
    }
    for (Instruction* one : accesses)
      for (Instruction* other : accesses)
        if (isa<StoreInst>(one) && !are_apart(one, other)) return false;
    return true;
  }

  bool are_apart(Instruction* store, Instruction* other) {
    const MemoryLocation here = MemoryLocation::get(store), there = MemoryLocation::get(other);
    if (store != other && never_alias(store, other)) return true;
    const auto* from = dyn_cast<SCEVAddRecExpr>(evolution_.getSCEV(const_cast<Value*>(here.Ptr)));
    const auto* to = dyn_cast<SCEVAddRecExpr>(evolution_.getSCEV(const_cast<Value*>(there.Ptr)));
    if (!from || !to || from->getLoop() != &loop_ || to->getLoop() != &loop_ ||
        from->getStepRecurrence(evolution_) != to->getStepRecurrence(evolution_) ||
        !here.Size.isPrecise() || !there.Size.isPrecise())
      return false;
    const auto* step = dyn_cast<SCEVConstant>(from->getStepRecurrence(evolution_));
    const auto* gap = dyn_cast<SCEVConstant>(evolution_.getMinusSCEV(to, from));
    if (!step || !gap) return false;
    const std::int64_t by = step->getAPInt().getSExtValue(), first = gap->getAPInt().getSExtValue();
    const auto bytes = static_cast<std::int64_t>(here.Size.getValue()),
               other_bytes = static_cast<std::int64_t>(there.Size.getValue());
    for (std::int64_t j = 1; j < copies_; ++j)
      for (const std::int64_t distance : {first + j * by, first - j * by})
        if (distance < bytes && -distance < other_bytes) return false;
    return true;
  }

  /// By their alias scopes, which hold in all iterations. What follows from addresses does not.
  static bool never_alias(const Instruction* one, const Instruction* other) {
    const auto excludes = [](const Instruction* a, const Instruction* b) {
      const MDNode *scopes = a->getMetadata(LLVMContext::MD_alias_scope),
                   *excluded = b->getMetadata(LLVMContext::MD_noalias);
      if (!scopes || !excluded) return false;
      return all_of(scopes->operands(), [&](const MDOperand& scope) {
        return is_contained(excluded->operands(), scope);
      });
    };
    return excludes(one, other) || excludes(other, one);
  }

  void rewrite() {
    SmallVector<Instruction*> originals;
    for (Instruction& inst : *body_)
      if (&inst != counter_ && &inst != next_ && &inst != test_ && !inst.isTerminator())
        originals.push_back(&inst);
    IRBuilder<> b{body_, body_->getFirstInsertionPt()};
    ValueToValueMapTy maps[kMostCopies - 1];
    for (unsigned j = 1; j < copies_; ++j)
      maps[j - 1][counter_] = b.CreateAdd(
          counter_, ConstantInt::get(counter_->getType(), static_cast<std::uint64_t>(step_) * j));
    for (Instruction* inst : originals) {
      Instruction* last = inst;
      for (auto& map : MutableArrayRef{maps, copies_ - 1}) {
        Instruction* copy = inst->clone();
        copy->insertAfter(last);
        RemapInstruction(copy, map, RF_IgnoreMissingLocals | RF_NoModuleLevelChanges);
        map[inst] = copy;
        last = copy;
      }
    }
    next_->setOperand(
        1, ConstantInt::get(next_->getType(), static_cast<std::uint64_t>(step_) * copies_));
  }

  Loop& loop_;
  BasicBlock* body_;
  ScalarEvolution& evolution_;
  const DataLayout& layout_;
  unsigned registers_;
  std::uint64_t register_bits_;
  PHINode* counter_ = nullptr;
  BinaryOperator* next_ = nullptr;
  ICmpInst* test_ = nullptr;
  std::int64_t step_ = 0;
  std::uint64_t trips_ = 0;
  unsigned copies_ = 0;
};

}  // namespace

unsigned jam_groups(Function& block, Analyses& analyses) {
  auto& manager = analyses.functions;
  auto& loops = manager.getResult<LoopAnalysis>(block);
  if (loops.empty()) return 0;
  auto& evolution = manager.getResult<ScalarEvolutionAnalysis>(block);
  auto& target = manager.getResult<TargetIRAnalysis>(block);
  unsigned count = 0;
  for (Loop* loop : loops.getLoopsInPreorder()) count += Jammer{*loop, evolution, target}.run();
  return count;
}

}  // namespace cucpu::simt
