// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/dead_shared_stores.cpp
#include "cpu/engine/simt/dead_shared_stores.hpp"

#include <llvm/ADT/MapVector.h>
#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include "cpu/engine/simt/shared_places.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

class DeadStores {
 public:
  explicit DeadStores(Function& block) : block_{block}, places_{block} {}

  unsigned run() {
    for (Instruction* base : places_.bases())
      if (!visit_uses(base)) return 0;
    if (stores_.empty()) return 0;
    for (Instruction& inst : instructions(block_)) visit(inst);
    SmallVector<Instruction*> dead;
    for (const auto& [store, place] : stores_)
      if (!is_read(*store, place)) dead.push_back(store);
    for (Instruction* store : dead) store->eraseFromParent();
    return static_cast<unsigned>(dead.size());
  }

 private:
  using Place = SharedPlaces::Place;
  static constexpr Place kAnywhere{INT64_MIN, INT64_MAX};

  /// Finds all accesses to shared memory. Returns false if its address leaves the code.
  bool visit_uses(Instruction* pointer) {
    for (User* user : pointer->users()) {
      auto* inst = cast<Instruction>(user);
      if (auto* load = dyn_cast<LoadInst>(inst)) {
        reads_[load] = places_.find(load->getPointerOperand(), load->getType()).value_or(kAnywhere);
      } else if (auto* store = dyn_cast<StoreInst>(inst)) {
        if (store->getValueOperand() == pointer) return false;
        const auto place =
            places_.find(store->getPointerOperand(), store->getValueOperand()->getType());
        if (store->isSimple() && place) stores_[store] = *place;
      } else if (isa<GetElementPtrInst>(inst)) {
        if (!visit_uses(inst)) return false;
      } else if (isa<AtomicRMWInst, AtomicCmpXchgInst>(inst)) {
        if (is_contained(drop_begin(inst->operands()), pointer)) return false;
        reads_[inst] = kAnywhere;
      } else if (auto* call = dyn_cast<IntrinsicInst>(inst)) {
        switch (call->getIntrinsicID()) {
          case Intrinsic::masked_gather:
          case Intrinsic::masked_load:
          case Intrinsic::masked_expandload:
            reads_[call] = kAnywhere;
            break;
          case Intrinsic::masked_scatter:
          case Intrinsic::masked_store:
            if (call->getArgOperand(0) == pointer) return false;
            break;
          case Intrinsic::prefetch:
            break;
          default:
            return false;
        }
      } else if (!isa<ICmpInst>(inst)) {
        return false;
      }
    }
    return true;
  }

  /// Calls may do anything with the memory of the block, except those that end it.
  void visit(Instruction& inst) {
    auto* call = dyn_cast<CallInst>(&inst);
    if (!call || isa<IntrinsicInst>(call)) return;
    if (const Function* callee = call->getCalledFunction();
        callee && callee->getName() == "cucpu_rt_next_block")
      ends_.insert(call);
    else if (!call->doesNotReturn() && !call->doesNotAccessMemory())
      reads_[call] = kAnywhere;
  }

  /// Whether a load of these bytes follows before the block ends or they are written again.
  bool is_read(Instruction& store, const Place& place) {
    enum class Found { no, end, read };
    const auto look = [&](BasicBlock::iterator at) {
      for (; !at->isTerminator(); ++at) {
        if (ends_.contains(&*at)) return Found::end;
        if (auto write = stores_.find(&*at);
            write != stores_.end() && write->second.contains(place))
          return Found::end;
        if (auto read = reads_.find(&*at); read != reads_.end() && read->second.overlaps(place))
          return Found::read;
      }
      return Found::no;
    };
    SmallPtrSet<BasicBlock*, 16> seen;
    SmallVector<BasicBlock*> left;
    const auto go_on = [&](BasicBlock* from) {
      for (BasicBlock* next : successors(from))
        if (seen.insert(next).second) left.push_back(next);
    };
    switch (look(std::next(store.getIterator()))) {
      case Found::read:
        return true;
      case Found::end:
        return false;
      case Found::no:
        go_on(store.getParent());
    }
    while (!left.empty()) {
      BasicBlock* at = left.pop_back_val();
      const Found found = look(at->begin());
      if (found == Found::read) return true;
      if (found == Found::no) go_on(at);
    }
    return false;
  }

  Function& block_;
  const SharedPlaces places_;
  MapVector<Instruction*, Place> stores_;  ///< to constant places
  DenseMap<const Instruction*, Place> reads_;
  SmallPtrSet<const Instruction*, 4> ends_;
};

}  // namespace

unsigned remove_dead_shared_stores(Function& block) { return DeadStores{block}.run(); }

}  // namespace cucpu::simt
