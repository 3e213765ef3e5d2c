// SPDX-License-Identifier: Apache-2.0
// cpu/engine/coverage/insert_coverage.cpp
#include "cpu/engine/coverage/insert_coverage.hpp"

#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/Demangle/Demangle.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <optional>

#include "cpu/engine/coverage/coverage_map.hpp"

namespace cucpu {
namespace {

using namespace llvm;

class Inserter {
 public:
  Inserter(Function& function, CoverageMap& map)
      : function_{function}, map_{map}, b_{function.getContext()} {}

  void run() {
    if (!function_.getSubprogram()) return;
    const DISubprogram& subprogram = *function_.getSubprogram();
    CoverageFunction described;
    described.name = demangle(subprogram.getName());
    described.kernel = function_.hasFnAttribute("cucpu.kernel");
    described.at = {file_of(*subprogram.getFile()), subprogram.getLine()};
    const ReversePostOrderTraversal<Function*> order{&function_};
    for (BasicBlock* block : order) visit(*block);
    described.counter = counters_.lookup(&function_.getEntryBlock());
    map_.functions.push_back(std::move(described));
  }

 private:
  std::uint32_t file_of(const DIFile& file) {
    const StringRef folder = file.getDirectory();
    return map_.file_index(folder.empty() ? file.getFilename().str()
                                          : (folder + "/" + file.getFilename()).str());
  }

  std::optional<CoverageLine> line_of(const Instruction& instruction) {
    const DebugLoc& where = instruction.getDebugLoc();
    if (!where || where.getLine() == 0) return std::nullopt;
    return CoverageLine{file_of(*cast<DILocation>(where.get())->getFile()), where.getLine()};
  }

  void visit(BasicBlock& block) {
    CoverageBlock described;
    for (const Instruction& instruction : block)
      if (const auto line = line_of(instruction)) described.lines.push_back(*line);
    std::sort(described.lines.begin(), described.lines.end());
    described.lines.erase(std::unique(described.lines.begin(), described.lines.end()),
                          described.lines.end());
    const std::uint32_t counter = counter_of(block);
    counters_[&block] = counter;
    described.counter = counter;
    if (!described.lines.empty()) map_.blocks.push_back(std::move(described));
    visit_branch(block);
  }

  /// A block with one predecessor runs as often as its predecessor, or as a side of its branch.
  std::uint32_t counter_of(BasicBlock& block) {
    if (BasicBlock* const before = block.getSinglePredecessor()) {
      const auto branch = branches_.find(before);
      if (branch != branches_.end()) {
        const auto* last = cast<BranchInst>(before->getTerminator());
        return branch->second +
               (last->getSuccessor(0) == &block ? CoverageBranch::kTrue : CoverageBranch::kFalse);
      }
      if (before->getSingleSuccessor() == &block) return counters_.lookup(before);
    }
    const std::uint32_t counter = take(1);
    b_.SetInsertPoint(&block, block.getFirstNonPHIOrDbgOrAlloca());
    mark("cucpu.coverage.block", {b_.getInt32(counter)});
    return counter;
  }

  void visit_branch(BasicBlock& block) {
    auto* const last = dyn_cast<BranchInst>(block.getTerminator());
    if (!last || !last->isConditional() || last->getSuccessor(0) == last->getSuccessor(1)) return;
    const auto line = line_of(*last);
    if (!line) return;
    CoverageBranch described;
    described.counter = take(CoverageBranch::kCounters);
    described.function = static_cast<std::uint32_t>(map_.functions.size());
    described.at = *line;
    described.column = last->getDebugLoc().getCol();
    described.true_line = first_line(*last->getSuccessor(0), line->file);
    described.false_line = first_line(*last->getSuccessor(1), line->file);
    b_.SetInsertPoint(last);
    mark("cucpu.coverage.branch", {b_.getInt32(described.counter), last->getCondition()});
    branches_[&block] = described.counter;
    map_.branches.push_back(described);
  }

  /// The line of this file where execution continues in a block; 0 if none is found.
  std::uint32_t first_line(const BasicBlock& start, std::uint32_t file) {
    constexpr int kSteps = 8;
    const BasicBlock* block = &start;
    for (int step = 0; block && step < kSteps; ++step, block = block->getSingleSuccessor())
      for (const Instruction& instruction : *block)
        if (const auto line = line_of(instruction); line && line->file == file) return line->line;
    return 0;
  }

  std::uint32_t take(std::uint32_t count) {
    const std::uint32_t first = map_.counters;
    map_.counters += count;
    return first;
  }

  void mark(const char* name, ArrayRef<Value*> arguments) {
    SmallVector<Type*, 2> types;
    for (Value* argument : arguments) types.push_back(argument->getType());
    Module& module = *function_.getParent();
    FunctionCallee callee =
        module.getOrInsertFunction(name, FunctionType::get(b_.getVoidTy(), types, false));
    auto* const marker = cast<Function>(callee.getCallee());
    marker->setDoesNotThrow();
    marker->setWillReturn();
    marker->setMemoryEffects(MemoryEffects::inaccessibleMemOnly());
    CallInst* const call = b_.CreateCall(callee, arguments);
    // Calls of a function with debug info need a location, for inlining.
    call->setDebugLoc(DILocation::get(function_.getContext(), 0, 0, function_.getSubprogram()));
  }

  Function& function_;
  CoverageMap& map_;
  IRBuilder<> b_;
  DenseMap<const BasicBlock*, std::uint32_t> counters_;  ///< of visited blocks
  DenseMap<const BasicBlock*, std::uint32_t> branches_;  ///< first counter of a counted branch
};

}  // namespace

void insert_coverage(Function& function, CoverageMap& map) { Inserter{function, map}.run(); }

}  // namespace cucpu
