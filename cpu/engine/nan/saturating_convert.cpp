// SPDX-License-Identifier: Apache-2.0
// cpu/engine/nan/saturating_convert.cpp
#include "cpu/engine/nan/saturating_convert.hpp"

#include <llvm/ADT/APFloat.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

namespace cucpu {

using namespace llvm;

namespace {

/// Whether a float or double can hold this integer exactly.
bool fits(const APInt& number, bool is_signed, const fltSemantics& format) {
  APFloat f{format};
  return f.convertFromAPInt(number, is_signed, APFloat::rmTowardZero) == APFloat::opOK;
}

ConstantFP* constant(Type* type, const APInt& number, bool is_signed) {
  APFloat f{type->getFltSemantics()};
  f.convertFromAPInt(number, is_signed, APFloat::rmTowardZero);
  return ConstantFP::get(type->getContext(), f);
}

Value* convert(IntrinsicInst& call, bool is_signed) {
  IRBuilder<> b{&call};
  Value* x = call.getArgOperand(0);
  auto* from = cast<FixedVectorType>(x->getType());
  const ElementCount lanes = from->getElementCount();
  const unsigned bits = call.getType()->getScalarSizeInBits();
  Type* const wide = VectorType::get(b.getInt32Ty(), lanes);
  const APInt low = is_signed ? APInt::getSignedMinValue(bits) : APInt{bits, 0};
  const APInt high = is_signed ? APInt::getSignedMaxValue(bits) : APInt::getMaxValue(bits);
  const auto limit = [&](const APInt& number, bool signed_number) {
    return ConstantVector::getSplat(lanes, constant(from->getElementType(), number, signed_number));
  };
  // Comparisons with a NaN are false: it becomes the lower limit.
  Constant* lowest = limit(low, is_signed);
  Value* inside = b.CreateSelect(b.CreateFCmpOGT(x, lowest), x, lowest);
  const bool exact = fits(high, is_signed, from->getElementType()->getFltSemantics());
  if (exact) {
    Constant* highest = limit(high, is_signed);
    inside = b.CreateSelect(b.CreateFCmpOLT(inside, highest), inside, highest);
  }
  // Conversion to signed numbers is one instruction on every processor.
  Value* result =
      bits < 32 || is_signed ? b.CreateFPToSI(inside, wide) : b.CreateFPToUI(inside, wide);
  if (!exact) {  // the limit is the next power of two, from which on the conversion is undefined
    Constant* end = limit(high.zext(bits + 1) + 1, false);
    result =
        b.CreateSelect(b.CreateFCmpOGE(x, end),
                       ConstantInt::get(wide, is_signed ? high.sext(32) : high.zext(32)), result);
  }
  if (is_signed)
    result = b.CreateSelect(b.CreateFCmpUNO(x, x), Constant::getNullValue(wide), result);
  return b.CreateTrunc(result, call.getType());
}

}  // namespace

unsigned lower_saturating_conversions(Function& function, const TargetMachine* target) {
  return target && target->getTargetTriple().isX86() ? lower_saturating_conversions(function) : 0;
}

unsigned lower_saturating_conversions(Function& function) {
  SmallVector<IntrinsicInst*> found;
  for (Instruction& inst : instructions(function)) {
    auto* call = dyn_cast<IntrinsicInst>(&inst);
    if (!call || (call->getIntrinsicID() != Intrinsic::fptosi_sat &&
                  call->getIntrinsicID() != Intrinsic::fptoui_sat))
      continue;
    const Type* from = call->getArgOperand(0)->getType();
    if (isa<FixedVectorType>(from) && call->getType()->getScalarSizeInBits() <= 32 &&
        (from->getScalarType()->isFloatTy() || from->getScalarType()->isDoubleTy()))
      found.push_back(call);
  }
  for (IntrinsicInst* call : found) {
    call->replaceAllUsesWith(convert(*call, call->getIntrinsicID() == Intrinsic::fptosi_sat));
    call->eraseFromParent();
  }
  return static_cast<unsigned>(found.size());
}

}  // namespace cucpu
