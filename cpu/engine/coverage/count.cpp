// SPDX-License-Identifier: Apache-2.0
// cpu/engine/coverage/count.cpp
#include "cpu/engine/coverage/count.hpp"

#include <llvm/IR/Module.h>

namespace cucpu {

using namespace llvm;

Value* emit_counters(IRBuilderBase& b, Module& module, bool exclusive) {
  Constant* const counters = module.getOrInsertGlobal(kCoverageSymbol, b.getInt8Ty());
  FunctionCallee routine =
      module.getOrInsertFunction("cucpu_rt_coverage", b.getPtrTy(), b.getPtrTy());
  auto* const function = cast<Function>(routine.getCallee());
  function->setDoesNotThrow();
  function->setMemoryEffects(MemoryEffects::inaccessibleMemOnly());
  CallInst* const call = b.CreateCall(routine, {counters}, "counters");
  // Kernels cannot reach the counters: without this, no load could move across a count.
  if (exclusive) call->addRetAttr(Attribute::NoAlias);
  return call;
}

void emit_count(IRBuilderBase& b, Value* counters, Value* index, Value* amount) {
  Value* const place =
      b.CreateInBoundsGEP(b.getInt64Ty(), counters, b.CreateZExt(index, b.getInt64Ty()));
  Value* const before = b.CreateAlignedLoad(b.getInt64Ty(), place, Align{8});
  b.CreateAlignedStore(b.CreateAdd(before, amount), place, Align{8});
}

}  // namespace cucpu
