// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/mask_state.cpp
#include "cpu/engine/simt/mask_state.hpp"

#include <llvm/IR/Constants.h>

namespace cucpu::simt {

using namespace llvm;

AllocaInst* MaskState::mask_slot(BasicBlock* block) {
  AllocaInst*& found = mask_slots_[block];
  if (!found) found = temporary(slot_type(Type::getInt1Ty(context_)), block->getName() + ".mask");
  return found;
}

Value* MaskState::load_mask(BasicBlock* block) {
  AllocaInst* from = mask_slot(block);
  return from_slot_form(b_.CreateLoad(from->getAllocatedType(), from), Type::getInt1Ty(context_));
}

void MaskState::add_to_mask(BasicBlock* block, Value* lanes) {
  AllocaInst* into = mask_slot(block);
  Value* old = b_.CreateLoad(into->getAllocatedType(), into);
  b_.CreateStore(b_.CreateOr(old, to_slot_form(lanes)), into);
}

void MaskState::clear_slots() {
  for (auto& [block, alloca] : mask_slots_)
    b_.CreateStore(Constant::getNullValue(alloca->getAllocatedType()), alloca);
}

}  // namespace cucpu::simt
