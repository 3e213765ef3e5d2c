// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/indirect_calls.cpp
#include "cpu/engine/jit/indirect_calls.hpp"

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

namespace cucpu {

using namespace llvm;

void call_through_pointers(Module& module) {
  for (Function& callee : module) {
    if (!callee.isDeclaration() || callee.isIntrinsic()) continue;
    SmallVector<CallBase*, 8> calls;
    for (Use& use : callee.uses())
      if (auto* call = dyn_cast<CallBase>(use.getUser()); call && call->isCallee(&use))
        calls.push_back(call);
    if (calls.empty()) continue;
    auto* const address = new GlobalVariable{module,  callee.getType(),
                                             true,    GlobalValue::PrivateLinkage,
                                             &callee, callee.getName() + ".address"};
    for (CallBase* call : calls) {
      IRBuilder<> b{call};
      // Code generation would turn a known address back into a direct call.
      call->setCalledOperand(b.CreateLoad(callee.getType(), address, /*isVolatile=*/true));
    }
  }
}

}  // namespace cucpu
