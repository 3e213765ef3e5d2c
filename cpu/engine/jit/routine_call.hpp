// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/routine_call.hpp: calls of runtime routines that instrumenting passes insert.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

namespace cucpu {

/// Inserts a call of a routine (runtime/routines.def); its parameters have the types of the
/// arguments. Routines find the line of a call by its return address, so calls are not merged.
inline llvm::Value* call_routine(llvm::Module& module, llvm::IRBuilder<>& b, llvm::Type* result,
                                 const char* name, llvm::ArrayRef<llvm::Value*> arguments) {
  llvm::SmallVector<llvm::Type*, 5> types;
  for (llvm::Value* argument : arguments) types.push_back(argument->getType());
  llvm::FunctionCallee callee =
      module.getOrInsertFunction(name, llvm::FunctionType::get(result, types, false));
  llvm::cast<llvm::Function>(callee.getCallee())->setDoesNotThrow();
  llvm::CallInst* const call = b.CreateCall(callee, arguments);
  call->addFnAttr(llvm::Attribute::NoMerge);
  return call;
}

/// The same for a routine without a result.
inline void call_routine(llvm::Module& module, llvm::IRBuilder<>& b, const char* name,
                         llvm::ArrayRef<llvm::Value*> arguments) {
  call_routine(module, b, b.getVoidTy(), name, arguments);
}

}  // namespace cucpu
