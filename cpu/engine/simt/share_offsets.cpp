// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/share_offsets.cpp
#include "cpu/engine/simt/share_offsets.hpp"

#include <llvm/ADT/MapVector.h>
#include <llvm/ADT/SetVector.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/Transforms/Utils/Local.h>

#include <cstdint>
#include <utility>

#include "cpu/engine/simt/markers.hpp"

namespace cucpu::simt {

using namespace llvm;
using namespace PatternMatch;

namespace {

/// Whether a value is certainly the same for all threads of a block: it follows from parameters and
/// the block.
bool is_uniform(const Value* v, unsigned depth = 0) {
  constexpr unsigned kDepth = 8;
  if (isa<Constant>(v)) return true;
  const auto* inst = dyn_cast<Instruction>(v);
  if (!inst || depth > kDepth) return false;
  if (const auto* load = dyn_cast<LoadInst>(inst)) return is_parameter_load(*load);
  const StringRef name = marker_name(inst);
  if (name.starts_with("sreg.ctaid.") || name.starts_with("sreg.ntid.") ||
      name.starts_with("sreg.nctaid."))
    return true;
  return isa<BinaryOperator, CastInst>(inst) &&
         all_of(inst->operands(), [&](const Use& use) { return is_uniform(use, depth + 1); });
}

/// Whether a value is computed from one that the program loads.
bool follows_from_memory(const Value* v) {
  constexpr unsigned kMost = 32;
  SmallSetVector<const Value*, kMost> seen;
  seen.insert(v);
  for (unsigned i = 0; i < seen.size() && i < kMost; ++i) {
    const auto* inst = dyn_cast<Instruction>(seen[i]);
    if (!inst) continue;
    if (const auto* load = dyn_cast<LoadInst>(inst)) {
      if (!is_parameter_load(*load)) return true;
      continue;
    }
    for (const Value* operand : inst->operands())
      if (isa<Instruction>(operand)) seen.insert(operand);
  }
  return false;
}

/// A phi of a loop that starts at `base + offset`.
struct Moving {
  PHINode* phi;
  Value* base;
};

void share(const Loop& loop) {
  BasicBlock *header = loop.getHeader(), *before = loop.getLoopPredecessor(),
             *latch = loop.getLoopLatch();
  if (!before || !latch) return;
  SmallMapVector<std::pair<Value*, std::uint64_t>, SmallVector<Moving, 4>, 4> found;
  for (PHINode& phi : header->phis()) {
    Value *left, *right;
    const APInt* step;
    if (!phi.getType()->isIntegerTy(64) ||
        !match(phi.getIncomingValueForBlock(before), m_Add(m_Value(left), m_Value(right))) ||
        !match(phi.getIncomingValueForBlock(latch), m_Add(m_Specific(&phi), m_APInt(step))))
      continue;
    if (is_uniform(right)) std::swap(left, right);
    if (!is_uniform(left) || isa<Constant>(left) || !follows_from_memory(right)) continue;
    found[{right, step->getZExtValue()}].push_back({&phi, left});
  }
  for (const auto& [where, phis] : found) {
    if (phis.size() < 2) continue;
    const auto [start, step] = where;
    IRBuilder<> b{header, header->begin()};
    PHINode* const offset = b.CreatePHI(b.getInt64Ty(), 2, "offset");
    b.SetInsertPoint(header, header->getFirstInsertionPt());
    for (const auto& [phi, base] : phis) {
      Value* const next = phi->getIncomingValueForBlock(latch);
      phi->replaceAllUsesWith(b.CreateAdd(base, offset));
      phi->eraseFromParent();
      RecursivelyDeleteTriviallyDeadInstructions(next);
    }
    b.SetInsertPoint(latch->getTerminator());
    offset->addIncoming(start, before);
    offset->addIncoming(b.CreateAdd(offset, b.getInt64(step)), latch);
  }
}

}  // namespace

void share_offsets(Function& thread) {
  const DominatorTree tree{thread};
  const LoopInfo loops{tree};
  for (const Loop* loop : loops.getLoopsInPreorder()) share(*loop);
}

}  // namespace cucpu::simt
