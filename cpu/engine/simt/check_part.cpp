// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/check_part.cpp
#include "cpu/engine/simt/check_part.hpp"

#include <llvm/IR/Constants.h>
#include <llvm/IR/MDBuilder.h>

#include "cpu/engine/run/block_context.hpp"
#include "cpu/engine/simt/emitter.hpp"

namespace cucpu::simt {

using namespace llvm;

Value* CheckPart::range(std::uint64_t number) {
  Value*& ranges = parts_.instructions.registers()["check.ranges"];
  if (!ranges)
    ranges = context_field(b_.getPtrTy(), offsetof(BlockContext, check_ranges), "check.ranges");
  if (number == 0) return ranges;
  return b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), ranges, number * sizeof(CheckRange));
}

/// The range of the shared memory does not change while a block runs: its fields are loaded once.
Value* CheckPart::field_of(Value* range, Type* type, std::size_t offset) {
  auto& registers = parts_.instructions.registers();
  if (registers.lookup("check.ranges") == range) {
    Value*& field = registers["check.shared." + std::to_string(offset)];
    if (!field)
      field = entry_.CreateLoad(
          type, entry_.CreateConstInBoundsGEP1_64(entry_.getInt8Ty(), range, offset));
    return field;
  }
  return b_.CreateLoad(type, b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), range, offset));
}

Value* CheckPart::of_context(Type* type, std::size_t offset) {
  return field_of(state_.block_context, type, offset);
}

void CheckPart::branch(Value* condition, BasicBlock* likely, BasicBlock* unlikely) {
  b_.CreateCondBr(condition, likely, unlikely, MDBuilder{context_}.createBranchWeights(1 << 20, 1));
}

}  // namespace cucpu::simt
