// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/lower_gathers.cpp
#include "cpu/engine/simt/lower_gathers.hpp"

#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/Transforms/Utils/Local.h>

#include <cstdint>
#include <optional>

namespace cucpu::simt {

using namespace llvm;
using namespace PatternMatch;

namespace {

/// A vector of addresses: a scalar address plus indices of 32 bits, extended and times a constant.
struct Places {
  const GetElementPtrInst* address;
  const CastInst* extension;
  std::uint64_t factor;
};

std::optional<Places> places_of(const IntrinsicInst& gather) {
  auto* gep = dyn_cast<GetElementPtrInst>(gather.getArgOperand(0));
  if (!gep || gep->getNumIndices() != 1 || gep->getPointerOperandType()->isVectorTy()) return {};
  Value *index = gep->getOperand(1), *unscaled;
  std::uint64_t factor = 1;
  const APInt* number;
  if (match(index, m_Shl(m_Value(unscaled), m_APInt(number))) && number->ult(32)) {
    index = unscaled;
    factor <<= number->getZExtValue();
  } else if (match(index, m_Mul(m_Value(unscaled), m_APInt(number)))) {
    index = unscaled;
    factor = number->getZExtValue();
  }
  auto* extension = dyn_cast<CastInst>(index);
  if (!extension || !isa<SExtInst, ZExtInst>(extension)) return {};
  auto* from = dyn_cast<FixedVectorType>(extension->getSrcTy());
  if (!from || !from->getElementType()->isIntegerTy(32) ||
      !extension->getDestTy()->getScalarType()->isIntegerTy(64))
    return {};
  return Places{gep, extension, factor};
}

/// The indices of all lanes, extended. Two of them as one number of 64 bits would be fewer
/// instructions, but LLVM 19 then omits the extension of the lower one where it knows its bits.
SmallVector<Value*> extract(IRBuilder<>& b, const CastInst& extension) {
  Value* const indices = extension.getOperand(0);
  const unsigned lanes = cast<FixedVectorType>(indices->getType())->getNumElements();
  SmallVector<Value*> found;
  for (unsigned lane = 0; lane < lanes; ++lane)
    found.push_back(b.CreateCast(extension.getOpcode(), b.CreateExtractElement(indices, lane),
                                 extension.getDestTy()->getScalarType()));
  return found;
}

void lower(IntrinsicInst& gather, const Places& places) {
  IRBuilder<> b{&gather};
  const Align align = cast<ConstantInt>(gather.getArgOperand(1))->getMaybeAlignValue().valueOrOne();
  Type* const element = gather.getType()->getScalarType();
  Value* const base = places.address->getOperand(0);
  Value* all = PoisonValue::get(gather.getType());
  unsigned lane = 0;
  for (Value* index : extract(b, *places.extension)) {
    if (places.factor != 1) index = b.CreateMul(index, b.getInt64(places.factor));
    Value* const from = b.CreateGEP(places.address->getSourceElementType(), base, index);
    all = b.CreateInsertElement(all, b.CreateAlignedLoad(element, from, align), lane++);
  }
  gather.replaceAllUsesWith(all);
  RecursivelyDeleteTriviallyDeadInstructions(&gather);
}

}  // namespace

unsigned lower_gathers(Function& block, const VectorTarget& target) {
  SmallVector<std::pair<IntrinsicInst*, Places>> found;
  for (Instruction& inst : instructions(block)) {
    auto* gather = dyn_cast<IntrinsicInst>(&inst);
    if (!gather || gather->getIntrinsicID() != Intrinsic::masked_gather ||
        target.has_gather(*gather->getType()->getScalarType()))
      continue;
    const auto* mask = dyn_cast<Constant>(gather->getArgOperand(2));
    if (!mask || !mask->isAllOnesValue()) continue;
    if (const auto places = places_of(*gather)) found.push_back({gather, *places});
  }
  for (auto& [gather, places] : found) lower(*gather, places);
  return static_cast<unsigned>(found.size());
}

}  // namespace cucpu::simt
