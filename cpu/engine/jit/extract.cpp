// cpu/engine/jit/extract.cpp: one kernel alone in its module, with its calls inlined; and what its
// threads need of each other.
#include <llvm/ADT/SCCIterator.h>
#include <llvm/ADT/SetVector.h>
#include <llvm/Analysis/CallGraph.h>
#include <llvm/Analysis/PostDominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/BasicBlockUtils.h>

#include "cpu/engine/jit/lower.hpp"
#include "cpu/engine/jit/optimize.hpp"
#include "cpu/engine/jit/spin_loops.hpp"

namespace cucpu {
namespace {

using namespace llvm;

bool address_taken(const Function& function) {
  return function.hasAddressTaken(nullptr, false, true, true);
}

/// Functions that may call themselves, directly or through others.
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

/// Marks the back edges of loops that wait; true when there are any. Where every turn passes a
/// barrier it is a `turn`: block code may go round with all its threads, and let other blocks run
/// in between. Else it is a `yield`, and the first turns pass without: a loop that looks for a free
/// place, or tries again what another thread came before it with, is mostly over by then, and a
/// thread that gives way once makes the runtime start others on stacks of their own.
bool mark_spin_loops(Function& function) {
  constexpr unsigned kFree = 4;
  DominatorTree dominators{function};
  LoopInfo loops{dominators};
  if (loops.empty()) return false;
  const PostDominatorTree ends{function};
  struct Spin {
    SmallVector<BasicBlock*, 4> latches;
    BasicBlock *header, *before;
    bool at_barrier;
  };
  SmallVector<Spin, 4> found;
  for (Loop* loop : loops.getLoopsInPreorder()) {
    if (!is_spin_loop(*loop, loops, dominators, ends)) continue;
    found.push_back(
        {{}, loop->getHeader(), loop->getLoopPreheader(), passes_barrier_every_iteration(*loop)});
    loop->getLoopLatches(found.back().latches);
  }
  if (found.empty()) return false;
  Module& module = *function.getParent();
  IRBuilder<> b{module.getContext()};
  const auto call = [&](const char* name, ArrayRef<Value*> arguments) {
    SmallVector<Type*, 1> types;
    for (Value* argument : arguments) types.push_back(argument->getType());
    FunctionCallee marker =
        module.getOrInsertFunction(name, FunctionType::get(b.getVoidTy(), types, false));
    cast<Function>(marker.getCallee())->setDoesNotThrow();
    return b.CreateCall(marker, arguments);
  };
  for (const Spin& spin : found) {
    AllocaInst* turns = nullptr;
    if (!spin.at_barrier) {
      BasicBlock& entry = function.getEntryBlock();
      b.SetInsertPoint(&entry, entry.begin());
      turns = b.CreateAlloca(b.getInt32Ty(), nullptr, "turns");
      b.SetInsertPoint(spin.before ? spin.before->getTerminator() : turns->getNextNode());
      b.CreateStore(b.getInt32(0), turns);
    }
    for (BasicBlock* latch : spin.latches) {
      // Only where it goes round again; of a switch, which may go there by several edges, always.
      const bool splits = isa<BranchInst>(latch->getTerminator());
      const DebugLoc line = latch->getTerminator()->getDebugLoc();
      Instruction* end = (splits ? SplitEdge(latch, spin.header) : latch)->getTerminator();
      b.SetInsertPoint(end);
      if (spin.at_barrier) {
        call("cucpu.turn", {})->setDebugLoc(line);
        continue;
      }
      Value* turn = b.CreateLoad(b.getInt32Ty(), turns);
      b.CreateStore(b.CreateAdd(turn, b.getInt32(1)), turns);
      Value* waits = b.CreateICmpUGE(turn, b.getInt32(kFree));
      b.SetInsertPoint(SplitBlockAndInsertIfThen(waits, end, false));
      call("cucpu.yield", {b.getInt32(0)})->setDebugLoc(line);
    }
  }
  return true;
}

}  // namespace

namespace {

/// Functions too large to be inlined where they are called: inlining every call of a chain of them
/// would grow without bound.
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

void extract_kernel(Function& kernel, void (*after_inlining)(Module&)) {
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
      // One copy for the whole module, so that a pointer means the same in every kernel. Its direct
      // calls go there too.
      function.deleteBody();
      function.setComdat(nullptr);
    } else {
      function.setLinkage(GlobalValue::InternalLinkage);
      function.removeFnAttr(Attribute::NoInline);
      function.removeFnAttr(Attribute::OptimizeNone);
      if (!recursive.contains(&function) && !oversized.contains(&function))
        function.addFnAttr(Attribute::AlwaysInline);
    }
  }
  const auto inline_all = [](ModulePassManager& passes) {
    passes.addPass(AlwaysInlinerPass(false));
    passes.addPass(GlobalDCEPass());
  };
  const auto promote = [](ModulePassManager& passes) {
    passes.addPass(createModuleToFunctionPassAdaptor(SROAPass(SROAOptions::ModifyCFG)));
    passes.addPass(createModuleToFunctionPassAdaptor(SimplifyCFGPass()));
  };
  if (after_inlining) {
    run_module_passes(module, nullptr, inline_all);
    after_inlining(module);
    run_module_passes(module, nullptr, promote);
  } else {
    run_module_passes(module, nullptr, [&](ModulePassManager& passes) {
      inline_all(passes);
      promote(passes);
    });
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
  run_module_passes(module, nullptr,
                    [](ModulePassManager& passes) { passes.addPass(GlobalDCEPass()); });
  for (Function& function : module)
    if (!function.isDeclaration()) mark_spin_loops(function);
  return names;
}

ThreadNeeds find_needs(Function& kernel) {
  ThreadNeeds needs;
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
      if (name == "yield") needs.spins = true;
      if (name.starts_with("sreg.") || name == "params" || name == "shared" || name == "trap" ||
          name == "exit" || name == "check.align")
        continue;
      needs.fibers = true;
    }
    if (mark_spin_loops(function)) needs.fibers = needs.spins = true;
  }
  return needs;
}

}  // namespace cucpu
