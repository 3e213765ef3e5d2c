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

#include "cpu/engine/nan/snan.hpp"
#include "cpu/engine/nan/splat.hpp"

namespace cucpu {

using namespace llvm;

namespace {

bool is_half(const Value* v) { return v->getType()->getScalarType()->isHalfTy(); }

/// A quiet NaN where x is a NaN, else x.
Value* quieted(IRBuilder<>& b, Value* x) {
  if (auto* lanes = dyn_cast<FixedVectorType>(x->getType()))
    if (Value* one = getSplatValue(x))
      return b.CreateVectorSplat(lanes->getNumElements(), quieted(b, one));
  return create_fmaxnm(b, x, x);
}

/// In f32, to which half is extended without loss, quieted on the way.
Value* in_float(IRBuilder<>& b, const CallInst& call, function_ref<Value*(Value*, Value*)> make) {
  Value *x = call.getArgOperand(0), *y = call.getArgOperand(1);
  if (!is_half(x)) return make(x, y);
  Type* wide = x->getType()->getWithNewType(b.getFloatTy());
  return b.CreateFPTrunc(make(b.CreateFPExt(x, wide), b.CreateFPExt(y, wide)), call.getType());
}

Value* compared(IRBuilder<>& b, bool max, Value* x, Value* y) {
  const auto if_nan = [&](Value* tested, Value* other, Value* r) {
    Value* nan = b.CreateFCmpUNO(tested, tested);
    auto* never = dyn_cast<Constant>(nan);
    return never && never->isNullValue() ? r : b.CreateSelect(nan, other, r);
  };
  Value* r = b.CreateBinaryIntrinsic(max ? Intrinsic::maximum : Intrinsic::minimum, x, y);
  return if_nan(x, y, if_nan(y, x, r));
}

/// `x > bound ? bound : x` and its like, which are one instruction here: null where it is another
/// choice, or might be another NaN or zero. A NaN stays (FMIN) or becomes the bound (FMINNM).
Value* bounded(SelectInst& select, function_ref<bool(const Value*)> is_quiet) {
  auto* test = dyn_cast<FCmpInst>(select.getCondition());
  if (!test || test->getOperand(0)->getType() != select.getType()) return nullptr;
  Value *x = test->getOperand(0), *bound = test->getOperand(1);
  const auto* number = dyn_cast_or_null<ConstantFP>(constant_of(bound));
  if (!number || number->isNaN() || !is_quiet(x)) return nullptr;
  FCmpInst::Predicate when = test->getPredicate();  // the bound is taken
  if (select.getTrueValue() == x && select.getFalseValue() == bound)
    when = FCmpInst::getInversePredicate(when);
  else if (select.getTrueValue() != bound || select.getFalseValue() != x)
    return nullptr;
  const FCmpInst::Predicate ordered = FCmpInst::getOrderedPredicate(when);
  const bool min = ordered == FCmpInst::FCMP_OGT || ordered == FCmpInst::FCMP_OGE;
  if (!min && ordered != FCmpInst::FCMP_OLT && ordered != FCmpInst::FCMP_OLE) return nullptr;
  const bool strict = ordered == FCmpInst::FCMP_OGT || ordered == FCmpInst::FCMP_OLT;
  // Of two zeros these take one by its sign, the choice the bound or x.
  if (number->isZero() && strict != (min != number->isNegative())) return nullptr;
  const Intrinsic::ID id = when == ordered ? (min ? Intrinsic::minimum : Intrinsic::maximum)
                                           : (min ? Intrinsic::minnum : Intrinsic::maxnum);
  return IRBuilder<>{&select}.CreateBinaryIntrinsic(id, x, bound);
}

/// The same choice between bits. Of floats LLVM's code generator makes the minimum or maximum that
/// it takes it for, whatever that does with zeros of both signs and NaNs that signal.
Value* chosen_bits(SelectInst& select) {
  IRBuilder<> b{&select};
  Type* bits =
      select.getType()->getWithNewType(b.getIntNTy(select.getType()->getScalarSizeInBits()));
  Value* chosen =
      b.CreateSelect(select.getCondition(), b.CreateBitCast(select.getTrueValue(), bits),
                     b.CreateBitCast(select.getFalseValue(), bits));
  return b.CreateBitCast(chosen, select.getType());
}

/// x86-64's own lowering is wrong about zeros alone.
bool is_mistaken_for_extreme(SelectInst& select, bool x86) {
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
  SmallVector<IntrinsicInst*> found;
  SmallVector<SelectInst*> choices;
  for (Instruction& inst : instructions(function)) {
    if (!inst.getType()->isFPOrFPVectorTy()) continue;
    if (auto* select = dyn_cast<SelectInst>(&inst)) choices.push_back(select);
    auto* call = dyn_cast<IntrinsicInst>(&inst);
    if (call && !call->getType()->getScalarType()->isDoubleTy() &&
        (call->getIntrinsicID() == Intrinsic::maxnum ||
         call->getIntrinsicID() == Intrinsic::minnum))
      found.push_back(call);
  }
  if (found.empty() && choices.empty()) return 0;
  const Quiet was_quiet{function};
  SmallPtrSet<const Value*, 8> loud;  // of what is made here
  const auto is_quiet = [&](const Value* v) { return was_quiet(v) && !loud.contains(v); };
  for (SelectInst* select : choices) {
    Value* made = is_native(select) ? bounded(*select, is_quiet) : nullptr;
    if (!made && is_mistaken_for_extreme(*select, x86)) {
      made = chosen_bits(*select);
      if (!is_quiet(select)) loud.insert(made);
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
        if (is_quiet(operand)) continue;
        Value*& known = made[{call->getParent(), operand}];
        if (!known) known = quieted(b, operand);
        operand.set(known);
      }
      continue;
    }
    const Intrinsic::ID id = call->getIntrinsicID();
    call->replaceAllUsesWith(in_float(b, *call, [&](Value* x, Value* y) -> Value* {
      return arm ? b.CreateBinaryIntrinsic(id, x, y) : compared(b, id == Intrinsic::maxnum, x, y);
    }));
    call->eraseFromParent();
  }
  return static_cast<unsigned>(found.size());
}

}  // namespace cucpu
