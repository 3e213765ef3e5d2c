// cpu/engine/extremes.cpp
#include "cpu/engine/extremes.hpp"

#include <llvm/ADT/DenseMap.h>
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/MC/MCSubtargetInfo.h>

#include "cpu/engine/quiet.hpp"

namespace cucpu {

using namespace llvm;

namespace {

bool is_half(const Value* v) { return v->getType()->getScalarType()->isHalfTy(); }

/// A quiet NaN where x is a NaN, else x. LLVM folds a plain maxnum of one value away.
Value* quieted(IRBuilder<>& b, Value* x) {
  if (auto* lanes = dyn_cast<FixedVectorType>(x->getType()))
    if (Value* one = getSplatValue(x))
      return b.CreateVectorSplat(lanes->getNumElements(), quieted(b, one));
  Value* ignored =
      MetadataAsValue::get(b.getContext(), MDString::get(b.getContext(), "fpexcept.ignore"));
  CallInst* made = b.CreateIntrinsic(Intrinsic::experimental_constrained_maxnum, {x->getType()},
                                     {x, x, ignored});
  made->setDoesNotAccessMemory();  // not even the processor's flags, of which nobody asks
  return made;
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

}  // namespace

unsigned lower_extremes(Function& function, const TargetMachine* target) {
  SmallVector<IntrinsicInst*> found;
  for (Instruction& inst : instructions(function)) {
    auto* call = dyn_cast<IntrinsicInst>(&inst);
    if (call && !call->getType()->getScalarType()->isDoubleTy() &&
        (call->getIntrinsicID() == Intrinsic::maxnum ||
         call->getIntrinsicID() == Intrinsic::minnum))
      found.push_back(call);
  }
  if (found.empty()) return 0;
  const bool arm = target && target->getTargetTriple().isAArch64();
  const bool halves = arm && target->getMCSubtargetInfo()->checkFeatures("+fullfp16");
  const Quiet is_quiet{function};
  DenseMap<std::pair<BasicBlock*, Value*>, Value*> made;
  for (IntrinsicInst* call : found) {
    IRBuilder<> b{call};
    if (arm && (halves || !is_half(call))) {
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
