// SPDX-License-Identifier: Apache-2.0
// cpu/engine/nan/snan.cpp
#include "cpu/engine/nan/snan.hpp"

#include <llvm/IR/Constants.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/PatternMatch.h>

#include <utility>

namespace cucpu {

using namespace llvm;

namespace {

bool is_snan(const APInt& bits) {
  if (bits.getBitWidth() == 32) return APFloat{APFloat::IEEEsingle(), bits}.isSignaling();
  return bits.getBitWidth() != 16 || APFloat{APFloat::IEEEhalf(), bits}.isSignaling();
}

bool is_never_snan(const Constant& c) {
  if (isa<UndefValue>(c) || c.isNullValue()) return true;
  if (auto* number = dyn_cast<ConstantFP>(&c)) return !number->getValueAPF().isSignaling();
  if (auto* bits = dyn_cast<ConstantInt>(&c)) return !is_snan(bits->getValue());
  auto* type = dyn_cast<FixedVectorType>(c.getType());
  if (!type) return false;
  if (const Constant* all = c.getSplatValue()) return is_never_snan(*all);
  for (unsigned i = 0; i < type->getNumElements(); ++i)
    if (const Constant* one = c.getAggregateElement(i); !one || !is_never_snan(*one)) return false;
  return true;
}

bool is_arithmetic(const Instruction& inst) {
  switch (inst.getOpcode()) {
    case Instruction::FAdd:
    case Instruction::FSub:
    case Instruction::FMul:
    case Instruction::FDiv:
    case Instruction::FPTrunc:
    case Instruction::FPExt:
    case Instruction::SIToFP:
    case Instruction::UIToFP:
      return true;
    default:
      break;
  }
  const auto* call = dyn_cast<IntrinsicInst>(&inst);
  if (!call) return false;
  switch (call->getIntrinsicID()) {
    case Intrinsic::fma:
    case Intrinsic::sqrt:
    case Intrinsic::maximum:
    case Intrinsic::minimum:
    case Intrinsic::maxnum:
    case Intrinsic::minnum:
    case Intrinsic::experimental_constrained_maxnum:
    case Intrinsic::experimental_constrained_minnum:
      return true;
    default:
      return false;
  }
}

/// The operands of which an instruction forwards one unchanged, except for its sign; empty where it
/// computes a new value.
SmallVector<const Value*, 4> forwarded_operands(const Instruction& inst) {
  switch (inst.getOpcode()) {
    case Instruction::PHI: {
      auto values = cast<PHINode>(inst).incoming_values();
      return {values.begin(), values.end()};
    }
    case Instruction::Select: {
      const auto& select = cast<SelectInst>(inst);
      if (const auto choice = match_nan_select(select)) return {choice->y};
      return {select.getTrueValue(), select.getFalseValue()};
    }
    case Instruction::ShuffleVector:
    case Instruction::InsertElement:
      return {inst.getOperand(0), inst.getOperand(1)};
    case Instruction::BitCast:
      if (inst.getType()->getScalarSizeInBits() !=
          inst.getOperand(0)->getType()->getScalarSizeInBits())
        return {};
      [[fallthrough]];
    case Instruction::Freeze:
    case Instruction::ExtractElement:
    case Instruction::FNeg:
      return {inst.getOperand(0)};
    case Instruction::Call:
      if (auto* call = dyn_cast<IntrinsicInst>(&inst);
          call && (call->getIntrinsicID() == Intrinsic::fabs ||
                   call->getIntrinsicID() == Intrinsic::copysign))
        return {inst.getOperand(0)};
      return {};
    default:
      return {};
  }
}

bool has_nan_bits(const Type* type) {
  const unsigned bits = type->getScalarSizeInBits();
  return (type->isIntOrIntVectorTy() || type->isFPOrFPVectorTy()) && (bits == 32 || bits == 16);
}

}  // namespace

std::optional<NanSelect> match_nan_select(const SelectInst& select) {
  using namespace PatternMatch;
  auto* test = dyn_cast<FCmpInst>(select.getCondition());
  if (!test) return std::nullopt;
  const bool on_nan = test->getPredicate() == FCmpInst::FCMP_UNO;
  if (!on_nan && test->getPredicate() != FCmpInst::FCMP_ORD) return std::nullopt;
  Value* x = test->getOperand(0);
  if (test->getOperand(1) != x && !match(test->getOperand(1), m_AnyZeroFP())) return std::nullopt;
  Value *yes = select.getOperand(1), *no = select.getOperand(2);
  if (!on_nan) std::swap(yes, no);
  if (no != x && !match(no, m_BitCast(m_Specific(x)))) return std::nullopt;
  return NanSelect{x, yes};
}

Value* create_fmaxnm(IRBuilderBase& b, Value* x, Value* y) {
  Value* ignored =
      MetadataAsValue::get(b.getContext(), MDString::get(b.getContext(), "fpexcept.ignore"));
  CallInst* made = b.CreateIntrinsic(Intrinsic::experimental_constrained_maxnum, {x->getType()},
                                     {x, y, ignored});
  made->setDoesNotAccessMemory();  // floating-point exception flags are not used
  return made;
}

NeverSNaN::NeverSNaN(Function& function) {
  SmallVector<const Instruction*> found;
  const auto may_be_snan = [&](const Value* from) {  // without knowledge of forwarding instructions
    if (auto* constant = dyn_cast<Constant>(from)) return !is_never_snan(*constant);
    auto* inst = dyn_cast<Instruction>(from);
    return !inst || (!is_arithmetic(*inst) && forwarded_operands(*inst).empty());
  };
  for (const Instruction& inst : instructions(function))
    if (has_nan_bits(inst.getType()) && any_of(forwarded_operands(inst), may_be_snan) &&
        may_forward_snan_.insert(&inst).second)
      found.push_back(&inst);
  while (!found.empty()) {
    const Instruction* from = found.pop_back_val();
    for (const User* user : from->users())
      if (auto* inst = dyn_cast<Instruction>(user); inst &&
                                                    is_contained(forwarded_operands(*inst), from) &&
                                                    may_forward_snan_.insert(inst).second)
        found.push_back(inst);
  }
}

bool NeverSNaN::operator()(const Value* v) const {
  if (auto* constant = dyn_cast<Constant>(v)) return is_never_snan(*constant);
  auto* inst = dyn_cast<Instruction>(v);
  if (!inst) return false;
  return is_arithmetic(*inst) ||
         (!may_forward_snan_.contains(inst) && !forwarded_operands(*inst).empty());
}

}  // namespace cucpu
