// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/underlying_values.hpp: the values that an address is computed from (compare LLVM's
// getUnderlyingObjects, which follows pointers only; PTX computes addresses with integers).
#pragma once

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Instruction.h>
#include <llvm/IR/Operator.h>

namespace cucpu {

enum class Visit {
  descend,  ///< continue with the operands of this value
  skip,     ///< do not visit its operands
  stop,     ///< end the visit
};

/// Visits `address` and the values that it is a sum of or a selection from, each once. Returns
/// false when the visitor stopped, when there are too many values, or when a loaded value or the
/// result of a call may be an address itself (an index has fewer bits, or is scaled).
template <typename Visitor>
bool visit_underlying_values(llvm::Value* address, Visitor visitor) {
  constexpr unsigned kMost = 64;
  llvm::SmallVector<llvm::Value*, 16> work{address};
  llvm::SmallPtrSet<llvm::Value*, 16> seen;
  while (!work.empty()) {
    llvm::Value* value = work.pop_back_val();
    if (!seen.insert(value).second) continue;
    if (seen.size() > kMost) return false;
    const Visit visit = visitor(value);
    if (visit == Visit::stop) return false;
    auto* op = llvm::dyn_cast<llvm::Operator>(value);
    if (visit == Visit::skip || !op) continue;
    using llvm::Instruction;
    switch (op->getOpcode()) {
      case Instruction::Add:
      case Instruction::Sub:
      case Instruction::Or:
      case Instruction::And:
      case Instruction::GetElementPtr:
      case Instruction::PHI:
      case Instruction::IntToPtr:
      case Instruction::PtrToInt:
      case Instruction::Freeze:
        for (llvm::Value* operand : op->operands()) work.push_back(operand);
        break;
      case Instruction::Select:
        work.push_back(op->getOperand(1));
        work.push_back(op->getOperand(2));
        break;
      case Instruction::Load:
      case Instruction::Call:
        if (op->getType()->isPointerTy() || op->getType()->isIntegerTy(64)) return false;
        break;
      default:
        break;
    }
  }
  return true;
}

}  // namespace cucpu
