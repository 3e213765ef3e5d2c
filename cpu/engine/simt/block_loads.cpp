// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/block_loads.cpp
#include "cpu/engine/simt/block_loads.hpp"

#include <llvm/IR/CFG.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include "cpu/engine/coverage/count.hpp"
#include "cpu/engine/simt/emitter.hpp"
#include "cpu/engine/simt/markers.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

/// Kinds of memory that do not alias.
struct Memory {
  bool shared = false, other = false;

  [[nodiscard]] bool overlaps(const Memory& with) const {
    return (shared && with.shared) || (other && with.other);
  }
  friend Memory operator|(const Memory& a, const Memory& b) {
    return {a.shared || b.shared, a.other || b.other};
  }
  friend bool operator==(const Memory&, const Memory&) = default;
};

Memory memory_of(const Instruction& access, const Value* pointer) {
  if (is_shared(access, pointer)) return {true, false};
  const StringRef space = space_of(access);
  return {space.empty() || space == "generic", true};
}

/// The kinds of memory that may have changed for the threads after this instruction.
Memory changed_by(const Instruction& inst) {
  if (auto* store = dyn_cast<StoreInst>(&inst); store && store->isSimple())
    return memory_of(inst, store->getPointerOperand());
  if (auto* load = dyn_cast<LoadInst>(&inst); load && load->isSimple()) return {};
  if (!inst.mayWriteToMemory()) return {};
  if (auto* call = dyn_cast<IntrinsicInst>(&inst); call && call->isAssumeLikeIntrinsic()) return {};
  const StringRef name = marker_name(&inst);
  if (is_barrier(name) || is_warp_operation(name) || name.starts_with("sreg.") ||
      is_coverage_marker(name) || is_check(name))
    return {};
  return {true, true};
}

/// Whether an address can be computed before the groups run: it depends on parameters and on
/// uniform special registers only.
bool is_block_address(const Value* value, unsigned depth = 0) {
  constexpr unsigned kDepth = 6;  // below what the emitter rematerialises
  auto* inst = dyn_cast<Instruction>(value);
  if (!inst) return true;
  if (depth > kDepth) return false;
  StringRef name = marker_name(inst);
  if (name == "params" || name == "shared") return true;
  if (name.consume_front("sreg."))
    return name.starts_with("ctaid.") || name.starts_with("nctaid.") || name.starts_with("ntid.");
  if (auto* load = dyn_cast<LoadInst>(inst)) return is_parameter_load(*load);
  if (!isa<BinaryOperator, CastInst, GetElementPtrInst>(inst) || inst->isIntDivRem()) return false;
  return all_of(inst->operands(),
                [&](const Use& use) { return is_block_address(use.get(), depth + 1); });
}

struct Region {
  BasicBlock* start;
  SmallSetVector<BasicBlock*, 16> blocks;
  Memory changed;
  SmallSetVector<LoadInst*, 4> early;  // executed once per thread, on no path after a change

  explicit Region(BasicBlock* from) : start{from} {
    blocks.insert(from);
    for (unsigned i = 0; i < blocks.size(); ++i)
      if (!barrier_at_end(*blocks[i])) blocks.insert(succ_begin(blocks[i]), succ_end(blocks[i]));
    DenseMap<BasicBlock*, Memory> within, before;
    for (BasicBlock* block : blocks) {
      Memory by_block;
      for (const Instruction& inst : *block) by_block = by_block | changed_by(inst);
      within[block] = by_block;
      changed = changed | by_block;
    }
    for (bool again = true; again;) {
      again = false;
      for (BasicBlock* block : blocks) {
        if (barrier_at_end(*block)) continue;
        for (BasicBlock* next : successors(block)) {
          const Memory known = before.lookup(next);
          const Memory at_entry = known | before.lookup(block) | within.lookup(block);
          again |= at_entry != known;
          before[next] = at_entry;
        }
      }
    }
    for (BasicBlock* block : blocks) {
      if (runs_again(block)) continue;
      Memory now = before.lookup(block);
      for (Instruction& inst : *block) {
        if (auto* load = dyn_cast<LoadInst>(&inst); load && load->isSimple())
          if (!memory_of(inst, load->getPointerOperand()).overlaps(now)) early.insert(load);
        now = now | changed_by(inst);
      }
    }
  }

  /// Whether a thread can execute this block twice without a barrier between.
  [[nodiscard]] static bool runs_again(BasicBlock* block) {
    SmallSetVector<BasicBlock*, 16> reachable;
    if (!barrier_at_end(*block)) reachable.insert(succ_begin(block), succ_end(block));
    for (unsigned i = 0; i < reachable.size() && !reachable.contains(block); ++i)
      if (!barrier_at_end(*reachable[i]))
        reachable.insert(succ_begin(reachable[i]), succ_end(reachable[i]));
    return reachable.contains(block);
  }

  /// Whether every thread that enters the region executes this block.
  [[nodiscard]] bool always_runs(const BasicBlock* block) const {
    for (const BasicBlock* at = block; at != start; at = at->getSinglePredecessor())
      if (!at->getSinglePredecessor() || !at->getSinglePredecessor()->getSingleSuccessor())
        return false;
    return true;
  }
};

}  // namespace

BlockLoads::BlockLoads(const Flow& flow) {
  std::vector<Region> regions;
  regions.emplace_back(flow.order.front());
  for (BasicBlock* block : flow.order)
    if (barrier_at_end(*block)) regions.emplace_back(block->getSingleSuccessor());
  for (BasicBlock* block : flow.order)
    for (Instruction& inst : *block) {
      auto* load = dyn_cast<LoadInst>(&inst);
      if (!load || !load->isSimple()) continue;
      const StringRef space = space_of(inst);
      const Memory memory = memory_of(inst, load->getPointerOperand());
      if (space == "const" || space == "param" || all_of(regions, [&](const Region& region) {
            return !region.blocks.contains(block) || !memory.overlaps(region.changed) ||
                   region.early.contains(load);
          }))
        uniform_.insert(load);
    }
  for (const Region& region : regions)
    for (LoadInst* load : region.early) {
      const Value* pointer = load->getPointerOperand();
      if (!uniform_.contains(load) || !memory_of(*load, pointer).overlaps(region.changed)) continue;
      const bool can_enter = region.always_runs(load->getParent()) && is_block_address(pointer);
      (can_enter ? at_entry_ : by_first_group_)[region.start].push_back(load);
    }
}

}  // namespace cucpu::simt
