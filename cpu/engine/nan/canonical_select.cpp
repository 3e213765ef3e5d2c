// SPDX-License-Identifier: Apache-2.0
// cpu/engine/nan/canonical_select.cpp
#include "cpu/engine/nan/canonical_select.hpp"

#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
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

/// Whether the result of an instruction is a NaN where an operand is one, and no bits of that NaN
/// lead anywhere but to the result.
bool passes_nans_on(const Instruction& inst) {
  switch (inst.getOpcode()) {
    case Instruction::FAdd:
    case Instruction::FSub:
    case Instruction::FMul:
    case Instruction::FDiv:
    case Instruction::FNeg:
    case Instruction::PHI:
    case Instruction::Select:
    case Instruction::BitCast:
    case Instruction::Freeze:
    case Instruction::ShuffleVector:
    case Instruction::InsertElement:
    case Instruction::ExtractElement:
      return true;
    default:
      break;
  }
  const auto* call = dyn_cast<IntrinsicInst>(&inst);
  return call &&
         (call->getIntrinsicID() == Intrinsic::fma || call->getIntrinsicID() == Intrinsic::sqrt ||
          call->getIntrinsicID() == Intrinsic::fabs);
}

/// x of `isnan(x) ? canonical NaN : x`, in floats or in their bits; else null.
Value* made_canonical(const Instruction& inst) {
  const auto* select = dyn_cast<SelectInst>(&inst);
  const auto choice = select ? match_nan_select(*select) : std::nullopt;
  return choice && is_canonical_nan(choice->y) ? choice->x : nullptr;
}

/// The values whose bits something sees where they are NaNs.
class SeenNans {
 public:
  explicit SeenNans(Function& function) {
    for (Instruction& inst : instructions(function))
      if (!isa<FCmpInst>(inst) && !passes_nans_on(inst)) add_operands(inst);
    while (!fresh_.empty()) {
      const Instruction* const inst = fresh_.pop_back_val();
      if (passes_nans_on(*inst) && !made_canonical(*inst)) add_operands(*inst);
    }
  }
  bool contains(const Instruction& inst) const { return seen_.contains(&inst); }

 private:
  void add_operands(const Instruction& inst) {
    for (const Value* operand : inst.operands())
      if (const auto* from = dyn_cast<Instruction>(operand); from && seen_.insert(from).second)
        fresh_.push_back(from);
  }

  SmallPtrSet<const Instruction*, 32> seen_;
  SmallVector<const Instruction*, 32> fresh_;
};

void replace(SelectInst& select, Value* with) {
  select.replaceAllUsesWith(with);
  auto* const test = dyn_cast<Instruction>(select.getCondition());
  select.eraseFromParent();
  if (test && test->use_empty()) test->eraseFromParent();
}

}  // namespace

unsigned drop_canonical_selects(Function& function) {
  const SeenNans seen{function};
  SmallVector<SelectInst*> found;
  for (Instruction& inst : instructions(function))
    if (made_canonical(inst) && !seen.contains(inst)) found.push_back(cast<SelectInst>(&inst));
  for (SelectInst* select : found) {
    IRBuilder<> b{select};
    replace(*select, b.CreateBitCast(made_canonical(*select), select->getType()));
  }
  return static_cast<unsigned>(found.size());
}

unsigned fold_canonical_selects(Function& block, const TargetMachine* target) {
  if (!target || !target->getTargetTriple().isAArch64()) return 0;
  const bool halves = target->getMCSubtargetInfo()->checkFeatures("+fullfp16");
  const NeverSNaN is_never_snan{block};
  SmallVector<std::pair<SelectInst*, Value*>> found;
  for (Instruction& inst : instructions(block)) {
    Value* x = made_canonical(inst);
    if (!x || !is_never_snan(x)) continue;
    const Type* type = x->getType()->getScalarType();
    if (type->isFloatTy() || (halves && type->isHalfTy()))
      found.push_back({cast<SelectInst>(&inst), x});
  }
  for (auto [select, x] : found) {
    IRBuilder<> b{select};
    const unsigned bits = x->getType()->getScalarSizeInBits();
    Constant* nan =
        ConstantExpr::getBitCast(ConstantInt::get(x->getType()->getWithNewType(b.getIntNTy(bits)),
                                                  APInt::getSignedMaxValue(bits)),
                                 x->getType());
    replace(*select, b.CreateBitCast(create_fmaxnm(b, nan, x), select->getType()));
  }
  return static_cast<unsigned>(found.size());
}

}  // namespace cucpu
