// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/deferrable_atomics.cpp
#include "cpu/engine/simt/deferrable_atomics.hpp"

#include <llvm/IR/CFG.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

#include "cpu/engine/simt/emitter.hpp"
#include "cpu/engine/simt/markers.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

/// Whether an access may be part of communication between blocks. A kernel with such accesses has
/// no deferrable atomics, because a thread that polls for results of other blocks would poll for
/// longer.
bool communicates(const Instruction& inst) {
  if (isa<FenceInst>(inst)) return true;
  if (auto* load = dyn_cast<LoadInst>(&inst))
    return !load->isSimple() && !is_shared(inst, load->getPointerOperand());
  if (auto* store = dyn_cast<StoreInst>(&inst))
    return !store->isSimple() && !is_shared(inst, store->getPointerOperand());
  if (auto* rmw = dyn_cast<AtomicRMWInst>(&inst))
    return !rmw->use_empty() && !is_shared(inst, rmw->getPointerOperand());
  if (auto* cas = dyn_cast<AtomicCmpXchgInst>(&inst))
    return !is_shared(inst, cas->getPointerOperand());
  if (StringRef name = marker_name(&inst); !name.empty())
    return name == "yield" || name == "yield_block" || name.starts_with("cluster");
  return isa<CallInst>(inst) && !isa<IntrinsicInst>(inst);
}

bool is_deferrable(const AtomicRMWInst& rmw) {
  if (!rmw.use_empty() || rmw.isVolatile() || rmw.getOrdering() != AtomicOrdering::Monotonic ||
      rmw.getMetadata("cucpu.system") || is_shared(rmw, rmw.getPointerOperand()))
    return false;
  switch (rmw.getOperation()) {
    case AtomicRMWInst::FAdd:
      return rmw.getType()->isFloatTy() || rmw.getType()->isDoubleTy();
    case AtomicRMWInst::Add:
    case AtomicRMWInst::And:
    case AtomicRMWInst::Or:
    case AtomicRMWInst::Xor:
    case AtomicRMWInst::Min:
    case AtomicRMWInst::Max:
    case AtomicRMWInst::UMin:
    case AtomicRMWInst::UMax:
      return true;
    default:
      return false;
  }
}

bool is_last_access(const Instruction& inst) {
  SmallPtrSet<const BasicBlock*, 8> seen;
  SmallVector<const BasicBlock*> work;
  auto has_no_access = [&](BasicBlock::const_iterator from, const BasicBlock* block) {
    for (auto it = from; it != block->end(); ++it)
      if (it->mayReadOrWriteMemory() && !marker_name(&*it).starts_with("sreg.")) return false;
    append_range(work, successors(block));
    return true;
  };
  if (!has_no_access(std::next(inst.getIterator()), inst.getParent())) return false;
  while (!work.empty()) {
    const BasicBlock* block = work.pop_back_val();
    if (seen.insert(block).second && !has_no_access(block->begin(), block)) return false;
  }
  return true;
}

}  // namespace

SmallPtrSet<const AtomicRMWInst*, 2> find_deferrable_atomics(Function& thread) {
  SmallPtrSet<const AtomicRMWInst*, 2> found;
  for (Instruction& inst : instructions(thread)) {
    if (communicates(inst)) return {};
    auto* rmw = dyn_cast<AtomicRMWInst>(&inst);
    if (rmw && is_deferrable(*rmw) && is_last_access(inst)) found.insert(rmw);
  }
  return found;
}

}  // namespace cucpu::simt
