// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/stack_size.cpp
#include "cpu/engine/jit/stack_size.hpp"

#include <llvm/IR/DataLayout.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include <algorithm>

namespace cucpu {

using namespace llvm;

std::uint32_t estimate_stack_bytes(const Module& module, bool optimized) {
  std::uint64_t bytes = 0, vectors = 0;
  const DataLayout& layout = module.getDataLayout();
  for (const Function& function : module)
    for (const Instruction& instruction : instructions(function)) {
      if (const auto* local = dyn_cast<AllocaInst>(&instruction)) {
        if (const auto size = local->getAllocationSize(layout))
          bytes += *size + local->getAlign().value();
      } else if (const auto* type = dyn_cast<FixedVectorType>(instruction.getType())) {
        const std::uint64_t size = layout.getTypeAllocSize(instruction.getType());
        vectors += optimized ? size : std::max<std::uint64_t>(2 * size, 8 * type->getNumElements());
      }
    }
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(48 * 1024 + bytes + bytes / 4 + vectors, 1U << 30));
}

void probe_stacks(Module& module) {
  for (Function& function : module)
    if (!function.isDeclaration()) function.addFnAttr("probe-stack", "inline-asm");
}

}  // namespace cucpu
