// SPDX-License-Identifier: Apache-2.0
// cpu/engine/nan/min_max.cpp
#include "cpu/engine/nan/min_max.hpp"

#include <llvm/ADT/DenseMap.h>
#include <llvm/Analysis/ValueTracking.h>
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/MC/MCSubtargetInfo.h>

#include "cpu/engine/nan/min_max_keys.hpp"
#include "cpu/engine/nan/snan.hpp"
#include "cpu/engine/nan/splat.hpp"

namespace cucpu {

using namespace llvm;

namespace {

bool is_nonzero_constant(const Value* v) {
  const auto* number = dyn_cast_or_null<ConstantFP>(constant_of(v));
  return number && !number->isZero() && !number->isNaN();
}

bool is_half(const Value* v) { return v->getType()->getScalarType()->isHalfTy(); }

/// A quiet NaN where x is a NaN, else x.
Value* quieted(IRBuilder<>& b, Value* x) {
  if (auto* lanes = dyn_cast<FixedVectorType>(x->getType()))
    if (Value* one = getSplatValue(x))
      return b.CreateVectorSplat(lanes->getNumElements(), quieted(b, one));
  return create_fmaxnm(b, x, x);
}

/// Computes f16 in f32: the extension is exact and quiets NaNs.
Value* compute_in_f32(IRBuilder<>& b, const CallInst& call,
                      function_ref<Value*(Value*, Value*)> make) {
  Value *x = call.getArgOperand(0), *y = call.getArgOperand(1);
  if (!is_half(x)) return make(x, y);
  Type* wide = x->getType()->getWithNewType(b.getFloatTy());
  return b.CreateFPTrunc(make(b.CreateFPExt(x, wide), b.CreateFPExt(y, wide)), call.getType());
}

/// The same with the instructions of x86-64, which give the second operand if one is a NaN or both
/// are zeros. Of equal numbers only zeros differ in bits: -0 is the minimum, +0 the maximum.
Value* min_max_x86(IRBuilder<>& b, bool max, Value* x, Value* y) {
  Type* bits = x->getType()->getWithNewType(b.getIntNTy(x->getType()->getScalarSizeInBits()));
  Value* nan = b.CreateFCmpUNO(x, x);
  auto* never = dyn_cast<Constant>(nan);
  if (!never || !never->isNullValue()) x = b.CreateSelect(nan, y, x);
  Value* first = max ? b.CreateFCmpOGT(y, x) : b.CreateFCmpOLT(y, x);
  Value* r = b.CreateSelect(first, y, x);
  if (is_nonzero_constant(x) || is_nonzero_constant(y)) return r;
  Value* others = max ? Constant::getAllOnesValue(bits) : Constant::getNullValue(bits);
  Value* same = b.CreateSelect(b.CreateFCmpOEQ(r, y), b.CreateBitCast(y, bits), others);
  r = b.CreateBitCast(r, bits);
  return b.CreateBitCast(max ? b.CreateAnd(r, same) : b.CreateOr(r, same), x->getType());
}

Value* compare_and_select(IRBuilder<>& b, bool max, Value* x, Value* y) {
  const auto if_nan = [&](Value* tested, Value* other, Value* r) {
    Value* nan = b.CreateFCmpUNO(tested, tested);
    auto* never = dyn_cast<Constant>(nan);
    return never && never->isNullValue() ? r : b.CreateSelect(nan, other, r);
  };
  Value* r = b.CreateBinaryIntrinsic(max ? Intrinsic::maximum : Intrinsic::minimum, x, y);
  return if_nan(x, y, if_nan(y, x, r));
}

/// `x > bound ? bound : x` and similar selects as one instruction; null where the select is
/// something else, or the instruction could give another NaN or zero. A NaN stays (FMIN) or becomes
/// the bound (FMINNM).
Value* fold_bound(SelectInst& select, function_ref<bool(const Value*)> is_never_snan) {
  auto* test = dyn_cast<FCmpInst>(select.getCondition());
  if (!test || test->getOperand(0)->getType() != select.getType()) return nullptr;
  Value *x = test->getOperand(0), *bound = test->getOperand(1);
  const auto* number = dyn_cast_or_null<ConstantFP>(constant_of(bound));
  if (!number || number->isNaN() || !is_never_snan(x)) return nullptr;
  FCmpInst::Predicate when = test->getPredicate();  // the bound is taken
  if (select.getTrueValue() == x && select.getFalseValue() == bound)
    when = FCmpInst::getInversePredicate(when);
  else if (select.getTrueValue() != bound || select.getFalseValue() != x)
    return nullptr;
  const FCmpInst::Predicate ordered = FCmpInst::getOrderedPredicate(when);
  const bool min = ordered == FCmpInst::FCMP_OGT || ordered == FCmpInst::FCMP_OGE;
  if (!min && ordered != FCmpInst::FCMP_OLT && ordered != FCmpInst::FCMP_OLE) return nullptr;
  const bool strict = ordered == FCmpInst::FCMP_OGT || ordered == FCmpInst::FCMP_OLT;
  // Of two zeros the instruction chooses by sign, the select by position.
  if (number->isZero() && strict != (min != number->isNegative())) return nullptr;
  const Intrinsic::ID id = when == ordered ? (min ? Intrinsic::minimum : Intrinsic::maximum)
                                           : (min ? Intrinsic::minnum : Intrinsic::maxnum);
  return IRBuilder<>{&select}.CreateBinaryIntrinsic(id, x, bound);
}

/// The same select between integers. LLVM's code generator turns the select of floats into a
/// minimum or maximum, which treats zeros of both signs and signaling NaNs differently.
Value* select_bits(SelectInst& select) {
  IRBuilder<> b{&select};
  Type* bits =
      select.getType()->getWithNewType(b.getIntNTy(select.getType()->getScalarSizeInBits()));
  Value* chosen =
      b.CreateSelect(select.getCondition(), b.CreateBitCast(select.getTrueValue(), bits),
                     b.CreateBitCast(select.getFalseValue(), bits));
  return b.CreateBitCast(chosen, select.getType());
}

/// The lowering for x86-64 is wrong for zeros only.
bool is_mistaken_for_min_max(SelectInst& select, bool x86) {
  Value *x = nullptr, *y = nullptr;
  const SelectPatternFlavor flavor = matchSelectPattern(&select, x, y).Flavor;
  if (flavor != SPF_FMINNUM && flavor != SPF_FMAXNUM) return false;
  using namespace PatternMatch;
  return !x86 || match(x, m_AnyZeroFP()) || match(y, m_AnyZeroFP());
}

}  // namespace

unsigned lower_min_max(Function& function, const TargetMachine* target) {
  const bool arm = target && target->getTargetTriple().isAArch64();
  const bool x86 = target && target->getTargetTriple().isX86();
  const bool halves = arm && target->getMCSubtargetInfo()->checkFeatures("+fullfp16");
  const auto is_native = [&](const Value* v) {
    const Type* type = v->getType()->getScalarType();
    return arm && (type->isFloatTy() || (halves && type->isHalfTy()));
  };
  SmallVector<IntrinsicInst*> found, with_nan;
  SmallVector<SelectInst*> choices;
  for (Instruction& inst : instructions(function)) {
    if (!inst.getType()->isFPOrFPVectorTy()) continue;
    if (auto* select = dyn_cast<SelectInst>(&inst)) choices.push_back(select);
    auto* call = dyn_cast<IntrinsicInst>(&inst);
    if (call && !call->getType()->getScalarType()->isDoubleTy() &&
        (call->getIntrinsicID() == Intrinsic::maxnum ||
         call->getIntrinsicID() == Intrinsic::minnum))
      found.push_back(call);
    if (call && is_half(call) && !is_native(call) &&
        (call->getIntrinsicID() == Intrinsic::maximum ||
         call->getIntrinsicID() == Intrinsic::minimum))
      with_nan.push_back(call);
  }
  // LLVM 19 expands vectors of f16 so that a zero wins over a NaN.
  for (IntrinsicInst* call : with_nan) {
    IRBuilder<> b{call};
    call->replaceAllUsesWith(compute_in_f32(b, *call, [&](Value* x, Value* y) {
      return b.CreateBinaryIntrinsic(call->getIntrinsicID(), x, y);
    }));
    call->eraseFromParent();
  }
  if (found.empty() && choices.empty()) return static_cast<unsigned>(with_nan.size());
  const auto count = static_cast<unsigned>(found.size() + with_nan.size());
  if (x86) found = lower_to_keys(found);
  const NeverSNaN was_never_snan{function};
  SmallPtrSet<const Value*, 8> may_be_snan;  // among the values created here
  const auto is_never_snan = [&](const Value* v) {
    return was_never_snan(v) && !may_be_snan.contains(v);
  };
  for (SelectInst* select : choices) {
    Value* made = is_native(select) ? fold_bound(*select, is_never_snan) : nullptr;
    if (!made && is_mistaken_for_min_max(*select, x86)) {
      made = select_bits(*select);
      if (!is_never_snan(select)) may_be_snan.insert(made);
    }
    if (!made) continue;
    select->replaceAllUsesWith(made);
    auto* test = dyn_cast<Instruction>(select->getCondition());
    select->eraseFromParent();
    if (test && test->use_empty()) test->eraseFromParent();
  }
  DenseMap<std::pair<BasicBlock*, Value*>, Value*> made;
  for (IntrinsicInst* call : found) {
    IRBuilder<> b{call};
    if (is_native(call)) {
      for (Use& operand : call->args()) {
        if (is_never_snan(operand)) continue;
        Value*& known = made[{call->getParent(), operand}];
        if (!known) known = quieted(b, operand);
        operand.set(known);
      }
      continue;
    }
    const Intrinsic::ID id = call->getIntrinsicID();
    call->replaceAllUsesWith(compute_in_f32(b, *call, [&](Value* x, Value* y) -> Value* {
      if (arm) return b.CreateBinaryIntrinsic(id, x, y);
      const bool max = id == Intrinsic::maxnum;
      return x86 ? min_max_x86(b, max, x, y) : compare_and_select(b, max, x, y);
    }));
    call->eraseFromParent();
  }
  return count;
}

}  // namespace cucpu
