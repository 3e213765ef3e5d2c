// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/thread_needs.cpp
#include "cpu/engine/jit/thread_needs.hpp"

#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include "cpu/engine/coverage/count.hpp"
#include "cpu/engine/jit/spin_loops.hpp"

namespace cucpu {

using namespace llvm;

ThreadNeeds find_thread_needs(Function& kernel) {
  ThreadNeeds needs;
  bool others = false;
  Module& module = *kernel.getParent();
  for (Function& function : module) {
    if (function.isDeclaration()) continue;
    if (&function != &kernel) needs.fibers = needs.recursive = true;
    for (Instruction& instruction : instructions(function)) {
      const auto* call = dyn_cast<CallBase>(&instruction);
      if (!call) continue;
      const Function* callee = call->getCalledFunction();
      if (!callee) {
        needs.fibers = needs.recursive = true;
        continue;
      }
      StringRef name = callee->getName();
      if (!name.consume_front("cucpu.")) {
        if (callee->isDeclaration() && !callee->isIntrinsic() && !name.starts_with("cucpu_rt_"))
          needs.fibers = needs.recursive = true;
        continue;
      }
      others |= is_coverage_marker(name);  // their counters are those of a fiber
      if (name == "yield") needs.spins = true;
      if (name.starts_with("sreg.") || name == "params" || name == "shared" || name == "trap" ||
          name == "exit" || name.starts_with("check.") || is_coverage_marker(name))
        continue;
      needs.fibers = true;
      others |= name != "yield";
    }
    if (mark_spin_loops(function)) needs.fibers = needs.spins = true;
  }
  needs.only_spins = needs.spins && !needs.recursive && !others;
  return needs;
}

}  // namespace cucpu
