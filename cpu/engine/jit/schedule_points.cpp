// SPDX-License-Identifier: Apache-2.0
// cpu/engine/jit/schedule_points.cpp
#include "cpu/engine/jit/schedule_points.hpp"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>

#include "cpu/engine/jit/routine_call.hpp"

namespace cucpu {
namespace {

using namespace llvm;

/// Whether other threads can see the access.
bool is_visible(const Instruction& i) {
  const MDNode* node = i.getMetadata("cucpu.space");
  if (!node) return false;
  const StringRef space = cast<MDString>(node->getOperand(0))->getString();
  return space != "param" && space != "const" && space != "local";
}

class SchedulePoints {
 public:
  explicit SchedulePoints(Module& module)
      : module_{module}, layout_{module.getDataLayout()}, b_{module.getContext()} {}

  void run() {
    SmallVector<Instruction*, 64> all;
    for (Function& function : module_)
      for (Instruction& i : instructions(function)) all.push_back(&i);
    for (Instruction* i : all) {
      b_.SetInsertPoint(i);
      if (isa<FenceInst>(i)) {
        synchronize(*i);
      } else if (auto* call = dyn_cast<CallInst>(i)) {
        visit_call(*call);
      } else if (is_visible(*i)) {
        visit_access(*i);
      }
    }
  }

 private:
  /// Check mode's own routines read no memory of the kernel.
  static bool may_access_memory(const CallInst& call) {
    if (isa<IntrinsicInst>(call) && !isa<MemIntrinsic>(call)) return false;
    if (call.doesNotAccessMemory()) return false;
    const Function* const callee = call.getCalledFunction();
    if (!callee) return true;
    const StringRef name = callee->getName();
    return !name.starts_with("cucpu_rt_check") && !name.starts_with("cucpu.check") &&
           !name.starts_with("cucpu_rt_misaligned");
  }

  void routine(const char* name, ArrayRef<Value*> arguments) {
    call_routine(module_, b_, name, arguments);
  }

  Value* bytes_of(Type* type) {
    return b_.getInt32(static_cast<std::uint32_t>(layout_.getTypeStoreSize(type)));
  }

  void atomic(Value* pointer, Type* type, AtomicOrdering order) {
    routine("cucpu_rt_schedule_atomic",
            {pointer, bytes_of(type), b_.getInt1(isReleaseOrStronger(order)),
             b_.getInt1(isAcquireOrStronger(order))});
  }

  /// Around a fence, a barrier, or a call that may access memory.
  void synchronize(Instruction& i) {
    routine("cucpu_rt_schedule_release", {});
    b_.SetInsertPoint(i.getNextNode());
    routine("cucpu_rt_schedule_acquire", {});
  }

  /// A variable of the function that holds the value of an access.
  static Value* slot_of(Instruction& access, Type* type) {
    IRBuilder<> entry{&*access.getFunction()->getEntryBlock().getFirstInsertionPt()};
    return entry.CreateAlloca(type);
  }

  void visit_load(LoadInst& load) {
    Value* const pointer = load.getPointerOperand();
    Type* const type = load.getType();
    if (isAcquireOrStronger(load.getOrdering()))
      return routine("cucpu_rt_schedule_acquire_load", {pointer, bytes_of(type)});
    Value* const slot = slot_of(load, type);
    Value* const is_old = call_routine(module_, b_, b_.getInt1Ty(), "cucpu_rt_schedule_load",
                                       {pointer, slot, bytes_of(type)});
    b_.SetInsertPoint(load.getNextNode());
    Value* const old = b_.CreateLoad(type, slot);
    Value* const value = b_.CreateSelect(is_old, old, &load);
    load.replaceUsesWithIf(value, [&](const Use& use) { return use.getUser() != value; });
  }

  void visit_call(CallInst& call) {
    const Function* const callee = call.getCalledFunction();
    if (callee && callee->getName().starts_with("cucpu_rt_atom_")) {  // atom.inc, atom.dec, ...
      Value* const address = call.getArgOperand(0);
      Value* const pointer =
          address->getType()->isPointerTy() ? address : b_.CreateIntToPtr(address, b_.getPtrTy());
      atomic(pointer, call.getType(), AtomicOrdering::Monotonic);
    } else if (may_access_memory(call)) {
      // A thread that only yields is not synchronized with any other.
      if (callee && callee->getName().starts_with("cucpu.yield"))
        routine("cucpu_rt_schedule_release", {});
      else
        synchronize(call);
    }
  }

  void visit_access(Instruction& i) {
    if (auto* load = dyn_cast<LoadInst>(&i)) {
      visit_load(*load);
    } else if (auto* store = dyn_cast<StoreInst>(&i)) {
      Value* const value = store->getValueOperand();
      if (store->isAtomic() || store->isVolatile())
        return atomic(store->getPointerOperand(), value->getType(), store->getOrdering());
      Value* const slot = slot_of(i, value->getType());
      b_.CreateStore(value, slot);
      routine("cucpu_rt_schedule_store",
              {store->getPointerOperand(), slot, bytes_of(value->getType())});
      store->eraseFromParent();
    } else if (auto* rmw = dyn_cast<AtomicRMWInst>(&i)) {
      atomic(rmw->getPointerOperand(), rmw->getType(), rmw->getOrdering());
    } else if (auto* cas = dyn_cast<AtomicCmpXchgInst>(&i)) {
      atomic(cas->getPointerOperand(), cas->getCompareOperand()->getType(),
             cas->getSuccessOrdering());
    }
  }

  Module& module_;
  const DataLayout& layout_;
  IRBuilder<> b_;
};

}  // namespace

void insert_schedule_points(Module& module) { SchedulePoints{module}.run(); }

}  // namespace cucpu
