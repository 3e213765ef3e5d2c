// SPDX-License-Identifier: Apache-2.0
// cpu/engine/nan/canonical_select.cpp
#include "cpu/engine/nan/canonical_select.hpp"

#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/MC/MCSubtargetInfo.h>

#include "cpu/engine/nan/snan.hpp"
#include "cpu/engine/nan/splat.hpp"

namespace cucpu {

using namespace llvm;

namespace {

bool is_canonical_nan(const Value* v) {
  const Constant* constant = constant_of(v);
  if (const auto* number = dyn_cast_or_null<ConstantFP>(constant))
    return number->getValueAPF().bitcastToAPInt().isMaxSignedValue();
  const auto* bits = dyn_cast_or_null<ConstantInt>(constant);
  return bits && bits->getValue().isMaxSignedValue();
}

/// x of `isnan(x) ? canonical NaN : x`, in floats or in their bits; else null.
Value* canonicalized_value(SelectInst& select, const NeverSNaN& is_never_snan) {
  const auto choice = match_nan_select(select);
  return choice && is_canonical_nan(choice->y) && is_never_snan(choice->x) ? choice->x : nullptr;
}

}  // namespace

unsigned fold_canonical_selects(Function& block, const TargetMachine* target) {
  if (!target || !target->getTargetTriple().isAArch64()) return 0;
  const bool halves = target->getMCSubtargetInfo()->checkFeatures("+fullfp16");
  const NeverSNaN is_never_snan{block};
  SmallVector<std::pair<SelectInst*, Value*>> found;
  for (Instruction& inst : instructions(block)) {
    auto* select = dyn_cast<SelectInst>(&inst);
    Value* x = select ? canonicalized_value(*select, is_never_snan) : nullptr;
    if (!x) continue;
    const Type* type = x->getType()->getScalarType();
    if (type->isFloatTy() || (halves && type->isHalfTy())) found.push_back({select, x});
  }
  for (auto [select, x] : found) {
    IRBuilder<> b{select};
    const unsigned bits = x->getType()->getScalarSizeInBits();
    Constant* nan =
        ConstantExpr::getBitCast(ConstantInt::get(x->getType()->getWithNewType(b.getIntNTy(bits)),
                                                  APInt::getSignedMaxValue(bits)),
                                 x->getType());
    select->replaceAllUsesWith(b.CreateBitCast(create_fmaxnm(b, nan, x), select->getType()));
    auto* test = cast<Instruction>(select->getCondition());
    select->eraseFromParent();
    if (test->use_empty()) test->eraseFromParent();
  }
  return static_cast<unsigned>(found.size());
}

}  // namespace cucpu
