// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/linear_sum.cpp
#include "cpu/engine/simt/linear_sum.hpp"

#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/Support/KnownBits.h>
#include <llvm/Transforms/Utils/Local.h>

#include <optional>

namespace cucpu::simt {

using namespace llvm;
using namespace PatternMatch;

namespace {

constexpr unsigned kDepth = 8;

bool is_integer(const Value* value) {
  return value->getType()->isIntegerTy() && value->getType()->getIntegerBitWidth() <= 64;
}

/// Whether an instruction adds, or multiplies by a constant.
bool is_linear(const Value* value) {
  const APInt* number;
  if (!is_integer(value)) return false;
  if (auto* either = dyn_cast<PossiblyDisjointInst>(value)) return either->isDisjoint();
  return match(value, m_Add(m_Value(), m_Value())) || match(value, m_Sub(m_Value(), m_Value())) ||
         match(value, m_Mul(m_Value(), m_APInt(number))) ||
         (match(value, m_Shl(m_Value(), m_APInt(number))) && number->ult(number->getBitWidth()));
}

}  // namespace

void LinearSum::add(Value* value, std::uint64_t factor, unsigned depth) {
  if (auto* number = dyn_cast<ConstantInt>(value)) {
    constant = cut(constant + number->getZExtValue() * factor);
    return;
  }
  if (auto* extension = dyn_cast<CastInst>(value);
      extension && (isa<SExtInst>(extension) || isa<ZExtInst>(extension)))
    return add_extended(*extension, factor, depth + 1);
  if (depth >= kDepth || !is_linear(value)) return add(Term{value, Extension::none}, factor);
  auto* inst = cast<Instruction>(value);
  Value *left = inst->getOperand(0), *right = inst->getOperand(1);
  switch (inst->getOpcode()) {
    case Instruction::Sub:
      add(left, factor, depth + 1);
      return add(right, 0 - factor, depth + 1);
    case Instruction::Mul:
      return add(left, factor * cast<ConstantInt>(right)->getZExtValue(), depth + 1);
    case Instruction::Shl:
      return add(left, factor << cast<ConstantInt>(right)->getZExtValue(), depth + 1);
    default:
      add(left, factor, depth + 1);
      return add(right, factor, depth + 1);
  }
}

void LinearSum::add(Term term, std::uint64_t factor) {
  auto [place, added] = terms.try_emplace(term, 0);
  place->second = cut(place->second + factor);
  if (place->second != 0) return;
  terms.erase(term);
  cancelled |= !added;
}

/// A remainder `i - C * (i / C)` does not wrap: its parts are extended one by one. Both extensions
/// of a number that is not negative are the same; its sign is extended here.
void LinearSum::add_extended(CastInst& extension, std::uint64_t factor, unsigned depth) {
  const SimplifyQuery query{extension.getModule()->getDataLayout()};
  const bool is_signed = isa<SExtInst>(extension) || extension.hasNonNeg();
  const auto term = [&](Value* value) {
    return Term{value,
                is_signed || isKnownNonNegative(value, query) ? Extension::sign : Extension::zero};
  };
  Value* const narrow = extension.getOperand(0);
  if (depth >= kDepth || !is_linear(narrow)) return add(term(narrow), factor);
  LinearSum inner;
  inner.bits = narrow->getType()->getIntegerBitWidth();
  inner.add(narrow, 1, depth + 1);
  for (auto [part, times] : inner.terms) {
    Value *quotient = part.getPointer(), *dividend;
    const APInt* divisor;
    const bool of_signed = match(quotient, m_SDiv(m_Value(dividend), m_APInt(divisor)));
    if (part.getInt() != Extension::none ||
        (!of_signed && !match(quotient, m_UDiv(m_Value(dividend), m_APInt(divisor)))))
      continue;
    if (inner.constant == 0 && inner.terms.size() == 2 &&
        inner.terms.lookup(Term{dividend, Extension::none}) == 1 && divisor->isStrictlyPositive() &&
        times == inner.cut(0 - divisor->getZExtValue()) &&
        (of_signed == is_signed || isKnownNonNegative(dividend, query))) {
      add(term(dividend), factor);
      return add(term(quotient), 0 - factor * divisor->getZExtValue());
    }
  }
  add(term(narrow), factor);
}

LinearSum LinearSum::of(Value* value) {
  LinearSum sum;
  sum.bits = value->getType()->getIntegerBitWidth();
  sum.add(value, 1);
  return sum;
}

bool LinearSum::is(Value* value) const {
  return constant == 0 && terms.size() == 1 &&
         terms.front().first == Term{value, Extension::none} && terms.front().second == 1;
}

namespace {

/// Null for zero.
Value* write(const LinearSum& sum, Type* type, IRBuilder<>& b) {
  using enum LinearSum::Extension;
  Value* result = nullptr;
  for (auto [term, factor] : sum.terms) {
    Value* value = term.getPointer();
    if (term.getInt() != none)
      value = term.getInt() == sign ? b.CreateSExt(value, type) : b.CreateZExt(value, type);
    value = isPowerOf2_64(factor) ? b.CreateShl(value, Log2_64(factor))
                                  : b.CreateMul(value, ConstantInt::get(type, factor));
    result = result ? b.CreateAdd(result, value) : value;
  }
  if (sum.constant == 0) return result;
  Constant* constant = ConstantInt::get(type, sum.constant);
  return result ? b.CreateAdd(result, constant) : constant;
}

/// Whether an instruction adds a number of bytes to a pointer.
bool is_offset(const Value* value) {
  const auto* inst = dyn_cast<GetElementPtrInst>(value);
  return inst && inst->getNumIndices() == 1 && inst->getSourceElementType()->isIntegerTy(8) &&
         inst->getOperand(1)->getType()->isIntegerTy(64);
}

/// The same for several of them, one after the other.
Value* without_cancelled_offsets(GetElementPtrInst& last) {
  LinearSum sum;
  sum.bits = 64;
  Value* base = &last;
  for (; is_offset(base); base = cast<Instruction>(base)->getOperand(0))
    sum.add(cast<Instruction>(base)->getOperand(1), 1);
  if (!sum.cancelled) return nullptr;
  IRBuilder<> b{&last};
  Value* const bytes = write(sum, b.getInt64Ty(), b);
  return bytes ? b.CreatePtrAdd(base, bytes) : base;
}

}  // namespace

void cancel_terms(Function& thread) {
  SmallVector<Instruction*> sums, addresses;
  for (Instruction& inst : instructions(thread)) {
    if (inst.use_empty()) continue;
    if (is_linear(&inst) && !(inst.hasOneUse() && is_linear(inst.user_back())))
      sums.push_back(&inst);
    if (is_offset(&inst) && is_offset(inst.getOperand(0)) &&
        !(inst.hasOneUse() && is_offset(inst.user_back())))
      addresses.push_back(&inst);
  }
  SmallVector<WeakTrackingVH> replaced;
  const auto replace = [&](Instruction* inst, Value* by) {
    inst->replaceAllUsesWith(by);
    replaced.emplace_back(inst);
  };
  for (Instruction* inst : sums) {
    const LinearSum sum = LinearSum::of(inst);
    if (!sum.cancelled) continue;
    IRBuilder<> b{inst};
    Value* const result = write(sum, inst->getType(), b);
    replace(inst, result ? result : ConstantInt::get(inst->getType(), 0));
  }
  for (Instruction* inst : addresses)
    if (Value* const result = without_cancelled_offsets(*cast<GetElementPtrInst>(inst)))
      replace(inst, result);
  RecursivelyDeleteTriviallyDeadInstructionsPermissive(replaced);
}

namespace {

/// A loop whose only test is whether a counter has reached zero.
struct Counted {
  PHINode* counter;
  ICmpInst* test;
  BasicBlock *before, *latch;
};

std::optional<Counted> counted(const Loop& loop) {
  BasicBlock *latch = loop.getLoopLatch(), *before = loop.getLoopPredecessor();
  if (!latch || !before || loop.getExitingBlock() != latch) return {};
  auto* branch = dyn_cast<BranchInst>(latch->getTerminator());
  auto* test = branch ? dyn_cast<ICmpInst>(branch->getCondition()) : nullptr;
  Value* counter;
  if (!test || !test->isEquality() || !test->hasOneUse() ||
      !match(test->getOperand(0), m_Add(m_Value(counter), m_AllOnes())) ||
      !match(test->getOperand(1), m_ZeroInt()))
    return {};
  auto* phi = dyn_cast<PHINode>(counter);
  if (!phi || phi->getParent() != loop.getHeader() ||
      phi->getIncomingValueForBlock(latch) != test->getOperand(0))
    return {};
  return Counted{phi, test, before, latch};
}

/// While an index is less than `bound`, another iteration follows.
struct Bound {
  APInt bound;
  bool is_signed;
};

/// The number of iterations is distance / step + 1. After j of them the index is start + (j - 1) *
/// step, and another one follows if j * step <= distance.
std::optional<Bound> bound_of(Value* distance, Value* start, std::uint64_t step,
                              const DataLayout& layout) {
  LinearSum end = LinearSum::of(distance);
  end.add(start, 1);
  if (end.terms.empty()) {  // distance = end - start, where start <= end: index < end - step + 1
    const APInt last{end.bits, end.constant};
    if (last.isNegative() || computeKnownBits(start, layout).getMaxValue().ugt(last)) return {};
    return Bound{last - step + 1, true};
  }
  // distance = max(start, bound) + step - 1 - start: index < bound
  end.constant = end.cut(end.constant - (step - 1));
  auto* most = dyn_cast<IntrinsicInst>(end.terms.front().first.getPointer());
  const APInt* bound;
  if (!most || !end.is(most) ||
      (most->getIntrinsicID() != Intrinsic::umax && most->getIntrinsicID() != Intrinsic::smax) ||
      !match(most->getArgOperand(1), m_APInt(bound)))
    return {};
  LinearSum same = LinearSum::of(most->getArgOperand(0));
  same.add(start, same.cut(~std::uint64_t{0}));
  // The index and the sums above do not wrap.
  if (!same.terms.empty() || same.constant != 0 || bound->isNegative() ||
      (*bound + 2 * step).isNegative())
    return {};
  return Bound{*bound, most->getIntrinsicID() == Intrinsic::smax};
}

bool compare_index(const Loop& loop) {
  const auto found = counted(loop);
  if (!found) return false;
  Value* distance;
  const APInt* shift;
  if (!match(found->counter->getIncomingValueForBlock(found->before),
             m_Add(m_LShr(m_Value(distance), m_APInt(shift)), m_One())) ||
      shift->ugt(16))
    return false;
  const std::uint64_t step = std::uint64_t{1} << shift->getZExtValue();
  for (PHINode& index : loop.getHeader()->phis()) {
    if (&index == found->counter || index.getType() != distance->getType()) continue;
    LinearSum growth = LinearSum::of(index.getIncomingValueForBlock(found->latch));
    growth.add(&index, growth.cut(~std::uint64_t{0}));
    if (!growth.terms.empty() || growth.constant != step) continue;
    const auto bound = bound_of(distance, index.getIncomingValueForBlock(found->before), step,
                                loop.getHeader()->getModule()->getDataLayout());
    if (!bound) continue;
    IRBuilder<> b{found->test};
    Value* more = b.CreateICmp(bound->is_signed ? CmpInst::ICMP_SLT : CmpInst::ICMP_ULT, &index,
                               ConstantInt::get(index.getType(), bound->bound));
    // The test is "counter == 0" or "counter != 0" after counting.
    if (found->test->getPredicate() == CmpInst::ICMP_EQ) more = b.CreateNot(more);
    found->test->replaceAllUsesWith(more);
    found->test->eraseFromParent();
    RecursivelyDeleteDeadPHINode(found->counter);
    return true;
  }
  return false;
}

}  // namespace

void compare_indices(Function& thread) {
  const DominatorTree tree{thread};
  const LoopInfo loops{tree};
  for (const Loop* loop : loops.getLoopsInPreorder()) compare_index(*loop);
}

}  // namespace cucpu::simt
