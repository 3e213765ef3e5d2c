// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/extract.cpp
#include "cpu/engine/jit/extract.hpp"

#include <llvm/ADT/SCCIterator.h>
#include <llvm/Analysis/CallGraph.h>
#include <llvm/IR/Module.h>

namespace cucpu {
namespace {

using namespace llvm;

bool address_taken(const Function& function) {
  return function.hasAddressTaken(nullptr, false, true, true);
}

/// Functions that call themselves, directly or through others.
SmallPtrSet<Function*, 8> recursive_functions(Module& module) {
  SmallPtrSet<Function*, 8> found;
  CallGraph graph{module};
  for (auto scc = scc_begin(&graph); !scc.isAtEnd(); ++scc) {
    if (!scc.hasCycle()) continue;
    for (CallGraphNode* node : *scc)
      if (node->getFunction()) found.insert(node->getFunction());
  }
  return found;
}

/// Functions that are too large for inlining: inlining every call in a chain of them could grow
/// code exponentially.
SmallPtrSet<Function*, 8> oversized_functions(Module& module) {
  constexpr std::uint64_t kMost = 20'000, kSmall = 1'000;  // instructions
  SmallPtrSet<Function*, 8> found;
  DenseMap<Function*, std::uint64_t> sizes;  // with everything inlined
  CallGraph graph{module};
  for (auto scc = scc_begin(&graph); !scc.isAtEnd(); ++scc) {  // callees first
    for (CallGraphNode* node : *scc) {
      Function* function = node->getFunction();
      if (!function || function->isDeclaration()) continue;
      const auto total = [&] {
        std::uint64_t sum = function->getInstructionCount();
        for (const auto& [call, callee] : *node)
          if (Function* other = callee->getFunction(); other && !found.contains(other))
            sum += sizes.lookup(other);
        return sum;
      };
      if (total() > kMost)
        for (const auto& [call, callee] : *node)
          if (Function* other = callee->getFunction(); other && sizes.lookup(other) > kSmall)
            found.insert(other);
      sizes[function] = total();
    }
  }
  return found;
}

}  // namespace

void extract_kernel(Function& kernel, bool keep_calls) {
  Module& module = *kernel.getParent();
  const auto recursive = recursive_functions(module);
  const auto oversized = oversized_functions(module);
  for (Function& function : module) {
    if (function.isDeclaration()) continue;
    if (&function == &kernel) {
      function.setLinkage(GlobalValue::ExternalLinkage);
    } else if (function.hasFnAttribute("cucpu.kernel")) {
      function.setLinkage(GlobalValue::InternalLinkage);
    } else if (address_taken(function)) {
      // One copy for the module, so that a pointer is the same in every kernel. Direct calls use
      // this copy too.
      function.deleteBody();
      function.setComdat(nullptr);
    } else {
      function.setLinkage(GlobalValue::InternalLinkage);
      function.removeFnAttr(Attribute::NoInline);
      function.removeFnAttr(Attribute::OptimizeNone);
      if (!keep_calls && !recursive.contains(&function) && !oversized.contains(&function))
        function.addFnAttr(Attribute::AlwaysInline);
    }
  }
}

std::vector<std::string> extract_functions(Module& module, std::span<const std::string> also) {
  SmallPtrSet<Function*, 8> keep;
  for (Function& function : module) {
    if (!function.isDeclaration() && !function.hasFnAttribute("cucpu.kernel") &&
        address_taken(function))
      keep.insert(&function);
  }
  for (const std::string& name : also) {
    Function* function = module.getFunction(name);
    if (function && !function->isDeclaration()) keep.insert(function);
  }
  std::vector<std::string> names;
  for (Function& function : module) {
    if (function.isDeclaration()) continue;
    const bool kept = keep.contains(&function);
    function.setLinkage(kept ? GlobalValue::ExternalLinkage : GlobalValue::InternalLinkage);
    if (kept) names.push_back(function.getName().str());
  }
  return names;
}

}  // namespace cucpu
