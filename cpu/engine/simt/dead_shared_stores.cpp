// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/dead_shared_stores.cpp
#include "cpu/engine/simt/dead_shared_stores.hpp"

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include <optional>

#include "cpu/engine/run/block_context.hpp"

namespace cucpu::simt {

using namespace llvm;

namespace {

class DeadStores {
 public:
  explicit DeadStores(Function& block)
      : block_{block}, layout_{block.getParent()->getDataLayout()} {}

  unsigned run() {
    for (Instruction& inst : instructions(block_))
      if (is_shared_memory(inst)) bases_.insert(&inst);
    for (Instruction* base : bases_)
      if (!visit_uses(base)) return 0;
    if (stores_.empty()) return 0;
    for (Instruction& inst : instructions(block_)) visit(inst);
    SmallVector<StoreInst*> dead;
    for (const auto& [store, place] : stores_)
      if (!is_read(*store, place)) dead.push_back(store);
    for (StoreInst* store : dead) store->eraseFromParent();
    return static_cast<unsigned>(dead.size());
  }

 private:
  /// Bytes from the beginning of shared memory on.
  struct Place {
    std::int64_t first, end;
    [[nodiscard]] bool overlaps(const Place& other) const {
      return first < other.end && other.first < end;
    }
  };
  static constexpr Place kAnywhere{INT64_MIN, INT64_MAX};

  bool is_shared_memory(const Instruction& inst) const {
    auto* load = dyn_cast<LoadInst>(&inst);
    if (!load || !load->getType()->isPointerTy()) return false;
    APInt offset{64, 0};
    return load->getPointerOperand()->stripAndAccumulateConstantOffsets(
               layout_, offset, /*AllowNonInbounds=*/true) == block_.getArg(0) &&
           offset == offsetof(BlockContext, shared);
  }

  [[nodiscard]] Place place_of(const Value* pointer, const Type* type) const {
    APInt offset{64, 0};
    const Value* base = pointer->stripAndAccumulateConstantOffsets(layout_, offset,
                                                                   /*AllowNonInbounds=*/true);
    if (!isa<Instruction>(base) || !bases_.contains(cast<Instruction>(base))) return kAnywhere;
    const std::int64_t first = offset.getSExtValue();
    const TypeSize size = layout_.getTypeStoreSize(const_cast<Type*>(type));
    return {first, first + static_cast<std::int64_t>(size.getFixedValue())};
  }

  /// Finds all accesses to shared memory. Returns false if its address leaves the code.
  bool visit_uses(Instruction* pointer) {
    for (User* user : pointer->users()) {
      auto* inst = cast<Instruction>(user);
      if (auto* load = dyn_cast<LoadInst>(inst)) {
        reads_[load] = place_of(load->getPointerOperand(), load->getType());
      } else if (auto* store = dyn_cast<StoreInst>(inst)) {
        if (store->getValueOperand() == pointer) return false;
        const Place place =
            place_of(store->getPointerOperand(), store->getValueOperand()->getType());
        if (store->isSimple() && place.first != INT64_MIN) stores_.push_back({store, place});
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

  /// Whether a load of these bytes follows before the block ends.
  bool is_read(StoreInst& store, const Place& place) {
    enum class Found { no, end, read };
    const auto look = [&](BasicBlock::iterator at) {
      for (; !at->isTerminator(); ++at) {
        if (ends_.contains(&*at)) return Found::end;
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
  const DataLayout& layout_;
  SmallPtrSet<Instruction*, 4> bases_;
  SmallVector<std::pair<StoreInst*, Place>> stores_;
  DenseMap<const Instruction*, Place> reads_;
  SmallPtrSet<const Instruction*, 4> ends_;
};

}  // namespace

unsigned remove_dead_shared_stores(Function& block) { return DeadStores{block}.run(); }

}  // namespace cucpu::simt
