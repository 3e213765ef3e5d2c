// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/shift_amounts.cpp
#include "cpu/engine/jit/shift_amounts.hpp"

#include <llvm/IR/Constants.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>

namespace cucpu {

using namespace llvm;

void bound_shift_amounts(Function& function) {
  for (Instruction& inst : instructions(function)) {
    auto* type = dyn_cast<FixedVectorType>(inst.getType());
    auto* amounts = type && inst.isShift() ? dyn_cast<Constant>(inst.getOperand(1)) : nullptr;
    if (!amounts) continue;
    SmallVector<Constant*, 32> bounded;
    for (unsigned lane = 0; lane < type->getNumElements(); ++lane) {
      auto* amount = dyn_cast_or_null<ConstantInt>(amounts->getAggregateElement(lane));
      const bool fits = amount && amount->getValue().ult(type->getScalarSizeInBits());
      bounded.push_back(fits ? amount : Constant::getNullValue(type->getElementType()));
    }
    inst.setOperand(1, ConstantVector::get(bounded));
  }
}

}  // namespace cucpu
