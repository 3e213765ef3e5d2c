// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/shared_places.cpp
#include "cpu/engine/simt/shared_places.hpp"

#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Module.h>

#include "cpu/engine/run/block_context.hpp"

namespace cucpu::simt {

using namespace llvm;

SharedPlaces::SharedPlaces(Function& block) : layout_{block.getParent()->getDataLayout()} {
  for (Instruction& inst : instructions(block)) {
    auto* load = dyn_cast<LoadInst>(&inst);
    if (!load || !load->getType()->isPointerTy()) continue;
    APInt offset{64, 0};
    if (load->getPointerOperand()->stripAndAccumulateConstantOffsets(
            layout_, offset, /*AllowNonInbounds=*/true) == block.getArg(0) &&
        offset == offsetof(BlockContext, shared))
      bases_.insert(load);
  }
}

std::optional<SharedPlaces::Place> SharedPlaces::find(const Value* pointer, Type* type) const {
  APInt offset{64, 0};
  const Value* base = pointer->stripAndAccumulateConstantOffsets(layout_, offset,
                                                                 /*AllowNonInbounds=*/true);
  if (!isa<Instruction>(base) || !bases_.contains(cast<Instruction>(base))) return {};
  const std::int64_t first = offset.getSExtValue();
  const TypeSize size = layout_.getTypeStoreSize(type);
  return Place{first, first + static_cast<std::int64_t>(size.getFixedValue())};
}

}  // namespace cucpu::simt
