// SPDX-License-Identifier: Apache-2.0
// cpu/engine/nan/f64_nan_fixup.cpp: almost no result is a NaN, so arithmetic runs unchanged. Where
// bits are observed (a store, an integer, the end of the code sequence) one test decides whether
// any result is a NaN; only then a copy of the sequence runs in which every instruction selects the
// NaN of a GPU. A sequence is a whole loop without side effects, or instructions of one basic
// block.
#include "cpu/engine/nan/f64_nan_fixup.hpp"

#include <llvm/ADT/SetVector.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>
#include <llvm/Transforms/Utils/Cloning.h>
#include <llvm/Transforms/Utils/LoopSimplify.h>
#include <llvm/Transforms/Utils/LoopUtils.h>

#include "cpu/engine/nan/f64_nan.hpp"
#include "cpu/engine/nan/operand_order.hpp"

namespace cucpu {

using namespace llvm;

namespace {

using Values = SmallSetVector<Instruction*, 16>;

bool has_any(const Instruction& i, const Values& values) {
  return any_of(i.operands(), [&](const llvm::Use& use) {
    auto* operand = dyn_cast<Instruction>(use.get());
    return operand && values.contains(operand);
  });
}

bool is_prefetch(const Instruction& i) {
  const auto* call = dyn_cast<IntrinsicInst>(&i);
  return call && call->getIntrinsicID() == Intrinsic::prefetch;
}

/// A read without side effects, which can be repeated as long as nothing was written.
bool is_simple_read(const Instruction& i) {
  if (const auto* load = dyn_cast<LoadInst>(&i)) return load->isSimple();
  const auto* call = dyn_cast<IntrinsicInst>(&i);
  return call && (call->getIntrinsicID() == Intrinsic::masked_load ||
                  call->getIntrinsicID() == Intrinsic::masked_gather);
}

/// Branches before `at` to a new block if one of these values is a NaN, with weights that say
/// never. Returns the new, empty block and the block that starts with `at`.
std::pair<BasicBlock*, BasicBlock*> branch_on_nan(Instruction* at, ArrayRef<Value*> values) {
  BasicBlock* head = at->getParent();
  IRBuilder<> b{at};
  Value* found = nan::any_nan(b, values);
  BasicBlock* rest = head->splitBasicBlock(at->getIterator(), "");
  BasicBlock* again = BasicBlock::Create(head->getContext(), "nan", head->getParent());
  head->getTerminator()->eraseFromParent();
  b.SetInsertPoint(head);
  b.CreateCondBr(found, again, rest, MDBuilder{head->getContext()}.createBranchWeights(1, 1 << 20));
  return {again, rest};
}

// ---- whole loops ----

/// Whether a loop can run a second time: it has no side effects, and it observes the bits of no NaN
/// that it produces.
bool can_reexecute(const Loop& loop) {
  constexpr unsigned kMost = 4000;
  BasicBlock* exit = loop.getUniqueExitBlock();
  if (!exit || !loop.getLoopPreheader() || !loop.hasDedicatedExits()) return false;
  unsigned size = 0;
  Values made;
  for (BasicBlock* block : loop.blocks())
    for (Instruction& i : *block) {
      if (is_prefetch(i)) continue;
      if (++size > kMost || i.mayHaveSideEffects()) return false;
      if (i.mayReadFromMemory() && !is_simple_read(i)) return false;
      if (isa<CallInst>(i) && !isa<IntrinsicInst>(i)) return false;
      if (nan::nan_use_of(i) == nan::NanUse::produces) made.insert(&i);
    }
  if (made.empty()) return false;
  for (unsigned k = 0; k < made.size(); ++k)
    for (User* user : made[k]->users()) {
      auto* i = cast<Instruction>(user);
      if (!loop.contains(i)) continue;
      const nan::NanUse use = nan::nan_use_of(*i);
      if (use == nan::NanUse::observes) return false;
      if (use == nan::NanUse::forwards) made.insert(i);
    }
  return true;
}

/// `done`: blocks that need no further changes.
void reexecute_loop(const Loop& loop, SmallPtrSetImpl<BasicBlock*>& done) {
  BasicBlock *exit = loop.getUniqueExitBlock(), *preheader = loop.getLoopPreheader();
  for (BasicBlock* block : loop.blocks()) done.insert(block);
  SmallVector<PHINode*> results;
  SmallVector<Value*> doubles;
  for (PHINode& phi : exit->phis()) {
    results.push_back(&phi);
    if (nan::is_double(&phi)) doubles.push_back(&phi);
  }
  if (doubles.empty()) return;
  const auto [again, rest] = branch_on_nan(exit->getFirstNonPHI(), doubles);
  done.insert({exit, again});

  ValueToValueMapTy map;
  SmallVector<BasicBlock*> copies;
  for (BasicBlock* block : loop.blocks()) {
    BasicBlock* copy = CloneBasicBlock(block, map, ".nan", exit->getParent());
    map[block] = copy;
    copies.push_back(copy);
  }
  BasicBlock* end = BasicBlock::Create(exit->getContext(), "end.nan", exit->getParent());
  map[exit] = end;
  map[preheader] = again;
  remapInstructionsInBlocks(copies, map);
  IRBuilder<> b{again};
  b.CreateBr(cast<BasicBlock>(map[loop.getHeader()]));
  b.SetInsertPoint(end);
  SmallVector<PHINode*> others;
  for (PHINode* phi : results) {
    PHINode* other = b.CreatePHI(phi->getType(), phi->getNumIncomingValues());
    for (unsigned k = 0; k < phi->getNumIncomingValues(); ++k) {
      Value* in = phi->getIncomingValue(k);
      const auto found = map.find(in);
      other->addIncoming(found == map.end() ? in : static_cast<Value*>(found->second),
                         cast<BasicBlock>(map[phi->getIncomingBlock(k)]));
    }
    others.push_back(other);
  }
  b.CreateBr(rest);
  b.SetInsertPoint(rest, rest->begin());
  for (const auto [phi, other] : zip(results, others)) {
    PHINode* merged = b.CreatePHI(phi->getType(), 2);
    phi->replaceUsesWithIf(merged, [&](llvm::Use& use) {
      return cast<Instruction>(use.getUser())->getParent() != exit;
    });
    merged->addIncoming(phi, exit);
    merged->addIncoming(other, end);
  }
  done.insert(end);
  for (BasicBlock* copy : copies) {
    done.insert(copy);
    SmallVector<Instruction*> makers;
    for (Instruction& i : *copy)
      if (nan::nan_use_of(i) == nan::NanUse::produces) makers.push_back(&i);
    for (Instruction* i : makers) nan::replace_nan(*i);
  }
}

// ---- within a basic block ----

/// Computes the results of one code sequence a second time.
class Reexecution {
 public:
  Reexecution(BasicBlock* into, const BasicBlock* from, const Values& made,
              const Instruction* last_write)
      : b_{into}, from_{from}, made_{made}, last_write_{last_write} {}

  Value* operator()(Value* v) {
    auto* i = dyn_cast<Instruction>(v);
    if (!i || i->getParent() != from_ || isa<PHINode>(i)) return v;
    if (const auto known = known_.find(i); known != known_.end()) return known->second;
    const bool made = made_.contains(i);
    // A read is repeated: keeping its value for this rare path would occupy a register.
    const bool read = is_simple_read(*i) && (!last_write_ || last_write_->comesBefore(i));
    const bool forwards =
        isa<CastInst, ShuffleVectorInst, InsertElementInst, ExtractElementInst, SelectInst>(i);
    Value* result = i;
    if (made || read || forwards) {
      SmallVector<Value*> operands;
      bool changed = made || read;
      for (Value* operand : i->operands()) {
        operands.push_back(read ? operand : (*this)(operand));
        changed |= operands.back() != operand;
      }
      if (changed) result = copy(*i, operands);
    }
    return known_[i] = result;
  }

  Instruction* end(BasicBlock* rest) { return b_.CreateBr(rest); }

 private:
  Value* copy(Instruction& i, ArrayRef<Value*> operands) {
    Instruction* copy = b_.Insert(i.clone());
    for (unsigned k = 0; k < operands.size(); ++k) copy->setOperand(k, operands[k]);
    if (nan::nan_use_of(i) != nan::NanUse::produces) return copy;
    Instruction* held = cast<Instruction>(b_.CreateFreeze(copy));
    nan::replace_nan(*copy);
    Value* fixed = held->getOperand(0);
    held->eraseFromParent();
    return fixed;
  }

  IRBuilder<> b_;
  const BasicBlock* from_;
  const Values& made_;
  const Instruction* last_write_;
  DenseMap<Instruction*, Value*> known_;
};

/// Fixes all values produced so far in this block that are used by `at` or later. Returns the new
/// block that starts with `at`.
BasicBlock* fix_before(Instruction* at, const Values& made, const Instruction* last_write) {
  BasicBlock* head = at->getParent();
  Values live, tested;
  for (Instruction* i : made)
    for (User* user : i->users()) {
      auto* later = cast<Instruction>(user);
      if (later->getParent() != head || isa<PHINode>(later) || !later->comesBefore(at)) {
        live.insert(i);
        break;
      }
    }
  if (live.empty()) return nullptr;
  SmallVector<Instruction*> work(live.begin(), live.end());
  while (!work.empty()) {  // integers stand for the doubles that their bits come from
    Instruction* i = work.pop_back_val();
    if (nan::is_double(i)) {
      tested.insert(i);
      continue;
    }
    for (Value* operand : i->operands())
      if (auto* from = dyn_cast<Instruction>(operand); from && made.contains(from))
        work.push_back(from);
  }
  const auto [again, rest] = branch_on_nan(at, SmallVector<Value*>(tested.begin(), tested.end()));
  Reexecution copy{again, head, made, last_write};
  SmallVector<Value*> others;
  for (Instruction* i : live) others.push_back(copy(i));
  copy.end(rest);
  IRBuilder<> b{rest, rest->begin()};
  for (const auto [i, other] : zip(live, others)) {
    PHINode* merged = b.CreatePHI(i->getType(), 2);
    i->replaceUsesWithIf(merged, [&, i = i](llvm::Use& use) {
      const auto* user = cast<Instruction>(use.getUser());
      return (user->getParent() != head || isa<PHINode>(user)) && user->getParent() != again;
    });
    merged->addIncoming(i, head);
    merged->addIncoming(other, again);
  }
  return rest;
}

void fix_block(BasicBlock* block) {
  while (block) {
    Values made;
    const Instruction* last_write = nullptr;
    BasicBlock* next = nullptr;
    for (Instruction& i : *block) {
      const nan::NanUse use = nan::nan_use_of(i);
      const bool touched = !isa<PHINode>(i) && has_any(i, made);
      if (i.isTerminator() || (touched && use == nan::NanUse::observes)) {
        next = made.empty() ? nullptr : fix_before(&i, made, last_write);
        break;
      }
      if (use == nan::NanUse::produces || (touched && use == nan::NanUse::forwards))
        made.insert(&i);
      if (i.mayWriteToMemory() && !is_prefetch(i)) last_write = &i;
    }
    block = next;
  }
}

void fix_function(Function& function) {
  SmallPtrSet<BasicBlock*, 32> done;
  {
    DominatorTree dominators{function};
    LoopInfo loops{dominators};
    SmallVector<Loop*> work;
    for (Loop* loop : loops) {
      simplifyLoop(loop, &dominators, &loops, nullptr, nullptr, nullptr, false);
      formLCSSARecursively(*loop, dominators, &loops, nullptr);
      work.push_back(loop);
    }
    SmallVector<Loop*> chosen;
    while (!work.empty()) {
      Loop* loop = work.pop_back_val();
      if (can_reexecute(*loop))
        chosen.push_back(loop);
      else
        work.append(loop->begin(), loop->end());
    }
    for (Loop* loop : chosen) reexecute_loop(*loop, done);
  }
  SmallVector<BasicBlock*> blocks;
  for (BasicBlock& block : function)
    if (!done.contains(&block)) blocks.push_back(&block);
  for (BasicBlock* block : blocks) fix_block(block);
}

}  // namespace

bool has_f64_arithmetic(const Module& module) {
  return any_of(module, [](const Function& function) {
    return any_of(instructions(function), [](const Instruction& i) {
      const auto* atomic = dyn_cast<AtomicRMWInst>(&i);
      return i.hasMetadata("cucpu.f64") || (atomic && nan::is_double(atomic));
    });
  });
}

void fix_f64_nans(Module& module) {
  SmallVector<Function*> functions;  // replace_nan() adds functions that need no changes
  for (Function& function : module)
    if (!function.isDeclaration()) functions.push_back(&function);
  for (Function* function : functions) {
    restore_operand_order(*function);
    fix_function(*function);
  }
}

}  // namespace cucpu
